//! Scans: pages that are read once must not push out those that are used again.

use std::collections::VecDeque;

use crate::core::Core;

/// Frames that a scan takes from others at most.
const FRAMES: usize = 32;

/// One scan over many pages, for [`Pool::fix_scan`](crate::Pool::fix_scan).
///
/// Pages that it brings in take the places of pages that it brought in before, once it has 32; so a
/// scan costs the pool 32 frames, or an eighth of them, however long it is. A page that was resident
/// stays where it is. A scan that goes on in another pool begins anew there.
#[derive(Debug, Default)]
pub struct Scan {
    /// The pool that it scans, as [`Rings`](crate::rings::Rings) number pools.
    pool: Option<u64>,
    /// Frames that it brought pages into, and which of the pages they have seen that was.
    own: VecDeque<(u32, u32)>,
}

impl Scan {
    /// Has not begun.
    pub fn new() -> Self {
        Scan::default()
    }

    /// A frame to take in place of the policy's victim.
    pub(crate) fn instead(&mut self, core: &Core) -> Option<u32> {
        self.belongs_to(core);
        let frames = &core.frames;
        if self.own.len() < FRAMES.min(frames.count() as usize / 8).max(1) {
            return None;
        }
        let (frame, admissions) = self.own.pop_front()?;
        let still_own = frames.admissions(frame) == admissions;
        (still_own && frames.may_leave(frame)).then_some(frame)
    }

    /// A page was brought into this frame.
    pub(crate) fn brought_in(&mut self, frame: u32, core: &Core) {
        self.belongs_to(core);
        self.own.push_back((frame, core.frames.admissions(frame)));
    }

    /// Frames of another pool mean nothing in this one.
    fn belongs_to(&mut self, core: &Core) {
        let pool = Some(core.rings.pool());
        if self.pool != pool {
            self.pool = pool;
            self.own.clear();
        }
    }
}
