//! What a pool consists of, and how pages are fetched and evicted.
//!
//! The rules for waiting, which other modules cite by number. Together they rule out that threads of the pool wait
//! for each other in a circle:
//!
//! 1. A thread that holds the policy's lock waits for no latch, no copy in flight, no room for copies and no I/O. It
//!    tries latches, and goes on without those that it does not get.
//! 2. A thread that waits for a latch, for a copy to land, for the eviction of a page, or for a frame has no frame
//!    claimed, no room for copies and no latch, except for the latches of guards that the caller holds. Guards may
//!    form a circle, and so the wait ends after [`Limits::patience`].
//! 3. A thread that has room for copies waits only for I/O, the caller's log (syncs included), and the policy's lock.
//!    It took all of its room at once.
//! 4. A thread that waits for room for copies may have frames claimed and shared latches: a thread that has room
//!    waits for neither (3).
//!
//! So a thread that waits under rule 2 waits at most for one that waits under rule 4, that one for a thread under
//! rule 3, and that one for a thread under rule 1, which does not wait.

mod waiting;
mod write_back;

pub(crate) use waiting::Waiting;
pub(crate) use write_back::{HeldPages, WriteCounts};
use write_back::{copies, eviction_batch};

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ebbpool_policy::{Access, Capabilities, PageClass, UNKNOWN_CLASS};

use crate::background::Signal;
use crate::callback::Callback;
use crate::error::PoolError;
use crate::frames::{
    ClaimedFrame, CopyInFlight, CopySlot, Exclusive, ExclusiveLatch, FrameState, Frames, HitStatus, LatchRefusal, Shared,
    SharedLatch, WaitCondition,
};
use crate::options::Limits;
use crate::read_ahead::ReadAhead;
use crate::recorder::FixCallback;
use crate::replacement::{Admission, DirtyVictims, Eviction, FetchPlan, PoolView, Replacement};
use crate::rings::{Hit, HitFollowUp, HitRings};
use crate::scan::PoolScan;
use crate::stats::{ReadCause, WriteCause};
use crate::sync::{Condvar, Instant, Mutex, MutexGuard};
use crate::table::PageTable;
use crate::throttle::Throttle;
use crate::torn_pads::TornPads;
use crate::transfer::{Incoming, PageIo};

/// The number of victims that a miss tries to write before it fails.
const MOST_VICTIMS: usize = 8;

/// Everything that the threads of a pool share.
pub(crate) struct PoolShared {
    pub(crate) frames: Frames,
    pub(crate) table: PageTable,
    pub(crate) rings: HitRings,
    pub(crate) replacement: Mutex<Replacement>,
    /// Held while the number of frames changes.
    pub(crate) resizing: Mutex<()>,
    /// Runs the listener and a caller's policy, under the policy's lock.
    pub(crate) callback: Arc<Callback>,
    pub(crate) torn_pads: TornPads,
    /// Signalled when the eviction of dirty pages has ended, whether they were written or not.
    pub(crate) eviction_ended: Condvar,
    pub(crate) transfer: PageIo,
    pub(crate) limits: Limits,
    pub(crate) throttle: Throttle,
    pub(crate) recorder: Option<FixCallback>,
    pub(crate) read_ahead: Option<ReadAhead>,
    /// Wakes the background writer, if there is one.
    pub(crate) signal: Option<Signal>,
    /// The process that has opened the pool: its threads are not in a child of `fork`.
    pub(crate) opened_by: u32,
}

/// The result of a miss.
enum FetchResult<'c> {
    /// The thread has loaded the page into this frame, which is latched for the caller.
    Loaded(ClaimedFrame<'c>),
    /// Another thread has loaded the page, or is loading it, into this frame.
    LoadedByOther(u32),
    /// The thread has waited; the caller looks the page up again.
    Retry,
}

/// Where a page is, for a caller that needs a certain answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageLocation {
    Resident(u32),
    /// A thread is writing the page in order to evict it.
    BeingEvicted,
    NotResident,
}

/// Why a page is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchReason {
    /// A caller fixes it.
    Fix(Access),
    /// A caller fixes it for writing, filled with zeros, and does not need what is in storage.
    New,
    /// A caller will probably fix it soon.
    ReadAhead,
}

