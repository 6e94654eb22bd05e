//! A frame's state, latch and version in one word.
//!
//! ```text
//! bits 63..32  version: grows when an exclusive latch is released and when the page is evicted
//! bit  31      written: a write was reported to the policy in that epoch
//! bits 30..23  mark: the epoch in which a hit of the page was last reported to the policy; 0 if none was
//! bits 22..20  state
//! bit  19      writer waits: for the exclusive latch, and readers let it go first
//! bit  18      fresh: read ahead, and not fixed since
//! bit  17      waiters: a thread waits for the latch, or for a copy to land, and is to be woken
//! bit  16      latched exclusively
//! bit  15      elder waits: a thread that has waited for long has its turn, and writers let it go first
//! bits 14..0   shared latches: the pins of readers
//! ```
//!
//! A *copy in flight* is a copy of the page that is being written to storage. It belongs to one `CopyInFlight`, which
//! exists after [`begin_write`](FrameWord::begin_write) has succeeded; only [`written`](FrameWord::written) and
//! [`write_failed`](FrameWord::write_failed) end the flight.
//!
//! The invariants, which hold at any time. Other modules cite them by number:
//!
//! 1. A thread that changes the page's bytes, the frame's page number or its LSN has the exclusive latch, beside
//!    which there is no other latch.
//! 2. A page is removed from its frame only under the exclusive latch. So while a thread has a latch of either sort
//!    the frame has the same page, and a page number that was read under the latch stays right.
//! 3. A frame has at most one copy in flight, and keeps its page until that has landed: no transition out of a state
//!    with a copy in flight leads to loading or free.
//! 4. Before the first byte of a page changes its state is dirty or redirtied, and it is clean again only when a
//!    copy that has the change is in storage. So a clean page is as in storage.
//! 5. The version changes before an exclusive latch under which bytes may have changed is released, and before
//!    another page is in the frame. So bytes that were copied under latches at the same version are of one moment.
//! 6. A thread that waits has set *waiters* under the lock of the frame's waiting room, and releases that lock only
//!    by falling asleep. A thread that ends what others may wait for clears the bit, takes the lock, and then wakes
//!    them. So no thread misses the end of what it waits for.
//! 7. *Writer waits* is set exactly while a writer waits for the frame, and *elder waits* from when an elder sleeps in its turn
//!    until no elder has one, as seen by a thread that has the lock of the waiting room.
//!
//! | from | transition | to | copy in flight |
//! | --- | --- | --- | --- |
//! | free | [`claim`](FrameWord::claim): a page will be loaded | loading, latched exclusively | no |
//! | clean, dirty | [`claim_victim`](FrameWord::claim_victim): unpinned, beside no elder's turn, and about to be evicted | the same, latched exclusively | no |
//! | clean, dirty | [`begin_load`](FrameWord::begin_load): its page was evicted | loading | no |
//! | loading | [`loaded`](FrameWord::loaded): the page is in the frame | clean | no |
//! | loading | [`settle`](FrameWord::settle): the page came from another frame, which had it in that state | clean, dirty, abandoned | no |
//! | loading | [`vacate`](FrameWord::vacate): it could not be read | free | no |
//! | clean | [`exclude`](FrameWord::exclude) or [`upgrade`](FrameWord::upgrade) to change it | dirty | no |
//! | dirty | [`begin_write`](FrameWord::begin_write): a copy is made to be written | writing | begins |
//! | writing | [`exclude`](FrameWord::exclude) or [`upgrade`](FrameWord::upgrade) to change it | redirtied | goes on |
//! | writing | [`written`](FrameWord::written) | clean | ends |
//! | redirtied | [`written`](FrameWord::written): the copy is in storage, the page has changed since | dirty | ends |
//! | writing, redirtied | [`write_failed`](FrameWord::write_failed) | dirty | ends |
//! | dirty | [`abandon`](FrameWord::abandon): a thread panicked while it changed the page | abandoned | no |
//! | redirtied | [`abandon`](FrameWord::abandon) | abandoned in flight | goes on |
//! | abandoned in flight | [`written`](FrameWord::written), [`write_failed`](FrameWord::write_failed) | abandoned | ends |
//! | clean, dirty, abandoned | [`vacate`](FrameWord::vacate): the page is dropped | free | no |
//!
//! *Writer waits* belongs to the writers that wait (7): `Frames` counts them for each frame under the lock of the frame's
//! waiting room. The first writer that waits sets the bit ([`note_waiter`](FrameWord::note_waiter)). The last one that
//! stops waiting, because it has the latch or because it gives up, clears it
//! ([`last_writer_stopped`](FrameWord::last_writer_stopped)). No other transition touches it. A reader that finds the bit set
//! waits for one turn of a writer, which it recognises by the version, and then takes its latch. So writers do not
//! starve beside readers. The reader waits so for a limited time only, because the writer may wait for a page that this reader,
//! or one that waits for it, has fixed.
//!
//! *Elder waits* belongs to the threads that have waited for long (7). A thread that takes the exclusive latch again at once
//! would otherwise be before those that wait, again and again. From time to time it is the turn of one of the elders, in the order
//! in which they became elders (`queues.rs`): while the bit is set no other thread takes the exclusive latch
//! ([`exclude`](FrameWord::exclude)), nor makes its shared one exclusive ([`upgrade`](FrameWord::upgrade)). An elder waits for nothing but this latch and, if it drops the page, for a copy to land, so
//! that letting it go first cannot be part of a circle.
//!
//! The *mark* is the [`HitEpoch`] in which a hit was last reported to the policy, and *written* says whether a write
//! was. [`fix`](FrameWord::fix) and [`exclude`](FrameWord::exclude) set them to the epoch that the caller passes. A
//! page that is being loaded ([`begin_load`](FrameWord::begin_load)), and one that was read ahead and is fixed for the
//! first time ([`take_fresh`](FrameWord::take_fresh)), have no mark, so their next hit is reported to the policy. No
//! other transition touches them. They decide only whether a hit is reported: the state says whether a page is dirty.

