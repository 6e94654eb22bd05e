//! A frame's state, latch and version in one word.
//!
//! ```text
//! bits 63..32  version: grows when an exclusive latch is given back and when the page leaves
//! bits 22..20  state
//! bit  19      wanted: somebody waits for the exclusive latch
//! bit  18      fresh: brought in ahead of time, and not fixed since
//! bit  17      waiters: somebody waits for the latch, and wants to be woken
//! bit  16      latched exclusively
//! bits 15..0   shared latches: the pins of readers
//! ```
//!
//! | from | transition | to |
//! | --- | --- | --- |
//! | free | [`claim`](Word::claim): somebody will bring a page in | loading, latched exclusively |
//! | clean, dirty | [`claim_victim`](Word::claim_victim): unpinned, and about to leave | the same, latched exclusively |
//! | clean, dirty | [`begin_load`](Word::begin_load): its page has left | loading |
//! | loading | [`loaded`](Word::loaded): the page is here | clean |
//! | loading | [`vacate`](Word::vacate): it could not be read | free |
//! | clean | [`exclude`](Word::exclude) to change it | dirty |
//! | dirty | [`begin_write`](Word::begin_write): a copy was made to be written | writing |
//! | writing | [`exclude`](Word::exclude) to change it | redirtied |
//! | writing | [`written`](Word::written) | clean |
//! | redirtied | [`written`](Word::written): the copy is in storage, the page has changed since | dirty |
//! | writing, redirtied | [`write_failed`](Word::write_failed) | dirty |
//! | dirty, redirtied | [`abandon`](Word::abandon): a thread panicked while it changed the page | abandoned |
//! | clean, dirty, abandoned | [`vacate`](Word::vacate): the page is dropped | free |

use crate::sync::{AtomicU64, Ordering, fence};

const SHARED: u64 = 0xffff;
const EXCLUSIVE: u64 = 1 << 16;
const WAITERS: u64 = 1 << 17;
const FRESH: u64 = 1 << 18;
const WANTED: u64 = 1 << 19;
const HELD: u64 = SHARED | EXCLUSIVE;
const STATE_SHIFT: u32 = 20;
const STATE: u64 = 7 << STATE_SHIFT;
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

/// How an exclusive latch was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excluded {
    /// The page was clean until now.
    pub(crate) was_clean: bool,
    /// Nobody had fixed it since it was brought in ahead of time.
    pub(crate) was_fresh: bool,
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

    /// Takes a shared latch; true if the page was fresh. A `polite` reader lets a waiting writer go
    /// first.
    #[inline]
    pub(crate) fn share(&self, polite: bool) -> Result<bool, Refusal> {
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
            let next = (word & !FRESH) + 1;
            match self
                .0
                .compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Ok(word & FRESH != 0),
                Err(now) => word = now,
            }
        }
    }

    /// After the exclusive latch was taken: whoever reads without a latch and sees a byte of what
    /// follows also sees the latch (Boehm 2012, section 4).
    #[inline]
    fn before_changes() {
        fence(Ordering::Release);
    }

    /// Takes the exclusive latch, to change the page.
    #[inline]
    pub(crate) fn exclude(&self) -> Result<Excluded, Refusal> {
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
            let next = with_state(word & !(FRESH | WANTED), becomes) | EXCLUSIVE;
            match self
                .0
                .compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    Self::before_changes();
                    return Ok(Excluded {
                        was_clean: was == State::Clean,
                        was_fresh: word & FRESH != 0,
                    });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Gives a shared latch back; true if somebody is to be woken.
    #[inline]
    pub(crate) fn unshare(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::Release);
        before & SHARED == 1 && before & WAITERS != 0 && self.no_more_waiters()
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

    /// Whoever waits for the latch says so, while he holds the lock that wakers take too; false if
    /// there is nothing to wait for. A writer `wants` readers to let him go first.
    pub(crate) fn note_waiter(&self, wants: bool) -> bool {
        let held = if wants { HELD } else { EXCLUSIVE };
        let flags = if wants { WAITERS | WANTED } else { WAITERS };
        let waits = |word: u64| {
            let full = word & SHARED == SHARED;
            (word & held != 0 || full || state(word) == State::Loading).then_some(word | flags)
        };
        self.update(waits).is_some()
    }

    /// A writer who waited gives up.
    pub(crate) fn no_longer_wanted(&self) {
        self.0.fetch_and(!WANTED, Ordering::Relaxed);
    }

    /// Latches an empty frame for a page to be brought in; false if it is not empty.
    pub(crate) fn claim(&self) -> bool {
        let claimed = |word: u64| {
            let free = state(word) == State::Free && word & HELD == 0;
            free.then(|| with_state(word, State::Loading) | EXCLUSIVE)
        };
        let claimed = self.update(claimed).is_some();
        Self::before_changes();
        claimed
    }

    /// Latches a page that is to leave, if nobody holds it; tells whether it is dirty.
    pub(crate) fn claim_victim(&self) -> Option<bool> {
        let before = self.update(|word| {
            let free = word & HELD == 0 && matches!(state(word), State::Clean | State::Dirty);
            free.then_some(word | EXCLUSIVE)
        });
        Self::before_changes();
        before.map(|word| state(word) == State::Dirty)
    }

    /// Latches a page that is to be dropped, whatever its state, if nobody holds or writes it.
    pub(crate) fn claim_to_drop(&self) -> Result<(), Refusal> {
        let before = self.update(|word| {
            let settled = matches!(state(word), State::Clean | State::Dirty | State::Abandoned);
            (word & HELD == 0 && settled).then_some(word | EXCLUSIVE)
        });
        Self::before_changes();
        match before {
            Some(_) => Ok(()),
            None if self.state() == State::Free => Err(Refusal::Empty),
            None => Err(Refusal::Busy),
        }
    }

    /// The page that was claimed has left, and another comes.
    pub(crate) fn begin_load(&self) {
        self.update(|word| Some(with_state(next_version(word) & !FRESH, State::Loading)));
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
        self.give_back(|word| {
            with_state(
                next_version(word) & !(EXCLUSIVE | FRESH | WANTED),
                State::Free,
            )
        })
    }

    /// A copy of the page is about to be written; the caller holds a shared latch, and copies
    /// afterwards. False if the page is not dirty, or is being written.
    pub(crate) fn begin_write(&self) -> bool {
        let begun = |word| (state(word) == State::Dirty).then(|| with_state(word, State::Writing));
        self.update(begun).is_some()
    }

    /// The copy has reached storage; true if the page is clean now.
    pub(crate) fn written(&self) -> bool {
        let before = self.update(|word| match state(word) {
            State::Writing => Some(with_state(word, State::Clean)),
            State::Redirtied => Some(with_state(word, State::Dirty)),
            _ => None,
        });
        before.is_some_and(|word| state(word) == State::Writing)
    }

    /// The copy has not reached storage.
    pub(crate) fn write_failed(&self) {
        self.update(|word| match state(word) {
            State::Writing | State::Redirtied => Some(with_state(word, State::Dirty)),
            _ => None,
        });
    }

    /// Whoever holds the exclusive latch panics, and is about to give it back.
    pub(crate) fn abandon(&self) {
        self.update(|word| Some(with_state(word, State::Abandoned)));
    }

    /// The version of a page that can be read without a latch.
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
        _ => State::Abandoned,
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
        State::Abandoned => Some(Refusal::Abandoned),
        _ => (word & others != 0).then_some(Refusal::Busy),
    }
}
