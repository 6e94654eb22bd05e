//! fbr ("Classics"; Robinson and Devarakonda 1990).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    count: u64,
}

/// An LRU list with a count per page. The new section is its part at the MRU end, the old section
/// its part at the LRU end, as far as the new one leaves room.
pub(crate) struct Fbr {
    list: List<State>,
    new: usize,
    old: usize,
    cmax: u64,
}

impl Fbr {
    pub(crate) fn new(m: usize, new: usize, old: usize, cmax: u64) -> Fbr {
        Fbr { list: List::new(), new, old: old.min(m - new), cmax }
    }
}

impl Policy for Fbr {
    fn hit(&mut self, page: u64, _write: bool) {
        let position = self.list.position(page).expect("a resident page");
        let behind = self.list.len() - 1 - position;
        self.list.move_to_mru(page);
        let state = self.list.state(page);
        if behind < self.new {
            return;
        }
        state.count += 1;
        let sum: u64 = self.list.items.iter().map(|(_, state)| state.count).sum();
        if sum > self.cmax * self.list.len() as u64 {
            for (_, state) in &mut self.list.items {
                state.count = state.count.div_ceil(2);
            }
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let old = self.list.items.iter().take(self.old);
        let unpinned = old.filter(|(page, _)| !pinned.contains(page));
        // Of several with the least, `min_by_key` names the first, the nearest the LRU end.
        match unpinned.min_by_key(|(_, state)| state.count) {
            Some((page, _)) => *page,
            None => self.list.lru(pinned).expect("an unpinned page"),
        }
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = State { count: 1 };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Fbr;
    use crate::buffer::Policy;
    use crate::{model, workload};

    #[test]
    fn counts_are_halved_and_rounded_up() {
        let mut fbr = Fbr::new(3, 0, 3, 3);
        for page in 1..=3 {
            fbr.admit(page, false);
        }
        // ModelCounts 7 1 1 have the average 3, 8 1 1 more: 4 1 1.
        for _ in 0..6 {
            fbr.hit(1, false);
        }
        assert_eq!(fbr.list.state(1).count, 7);
        fbr.hit(1, false);
        let counts = [1, 2, 3].map(|page| fbr.list.state(page).count);
        assert_eq!(counts, [4, 1, 1]);
    }

    #[test]
    fn with_everything_new_or_an_old_section_of_one_page_it_is_lru() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            for spec in ["fbr:new=1", "fbr:new=0.3,old=0"] {
                let mut fbr = model(spec, frames);
                let mut lru = model("lru", frames);
                for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                    assert_eq!(fbr.reference(page, write, None, &none), lru.reference(page, write, None, &none));
                }
            }
        }
    }
}