use crate::sync::{AtomicU64, Ordering};

const SHARED: u64 = 0x7fff;
const ELDER_WAITS: u64 = 1 << 15;
const EXCLUSIVE: u64 = 1 << 16;
const WAITERS: u64 = 1 << 17;
const FRESH: u64 = 1 << 18;
const WRITER_WAITS: u64 = 1 << 19;
const HELD: u64 = SHARED | EXCLUSIVE;
const STATE_SHIFT: u32 = 20;
const STATE: u64 = 7 << STATE_SHIFT;
const MARK_SHIFT: u32 = 23;
const MARKS: u64 = 255;
const MARK: u64 = MARKS << MARK_SHIFT;
const WRITTEN: u64 = 1 << 31;
const VERSION_SHIFT: u32 = 32;
const ONE_VERSION: u64 = 1 << VERSION_SHIFT;

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameState {
    Free,
    /// A thread is loading a page.
    Loading,
    /// The page is as it is in storage.
    Clean,
    /// Changed since it was last written.
    Dirty,
    /// Changed since it was last written; a copy is in flight.
    Writing,
    /// A copy is in flight, and the page has changed since the copy was taken.
    Redirtied,
    /// Left half changed by a thread that panicked.
    Abandoned,
    /// Left half changed by a thread that panicked; a copy that was taken before is in flight.
    AbandonedInFlight,
}

impl FrameState {
    /// True if the frame may have changes that storage does not have.
    pub(crate) fn is_changed(self) -> bool {
        !matches!(self, FrameState::Free | FrameState::Loading | FrameState::Clean)
    }

    /// True if a copy of the page is in flight.
    pub(crate) fn is_in_flight(self) -> bool {
        matches!(self, FrameState::Writing | FrameState::Redirtied | FrameState::AbandonedInFlight)
    }
}

/// What a thread waits for when it cannot take a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCondition {
    /// The shared latch. The thread lets waiting writers go first until the version is no longer `polite_since`, which
    /// is the one when it first tried; `None` if it no longer lets them go first.
    Shared { polite_since: Option<u32> },
    /// The exclusive latch, to change the page. Threads that have no turn let an elder go first that has it.
    Exclusive { in_turn: bool },
    /// The exclusive latch of a page without a copy in flight, to drop the page.
    Drop,
    /// That no copy of the page is in flight.
    Landing,
}

impl WaitCondition {
    /// The condition for a thread that has its turn, or has none.
    pub(crate) fn in_turn(self, in_turn: bool) -> Self {
        match self {
            WaitCondition::Exclusive { .. } => WaitCondition::Exclusive { in_turn },
            other => other,
        }
    }

    /// True if readers let this thread go first.
    pub(crate) fn is_writer(self) -> bool {
        matches!(self, WaitCondition::Exclusive { .. } | WaitCondition::Drop)
    }
}

