//! lru-wsr ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    cold: bool,
}

/// One LRU list.
pub(crate) struct LruWsr {
    list: List<State>,
}

impl LruWsr {
    pub(crate) fn new() -> LruWsr {
        LruWsr { list: List::new() }
    }
}

impl Policy for LruWsr {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.list.state(page);
        state.cold = false;
        state.dirty |= write;
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let page = self.list.lru(pinned).expect("an unpinned page");
            let state = self.list.state(page);
            if !state.dirty || state.cold {
                return page;
            }
            state.cold = true;
            self.list.move_to_mru(page);
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            cold: false,
        };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        let state = self.list.state(page);
        state.dirty = false;
        state.cold = false;
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
    fn dirty_pages_get_another_round() {
        // 1d 2 3d. R4: 1 gets the flag and moves, 2 is clean and is evicted.      -> 3d 1dc 4
        // R5: 3 gets the flag and moves, 1 has it and is evicted.                 -> 4 3dc 5
        // W3: a hit clears the flag.                                        -> 4 5 3d
        // R6, R7: 4 and 5 are evicted.                                      -> 3d 6 7
        // W8: 3 gets the flag anew and moves, 6 is evicted.                 -> 7 3dc 8d
        assert_eq!(
            victims("lru-wsr", 3, "W1 R2 W3 R4 R5 W3 R6 R7 W8"),
            [2, 1, 4, 5, 6]
        );
    }

    #[test]
    fn all_dirty() {
        // All get the flag in turn, then the first has it.
        assert_eq!(victims("lru-wsr", 3, "W1 W2 W3 W4"), [1]);
        // 2 and 3 have kept the flag, 4 is new: 2, then 3, then 4 after a round of its own.
        assert_eq!(victims("lru-wsr", 3, "W1 W2 W3 W4 R5 R6"), [1, 2, 3]);
    }

    #[test]
    fn cleaning_clears_the_flag() {
        // R3: 1 gets the flag, 2 is evicted.                                -> 1dc 3
        // C1, then W1: dirty again, not cold.                               -> 3 1d
        // R4: 3 is evicted. R5: 1 gets the flag, 4 is evicted.
        assert_eq!(victims("lru-wsr", 2, "W1 R2 R3 C1 W1 R4 R5"), [2, 3, 4]);
    }

    #[test]
    fn write_clustering_leaves_flags_and_moves() {
        // 1d 11d 12d. R20: all get the flag, 1 is chosen; cluster 1 = {11, 12} is the lowest,
        // so 11 leaves and 1 keeps its place and flag.                      -> 1dc 12dc 20
        // R21: 1 is chosen, 12 leaves.                                      -> 1dc 20 21
        // R22: 1 leaves.
        assert_eq!(
            victims("lru-wsr:cluster=10", 3, "W1 W11 W12 R20 R21 R22"),
            [11, 12, 1]
        );
    }
}
