//! Frames: their memory, their state, and the latches, which give the only access to their bytes.

mod changes;
mod copies;
mod dirty;
#[cfg(test)]
mod dirty_against_set;
mod discarded;
mod latches;
mod memory;
mod queues;
mod waiting;
mod word;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::boxed::boxed;
use crate::log::Lsn;
use crate::sync::{AtomicU32, AtomicU64, Instant, Ordering};
use crate::table::Entries;

use changes::PageChanges;
pub(crate) use copies::{CopyInFlight, CopySlot};
pub(crate) use dirty::DirtySet;
use discarded::DiscardedPages;
pub(crate) use latches::{ClaimedFrame, Exclusive, ExclusiveLatch, Shared, SharedLatch};
pub use memory::{ALIGNMENT, FrameMemory};
pub(crate) use waiting::{QueuedThread, Seniority};
pub(crate) use word::{FrameState, FrameWord, HitEpoch, HitStatus, LatchRefusal, WaitCondition};

/// The part of a frame that a fix reads: a cache line holds the headers of four frames.
#[derive(Debug)]
#[repr(align(16))]
struct FrameHeader {
    word: FrameWord,
    page: AtomicU64,
}

/// The part of a frame that is read less often.
#[derive(Debug)]
struct FrameDetails {
    /// The LSN of the page's latest change.
    lsn: AtomicU64,
    /// The number of pages loaded into the frame so far.
    admissions: AtomicU32,
}

/// All frames, and memory for copies in flight. Guards name it, and callers cannot.
pub struct Frames {
    /// The number of frames in use, which are the first ones. Changed under the policy's lock.
    count: AtomicU32,
    headers: Box<[FrameHeader]>,
    details: Box<[FrameDetails]>,
    changes: Box<[PageChanges]>,
    dirty: DirtySet,
    memory: Arc<FrameMemory>,
    copies: copies::Slots,
    rooms: waiting::WaitingRooms,
    discarded: DiscardedPages,
    /// The current [`HitEpoch`], which every fix reads.
    epoch: CachePadded<AtomicU64>,
    /// Every change up to this LSN that was logged while its page was fixed is in storage.
    covered: AtomicU64,
    opened: Instant,
}

impl Frames {
    /// `count` empty frames of at most `most`, and room for `copies` copies; `None` if there is no memory for them.
    pub(crate) fn new((count, most): (u32, u32), copies: u32, page_size: usize) -> Option<Self> {
        let slots = most.checked_add(copies)?;
        let memory = FrameMemory::new(slots as usize, page_size)?;
        [0..count, most..slots].into_iter().for_each(|slots| memory.clear(slots));
        let header = || FrameHeader { word: FrameWord::new(), page: AtomicU64::new(0) };
        let details = || FrameDetails { lsn: AtomicU64::new(0), admissions: AtomicU32::new(0) };
        Some(Frames {
            count: AtomicU32::new(count),
            headers: boxed(most as usize, header)?,
            details: boxed(most as usize, details)?,
            changes: boxed(most as usize, PageChanges::default)?,
            dirty: DirtySet::new(most)?,
            memory: Arc::new(memory),
            copies: copies::Slots::new(most..slots)?,
            rooms: waiting::WaitingRooms::default(),
            discarded: DiscardedPages::default(),
            epoch: CachePadded::new(AtomicU64::new(HitEpoch::NONE.to_bits())),
            covered: AtomicU64::new(0),
            opened: Instant::now(),
        })
    }

    /// The number of frames in use. While it becomes smaller, later frames have pages still.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The most frames that there may be.
    pub(crate) fn most(&self) -> u32 {
        self.headers.len() as u32
    }

    /// Sets the number of frames in use, under the policy's lock.
    pub(crate) fn set_count(&self, count: u32) {
        self.count.store(count, Ordering::Relaxed);
    }

    pub(crate) fn memory(&self) -> &Arc<FrameMemory> {
        &self.memory
    }

    pub(crate) fn dirty(&self) -> &DirtySet {
        &self.dirty
    }

    pub(crate) fn discarded(&self) -> &DiscardedPages {
        &self.discarded
    }

    #[inline]
    fn header(&self, frame: u32) -> &FrameHeader {
        &self.headers[frame as usize]
    }

    fn details(&self, frame: u32) -> &FrameDetails {
        &self.details[frame as usize]
    }

