//! Which page is evicted: the policy, and the reports that it needs, under one lock.
//!
//! The invariants that hold whenever no thread has the policy's lock. Other modules cite them by number:
//!
//! 1. A miss makes all of its reports to the policy in one go, before any I/O and under the lock. So the policy sees
//!    references one after the other, whatever the threads do, and decides as it does in the simulator. Erase counts of a
//!    simulated device alone come after them, under the lock again: they are a report about the frame, and no reference.
//! 2. For each frame this module notes what the policy believes: no page, a clean one or a dirty one. It reports an
//!    admission only for a frame without a page, and a hit, a cleaning or an eviction only for a frame with one; a
//!    cleaning only if the policy believes the page dirty.
//! 3. A page is in at most one frame, and the page table says in which. Frame and table change together, under the
//!    lock.
//! 4. A page that is written because it is evicted is in [`Replacement::evicting`] from the moment at which it is
//!    removed from the table until it is in storage or back in its frame. A thread that needs the page waits, so that
//!    it does not read storage too early.
//! 5. The frames that a miss takes are latched exclusively from the decision until the I/O is done; the frames of
//!    pages that are written with them and stay resident are latched until copies are taken.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use ebbpool_policy::{
    Access, Capabilities, Driver, DynPolicy, Frame, Gauges, Ghost, GhostPages, MissScratch, PageClass, UNKNOWN_CLASS,
};
use hashbrown::HashSet;

use crate::callback::Callback;
use crate::contained::contained;
use crate::frames::{ClaimedFrame, FrameState, Frames, LatchRefusal, SharedLatch};
use crate::log::Lsn;
use crate::rings::{Hit, HitReport, HitRings};
use crate::spaces::PageSpaces;
use crate::table::PageTable;

/// A decision about a page, reported in the order in which decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplacementEvent {
    /// The page will be written, if no write fails.
    Write(u64),
    /// The page is evicted.
    Evict(u64),
}

/// The caller's function that receives the events.
pub(crate) type Listener = Box<dyn FnMut(ReplacementEvent) + Send>;

/// A page that is being evicted, and its frame.
pub(crate) struct Eviction<'f> {
    pub(crate) frame: ClaimedFrame<'f>,
    pub(crate) page: u64,
    pub(crate) dirty: bool,
    pub(crate) lsn: Lsn,
    pub(crate) first_lsn: Lsn,
}

/// The victim whose frame the admitted page takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacedPage {
    pub(crate) page: u64,
    pub(crate) dirty: bool,
    pub(crate) lsn: Lsn,
    pub(crate) first_lsn: Lsn,
}

/// A page that is being admitted, and what has to be done before it can be read.
pub(crate) struct Admission<'f> {
    pub(crate) page: u64,
    pub(crate) frame: ClaimedFrame<'f>,
    pub(crate) replaced: Option<ReplacedPage>,
    /// Pages that are evicted with the victim.
    pub(crate) also_evicted: Vec<Eviction<'f>>,
    /// Dirty pages that are written with the victim and stay resident.
    pub(crate) cluster: Vec<SharedLatch<'f>>,
    /// Non-resident pages of the victim's block, which are read and written with it.
    pub(crate) padding: Vec<u64>,
}

/// The result of planning the admission of a page.
pub(crate) enum FetchPlan<'f> {
    /// The page is in this frame, or another thread is loading it there.
    Resident(Frame),
    /// A thread is writing the page in order to evict it.
    BeingEvicted,
    /// All frames are pinned.
    AllPinned,
    Admit(Box<Admission<'f>>),
}

/// The outcome of an attempt to empty a frame that is no longer in use.
pub(crate) enum Vacated {
    Done,
    /// Pages were evicted, and another attempt follows.
    NotYet,
    /// A thread has the page, or a copy of it is in flight.
    Busy,
    /// The policy's next victim is dirty, and has to be written first.
    Dirty,
    AllPinned,
}

/// What the policy believes of a frame, because of the reports that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyView {
    /// There is no page in it.
    Absent,
    Clean,
    Dirty,
}

