//! Checkpoints: everything dirty goes to storage, sorted, while the pool is used on.

use crate::core::{Core, Waiting, Whereabouts, Written};
use crate::error::Error;
use crate::frames::{Awaited, Refusal, Shared};
use crate::log::Lsn;
use crate::stats::WriteCause;

/// How often a checkpoint writes what is dirty because a page could not leave meanwhile.
const MOST_PASSES: usize = 4;

/// What a checkpoint has achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
        let mut pages = 0;
        // A page that has to leave is not among the dirty ones, and is again if it cannot be written: then what is
        // dirty is written once more.
        for _ in 0..MOST_PASSES {
            let came_back = self.policy().came_back();
            let dirty = self.dirty_pages();
            let (written, abandoned) = self.write_pages(&dirty)?;
            pages += written;
            // What is dirty now is not covered, even if another thread takes a copy of it from here on, and what
            // is on its way now is not: it may still be when the storage is synced.
            let left_before = self.frames.first_left();
            self.wait_for_leaving()?;
            self.transfer.sync()?;
            let first_left = left_before
                .into_iter()
                .chain(self.frames.first_left())
                .min();
            if self.policy().came_back() != came_back {
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

    /// Sees to it that each of the pages that is still there has been clean once, or written, since the call
    /// began. Answers how many it wrote, and one that is abandoned.
    fn write_pages(&self, dirty: &[(u64, u32)]) -> Result<(usize, Option<u64>), Error> {
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

    /// Adds the latch of a page to those of pages to be written, if the page is still there; true if it is
    /// abandoned. Where it has to wait for the latch, or for another thread's copy, it writes the pages latched so
    /// far, lest other threads wait for them meanwhile.
    fn latch_to_write<'c>(
        &'c self,
        page: u64,
        frame: u32,
        latches: &mut Vec<Shared<'c>>,
    ) -> Result<(bool, Written), Error> {
        let mut waiting = Waiting::new(self);
        let mut written = Written::default();
        loop {
            let since = self.frames.version_now(frame);
            let awaited = match self.frames.share(frame, false) {
                // That copy may lack the page's latest changes, and may not arrive.
                Ok((latch, _)) if latch.page() == page && latch.state().is_in_flight() => {
                    Awaited::Landing
                }
                Ok((latch, _)) if latch.page() == page => {
                    latches.push(latch);
                    return Ok((false, written));
                }
                Err(Refusal::Abandoned) if self.frames.page_in(frame) == page => {
                    return Ok((true, written));
                }
                // It has left, and so it was written, or it was discarded.
                Ok(_) | Err(Refusal::Empty | Refusal::Abandoned) => return Ok((false, written)),
                Err(Refusal::Busy) => Awaited::Shared { since },
            };
            let latched = std::mem::take(latches);
            let more = self.write_latched(latched, WriteCause::Checkpoint, true)?;
            written.pages += more.pages;
            written.left_to_others.extend(more.left_to_others);
            waiting.for_latch(frame, page, awaited)?;
        }
    }

    /// Pages that have to leave may still be on their way.
    fn wait_for_leaving(&self) -> Result<(), Error> {
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
                    if written.left_to_others.is_empty() {
                        break;
                    }
                    // That thread's copy may lack the page's latest changes, and may not arrive.
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
