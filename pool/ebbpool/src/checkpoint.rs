//! Checkpoints: all dirty pages are written to storage, sorted, while callers go on using the pool.

use crate::core::{PageLocation, PoolShared, Waiting, WriteCounts};
use crate::error::PoolError;
use crate::frames::{LatchRefusal, SharedLatch, WaitCondition};
use crate::log::Lsn;
use crate::stats::WriteCause;

/// The number of times that a checkpoint writes the dirty pages, because an eviction was undone, or a page moved, meanwhile.
const MOST_PASSES: usize = 4;

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Every change up to this LSN, inclusive, is in storage and survives a crash: recovery needs the log from after
    /// it. [`Lsn::MAX`] without a log, and 0 if its log has no record yet, some page could not be written
    /// meanwhile, or a resized pool moved dirty pages all the time. Changes of a page that a
    /// panic left abandoned, or that was discarded and not yet [redone](crate::WriteGuard::redone), are not covered.
    pub covered: Lsn,
    /// The number of pages written.
    pub pages: usize,
}

/// What a checkpoint has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointOutcome {
    /// Every page that was dirty is in storage, except for an abandoned one, if there is one.
    Complete { checkpoint: Checkpoint, abandoned: Option<u64> },
    /// Evictions were undone, or pages moved, in each pass, so that some page may be dirty still. The number of pages written.
    Incomplete { pages: usize },
}

