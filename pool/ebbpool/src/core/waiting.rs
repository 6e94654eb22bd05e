//! How a thread waits for latches, for evictions and for frames: until its patience ends.

use std::time::Duration;

use super::{Patience, PoolShared};
use crate::error::PoolError;
use crate::frames::{QueuedThread, Seniority, WaitCondition};
use crate::options::LONGEST;
use crate::replacement::Replacement;
use crate::sync::{Instant, MutexGuard, thread};

/// The first and the longest pause between two looks of a thread that waits for an unpinned frame.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LAST_LOOK: Duration = Duration::from_millis(10);

/// How long a reader lets waiting writers go first. Readers that fix several pages each, or one page twice, and the writers
/// of these pages would otherwise wait for each other.
const POLITENESS: Duration = Duration::from_millis(100);

/// The longest time that a reader lets waiting writers go first, however long they have waited.
const MOST_POLITENESS: Duration = Duration::from_secs(1);

/// How long a thread waits for a latch before it gets a turn among those that wait.
const SENIORITY: Duration = Duration::from_millis(1);

/// A thread's wait, which ends at a deadline.
pub(crate) struct Waiting<'c> {
    core: &'c PoolShared,
    since: Instant,
    deadline: Instant,
    next_look: Duration,
    /// How long it lets waiting writers go first, as a reader.
    politeness: Option<Duration>,
    /// The thread has waited for as long as it may, and tries for the last time.
    is_late: bool,
    /// Makes readers, or writers, give way to this thread.
    queued: Option<QueuedThread<'c>>,
}

impl<'c> Waiting<'c> {
    pub(crate) fn new(core: &'c PoolShared) -> Self {
        Waiting::within(core, None)
    }

    /// A wait with a patience of its own, unless that is `None`.
    pub(crate) fn within(core: &'c PoolShared, patience: Patience<'_>) -> Self {
        let since = Instant::now();
        let patience = patience.map_or(core.limits.patience, |&patience| patience.min(LONGEST));
        Waiting {
            core,
            since,
            deadline: since + patience,
            next_look: FIRST_LOOK,
            politeness: None,
            is_late: false,
            queued: None,
        }
    }

    /// True while this thread, as a reader, lets waiting writers go first.
    pub(super) fn is_polite(&self) -> bool {
        !self.is_late && self.since.elapsed() < self.politeness.unwrap_or(POLITENESS)
    }

    /// True if no thread goes before this one.
    pub(super) fn is_in_turn(&self) -> bool {
        self.is_late || self.queued.as_ref().is_some_and(QueuedThread::has_turn)
    }

    /// Gives up the place in the queue for a latch, because the thread goes on to wait for something else: readers of
    /// the page that is in the frame by now need not let it go first.
    pub(crate) fn leave_queue(&mut self) {
        self.queued = None;
    }

    fn too_long(&self, page: u64) -> PoolError {
        PoolError::Latched { page, waited: self.since.elapsed() }
    }

    /// Waits for the latch of the frame that seems to hold the page, or for a copy of the page to land.
    pub(crate) fn for_latch(&mut self, frame: u32, page: u64, awaited: WaitCondition) -> Result<(), PoolError> {
        let core = self.core;
        if self.is_late {
            return Err(self.too_long(page));
        }
        core.transfer.counters.waits_for_latches.add(1);
        let (seniority, until) = match awaited {
            // A reader is polite for as long as the writer has waited already, if that is longer: readers that hold the page for
            // longer would take turns for ever.
            WaitCondition::Shared { polite_since: Some(_) } => {
                let politeness = *self
                    .politeness
                    .get_or_insert_with(|| core.frames.writers_waited(frame).clamp(POLITENESS, MOST_POLITENESS));
                (Seniority::Newcomer, self.since + politeness)
            }
            WaitCondition::Shared { .. } | WaitCondition::Exclusive { .. } | WaitCondition::Drop => {
                match self.since.elapsed() < SENIORITY {
                    true => (Seniority::Newcomer, self.since + SENIORITY),
                    false => (Seniority::Elder, self.deadline),
                }
            }
            WaitCondition::Landing => {
                // The latch is free meanwhile.
                self.leave_queue();
                (Seniority::Newcomer, self.deadline)
            }
        };
        let deadline = until.min(self.deadline);
        let in_time = core.frames.wait((frame, page), (awaited, seniority), &mut self.queued, deadline);
        // The latch may be free for a thread that need not let others go first.
        self.is_late = !in_time && deadline == self.deadline;
        Ok(())
    }

