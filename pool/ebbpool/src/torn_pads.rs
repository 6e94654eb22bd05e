//! Pages that were written only because their block is written whole, and whose write failed.
//!
//! No caller has changed such a page, and the failed write may have torn it in storage. So the only whole copy that this
//! process has is the one that was read for the write. It stays here until the page is fetched, and is dirty from then
//! on. Checkpoints fetch all of them, and fail while they cannot be written. After a crash the double-write area
//! restores the page.

use std::collections::BTreeMap;

use crate::frames::ClaimedFrame;
use crate::log::Lsn;
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// A page's LSN and bytes.
#[derive(Debug)]
struct WholeCopy {
    lsn: Lsn,
    bytes: Box<[u8]>,
}

/// The whole copies of pages that a failed write of their block may have torn in storage.
#[derive(Debug, Default)]
pub(crate) struct TornPads {
    pages: Mutex<BTreeMap<u64, WholeCopy>>,
    /// The number of pages, so that a miss need not take the lock.
    count: AtomicUsize,
}

impl TornPads {
    /// Retains a page's LSN and bytes. No thread fetches the page meanwhile, since it is still being evicted.
    pub(crate) fn retain(&self, page: u64, lsn: Lsn, bytes: &[u8]) {
        let mut pages = self.pages.lock();
        let bytes = bytes.into();
        pages.insert(page, WholeCopy { lsn, bytes });
        self.count.store(pages.len(), Ordering::Release);
    }

    /// The pages, in ascending order.
    pub(crate) fn pages(&self) -> Vec<u64> {
        match self.count.load(Ordering::Acquire) {
            0 => Vec::new(),
            _ => self.pages.lock().keys().copied().collect(),
        }
    }

    /// True if the page is among them.
    pub(crate) fn contains(&self, page: u64) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.pages.lock().contains_key(&page)
    }

    /// Loads a page into the frame that it is admitted to, where it is dirty; false if it is not among them.
    pub(crate) fn restore(&self, page: u64, frame: &mut ClaimedFrame<'_>) -> bool {
        let Some(WholeCopy { lsn, bytes }) = self.take(page) else {
            return false;
        };
        frame.bytes_mut().copy_from_slice(&bytes);
        frame.loaded_dirty(lsn);
        true
    }

    /// The page's content does not matter any more.
    pub(crate) fn forget(&self, page: u64) {
        drop(self.take(page));
    }

    fn take(&self, page: u64) -> Option<WholeCopy> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut pages = self.pages.lock();
        let taken = pages.remove(&page);
        self.count.store(pages.len(), Ordering::Release);
        taken
    }
}