/// How long a fix waits for other threads; `None` for the pool's patience. A reference, so that a hit sets one register for it.
pub(crate) type Patience<'p> = Option<&'p Duration>;

impl FetchReason {
    fn access(self) -> Access {
        match self {
            FetchReason::Fix(access) => access,
            FetchReason::New => Access::Write,
            FetchReason::ReadAhead => Access::Read,
        }
    }
}

impl PoolShared {
    pub(crate) fn view(&self) -> PoolView<'_> {
        PoolView {
            frames: &self.frames,
            table: &self.table,
            spaces: &self.transfer.spaces,
            pads: self.limits.pads,
            dirty_victims: match self.signal.is_some()
                && self.limits.is_near_budget(&self.frames)
                && self.throttle.victim_stalls()
            {
                true => DirtyVictims::WithoutCleanSoon,
                false => DirtyVictims::AsThePolicySays,
            },
        }
    }

    /// An error in a function of the caller that runs under a lock, for calls that may wait for long or for that lock.
    pub(crate) fn check_callbacks(&self) -> Result<(), PoolError> {
        self.callback.check()?;
        self.recorder.as_ref().map_or(Ok(()), FixCallback::check)
    }

    /// Locks the policy, and reports the calling thread's hits to it.
    pub(crate) fn policy(&self) -> MutexGuard<'_, Replacement> {
        let mut replacement = self.replacement.lock();
        replacement.take_hits(&self.rings, &self.frames);
        replacement
    }

    /// Handles the fix of a resident page: reports it to the policy if the policy needs the report.
    #[inline]
    fn hit(&self, frame: u32, page: u64, access: Access, fixed: HitStatus) {
        match fixed {
            HitStatus { reported: true, .. } => self.rings.count(),
            HitStatus { fresh: true, .. } if self.frames.take_fresh(frame) => {
                self.fixed_ahead(frame, page, access);
            }
            _ => self.note_hit(frame, page, access),
        }
    }

    #[inline]
    fn note_hit(&self, frame: u32, page: u64, access: Access) {
        let hit = Hit::new(frame, page, access);
        match self.rings.note(hit) {
            HitFollowUp::Nothing => {}
            next => self.hand_over(next, hit),
        }
    }

    #[cold]
    fn hand_over(&self, next: HitFollowUp, hit: Hit) {
        if self.callback.is_here() {
            return;
        }
        let replacement = match next {
            HitFollowUp::HandOver | HitFollowUp::Report => Some(self.replacement.lock()),
            _ => self.replacement.try_lock(),
        };
        if let Some(mut replacement) = replacement {
            replacement.take_hits(&self.rings, &self.frames);
            if next == HitFollowUp::Report {
                replacement.hit(hit, &self.frames);
            }
        }
    }

    /// Handles the first fix of a page that was read ahead. The policy has counted its admission as a fix for
    /// reading.
    #[cold]
    fn fixed_ahead(&self, frame: u32, page: u64, access: Access) {
        match access {
            Access::Read => self.transfer.counters.hits_of_read_ahead.add(1),
            Access::Write => self.note_hit(frame, page, access),
        }
        if let Some(read_ahead) = &self.read_ahead {
            read_ahead.fixed(page);
        }
    }

    /// Where the pages of a page's file end that have changes in a frame, on their way to storage, or to be redone. A thread that changes the word
    /// of a frame afterwards sees what the calling thread stored before (`numbers.rs`, 2).
    pub(crate) fn end_of_changes(&self, page: u64) -> u64 {
        // No page moves meanwhile.
        let policy = self.policy();
        let changed = (0..self.frames.most()).filter_map(|frame| self.frames.changed_page(frame));
        let all = changed.chain(policy.pages_being_evicted()).chain(self.frames.discarded().pages());
        let last = all.filter(|&other| self.transfer.spaces.are_of_one(page, other)).max();
        last.map_or(0, |page| page.saturating_add(1))
    }

    /// The pages of the file from `end` on that are in frames.
    pub(crate) fn resident_from(&self, end: u64) -> Vec<u64> {
        let pages = end..self.transfer.spaces.of(end).most();
        // No page moves meanwhile.
        let _policy = self.policy();
        let resident = (0..self.frames.most()).filter(|&frame| self.frames.state(frame) != FrameState::Free);
        resident.map(|frame| self.frames.page_in(frame)).filter(|page| pages.contains(page)).collect()
    }

    /// Waits until no page of the file from `end` on is written with its block: a free one may be, although no frame has it. No further
    /// one will be.
    pub(crate) fn end_writes_from(&self, end: u64) -> Result<(), PoolError> {
        let space = self.transfer.spaces.of(end);
        let mut waiting = Waiting::new(self);
        let mut policy = self.policy();
        loop {
            space.end_at(end);
            let written = policy.pages_being_evicted();
            match written.into_iter().find(|page| (end..space.most()).contains(page)) {
                Some(page) => waiting.for_write(&mut policy, page)?,
                None => return Ok(()),
            }
        }
    }

    /// Finds a page. A search without a lock may overlook a page, so a page that is not found is searched for once
    /// more under the policy's lock.
    pub(crate) fn locate(&self, page: u64) -> PageLocation {
        if let Some(frame) = self.table.find(page, &self.frames) {
            return PageLocation::Resident(frame);
        }
        let policy = self.policy();
        match self.table.find_locked(page, &self.frames) {
            Some(frame) => PageLocation::Resident(frame),
            None if policy.is_being_evicted(page) => PageLocation::BeingEvicted,
            None => PageLocation::NotResident,
        }
    }

    /// Fixes a page for reading. A hit without a recorder does not use the class.
    #[inline]
    pub(crate) fn fix_shared(
        &self,
        (page, class): (u64, PageClass),
        patience: Patience<'_>,
        reuse: Option<&mut PoolScan>,
    ) -> Result<SharedLatch<'_>, PoolError> {
        if let Some(recorder) = &self.recorder {
            recorder.note((page, class), Access::Read)?;
        }
        if let Some(frame) = self.table.find(page, &self.frames)
            && let Ok((latch, fixed)) = self.frames.fix(frame, true)
            && latch.page() == page
        {
            self.hit(frame, page, Access::Read, fixed);
            return Ok(latch);
        }
        self.fix_shared_slowly((page, class), patience, reuse)
    }

    /// Fixes a page for reading, if it is resident and no thread has to be waited for.
    pub(crate) fn try_fix_shared(&self, page: u64) -> Result<Option<SharedLatch<'_>>, PoolError> {
        let Some(frame) = self.table.find(page, &self.frames) else {
            return Ok(None);
        };
        match self.frames.fix(frame, true) {
            Ok((latch, fixed)) if latch.page() == page => {
                self.note_fix(page, Access::Read)?;
                self.hit(frame, page, Access::Read, fixed);
                Ok(Some(latch))
            }
            Err(LatchRefusal::Abandoned) if self.frames.page_in(frame) == page => Err(PoolError::Abandoned { page }),
            _ => Ok(None),
        }
    }

    fn note_fix(&self, page: u64, access: Access) -> Result<(), PoolError> {
        self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.note((page, UNKNOWN_CLASS), access))
    }

    /// Loads a page, for the pool itself.
    pub(crate) fn load(&self, page: u64) -> Result<(), PoolError> {
        self.fix_shared_slowly((page, UNKNOWN_CLASS), None, None).map(drop)
    }

    #[cold]
    fn fix_shared_slowly(
        &self,
        (page, class): (u64, PageClass),
        patience: Patience<'_>,
        mut reuse: Option<&mut PoolScan>,
    ) -> Result<SharedLatch<'_>, PoolError> {
        self.callback.check()?;
        let mut waiting = Waiting::within(self, patience);
        let mut located = None;
        let mut waited_at = None;
        loop {
            let found = located.take().or_else(|| self.table.find(page, &self.frames));
            let Some(frame) = found else {
                let reason = FetchReason::Fix(Access::Read);
                match self.fetch((page, class), reason, reuse.as_deref_mut(), &mut waiting)? {
                    FetchResult::Loaded(claimed) => return Ok(claimed.into_shared()),
                    FetchResult::LoadedByOther(frame) => located = Some(frame),
                    FetchResult::Retry => {}
                }
                continue;
            };
            let version = self.frames.version_now(frame);
            // Once a writer has had its turn, or the page has moved to another frame, this reader no longer gives way to writers.
            let is_as_first = waited_at.is_none_or(|first| first == (frame, version));
            let polite = is_as_first && waiting.is_polite();
            match self.frames.fix(frame, polite) {
                Ok((latch, fixed)) if latch.page() == page => {
                    self.hit(frame, page, Access::Read, fixed);
                    return Ok(latch);
                }
                Ok(_) | Err(LatchRefusal::Empty) => {}
                Err(LatchRefusal::Abandoned) if self.frames.page_in(frame) == page => {
                    return Err(PoolError::Abandoned { page });
                }
                Err(LatchRefusal::Abandoned) => {}
                Err(LatchRefusal::Busy) => {
                    waited_at.get_or_insert((frame, version));
                    let polite_since = polite.then_some(version);
                    waiting.for_latch(frame, page, WaitCondition::Shared { polite_since })?;
                }
            }
        }
    }

    /// Fixes a page for writing.
    #[inline]
    pub(crate) fn fix_exclusive(
        &self,
        (page, class): (u64, PageClass),
        patience: Patience<'_>,
    ) -> Result<ExclusiveLatch<'_>, PoolError> {
        self.transfer.check_writable()?;
        self.throttle_fix(page);
        if let Some(recorder) = &self.recorder {
            recorder.note((page, class), Access::Write)?;
        }
        self.fix_exclusive_for((page, class), patience, FetchReason::Fix(Access::Write))
    }

    /// Fixes a page for writing, if it is resident and neither a thread nor the dirty budget has to be waited for.
    pub(crate) fn try_fix_exclusive(&self, page: u64) -> Result<Option<ExclusiveLatch<'_>>, PoolError> {
        self.transfer.check_writable()?;
        let frame = self.table.find(page, &self.frames);
        let Some(frame) = frame.filter(|&frame| self.frames.page_in(frame) == page && !self.is_throttled(page)) else {
            return Ok(None);
        };
        match self.frames.exclude(frame, false) {
            Ok((latch, fixed)) if latch.page() == page => {
                self.note_fix(page, Access::Write)?;
                self.hit(frame, page, Access::Write, fixed);
                Ok(Some(latch))
            }
            Err(LatchRefusal::Abandoned) if self.frames.page_in(frame) == page => Err(PoolError::Abandoned { page }),
            _ => Ok(None),
        }
    }

    /// Makes a shared latch the exclusive one, as a fix for writing that waits for nothing: the price of a page beyond the dirty
    /// budget stays in the account.
    pub(crate) fn upgrade<F: Deref<Target = Frames>>(&self, latch: Shared<F>) -> Result<Exclusive<F>, (Shared<F>, PoolError)> {
        let page = latch.page();
        assert!(latch.is_of(&self.frames), "the page is of another pool");
        if let Err(error) = self.transfer.check_writable().and_then(|()| self.note_fix(page, Access::Write)) {
            return Err((latch, error));
        }
        let (frame, has_price) = (latch.frame(), self.is_throttled(page));
        match latch.upgrade() {
            Ok((latch, fixed)) => {
                if has_price {
                    self.charge_later();
                }
                self.hit(frame, page, Access::Write, fixed);
                Ok(latch)
            }
            Err(latch) => Err((latch, PoolError::Latched { page, waited: Duration::ZERO })),
        }
    }

    /// Fixes a page for writing, all zeros.
    pub(crate) fn fix_new(
        &self,
        (page, class): (u64, PageClass),
        patience: Patience<'_>,
    ) -> Result<ExclusiveLatch<'_>, PoolError> {
        self.transfer.check_writable()?;
        self.throttle_fix(page);
        if let Some(recorder) = &self.recorder {
            recorder.note((page, class), Access::Write)?;
        }
        let mut latch = self.fix_exclusive_for((page, class), patience, FetchReason::New)?;
        latch.bytes_mut().fill(0);
        Ok(latch)
    }

    #[inline]
    fn fix_exclusive_for(
        &self,
        (page, class): (u64, PageClass),
        patience: Patience<'_>,
        reason: FetchReason,
    ) -> Result<ExclusiveLatch<'_>, PoolError> {
        if let Some(frame) = self.table.find(page, &self.frames)
            // Taking the latch makes the page dirty, so the page number is compared before. If another page is loaded
            // into the frame in between, it is written once too often, which does no harm.
            && self.frames.page_in(frame) == page
            && let Ok((latch, fixed)) = self.frames.exclude(frame, false)
            && latch.page() == page
        {
            self.hit(frame, page, Access::Write, fixed);
            return Ok(latch);
        }
        self.fix_exclusive_slowly((page, class), patience, reason)
    }

    #[cold]
    fn fix_exclusive_slowly(
        &self,
        (page, class): (u64, PageClass),
        patience: Patience<'_>,
        reason: FetchReason,
    ) -> Result<ExclusiveLatch<'_>, PoolError> {
        self.callback.check()?;
        let mut waiting = Waiting::within(self, patience);
        let mut located = None;
        loop {
            let found = located.take().or_else(|| self.table.find(page, &self.frames));
            let Some(frame) = found else {
                match self.fetch((page, class), reason, None, &mut waiting)? {
                    FetchResult::Loaded(claimed) => return Ok(claimed.into_exclusive()),
                    FetchResult::LoadedByOther(frame) => located = Some(frame),
                    FetchResult::Retry => {}
                }
                continue;
            };
            if self.frames.page_in(frame) == page {
                match self.frames.exclude(frame, waiting.is_in_turn()) {
                    Ok((latch, fixed)) if latch.page() == page => {
                        self.hit(frame, page, Access::Write, fixed);
                        return Ok(latch);
                    }
                    Err(LatchRefusal::Abandoned) if self.frames.page_in(frame) == page => {
                        return Err(PoolError::Abandoned { page });
                    }
                    _ => {}
                }
                waiting.for_latch(frame, page, WaitCondition::Exclusive { in_turn: false })?;
            }
        }
    }

    /// Fetches a page that is not resident. If the victim cannot be written, clean victims are taken, or other ones are
    /// tried if no page is clean, because the failed write does not concern the caller's page.
    fn fetch<'c>(
        &'c self,
        (page, class): (u64, PageClass),
        reason: FetchReason,
        mut reuse: Option<&mut PoolScan>,
        waiting: &mut Waiting<'c>,
    ) -> Result<FetchResult<'c>, PoolError> {
        // No page from there on is ever resident.
        if let Some(most) = self.limits.most_pages.or(self.transfer.spaces.end()).filter(|&most| page >= most) {
            return Err(PoolError::NoPage { page, most });
        }
        waiting.leave_queue();
        let mut tried = Vec::new();
        let mut admission = loop {
            let preferred = reuse.as_mut().and_then(|reuse| reuse.preferred(self));
            let admission = {
                let mut policy = self.policy();
                if let Some(costs) = self.transfer.costs_to_report(policy.costs_reported_at()) {
                    policy.policy().costs(costs);
                }
                let mut view = self.view();
                // After a failed sync no page can be written.
                if !tried.is_empty() || self.transfer.is_poisoned() {
                    view.dirty_victims = DirtyVictims::WithoutClean;
                }
                match policy.plan((page, class), reason.access(), preferred, view) {
                    FetchPlan::Resident(frame) => return Ok(FetchResult::LoadedByOther(frame)),
                    FetchPlan::BeingEvicted => {
                        waiting.for_write(&mut policy, page)?;
                        return Ok(FetchResult::Retry);
                    }
                    FetchPlan::AllPinned => {
                        drop(policy);
                        waiting.for_frame(self.frames.count())?;
                        return Ok(FetchResult::Retry);
                    }
                    FetchPlan::Admit(admission) => *admission,
                }
            };
            self.report_erases(&admission);
            let victim = admission.replaced.map(|victim| victim.page);
            match self.make_room(admission) {
                Ok(admission) => break admission,
                Err(error) => {
                    let is_hopeless = tried.len() >= MOST_VICTIMS || tried.contains(&victim);
                    if is_hopeless {
                        return Err(error);
                    }
                    tried.push(victim);
                }
            }
        };
        self.transfer.counters.misses.add(1);
        if reason == FetchReason::New {
            admission.frame.loaded(0, false);
            self.torn_pads.forget(page);
        } else if !self.is_loaded_without_read(&mut admission) {
            admission = self.read(admission, ReadCause::Miss)?;
        }
        if let Some(reuse) = reuse {
            reuse.note_fetched(admission.frame.frame(), self);
        }
        if let (Some(read_ahead), FetchReason::Fix(_)) = (&self.read_ahead, reason) {
            read_ahead.missed(page);
        }
        Ok(FetchResult::Loaded(admission.frame))
    }

    /// Fetches pages that will probably be fixed soon, as far as there is room for them.
    pub(crate) fn fetch_ahead(&self, pages: impl Iterator<Item = u64>) {
        let mut all = Vec::new();
        // However sequential the fixes are, most frames are for pages that callers have fixed.
        for page in pages.take(self.frames.count() as usize / 8) {
            let access = FetchReason::ReadAhead.access();
            let page = (page, UNKNOWN_CLASS);
            let plan = self.policy().plan(page, access, None, self.view());
            let FetchPlan::Admit(admission) = plan else {
                continue;
            };
            self.report_erases(&admission);
            // A failed write of a victim is reported to the next thread that needs it written; the pages latched so
            // far are still fetched.
            let Ok(mut admission) = self.make_room(*admission) else {
                break;
            };
            match self.is_loaded_without_read(&mut admission) {
                true => admission.frame.release(),
                false => all.push(admission),
            }
        }
        let mut incoming: Vec<Incoming<'_>> =
            all.iter_mut().map(|admission| Incoming { page: admission.page, bytes: admission.frame.bytes_mut() }).collect();
        if incoming.is_empty() {
            return;
        }
        let outcomes = self.transfer.read(&mut incoming, ReadCause::ReadAhead);
        drop(incoming);
        for (mut admission, outcome) in all.into_iter().zip(outcomes) {
            match outcome {
                Ok(lsn) => {
                    admission.frame.loaded(lsn, true);
                    admission.frame.release();
                }
                // A thread that fixes the page will get the error.
                Err(_) => self.policy().undo_admission(admission, self.view()),
            }
        }
    }

    /// Loads a page that storage does not have as it is.
    fn is_loaded_without_read(&self, admission: &mut Admission<'_>) -> bool {
        let is_cut_off = self.transfer.spaces.of(admission.page).is_cut_off(admission.page);
        if is_cut_off {
            admission.frame.bytes_mut().fill(0);
            admission.frame.loaded(0, false);
        }
        is_cut_off || self.torn_pads.restore(admission.page, &mut admission.frame)
    }

    /// Reports to policies that weigh wear how often the page's erase block was erased.
    fn report_erases(&self, admission: &Admission) {
        if let Some(erases) = self.transfer.storage().erases_of(admission.page) {
            let mut policy = self.policy();
            let asked = policy.policy().capabilities();
            if asked.contains(Capabilities::ERASE_COUNTS) {
                policy.policy().erase_count(admission.frame.frame(), erases);
            }
        }
    }

    fn read<'c>(&'c self, mut admission: Admission<'c>, cause: ReadCause) -> Result<Admission<'c>, PoolError> {
        let page = admission.page;
        let bytes = admission.frame.bytes_mut();
        let outcome = self.transfer.read(&mut [Incoming { page, bytes }], cause).pop();
        match outcome {
            Some(Ok(lsn)) => {
                admission.frame.loaded(lsn, false);
                Ok(admission)
            }
            Some(Err(error)) => {
                self.policy().undo_admission(admission, self.view());
                Err(error)
            }
            None => Ok(admission),
        }
    }

    /// Writes what has to be written before the page can be loaded.
    fn make_room<'c>(&'c self, mut admission: Admission<'c>) -> Result<Admission<'c>, PoolError> {
        let dirty = |admission: &Admission| {
            let replaced = admission.replaced.is_some_and(|victim| victim.dirty);
            replaced || admission.also_evicted.iter().any(|victim| victim.dirty)
        };
        if !dirty(&admission) && admission.cluster.is_empty() && admission.also_evicted.is_empty() {
            return Ok(admission);
        }
        if dirty(&admission) {
            self.transfer.counters.waits_for_writes.add(1);
            if let Some(signal) = &self.signal {
                signal.more_to_do();
            }
        }
        let begin = dirty(&admission).then(Instant::now);
        let latches = std::mem::take(&mut admission.cluster);
        let evicted = std::mem::take(&mut admission.also_evicted);
        let padding = std::mem::take(&mut admission.padding);
        let written = self.write_evicted(&mut admission, evicted, padding, latches);
        if let (Ok(()), Some(begin)) = (&written, begin) {
            self.throttle.victim_written(begin.elapsed());
        }
        match (written, admission.replaced) {
            (Err(error), Some(replaced)) => {
                let mut policy = self.policy();
                policy.undo_replacement(admission, replaced, self.view());
                self.eviction_ended.notify_all();
                Err(error)
            }
            (_, Some(replaced)) => {
                if replaced.dirty {
                    self.policy().eviction_written(replaced.page);
                    self.eviction_ended.notify_all();
                }
                Ok(admission)
            }
            (_, None) => Ok(admission),
        }
    }

    /// Writes the victim, the pages that are evicted with it, and those that are only written with it. Fails if the
    /// victim could not be written.
    fn write_evicted<'c>(
        &'c self,
        admission: &mut Admission<'c>,
        mut evicted: Vec<Eviction<'c>>,
        padding: Vec<u64>,
        mut latches: Vec<SharedLatch<'c>>,
    ) -> Result<(), PoolError> {
        // The thread takes all of its room at once (3).
        let mut room = self.frames.room_for_copies(padding.len() + latches.len());
        let room_for_latches = room.split_off(room.len().min(padding.len()));
        let later = latches.split_off(latches.len().min(room_for_latches.len()));
        let mut pads = self.padding(&padding, room);
        let mut copies = copies(latches, room_for_latches, &mut Vec::new());
        let victim_is_dirty = admission.replaced.is_some_and(|victim| victim.dirty);
        let (frames, padded) = (&self.frames, pads.len());
        let mut batch = eviction_batch(frames, admission, &mut evicted, &mut copies, &mut pads);
        let mut outcomes = self.transfer.write(&mut batch);
        let first_pad = batch.len() - batch.len().min(padded);
        let of_pads = outcomes.split_off(first_pad);
        let failed_pads: Vec<bool> =
            batch[first_pad..].iter().zip(of_pads).map(|(pad, outcome)| pad.reached_storage && outcome.is_err()).collect();
        drop(batch);
        for ((page, lsn, copy), failed) in pads.iter_mut().zip(failed_pads) {
            if failed {
                tracing::warn!(page, "a page that no caller has changed could not be written");
                self.torn_pads.retain(*page, *lsn, copy.bytes_mut());
            }
        }
        let mut outcomes = outcomes.into_iter();
        let of_victim = if victim_is_dirty { outcomes.next() } else { None };
        self.end_evictions(evicted, copies, &padding, outcomes);
        // Writing the rest takes room, and this thread would wait for its own (3).
        drop(pads);
        self.eviction_ended.notify_all();
        if !later.is_empty() {
            // A failed write leaves the pages dirty; the thread that evicts them later gets the error.
            let _ = self.write_latched(later, WriteCause::Cluster, false);
        }
        of_victim.unwrap_or(Ok(()))
    }

    /// Reports to the policy which of the pages that were written with a victim are evicted, and which stay resident.
    fn end_evictions(
        &self,
        evicted: Vec<Eviction<'_>>,
        copies: Vec<(CopySlot<'_>, CopyInFlight)>,
        padding: &[u64],
        mut outcomes: impl Iterator<Item = Result<(), PoolError>>,
    ) {
        let mut policy = self.policy();
        for eviction in evicted {
            let failed = eviction.dirty && outcomes.next().is_some_and(|outcome| outcome.is_err());
            match failed {
                true => policy.undo_eviction(eviction, self.view()),
                false => policy.free_frame(eviction, &self.frames),
            }
        }
        for (_, taken) in copies {
            let (frame, page) = (taken.frame, taken.page);
            match outcomes.next() {
                Some(Err(_)) => {
                    taken.failed(&self.frames);
                    policy.still_dirty(frame, page, &self.frames);
                }
                _ => _ = taken.written(&self.frames),
            }
        }
        padding.iter().for_each(|&page| policy.eviction_written(page));
    }

    /// Reads the non-resident pages of a block that is to be written whole, as far as they can be read.
    fn padding<'c>(&'c self, pages: &[u64], mut room: Vec<CopySlot<'c>>) -> Vec<(u64, u64, CopySlot<'c>)> {
        if pages.is_empty() {
            return Vec::new();
        }
        let mut incoming: Vec<Incoming<'_>> =
            pages.iter().zip(&mut room).map(|(&page, copy)| Incoming { page, bytes: copy.bytes_mut() }).collect();
        let outcomes = self.transfer.read(&mut incoming, ReadCause::Padding);
        drop(incoming);
        let read = pages.iter().zip(room).zip(outcomes);
        // A torn page may look whole if pages have no checksums.
        read.filter(|((page, _), _)| !self.torn_pads.contains(**page))
            .filter_map(|((&page, copy), outcome)| Some((page, outcome.ok()?, copy)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64 as Count, Ordering};

    use ebbpool_policy::{Frame, Page, Policy};

    use super::*;
    use crate::options::PoolOptions;
    use crate::storage::MemoryStorage;

    #[test]
    fn an_eviction_that_is_undone_leaves_the_age_of_the_pages_changes() {
        let pool = PoolOptions::new(2).background(false).open(MemoryStorage::new(512)).expect("a pool");
        let core = &*pool.core;
        drop(pool.fix_write(1).expect("a page"));
        let frame = core.table.find(1, &core.frames).expect("it is resident");
        std::thread::sleep(Duration::from_millis(20));
        let before = core.frames.dirty_for_ms(frame);
        let (mut claimed, dirty) = core.frames.claim_victim(frame).expect("it is unpinned");
        assert!(dirty);
        claimed.begin_load(2);
        claimed.undo_load(1, 0, 0);
        claimed.release();
        assert!(core.frames.dirty_for_ms(frame) >= before);
        assert_eq!(core.frames.dirty().count(), 1);
    }

    #[test]
    fn changes_after_a_copy_are_younger_than_it_unless_its_write_fails() {
        let pool = PoolOptions::new(2).background(false).open(MemoryStorage::new(512)).expect("a pool");
        let core = &*pool.core;
        drop(pool.fix_write(1).expect("a page"));
        let frame = core.table.find(1, &core.frames).expect("it is resident");
        std::thread::sleep(Duration::from_millis(20));
        let take_copy = || {
            let (latch, _) = core.frames.share(frame, false).expect("a latch");
            let mut room = core.frames.room_for_copies(1);
            room[0].take(&latch).expect("a copy")
        };
        // Ages are in whole milliseconds.
        let is_younger = |than: Instant| core.frames.changed_at(frame) + Duration::from_millis(2) >= than;
        let begin = Instant::now();
        let copy = take_copy();
        assert!(is_younger(begin));
        copy.failed(&core.frames);
        assert!(!is_younger(begin));
        let copy = take_copy();
        drop(pool.fix_write(1).expect("a page"));
        assert!(!copy.written(&core.frames), "it has changed since");
        assert!(is_younger(begin));
    }

    /// FIFO, which counts the pool's questions.
    struct CountsQuestions {
        frames: Vec<Frame>,
        questions: Arc<Count>,
    }

    impl Policy for CountsQuestions {
        const CAPABILITIES: Capabilities = Capabilities::empty();

        fn hit(&mut self, _: Frame, _: Access) {}
        fn admit(&mut self, frame: Frame, _: Page, _: Access) {
            self.frames.push(frame);
        }
        fn evicted(&mut self, frame: Frame) {
            self.frames.retain(|&it| it != frame);
        }
        fn cleaned(&mut self, _: Frame) {}
        fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
            let mut frames = self.frames.iter().copied();
            frames.find(|&frame| {
                self.questions.fetch_add(1, Ordering::Relaxed);
                may_evict(frame)
            })
        }
    }

    #[test]
    fn a_reserve_of_all_frames_takes_a_number_of_questions_that_grows_with_the_frames() {
        const FRAMES: u32 = 10_000;
        let questions = Arc::new(Count::new(0));
        let policy = CountsQuestions { frames: Vec::new(), questions: Arc::clone(&questions) };
        let pool = PoolOptions::new(FRAMES)
            .own_policy(policy)
            .background(false)
            .dirty_budget(1.0, Duration::ZERO)
            .open(MemoryStorage::new(512))
            .expect("a pool");
        for page in 0..u64::from(FRAMES) {
            let fixed = match page % 2 {
                0 => pool.fix_write(page).map(drop),
                _ => pool.fix_read(page).map(drop),
            };
            fixed.expect("a page");
        }
        let core = &*pool.core;
        let all = core.policy().next_dirty(FRAMES as usize, false, &core.frames);
        assert_eq!(all.len(), FRAMES as usize / 2);
        let asked = questions.load(Ordering::Relaxed);
        assert!(asked < 10 * u64::from(FRAMES), "{asked} questions");
    }
}
