//! How many operations work on pages at the same time. Each of them latches some, and if more had begun than the
//! frames are enough for, all would wait for frames until their patience ends.

use crate::sync::{Condvar, Mutex};

/// The most frames that one operation needs at the same time, with room for write-back beside it.
const FRAMES_OF_ONE: u64 = 8;

/// Lets in a number of operations in the order in which they come, and has others wait.
#[derive(Debug)]
pub(crate) struct Admission {
    places: u64,
    counts: Mutex<Counts>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    /// Operations that came so far.
    came: u64,
    /// Those that have left.
    left: u64,
}

/// Held by an operation while it uses pages.
pub(crate) struct Admitted<'a>(&'a Admission);

impl Admission {
    pub(crate) fn new(frames: u32) -> Self {
        Admission { places: (u64::from(frames) / FRAMES_OF_ONE).max(1), counts: Mutex::default(), left: Condvar::new() }
    }

    /// Waits until the operation may begin. The caller holds no latch, and waits for no lock of a key before it drops
    /// what this returns.
    pub(crate) fn enter(&self) -> Admitted<'_> {
        let mut counts = self.counts.lock();
        let before = counts.came;
        counts.came += 1;
        self.left.wait_while(&mut counts, |counts| before >= counts.left + self.places);
        Admitted(self)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts.lock();
        counts.left += 1;
        if counts.came >= counts.left + self.0.places {
            self.0.left.notify_all();
        }
    }
}
