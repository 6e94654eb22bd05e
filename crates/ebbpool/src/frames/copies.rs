//! Memory for copies of pages that are on their way to storage while they are used on.

#![allow(unsafe_code)]

use std::ops::Range;

use super::Frames;
use crate::sync::{Condvar, Mutex, Ordering};

/// Slots of the memory after those of the frames.
pub(super) struct Slots {
    count: usize,
    free: Mutex<Vec<u32>>,
    given_back: Condvar,
}

impl Slots {
    pub(super) fn new(slots: Range<u32>) -> Self {
        Slots {
            count: slots.len(),
            free: Mutex::new(slots.collect()),
            given_back: Condvar::new(),
        }
    }
}

/// A page's bytes to be written, which nobody else looks at.
pub(crate) struct Copied<'f> {
    frames: &'f Frames,
    slot: u32,
}

impl Frames {
    /// Copies that there can be at a time.
    pub(crate) fn most_copies(&self) -> usize {
        self.copies.count
    }

    /// Room for `count` copies, or for as many as there can be; waits for what other threads have. A thread asks
    /// for all that it needs at once, and for no more while it has some (`core.rs`, 3).
    pub(crate) fn room_for_copies(&self, count: usize) -> Vec<Copied<'_>> {
        let count = count.min(self.copies.count);
        let mut free = self.copies.free.lock();
        while free.len() < count {
            self.copies.given_back.wait(&mut free);
        }
        let from = free.len() - count;
        let slots = free.drain(from..);
        slots.map(|slot| Copied { frames: self, slot }).collect()
    }
}

impl Copied<'_> {
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the slot is in no list while this lives, so nobody else has it.
        unsafe { self.frames.memory.bytes_mut(self.slot) }
    }

    /// Notes that the page in `frame`, of which the caller has a shared latch, is about to be
    /// written, and copies it. Nothing if it is not dirty, or is being written already.
    pub(crate) fn take(&mut self, latched: &super::Shared<'_>) -> Option<Taken> {
        let frame = latched.frame();
        let header = self.frames.header(frame);
        if !header.word.begin_write() {
            return None;
        }
        self.bytes_mut().copy_from_slice(latched.bytes());
        // No other thread changes the page meanwhile (`word.rs`, 1), or takes a copy (3).
        self.frames.changes[frame as usize].took_off();
        Some(Taken {
            frame,
            page: latched.page(),
            lsn: self.frames.details(frame).lsn.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Copied<'_> {
    fn drop(&mut self) {
        self.frames.copies.free.lock().push(self.slot);
        self.frames.copies.given_back.notify_all();
    }
}

/// A page of which a copy is on its way to storage. One of the two has to be called.
#[must_use]
pub(crate) struct Taken {
    pub(crate) frame: u32,
    pub(crate) page: u64,
    pub(crate) lsn: u64,
}

impl Taken {
    /// The copy has reached storage; true if the page is clean now.
    pub(crate) fn written(self, frames: &Frames) -> bool {
        // Before another copy can be taken.
        let changes = &frames.changes[self.frame as usize];
        changes.in_flight.store(0, Ordering::Release);
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
        // Before the page is dirty again: a checkpoint that finds it so asks for the first LSN then.
        let changes = &frames.changes[self.frame as usize];
        changes.note_first(changes.in_flight.load(Ordering::Acquire));
        if frames.header(self.frame).word.write_failed().wake {
            frames.wake(self.frame);
        }
    }
}
