//! cflru ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// One LRU list with dirty flags.
pub(crate) struct Cflru {
    list: List<bool>,
    /// The size of the clean-first region.
    region: usize,
}

impl Cflru {
    pub(crate) fn new(region: usize) -> Cflru {
        Cflru { list: List::new(), region }
    }
}

impl Policy for Cflru {
    fn hit(&mut self, page: u64, write: bool) {
        *self.list.state(page) |= write;
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        for (page, dirty) in self.list.items.iter().take(self.region) {
            if !dirty && !pinned.contains(page) {
                return *page;
            }
        }
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
}
