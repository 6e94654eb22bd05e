//! gclock ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    count: u64,
}

/// A FIFO with counters. The hand is at the oldest page.
pub(crate) struct Gclock {
    list: List<State>,
    init: u64,
    max: u64,
}

impl Gclock {
    pub(crate) fn new(init: u64, max: u64) -> Gclock {
        Gclock { list: List::new(), init, max }
    }
}

impl Policy for Gclock {
    fn hit(&mut self, page: u64, _write: bool) {
        let state = self.list.state(page);
        state.count = (state.count + 1).min(self.max);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let page = self.list.lru(pinned).expect("an unpinned page");
            if self.list.state(page).count == 0 {
                return page;
            }
            self.list.state(page).count -= 1;
            self.list.move_to_mru(page);
        }
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = State { count: self.init.min(self.max) };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{model, workload};

    #[test]
    fn with_one_bit_it_is_clock() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut gclock = model("gclock:init=0,max=1", frames);
            let mut clock = model("clock", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(gclock.reference(page, write, None, &none), clock.reference(page, write, None, &none));
            }
        }
    }
}
