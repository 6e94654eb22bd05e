//! lru ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The pages in order of their last reference, and their dirty flags.
pub(crate) struct Lru {
    list: List<bool>,
}

impl Lru {
    pub(crate) fn new() -> Lru {
        Lru { list: List::new() }
    }
}

impl Policy for Lru {
    fn hit(&mut self, page: u64, write: bool) {
        *self.list.state(page) |= write;
        self.list.move_to_mru(page);
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

#[cfg(test)]
mod tests {
    use crate::ModelEvent::{Evict, Read, Write};
    use crate::tests::{events, victims};

    #[test]
    fn a_hit_moves_to_the_mru_end() {
        assert_eq!(victims("lru", 3, "R1 R2 R3 R1 R4 R5 R6"), [2, 3, 1]);
        assert_eq!(victims("lru", 2, "R1 R2 +1 R3 -1 R4"), [2, 1]);
    }

    #[test]
    fn a_dirty_victim_is_written_first() {
        assert_eq!(
            events("lru", 1, "W1 R2 R3"),
            [Read(1), Write(1), Evict(1), Read(2), Evict(2), Read(3)]
        );
        // Cleaned from outside: not written again.
        assert_eq!(events("lru", 1, "W1 C1 R2"), [Read(1), Evict(1), Read(2)]);
        // All pinned: nothing is admitted.
        assert_eq!(events("lru", 1, "W1 +1 R2"), [Read(1)]);
    }

    #[test]
    fn write_clustering() {
        // The LRU page 1 is dirty. Clusters: 0 = {1}, 1 = {11, 12}: 1 / (4 * 1). The lowest is
        // cluster 1, so 11 leaves in place of 1, then 12 in place of 1, which is still the LRU
        // page, although 3 has entered cluster 0 by then.
        assert_eq!(
            victims("lru:cluster=10", 4, "W1 W11 W12 R20 R21 W3 R22"),
            // Page 1 in the end: 20 and 21 are clean and younger.
            [11, 12, 1]
        );
        // A clean LRU page leaves itself.
        assert_eq!(victims("lru:cluster=10", 2, "R1 W11 R2"), [1]);
        // A write to a dirty page takes it out and enters it again: 2 before 1.
        assert_eq!(victims("lru:cluster=10", 2, "W1 W2 W1 R20 R21"), [2, 1]);
        // A read does not, neither does the second victim depend on recency.
        assert_eq!(victims("lru:cluster=10", 2, "W1 W2 R1 R20"), [1]);
    }
}
