//! Where pages are: read by anybody without a lock, changed by one thread at a time.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No frame.
const NONE: u32 = u32::MAX;

/// Frames that a search passes before it gives up: more than a chain ever has unless it leads into
/// another one that is being changed.
const LONGEST_SEARCH: usize = 64;

/// What the table needs of each frame.
pub(crate) trait Entries {
    /// The page in a frame.
    fn page(&self, frame: u32) -> &AtomicU64;
    /// The frame after it in its chain.
    fn next(&self, frame: u32) -> &AtomicU32;
}

/// Page numbers to frames. Frames of pages whose numbers share a hash form a chain; pages below
/// `dense` need no hash.
///
/// A search may run while a chain is changed: it may then miss a page that is there, and whoever
/// finds none asks again under the lock that all changes are made under. It may find a frame whose
/// page is about to leave: whoever latches it compares the number again.
#[derive(Debug)]
pub(crate) struct PageTable {
    dense: Box<[AtomicU32]>,
    chains: Box<[AtomicU32]>,
    /// 64 less the bits of a chain's number.
    shift: u32,
}

impl PageTable {
    /// For so many frames.
    pub(crate) fn new(frames: u32, dense: usize) -> Self {
        let chains = (frames as usize * 2).next_power_of_two().max(2);
        let empty = |count: usize| (0..count).map(|_| AtomicU32::new(NONE)).collect();
        PageTable {
            dense: empty(dense),
            chains: empty(chains),
            shift: 64 - chains.trailing_zeros(),
        }
    }

    #[inline]
    fn chain(&self, page: u64) -> &AtomicU32 {
        // Multiplying by 2^64 over the golden ratio spreads neighbours widely (Knuth, 6.4).
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.chains[(hash >> self.shift) as usize]
    }

    #[inline]
    fn dense(&self, page: u64) -> Option<&AtomicU32> {
        self.dense.get(usize::try_from(page).unwrap_or(usize::MAX))
    }

    /// The frame that holds the page, as far as can be said without a lock.
    #[inline]
    pub(crate) fn find(&self, page: u64, entries: &impl Entries) -> Option<u32> {
        if let Some(frame) = self.dense(page) {
            let frame = frame.load(Ordering::Acquire);
            return (frame != NONE).then_some(frame);
        }
        let mut frame = self.chain(page).load(Ordering::Acquire);
        for _ in 0..LONGEST_SEARCH {
            if frame == NONE {
                return None;
            }
            if entries.page(frame).load(Ordering::Relaxed) == page {
                return Some(frame);
            }
            frame = entries.next(frame).load(Ordering::Acquire);
        }
        None
    }

    /// The frame that holds the page, of which its number was set before, is `frame` from now on.
    /// Under the lock.
    pub(crate) fn insert(&self, page: u64, frame: u32, entries: &impl Entries) {
        if let Some(place) = self.dense(page) {
            place.store(frame, Ordering::Release);
            return;
        }
        let chain = self.chain(page);
        let first = chain.load(Ordering::Relaxed);
        entries.next(frame).store(first, Ordering::Release);
        chain.store(frame, Ordering::Release);
    }

    /// The page is in no frame any more; it was in `frame`. Under the lock.
    pub(crate) fn remove(&self, page: u64, frame: u32, entries: &impl Entries) {
        if let Some(place) = self.dense(page) {
            place.store(NONE, Ordering::Release);
            return;
        }
        let after = entries.next(frame).load(Ordering::Relaxed);
        let mut link = self.chain(page);
        loop {
            match link.load(Ordering::Relaxed) {
                found if found == frame => return link.store(after, Ordering::Release),
                NONE => return debug_assert!(false, "page {page} is in its chain"),
                found => link = entries.next(found),
            }
        }
    }
}
