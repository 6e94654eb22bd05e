//! A frame's state, latch and version in one word.
//!
//! ```text
//! bits 63..32  version: grows when an exclusive latch is given back and when the page leaves
//! bit  31      written: the policy was told of a write in that epoch
//! bits 30..23  mark: the epoch in which the policy was last told of a hit of the page; 0 if it was not
//! bits 22..20  state
//! bit  19      wanted: a writer waits for the exclusive latch, and readers let it go first
//! bit  18      fresh: brought in ahead of time, and not fixed since
//! bit  17      waiters: a thread waits for the latch, or for a copy to land, and is to be woken
//! bit  16      latched exclusively
//! bits 15..0   shared latches: the pins of readers
//! ```
//!
//! A *copy in flight* is a copy of the page on its way to storage. Its owner is the one `Taken` that
//! [`begin_write`](Word::begin_write) made; only [`written`](Word::written) and
//! [`write_failed`](Word::write_failed), which consume it, end the flight.
//!
//! What holds at any time, and is cited by its number elsewhere:
//!
//! 1. A thread that changes the page's bytes, the frame's page number or its LSN has the exclusive latch, beside
//!    which there is no other latch.
//! 2. A page leaves its frame only under the exclusive latch. So as long as a thread has a latch of either sort the
//!    frame has the same page, and a page number that was read under a latch stays right.
//! 3. A frame has at most one copy in flight, and keeps its page until that has landed: no transition out of a state
//!    with a copy in flight leads to loading or free.
//! 4. Before the first byte of a page changes its state is dirty or redirtied, and it is clean again only when a
//!    copy that has the change is in storage. So a clean page is as in storage.
//! 5. The version is another one before an exclusive latch under which bytes may have changed is given back, and
//!    before another page is in the frame. So bytes that were copied under latches at the same version are of one
//!    moment.
//! 6. A thread that waits has set *waiters* under the lock of the frame's waiting room, and gives that lock back only
//!    by falling asleep. A thread that ends what others may wait for takes the bit away, takes the lock, and then wakes
//!    them. So no thread sleeps through what it waits for.
//! 7. *Wanted* is set exactly while a writer waits for the frame, as anyone sees who has the lock of the waiting
//!    room.
//!
//! | from | transition | to | copy in flight |
//! | --- | --- | --- | --- |
//! | free | [`claim`](Word::claim): a page will be brought in | loading, latched exclusively | no |
//! | clean, dirty | [`claim_victim`](Word::claim_victim): unpinned, and about to leave | the same, latched exclusively | no |
//! | clean, dirty | [`begin_load`](Word::begin_load): its page has left | loading | no |
//! | loading | [`loaded`](Word::loaded): the page is here | clean | no |
//! | loading | [`vacate`](Word::vacate): it could not be read | free | no |
//! | clean | [`exclude`](Word::exclude) to change it | dirty | no |
//! | dirty | [`begin_write`](Word::begin_write): a copy is made to be written | writing | begins |
//! | writing | [`exclude`](Word::exclude) to change it | redirtied | goes on |
//! | writing | [`written`](Word::written) | clean | ends |
//! | redirtied | [`written`](Word::written): the copy is in storage, the page has changed since | dirty | ends |
//! | writing, redirtied | [`write_failed`](Word::write_failed) | dirty | ends |
//! | dirty | [`abandon`](Word::abandon): a thread panicked while it changed the page | abandoned | no |
//! | redirtied | [`abandon`](Word::abandon) | abandoned in flight | goes on |
//! | abandoned in flight | [`written`](Word::written), [`write_failed`](Word::write_failed) | abandoned | ends |
//! | clean, dirty, abandoned | [`vacate`](Word::vacate): the page is dropped | free | no |
//!
//! *Wanted* belongs to the writers that wait (7): `Frames` counts them for each frame under the lock of the
//! frame's waiting room. The first one to wait sets the bit ([`note_waiter`](Word::note_waiter)), and the last
//! one that stops waiting, because it has the latch or because it gives up, takes it away
//! ([`no_longer_wanted`](Word::no_longer_wanted)). No other transition touches it. A reader that finds the bit
//! set waits for one turn of a writer, which it recognises by the version, and then passes; so writers do not
//! starve beside readers, nor readers beside writers.
//!
//! The *mark* says in which [`Epoch`] the policy was last told of a hit, and *written* whether of a write.
//! [`fix`](Word::fix) and [`exclude`](Word::exclude) bring them up to the epoch that the caller names; a page that
//! comes ([`begin_load`](Word::begin_load)) and one that was brought in ahead of time and is fixed for the first
//! time ([`take_fresh`](Word::take_fresh)) have none, so the policy is told of their next hit. No other transition
//! touches them. They decide only whether the policy is told: that a page is dirty is in the state.

