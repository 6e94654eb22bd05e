//! Checkpoints: everything dirty goes to storage, sorted, while the pool is used on.

use std::time::Duration;

use crate::core::{Core, Waiting};
use crate::error::Error;
use crate::frames::{Refusal, State};
use crate::log::Lsn;
use crate::stats::WriteCause;
use crate::sync::thread;

/// How often it is looked whether somebody else's write of a page has ended.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// What a checkpoint has achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Every change up to this LSN, inclusive, is in storage and survives a crash: recovery needs
    /// the log from after it. [`Lsn::MAX`] without a log, and 0 if some page could not be written
    /// meanwhile.
    pub covered: Lsn,
    /// Pages that were written.
    pub pages: usize,
}

impl Core {
    /// Writes all pages that are dirty now, in ascending order, and syncs. Pages may be changed
    /// meanwhile. It takes time for the dirty pages, not for the frames.
    pub(crate) fn checkpoint(&self) -> Result<Checkpoint, Error> {
        self.transfer.check_writable()?;
        let begin = self.transfer.log().end_lsn();
        let failed_before = self.transfer.counters.failed_writes.get();
        let mut dirty: Vec<(u64, u32)> = self
            .frames
            .dirty()
            .frames()
            .into_iter()
            .map(|frame| (self.frames.page_in(frame), frame))
            .collect();
        dirty.sort_unstable();
        let mut pages = 0;
        for batch in dirty.chunks(self.frames.most_copies()) {
            let mut latches = Vec::with_capacity(batch.len());
            for &(page, frame) in batch {
                let mut waiting = Waiting::new(self);
                loop {
                    match self.frames.share(frame, false) {
                        Ok((latch, _)) if latch.page() == page => latches.push(latch),
                        // It has left, and so it was written, or it is nobody's.
                        Ok(_) | Err(Refusal::Empty | Refusal::Abandoned) => {}
                        Err(Refusal::Busy) => {
                            if !latches.is_empty() {
                                // Nobody is to wait for these because this waits for another.
                                let latched = std::mem::take(&mut latches);
                                pages +=
                                    self.write_latched(latched, WriteCause::Checkpoint, true)?;
                            }
                            waiting.for_latch(frame, page, false)?;
                            continue;
                        }
                    }
                    break;
                }
            }
            pages += self.write_latched(latches, WriteCause::Checkpoint, true)?;
        }
        // What is dirty now is not covered, even if somebody takes a copy of it from here on: that may
        // still be on its way when the storage is synced. Copies taken before are waited for.
        let left_before = self.first_left();
        self.wait_for_writes_by_others(&dirty)?;
        self.transfer.sync()?;
        let first_left = left_before.into_iter().chain(self.first_left()).min();
        let covered = match begin {
            0 => Lsn::MAX,
            // A page that could not leave may have tried again since, and be on its way.
            _ if self.transfer.counters.failed_writes.get() != failed_before => 0,
            begin => first_left.map_or(begin, |lsn| begin.min(lsn - 1)),
        };
        Ok(Checkpoint { covered, pages })
    }

    /// The LSN of the earliest change of which no copy was taken.
    fn first_left(&self) -> Option<Lsn> {
        let dirty = self.frames.dirty().frames().into_iter();
        let first = dirty.map(|frame| self.frames.first_lsn(frame));
        first.filter(|&lsn| lsn > 0).min()
    }

    /// Copies that somebody else had taken before may still be on their way.
    fn wait_for_writes_by_others(&self, dirty: &[(u64, u32)]) -> Result<(), Error> {
        for &(page, frame) in dirty {
            let mut tries = self.limits.patience.as_micros() / LOOK_EVERY.as_micros();
            let on_its_way = || {
                let state = self.frames.state(frame);
                let written = matches!(state, State::Writing | State::Redirtied);
                self.frames.page_in(frame) == page && written
            };
            while on_its_way() {
                if tries == 0 {
                    return Err(Error::Latched {
                        page,
                        waited: self.limits.patience,
                    });
                }
                tries -= 1;
                thread::sleep(LOOK_EVERY);
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
        while let Some(frame) = self.table.find(page, &self.frames) {
            match self.frames.share(frame, false) {
                Ok((latch, _)) if latch.page() == page => {
                    self.write_latched(vec![latch], WriteCause::Flush, true)?;
                    break;
                }
                Ok(_) | Err(Refusal::Empty) => {}
                Err(Refusal::Abandoned) => return Err(Error::Abandoned { page }),
                Err(Refusal::Busy) => waiting.for_latch(frame, page, false)?,
            }
        }
        let frame = self.table.find(page, &self.frames);
        let seen: Vec<(u64, u32)> = frame.map(|frame| (page, frame)).into_iter().collect();
        self.wait_for_writes_by_others(&seen)?;
        self.transfer.sync()
    }
}