/// The policy, and what it believes about the pages and frames, under one lock.
pub(crate) struct Replacement {
    policy: Box<dyn DynPolicy + Send>,
    ghosts: GhostPages,
    /// Frames that held a page once and are empty now.
    free: Vec<Frame>,
    /// The first frame that has never held a page; no later frame has either.
    unused: Frame,
    /// Pages that are being written because they are evicted.
    evicting: HashSet<u64>,
    /// Frames whose page could not be written lately.
    unwritable: HashSet<Frame>,
    /// By frame, what the policy believes of its page.
    policy_view: Vec<PolicyView>,
    listener: Option<Listener>,
    callback: Arc<Callback>,
    costs_reported_at: u64,
    epochs: HitEpochs,
    companions: MissScratch,
    /// How often a page was dirty in a frame where no list of dirty frames had it before: its eviction was undone, because it could
    /// not be written, or it came from another frame.
    returned: u64,
    /// The number of frames that the policy knows to hold a page.
    resident: u32,
    /// The policy has named pages to be written with another one.
    writes_together: bool,
}

/// Decides when the next hit of each page is reported to the policy again.
struct HitEpochs {
    /// Every hit is reported to the policy, even if it does not ask for that.
    exact: bool,
    /// Misses since the epoch began.
    misses: u32,
    /// The number of misses after which the next epoch begins.
    length: u32,
}

/// A search for a dirty page is long after this number of questions.
const LONG_SEARCH: u64 = 64;

/// The background writer's searches for its reserve end after this number of questions for each frame, because other
/// threads wait for the policy's lock meanwhile.
const MOST_QUESTIONS_PER_FRAME: u64 = 8;

/// The pages that are evicted at a time so that the pool may have fewer frames, while others wait for the policy's lock.
const EVICTED_AT_ONCE: usize = 64;

/// The number of epochs in as many misses as the pool has frames. Longer epochs change what policies decide
/// (`docs/pool.md`), shorter ones save less.
const EPOCHS: u32 = 32;

/// The parts of the pool that a plan needs.
#[derive(Clone, Copy)]
pub(crate) struct PoolView<'f> {
    pub(crate) frames: &'f Frames,
    pub(crate) table: &'f PageTable,
    /// The pages in storage, for padding.
    pub(crate) spaces: &'f PageSpaces,
    /// Blocks are written whole if the policy says so.
    pub(crate) pads: bool,
    pub(crate) dirty_victims: DirtyVictims,
}

/// When a miss takes a dirty victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirtyVictims {
    AsThePolicySays,
    /// If the policy would evict no clean page a little later. The background writer writes the dirty one soon.
    WithoutCleanSoon,
    /// If no clean page can be evicted: a dirty one could not be written.
    WithoutClean,
}

impl Replacement {
    /// `callback` runs the listener. With `exact` every hit is reported to the policy, even if it does not ask for that.
    pub(crate) fn new(
        policy: Box<dyn DynPolicy + Send>,
        listener: Option<Listener>,
        callback: Arc<Callback>,
        exact: bool,
    ) -> Self {
        Replacement {
            ghosts: GhostPages::with_capacity(&*policy, 0),
            policy,
            free: Vec::new(),
            unused: 0,
            evicting: HashSet::new(),
            unwritable: HashSet::new(),
            policy_view: Vec::new(),
            listener,
            callback,
            costs_reported_at: 0,
            epochs: HitEpochs { exact, misses: 0, length: 0 },
            companions: MissScratch::default(),
            returned: 0,
            resident: 0,
            writes_together: false,
        }
    }

    pub(crate) fn policy(&mut self) -> &mut dyn DynPolicy {
        &mut *self.policy
    }

    pub(crate) fn gauges(&self) -> Gauges {
        self.policy.gauges()
    }

    pub(crate) fn costs_reported_at(&mut self) -> &mut u64 {
        &mut self.costs_reported_at
    }

    /// True if every frame holds a page.
    pub(crate) fn is_full(&self, frames: &Frames) -> bool {
        self.resident() >= frames.count()
    }

    /// Pages that are being written because they are evicted, in ascending order.
    pub(crate) fn pages_being_evicted(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.evicting.iter().copied().collect();
        pages.sort_unstable();
        pages
    }

    /// How often so far a page was dirty in a frame where no list of dirty frames that was made before has it.
    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

    pub(crate) fn is_being_evicted(&self, page: u64) -> bool {
        self.evicting.contains(&page)
    }

    /// The number of frames that hold a page.
    pub(crate) fn resident(&self) -> u32 {
        self.resident
    }

    fn notify(&mut self, event: ReplacementEvent) {
        if let Some(listener) = &mut self.listener
            && contained("the listener of events", || self.callback.run(|| listener(event))).is_err()
        {
            let failed = self.listener.take();
            let _ = contained("its destructor", || drop(failed));
        }
    }