    #[inline]
    fn epoch(&self) -> HitEpoch {
        HitEpoch::from_bits(self.epoch.load(Ordering::Relaxed))
    }

    /// From now on each page's next hit is reported to the policy. Under the policy's lock.
    pub(crate) fn begin_epoch(&self) {
        let next = self.epoch().next();
        self.epoch.store(next.to_bits(), Ordering::Relaxed);
    }

    /// From now on every hit is reported to the policy. Under the policy's lock.
    pub(crate) fn end_epochs(&self) {
        self.epoch.store(HitEpoch::NONE.to_bits(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn page_in(&self, frame: u32) -> u64 {
        self.header(frame).page.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn admissions(&self, frame: u32) -> u32 {
        self.details(frame).admissions.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self, frame: u32) -> FrameState {
        self.header(frame).word.state()
    }

    /// The page in a frame, if it is changed; orders the frame's changes (`FrameWord::ordered_state`).
    pub(crate) fn changed_page(&self, frame: u32) -> Option<u64> {
        let changed = self.header(frame).word.ordered_state().is_changed();
        changed.then(|| self.page_in(frame))
    }

    /// True if the frame's page could be evicted at this moment.
    #[inline]
    pub(crate) fn is_evictable(&self, frame: u32) -> bool {
        self.header(frame).word.is_evictable()
    }

    /// The version of a frame, whatever it holds (`word.rs`, 5).
    pub(crate) fn version_now(&self, frame: u32) -> u32 {
        self.header(frame).word.version_now()
    }

    /// The version of the page in a frame, unless it is being changed.
    #[inline]
    pub(crate) fn version(&self, frame: u32) -> Result<u32, LatchRefusal> {
        self.header(frame).word.version()
    }

    /// The lower bits of the time since the pool was opened: differences are right for 49 days.
    fn now_ms(&self) -> u32 {
        self.opened.elapsed().as_millis() as u32
    }

    /// How long a dirty page has been dirty, in milliseconds.
    pub(crate) fn dirty_for_ms(&self, frame: u32) -> u32 {
        let since = self.changes[frame as usize].since_ms();
        self.now_ms().wrapping_sub(since)
    }

    /// When a dirty page was first changed since it was clean.
    pub(crate) fn changed_at(&self, frame: u32) -> Instant {
        let ago = Duration::from_millis(self.dirty_for_ms(frame).into());
        Instant::now().checked_sub(ago).unwrap_or(self.opened)
    }

    /// The LSN of a page's first change that is not in storage; 0 if there is none. The caller makes sure that no
    /// copy is in flight.
    pub(crate) fn first_lsn(&self, frame: u32) -> Lsn {
        self.changes[frame as usize].first()
    }

    /// The LSN of the earliest change that may not be in storage, of all pages that are dirty, are being written, or
    /// were discarded and are to be redone.
    pub(crate) fn first_unwritten(&self) -> Option<Lsn> {
        // Under the lock of the discarded pages: when a page is discarded or redone, its LSN moves between the dirty
        // and the discarded pages, and must not be overlooked.
        self.discarded.first_beside(|| {
            let dirty = self.dirty.frames().into_iter();
            let each = dirty.map(|frame| self.changes[frame as usize].first_unwritten());
            each.filter(|&lsn| lsn > 0).min()
        })
    }

    fn became_dirty(&self, frame: u32) {
        self.changes[frame as usize].begin(self.now_ms());
        self.dirty.insert(frame);
    }

    fn became_clean(&self, frame: u32) {
        // A thread that has changed the page since then found it among the dirty ones, and did not insert it.
        self.dirty.remove_unless(frame, || self.state(frame).is_changed());
    }

    /// Notes that a checkpoint that began at this LSN has covered all changes up to it.
    pub(crate) fn note_covered(&self, begin: Lsn) {
        self.covered.fetch_max(begin, Ordering::Relaxed);
    }

    /// Notes that the page in a frame has a change from `lsn` on that storage does not have.
    pub(crate) fn note_first_lsn(&self, frame: u32, lsn: Lsn) {
        self.changes[frame as usize].note_first(lsn);
    }

    /// Notes an unknown change of the page in a frame. The thread that holds the page panics, and may have logged a
    /// change without setting its LSN. Any LSN after the begin of the latest checkpoint is possible, since that
    /// checkpoint waited for every page that was fixed for writing before.
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
}