/// The result of the end of a copy's flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LandedCopy {
    /// The page is clean now.
    pub(crate) clean: bool,
    /// A thread waits and is to be woken.
    pub(crate) wake: bool,
}

/// Why a latch cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatchRefusal {
    /// Another thread has it.
    Busy,
    /// There is no page in the frame.
    Empty,
    /// A thread that panicked left the page half changed.
    Abandoned,
}

/// A period in which only a page's first hit and its first write are reported to the policy. Numbers of epochs repeat
/// after 255 epochs: if a page was not hit for that long, a hit that should be reported may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HitEpoch(u64);

impl HitEpoch {
    /// Stands for no epoch, if every hit is reported to the policy: no word has this mark.
    pub(crate) const NONE: HitEpoch = HitEpoch(1);

    /// The epoch after this one; the first one after [`NONE`](Self::NONE).
    pub(crate) fn next(self) -> Self {
        let number = (self.0 & MARK) >> MARK_SHIFT;
        HitEpoch((number % MARKS + 1) << MARK_SHIFT)
    }

    /// The epoch as the value of an atomic.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The epoch that [`to_bits`](Self::to_bits) returned.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        HitEpoch(bits)
    }

    /// The word of a page that is fixed for reading in this epoch.
    #[inline]
    fn read(self, word: u64) -> u64 {
        match word & MARK == self.0 {
            true => word,
            false => word & !(MARK | WRITTEN) | self.0 & MARK,
        }
    }

    /// The word of a page that is fixed for writing in this epoch.
    #[inline]
    fn write(self, word: u64) -> u64 {
        word & !MARK | self.0 & MARK | WRITTEN
    }

    /// True if a hit was reported to the policy in this epoch, and the page is not fresh.
    #[inline]
    fn is_reported(self, word: u64) -> bool {
        word & (MARK | FRESH) == self.0
    }

    /// True if a hit for writing was reported to the policy in this epoch, and the page is not fresh.
    #[inline]
    fn is_write_reported(self, word: u64) -> bool {
        word & (MARK | WRITTEN | FRESH) == self.0 | WRITTEN
    }
}

/// What a fix of a resident page has to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HitStatus {
    /// The hit need not be reported to the policy.
    pub(crate) reported: bool,
    /// The page was read ahead; see [`FrameWord::take_fresh`].
    pub(crate) fresh: bool,
}

/// The result of taking the exclusive latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExclusiveResult {
    /// The page was clean until now.
    pub(crate) was_clean: bool,
    pub(crate) fixed: HitStatus,
}

/// A frame's state, latch and version in one atomic word.
#[derive(Debug)]
pub(crate) struct FrameWord(AtomicU64);

