//! Locks between the handles of this process. The lock of the real file stops other processes.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::{SqliteCode, SqliteResult};
use crate::ffi;

/// The locks of the database file, as SQLite's document "File Locking And Concurrency" has them.
#[derive(Default)]
pub(crate) struct FileLocks {
    shared: u32,
    reserved: Option<u64>,
    pending: Option<u64>,
    exclusive: Option<u64>,
}

impl FileLocks {
    /// Raises the level of a handle; leaves what was reached if another handle is in the way.
    pub(crate) fn lock(&mut self, handle: u64, level: &mut c_int, wanted: c_int) -> SqliteResult<()> {
        let of_other = |holder: Option<u64>| holder.is_some_and(|holder| holder != handle);
        if *level == 0 {
            if of_other(self.pending) || of_other(self.exclusive) {
                return Err(SqliteCode::BUSY);
            }
            self.shared += 1;
            *level = ffi::LOCK_SHARED;
        }
        if wanted == ffi::LOCK_RESERVED && *level < ffi::LOCK_RESERVED {
            if of_other(self.reserved) || of_other(self.pending) {
                return Err(SqliteCode::BUSY);
            }
            self.reserved = Some(handle);
            *level = ffi::LOCK_RESERVED;
        }
        if wanted == ffi::LOCK_EXCLUSIVE && *level < ffi::LOCK_EXCLUSIVE {
            if of_other(self.pending) || of_other(self.reserved) {
                return Err(SqliteCode::BUSY);
            }
            self.pending = Some(handle);
            *level = (*level).max(ffi::LOCK_PENDING);
            if self.shared > 1 {
                return Err(SqliteCode::BUSY);
            }
            self.exclusive = Some(handle);
            *level = ffi::LOCK_EXCLUSIVE;
        }
        Ok(())
    }

    /// Lowers the level of a handle.
    pub(crate) fn unlock(&mut self, handle: u64, level: &mut c_int, wanted: c_int) {
        if *level <= wanted {
            return;
        }
        for lock in [&mut self.reserved, &mut self.pending, &mut self.exclusive] {
            if *lock == Some(handle) {
                *lock = None;
            }
        }
        if wanted == 0 {
            self.shared -= 1;
        }
        *level = wanted;
    }

    /// True if no handle has a lock.
    pub(crate) fn are_free(&self) -> bool {
        self.shared == 0
    }

    /// True if a handle writes, or is about to.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.or(self.pending).or(self.exclusive).is_some()
    }
}

/// Slots of SQLite's locks of its WAL: one for the writer, one for checkpoints, one for recovery, five for readers.
const SLOTS: usize = 8;
/// The slot of the writer.
pub(crate) const WRITER: usize = 0;
/// That of who makes a checkpoint.
const CHECKPOINTER: usize = 1;
/// That of who makes the index anew.
const RECOVERER: usize = 2;
/// The slots of readers that read the WAL. The one before is that of readers of the main file alone.
const READERS: std::ops::Range<usize> = 4..SLOTS;

/// A region of the index of SQLite's WAL. A handle that has mapped it shares it: SQLite uses it until it unmaps it, whatever has
/// become of the database.
pub(crate) type Region = Arc<[AtomicU64]>;

/// The index of SQLite's WAL, in memory, and its locks.
#[derive(Default)]
pub(crate) struct WalIndex {
    regions: Vec<Region>,
    pub(crate) users: u32,
    shared: [u32; SLOTS],
    alone: [Option<u64>; SLOTS],
    /// The last frame that each handle reads which reads the WAL.
    snapshots: HashMap<u64, u64>,
    /// The number of the last change when the writer got its lock.
    change_before: Option<u32>,
}

/// The slots that one handle has locked, as bits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slots {
    shared: u8,
    alone: u8,
}

impl WalIndex {
    /// Locks slots for a handle, all or none of them. Returns true if the handle may write from now on.
    pub(crate) fn lock(
        &mut self,
        handle: u64,
        held: &mut Slots,
        slots: std::ops::Range<usize>,
        exclusive: bool,
    ) -> SqliteResult<bool> {
        if slots.end > SLOTS {
            return Err(SqliteCode::MISUSE);
        }
        for slot in slots.clone() {
            let others = self.shared[slot] - u32::from(held.shared >> slot & 1);
            if self.alone[slot].is_some_and(|holder| holder != handle) || (exclusive && others > 0) {
                return Err(SqliteCode::BUSY);
            }
        }
        let writes = exclusive && slots.contains(&WRITER);
        if writes {
            self.change_before = self.change();
        }
        for slot in slots {
            let bit = 1 << slot;
            if exclusive {
                self.alone[slot] = Some(handle);
                held.alone |= bit;
            } else if held.shared & bit == 0 {
                self.shared[slot] += 1;
                held.shared |= bit;
                if READERS.contains(&slot) {
                    self.snapshots.insert(handle, self.last_frame().unwrap_or(0));
                }
            }
        }
        Ok(writes)
    }