    /// Reports the calling thread's hits to the policy; those of all threads if an epoch ends.
    pub(crate) fn take_hits(&mut self, rings: &HitRings, frames: &Frames) {
        if self.epochs.misses >= self.epochs.length && !self.epochs.exact {
            return self.begin_epoch(rings, frames);
        }
        rings.take_own(|report| self.take_report(report, frames));
    }

    /// Reports the hits of all threads to the policy.
    pub(crate) fn take_all_hits(&mut self, rings: &HitRings, frames: &Frames) {
        rings.take_all(|report| self.take_report(report, frames));
    }

    /// The hits of the last epoch have to be reported before those of the next. A thread that notes few hits would
    /// otherwise hold them back for many epochs, and its pages would be evicted.
    fn begin_epoch(&mut self, rings: &HitRings, frames: &Frames) {
        self.take_all_hits(rings, frames);
        self.epochs.misses = 0;
        // The policy is asked each time, because its answer may change.
        self.epochs.length = (frames.count() / EPOCHS).max(1);
        match frames.count() < EPOCHS || !self.policy.capabilities().contains(Capabilities::LEAVES_HITS_OUT) {
            true => frames.end_epochs(),
            false => frames.begin_epoch(),
        }
    }

    fn take_report(&mut self, report: HitReport, frames: &Frames) {
        match report {
            HitReport::Omitted(hits) => self.policy.omitted_hits(hits),
            HitReport::Upcoming(hit) if self.holds(hit.frame) => self.policy.prefetch(hit.frame),
            HitReport::Upcoming(_) => {}
            HitReport::Hit(hit) => self.hit(hit, frames),
        }
    }

    /// Reports a hit to the policy, if the page is still in the frame.
    pub(crate) fn hit(&mut self, hit: Hit, frames: &Frames) {
        if self.holds(hit.frame) && hit.is_of(frames.page_in(hit.frame)) {
            self.report_hit(hit.frame, hit.access);
        }
    }

    /// True if the policy knows of a page in the frame, which may be one that is no longer in use.
    fn holds(&self, frame: Frame) -> bool {
        self.policy_view.get(frame as usize).is_some_and(|&view| view != PolicyView::Absent)
    }

