//! gclock ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
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
        Gclock {
            list: List::new(),
            init,
            max,
        }
    }
}

impl Policy for Gclock {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.list.state(page);
        state.dirty |= write;
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

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            count: self.init.min(self.max),
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
    use std::collections::BTreeSet;

    use crate::tests::victims;
    use crate::{model, workload};

    #[test]
    fn the_hand_counts_down() {
        // Counters 2 1 1: all are counted down to 1 0 0, then 1 to 0, then 2 is evicted. Order 3 1 4
        // with counters 0 0 1: 3 is evicted, then 1.
        assert_eq!(victims("gclock", 3, "R1 R1 R2 R3 R4 R5 R6"), [2, 3, 1]);
        // Counters 5 (not 7) and 1: R3 counts down to 4 0, 3 and takes 2. 1 3 with 3 1: R4 counts
        // down to 2 0, 1 and takes 3. 1 4 with 1 1: R5 counts down to 0 0 and takes 1.
        assert_eq!(
            victims("gclock", 2, "R1 R1 R1 R1 R1 R1 R1 R2 R3 R4 R5 R6 R7"),
            [2, 3, 1, 4, 5]
        );
    }

    #[test]
    fn a_pinned_page_keeps_place_and_counter() {
        // Counters 1 1: 2 is counted down and taken, 1 is not looked at. Then 1 is first again:
        // 1 0, 3 0, and 1 is evicted.
        assert_eq!(victims("gclock", 2, "R1 R2 +1 R3 -1 R4"), [2, 1]);
    }

    #[test]
    fn with_one_bit_it_is_clock() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut gclock = model("gclock:init=0,max=1", frames);
            let mut clock = model("clock", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(
                    gclock.reference(page, write, None, &none),
                    clock.reference(page, write, None, &none)
                );
            }
        }
    }
}
