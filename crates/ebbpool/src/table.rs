//! The page table: threads read it without a lock, and one thread at a time changes it.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No frame.
pub(crate) const NONE: u32 = u32::MAX;

/// The number of frames that a search without the lock visits before it gives up. Most chains are shorter, unless one
/// leads into another that is being changed.
pub(crate) const LONGEST_SEARCH: usize = 64;

/// What the table needs of each frame.
pub(crate) trait Entries {
    /// The page in a frame.
    fn page(&self, frame: u32) -> &AtomicU64;
    /// The frame after it in its chain.
    fn next(&self, frame: u32) -> &AtomicU32;
}

/// Maps page numbers to frames. Frames of pages whose numbers share a hash form a chain; pages below `dense` need no
/// hash. The hash has a key that callers do not know, so that no choice of page numbers makes chains long.
///
/// A search without the lock ([`find`](Self::find)) may overlook a page that is in the table: it gives up in a long
/// chain, and a chain may be changed meanwhile. A thread that needs a certain answer searches again under the lock
/// that protects all changes ([`find_locked`](Self::find_locked)). The search may also find a frame whose page is
/// about to be evicted: the thread that latches it compares the number again.
#[derive(Debug)]
pub(crate) struct PageTable {
    dense: Box<[AtomicU32]>,
    chains: Box<[AtomicU32]>,
    /// 64 minus the bits of a chain's number.
    shift: u32,
    /// What is added to a number, and what the sum is multiplied with.
    key: [u64; 2],
}

impl PageTable {
    /// A table for this number of frames; `None` if there is no memory for it. Pages below `dense` are not hashed; for
    /// the others `key` should be random.
    pub(crate) fn new(frames: u32, dense: usize, key: [u64; 2]) -> Option<Self> {
        let chains = (frames as usize * 2).next_power_of_two().max(2);
        let empty = |count: usize| {
            let mut entries = Vec::new();
            entries.try_reserve_exact(count).ok()?;
            entries.extend((0..count).map(|_| AtomicU32::new(NONE)));
            Some(entries.into_boxed_slice())
        };
        Some(PageTable {
            dense: empty(dense)?,
            chains: empty(chains)?,
            shift: 64 - chains.trailing_zeros(),
            // An even factor would lose the upper bits of numbers.
            key: [key[0], key[1] | 1],
        })
    }

    #[inline]
    pub(crate) fn chain(&self, page: u64) -> &AtomicU32 {
        // Both halves of the product, folded: numbers at equal distances are spread for all but a few factors
        // (Dietzfelbinger et al. 1997, multiply-shift hashing).
        let product = u128::from(page.wrapping_add(self.key[0])) * u128::from(self.key[1]);
        let hash = (product >> 64) as u64 ^ product as u64;
        &self.chains[(hash >> self.shift) as usize]
    }

    #[inline]
    fn dense(&self, page: u64) -> Option<&AtomicU32> {
        self.dense.get(usize::try_from(page).unwrap_or(usize::MAX))
    }

    /// The frame that holds the page, as far as a search without a lock finds it.
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

    /// The frame that holds the page. Under the lock.
    pub(crate) fn find_locked(&self, page: u64, entries: &impl Entries) -> Option<u32> {
        if let Some(frame) = self.dense(page) {
            let frame = frame.load(Ordering::Relaxed);
            return (frame != NONE).then_some(frame);
        }
        let mut frame = self.chain(page).load(Ordering::Relaxed);
        while frame != NONE && entries.page(frame).load(Ordering::Relaxed) != page {
            frame = entries.next(frame).load(Ordering::Relaxed);
        }
        (frame != NONE).then_some(frame)
    }

    /// Adds a page, which is in `frame` from now on. The caller has set the frame's page number before. Under the
    /// lock.
    pub(crate) fn insert(&self, page: u64, frame: u32, entries: &impl Entries) {
        if let Some(entry) = self.dense(page) {
            entry.store(frame, Ordering::Release);
            return;
        }
        let chain = self.chain(page);
        let first = chain.load(Ordering::Relaxed);
        entries.next(frame).store(first, Ordering::Release);
        chain.store(frame, Ordering::Release);
    }

    /// Removes a page, which was in `frame`. Under the lock.
    pub(crate) fn remove(&self, page: u64, frame: u32, entries: &impl Entries) {
        if let Some(entry) = self.dense(page) {
            entry.store(NONE, Ordering::Release);
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