impl FrameWord {
    /// The word of an empty frame.
    pub(crate) fn new() -> Self {
        FrameWord(AtomicU64::new(bits(FrameState::Free)))
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Replaces the word by the result of `change`, unless that is `None`; returns the word before.
    #[inline]
    fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = change(word)?;
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Some(before),
                Err(now) => word = now,
            }
        }
    }

    /// The frame's state at this moment.
    pub(crate) fn state(&self) -> FrameState {
        state(self.load())
    }

    /// The frame's state, as of a moment between two transitions: the threads that make the later ones see what this thread has
    /// stored before, and this thread sees what those have stored that made the earlier ones.
    pub(crate) fn ordered_state(&self) -> FrameState {
        state(self.0.fetch_add(0, Ordering::AcqRel))
    }

    /// True if the frame's page could be evicted at this moment.
    #[inline]
    pub(crate) fn is_evictable(&self) -> bool {
        let word = self.load();
        may_leave(word)
    }

    /// Takes a shared latch; true if the page is fresh. A `polite` reader lets waiting writers go first.
    pub(crate) fn share(&self, polite: bool) -> Result<bool, LatchRefusal> {
        let before = self.take_shared(polite, |word| word)?;
        Ok(before & FRESH != 0)
    }

    /// Takes a shared latch for a caller that fixes the page; returns what the fix has to report.
    #[inline]
    pub(crate) fn fix(&self, polite: bool, epoch: HitEpoch) -> Result<HitStatus, LatchRefusal> {
        let before = self.take_shared(polite, |word| epoch.read(word))?;
        Ok(HitStatus { reported: epoch.is_reported(before), fresh: before & FRESH != 0 })
    }

    #[inline]
    fn take_shared(&self, polite: bool, marked: impl Fn(u64) -> u64) -> Result<u64, LatchRefusal> {
        let stopped = if polite { EXCLUSIVE | WRITER_WAITS } else { EXCLUSIVE };
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if let Some(refusal) = refusal(word, stopped) {
                return Err(refusal);
            }
            if word & SHARED == SHARED {
                return Err(LatchRefusal::Busy);
            }
            match self.0.compare_exchange_weak(word, marked(word) + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(before) => return Ok(before),
                Err(now) => word = now,
            }
        }
    }

    /// Notes that a page that was read ahead is fixed now, which the caller has verified under a latch. True for the
    /// first caller.
    pub(crate) fn take_fresh(&self) -> bool {
        let before = self.0.fetch_and(!(FRESH | MARK | WRITTEN), Ordering::Relaxed);
        before & FRESH != 0
    }

    /// Takes the exclusive latch, to change the page. The first change since the page was clean, or since a copy was
    /// taken, is reported to the policy in any epoch: the policy may believe the page clean. A thread that is not `in_turn` lets an
    /// elder go first that has its turn.
    #[inline]
    pub(crate) fn exclude(&self, in_turn: bool, epoch: HitEpoch) -> Result<ExclusiveResult, LatchRefusal> {
        self.take_exclusive(if in_turn { HELD } else { HELD | ELDER_WAITS }, 0, epoch)
    }

    /// Makes the caller's shared latch the exclusive one, to change the page, if there is no other latch. Of two threads that try
    /// it, at most one succeeds, and neither waits.
    pub(crate) fn upgrade(&self, epoch: HitEpoch) -> Result<ExclusiveResult, LatchRefusal> {
        self.take_exclusive(HELD | ELDER_WAITS, 1, epoch)
    }

    /// Takes the exclusive latch in place of `own` shared ones, unless a bit of `stopped` is set beside these.
    #[inline]
    fn take_exclusive(&self, stopped: u64, own: u64, epoch: HitEpoch) -> Result<ExclusiveResult, LatchRefusal> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if let Some(refusal) = refusal(word - own, stopped) {
                return Err(refusal);
            }
            let was = state(word);
            let becomes = match was {
                FrameState::Writing => FrameState::Redirtied,
                FrameState::Redirtied => FrameState::Redirtied,
                _ => FrameState::Dirty,
            };
            let next = epoch.write(with_state(word - own, becomes)) | EXCLUSIVE;
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    return Ok(ExclusiveResult {
                        was_clean: was == FrameState::Clean,
                        fixed: HitStatus {
                            reported: epoch.is_write_reported(word) && becomes == was,
                            fresh: word & FRESH != 0,
                        },
                    });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Releases a shared latch; true if a thread is to be woken: a writer if it was the last latch, a reader if there
    /// were as many as there can be.
    #[inline]
    pub(crate) fn unshare(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::Release);
        before & WAITERS != 0 && matches!(before & SHARED, 1 | SHARED) && self.no_more_waiters()
    }

    fn no_more_waiters(&self) -> bool {
        self.0.fetch_and(!WAITERS, Ordering::Relaxed) & WAITERS != 0
    }

    /// Releases the exclusive latch; true if a thread is to be woken. Optimistic readers learn from the version that
    /// the page may have changed.
    #[inline]
    pub(crate) fn unexclude(&self) -> bool {
        // The latch's bit is set, so subtracting it borrows from no other bit.
        let before = self.0.fetch_add(ONE_VERSION - EXCLUSIVE, Ordering::Release);
        before & WAITERS != 0 && self.no_more_waiters()
    }

    /// Makes the exclusive latch a shared one; true if a thread is to be woken.
    pub(crate) fn downgrade(&self) -> bool {
        self.release(|word| (next_version(word) & !EXCLUSIVE) + 1)
    }

    fn release(&self, to: impl Fn(u64) -> u64) -> bool {
        let before = self.update(|word| Some(to(word) & !WAITERS));
        before.is_some_and(|word| word & WAITERS != 0)
    }

    /// The version, whatever the state.
    pub(crate) fn version_now(&self) -> u32 {
        (self.load() >> VERSION_SHIFT) as u32
    }

    /// Notes that the calling thread waits; false if there is nothing to wait for. The thread holds the lock that
    /// wakers take too. A writer makes readers let it go first, and a thread that has its turn makes writers do so.
    pub(crate) fn note_waiter(&self, awaited: WaitCondition, has_turn: bool) -> bool {
        let mut flags = WAITERS;
        if awaited.is_writer() {
            flags |= WRITER_WAITS;
        }
        if has_turn {
            flags |= ELDER_WAITS;
        }
        let waits = |word: u64| awaits(word, awaited).then_some(word | flags);
        self.update(waits).is_some()
    }

    /// Notes that the last writer that waited has stopped waiting; true if readers may have waited for it. Under the
    /// lock of the waiting room.
    pub(crate) fn last_writer_stopped(&self) -> bool {
        let before = self.0.fetch_and(!WRITER_WAITS, Ordering::Relaxed);
        before & (WAITERS | EXCLUSIVE) == WAITERS
    }

    /// True if writers without a turn let an elder go first.
    #[cfg(test)]
    pub(crate) fn elder_waits(&self) -> bool {
        self.load() & ELDER_WAITS != 0
    }

    /// Notes that the turns of all elders have ended. Under the lock of the waiting room.
    pub(crate) fn turn_ended(&self) {
        self.0.fetch_and(!ELDER_WAITS, Ordering::Relaxed);
    }

    /// Latches an empty frame for a page to be loaded; false if it is not empty.
    pub(crate) fn claim(&self) -> bool {
        let claimed = |word: u64| {
            let free = state(word) == FrameState::Free && word & HELD == 0;
            free.then(|| with_state(word, FrameState::Loading) | EXCLUSIVE)
        };
        self.update(claimed).is_some()
    }

    /// Latches a page that is to be evicted, if it is unpinned; returns whether it is dirty.
    pub(crate) fn claim_victim(&self) -> Option<bool> {
        let before = self.update(|word| may_leave(word).then_some(word | EXCLUSIVE));
        before.map(|word| state(word) == FrameState::Dirty)
    }

    /// Latches a page that is to be dropped, whatever its state, if it is unpinned and no copy is in flight.
    pub(crate) fn claim_to_drop(&self) -> Result<(), LatchRefusal> {
        let before = self.update(|word| {
            let settled = matches!(state(word), FrameState::Clean | FrameState::Dirty | FrameState::Abandoned);
            (word & HELD == 0 && settled).then_some(word | EXCLUSIVE)
        });
        match before {
            Some(_) => Ok(()),
            None if self.state() == FrameState::Free => Err(LatchRefusal::Empty),
            None => Err(LatchRefusal::Busy),
        }
    }

    /// The page of the claimed frame was evicted, and another one is about to be loaded.
    pub(crate) fn begin_load(&self) {
        self.update(|word| Some(with_state(next_version(word) & !(FRESH | MARK), FrameState::Loading)));
    }

    /// The page is loaded; the exclusive latch stays.
    pub(crate) fn loaded(&self, fresh: bool) {
        let fresh = if fresh { FRESH } else { 0 };
        self.update(|word| Some(with_state(word, FrameState::Clean) | fresh));
    }

    /// The page is in this frame as it was in another one, which has no copy in flight; both exclusive latches stay.
    pub(crate) fn settle(&self, other: &FrameWord) {
        const OF_THE_PAGE: u64 = STATE | FRESH | MARK | WRITTEN;
        let of_the_page = other.load() & OF_THE_PAGE;
        self.update(|word| Some(word & !OF_THE_PAGE | of_the_page));
    }

    /// The thread that holds the exclusive latch is going to change the page; true if it was clean.
    pub(crate) fn change(&self) -> bool {
        let before = self.update(|word| Some(with_state(word, FrameState::Dirty)));
        before.is_some_and(|word| state(word) != FrameState::Dirty)
    }

    /// Empties a frame that is latched exclusively, and releases the latch; true if a thread is to be woken.
    pub(crate) fn vacate(&self) -> bool {
        self.release(|word| with_state(next_version(word) & !(EXCLUSIVE | FRESH), FrameState::Free))
    }

    /// Begins the flight of a copy. The caller holds a shared latch, and copies the page afterwards. False if the
    /// page is not dirty, or is being written.
    pub(crate) fn begin_write(&self) -> bool {
        let begun = |word| (state(word) == FrameState::Dirty).then(|| with_state(word, FrameState::Writing));
        self.update(begun).is_some()
    }

    /// The copy has reached storage.
    pub(crate) fn written(&self) -> LandedCopy {
        self.land(|state| match state {
            FrameState::Writing => FrameState::Clean,
            FrameState::Redirtied => FrameState::Dirty,
            FrameState::AbandonedInFlight => FrameState::Abandoned,
            other => other,
        })
    }

    /// The copy has not reached storage.
    pub(crate) fn write_failed(&self) -> LandedCopy {
        self.land(|state| match state {
            FrameState::Writing | FrameState::Redirtied => FrameState::Dirty,
            FrameState::AbandonedInFlight => FrameState::Abandoned,
            other => other,
        })
    }

    fn land(&self, becomes: impl Fn(FrameState) -> FrameState) -> LandedCopy {
        let before = self.update(|word| {
            let landed = with_state(word, becomes(state(word)));
            Some(landed & !WAITERS)
        });
        let before = before.unwrap_or_default();
        debug_assert!(state(before).is_in_flight(), "no copy was in flight");
        LandedCopy { clean: becomes(state(before)) == FrameState::Clean, wake: before & WAITERS != 0 }
    }

    /// The thread that holds the exclusive latch panics, and is about to release it.
    pub(crate) fn abandon(&self) {
        self.update(|word| {
            let abandoned = match state(word) {
                FrameState::Redirtied => FrameState::AbandonedInFlight,
                _ => FrameState::Abandoned,
            };
            Some(with_state(word, abandoned))
        });
    }

    /// The version of a page that is not being changed.
    #[inline]
    pub(crate) fn version(&self) -> Result<u32, LatchRefusal> {
        let word = self.load();
        match refusal(word, EXCLUSIVE) {
            None => Ok((word >> VERSION_SHIFT) as u32),
            Some(refusal) => Err(refusal),
        }
    }
}

