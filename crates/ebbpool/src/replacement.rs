//! Who goes: the policy, and what it needs to be told, under one lock.
//!
//! What holds whenever no thread has the policy's lock, and is cited by its number elsewhere:
//!
//! 1. All that a miss reports to the policy it reports in one go, before any I/O and under the lock. So for the policy
//!    references come one after the other, whatever the threads do, and it decides what it decides in the
//!    simulator.
//! 2. For each frame this module notes what the policy knows: no page, a clean one or a dirty one. The policy hears
//!    that a page was admitted only of a frame without one, and that a page was hit, cleaned or evicted only of a frame
//!    with one; that it was cleaned only if it takes it for dirty.
//! 3. A page is in at most one frame, and the page table says in which. Frame and table change together, under the lock.
//! 4. A page that has to be written because it leaves is in [`Replacement::leaving`] from the moment at which it leaves
//!    the table until it is in storage or back in its frame. A thread that wants it waits, so that storage is not read
//!    too early.
//! 5. The frames that a miss takes are latched exclusively from the decision until the I/O is done; those whose pages
//!    are written with them and stay are latched until copies are taken.

use std::cell::Cell;

use ebbpool_policy::{Access, DynPolicy, Frame, Gauges};
use hashbrown::HashSet;

use crate::contained::contained;
use crate::frames::{Claimed, Frames, Shared, State};
use crate::ghosts::Ghosts;
use crate::log::Lsn;
use crate::rings::{Hit, News, Rings};
use crate::table::PageTable;

/// Something that happened to a page, in the order in which it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It is written, as far as nothing fails.
    Write(u64),
    /// It leaves.
    Evict(u64),
}

/// Somebody who is told of events.
pub(crate) type Listener = Box<dyn FnMut(Event) + Send>;

/// A page that leaves.
pub(crate) struct Leaving<'f> {
    pub(crate) frame: Claimed<'f>,
    pub(crate) page: u64,
    pub(crate) dirty: bool,
    pub(crate) lsn: Lsn,
    pub(crate) first_lsn: Lsn,
}

/// The page that a frame held that another one comes into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub(crate) page: u64,
    pub(crate) dirty: bool,
    pub(crate) lsn: Lsn,
    pub(crate) first_lsn: Lsn,
}

/// A page that comes, and what has to be done before it can be read.
pub(crate) struct Coming<'f> {
    pub(crate) page: u64,
    pub(crate) frame: Claimed<'f>,
    pub(crate) replaced: Option<Replaced>,
    /// Those that leave with the one that is replaced.
    pub(crate) leaving: Vec<Leaving<'f>>,
    /// Those to be written with it, which stay.
    pub(crate) together: Vec<Shared<'f>>,
    /// Pages of its block that are not resident, to be read and written with it.
    pub(crate) padding: Vec<u64>,
}

/// What became of a wish to bring a page in.
pub(crate) enum Plan<'f> {
    /// It is in this frame, or about to be.
    Resident(Frame),
    /// It is being written because it had to leave.
    Leaving,
    /// There is no frame for it.
    AllPinned,
    Coming(Box<Coming<'f>>),
}

/// What the policy has been told of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// There is no page in it.
    Absent,
    Clean,
    Dirty,
}

/// See the [module](self).
pub(crate) struct Replacement {
    policy: Box<dyn DynPolicy + Send>,
    ghosts: Ghosts,
    /// Frames that have held a page and hold none.
    free: Vec<Frame>,
    /// Frames from here on have never held one.
    unused: Frame,
    /// Pages that are being written because they have to leave.
    leaving: HashSet<u64>,
    /// Frames whose page could not be written lately.
    unwritable: HashSet<Frame>,
    /// By frame, what the policy has been told of its page.
    told: Vec<Told>,
    listener: Option<Listener>,
    costs_told_at: u64,
    epochs: Epochs,
    scratch: Vec<Frame>,
    /// Pages that had to leave and could not be written, so far.
    came_back: u64,
}

/// When the policy is to be told of the next hit of each page.
struct Epochs {
    /// The policy is told of every hit, whatever it wants.
    exact: bool,
    /// Misses since the epoch began.
    misses: u32,
    /// Misses after which the next one begins.
    length: u32,
}

/// There are as many epochs to as many misses as there are frames. Longer ones change what policies decide
/// (`docs/pool.md`), shorter ones save less.
const EPOCHS: u32 = 32;