    fn report_hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.policy_view[frame as usize] = PolicyView::Dirty;
        }
        self.policy.hit(frame, access);
    }

    fn report_admitted(&mut self, frame: Frame, page: u64, access: Access) {
        let at = frame as usize;
        if self.policy_view.len() <= at {
            self.policy_view.resize(at + 1, PolicyView::Absent);
        }
        self.policy_view[at] = match access {
            Access::Read => PolicyView::Clean,
            Access::Write => PolicyView::Dirty,
        };
        self.resident += 1;
        self.policy.admit(frame, page, access);
    }

    fn report_evicted(&mut self, frame: Frame) {
        // The next page in the frame may be written without an error.
        self.unwritable.remove(&frame);
        self.policy_view[frame as usize] = PolicyView::Absent;
        self.resident -= 1;
        self.policy.evicted(frame);
    }

    /// A page can be dirty while the policy believes it clean: the hit may not have been reported yet, or was noted
    /// by a thread that has ended. A policy must not get the report that a clean page was cleaned (2).
    fn report_cleaned(&mut self, frame: Frame) {
        let view = &mut self.policy_view[frame as usize];
        if *view == PolicyView::Dirty {
            *view = PolicyView::Clean;
            self.policy.cleaned(frame);
        }
    }

    /// Finds a frame for a page and makes all reports about it to the policy. `preferred` is a frame to take in place
    /// of the policy's victim, if its page can be evicted.
    pub(crate) fn plan<'f>(
        &mut self,
        (page, class): (u64, PageClass),
        access: Access,
        preferred: Option<Frame>,
        pool: PoolView<'f>,
    ) -> FetchPlan<'f> {
        let PoolView { frames, table, .. } = pool;
        // By 3 no other frame has the page. By 4 storage has its latest content if it is in neither place.
        if let Some(frame) = table.find_locked(page, frames) {
            return FetchPlan::Resident(frame);
        }
        if self.evicting.contains(&page) {
            return FetchPlan::BeingEvicted;
        }
        let ghost = self.ghosts.get(page, &*self.policy);
        self.epochs.misses = self.epochs.misses.saturating_add(1);
        if class != UNKNOWN_CLASS && self.policy.capabilities().contains(Capabilities::CLASSES) {
            self.policy.class(class);
        }
        let mut driver = MissDriver {
            replacement: self,
            pool,
            preferred,
            claimed: None,
            victim: None,
            also_evicted: Vec::new(),
            evicted: 0,
            cluster: Vec::new(),
            block: None,
        };
        ebbpool_policy::miss(&mut driver, page, ghost, access);
        match driver.into_admission(page) {
            Some(admission) => FetchPlan::Admit(Box::new(admission)),
            None => FetchPlan::AllPinned,
        }
    }

    fn empty_frame<'f>(&mut self, frames: &'f Frames) -> Option<ClaimedFrame<'f>> {
        let frame = if self.unused < frames.count() {
            self.unused += 1;
            self.unused - 1
        } else {
            self.free.pop()?
        };
        frames.claim(frame)
    }

    /// Asks the policy for a victim and latches it.
    fn claim_victim<'f>(&mut self, incoming: (u64, Access), pool: PoolView<'f>) -> Option<(ClaimedFrame<'f>, bool)> {
        let (frames, incoming) = (pool.frames, Some(incoming));
        loop {
            let unwritable = &self.unwritable;
            let budget = VictimSearchBudget::new(frames);
            let count = frames.count();
            // Frames that are no longer in use take no page.
            let may_evict =
                |frame| frame < count && (budget.is_exhausted() || frames.is_evictable(frame) && !unwritable.contains(&frame));
            let victim = self.policy.victim(incoming, &may_evict).map(|frame| {
                let is_dirty = frames.state(frame) == FrameState::Dirty;
                let most_dirty = match pool.dirty_victims {
                    _ if !is_dirty => return frame,
                    DirtyVictims::AsThePolicySays => return frame,
                    DirtyVictims::WithoutCleanSoon => LONG_SEARCH,
                    DirtyVictims::WithoutClean => u64::MAX,
                };
                let clean = clean_victim(&mut *self.policy, frames, most_dirty, &may_evict);
                clean.unwrap_or(frame)
            });
            match victim {
                Some(frame) => match frames.claim_victim(frame) {
                    // Another thread may have fixed it since the policy asked.
                    None => continue,
                    claimed => return claimed,
                },
                // Rather than give up, try again to write what could not be written.
                None if !self.unwritable.is_empty() => self.unwritable.clear(),
                None => return None,
            }
        }
    }

    /// Prepares to write the victim's block of `block` pages whole, unless every evicted page is clean: returns the
    /// non-resident pages of the block, and latches of its dirty pages that stay resident. All evicted pages are
    /// marked to be written then.
    fn prepare_block<'f>(
        &mut self,
        block: u64,
        old: &mut Eviction<'f>,
        others: &mut [Eviction<'f>],
        pool: PoolView<'f>,
    ) -> Option<(Vec<u64>, Vec<SharedLatch<'f>>)> {
        if !old.dirty && !others.iter().any(|other| other.dirty) {
            return None;
        }
        let first = old.page / block * block;
        let end = first.saturating_add(block).min(pool.spaces.of(old.page).stored());
        let (mut missing, mut staying) = (Vec::new(), Vec::new());
        let mut written: Vec<u64> = others.iter().map(|other| other.page).collect();
        written.push(old.page);
        for page in first..end {
            if written.contains(&page) || self.evicting.contains(&page) {
                continue;
            }
            match pool.table.find_locked(page, pool.frames) {
                None => missing.push(page),
                Some(frame) => {
                    if let Ok((latch, _)) = pool.frames.share(frame, false)
                        && pool.frames.state(frame) == FrameState::Dirty
                    {
                        self.report_cleaned(frame);
                        staying.push(latch);
                    }
                }
            }
        }
        old.dirty = true;
        others.iter_mut().for_each(|other| other.dirty = true);
        self.evicting.extend(&missing);
        written.extend(missing.iter().copied().chain(staying.iter().map(SharedLatch::page)));
        written.sort_unstable();
        written.into_iter().for_each(|page| self.notify(ReplacementEvent::Write(page)));
        Some((missing, staying))
    }

    /// Evicts a page: reports it to the policy and the listener, and removes it from the page table. `write_reported`
    /// says that the listener already knows of the write.
    fn evict(&mut self, old: &Eviction, write_reported: bool, table: &PageTable) {
        if old.dirty && !write_reported {
            self.notify(ReplacementEvent::Write(old.page));
        }
        self.notify(ReplacementEvent::Evict(old.page));
        let frame = old.frame.frame();
        let ghost = self.policy.remember(frame);
        self.ghosts.set(old.page, ghost, &*self.policy);
        self.report_evicted(frame);
        table.remove(old.page, frame);
        if old.dirty {
            self.evicting.insert(old.page);
        }
    }

    /// The evicted page is in storage, and may be fetched again.
    pub(crate) fn eviction_written(&mut self, page: u64) {
        self.evicting.remove(&page);
    }

    /// Frees the frame of a page that was evicted with the victim.
    pub(crate) fn free_frame(&mut self, evicted: Eviction, frames: &Frames) {
        // A clean page may have been fetched again meanwhile, and another thread may be evicting it now.
        if evicted.dirty {
            self.evicting.remove(&evicted.page);
        }
        self.vacate(evicted.frame, frames);
    }

    /// Empties a frame, for another page if the frame is to stay.
    fn vacate(&mut self, frame: ClaimedFrame, frames: &Frames) {
        if frame.frame() < frames.count() {
            self.free.push(frame.frame());
        }
        frame.vacate();
    }

    /// From now on the frames from `count` on take no page.
    pub(crate) fn leave_empty(&mut self, count: Frame) {
        self.free.retain(|&frame| frame < count);
    }

    /// These frames are in use as before, since some could not be emptied.
    pub(crate) fn use_again(&mut self, unused: Range<Frame>, frames: &Frames) {
        let were_used = unused.start..unused.end.min(self.unused);
        self.free.extend(were_used.filter(|&frame| frames.state(frame) == FrameState::Free));
    }

    /// The frames from `count` on are empty, and there are no more than that.
    pub(crate) fn end_resize(&mut self, count: Frame) {
        self.unused = self.unused.min(count);
        self.policy_view.truncate(count as usize);
        self.policy.resize(count);
    }

    /// The number of pages that have to leave the pool so that no more are left than it has frames, at least 1.
    pub(crate) fn to_leave(&self, frames: &Frames) -> usize {
        self.resident().saturating_sub(frames.count()).max(1) as usize
    }

    /// Empties a frame that is no longer in use: moves its page to an empty frame, or evicts some of the policy's next victims to make
    /// room, of which the page may be one. Does no I/O, and waits for nothing.
    pub(crate) fn vacate_unused(&mut self, frame: Frame, pool: PoolView) -> Vacated {
        let frames = pool.frames;
        if frames.state(frame) == FrameState::Free {
            return Vacated::Done;
        }
        let mut empty = self.empty_frame(frames);
        if empty.is_none() {
            match self.evict_clean(pool) {
                // Before a miss takes the room.
                Vacated::NotYet => empty = self.empty_frame(frames),
                vacated => return vacated,
            }
        }
        let Some(empty) = empty else {
            return Vacated::NotYet;
        };
        match frames.claim_to_drop(frame) {
            Ok(from) => {
                self.move_page(from, empty, pool);
                Vacated::Done
            }
            Err(refusal) => {
                self.vacate(empty, frames);
                if refusal == LatchRefusal::Empty { Vacated::Done } else { Vacated::Busy }
            }
        }
    }

    /// Evicts some of the policy's next victims, unless something else has to happen first.
    fn evict_clean(&mut self, pool: PoolView) -> Vacated {
        let frames = pool.frames;
        let mut victims = [0; EVICTED_AT_ONCE];
        let victims = &mut victims[..EVICTED_AT_ONCE.min(self.to_leave(frames))];
        let (budget, unwritable) = (VictimSearchBudget::new(frames), &self.unwritable);
        let may_evict = |frame| frames.is_evictable(frame) && !unwritable.contains(&frame);
        // One search for all: one for each would take a time that grows with the square of the frames.
        let coming = self.policy.coming_victims(&may_evict, victims).filter(|&coming| coming > 0);
        let found = coming.or_else(|| {
            victims[0] = self.policy.victim(None, &|frame| budget.is_exhausted() || may_evict(frame))?;
            Some(1)
        });
        let Some(found) = found else {
            self.unwritable.clear();
            return Vacated::AllPinned;
        };
        for &victim in &victims[..found] {
            // Another thread may have fixed it since the policy asked.
            match frames.claim_victim(victim) {
                None => {}
                Some((claimed, true)) => {
                    claimed.release();
                    return Vacated::Dirty;
                }
                Some((claimed, false)) => {
                    let evicted = eviction(claimed, false, frames);
                    self.evict(&evicted, false, pool.table);
                    self.vacate(evicted.frame, frames);
                }
            }
        }
        Vacated::NotYet
    }

    fn move_page(&mut self, mut from: ClaimedFrame, mut to: ClaimedFrame, PoolView { frames, table, .. }: PoolView) {
        let (page, left, taken) = (from.page(), from.frame(), to.frame());
        to.take_over(&mut from);
        let changed = frames.state(taken).is_changed();
        table.remove(page, left);
        table.insert(page, taken);
        from.vacate();
        if self.policy_view.len() <= taken as usize {
            self.policy_view.resize(taken as usize + 1, PolicyView::Absent);
        }
        self.policy_view[taken as usize] = mem::replace(&mut self.policy_view[left as usize], PolicyView::Absent);
        if self.unwritable.remove(&left) {
            self.unwritable.insert(taken);
        }
        self.policy.moved(left, taken);
        self.returned += u64::from(changed);
        to.release();
    }

    /// Undoes the eviction of a page that was to be evicted with the victim and could not be written.
    pub(crate) fn undo_eviction(&mut self, mut old: Eviction, pool: PoolView) {
        let frame = old.frame.frame();
        old.frame.undo_load(old.page, old.lsn, old.first_lsn);
        self.readmit(frame, old.page, pool);
        old.frame.release();
    }

    /// Undoes an admission whose victim could not be written: the victim stays in its frame.
    pub(crate) fn undo_replacement(&mut self, mut admission: Admission, replaced: ReplacedPage, pool: PoolView) {
        let frame = admission.frame.frame();
        self.report_evicted(frame);
        pool.table.remove(admission.page, frame);
        admission.frame.undo_load(replaced.page, replaced.lsn, replaced.first_lsn);
        self.readmit(frame, replaced.page, pool);
        admission.frame.release();
    }

    fn readmit(&mut self, frame: Frame, page: u64, pool: PoolView) {
        self.returned += 1;
        self.evicting.remove(&page);
        self.ghosts.set(page, None, &*self.policy);
        self.unwritable.insert(frame);
        pool.table.insert(page, frame);
        self.report_admitted(frame, page, Access::Write);
    }

    /// The page in a frame could not be written together with a victim, and is still dirty.
    pub(crate) fn still_dirty(&mut self, frame: Frame, page: u64, frames: &Frames) {
        if frames.page_in(frame) == page && frames.state(frame) == FrameState::Dirty {
            self.unwritable.insert(frame);
            self.report_hit(frame, Access::Write);
        }
    }

    /// The page in a frame was written, and is clean unless it was evicted or changed since.
    pub(crate) fn cleaned(&mut self, frame: Frame, page: u64, frames: &Frames) {
        if frames.page_in(frame) == page && frames.state(frame) == FrameState::Clean {
            self.unwritable.remove(&frame);
            self.report_cleaned(frame);
        }
    }

    /// Removes the frames whose page could not be written lately.
    pub(crate) fn retain_writable(&self, frames: &mut Vec<Frame>) {
        frames.retain(|frame| !self.unwritable.contains(frame));
    }

    /// Undoes an admission whose page could not be read.
    pub(crate) fn undo_admission(&mut self, admission: Admission, pool: PoolView) {
        self.drop_page(admission.frame, admission.page, pool);
    }

    /// Drops a page without writing it.
    pub(crate) fn drop_page(&mut self, frame: ClaimedFrame, page: u64, pool: PoolView) {
        self.ghosts.set(page, None, &*self.policy);
        self.report_evicted(frame.frame());
        pool.table.remove(page, frame.frame());
        self.vacate(frame, pool.frames);
    }

    /// The dirty pages among the next victims, each followed by those that are best written with it. Looks at the
    /// next `count` victims, or at the next `count` dirty ones with `dirty_only`; at fewer if the searches become long
    /// because the policy writes pages together.
    pub(crate) fn next_dirty(&mut self, count: usize, dirty_only: bool, frames: &Frames) -> Vec<Frame> {
        let visited: RefCell<HashSet<Frame>> = RefCell::default();
        let mut dirty = Vec::new();
        let mut questions = 0;
        // Each search of a small reserve passes over the victims that were found before.
        let long_search = match dirty_only {
            true => LONG_SEARCH,
            false => 4 * LONG_SEARCH,
        };
        for _ in 0..count {
            let budget = VictimSearchBudget::new(frames);
            if !dirty_only && questions > MOST_QUESTIONS_PER_FRAME * u64::from(frames.count()) {
                break;
            }
            // A search that passes over many pages would do so again for each victim. So it collects the victims that
            // it meets, unless the policy writes pages together, which it decides for victims only.
            let collects = !self.writes_together;
            let collected = RefCell::new(Vec::new());
            let may_evict = |frame: Frame| {
                let is_dirty = frames.state(frame) == FrameState::Dirty;
                let eligible = !dirty_only || is_dirty;
                let evictable = eligible && frames.is_evictable(frame) && !visited.borrow().contains(&frame);
                let found = match dirty_only {
                    true => dirty.len() + collected.borrow().len(),
                    false => visited.borrow().len(),
                };
                let long = collects && budget.questions() > long_search;
                if evictable && long && found + 1 < count {
                    visited.borrow_mut().insert(frame);
                    if is_dirty {
                        collected.borrow_mut().push(frame);
                    }
                    return budget.is_exhausted();
                }
                budget.is_exhausted() || evictable
            };
            let victim = self.policy.victim(None, &may_evict);
            questions += budget.questions();
            dirty.append(&mut collected.borrow_mut());
            let is_full = match dirty_only {
                true => dirty.len() >= count,
                false => visited.borrow().len() >= count,
            };
            let Some(frame) = victim.filter(|_| !is_full) else {
                break;
            };
            visited.borrow_mut().insert(frame);
            if frames.state(frame) == FrameState::Dirty {
                dirty.push(frame);
                let from = dirty.len();
                self.policy.cleaned_with(frame, frames.count() as usize, &mut dirty);
                visited.borrow_mut().extend(&dirty[from..]);
                self.writes_together |= dirty.len() > from;
            }
        }
        let mut listed = HashSet::new();
        dirty.retain(|&frame| listed.insert(frame));
        dirty
    }
}

