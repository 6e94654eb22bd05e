//! What a pool consists of, and how pages come and go.
//!
//! Who waits for what, cited by its number elsewhere. Together these rule out that threads of the pool wait in a circle:
//!
//! 1. A thread that has the policy's lock waits for no latch, no copy to land, no room for copies and no I/O. It tries
//!    latches, and goes on without those that it does not get.
//! 2. A thread that waits for a latch, for a copy to land, for a page that leaves, or for a frame has no frame
//!    claimed, no room for copies and no latch, but for those of guards that the caller has. Guards may make a circle,
//!    and so the wait ends after [`Limits::patience`].
//! 3. A thread that has room for copies waits only for I/O, the caller's log, syncs included, and the policy's lock.
//!    It asked for all of its room at once.
//! 4. A thread that waits for room for copies may have frames claimed and shared latches: a thread that has room
//!    waits for neither (3).
//!
//! So a thread that waits as in 2 waits for one that waits as in 4 at most, that one for one as in 3, and that one for
//! one as in 1, which does not wait.

use std::time::Duration;

use ebbpool_policy::Access;

use crate::background::Signal;
use crate::error::Error;
use crate::frames::{
    Awaited, Claimed, Copied, Exclusive, Fixed, Frames, Refusal, Shared, State, Taken, Wish,
};
use crate::options::Limits;
use crate::read_ahead::ReadAhead;
use crate::recorder::Recorder;
use crate::replacement::{Coming, Leaving, Place, Plan, Replacement};
use crate::rings::{Hit, Next, Rings};
use crate::scan::Scan;
use crate::stats::{ReadCause, WriteCause};
use crate::sync::{AtomicU64, Condvar, Instant, Mutex, MutexGuard, Ordering, thread};
use crate::table::PageTable;
use crate::transfer::{Incoming, Outgoing, Transfer};

/// How often somebody who waits for an unpinned frame looks again, at first and at last.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LAST_LOOK: Duration = Duration::from_millis(10);

/// Victims that a miss tries to write before it fails.
const MOST_VICTIMS: usize = 8;

/// Everything that the threads of a pool share.
pub(crate) struct Core {
    pub(crate) frames: Frames,
    pub(crate) table: PageTable,
    pub(crate) rings: Rings,
    pub(crate) replacement: Mutex<Replacement>,
    /// Pages that had to leave have been written.
    pub(crate) left: Condvar,
    pub(crate) transfer: Transfer,
    pub(crate) limits: Limits,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) read_ahead: Option<ReadAhead>,
    /// To the background writer, if there is one.
    pub(crate) signal: Option<Signal>,
    /// Pages that the storage has.
    pub(crate) pages: AtomicU64,
}

/// What a miss came to.
enum BroughtIn<'c> {
    /// The page is in this frame, latched for the caller.
    Here(Claimed<'c>),
    /// Another thread has brought it in, into this frame.
    By(u32),
    /// The caller has waited and asks again.
    Again,
}

/// Where a page is, for a caller that needs to know for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    Resident(u32),
    /// It is being written because it has to leave.
    Leaving,
    NotResident,
}

/// What a page is brought in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be fixed.
    Fix(Access),
    /// To be fixed for writing, all zeros, whatever is in storage.
    New,
    /// Perhaps to be fixed soon.
    ReadAhead,
}

impl Purpose {
    fn access(self) -> Access {
        match self {
            Purpose::Fix(access) => access,
            Purpose::New => Access::Write,
            Purpose::ReadAhead => Access::Read,
        }
    }
}