impl PoolShared {
    /// Writes all pages that are dirty now, in ascending order, and syncs. Pages may be changed meanwhile. The time
    /// depends on the number of dirty pages, not of frames.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointOutcome, PoolError> {
        self.check_callbacks()?;
        self.transfer.check_unpoisoned()?;
        let begin = self.transfer.log().end_lsn();
        let mut pages = 0;
        // A page that is being evicted is not among the dirty ones. If it cannot be written, it is dirty again, and
        // then the dirty pages are written once more. So they are if one has moved to another frame.
        for _ in 0..MOST_PASSES {
            let returned = self.policy().returned();
            for page in self.torn_pads.pages() {
                self.load(page)?;
            }
            let dirty = self.dirty_pages();
            let (written, abandoned) = self.write_pages(&dirty)?;
            pages += written;
            // Changes that are dirty now are not covered, even if another thread copies the page from here on.
            // Changes in copies in flight are not covered either: they may still be in flight when the storage is
            // synced.
            let unwritten_before = self.frames.first_unwritten();
            self.wait_for_evictions()?;
            self.transfer.sync()?;
            let first_unwritten = unwritten_before.into_iter().chain(self.frames.first_unwritten()).min();
            // Fetching a page may have evicted others, whose blocks were written whole.
            let torn = !self.torn_pads.pages().is_empty();
            if torn || self.policy().returned() != returned {
                continue;
            }
            let covered = match begin {
                // Without a log.
                Lsn::MAX => Lsn::MAX,
                begin => first_unwritten.map_or(begin, |lsn| begin.min(lsn - 1)),
            };
            if begin != Lsn::MAX {
                self.frames.note_covered(begin);
            }
            return Ok(CheckpointOutcome::Complete { checkpoint: Checkpoint { covered, pages }, abandoned });
        }
        Ok(CheckpointOutcome::Incomplete { pages })
    }

    /// Pages that are dirty now and their frames, ascending.
    fn dirty_pages(&self) -> Vec<(u64, u32)> {
        let frames = self.frames.dirty().frames().into_iter();
        let mut dirty: Vec<_> = frames.map(|it| (self.frames.page_in(it), it)).collect();
        dirty.sort_unstable();
        dirty
    }

    /// Ensures that each of the pages that is still resident was clean once, or written, since the call began.
    /// Returns the number of pages written, and a page that is abandoned, if there is one.
    fn write_pages(&self, dirty: &[(u64, u32)]) -> Result<(usize, Option<u64>), PoolError> {
        let (mut pages, mut abandoned) = (0, None);
        for batch in dirty.chunks(self.frames.most_copies()) {
            let mut batch = batch.to_vec();
            while !batch.is_empty() {
                let mut again = Vec::new();
                let mut latches = Vec::with_capacity(batch.len());
                for (page, frame) in batch {
                    let (is_abandoned, written) = self.latch_to_write(page, frame, &mut latches)?;
                    pages += written.pages;
                    again.extend(written.left_to_others);
                    if is_abandoned {
                        abandoned.get_or_insert(page);
                    }
                }
                let written = self.write_latched(latches, WriteCause::Checkpoint, true)?;
                pages += written.pages;
                again.extend(written.left_to_others);
                batch = again;
            }
        }
        Ok((pages, abandoned))
    }

    /// Adds the latch of a page to the latches of pages to be written, if the page is still resident; true if it is
    /// abandoned. Before it waits for the latch, or for another thread's copy, it writes the pages latched so far, so
    /// that other threads need not wait for these meanwhile.
    fn latch_to_write<'c>(
        &'c self,
        page: u64,
        frame: u32,
        latches: &mut Vec<SharedLatch<'c>>,
    ) -> Result<(bool, WriteCounts), PoolError> {
        let mut waiting = Waiting::new(self);
        let mut written = WriteCounts::default();
        loop {
            let awaited = match self.frames.share(frame, false) {
                // That copy may lack the page's latest changes, and its write may fail.
                Ok((latch, _)) if latch.page() == page && latch.state().is_in_flight() => WaitCondition::Landing,
                Ok((latch, _)) if latch.page() == page => {
                    latches.push(latch);
                    return Ok((false, written));
                }
                Err(LatchRefusal::Abandoned) if self.frames.page_in(frame) == page => {
                    return Ok((true, written));
                }
                // It was evicted, and so it was written, or it was discarded.
                Ok(_) | Err(LatchRefusal::Empty | LatchRefusal::Abandoned) => {
                    return Ok((false, written));
                }
                Err(LatchRefusal::Busy) if self.frames.page_in(frame) != page => {
                    return Ok((false, written));
                }
                Err(LatchRefusal::Busy) => WaitCondition::Shared { polite_since: None },
            };
            let latched = std::mem::take(latches);
            let more = self.write_latched(latched, WriteCause::Checkpoint, true)?;
            written.pages += more.pages;
            written.left_to_others.extend(more.left_to_others);
            waiting.for_latch(frame, page, awaited)?;
        }
    }

    /// Waits until the evictions that are under way have ended.
    fn wait_for_evictions(&self) -> Result<(), PoolError> {
        let mut policy = self.policy();
        for page in policy.pages_being_evicted() {
            Waiting::new(self).for_write(&mut policy, page)?;
        }
        Ok(())
    }

    /// Writes one page, if it is resident and dirty, and syncs.
    pub(crate) fn flush(&self, page: u64) -> Result<(), PoolError> {
        self.check_callbacks()?;
        self.transfer.check_unpoisoned()?;
        if self.torn_pads.contains(page) {
            self.load(page)?;
        }
        let mut waiting = Waiting::new(self);
        loop {
            let frame = match self.locate(page) {
                PageLocation::Resident(frame) => frame,
                PageLocation::NotResident => break,
                PageLocation::BeingEvicted => {
                    // If it cannot be written it stays resident, and is dirty.
                    waiting.for_write(&mut self.policy(), page)?;
                    continue;
                }
            };
            match self.frames.share(frame, false) {
                Ok((latch, _)) if latch.page() == page => {
                    // Writers need not let it go first while it writes.
                    waiting.leave_queue();
                    let written = self.write_latched(vec![latch], WriteCause::Flush, true)?;
                    if written.left_to_others.is_empty() {
                        break;
                    }
                    // That thread's copy may lack the page's latest changes, and its write may fail.
                    waiting.for_latch(frame, page, WaitCondition::Landing)?;
                }
                Err(LatchRefusal::Abandoned) if self.frames.page_in(frame) == page => {
                    return Err(PoolError::Abandoned { page });
                }
                Ok(_) | Err(LatchRefusal::Empty | LatchRefusal::Abandoned) => {}
                Err(LatchRefusal::Busy) => {
                    waiting.for_latch(frame, page, WaitCondition::Shared { polite_since: None })?;
                }
            }
        }
        self.transfer.sync()
    }
}