/// Plans the admission of one page: claims the frames that the policy names, and does no I/O.
struct MissDriver<'r, 'f> {
    replacement: &'r mut Replacement,
    pool: PoolView<'f>,
    /// A frame to take in place of the policy's victim, if its page can be evicted.
    preferred: Option<Frame>,
    /// The frame that the page is admitted to, where it was empty.
    claimed: Option<ClaimedFrame<'f>>,
    victim: Option<Eviction<'f>>,
    also_evicted: Vec<Eviction<'f>>,
    /// The number of evictions that were reported, the victim's first.
    evicted: usize,
    /// Dirty pages that are written with the victim and stay resident.
    cluster: Vec<SharedLatch<'f>>,
    /// Where the victim's block is written whole: its non-resident pages, and latches of its dirty pages that stay.
    block: Option<(Vec<u64>, Vec<SharedLatch<'f>>)>,
}

impl<'f> MissDriver<'_, 'f> {
    /// The work that is left to do, if there is a frame for the page.
    fn into_admission(self, page: u64) -> Option<Admission<'f>> {
        let replaced = self.victim.as_ref().map(|victim| ReplacedPage {
            page: victim.page,
            dirty: victim.dirty,
            lsn: victim.lsn,
            first_lsn: victim.first_lsn,
        });
        let (padding, staying) = self.block.unwrap_or_default();
        Some(Admission {
            page,
            frame: self.claimed.or(self.victim.map(|victim| victim.frame))?,
            replaced,
            also_evicted: self.also_evicted,
            cluster: self.cluster.into_iter().chain(staying).collect(),
            padding,
        })
    }
}

