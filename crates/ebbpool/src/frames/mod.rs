//! Frames: their memory, their state, and the latches through which alone their bytes are reached.

mod copies;
mod dirty;
mod discarded;
mod latches;
mod memory;
mod waiting;
mod word;

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::error::Error;
use crate::log::Lsn;
use crate::sync::{AtomicU32, AtomicU64, Instant, Ordering};
use crate::table::Entries;

pub(crate) use copies::{Copied, Taken};
pub(crate) use dirty::DirtySet;
use discarded::Discarded;
pub(crate) use latches::{Claimed, Exclusive, Shared};
pub use memory::{ALIGNMENT, Memory};
pub(crate) use waiting::Wish;
pub(crate) use word::{Awaited, Epoch, Fixed, Refusal, State, Word};

/// What a fix looks at: four frames' in a line of the processor's cache.
#[derive(Debug)]
#[repr(align(16))]
struct Header {
    word: Word,
    page: AtomicU64,
}

/// What is looked at more seldom.
#[derive(Debug)]
struct Details {
    /// Of the page's latest change.
    lsn: AtomicU64,
    /// Pages brought into the frame so far.
    admissions: AtomicU32,
    /// In the page table's chain.
    next: AtomicU32,
}

/// What is known of a page's changes since it was last written.
#[derive(Debug, Default)]
struct Changes {
    /// The LSN of the first of which no copy was taken; 0 if there is none.
    first: AtomicU64,
    /// The LSN of the first that the copy in flight has. After a flight that failed it stays: then `first`
    /// is no larger.
    in_flight: AtomicU64,
    /// When it was first changed, in milliseconds since the pool was opened, without the upper bits.
    since_ms: AtomicU32,
}

impl Changes {
    /// The LSN of the first that may not be in storage; 0 if there is none.
    fn first_left(&self) -> Lsn {
        // In this order: a copy that is taken in between has the LSN by then.
        let first = self.first.load(Ordering::Acquire);
        let in_flight = self.in_flight.load(Ordering::Acquire);
        match (first, in_flight) {
            (0, lsn) | (lsn, 0) => lsn,
            (first, in_flight) => first.min(in_flight),
        }
    }

    /// A copy is taken that has all changes so far.
    fn took_off(&self) {
        self.in_flight
            .store(self.first.load(Ordering::Acquire), Ordering::Release);
        self.first.store(0, Ordering::Release);
    }

    fn forget(&self) {
        self.first.store(0, Ordering::Release);
        self.in_flight.store(0, Ordering::Release);
    }

