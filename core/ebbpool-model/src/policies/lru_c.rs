//! lru-c (Lee et al. 2023), as the `how` of its entry in the registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

#[derive(Clone, Copy)]
struct State {
    dirty: bool,
    /// The LRU-C pointer has passed the page since it was last referenced.
    passed: bool,
}

/// One LRU list.
pub(crate) struct LruC {
    list: List<State>,
    batch: usize,
    /// The pages that the cleaner writes together with the victim chosen.
    written: Vec<u64>,
}

impl LruC {
    pub(crate) fn new(batch: usize) -> LruC {
        LruC { list: List::new(), batch, written: Vec::new() }
    }
}

impl Policy for LruC {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.list.state(page);
        state.dirty |= write;
        state.passed = false;
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        // The pointer stops at the clean page nearest the LRU end, also at a pinned one.
        for (_, state) in &mut self.list.items {
            if !state.dirty {
                break;
            }
            state.passed = true;
        }
        let clean = self.list.lru_such_that(pinned, |state| !state.dirty);
        let victim = clean.or(self.list.lru(pinned)).expect("an unpinned page");

        let passed = self.list.items.iter().filter(|(_, state)| state.passed);
        let full = self.batch > 0 && passed.count() >= self.batch;
        // A dirty victim is one of the batch.
        let others = self.batch - usize::from(clean.is_none() && full);
        self.written.clear();
        if full {
            for (page, state) in &self.list.items {
                let may = state.passed && *page != victim && !pinned.contains(page);
                if may && self.written.len() < others {
                    self.written.push(*page);
                }
            }
        }
        victim
    }

    fn written_with(&self, _victim: u64) -> Vec<u64> {
        self.written.clone()
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.list.push(page, State { dirty: write, passed: false });
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        *self.list.state(page) = State { dirty: false, passed: false };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::ModelEvent::{Evict, Read, Write};
    use crate::tests::events;
    use crate::{model, workload};

    #[test]
    fn the_cleaner_writes_a_batch_of_passed_pages() {
        // 1 and 2 are passed when 3 is evicted; one more miss finds them clean.
        assert_eq!(
            events("lru-c:batch=2", 4, "W1 W2 R3 R4 R5 R6"),
            [Read(1), Read(2), Read(3), Read(4), Write(1), Write(2), Evict(3), Read(5), Evict(1), Read(6)]
        );
        // After a hit 1 no longer counts as passed: 2 alone is no batch. 4 is evicted, then 5; 6 is
        // passed by then, and 2 and 6 are a batch.
        assert_eq!(events("lru-c:batch=2", 4, "W1 R3 W2 R4 R5 R1 R6")[4..], [Evict(3), Read(5), Evict(4), Read(6)]);
        // A dirty victim is one of the batch.
        assert_eq!(events("lru-c:batch=2", 3, "W1 W2 W3 R4")[3..], [Write(1), Write(2), Evict(1), Read(4)]);
        // Pinned pages are passed and not written.
        assert_eq!(events("lru-c:batch=2", 3, "W1 W2 R3 +1 R4")[3..], [Write(2), Evict(3), Read(4)]);
    }

    #[test]
    fn without_a_cleaner_it_is_cflru_with_the_whole_list_as_window() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut lru_c = model("lru-c:batch=0", frames);
            let mut cflru = model("cflru:window=1", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(lru_c.reference(page, write, None, &none), cflru.reference(page, write, None, &none));
            }
        }
    }
}
