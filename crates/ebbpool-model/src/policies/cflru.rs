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
        Cflru {
            list: List::new(),
            region,
        }
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

    fn resident(&self) -> Vec<(u64, bool)> {
        self.list.items.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn clean_pages_of_the_region_first() {
        // Region of 2. 1 dirty, 2 clean: 2 is evicted. Then the region is 1 3, both dirty: 1 is evicted,
        // although 4 is clean. Then 3 4: 4 is evicted.
        assert_eq!(victims("cflru", 4, "W1 R2 W3 R4 R5 R6 R7"), [2, 1, 4]);
        // No region: lru.
        assert_eq!(victims("cflru:window=0", 3, "W1 R2 R3 R4"), [1]);
        // 29 % of 7 is 2.03.
        assert_eq!(
            victims("cflru:window=29%", 7, "W1 W2 R3 R4 R5 R6 R7 R8"),
            [1]
        );
        // The pinned page 1 counts in the region of 2, so that 3 is outside; 2 is dirty.
        assert_eq!(victims("cflru", 4, "R1 W2 R3 R4 +1 R5"), [2]);
        // The region is all pinned: the unpinned page nearest the LRU end.
        assert_eq!(victims("cflru", 4, "R1 R2 W3 R4 +1 +2 R5"), [3]);
    }
}
