//! The number of frames changes while callers go on using the pool.
//!
//! The frames in use are the first ones. To have fewer, the pool lets no page into the others any more, evicts the policy's next
//! victims, wherever they are, and moves the pages that are left in those frames to frames that have become empty. So the pages that
//! stay are those that the policy would keep, and none of them is written because of its frame.

use crate::core::{PoolShared, Waiting};
use crate::error::{OptionsError, PoolError};
use crate::frames::WaitCondition;
use crate::replacement::Vacated;
use crate::stats::WriteCause;
use crate::sync::thread;

/// The most dirty victims that are written at a time.
const BATCH: usize = 64;

/// The share of the frames that a step takes away is one part in this many.
const STEPS: u32 = 16;

impl PoolShared {
    pub(crate) fn resize(&self, frames: u32, resizable: bool) -> Result<(), PoolError> {
        self.check_callbacks()?;
        let most = resizable.then_some(self.frames.most());
        if frames == 0 || most.is_none_or(|most| frames > most) {
            return Err(OptionsError::ResizeTo { frames, most }.into());
        }
        let _only_this = self.resizing.lock();
        let before = self.frames.count();
        if frames >= before {
            self.frames.memory().clear(before..frames);
            let mut policy = self.policy();
            policy.policy().resize(frames);
            self.set_frames(frames);
            return Ok(());
        }
        while self.frames.count() > frames {
            // A step at a time: if guards have the pages, others find as many frames as are left.
            let from = self.frames.count();
            let to = frames.max(from - (from / STEPS).max(1));
            {
                let mut policy = self.policy();
                self.set_frames(to);
                policy.leave_empty(to);
            }
            if let Err(error) = (to..from).rev().try_for_each(|frame| self.empty(frame, from)) {
                let mut policy = self.policy();
                self.set_frames(before);
                policy.use_again(to..before, &self.frames);
                return Err(error);
            }
        }
        self.policy().end_resize(frames);
        self.frames.memory().release(frames..before);
        Ok(())
    }

    /// Under the policy's lock.
    fn set_frames(&self, frames: u32) {
        self.frames.set_count(frames);
        self.limits.set_frames(frames);
    }

    /// Empties a frame, the last of those before `end` that may have a page: it is no longer in use, and no page comes into it.
    fn empty(&self, frame: u32, end: u32) -> Result<(), PoolError> {
        let mut waiting = Waiting::new(self);
        loop {
            let vacated = {
                let mut policy = self.policy();
                policy.take_all_hits(&self.rings, &self.frames);
                policy.vacate_unused(frame, self.view())
            };
            match vacated {
                Vacated::Done => return Ok(()),
                // Others have their turn at the lock.
                Vacated::NotYet => thread::yield_now(),
                Vacated::Busy => waiting.for_latch(frame, self.frames.page_in(frame), WaitCondition::Drop)?,
                Vacated::AllPinned => waiting.for_frame(end)?,
                Vacated::Dirty => {
                    let dirty = {
                        let mut policy = self.policy();
                        let leave = policy.to_leave(&self.frames);
                        policy.next_dirty(BATCH.min(leave), true, &self.frames)
                    };
                    self.write_frames(dirty, WriteCause::Background)?;
                }
            }
        }
    }
}
