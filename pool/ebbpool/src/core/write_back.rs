//! Pages are written back while they stay resident, and threads that make too many pages dirty are slowed down.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use super::PoolShared;
use crate::background::Signal;
use crate::error::PoolError;
use crate::frames::{CopyInFlight, CopySlot, FrameState, Frames, LatchRefusal, Seniority, SharedLatch, WaitCondition};
use crate::replacement::{Admission, Eviction};
use crate::stats::WriteCause;
use crate::sync::{Instant, thread};
use crate::transfer::Outgoing;

/// How long the background writer waits for pages that threads are changing, in all and for each.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT_FOR_ONE: Duration = Duration::from_millis(25);

/// How long it does not wait for a page that a thread has held for longer than that.
const AFTER_A_WAIT: Duration = Duration::from_millis(500);

/// The pages for which the background writer has waited without success, and until when it does not wait for them again.
pub(crate) type HeldPages = HashMap<u64, Instant>;

/// A thread has held a page for as long as the background writer waits.
struct StillHeld;

impl PoolShared {
    /// Writes pages that stay resident, a batch at a time, and skips those that are no longer dirty. With
    /// `report_clean` it reports to the policy which pages are clean afterwards.
    ///
    /// # Errors
    ///
    /// The first error, after all pages were tried.
    pub(crate) fn write_latched<'c>(
        &'c self,
        latches: Vec<SharedLatch<'c>>,
        cause: WriteCause,
        report_clean: bool,
    ) -> Result<WriteCounts, PoolError> {
        let mut written = WriteCounts::default();
        let mut failure = None;
        let mut latches = latches.into_iter().peekable();
        while latches.peek().is_some() {
            let batch: Vec<SharedLatch<'_>> = latches.by_ref().take(self.frames.most_copies()).collect();
            let room = self.frames.room_for_copies(batch.len());
            let mut copies = copies(batch, room, &mut written.left_to_others);
            let mut outgoing: Vec<Outgoing<'_>> = copies
                .iter_mut()
                .map(|(copy, taken)| Outgoing {
                    page: taken.page,
                    lsn: taken.lsn,
                    bytes: copy.bytes_mut(),
                    cause,
                    changed: taken.changed,
                    reached_storage: false,
                })
                .collect();
            let outcomes = self.transfer.write(&mut outgoing);
            drop(outgoing);
            let mut policy = self.policy();
            // Before the policy gets the report that a page is clean, it must have the report of the hit that made it
            // dirty.
            policy.take_all_hits(&self.rings, &self.frames);
            for ((_, taken), outcome) in copies.into_iter().zip(outcomes) {
                let (frame, page) = (taken.frame, taken.page);
                match outcome {
                    Ok(()) => {
                        written.pages += 1;
                        if taken.written(&self.frames) && report_clean {
                            policy.cleaned(frame, page, &self.frames);
                        }
                    }
                    Err(error) => {
                        taken.failed(&self.frames);
                        policy.still_dirty(frame, page, &self.frames);
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        failure.map_or(Ok(written), Err)
    }

    /// Slows down a thread that makes a page dirty while too many pages are dirty.
    #[inline]
    pub(super) fn throttle_fix(&self, page: u64) {
        if self.frames.dirty().count() > self.limits.dirty_budget_of_fixes() {
            self.throttle_fix_of(page);
        }
    }

    #[cold]
    fn throttle_fix_of(&self, page: u64) {
        if self.adds_to_excess(page) {
            self.throttle_by_excess();
        }
    }

    /// True if a fix of the page for writing may be slowed down.
    pub(super) fn is_throttled(&self, page: u64) -> bool {
        self.frames.dirty().count() > self.limits.dirty_budget_of_fixes() && self.adds_to_excess(page)
    }

    /// True if the page has a price beyond the budget.
    fn adds_to_excess(&self, page: u64) -> bool {
        if self.throttle.writes_are_instant() {
            return false;
        }
        let frame = self.table.find(page, &self.frames);
        let state = frame.map(|frame| self.frames.state(frame));
        // A page that is dirty already adds none (`throttle.rs`, 1).
        !matches!(state, Some(FrameState::Dirty | FrameState::Redirtied))
    }

    /// Notes the price of a page that a thread makes dirty while it has a latch, and so must not wait (`throttle.rs`, 1).
    pub(super) fn charge_later(&self) {
        if let Some(signal) = &self.signal {
            signal.more_to_do();
            self.throttle.charge(self.excess());
        }
    }

    /// How many pages are dirty beyond the budget: 1 if all are.
    fn excess(&self) -> f64 {
        let over = self.frames.dirty().count().saturating_sub(self.limits.dirty_budget());
        (over as f64 / self.limits.room(&self.frames) as f64).min(1.0)
    }

    /// Does what each fix for writing does, for callers that have switched that off and choose the moment.
    pub(crate) fn throttle(&self) {
        if self.frames.dirty().count() > self.limits.dirty_budget() {
            self.throttle_by_excess();
        }
    }

    #[cold]
    fn throttle_by_excess(&self) {
        if self.callback.is_here() {
            return;
        }
        let Some(signal) = &self.signal else {
            // There is no background writer, so the thread that makes pages dirty writes one batch.
            let dirty = self.policy().next_dirty(1, true, &self.frames);
            let _ = self.write_frames(dirty, WriteCause::Background);
            return;
        };
        signal.more_to_do();
        let delay = self.throttle.charge(self.excess());
        if delay.is_zero() {
            return;
        }
        self.transfer.counters.delays.add(1);
        self.transfer.counters.delayed_us.add(delay.as_micros() as u64);
        thread::sleep(delay);
    }

    /// Writes dirty pages, those included that other threads are changing: it waits for each of these, the oldest changes first,
    /// until no thread changes it, but not for pages that a thread holds for long. While other pages have to be written it waits
    /// for one, so that neither these nor those wait without end.
    pub(crate) fn write_in_turn(&self, frames: Vec<u32>, held: &mut HeldPages) -> Result<usize, PoolError> {
        let mut busy = Vec::new();
        let mut latches = Vec::new();
        for frame in frames {
            match self.frames.share(frame, false) {
                Ok((latch, _)) => latches.push(latch),
                Err(LatchRefusal::Busy) => busy.push((frame, self.frames.page_in(frame))),
                Err(_) => {}
            }
        }
        let mut written = self.write_latched(latches, WriteCause::Background, true).map(|it| it.pages);
        busy.sort_by_key(|&(frame, _)| Reverse(self.frames.dirty_for_ms(frame)));
        let begin = Instant::now();
        held.retain(|_, until| *until > begin);
        busy.retain(|(_, page)| !held.contains_key(page));
        for (waited_for, (frame, page)) in busy.into_iter().enumerate() {
            let now = Instant::now();
            let is_needed = self.signal.as_ref().is_some_and(Signal::is_requested);
            if is_needed && waited_for > 0 || now >= begin + LONGEST_WAIT {
                break;
            }
            match self.share_in_turn(frame, page, now + LONGEST_WAIT_FOR_ONE) {
                Ok(latch) => {
                    let latches = latch.into_iter().collect();
                    let one = self.write_latched(latches, WriteCause::Background, true);
                    written = written.and_then(|pages| Ok(pages + one?.pages));
                }
                Err(StillHeld) => {
                    held.insert(page, Instant::now() + AFTER_A_WAIT);
                }
            }
        }
        written
    }

    /// Latches a page that other threads are changing, before all others that wait for it; `None` if it has left the frame, or
    /// is not loaded or abandoned.
    fn share_in_turn(&self, frame: u32, page: u64, deadline: Instant) -> Result<Option<SharedLatch<'_>>, StillHeld> {
        let awaited = WaitCondition::Shared { polite_since: None };
        let mut queued = None;
        loop {
            match self.frames.share(frame, false) {
                Ok((latch, _)) => return Ok((latch.page() == page).then_some(latch)),
                Err(LatchRefusal::Busy) if self.frames.page_in(frame) == page => {}
                Err(_) => return Ok(None),
            }
            let awaited = (awaited, Seniority::Urgent);
            if !(self.frames).wait((frame, page), awaited, &mut queued, deadline) {
                return Err(StillHeld);
            }
        }
    }

    /// Writes dirty pages that no thread is changing at this moment.
    pub(crate) fn write_frames(&self, frames: Vec<u32>, cause: WriteCause) -> Result<usize, PoolError> {
        let latched = frames.into_iter().filter_map(|frame| self.frames.share(frame, false).ok());
        let latches = latched.map(|(latch, _)| latch).collect();
        Ok(self.write_latched(latches, cause, true)?.pages)
    }
}

/// The result of writing pages.
#[derive(Debug, Default)]
pub(crate) struct WriteCounts {
    /// The number of pages written.
    pub(crate) pages: usize,
    /// Pages, with their frames, of which another thread had a copy in flight.
    pub(crate) left_to_others: Vec<(u64, u32)>,
}

/// The writes of a victim and of all pages that are written with it, in the order in which their outcomes are taken.
pub(super) fn eviction_batch<'b>(
    frames: &Frames,
    admission: &'b mut Admission<'_>,
    evicted: &'b mut [Eviction<'_>],
    copies: &'b mut [(CopySlot<'_>, CopyInFlight)],
    padding: &'b mut [(u64, u64, CopySlot<'_>)],
) -> Vec<Outgoing<'b>> {
    let mut batch = Vec::new();
    if let Some(victim) = admission.replaced.filter(|victim| victim.dirty) {
        batch.push(Outgoing {
            page: victim.page,
            lsn: victim.lsn,
            changed: frames.changed_at(admission.frame.frame()),
            reached_storage: false,
            bytes: admission.frame.bytes_mut(),
            cause: WriteCause::Eviction,
        });
    }
    for eviction in evicted.iter_mut().filter(|eviction| eviction.dirty) {
        batch.push(Outgoing {
            page: eviction.page,
            lsn: eviction.lsn,
            changed: frames.changed_at(eviction.frame.frame()),
            reached_storage: false,
            bytes: eviction.frame.bytes_mut(),
            cause: WriteCause::Eviction,
        });
    }
    for (copy, taken) in copies {
        batch.push(Outgoing {
            page: taken.page,
            lsn: taken.lsn,
            bytes: copy.bytes_mut(),
            cause: WriteCause::Cluster,
            changed: taken.changed,
            reached_storage: false,
        });
    }
    for (page, lsn, copy) in padding {
        batch.push(Outgoing {
            page: *page,
            lsn: *lsn,
            bytes: copy.bytes_mut(),
            cause: WriteCause::Eviction,
            changed: Instant::now(),
            reached_storage: false,
        });
    }
    batch
}

/// Copies the pages to be written, as far as they are still dirty and no other thread writes them.
pub(super) fn copies<'c>(
    latches: Vec<SharedLatch<'c>>,
    room: Vec<CopySlot<'c>>,
    left_to_others: &mut Vec<(u64, u32)>,
) -> Vec<(CopySlot<'c>, CopyInFlight)> {
    let copied = latches.into_iter().zip(room);
    let taken = copied.filter_map(|(latch, mut copy)| {
        let taken = copy.take(&latch);
        if taken.is_none() && latch.state() != FrameState::Clean {
            left_to_others.push((latch.page(), latch.frame()));
        }
        Some((copy, taken?))
    });
    taken.collect()
}