impl Driver for MissDriver<'_, '_> {
    type Policy = dyn DynPolicy + Send;

    fn policy(&mut self) -> &mut Self::Policy {
        &mut *self.replacement.policy
    }

    fn companions(&mut self) -> &mut MissScratch {
        &mut self.replacement.companions
    }

    fn empty_frame(&mut self) -> Option<Frame> {
        self.claimed = self.replacement.empty_frame(self.pool.frames);
        self.claimed.as_ref().map(ClaimedFrame::frame)
    }

    fn claim_victim(&mut self, incoming: (u64, Access)) -> Option<Frame> {
        let frames = self.pool.frames;
        let (claimed, dirty) = self
            .preferred
            .and_then(|frame| frames.claim_victim(frame))
            .or_else(|| self.replacement.claim_victim(incoming, self.pool))?;
        let victim = claimed.frame();
        self.victim = Some(eviction(claimed, dirty, frames));
        Some(victim)
    }

    fn most_together(&self) -> usize {
        self.pool.frames.count() as usize
    }

    fn write_together(&mut self, _victim: Frame, together: &[Frame]) {
        let frames = self.pool.frames;
        let latched = together.iter().filter_map(|&frame| {
            let (latch, _) = frames.share(frame, false).ok()?;
            (frames.state(frame) == FrameState::Dirty).then_some(latch)
        });
        self.cluster = latched.collect();
        if let (Some(victim), false) = (&self.victim, self.cluster.is_empty())
            && victim.dirty
        {
            self.replacement.notify(ReplacementEvent::Write(victim.page));
        }
        for latch in &self.cluster {
            self.replacement.notify(ReplacementEvent::Write(latch.page()));
            self.replacement.report_cleaned(latch.frame());
        }
    }

