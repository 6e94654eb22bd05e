//! fifo ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The pages in order of admission, and their dirty flags.
pub(crate) struct Fifo {
    list: List<bool>,
}

impl Fifo {
    pub(crate) fn new() -> Fifo {
        Fifo { list: List::new() }
    }
}

impl Policy for Fifo {
    fn hit(&mut self, page: u64, write: bool) {
        *self.list.state(page) |= write;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        self.list.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.list.push(page, write);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        *self.list.state(page) = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        self.list.items.clone()
    }
}
