//! dl-cflru-e ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// A clean and a dirty LRU list; with each page the erases of its block.
pub(crate) struct DlCflruE {
    clean: List<u32>,
    dirty: List<u32>,
}

impl DlCflruE {
    pub(crate) fn new() -> DlCflruE {
        DlCflruE { clean: List::new(), dirty: List::new() }
    }

    fn take(&mut self, page: u64) -> u32 {
        if self.clean.contains(page) { self.clean.take(page) } else { self.dirty.take(page) }
    }
}

impl Policy for DlCflruE {
    fn hit(&mut self, page: u64, write: bool) {
        let stays_clean = self.clean.contains(page) && !write;
        let erases = self.take(page);
        if stays_clean {
            self.clean.push(page, erases);
        } else {
            self.dirty.push(page, erases);
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if let Some(page) = self.clean.lru(pinned) {
            return page;
        }
        let half = (self.dirty.len() / 2).max(1);
        let old = self.dirty.items.iter().take(half);
        let unpinned = old.filter(|(page, _)| !pinned.contains(page));
        if let Some((page, _)) = unpinned.min_by_key(|(_, erases)| *erases) {
            return *page;
        }
        self.dirty.lru(pinned).expect("an unpinned page")
    }

    fn erases(&mut self, page: u64, erases: u32) {
        if self.clean.contains(page) {
            *self.clean.state(page) = erases;
        } else {
            *self.dirty.state(page) = erases;
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            self.dirty.push(page, 0);
        } else {
            self.clean.push(page, 0);
        }
    }

    fn evict(&mut self, page: u64) {
        self.take(page);
    }

    fn clean(&mut self, page: u64) {
        let erases = self.dirty.take(page);
        self.clean.push(page, erases);
    }
}