    fn claim(&mut self, frame: Frame) -> bool {
        let frames = self.pool.frames;
        let claimed = frames.claim_victim(frame);
        let claimed = claimed.map(|(claimed, dirty)| eviction(claimed, dirty, frames));
        let evictable = claimed.is_some();
        self.also_evicted.extend(claimed);
        evictable
    }

    fn write_block(&mut self, block: u64, _victim: Frame, _others: &[Frame]) {
        if let Some(victim) = &mut self.victim
            && self.pool.pads
        {
            let others = &mut self.also_evicted;
            self.block = self.replacement.prepare_block(block, victim, others, self.pool);
        }
    }

    fn evict(&mut self, _frame: Frame) {
        let write_reported = self.block.is_some();
        let table = self.pool.table;
        let (page, write_reported) = match self.evicted {
            0 => (self.victim.as_ref(), write_reported || !self.cluster.is_empty()),
            // They are evicted in the order in which they were claimed.
            nth => (self.also_evicted.get(nth - 1), write_reported),
        };
        if let Some(page) = page {
            self.replacement.evict(page, write_reported, table);
        }
        self.evicted += 1;
    }

    /// The frame is free once its page is written.
    fn free(&mut self, _frame: Frame) {}

    fn admit(&mut self, frame: Frame, page: u64, access: Access) {
        let table = self.pool.table;
        let victim = self.victim.as_mut().map(|victim| &mut victim.frame);
        if let Some(claimed) = self.claimed.as_mut().or(victim) {
            claimed.begin_load(page);
        }
        table.insert(page, frame);
        self.replacement.report_admitted(frame, page, access);
    }