    /// Unlocks slots of a handle.
    pub(crate) fn unlock(&mut self, handle: u64, held: &mut Slots, slots: std::ops::Range<usize>) {
        for slot in slots.start..slots.end.min(SLOTS) {
            let bit = 1 << slot;
            if held.alone & bit != 0 {
                self.alone[slot] = None;
                held.alone &= !bit;
            }
            if held.shared & bit != 0 {
                self.shared[slot] -= 1;
                held.shared &= !bit;
            }
        }
        if READERS.clone().all(|slot| held.shared >> slot & 1 == 0) {
            self.snapshots.remove(&handle);
        }
    }

    /// True if no handle reads frames and SQLite is about to make the index anew: it has no user; or one that locks these slots has found
    /// it blank, as a program has left it that keeps all others out (SQLite's test_superlock.c).
    pub(crate) fn is_made_anew(&self, slots: &std::ops::Range<usize>) -> bool {
        let is_blank = || self.regions.first().is_some_and(|region| region[0].load(Ordering::Acquire) == 0);
        self.users == 0 || (slots.contains(&RECOVERER) && self.snapshots.is_empty() && is_blank())
    }

    /// The writer lets go of its lock. If it has committed, it reads that as well. One that has found its snapshot to be an earlier
    /// one (SQLITE_BUSY_SNAPSHOT) has not, and goes on reading that.
    pub(crate) fn writer_ends(&mut self, handle: u64) {
        if self.change() == self.change_before {
            return;
        }
        let last = self.last_frame().unwrap_or(0);
        if let Some(snapshot) = self.snapshots.get_mut(&handle) {
            *snapshot = last;
        }
    }

    /// True if a handle reads a frame, or the next one that begins to read would, while `next` is the next frame of the same page. The
    /// writer may read all that it has not committed yet: for their checksums, for example (wal.c: `walRewriteChecksums`). A checkpoint
    /// reads what was the newest frame of each page some time after it has locked its slot.
    pub(crate) fn shows(&self, frame: u64, next: u64) -> bool {
        let Some(newest) = self.last_frame() else {
            return true;
        };
        frame > newest
            || self.alone[CHECKPOINTER].is_some()
            || self.snapshots.values().chain([&newest]).any(|last| (frame..next).contains(last))
    }

    /// True if no handle has a slot locked.
    pub(crate) fn is_free(&self) -> bool {
        self.shared.iter().all(|count| *count == 0) && self.alone.iter().all(Option::is_none)
    }

    /// The counter of commits in the header of the index (iChange, the upper word of which has other fields); `None` if there is no
    /// index here.
    fn change(&self) -> Option<u32> {
        let word = self.regions.first()?.get(1)?.load(Ordering::Acquire).to_ne_bytes();
        Some(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
    }

    /// The last frame of the WAL that is committed, as the header of the index says (SQLite's walformat.html, 2.2); `None` if
    /// there is no index here.
    pub(crate) fn last_frame(&self) -> Option<u64> {
        // mxFrame is the lower half, by address, of the third word.
        let word = self.regions.first()?.get(2)?.load(Ordering::Acquire);
        let bytes = word.to_ne_bytes();
        let frames = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Some(u64::from(frames))
    }

    /// True if no handle but one, the writer, reads the WAL: after the commit SQLite can make room in it.
    pub(crate) fn has_one_reader(&self) -> bool {
        self.shared.iter().sum::<u32>() <= 1
    }

    /// Drops all locks of a handle, and the index with its last user.
    pub(crate) fn leave(&mut self, handle: u64, held: &mut Slots) {
        self.unlock(handle, held, 0..SLOTS);
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.regions.clear();
        }
    }

    /// A region of the index as SQLite maps it; `None` if it does not exist and is not to be made.
    pub(crate) fn region(&mut self, index: usize, bytes: usize, extend: bool) -> Option<Region> {
        while self.regions.len() <= index {
            if !extend {
                return None;
            }
            self.regions.push((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
        }
        Some(Arc::clone(&self.regions[index]))
    }
}
