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
        let state = State { dirty: write, cold: false };
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
}