/// What a plan is made over.
#[derive(Clone, Copy)]
pub(crate) struct Place<'f> {
    pub(crate) frames: &'f Frames,
    pub(crate) table: &'f PageTable,
    /// Pages that the storage has, for padding.
    pub(crate) pages: u64,
}

impl Replacement {
    /// With `exact` the policy is told of every hit, whatever it asks for.
    pub(crate) fn new(
        policy: Box<dyn DynPolicy + Send>,
        listener: Option<Listener>,
        exact: bool,
    ) -> Self {
        Replacement {
            policy,
            ghosts: Ghosts::default(),
            free: Vec::new(),
            unused: 0,
            leaving: HashSet::new(),
            unwritable: HashSet::new(),
            told: Vec::new(),
            listener,
            costs_told_at: 0,
            epochs: Epochs {
                exact,
                misses: 0,
                length: 0,
            },
            scratch: Vec::new(),
            came_back: 0,
        }
    }

    pub(crate) fn policy(&mut self) -> &mut dyn DynPolicy {
        &mut *self.policy
    }

    pub(crate) fn gauges(&self) -> Gauges {
        self.policy.gauges()
    }

    pub(crate) fn costs_told_at(&mut self) -> &mut u64 {
        &mut self.costs_told_at
    }

    /// True if every frame holds a page.
    pub(crate) fn is_full(&self, frames: &Frames) -> bool {
        self.resident() == frames.count()
    }

    /// Pages that are being written because they have to leave, in ascending order.
    pub(crate) fn all_leaving(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.leaving.iter().copied().collect();
        pages.sort_unstable();
        pages
    }

    /// How many pages so far had to leave and could not be written.
    pub(crate) fn came_back(&self) -> u64 {
        self.came_back
    }

    pub(crate) fn is_leaving(&self, page: u64) -> bool {
        self.leaving.contains(&page)
    }

    /// Frames that hold a page.
    pub(crate) fn resident(&self) -> u32 {
        self.unused - self.free.len() as u32
    }

    fn tell(&mut self, event: Event) {
        if let Some(listener) = &mut self.listener
            && contained("the listener of events", || listener(event)).is_err()
        {
            let failed = self.listener.take();
            let _ = contained("its destructor", || drop(failed));
        }
    }

    /// Tells the policy of the calling thread's hits; of all if an epoch ends.
    pub(crate) fn take_hits(&mut self, rings: &Rings, frames: &Frames) {
        if self.epochs.misses >= self.epochs.length && !self.epochs.exact {
            return self.begin_epoch(rings, frames);
        }
        rings.take_own(|news| self.hear(news, frames));
    }

    /// Tells the policy of all hits.
    pub(crate) fn take_all_hits(&mut self, rings: &Rings, frames: &Frames) {
        rings.take_all(|news| self.hear(news, frames));
    }

    /// The hits of the last epoch have to be told before those of the next: a thread that notes few would
    /// keep them for many epochs, and its pages would leave.
    fn begin_epoch(&mut self, rings: &Rings, frames: &Frames) {
        self.take_all_hits(rings, frames);
        self.epochs.misses = 0;
        // A policy may change its mind, and is asked each time.
        self.epochs.length = (frames.count() / EPOCHS).max(1);
        match frames.count() < EPOCHS || self.policy.wants_every_hit() {
            true => frames.end_epochs(),
            false => frames.begin_epoch(),
        }
    }

    fn hear(&mut self, news: News, frames: &Frames) {
        match news {
            News::LeftOut(hits) => self.policy.left_out(hits),
            News::Soon(hit) => self.policy.prefetch(hit.frame),
            News::Hit(hit) => self.hit(hit, frames),
        }
    }

    /// Tells the policy of a hit, if the page is still there.
    pub(crate) fn hit(&mut self, hit: Hit, frames: &Frames) {
        let told = self.told.get(hit.frame as usize);
        if told.is_some_and(|&told| told != Told::Absent) && hit.is_of(frames.page_in(hit.frame)) {
            self.tell_hit(hit.frame, hit.access);
        }
    }