impl Core {
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            frames: &self.frames,
            table: &self.table,
            pages: self.pages.load(Ordering::Relaxed),
        }
    }

    /// The policy, who has been told of the calling thread's hits.
    pub(crate) fn policy(&self) -> MutexGuard<'_, Replacement> {
        let mut replacement = self.replacement.lock();
        replacement.take_hits(&self.rings, &self.frames);
        replacement
    }

    /// A resident page was fixed: the policy is told, unless it need not be.
    #[inline]
    fn hit(&self, frame: u32, page: u64, access: Access, fixed: Fixed) {
        match fixed {
            Fixed { told: true, .. } => self.rings.count(),
            Fixed { fresh: true, .. } if self.frames.take_fresh(frame) => {
                self.fixed_ahead(frame, page, access);
            }
            _ => self.note_hit(frame, page, access),
        }
    }

    #[inline]
    fn note_hit(&self, frame: u32, page: u64, access: Access) {
        let hit = Hit::new(frame, page, access);
        match self.rings.note(hit) {
            Next::Nothing => {}
            next => self.hand_over(next, hit),
        }
    }

    #[cold]
    fn hand_over(&self, next: Next, hit: Hit) {
        let replacement = match next {
            Next::HandOver | Next::Tell => Some(self.replacement.lock()),
            _ => self.replacement.try_lock(),
        };
        if let Some(mut replacement) = replacement {
            replacement.take_hits(&self.rings, &self.frames);
            if next == Next::Tell {
                replacement.hit(hit, &self.frames);
            }
        }
    }

    /// A page was fixed for the first time since it was brought in ahead of time. The policy took its
    /// admission for a fix for reading.
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

    /// Where a page is. Without a lock a search may overlook a page, so the answer is asked for under the
    /// policy's where it would be that the page is not resident.
    pub(crate) fn whereabouts(&self, page: u64) -> Whereabouts {
        if let Some(frame) = self.table.find(page, &self.frames) {
            return Whereabouts::Resident(frame);
        }
        let policy = self.policy();
        match self.table.find_locked(page, &self.frames) {
            Some(frame) => Whereabouts::Resident(frame),
            None if policy.is_leaving(page) => Whereabouts::Leaving,
            None => Whereabouts::NotResident,
        }
    }

    /// Fixes a page for reading.
    #[inline]
    pub(crate) fn share(&self, page: u64, reuse: Option<&mut Scan>) -> Result<Shared<'_>, Error> {
        if let Some(recorder) = &self.recorder {
            recorder.note(page, Access::Read);
        }
        if let Some(frame) = self.table.find(page, &self.frames)
            && let Ok((latch, fixed)) = self.frames.fix(frame, true)
            && latch.page() == page
        {
            self.hit(frame, page, Access::Read, fixed);
            return Ok(latch);
        }
        self.share_slowly(page, reuse)
    }

    #[cold]
    fn share_slowly(&self, page: u64, mut reuse: Option<&mut Scan>) -> Result<Shared<'_>, Error> {
        let mut waiting = Waiting::new(self);
        let mut known = None;
        let mut first_asked = None;
        loop {
            let found = known.take().or_else(|| self.table.find(page, &self.frames));
            let Some(frame) = found else {
                let purpose = Purpose::Fix(Access::Read);
                match self.bring_in(page, purpose, reuse.as_deref_mut(), &mut waiting)? {
                    BroughtIn::Here(claimed) => return Ok(claimed.into_shared()),
                    BroughtIn::By(frame) => known = Some(frame),
                    BroughtIn::Again => {}
                }
                continue;
            };
            let version = self.frames.version_now(frame);
            let since = match first_asked {
                Some((of, since)) if of == frame => since,
                _ => version,
            };
            first_asked = Some((frame, since));
            // Once a writer has had its turn, this reader does not let another one go first.
            match self.frames.fix(frame, version == since) {
                Ok((latch, fixed)) if latch.page() == page => {
                    self.hit(frame, page, Access::Read, fixed);
                    return Ok(latch);
                }
                Ok(_) | Err(Refusal::Empty) => {}
                Err(Refusal::Abandoned) if self.frames.page_in(frame) == page => {
                    return Err(Error::Abandoned { page });
                }
                Err(Refusal::Abandoned) => {}
                Err(Refusal::Busy) => {
                    waiting.for_latch(frame, page, Awaited::Shared { since })?;
                }
            }
        }
    }

    /// Fixes a page for writing.
    #[inline]
    pub(crate) fn exclude(&self, page: u64) -> Result<Exclusive<'_>, Error> {
        self.transfer.check_writable()?;
        self.hold_up();
        if let Some(recorder) = &self.recorder {
            recorder.note(page, Access::Write);
        }
        self.exclude_for(page, Purpose::Fix(Access::Write))
    }

    /// Fixes a page for writing, all zeros.
    pub(crate) fn exclude_new(&self, page: u64) -> Result<Exclusive<'_>, Error> {
        self.transfer.check_writable()?;
        self.hold_up();
        let mut latch = self.exclude_for(page, Purpose::New)?;
        latch.bytes_mut().fill(0);
        Ok(latch)
    }

    #[inline]
    fn exclude_for(&self, page: u64, purpose: Purpose) -> Result<Exclusive<'_>, Error> {
        if let Some(frame) = self.table.find(page, &self.frames)
            // Taking the latch makes the page dirty, and so the number is looked at before: another page that came
            // into the frame in between is written once too often, which does no harm.
            && self.frames.page_in(frame) == page
            && let Ok((latch, fixed)) = self.frames.exclude(frame)
            && latch.page() == page
        {
            self.hit(frame, page, Access::Write, fixed);
            return Ok(latch);
        }
        self.exclude_slowly(page, purpose)
    }

    #[cold]
    fn exclude_slowly(&self, page: u64, purpose: Purpose) -> Result<Exclusive<'_>, Error> {
        let mut waiting = Waiting::new(self);
        let mut known = None;
        loop {
            let found = known.take().or_else(|| self.table.find(page, &self.frames));
            let Some(frame) = found else {
                match self.bring_in(page, purpose, None, &mut waiting)? {
                    BroughtIn::Here(claimed) => return Ok(claimed.into_exclusive()),
                    BroughtIn::By(frame) => known = Some(frame),
                    BroughtIn::Again => {}
                }
                continue;
            };
            if self.frames.page_in(frame) == page {
                match self.frames.exclude(frame) {
                    Ok((latch, fixed)) if latch.page() == page => {
                        self.hit(frame, page, Access::Write, fixed);
                        return Ok(latch);
                    }
                    Err(Refusal::Abandoned) if self.frames.page_in(frame) == page => {
                        return Err(Error::Abandoned { page });
                    }
                    _ => {}
                }
                waiting.for_latch(frame, page, Awaited::Exclusive)?;
            }
        }
    }

    /// Brings a page in that is not resident. Where the page that had to make room cannot be written, others
    /// are tried: it is not the caller's.
    fn bring_in<'c>(
        &'c self,
        page: u64,
        purpose: Purpose,
        mut reuse: Option<&mut Scan>,
        waiting: &mut Waiting<'c>,
    ) -> Result<BroughtIn<'c>, Error> {
        let mut tried = Vec::new();
        let mut coming = loop {
            let instead = reuse.as_mut().and_then(|reuse| reuse.instead(self));
            let coming = {
                let mut policy = self.policy();
                if let Some(costs) = self.transfer.news_of_costs(policy.costs_told_at()) {
                    policy.policy().costs(costs);
                }
                match policy.plan(page, purpose.access(), instead, self.place()) {
                    Plan::Resident(frame) => return Ok(BroughtIn::By(frame)),
                    Plan::Leaving => {
                        waiting.for_write(&mut policy, page)?;
                        return Ok(BroughtIn::Again);
                    }
                    Plan::AllPinned => {
                        drop(policy);
                        waiting.for_frame()?;
                        return Ok(BroughtIn::Again);
                    }
                    Plan::Coming(coming) => *coming,
                }
            };
            self.tell_erases(&coming);
            let victim = coming.replaced.map(|old| old.page);
            match self.make_room(coming) {
                Ok(coming) => break coming,
                Err(error) => {
                    let is_hopeless = tried.len() >= MOST_VICTIMS || tried.contains(&victim);
                    if is_hopeless || self.transfer.check_writable().is_err() {
                        return Err(error);
                    }
                    tried.push(victim);
                }
            }
        };
        self.transfer.counters.misses.add(1);
        if purpose == Purpose::New {
            coming.frame.loaded(0, false);
        } else {
            coming = self.read(coming, ReadCause::Miss)?;
        }
        if let Some(reuse) = reuse {
            reuse.brought_in(coming.frame.frame(), self);
        }
        if let (Some(read_ahead), Purpose::Fix(_)) = (&self.read_ahead, purpose) {
            read_ahead.missed(page);
        }
        Ok(BroughtIn::Here(coming.frame))
    }

    /// Brings pages in that will probably be fixed soon, as far as there is room for them.
    pub(crate) fn bring_in_ahead(&self, pages: impl Iterator<Item = u64>) {
        let mut all = Vec::new();
        for page in pages {
            let plan = self
                .policy()
                .plan(page, Purpose::ReadAhead.access(), None, self.place());
            let Plan::Coming(coming) = plan else { continue };
            self.tell_erases(&coming);
            // What cannot be written is whoever's who has to write it; those latched so far come.
            let Ok(coming) = self.make_room(*coming) else {
                break;
            };
            all.push(coming);
        }
        let mut incoming: Vec<Incoming<'_>> = all
            .iter_mut()
            .map(|coming| Incoming {
                page: coming.page,
                bytes: coming.frame.bytes_mut(),
            })
            .collect();
        if incoming.is_empty() {
            return;
        }
        let outcomes = self.transfer.read(&mut incoming, ReadCause::ReadAhead);
        drop(incoming);
        for (mut coming, outcome) in all.into_iter().zip(outcomes) {
            match outcome {
                Ok(lsn) => {
                    coming.frame.loaded(lsn, true);
                    coming.frame.release();
                }
                // Whoever fixes it will meet the error.
                Err(_) => self.policy().did_not_come(coming, self.place()),
            }
        }
    }

    /// Policies that weigh wear are told how often the page's erase block was erased.
    fn tell_erases(&self, coming: &Coming) {
        if let Some(erases) = self.transfer.storage().erases_of(coming.page) {
            let mut policy = self.policy();
            if policy.policy().asks_erase_counts() {
                policy.policy().erase_count(coming.frame.frame(), erases);
            }
        }
    }

    fn read<'c>(&'c self, mut coming: Coming<'c>, cause: ReadCause) -> Result<Coming<'c>, Error> {
        let page = coming.page;
        let bytes = coming.frame.bytes_mut();
        let outcome = self
            .transfer
            .read(&mut [Incoming { page, bytes }], cause)
            .pop();
        match outcome {
            Some(Ok(lsn)) => {
                coming.frame.loaded(lsn, false);
                Ok(coming)
            }
            Some(Err(error)) => {
                self.policy().did_not_come(coming, self.place());
                Err(error)
            }
            None => Ok(coming),
        }
    }

    /// Writes what has to be written before the page can come.
    fn make_room<'c>(&'c self, mut coming: Coming<'c>) -> Result<Coming<'c>, Error> {
        let dirty = |coming: &Coming| {
            let replaced = coming.replaced.is_some_and(|old| old.dirty);
            replaced || coming.leaving.iter().any(|old| old.dirty)
        };
        if !dirty(&coming) && coming.together.is_empty() && coming.leaving.is_empty() {
            return Ok(coming);
        }
        if dirty(&coming) {
            self.transfer.counters.waits_for_writes.add(1);
            if let Some(signal) = &self.signal {
                signal.more_to_do();
            }
        }
        let latches = std::mem::take(&mut coming.together);
        let leaving = std::mem::take(&mut coming.leaving);
        let padding = std::mem::take(&mut coming.padding);
        let written = self.write_leaving(&mut coming, leaving, padding, latches);
        match (written, coming.replaced) {
            (Err(error), Some(replaced)) => {
                let mut policy = self.policy();
                policy.stays_in_place(coming, replaced, self.place());
                self.left.notify_all();
                Err(error)
            }
            (_, Some(replaced)) => {
                if replaced.dirty {
                    self.policy().has_left(replaced.page);
                    self.left.notify_all();
                }
                Ok(coming)
            }
            (_, None) => Ok(coming),
        }
    }

    /// Writes the page that is replaced, those that leave with it, and those that are written with
    /// it; an error if the first could not be written.
    fn write_leaving<'c>(
        &'c self,
        coming: &mut Coming<'c>,
        mut leaving: Vec<Leaving<'c>>,
        padding: Vec<u64>,
        mut latches: Vec<Shared<'c>>,
    ) -> Result<(), Error> {
        // All room is asked for at once (3).
        let mut room = self.frames.room_for_copies(padding.len() + latches.len());
        let room_for_latches = room.split_off(room.len().min(padding.len()));
        let later = latches.split_off(latches.len().min(room_for_latches.len()));
        let mut pads = self.padding(&padding, room);
        let mut copies = copies(latches, room_for_latches, &mut Vec::new());
        let mut batch: Vec<Outgoing<'_>> = Vec::new();
        if let Some(old) = coming.replaced.filter(|old| old.dirty) {
            batch.push(Outgoing {
                page: old.page,
                lsn: old.lsn,
                bytes: coming.frame.bytes_mut(),
                cause: WriteCause::Eviction,
            });
        }
        let own = batch.len();
        for old in leaving.iter_mut().filter(|old| old.dirty) {
            batch.push(Outgoing {
                page: old.page,
                lsn: old.lsn,
                bytes: old.frame.bytes_mut(),
                cause: WriteCause::Eviction,
            });
        }
        for (copy, taken) in &mut copies {
            batch.push(Outgoing {
                page: taken.page,
                lsn: taken.lsn,
                bytes: copy.bytes_mut(),
                cause: WriteCause::Cluster,
            });
        }
        for (page, lsn, copy) in &mut pads {
            batch.push(Outgoing {
                page: *page,
                lsn: *lsn,
                bytes: copy.bytes_mut(),
                cause: WriteCause::Eviction,
            });
        }
        let mut outcomes = self.transfer.write(&mut batch).into_iter();
        drop(batch);
        let first = if own == 1 { outcomes.next() } else { None };
        let mut policy = self.policy();
        for old in leaving {
            let failed = old.dirty && outcomes.next().is_some_and(|outcome| outcome.is_err());
            match failed {
                true => policy.stays(old, self.place()),
                false => policy.is_free(old),
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
        padding.iter().for_each(|&page| policy.has_left(page));
        drop(policy);
        // The rest asks for room, and this thread would wait for its own (3).
        drop(pads);
        self.left.notify_all();
        if !later.is_empty() {
            // Errors leave the pages dirty, and are whoever's who has to evict them.
            let _ = self.write_latched(later, WriteCause::Cluster, false);
        }
        first.unwrap_or(Ok(()))
    }

    /// The pages that are not resident, of a block that is to be written whole; as far as they can
    /// be read.
    fn padding<'c>(
        &'c self,
        pages: &[u64],
        mut room: Vec<Copied<'c>>,
    ) -> Vec<(u64, u64, Copied<'c>)> {
        if pages.is_empty() {
            return Vec::new();
        }
        let mut incoming: Vec<Incoming<'_>> = pages
            .iter()
            .zip(&mut room)
            .map(|(&page, copy)| Incoming {
                page,
                bytes: copy.bytes_mut(),
            })
            .collect();
        let outcomes = self.transfer.read(&mut incoming, ReadCause::Padding);
        drop(incoming);
        let read = pages.iter().zip(room).zip(outcomes);
        read.filter_map(|((&page, copy), outcome)| Some((page, outcome.ok()?, copy)))
            .collect()
    }

    /// Writes pages that stay, a batch at a time; those that are not dirty any more are left out.
    /// With `tell` the policy is told which are clean then.
    ///
    /// # Errors
    ///
    /// The first, after all were tried.
    pub(crate) fn write_latched<'c>(
        &'c self,
        latches: Vec<Shared<'c>>,
        cause: WriteCause,
        tell: bool,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        let mut failure = None;
        let mut latches = latches.into_iter().peekable();
        while latches.peek().is_some() {
            let batch: Vec<Shared<'_>> = latches.by_ref().take(self.frames.most_copies()).collect();
            let room = self.frames.room_for_copies(batch.len());
            let mut copies = copies(batch, room, &mut written.left_to_others);
            let mut outgoing: Vec<Outgoing<'_>> = copies
                .iter_mut()
                .map(|(copy, taken)| Outgoing {
                    page: taken.page,
                    lsn: taken.lsn,
                    bytes: copy.bytes_mut(),
                    cause,
                })
                .collect();
            let outcomes = self.transfer.write(&mut outgoing);
            drop(outgoing);
            let mut policy = self.policy();
            // Before it hears that a page is clean, it must have heard who made it dirty.
            policy.take_all_hits(&self.rings, &self.frames);
            for ((_, taken), outcome) in copies.into_iter().zip(outcomes) {
                let (frame, page) = (taken.frame, taken.page);
                match outcome {
                    Ok(()) => {
                        written.pages += 1;
                        if taken.written(&self.frames) && tell {
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

    /// Slows down whoever makes pages dirty where too many are: the more the nearer the pool is to
    /// being full of them.
    #[inline]
    fn hold_up(&self) {
        if self.frames.dirty().count() > self.limits.dirty_budget_of_fixes {
            self.hold_up_by_excess();
        }
    }

    /// As each fix for writing does it, unless the caller wanted to say when.
    pub(crate) fn throttle(&self) {
        if self.frames.dirty().count() > self.limits.dirty_budget {
            self.hold_up_by_excess();
        }
    }

    #[cold]
    fn hold_up_by_excess(&self) {
        let Some(signal) = &self.signal else {
            // Nobody else writes: whoever makes pages dirty does, one batch.
            let dirty = self.policy().next_dirty(1, true, &self.frames);
            let _ = self.write_frames(dirty, WriteCause::Background);
            return;
        };
        signal.more_to_do();
        let over = self
            .frames
            .dirty()
            .count()
            .saturating_sub(self.limits.dirty_budget);
        let room = (self.frames.count() as usize)
            .saturating_sub(self.limits.dirty_budget)
            .max(1);
        let excess = (over as f64 / room as f64).min(1.0);
        let delay = self.limits.most_delay.mul_f64(excess * excess);
        self.transfer.counters.delays.add(1);
        self.transfer
            .counters
            .delayed_us
            .add(delay.as_micros() as u64);
        thread::sleep(delay);
    }

    /// Writes dirty pages that nobody is changing at this moment.
    pub(crate) fn write_frames(&self, frames: Vec<u32>, cause: WriteCause) -> Result<usize, Error> {
        let latched = frames
            .into_iter()
            .filter_map(|frame| self.frames.share(frame, false).ok());
        let latches = latched.map(|(latch, _)| latch).collect();
        Ok(self.write_latched(latches, cause, true)?.pages)
    }
}

/// What became of pages that were to be written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How many were written.
    pub(crate) pages: usize,
    /// Those of which another thread had a copy in flight, and their frames.
    pub(crate) left_to_others: Vec<(u64, u32)>,
}

/// Copies of the pages to be written, as far as they are still dirty and no other thread writes them.
fn copies<'c>(
    latches: Vec<Shared<'c>>,
    room: Vec<Copied<'c>>,
    left_to_others: &mut Vec<(u64, u32)>,
) -> Vec<(Copied<'c>, Taken)> {
    let copied = latches.into_iter().zip(room);
    let taken = copied.filter_map(|(latch, mut copy)| {
        let taken = copy.take(&latch);
        if taken.is_none() && latch.state() != State::Clean {
            left_to_others.push((latch.page(), latch.frame()));
        }
        Some((copy, taken?))
    });
    taken.collect()
}

/// A thread that waits, and not for ever.
pub(crate) struct Waiting<'c> {
    core: &'c Core,
    since: Instant,
    deadline: Instant,
    next_look: Duration,
    /// That readers let this thread go first.
    wish: Option<Wish<'c>>,
}

impl<'c> Waiting<'c> {
    pub(crate) fn new(core: &'c Core) -> Self {
        let since = Instant::now();
        Waiting {
            core,
            since,
            deadline: since + core.limits.patience,
            next_look: FIRST_LOOK,
            wish: None,
        }
    }

    fn too_long(&self, page: u64) -> Error {
        Error::Latched {
            page,
            waited: self.since.elapsed(),
        }
    }

    /// Waits for the latch of a frame that is thought to hold the page, or for a copy of it to land.
    pub(crate) fn for_latch(
        &mut self,
        frame: u32,
        page: u64,
        awaited: Awaited,
    ) -> Result<(), Error> {
        let core = self.core;
        core.transfer.counters.waits_for_latches.add(1);
        match core
            .frames
            .wait(frame, awaited, &mut self.wish, self.deadline)
        {
            true => Ok(()),
            false => Err(self.too_long(page)),
        }
    }

    /// Waits until a page that has to leave has been written.
    pub(crate) fn for_write(
        &mut self,
        policy: &mut MutexGuard<'_, Replacement>,
        page: u64,
    ) -> Result<(), Error> {
        self.core.transfer.counters.waits_for_writes.add(1);
        while policy.is_leaving(page) {
            if self.core.left.wait_until(policy, self.deadline).timed_out() {
                return Err(self.too_long(page));
            }
        }
        Ok(())
    }

    /// Waits until a frame may be unpinned.
    fn for_frame(&mut self) -> Result<(), Error> {
        let core = self.core;
        core.transfer.counters.waits_for_frames.add(1);
        loop {
            let now = Instant::now();
            if now >= self.deadline {
                return Err(Error::AllPinned {
                    frames: core.frames.count(),
                    waited: self.since.elapsed(),
                });
            }
            thread::sleep(self.next_look.min(self.deadline - now));
            self.next_look = (self.next_look * 2).min(LAST_LOOK);
            if (0..core.frames.count()).any(|frame| core.frames.may_leave(frame)) {
                return Ok(());
            }
        }
    }
}
