//! Scans: pages that are read once must not evict pages that are used again.

use std::collections::VecDeque;

use crate::core::PoolShared;

/// The number of frames that a scan takes from other pages at most.
const FRAMES: usize = 32;

/// One scan over many pages, for [`Pool::fix_scan`](crate::Pool::fix_scan).
///
/// Once the scan has fetched 32 pages, each further page that it fetches replaces one that it fetched before. So a
/// scan takes 32 frames of the pool, or an eighth of them if that is less, however long it is. A page that was
/// resident stays in its frame. A scan that goes on in another pool begins anew there.
#[derive(Debug, Default)]
pub struct PoolScan {
    /// The number of the pool that it scans ([`HitRings`](crate::rings::HitRings) numbers pools).
    pool: Option<u64>,
    /// Frames that it fetched pages into, and the frame's number of admissions at that time.
    own: VecDeque<(u32, u32)>,
}

impl PoolScan {
    /// A scan that has not begun.
    pub fn new() -> Self {
        PoolScan::default()
    }

    /// A frame to take in place of the policy's victim.
    pub(crate) fn preferred(&mut self, core: &PoolShared) -> Option<u32> {
        self.enter(core);
        let frames = &core.frames;
        if self.own.len() < FRAMES.min(frames.count() as usize / 8).max(1) {
            return None;
        }
        let (frame, admissions) = self.own.pop_front()?;
        let still_own = frames.admissions(frame) == admissions;
        (still_own && frame < frames.count() && frames.is_evictable(frame)).then_some(frame)
    }

    /// The scan has fetched a page into this frame.
    pub(crate) fn note_fetched(&mut self, frame: u32, core: &PoolShared) {
        self.enter(core);
        self.own.push_back((frame, core.frames.admissions(frame)));
    }

    /// Forgets the frames of another pool, which mean nothing in this one.
    fn enter(&mut self, core: &PoolShared) {
        let pool = Some(core.rings.pool());
        if self.pool != pool {
            self.pool = pool;
            self.own.clear();
        }
    }
}