    fn tell_hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.told[frame as usize] = Told::Dirty;
        }
        self.policy.hit(frame, access);
    }

    fn tell_admitted(&mut self, frame: Frame, page: u64, access: Access) {
        let at = frame as usize;
        if self.told.len() <= at {
            self.told.resize(at + 1, Told::Absent);
        }
        self.told[at] = match access {
            Access::Read => Told::Clean,
            Access::Write => Told::Dirty,
        };
        self.policy.admit(frame, page, access);
    }

    fn tell_evicted(&mut self, frame: Frame) {
        self.told[frame as usize] = Told::Absent;
        self.policy.evicted(frame);
    }

    /// A page can be dirty that the policy takes for clean: the hit may be on its way, or was noted by a
    /// thread that has ended. Policies do not bear to be told that a clean page was cleaned (2).
    fn tell_cleaned(&mut self, frame: Frame) {
        let told = &mut self.told[frame as usize];
        if *told == Told::Dirty {
            *told = Told::Clean;
            self.policy.cleaned(frame);
        }
    }

    /// Finds a frame for a page and tells the policy all about it. `instead` is a frame to take in
    /// place of the policy's victim, if its page may leave.
    pub(crate) fn plan<'f>(
        &mut self,
        page: u64,
        access: Access,
        instead: Option<Frame>,
        place: Place<'f>,
    ) -> Plan<'f> {
        let Place { frames, table, .. } = place;
        // By 3 no other frame has it, and by 4 storage has its latest content where it is in neither.
        if let Some(frame) = table.find_locked(page, frames) {
            return Plan::Resident(frame);
        }
        if self.leaving.contains(&page) {
            return Plan::Leaving;
        }
        self.policy.miss(page, self.ghosts.get(page), access);
        self.epochs.misses = self.epochs.misses.saturating_add(1);
        let coming = match self.empty_frame(frames) {
            Some(frame) => Some(Coming {
                page,
                frame,
                replaced: None,
                leaving: Vec::new(),
                together: Vec::new(),
                padding: Vec::new(),
            }),
            None => self.replace(page, access, instead, place),
        };
        let Some(mut coming) = coming else {
            let ghost = self.policy.refused();
            self.ghosts.set(page, ghost);
            return Plan::AllPinned;
        };
        coming.frame.begin_load(page);
        table.insert(page, coming.frame.frame(), frames);
        self.tell_admitted(coming.frame.frame(), page, access);
        Plan::Coming(Box::new(coming))
    }

    fn empty_frame<'f>(&mut self, frames: &'f Frames) -> Option<Claimed<'f>> {
        let frame = if self.unused < frames.count() {
            self.unused += 1;
            self.unused - 1
        } else {
            self.free.pop()?
        };
        frames.claim(frame)
    }

    fn replace<'f>(
        &mut self,
        page: u64,
        access: Access,
        instead: Option<Frame>,
        place: Place<'f>,
    ) -> Option<Coming<'f>> {
        let Place { frames, table, .. } = place;
        let (claimed, dirty) = instead
            .and_then(|frame| frames.claim_victim(frame))
            .or_else(|| self.claim_victim(Some((page, access)), frames))?;
        let victim = claimed.frame();
        let mut old = leaving(claimed, dirty, frames);
        let together = self.together(victim, frames);
        if !together.is_empty() {
            if old.dirty {
                self.tell(Event::Write(old.page));
            }
            for latch in &together {
                self.tell(Event::Write(latch.page()));
                self.tell_cleaned(latch.frame());
            }
        }
        let mut others = Vec::new();
        let mut frames_leaving = std::mem::take(&mut self.scratch);
        self.policy.also_leaving(victim, &mut frames_leaving);
        for frame in frames_leaving.drain(..).filter(|&frame| frame != victim) {
            if let Some((claimed, dirty)) = frames.claim_victim(frame) {
                others.push(leaving(claimed, dirty, frames));
            }
        }
        self.scratch = frames_leaving;
        let block = self.block_written_whole(victim, &mut old, &mut others, place);
        let told = block.is_some();
        self.let_go(&old, told || !together.is_empty(), table, frames);
        for other in &others {
            self.let_go(other, told, table, frames);
        }
        let (padding, staying) = block.unwrap_or_default();
        let together = together.into_iter().chain(staying).collect();
        Some(Coming {
            page,
            replaced: Some(Replaced {
                page: old.page,
                dirty: old.dirty,
                lsn: old.lsn,
                first_lsn: old.first_lsn,
            }),
            frame: old.frame,
            leaving: others,
            together,
            padding,
        })
    }

    /// Latches the page that the policy lets go.
    fn claim_victim<'f>(
        &mut self,
        incoming: Option<(u64, Access)>,
        frames: &'f Frames,
    ) -> Option<(Claimed<'f>, bool)> {
        loop {
            let unwritable = &self.unwritable;
            let asked = Asked::new(frames);
            let may_go = |frame| {
                asked.too_often() || frames.may_leave(frame) && !unwritable.contains(&frame)
            };
            match self.policy.victim(incoming, &may_go) {
                Some(frame) => match frames.claim_victim(frame) {
                    // Somebody may have fixed it since the policy asked.
                    None => continue,
                    claimed => return claimed,
                },
                // Better to try again to write what could not be written than to give up.
                None if !self.unwritable.is_empty() => self.unwritable.clear(),
                None => return None,
            }
        }
    }

    /// Latches the dirty pages that are best written with the victim.
    fn together<'f>(&mut self, victim: Frame, frames: &'f Frames) -> Vec<Shared<'f>> {
        let mut wanted = std::mem::take(&mut self.scratch);
        self.policy
            .write_with(victim, frames.count() as usize, &mut wanted);
        let latched = wanted.drain(..).filter_map(|frame| {
            let (latch, _) = frames.share(frame, false).ok()?;
            (frames.state(frame) == State::Dirty).then_some(latch)
        });
        let latched = latched.collect();
        self.scratch = wanted;
        latched
    }

    /// Where blocks are written whole, and the victim's has to be: the pages of it that are not
    /// resident, and latches of the dirty ones that stay. All that leave are written then.
    fn block_written_whole<'f>(
        &mut self,
        victim: Frame,
        old: &mut Leaving<'f>,
        others: &mut [Leaving<'f>],
        place: Place<'f>,
    ) -> Option<(Vec<u64>, Vec<Shared<'f>>)> {
        let dirty = old.dirty || others.iter().any(|other| other.dirty);
        let block = self.policy.padding(victim).filter(|_| dirty)?;
        let first = old.page / block.get() * block.get();
        let end = first.saturating_add(block.get()).min(place.pages);
        let (mut missing, mut staying) = (Vec::new(), Vec::new());
        let mut written: Vec<u64> = others.iter().map(|other| other.page).collect();
        written.push(old.page);
        for page in first..end {
            if written.contains(&page) || self.leaving.contains(&page) {
                continue;
            }
            match place.table.find_locked(page, place.frames) {
                None => missing.push(page),
                Some(frame) => {
                    if let Ok((latch, _)) = place.frames.share(frame, false)
                        && place.frames.state(frame) == State::Dirty
                    {
                        self.tell_cleaned(frame);
                        staying.push(latch);
                    }
                }
            }
        }
        old.dirty = true;
        others.iter_mut().for_each(|other| other.dirty = true);
        self.leaving.extend(&missing);
        written.extend(
            missing
                .iter()
                .copied()
                .chain(staying.iter().map(Shared::page)),
        );
        written.sort_unstable();
        written
            .into_iter()
            .for_each(|page| self.tell(Event::Write(page)));
        Some((missing, staying))
    }

    /// Tells the policy that a page leaves, and everybody that it is gone.
    fn let_go(&mut self, old: &Leaving, told: bool, table: &PageTable, frames: &Frames) {
        if old.dirty && !told {
            self.tell(Event::Write(old.page));
        }
        self.tell(Event::Evict(old.page));
        let frame = old.frame.frame();
        let ghost = self.policy.remember(frame);
        self.ghosts.set(old.page, ghost);
        self.tell_evicted(frame);
        table.remove(old.page, frame, frames);
        if old.dirty {
            self.leaving.insert(old.page);
        }
    }

    /// The page is in storage, and may come back.
    pub(crate) fn has_left(&mut self, page: u64) {
        self.leaving.remove(&page);
    }

    /// The frame of a page that left with another is empty now.
    pub(crate) fn is_free(&mut self, left: Leaving) {
        // A clean one may have come back meanwhile, and be leaving again by way of somebody else.
        if left.dirty {
            self.leaving.remove(&left.page);
        }
        self.free.push(left.frame.frame());
        left.frame.vacate();
    }

    /// The page that was to leave with another could not be written: it is back.
    pub(crate) fn stays(&mut self, mut old: Leaving, place: Place) {
        let frame = old.frame.frame();
        old.frame.undo_load(old.page, old.lsn, old.first_lsn);
        self.is_back(frame, old.page, place);
        old.frame.release();
    }

    /// The page that was to make room could not be written: it is back, and the other does not come.
    pub(crate) fn stays_in_place(&mut self, mut coming: Coming, replaced: Replaced, place: Place) {
        let frame = coming.frame.frame();
        self.tell_evicted(frame);
        place.table.remove(coming.page, frame, place.frames);
        coming
            .frame
            .undo_load(replaced.page, replaced.lsn, replaced.first_lsn);
        self.is_back(frame, replaced.page, place);
        coming.frame.release();
    }

    fn is_back(&mut self, frame: Frame, page: u64, place: Place) {
        self.came_back += 1;
        self.leaving.remove(&page);
        self.ghosts.set(page, None);
        self.unwritable.insert(frame);
        place.table.insert(page, frame, place.frames);
        self.tell_admitted(frame, page, Access::Write);
    }

    /// The page in a frame could not be written with another, and is still dirty.
    pub(crate) fn still_dirty(&mut self, frame: Frame, page: u64, frames: &Frames) {
        if frames.page_in(frame) == page && frames.state(frame) == State::Dirty {
            self.unwritable.insert(frame);
            self.tell_hit(frame, Access::Write);
        }
    }

    /// The page in a frame was written, and is clean unless it has left or changed since.
    pub(crate) fn cleaned(&mut self, frame: Frame, page: u64, frames: &Frames) {
        if frames.page_in(frame) == page && frames.state(frame) == State::Clean {
            self.unwritable.remove(&frame);
            self.tell_cleaned(frame);
        }
    }

    /// The page could not be brought in.
    pub(crate) fn did_not_come(&mut self, coming: Coming, place: Place) {
        self.drop_page(coming.frame, coming.page, place);
    }

    /// Forgets a page that is not to be written.
    pub(crate) fn drop_page(&mut self, frame: Claimed, page: u64, place: Place) {
        self.ghosts.set(page, None);
        self.tell_evicted(frame.frame());
        place.table.remove(page, frame.frame(), place.frames);
        self.free.push(frame.frame());
        frame.vacate();
    }

    /// The pages that will have to make room next, as far as they are dirty, each followed by those
    /// that are best written with it; `count` are looked at, or only dirty ones if `dirty_only`.
    pub(crate) fn next_dirty(
        &mut self,
        count: usize,
        dirty_only: bool,
        frames: &Frames,
    ) -> Vec<Frame> {
        let mut seen: HashSet<Frame> = HashSet::new();
        let mut dirty = Vec::new();
        for _ in 0..count {
            let asked = Asked::new(frames);
            let may_go = |frame: Frame| {
                let state = frames.state(frame);
                let wanted = !dirty_only || state == State::Dirty;
                let may_leave = wanted && frames.may_leave(frame) && !seen.contains(&frame);
                asked.too_often() || may_leave
            };
            let Some(frame) = self.policy.victim(None, &may_go) else {
                break;
            };
            seen.insert(frame);
            if frames.state(frame) == State::Dirty {
                dirty.push(frame);
                let from = dirty.len();
                self.policy
                    .write_with(frame, frames.count() as usize, &mut dirty);
                seen.extend(&dirty[from..]);
            }
        }
        let mut listed = HashSet::new();
        dirty.retain(|&frame| listed.insert(frame));
        dirty
    }
}

/// How often a policy has asked for one victim.
///
/// Frames are pinned and unpinned while it looks. One that finds that some frame may go, and then goes
/// round until it meets it, would go round for ever if that frame is pinned in between by somebody who
/// waits for the policy's lock. Then any frame is offered, and whoever asked finds that it is taken.
struct Asked {
    times: Cell<u64>,
    most: u64,
}

impl Asked {
    fn new(frames: &Frames) -> Self {
        Asked {
            times: Cell::new(0),
            // Policies with counters pass a frame a few times, none so often.
            most: 64 * u64::from(frames.count()) + 1024,
        }
    }

    #[inline]
    fn too_often(&self) -> bool {
        self.times.set(self.times.get() + 1);
        self.times.get() > self.most
    }
}

fn leaving<'f>(frame: Claimed<'f>, dirty: bool, frames: &Frames) -> Leaving<'f> {
    Leaving {
        page: frame.page(),
        dirty,
        lsn: frame.lsn(),
        first_lsn: frames.first_lsn(frame.frame()),
        frame,
    }
}