#[inline]
fn state(word: u64) -> FrameState {
    match (word & STATE) >> STATE_SHIFT {
        0 => FrameState::Free,
        1 => FrameState::Loading,
        2 => FrameState::Clean,
        3 => FrameState::Dirty,
        4 => FrameState::Writing,
        5 => FrameState::Redirtied,
        6 => FrameState::Abandoned,
        _ => FrameState::AbandonedInFlight,
    }
}

#[inline]
fn bits(state: FrameState) -> u64 {
    let number: u64 = match state {
        FrameState::Free => 0,
        FrameState::Loading => 1,
        FrameState::Clean => 2,
        FrameState::Dirty => 3,
        FrameState::Writing => 4,
        FrameState::Redirtied => 5,
        FrameState::Abandoned => 6,
        FrameState::AbandonedInFlight => 7,
    };
    number << STATE_SHIFT
}

#[inline]
fn with_state(word: u64, state: FrameState) -> u64 {
    word & !STATE | bits(state)
}

#[inline]
fn next_version(word: u64) -> u64 {
    word.wrapping_add(ONE_VERSION)
}

/// True if the page may be evicted: it is unpinned, and no elder, whose turn would end with the eviction, is about to have it.
#[inline]
fn may_leave(word: u64) -> bool {
    word & (HELD | ELDER_WAITS) == 0 && matches!(state(word), FrameState::Clean | FrameState::Dirty)
}