use crate::sync::{AtomicU64, Ordering};

const SHARED: u64 = 0xffff;
const EXCLUSIVE: u64 = 1 << 16;
const WAITERS: u64 = 1 << 17;
const FRESH: u64 = 1 << 18;
const WANTED: u64 = 1 << 19;
const HELD: u64 = SHARED | EXCLUSIVE;
const STATE_SHIFT: u32 = 20;
const STATE: u64 = 7 << STATE_SHIFT;
const MARK_SHIFT: u32 = 23;
const MARKS: u64 = 255;
const MARK: u64 = MARKS << MARK_SHIFT;
const WRITTEN: u64 = 1 << 31;
const VERSION_SHIFT: u32 = 32;
const ONE_VERSION: u64 = 1 << VERSION_SHIFT;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// Somebody brings a page in.
    Loading,
    /// As it is in storage.
    Clean,
    /// Changed since it was last written.
    Dirty,
    /// Changed since it was last written; a copy is on its way to storage.
    Writing,
    /// A copy is on its way to storage, and the page has changed since that was made.
    Redirtied,
    /// Left half changed by a thread that panicked.
    Abandoned,
    /// The same, and a copy that was made before is on its way to storage.
    AbandonedInFlight,
}

impl State {
    /// True if the frame has changes that storage does not have, as far as it knows.
    pub(crate) fn is_changed(self) -> bool {
        !matches!(self, State::Free | State::Loading | State::Clean)
    }

    /// True if a copy of the page is on its way to storage.
    pub(crate) fn is_in_flight(self) -> bool {
        matches!(
            self,
            State::Writing | State::Redirtied | State::AbandonedInFlight
        )
    }
}

/// What a thread waits for that cannot have a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The shared latch. `since` is the version when the thread first asked: it lets waiting writers go
    /// first until the version is another one.
    Shared { since: u32 },
    /// The exclusive latch, to change the page.
    Exclusive,
    /// The exclusive latch of a page that no copy in flight is of, to drop the page.
    Drop,
    /// That no copy of the page is in flight.
    Landing,
}

impl Awaited {
    /// True if readers let this thread go first.
    pub(crate) fn is_writer(self) -> bool {
        matches!(self, Awaited::Exclusive | Awaited::Drop)
    }
}

/// What the end of a copy's flight came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Landed {
    /// The page is clean now.
    pub(crate) clean: bool,
    /// A thread waits and is to be woken.
    pub(crate) wake: bool,
}

/// Why a latch cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Somebody else has it.
    Busy,
    /// There is no page in the frame.
    Empty,
    /// See [`State::Abandoned`].
    Abandoned,
}

/// A stretch of time in which the policy is told of a page's first hit and of its first write only. Numbers of
/// epochs come again after 255 of them: of a page that was not hit for so long the policy may not be told of a
/// hit that it should be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// In place of an epoch, where the policy is told of each hit: no word has this mark.
    pub(crate) const NONE: Epoch = Epoch(1);

    /// The epoch after this one; the first if this is none.
    pub(crate) fn next(self) -> Self {
        let number = (self.0 & MARK) >> MARK_SHIFT;
        Epoch((number % MARKS + 1) << MARK_SHIFT)
    }

    /// To be kept in an atomic.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// What [`to_bits`](Self::to_bits) made of an epoch.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Epoch(bits)
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

    /// True if the policy was told of a hit in this epoch, and the page was not brought in ahead of time.
    #[inline]
    fn is_told(self, word: u64) -> bool {
        word & (MARK | FRESH) == self.0
    }

    /// The same for a hit that wrote.
    #[inline]
    fn is_write_told(self, word: u64) -> bool {
        word & (MARK | WRITTEN | FRESH) == self.0 | WRITTEN
    }
}

