//! Room for the log on the disk: blocks are reserved ahead, so that a full disk is an error of the operation that needs
//! more, before it changes anything, and not of a write that the log depends on.
//!
//! Each operation is promised as many bytes as it may log; a transaction keeps a promise for its rollback. Commits and rollbacks
//! therefore need not ask. What changes leave is there for deletes, what these leave for checkpoints, which let the log continue
//! in the other file, and what these leave for the splits of rollbacks.

use std::io;

use ebbpool::Log;

use super::header;
use super::{Position, Wal};
use crate::error::DatabaseError;
use crate::sync::Ordering;

/// Blocks are reserved for at most this many bytes at once.
const MOST_AHEAD: u64 = 1 << 20;

/// In pages, the room that both files of a new log have.
const LEAST_ROOM: u64 = 64;

/// What room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomUse {
    Change,
    Delete,
    Checkpoint,
}

impl RoomUse {
    /// The pages that are left for uses after it, and for the splits of rollbacks.
    fn leaves(self) -> u64 {
        match self {
            RoomUse::Change => 40,
            RoomUse::Delete => 16,
            RoomUse::Checkpoint => 8,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct LogRoom {
    /// The current file has blocks up to this position.
    pub(super) end: Position,
    /// Bytes behind the log's end that operations and rollbacks may still log.
    promised: u64,
}

/// Room that an operation may use.
pub(crate) struct PromisedRoom<'w> {
    wal: &'w Wal,
    bytes: u64,
}

impl Drop for PromisedRoom<'_> {
    fn drop(&mut self) {
        self.wal.release_room(self.bytes);
    }
}

impl Wal {
    /// Promises room for an operation that logs at most this many bytes.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Full`], or [`DatabaseError::Log`] if a write of the log still fails.
    pub(crate) fn promise_room(&self, bytes: u64, room_use: RoomUse) -> Result<PromisedRoom<'_>, DatabaseError> {
        if self.unwritten.load(Ordering::Relaxed) {
            self.write().map_err(as_full)?;
        }
        let mut room = self.room.lock();
        let end = self.end_lsn();
        let left = self.pages(room_use.leaves());
        let needed = end.saturating_add(room.promised).saturating_add(bytes).saturating_add(left);
        if needed > room.end {
            let layout = *self.layout.read();
            let file = &*self.files[layout.current];
            let (_, from) = layout.locate(end);
            let ahead = self.turn_bytes.min(MOST_AHEAD).max(self.pages(LEAST_ROOM));
            let reserve = |to: Position| file.reserve(from, from + (to - end)).map(|()| to);
            match reserve(needed.saturating_add(ahead)).or_else(|_| reserve(needed)) {
                Ok(to) => room.end = to,
                Err(source) => return Err(self.note_full(source)),
            }
        }
        room.promised = room.promised.saturating_add(bytes);
        Ok(PromisedRoom { wal: self, bytes })
    }

    /// Keeps room, which was promised to the caller's operation, for a rollback.
    pub(crate) fn keep_room(&self, bytes: u64) {
        let promised = &mut self.room.lock().promised;
        *promised = promised.saturating_add(bytes);
    }

    /// Takes back what was kept.
    pub(crate) fn release_room(&self, bytes: u64) {
        let promised = &mut self.room.lock().promised;
        *promised = promised.saturating_sub(bytes);
    }

    /// Reserves what is promised, and what a new log has or at least what changes leave, at the beginning of a file. Returns the
    /// number of bytes.
    pub(super) fn reserve_in(&self, file: usize) -> io::Result<u64> {
        let promised = self.room.lock().promised;
        let reserve = |pages| {
            let bytes = promised.saturating_add(self.pages(pages));
            self.files[file].reserve(header::LENGTH, header::LENGTH + bytes).map(|()| bytes)
        };
        reserve(LEAST_ROOM).or_else(|_| reserve(RoomUse::Change.leaves()))
    }

    /// Reserves room for a recovery that logs at most this many bytes, since opening has cut off what was reserved, and as much of
    /// what uses leave as there is.
    pub(crate) fn reserve_for_recovery(&self, bytes: u64) {
        let (layout, end) = (*self.layout.read(), self.end_lsn());
        let (file, from) = layout.locate(end);
        for room_use in [RoomUse::Change, RoomUse::Delete, RoomUse::Checkpoint] {
            let bytes = bytes + self.pages(room_use.leaves());
            if self.files[file].reserve(from, from + bytes).is_ok() {
                self.room.lock().end = end + bytes;
                return;
            }
        }
    }

    fn pages(&self, count: u64) -> u64 {
        u64::from(self.identity.page_size).saturating_mul(count)
    }
}

/// Converts the error of a write that found no room: nothing of the operation has been logged yet.
fn as_full(error: DatabaseError) -> DatabaseError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error {
        DatabaseError::Log { source, .. } if [FileTooLarge, QuotaExceeded, StorageFull].contains(&source.kind()) => {
            DatabaseError::Full { source }
        }
        error => error,
    }
}