/// Why a latch cannot be taken that excludes the latches in `others`.
#[inline]
fn refusal(word: u64, others: u64) -> Option<LatchRefusal> {
    match state(word) {
        FrameState::Free => Some(LatchRefusal::Empty),
        FrameState::Loading => Some(LatchRefusal::Busy),
        FrameState::Abandoned | FrameState::AbandonedInFlight => Some(LatchRefusal::Abandoned),
        _ => (word & others != 0).then_some(LatchRefusal::Busy),
    }
}

/// True if a thread that waits for `awaited` has to go on waiting while the frame has this word.
fn awaits(word: u64, awaited: WaitCondition) -> bool {
    let state = state(word);
    let excluded = word & EXCLUSIVE != 0;
    match awaited {
        WaitCondition::Shared { polite_since } => {
            let version = (word >> VERSION_SHIFT) as u32;
            let lets_go_first = word & WRITER_WAITS != 0 && polite_since == Some(version);
            let full = word & SHARED == SHARED;
            excluded || full || lets_go_first || state == FrameState::Loading
        }
        WaitCondition::Exclusive { in_turn } => {
            let lets_go_first = word & ELDER_WAITS != 0 && !in_turn;
            word & HELD != 0 || lets_go_first || state == FrameState::Loading
        }
        WaitCondition::Drop => word & HELD != 0 || state == FrameState::Loading || state.is_in_flight(),
        WaitCondition::Landing => state.is_in_flight(),
    }
}