    /// The page has a change of this LSN that storage does not have. The thread that changes the page and the
    /// one whose copy could not be written may come at the same time: the smaller LSN stays.
    #[inline]
    fn note_first(&self, lsn: Lsn) {
        let mut first = self.first.load(Ordering::Relaxed);
        while lsn != 0 && (first == 0 || lsn < first) {
            let noted =
                self.first
                    .compare_exchange(first, lsn, Ordering::AcqRel, Ordering::Relaxed);
            match noted {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// All frames, and memory for copies on their way to storage.
pub(crate) struct Frames {
    headers: Box<[Header]>,
    details: Box<[Details]>,
    changes: Box<[Changes]>,
    dirty: DirtySet,
    memory: Arc<Memory>,
    copies: copies::Slots,
    rooms: waiting::Rooms,
    discarded: Discarded,
    /// The [`Epoch`] of this moment, which every fix looks at.
    epoch: CachePadded<AtomicU64>,
    /// Every change up to this LSN that was logged while its page was fixed is in storage.
    covered: AtomicU64,
    opened: Instant,
}

impl Frames {
    /// So many empty frames, and room for so many copies.
    pub(crate) fn new(count: u32, copies: u32, page_size: usize) -> Result<Self, Error> {
        let slots = count as usize + copies as usize;
        let memory = Memory::new(slots, page_size).ok_or(Error::Memory {
            frames: count,
            page_size,
        })?;
        let header = |_| Header {
            word: Word::new(),
            page: AtomicU64::new(0),
        };
        let details = |_| Details {
            lsn: AtomicU64::new(0),
            admissions: AtomicU32::new(0),
            next: AtomicU32::new(u32::MAX),
        };
        Ok(Frames {
            headers: (0..count).map(header).collect(),
            details: (0..count).map(details).collect(),
            changes: (0..count).map(|_| Changes::default()).collect(),
            dirty: DirtySet::new(count),
            memory: Arc::new(memory),
            copies: copies::Slots::new(count..count + copies),
            rooms: waiting::Rooms::default(),
            discarded: Discarded::default(),
            epoch: CachePadded::new(AtomicU64::new(Epoch::NONE.to_bits())),
            covered: AtomicU64::new(0),
            opened: Instant::now(),
        })
    }

    pub(crate) fn count(&self) -> u32 {
        self.headers.len() as u32
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(crate) fn dirty(&self) -> &DirtySet {
        &self.dirty
    }

    pub(crate) fn discarded(&self) -> &Discarded {
        &self.discarded
    }

    #[inline]
    fn header(&self, frame: u32) -> &Header {
        &self.headers[frame as usize]
    }

    fn details(&self, frame: u32) -> &Details {
        &self.details[frame as usize]
    }

    #[inline]
    fn epoch(&self) -> Epoch {
        Epoch::from_bits(self.epoch.load(Ordering::Relaxed))
    }

    /// The policy is to be told of each page's next hit. Under the policy's lock.
    pub(crate) fn begin_epoch(&self) {
        let next = self.epoch().next();
        self.epoch.store(next.to_bits(), Ordering::Relaxed);
    }

    /// The policy is to be told of every hit from now on. Under the policy's lock.
    pub(crate) fn end_epochs(&self) {
        self.epoch.store(Epoch::NONE.to_bits(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn page_in(&self, frame: u32) -> u64 {
        self.header(frame).page.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn admissions(&self, frame: u32) -> u32 {
        self.details(frame).admissions.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self, frame: u32) -> State {
        self.header(frame).word.state()
    }

    /// True if the frame's page could leave at this moment.
    #[inline]
    pub(crate) fn may_leave(&self, frame: u32) -> bool {
        self.header(frame).word.may_leave()
    }

    /// The version of a frame, whatever it holds (`word.rs`, 5).
    pub(crate) fn version_now(&self, frame: u32) -> u32 {
        self.header(frame).word.version_now()
    }

    /// The version of the page in a frame, unless it is being changed.
    #[inline]
    pub(crate) fn version(&self, frame: u32) -> Result<u32, Refusal> {
        self.header(frame).word.version()
    }

    /// The lower bits: differences are right for 49 days, however long the pool has been open.
    fn now_ms(&self) -> u32 {
        self.opened.elapsed().as_millis() as u32
    }

    /// How long a dirty page has been dirty, in milliseconds.
    pub(crate) fn dirty_for_ms(&self, frame: u32) -> u32 {
        let since = self.changes[frame as usize]
            .since_ms
            .load(Ordering::Relaxed);
        self.now_ms().wrapping_sub(since)
    }

    /// The LSN of the first change of a page since a copy of it was taken that reached storage; 0 if there is
    /// none. The caller knows that no copy is in flight.
    pub(crate) fn first_lsn(&self, frame: u32) -> Lsn {
        self.changes[frame as usize].first.load(Ordering::Acquire)
    }

    /// The LSN of the earliest change that may not be in storage, of all pages that are dirty, on their way to
    /// storage, or discarded and to be redone.
    pub(crate) fn first_left(&self) -> Option<Lsn> {
        // Under the lock of the discarded pages: where a page is discarded or redone, its LSN goes from here to
        // there or back, and none is overlooked.
        self.discarded.first_beside(|| {
            let dirty = self.dirty.frames().into_iter();
            let each = dirty.map(|frame| self.changes[frame as usize].first_left());
            each.filter(|&lsn| lsn > 0).min()
        })
    }

    fn became_dirty(&self, frame: u32) {
        let since = &self.changes[frame as usize].since_ms;
        since.store(self.now_ms(), Ordering::Relaxed);
        self.dirty.insert(frame);
    }

    fn became_clean(&self, frame: u32) {
        // A thread that has changed the page since then found it among the dirty ones.
        self.dirty
            .remove_unless(frame, || self.state(frame).is_changed());
    }

    /// A checkpoint that began at this LSN has covered all changes up to it.
    pub(crate) fn note_covered(&self, begin: Lsn) {
        self.covered.fetch_max(begin, Ordering::Relaxed);
    }

    /// The page in a frame has a change from `lsn` on that storage does not have.
    pub(crate) fn note_first_lsn(&self, frame: u32, lsn: Lsn) {
        self.changes[frame as usize].note_first(lsn);
    }

    /// A thread panics that may have logged a change and not said where: any LSN after the latest checkpoint's
    /// begin is possible, since that checkpoint waited for every page that was fixed for writing before.
    fn note_unknown_lsn(&self, frame: u32) {
        let covered = self.covered.load(Ordering::Relaxed);
        self.note_first_lsn(frame, covered.saturating_add(1));
    }
}

impl Entries for Frames {
    #[inline]
    fn page(&self, frame: u32) -> &AtomicU64 {
        &self.header(frame).page
    }

    #[inline]
    fn next(&self, frame: u32) -> &AtomicU32 {
        &self.details(frame).next
    }
}
