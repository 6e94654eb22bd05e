//! ccf-lru ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    cold: bool,
}

/// A cold clean list and a mixed list.
pub(crate) struct CcfLru {
    cold_clean: List<()>,
    mixed: List<State>,
}

impl CcfLru {
    pub(crate) fn new() -> CcfLru {
        CcfLru {
            cold_clean: List::new(),
            mixed: List::new(),
        }
    }
}

impl Policy for CcfLru {
    fn hit(&mut self, page: u64, write: bool) {
        let dirty = if self.cold_clean.contains(page) {
            self.cold_clean.take(page);
            false
        } else {
            self.mixed.take(page).dirty
        };
        let state = State {
            dirty: dirty || write,
            cold: false,
        };
        self.mixed.push(page, state);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if let Some(page) = self.cold_clean.lru(pinned) {
            return page;
        }
        while let Some(page) = self.mixed.lru(pinned) {
            let state = self.mixed.state(page);
            if !state.dirty {
                self.mixed.take(page);
                self.cold_clean.push(page, ());
            } else if state.cold {
                return page;
            } else {
                state.cold = true;
                self.mixed.move_to_mru(page);
            }
        }
        self.cold_clean.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            let state = State {
                dirty: true,
                cold: true,
            };
            self.mixed.push(page, state);
        } else {
            self.cold_clean.push(page, ());
        }
    }

    fn evict(&mut self, page: u64) {
        if self.cold_clean.contains(page) {
            self.cold_clean.take(page);
        } else {
            self.mixed.take(page);
        }
    }

    fn clean(&mut self, page: u64) {
        let state = self.mixed.state(page);
        state.dirty = false;
        state.cold = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let mut resident = Vec::new();
        for page in self.cold_clean.pages() {
            resident.push((page, false));
        }
        for (page, state) in &self.mixed.items {
            resident.push((*page, state.dirty));
        }
        resident
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn cold_clean_then_cold_dirty() {
        // W1 R2 R2 R3:      cold clean 3, mixed 1dc 2
        // R4: 3 is evicted.       cold clean 4, mixed 1dc 2
        // R4:               cold clean -, mixed 1dc 2 4
        // R5: 1 is dirty and cold and is evicted.
        // R5 W2:            cold clean -, mixed 4 5 2d
        // R6: 4 and 5 move to the cold clean list, 2 becomes cold and moves; the search continues
        //     in the mixed list although the other is not empty, and 2 is evicted.
        //                   cold clean 4 5 6, mixed -
        // W7: 4 is evicted.
        assert_eq!(
            victims("ccf-lru", 3, "W1 R2 R2 R3 R4 R4 R5 R5 W2 R6 W7"),
            [3, 1, 2, 4]
        );
    }

    #[test]
    fn the_mixed_list_empties() {
        // W1 C1 R2: cold clean 2, mixed 1 (clean, it stayed). R3: 2 is evicted. R3: mixed 1 3, R4: both
        // move to the cold clean list; its LRU page is evicted.
        assert_eq!(victims("ccf-lru", 2, "W1 C1 R2 R3 R3 R4"), [2, 1]);
    }

    #[test]
    fn the_newcomer_is_the_next_victim() {
        // Two dirty pages that were hit stay; every page read is evicted at the next miss.
        assert_eq!(victims("ccf-lru", 3, "W1 W1 W2 W2 R3 R4 R5 R6"), [3, 4, 5]);
    }

    #[test]
    fn pins() {
        // cold clean 3 (pinned), mixed 1d 2. It counts as empty: 1 becomes cold and moves, 2
        // moves to the cold clean list, 1 is evicted.
        assert_eq!(victims("ccf-lru", 3, "W1 W1 R2 R2 R3 +3 R4"), [1]);
        // The mixed list runs out of unpinned pages: 2 has moved to the cold clean list, behind
        // the pinned 3, and is evicted.
        assert_eq!(victims("ccf-lru", 3, "W1 W1 R2 R2 R3 +3 +1 R4"), [2]);
    }
}
