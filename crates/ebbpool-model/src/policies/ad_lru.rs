//! ad-lru ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    referenced: bool,
}

/// A cold and a hot LRU queue.
pub(crate) struct AdLru {
    cold: List<State>,
    hot: List<State>,
    /// floor(min_lc * m).
    min_cold: usize,
}

impl AdLru {
    pub(crate) fn new(min_cold: usize) -> AdLru {
        AdLru {
            cold: List::new(),
            hot: List::new(),
            min_cold,
        }
    }

    fn take(&mut self, page: u64) -> State {
        if self.cold.contains(page) {
            self.cold.take(page)
        } else {
            self.hot.take(page)
        }
    }
}

impl Policy for AdLru {
    fn hit(&mut self, page: u64, write: bool) {
        let mut state = self.take(page);
        state.referenced = true;
        state.dirty |= write;
        self.hot.push(page, state);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let cold_is_empty = self.cold.lru(pinned).is_none();
        let hot_is_empty = self.hot.lru(pinned).is_none();
        let from_cold = if cold_is_empty {
            false
        } else {
            self.cold.len() > self.min_cold || hot_is_empty
        };
        let queue = if from_cold {
            &mut self.cold
        } else {
            &mut self.hot
        };

        if let Some(page) = queue.lru_such_that(pinned, |state| !state.dirty) {
            return page;
        }
        loop {
            let page = queue.lru(pinned).expect("an unpinned page");
            if !queue.state(page).referenced {
                return page;
            }
            queue.state(page).referenced = false;
            queue.move_to_mru(page);
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            referenced: true,
        };
        self.cold.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.take(page);
    }

    fn clean(&mut self, page: u64) {
        let queue = if self.cold.contains(page) {
            &mut self.cold
        } else {
            &mut self.hot
        };
        queue.state(page).dirty = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.cold.items.iter().chain(&self.hot.items);
        items.map(|(page, state)| (*page, state.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn cold_first_and_clean_first() {
        // At least floor(0.25 * 4) = 1 page stays cold; * marks a set bit.
        // R1 W2 R1 W3 R4:   cold 2d* 3d* 4*, hot 1*
        // R5: 3 > 1, cold; the clean page 4 is evicted, the newcomer.
        // R6: again the newcomer, 5.
        // W6:               cold 2d* 3d*, hot 1* 6d*
        // R7: 2 > 1, cold; all dirty: 2 and 3 lose their bits, 2 is evicted.
        // R7:               cold 3d, hot 1* 6d* 7*
        // R8: 1 is not more than 1: hot; its clean page nearest the LRU end is 1.
        assert_eq!(
            victims("ad-lru:min_lc=0.25", 4, "R1 W2 R1 W3 R4 R5 R6 W6 R7 R7 R8"),
            [4, 5, 2, 1]
        );
    }

    #[test]
    fn second_chance_keeps_cleared_bits() {
        // min_lc 0. W1 W2 W3: cold 1* 2* 3*. W4: bits cleared, 1 is evicted: cold 2 3 4*.
        // W5: 2 has no bit and is evicted: cold 3 4* 5*. W3: hot 3*, cold 4* 5*.
        // W6: 4 and 5 lose their bits, 4 is evicted: cold 5 6*, hot 3*.
        // W7: 5 is evicted.
        assert_eq!(
            victims("ad-lru:min_lc=0", 3, "W1 W2 W3 W4 W5 W3 W6"),
            [1, 2, 4]
        );
        assert_eq!(
            victims("ad-lru:min_lc=0", 3, "W1 W2 W3 W4 W5 W3 W6 W7"),
            [1, 2, 4, 5]
        );
    }

    #[test]
    fn the_newcomer_is_each_next_victim() {
        assert_eq!(
            victims("ad-lru", 4, "W1 W2 W3 R4 R5 R6 R7 R8"),
            [4, 5, 6, 7]
        );
    }

    #[test]
    fn empty_queues() {
        // min_lc 1: cold never has more than m pages, so victims are from hot while it has any.
        assert_eq!(victims("ad-lru:min_lc=1", 3, "R1 R1 R2 R3 R4 R5"), [1, 2]);
        // The cold queue's pages are pinned: the hot one.
        assert_eq!(victims("ad-lru", 3, "R1 R1 R2 R3 +2 +3 R4"), [1]);
        // The hot queue's page is pinned: the cold one.
        assert_eq!(victims("ad-lru:min_lc=1", 2, "R1 R1 R2 +1 R4"), [2]);
        // All of the cold queue's unpinned pages are dirty: 1 is clean but pinned.
        assert_eq!(victims("ad-lru", 3, "R1 W2 W3 +1 R4"), [2]);
    }
}