    fn refuse(&mut self, page: u64, ghost: Option<Ghost>) {
        let replacement = &mut *self.replacement;
        replacement.ghosts.set(page, ghost, &*replacement.policy);
    }
}

/// Counts how often a policy asks about frames while it searches for one victim.
///
/// Threads pin and unpin frames during the search. A policy that learns that some frame can be evicted, and then
/// passes over all frames until it meets that one, would never end if a thread that waits for the policy's lock has
/// pinned it in between. When the budget is used up, every frame is offered to the policy, and the pool finds out
/// afterwards that the frame is taken.
struct VictimSearchBudget {
    questions: Cell<u64>,
    most: u64,
}

impl VictimSearchBudget {
    fn new(frames: &Frames) -> Self {
        VictimSearchBudget {
            questions: Cell::new(0),
            // Policies with counters pass a frame a few times, but none that often.
            most: 64 * u64::from(frames.most()) + 1024,
        }
    }

    /// The number of questions so far.
    fn questions(&self) -> u64 {
        self.questions.get()
    }

    #[inline]
    fn is_exhausted(&self) -> bool {
        self.questions.set(self.questions.get() + 1);
        self.questions.get() > self.most
    }
}

/// Asks the policy for a clean victim, which it would evict after no more than `most_dirty` dirty ones. After these it
/// may name a dirty one, so that the search ends as any other does.
///
/// It asks as the background writer does, since a search for a victim may pass over a dirty page for good that was only to stay
/// this time.
fn clean_victim(
    policy: &mut (dyn DynPolicy + Send),
    frames: &Frames,
    most_dirty: u64,
    may_evict: &dyn Fn(Frame) -> bool,
) -> Option<Frame> {
    let (dirty, budget) = (Cell::new(0), VictimSearchBudget::new(frames));
    let may_evict = |frame| {
        let is_dirty = frames.state(frame) == FrameState::Dirty;
        dirty.set(dirty.get() + u64::from(is_dirty));
        (!is_dirty || dirty.get() > most_dirty || budget.is_exhausted()) && may_evict(frame)
    };
    let clean = policy.victim(None, &may_evict)?;
    (frames.state(clean) == FrameState::Clean).then_some(clean)
}

fn eviction<'f>(frame: ClaimedFrame<'f>, dirty: bool, frames: &Frames) -> Eviction<'f> {
    Eviction { page: frame.page(), dirty, lsn: frame.lsn(), first_lsn: frames.first_lsn(frame.frame()), frame }
}