/// How a page is fixed that is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// The policy needs not be told of the hit.
    pub(crate) told: bool,
    /// The page was brought in ahead of time; see [`Word::take_fresh`].
    pub(crate) fresh: bool,
}

/// How an exclusive latch was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excluded {
    /// The page was clean until now.
    pub(crate) was_clean: bool,
    pub(crate) fixed: Fixed,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// Of an empty frame.
    pub(crate) fn new() -> Self {
        Word(AtomicU64::new(bits(State::Free)))
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Replaces the word by what `change` makes of it, unless that is nothing; answers what it was.
    #[inline]
    fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = change(word)?;
            match self
                .0
                .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(before) => return Some(before),
                Err(now) => word = now,
            }
        }
    }

    /// What is in the frame at this moment.
    pub(crate) fn state(&self) -> State {
        state(self.load())
    }

    /// True if the frame's page could leave at this moment.
    #[inline]
    pub(crate) fn may_leave(&self) -> bool {
        let word = self.load();
        word & HELD == 0 && matches!(state(word), State::Clean | State::Dirty)
    }

    /// Takes a shared latch; true if the page is fresh. A `polite` reader lets waiting writers go first.
    pub(crate) fn share(&self, polite: bool) -> Result<bool, Refusal> {
        let before = self.take_shared(polite, |word| word)?;
        Ok(before & FRESH != 0)
    }

    /// The same for a caller that fixes the page.
    #[inline]
    pub(crate) fn fix(&self, polite: bool, epoch: Epoch) -> Result<Fixed, Refusal> {
        let before = self.take_shared(polite, |word| epoch.read(word))?;
        Ok(Fixed {
            told: epoch.is_told(before),
            fresh: before & FRESH != 0,
        })
    }

    #[inline]
    fn take_shared(&self, polite: bool, marked: impl Fn(u64) -> u64) -> Result<u64, Refusal> {
        let stopped = if polite {
            EXCLUSIVE | WANTED
        } else {
            EXCLUSIVE
        };
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if let Some(refusal) = refusal(word, stopped) {
                return Err(refusal);
            }
            if word & SHARED == SHARED {
                return Err(Refusal::Busy);
            }
            match self.0.compare_exchange_weak(
                word,
                marked(word) + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(before) => return Ok(before),
                Err(now) => word = now,
            }
        }
    }

    /// The page that was brought in ahead of time is fixed now, which the caller has verified under a
    /// latch. True for the first that asks.
    pub(crate) fn take_fresh(&self) -> bool {
        let before = self
            .0
            .fetch_and(!(FRESH | MARK | WRITTEN), Ordering::Relaxed);
        before & FRESH != 0
    }

    /// Takes the exclusive latch, to change the page. The policy is to be told of the first change since the
    /// page was clean, or since a copy was taken, in any epoch: it may take the page for clean.
    #[inline]
    pub(crate) fn exclude(&self, epoch: Epoch) -> Result<Excluded, Refusal> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if let Some(refusal) = refusal(word, HELD) {
                return Err(refusal);
            }
            let was = state(word);
            let becomes = match was {
                State::Writing => State::Redirtied,
                State::Redirtied => State::Redirtied,
                _ => State::Dirty,
            };
            let next = epoch.write(with_state(word, becomes)) | EXCLUSIVE;
            match self
                .0
                .compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    return Ok(Excluded {
                        was_clean: was == State::Clean,
                        fixed: Fixed {
                            told: epoch.is_write_told(word) && becomes == was,
                            fresh: word & FRESH != 0,
                        },
                    });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Gives a shared latch back; true if a thread is to be woken: a writer when it was the last one, a
    /// reader when there were as many as there can be.
    #[inline]
    pub(crate) fn unshare(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::Release);
        before & WAITERS != 0 && matches!(before & SHARED, 1 | SHARED) && self.no_more_waiters()
    }

    fn no_more_waiters(&self) -> bool {
        self.0.fetch_and(!WAITERS, Ordering::Relaxed) & WAITERS != 0
    }

    /// Gives the exclusive latch back; true if somebody is to be woken. Whoever read the page
    /// without a latch meanwhile learns of it by the version.
    #[inline]
    pub(crate) fn unexclude(&self) -> bool {
        // The latch's bit is set, so taking it away borrows from no other.
        let before = self.0.fetch_add(ONE_VERSION - EXCLUSIVE, Ordering::Release);
        before & WAITERS != 0 && self.no_more_waiters()
    }

    /// Makes the exclusive latch a shared one; true if somebody is to be woken.
    pub(crate) fn downgrade(&self) -> bool {
        self.give_back(|word| (next_version(word) & !EXCLUSIVE) + 1)
    }

    fn give_back(&self, to: impl Fn(u64) -> u64) -> bool {
        let before = self.update(|word| Some(to(word) & !WAITERS));
        before.is_some_and(|word| word & WAITERS != 0)
    }

    /// The version, whatever the state.
    pub(crate) fn version_now(&self) -> u32 {
        (self.load() >> VERSION_SHIFT) as u32
    }

    /// Notes that a thread waits, which holds the lock that wakers take too; false if there is nothing to
    /// wait for. A writer asks readers to let it go first.
    pub(crate) fn note_waiter(&self, awaited: Awaited) -> bool {
        let flags = match awaited.is_writer() {
            true => WAITERS | WANTED,
            false => WAITERS,
        };
        let waits = |word: u64| awaits(word, awaited).then_some(word | flags);
        self.update(waits).is_some()
    }

    /// The last writer that waited has stopped waiting; true if readers may have waited for it. Under the
    /// lock that waiters are counted under.
    pub(crate) fn no_longer_wanted(&self) -> bool {
        let before = self.0.fetch_and(!WANTED, Ordering::Relaxed);
        before & (WAITERS | EXCLUSIVE) == WAITERS
    }

    /// Latches an empty frame for a page to be brought in; false if it is not empty.
    pub(crate) fn claim(&self) -> bool {
        let claimed = |word: u64| {
            let free = state(word) == State::Free && word & HELD == 0;
            free.then(|| with_state(word, State::Loading) | EXCLUSIVE)
        };
        self.update(claimed).is_some()
    }

    /// Latches a page that is to leave, if nobody holds it; tells whether it is dirty.
    pub(crate) fn claim_victim(&self) -> Option<bool> {
        let before = self.update(|word| {
            let free = word & HELD == 0 && matches!(state(word), State::Clean | State::Dirty);
            free.then_some(word | EXCLUSIVE)
        });
        before.map(|word| state(word) == State::Dirty)
    }

    /// Latches a page that is to be dropped, whatever its state, if nobody holds or writes it.
    pub(crate) fn claim_to_drop(&self) -> Result<(), Refusal> {
        let before = self.update(|word| {
            let settled = matches!(state(word), State::Clean | State::Dirty | State::Abandoned);
            (word & HELD == 0 && settled).then_some(word | EXCLUSIVE)
        });
        match before {
            Some(_) => Ok(()),
            None if self.state() == State::Free => Err(Refusal::Empty),
            None => Err(Refusal::Busy),
        }
    }

    /// The page that was claimed has left, and another comes.
    pub(crate) fn begin_load(&self) {
        self.update(|word| {
            Some(with_state(
                next_version(word) & !(FRESH | MARK),
                State::Loading,
            ))
        });
    }

    /// The page is here; the exclusive latch stays.
    pub(crate) fn loaded(&self, fresh: bool) {
        let fresh = if fresh { FRESH } else { 0 };
        self.update(|word| Some(with_state(word, State::Clean) | fresh));
    }

    /// Whoever holds the exclusive latch is going to change the page; true if it was clean.
    pub(crate) fn change(&self) -> bool {
        let before = self.update(|word| Some(with_state(word, State::Dirty)));
        before.is_some_and(|word| state(word) != State::Dirty)
    }

    /// Empties a frame that is latched exclusively, and gives the latch back; true if somebody is to
    /// be woken.
    pub(crate) fn vacate(&self) -> bool {
        self.give_back(|word| with_state(next_version(word) & !(EXCLUSIVE | FRESH), State::Free))
    }

    /// A copy of the page is about to be written; the caller holds a shared latch, and copies
    /// afterwards. False if the page is not dirty, or is being written.
    pub(crate) fn begin_write(&self) -> bool {
        let begun = |word| (state(word) == State::Dirty).then(|| with_state(word, State::Writing));
        self.update(begun).is_some()
    }

    /// The copy has reached storage.
    pub(crate) fn written(&self) -> Landed {
        self.land(|state| match state {
            State::Writing => State::Clean,
            State::Redirtied => State::Dirty,
            State::AbandonedInFlight => State::Abandoned,
            other => other,
        })
    }

    /// The copy has not reached storage.
    pub(crate) fn write_failed(&self) -> Landed {
        self.land(|state| match state {
            State::Writing | State::Redirtied => State::Dirty,
            State::AbandonedInFlight => State::Abandoned,
            other => other,
        })
    }

    fn land(&self, becomes: impl Fn(State) -> State) -> Landed {
        let before = self.update(|word| {
            let landed = with_state(word, becomes(state(word)));
            Some(landed & !WAITERS)
        });
        let before = before.unwrap_or_default();
        debug_assert!(state(before).is_in_flight(), "no copy was in flight");
        Landed {
            clean: becomes(state(before)) == State::Clean,
            wake: before & WAITERS != 0,
        }
    }

    /// The thread that holds the exclusive latch panics, and is about to give it back.
    pub(crate) fn abandon(&self) {
        self.update(|word| {
            let abandoned = match state(word) {
                State::Redirtied => State::AbandonedInFlight,
                _ => State::Abandoned,
            };
            Some(with_state(word, abandoned))
        });
    }

    /// The version of a page that is not being changed.
    #[inline]
    pub(crate) fn version(&self) -> Result<u32, Refusal> {
        let word = self.load();
        match refusal(word, EXCLUSIVE) {
            None => Ok((word >> VERSION_SHIFT) as u32),
            Some(refusal) => Err(refusal),
        }
    }
}

