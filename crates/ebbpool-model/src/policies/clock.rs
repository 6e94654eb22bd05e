//! clock ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    referenced: bool,
}

/// A FIFO with a reference bit. The hand is at the oldest page.
pub(crate) struct Clock {
    list: List<State>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { list: List::new() }
    }
}

impl Policy for Clock {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.list.state(page);
        state.referenced = true;
        state.dirty |= write;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let page = self.list.lru(pinned).expect("an unpinned page");
            if !self.list.state(page).referenced {
                return page;
            }
            self.list.state(page).referenced = false;
            self.list.move_to_mru(page);
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            referenced: false,
        };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        self.list.state(page).dirty = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.list.items.iter();
        items.map(|(page, state)| (*page, state.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn a_second_round() {
        // 1 and 2 have bits. R4 clears and moves them, 3 is evicted: 1 2 4. Then 1 is evicted.
        assert_eq!(victims("clock", 3, "R1 R2 R3 R1 R2 R4 R5"), [3, 1]);
        // All have bits: cleared in order, the oldest is evicted.
        assert_eq!(victims("clock", 2, "R1 R2 R2 R1 R3"), [1]);
        // A pinned page keeps place and bit: R4 evicts 2, then 1's bit is cleared and 3 is evicted.
        assert_eq!(victims("clock", 3, "R1 R2 R3 R1 +1 R4 -1 R5 R6"), [2, 3, 4]);
    }

    #[test]
    fn write_clustering_keeps_the_effects_of_the_search() {
        // Order 1* 2 with 1's bit set. Cluster 0 holds 1 and 2 in this order. The search clears
        // and moves 1 and chooses 2; 1 leaves in its place. Then 2 is chosen and leaves.
        assert_eq!(victims("clock:cluster=10", 2, "W1 W2 R1 R20 R21"), [1, 2]);
    }
}
