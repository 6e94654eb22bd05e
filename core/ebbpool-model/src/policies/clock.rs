//! clock ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
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
    fn hit(&mut self, page: u64, _write: bool) {
        let state = self.list.state(page);
        state.referenced = true;
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

    fn admit(&mut self, page: u64, _write: bool) {
        let state = State { referenced: false };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }
}
