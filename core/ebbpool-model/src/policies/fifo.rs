//! fifo ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The pages in order of admission.
pub(crate) struct Fifo {
    list: List<()>,
}

impl Fifo {
    pub(crate) fn new() -> Fifo {
        Fifo { list: List::new() }
    }
}

impl Policy for Fifo {
    fn hit(&mut self, _page: u64, _write: bool) {}

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        self.list.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, _write: bool) {
        self.list.push(page, ());
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }
}
