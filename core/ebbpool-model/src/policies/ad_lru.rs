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
        AdLru { cold: List::new(), hot: List::new(), min_cold }
    }

    fn take(&mut self, page: u64) -> State {
        if self.cold.contains(page) { self.cold.take(page) } else { self.hot.take(page) }
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
        let from_cold = if cold_is_empty { false } else { self.cold.len() > self.min_cold || hot_is_empty };
        let queue = if from_cold { &mut self.cold } else { &mut self.hot };

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
        let state = State { dirty: write, referenced: true };
        self.cold.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.take(page);
    }

    fn clean(&mut self, page: u64) {
        let queue = if self.cold.contains(page) { &mut self.cold } else { &mut self.hot };
        queue.state(page).dirty = false;
    }
}