#[inline]
fn state(word: u64) -> State {
    match (word & STATE) >> STATE_SHIFT {
        0 => State::Free,
        1 => State::Loading,
        2 => State::Clean,
        3 => State::Dirty,
        4 => State::Writing,
        5 => State::Redirtied,
        6 => State::Abandoned,
        _ => State::AbandonedInFlight,
    }
}

#[inline]
fn bits(state: State) -> u64 {
    let number: u64 = match state {
        State::Free => 0,
        State::Loading => 1,
        State::Clean => 2,
        State::Dirty => 3,
        State::Writing => 4,
        State::Redirtied => 5,
        State::Abandoned => 6,
        State::AbandonedInFlight => 7,
    };
    number << STATE_SHIFT
}

#[inline]
fn with_state(word: u64, state: State) -> u64 {
    word & !STATE | bits(state)
}

#[inline]
fn next_version(word: u64) -> u64 {
    word.wrapping_add(ONE_VERSION)
}

/// Why a latch cannot be had that those of `others` stand in the way of.
#[inline]
fn refusal(word: u64, others: u64) -> Option<Refusal> {
    match state(word) {
        State::Free => Some(Refusal::Empty),
        State::Loading => Some(Refusal::Busy),
        State::Abandoned | State::AbandonedInFlight => Some(Refusal::Abandoned),
        _ => (word & others != 0).then_some(Refusal::Busy),
    }
}

/// True if a thread that wants this has to wait as long as the word is this.
fn awaits(word: u64, awaited: Awaited) -> bool {
    let state = state(word);
    let excluded = word & EXCLUSIVE != 0;
    match awaited {
        Awaited::Shared { since } => {
            let lets_go_first = word & WANTED != 0 && (word >> VERSION_SHIFT) as u32 == since;
            let full = word & SHARED == SHARED;
            excluded || full || lets_go_first || state == State::Loading
        }
        Awaited::Exclusive => word & HELD != 0 || state == State::Loading,
        Awaited::Drop => word & HELD != 0 || state == State::Loading || state.is_in_flight(),
        Awaited::Landing => state.is_in_flight(),
    }
}
