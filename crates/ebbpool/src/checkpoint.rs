//! Checkpoints: everything dirty goes to storage, sorted, while the pool is used on.

use crate::core::{Core, Waiting, Whereabouts};
use crate::error::Error;
use crate::frames::{Awaited, Refusal, State};
use crate::log::Lsn;
use crate::stats::WriteCause;

/// How often a checkpoint writes what is dirty because another thread's write failed meanwhile.
const MOST_PASSES: usize = 4;

/// What a checkpoint has achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Every change up to this LSN, inclusive, is in storage and survives a crash: recovery needs
    /// the log from after it. [`Lsn::MAX`] without a log, and 0 if some page could not be written
    /// meanwhile. Changes of a page that a panic left abandoned, or that was discarded and not yet
    /// [redone](crate::WriteGuard::redone), are not covered.
    pub covered: Lsn,
    /// Pages that were written.
    pub pages: usize,
}

impl Core {
    /// Writes all pages that are dirty now, in ascending order, and syncs. Pages may be changed
    /// meanwhile. It takes time for the dirty pages, not for the frames. Answers an abandoned page too, if
    /// there is one.
    pub(crate) fn checkpoint(&self) -> Result<(Checkpoint, Option<u64>), Error> {
        self.transfer.check_writable()?;
        let begin = self.transfer.log().end_lsn();
        let failed_writes = || self.transfer.counters.failed_writes.get();
        let mut pages = 0;
        // A write by another thread that fails leaves a page dirty that this checkpoint took for written: then it
        // writes what is dirty once more.
        for _ in 0..MOST_PASSES {
            let failed_before = failed_writes();
            let dirty = self.dirty_pages();
            let (written, abandoned) = self.write_pages(&dirty)?;
            pages += written;
            // What is dirty now is not covered, even if another thread takes a copy of it from here on: that may
            // still be on its way when the storage is synced. Copies taken before are waited for.
            let left_before = self.first_left();
            self.wait_for_writes_by_others(&dirty)?;
            self.transfer.sync()?;
            let first_left = left_before.into_iter().chain(self.first_left()).min();
            if failed_writes() != failed_before {
                continue;
            }
            let covered = match begin {
                0 => Lsn::MAX,
                begin => first_left.map_or(begin, |lsn| begin.min(lsn - 1)),
            };
            self.frames.note_covered(begin);
            return Ok((Checkpoint { covered, pages }, abandoned));
        }
        let covered = 0;
        Ok((Checkpoint { covered, pages }, None))
    }

    /// Pages that are dirty now and their frames, ascending.
    fn dirty_pages(&self) -> Vec<(u64, u32)> {
        let frames = self.frames.dirty().frames().into_iter();
        let mut dirty: Vec<_> = frames.map(|it| (self.frames.page_in(it), it)).collect();
        dirty.sort_unstable();
        dirty
    }

    /// Writes those of the pages that are still dirty, and answers how many, and one that is abandoned.
    fn write_pages(&self, dirty: &[(u64, u32)]) -> Result<(usize, Option<u64>), Error> {
        let (mut written, mut abandoned) = (0, None);
        for batch in dirty.chunks(self.frames.most_copies()) {
            let mut latches = Vec::with_capacity(batch.len());
            for &(page, frame) in batch {
                let mut waiting = Waiting::new(self);
                loop {
                    let since = self.frames.version_now(frame);
                    let awaited = match self.frames.share(frame, false) {
                        // Another thread writes a copy that does not have the page's latest changes.
                        Ok((latch, _)) if latch.page() == page && self.is_redirtied(frame) => {
                            Awaited::Landing
                        }
                        Ok((latch, _)) if latch.page() == page => {
                            latches.push(latch);
                            break;
                        }
                        Err(Refusal::Abandoned) if self.frames.page_in(frame) == page => {
                            abandoned.get_or_insert(page);
                            break;
                        }
                        // It has left, and so it was written, or it was discarded.
                        Ok(_) | Err(Refusal::Empty | Refusal::Abandoned) => break,
                        Err(Refusal::Busy) => Awaited::Shared { since },
                    };
                    // No thread is to wait for these because this one waits for another.
                    let latched = std::mem::take(&mut latches);
                    written += self.write_latched(latched, WriteCause::Checkpoint, true)?;
                    waiting.for_latch(frame, page, awaited)?;
                }
            }
            written += self.write_latched(latches, WriteCause::Checkpoint, true)?;
        }
        Ok((written, abandoned))
    }

    /// The LSN of the earliest change of which no copy was taken.
    fn first_left(&self) -> Option<Lsn> {
        let dirty = self.frames.dirty().frames().into_iter();
        let first = dirty.map(|frame| self.frames.first_lsn(frame));
        let first = first.filter(|&lsn| lsn > 0).min();
        // In this order: a page that is discarded in between is noted there before it leaves here.
        first
            .into_iter()
            .chain(self.frames.discarded().first())
            .min()
    }

    fn is_redirtied(&self, frame: u32) -> bool {
        self.frames.state(frame) == State::Redirtied
    }

    /// Copies that other threads had taken before may still be on their way.
    fn wait_for_writes_by_others(&self, dirty: &[(u64, u32)]) -> Result<(), Error> {
        for &(page, frame) in dirty {
            let mut waiting = Waiting::new(self);
            while self.frames.state(frame).is_in_flight() && self.frames.page_in(frame) == page {
                waiting.for_latch(frame, page, Awaited::Landing)?;
            }
        }
        let mut policy = self.policy();
        for page in policy.all_leaving() {
            Waiting::new(self).for_write(&mut policy, page)?;
        }
        Ok(())
    }

    /// Writes one page, if it is resident and dirty, and syncs.
    pub(crate) fn flush(&self, page: u64) -> Result<(), Error> {
        self.transfer.check_writable()?;
        let mut waiting = Waiting::new(self);
        loop {
            let frame = match self.whereabouts(page) {
                Whereabouts::Resident(frame) => frame,
                Whereabouts::NotResident => break,
                Whereabouts::Leaving => {
                    // If it cannot be written it comes back, and is dirty.
                    waiting.for_write(&mut self.policy(), page)?;
                    continue;
                }
            };
            let since = self.frames.version_now(frame);
            match self.frames.share(frame, false) {
                Ok((latch, _)) if latch.page() == page => {
                    let written = self.write_latched(vec![latch], WriteCause::Flush, true)?;
                    if written > 0 || !self.frames.state(frame).is_changed() {
                        break;
                    }
                    // Another thread writes it, which may fail.
                    waiting.for_latch(frame, page, Awaited::Landing)?;
                }
                Err(Refusal::Abandoned) if self.frames.page_in(frame) == page => {
                    return Err(Error::Abandoned { page });
                }
                Ok(_) | Err(Refusal::Empty | Refusal::Abandoned) => {}
                Err(Refusal::Busy) => {
                    waiting.for_latch(frame, page, Awaited::Shared { since })?;
                }
            }
        }
        self.transfer.sync()
    }
}
