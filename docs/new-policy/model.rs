//! clean-first: a clean and a dirty list, both LRU. The victim is from the clean list while that has a page.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// Clean and dirty pages, each in order of their last reference.
pub(crate) struct CleanFirst {
    clean: List<()>,
    dirty: List<()>,
}

impl CleanFirst {
    pub(crate) fn new() -> CleanFirst {
        CleanFirst { clean: List::new(), dirty: List::new() }
    }
}

impl Policy for CleanFirst {
    fn hit(&mut self, page: u64, write: bool) {
        if self.dirty.contains(page) {
            self.dirty.move_to_mru(page);
        } else if write {
            self.clean.take(page);
            self.dirty.push(page, ());
        } else {
            self.clean.move_to_mru(page);
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let clean = self.clean.lru(pinned);
        clean.or_else(|| self.dirty.lru(pinned)).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        match write {
            true => self.dirty.push(page, ()),
            false => self.clean.push(page, ()),
        }
    }

    fn evict(&mut self, page: u64) {
        match self.dirty.contains(page) {
            true => self.dirty.take(page),
            false => self.clean.take(page),
        }
    }

    fn clean(&mut self, page: u64) {
        self.dirty.take(page);
        self.clean.push(page, ());
    }
}
