//! Memory for copies in flight: copies of pages that are written to storage while callers go on using the pages.

#![allow(unsafe_code)]

use std::ops::Range;

use super::Frames;
use crate::sync::{Condvar, Instant, Mutex, Ordering};

/// The slots of the memory that follow those of the frames.
pub(super) struct Slots {
    count: usize,
    free: Mutex<Vec<u32>>,
    given_back: Condvar,
}

impl Slots {
    /// `None` if there is no memory for the list.
    pub(super) fn new(slots: Range<u32>) -> Option<Self> {
        let mut free = Vec::new();
        free.try_reserve_exact(slots.len()).ok()?;
        free.extend(slots);
        Some(Slots { count: free.len(), free: Mutex::new(free), given_back: Condvar::new() })
    }
}

/// Room for a copy of a page's bytes, which no other thread accesses.
pub(crate) struct CopySlot<'f> {
    frames: &'f Frames,
    slot: u32,
}

impl Frames {
    /// The number of copies that there can be at a time.
    pub(crate) fn most_copies(&self) -> usize {
        self.copies.count
    }

    /// Takes room for `count` copies, or for as many as there can be, and waits until other threads have given theirs
    /// back. A thread takes all that it needs at once, and no more while it has some (`core.rs`, 3).
    pub(crate) fn room_for_copies(&self, count: usize) -> Vec<CopySlot<'_>> {
        let count = count.min(self.copies.count);
        let mut free = self.copies.free.lock();
        while free.len() < count {
            self.copies.given_back.wait(&mut free);
        }
        let from = free.len() - count;
        let slots = free.drain(from..);
        slots.map(|slot| CopySlot { frames: self, slot }).collect()
    }
}

impl CopySlot<'_> {
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the slot is in no list while this lives, so no other thread has it.
        unsafe { self.frames.memory.bytes_mut(self.slot) }
    }

    /// Notes that the page, of which the caller has a shared latch, is about to be written, and copies it. `None` if
    /// it is not dirty, or is being written already.
    pub(crate) fn take(&mut self, latched: &super::SharedLatch<'_>) -> Option<CopyInFlight> {
        let frame = latched.frame();
        let header = self.frames.header(frame);
        if !header.word.begin_write() {
            return None;
        }
        self.bytes_mut().copy_from_slice(latched.bytes());
        // No other thread changes the page meanwhile (`word.rs`, 1), or takes a copy (3).
        let changed = self.frames.changed_at(frame);
        self.frames.changes[frame as usize].took_off(self.frames.now_ms());
        Some(CopyInFlight { frame, page: latched.page(), changed, lsn: self.frames.details(frame).lsn.load(Ordering::Relaxed) })
    }
}

impl Drop for CopySlot<'_> {
    fn drop(&mut self) {
        self.frames.copies.free.lock().push(self.slot);
        self.frames.copies.given_back.notify_all();
    }
}

/// A copy of a page in flight. The owner has to call [`written`](Self::written) or [`failed`](Self::failed).
#[must_use]
pub(crate) struct CopyInFlight {
    pub(crate) frame: u32,
    pub(crate) page: u64,
    pub(crate) lsn: u64,
    /// When the first of its changes was made.
    pub(crate) changed: Instant,
}

impl CopyInFlight {
    /// The copy has reached storage; true if the page is clean now.
    pub(crate) fn written(self, frames: &Frames) -> bool {
        frames.changes[self.frame as usize].landed();
        let landed = frames.header(self.frame).word.written();
        if landed.clean {
            frames.became_clean(self.frame);
        }
        if landed.wake {
            frames.wake(self.frame);
        }
        landed.clean
    }

    /// The copy has not reached storage.
    pub(crate) fn failed(self, frames: &Frames) {
        frames.changes[self.frame as usize].turned_back();
        if frames.header(self.frame).word.write_failed().wake {
            frames.wake(self.frame);
        }
    }
}