    /// Waits until the eviction of a page has ended.
    pub(crate) fn for_write(&mut self, policy: &mut MutexGuard<'_, Replacement>, page: u64) -> Result<(), PoolError> {
        self.core.transfer.counters.waits_for_writes.add(1);
        self.leave_queue();
        while policy.is_being_evicted(page) {
            if self.core.eviction_ended.wait_until(policy, self.deadline).timed_out() {
                return Err(self.too_long(page));
            }
        }
        Ok(())
    }

    /// Waits until one of the first `frames` frames seems to be unpinned.
    pub(crate) fn for_frame(&mut self, frames: u32) -> Result<(), PoolError> {
        let core = self.core;
        core.transfer.counters.waits_for_frames.add(1);
        loop {
            let now = Instant::now();
            if now >= self.deadline {
                return Err(PoolError::AllPinned { frames: core.frames.count(), waited: self.since.elapsed() });
            }
            thread::sleep(self.next_look.min(self.deadline - now));
            self.next_look = (self.next_look * 2).min(LAST_LOOK);
            if (0..frames).any(|frame| core.frames.is_evictable(frame)) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_policy::{Access, UNKNOWN_CLASS};

    use super::*;
    use crate::core::FetchReason;
    use crate::options::PoolOptions;
    use crate::pool::Pool;
    use crate::storage::MemoryStorage;

    /// A pool of two frames whose threads wait for a millisecond.
    fn impatient_pool() -> Pool {
        let options = PoolOptions::new(2).background(false).patience(Duration::from_millis(1));
        options.open(MemoryStorage::new(512)).expect("a pool")
    }

    #[test]
    fn a_writer_that_goes_on_to_wait_for_a_frame_is_no_longer_in_the_queue_for_another() {
        let pool = impatient_pool();
        let core = &*pool.core;
        let _pinned = [1, 2].map(|page| pool.fix_read(page).expect("a page"));
        let frame = core.table.find(1, &core.frames).expect("it is resident");
        let mut waiting = Waiting::new(core);
        // It waits for page 1, which is fixed. Then the page is evicted, as far as the writer knows.
        let awaited = WaitCondition::Exclusive { in_turn: false };
        waiting.for_latch(frame, 1, awaited).expect("a last try");
        let waited = waiting.for_latch(frame, 1, awaited);
        assert!(matches!(waited, Err(PoolError::Latched { page: 1, .. })));
        assert!(core.frames.fix(frame, true).is_err(), "readers let it go first");
        let reason = FetchReason::Fix(Access::Write);
        let fetched = core.fetch((3, UNKNOWN_CLASS), reason, None, &mut waiting);
        assert!(matches!(fetched, Err(PoolError::AllPinned { .. })));
        assert!(core.frames.fix(frame, true).is_ok(), "it waits no longer");
    }

    #[test]
    fn a_thread_does_not_wait_for_a_frame_that_its_page_has_left() {
        let pool = impatient_pool();
        let core = &*pool.core;
        let _pinned = pool.fix_read(2).expect("a page");
        let frame = core.table.find(2, &core.frames).expect("it is resident");
        for awaited in [WaitCondition::Exclusive { in_turn: false }, WaitCondition::Drop] {
            let mut waiting = Waiting::new(core);
            // Page 1 was in the frame when the thread looked.
            waiting.for_latch(frame, 1, awaited).expect("it looks anew");
            assert!(core.frames.fix(frame, true).is_ok(), "readers need not wait");
        }
    }
}
