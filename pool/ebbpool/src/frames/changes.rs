//! When, and with which LSNs, a page was changed since it was last written.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A position in a log; the model checker compiles this file without `crate::log`, which has this type too.
type Lsn = u64;

/// The LSNs of a page's changes since it was last written.
#[derive(Debug, Default)]
pub(crate) struct PageChanges {
    /// The LSN of the first change since the last copy was taken; 0 if there is none.
    first: AtomicU64,
    /// The LSN of the first change that only the copy in flight has. After a failed write it stays; then `first` is
    /// no larger.
    in_flight: AtomicU64,
    /// When the page was first changed, in milliseconds since the pool was opened, without the upper bits.
    since_ms: AtomicU32,
    /// When the first of the changes was made that only the copy in flight has, counted as `since_ms`.
    in_flight_since_ms: AtomicU32,
}

impl PageChanges {
    /// The LSN of the first change that may not be in storage; 0 if there is none.
    pub(crate) fn first_unwritten(&self) -> Lsn {
        // In this order: if a copy is taken in between, `in_flight` has the LSN by then.
        let first = self.first.load(Ordering::Acquire);
        let in_flight = self.in_flight.load(Ordering::Acquire);
        match (first, in_flight) {
            (0, lsn) | (lsn, 0) => lsn,
            (first, in_flight) => first.min(in_flight),
        }
    }

    /// A copy with all changes so far was taken.
    pub(crate) fn took_off(&self, now_ms: u32) {
        // Later changes are younger. No thread changes the page meanwhile.
        self.in_flight_since_ms.store(self.since_ms(), Ordering::Relaxed);
        self.begin(now_ms);
        self.in_flight.store(self.first.load(Ordering::Acquire), Ordering::Release);
        self.first.store(0, Ordering::Release);
    }

    pub(crate) fn forget(&self) {
        self.first.store(0, Ordering::Release);
        self.in_flight.store(0, Ordering::Release);
    }

    /// Notes that the page has a change of this LSN that storage does not have. The thread that changes the page and
    /// the one whose copy could not be written may call this at the same time: the smaller LSN stays.
    #[inline]
    pub(crate) fn note_first(&self, lsn: Lsn) {
        let mut first = self.first.load(Ordering::Relaxed);
        while lsn != 0 && (first == 0 || lsn < first) {
            let noted = self.first.compare_exchange(first, lsn, Ordering::AcqRel, Ordering::Relaxed);
            match noted {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// The LSN of the first change since the last copy was taken; 0 if there is none.
    pub(crate) fn first(&self) -> Lsn {
        self.first.load(Ordering::Acquire)
    }

    /// The page is dirty again after its eviction was undone: this is the LSN of its first change.
    pub(crate) fn set_first(&self, lsn: Lsn) {
        self.first.store(lsn, Ordering::Release);
    }

    /// The page is in another frame now, and has no copy in flight.
    pub(crate) fn take_over(&self, other: &PageChanges) {
        self.begin(other.since_ms());
        self.set_first(other.first());
    }

    /// The copy is in storage. Before another copy can be taken.
    pub(crate) fn landed(&self) {
        self.in_flight.store(0, Ordering::Release);
    }

    /// The copy could not be written. Before the page is dirty again: a checkpoint that finds it dirty reads the first
    /// LSN then.
    pub(crate) fn turned_back(&self) {
        self.begin(self.in_flight_since_ms.load(Ordering::Relaxed));
        self.note_first(self.in_flight.load(Ordering::Acquire));
    }

    /// The page became dirty at this time, in milliseconds since the pool was opened.
    pub(crate) fn begin(&self, now_ms: u32) {
        self.since_ms.store(now_ms, Ordering::Relaxed);
    }

    /// When the page became dirty, in milliseconds since the pool was opened, without the upper bits.
    pub(crate) fn since_ms(&self) -> u32 {
        self.since_ms.load(Ordering::Relaxed)
    }
}
