//! cost-belady: on a miss any clean page that is never used again, else the page with the least
//! max(1/(next reference - now), dirty ? (R+1)/(next write - now) : 0); ties: the farthest next
//! reference.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::FutureUse;
use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    next_use: Option<u64>,
    write: Option<u64>,
}

/// The pages with their futures.
pub(crate) struct CostBelady {
    list: List<State>,
    asymmetry: f64,
    next_use: Option<u64>,
    future: FutureUse,
}

impl CostBelady {
    pub(crate) fn new() -> CostBelady {
        CostBelady { list: List::new(), asymmetry: 1.0, next_use: None, future: FutureUse::default() }
    }

    fn score(&self, state: &State) -> f64 {
        let now = self.future.position;
        let distance = |position: u64| (position - now) as f64;
        let read = state.next_use.map_or(0.0, |then| 1.0 / distance(then));
        let write = match state.write {
            Some(then) if state.dirty => (1.0 + self.asymmetry) / distance(then),
            _ => 0.0,
        };
        read.max(write)
    }
}

impl Policy for CostBelady {
    fn next_use(&mut self, next_use: Option<u64>) {
        self.next_use = next_use;
    }

    fn foresee(&mut self, future: FutureUse) {
        self.future = future;
    }

    fn hit(&mut self, page: u64, write: bool) {
        let (next_use, next_write) = (self.next_use, self.future.write);
        let state = self.list.state(page);
        state.dirty |= write;
        state.next_use = next_use;
        state.write = next_write;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let unpinned = self.list.items.iter();
        let unpinned = unpinned.filter(|(page, _)| !pinned.contains(page));
        let dead = |(_, state): &&(u64, State)| !state.dirty && state.next_use.is_none();
        if let Some((page, _)) = unpinned.clone().filter(dead).min_by_key(|(page, _)| *page) {
            return *page;
        }
        // Scores are not negative, so their bits order as they do.
        let least = unpinned.min_by_key(|(page, state)| {
            let farthest = Reverse(state.next_use.unwrap_or(u64::MAX));
            (self.score(state).to_bits(), farthest, *page)
        });
        least.expect("an unpinned page").0
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State { dirty: write, next_use: self.next_use, write: self.future.write };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        self.list.state(page).dirty = false;
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}

#[cfg(test)]
mod tests {
    use crate::{ModelEvent, count, foresee, model};

    fn victims(frames: usize, asymmetry: f64, trace: &[(u64, bool)], flush: bool) -> Vec<u64> {
        let mut model = model("cost-belady", frames);
        model.costs(asymmetry);
        let mut victims = Vec::new();
        for (position, future) in foresee(trace, flush).into_iter().enumerate() {
            let (page, write) = trace[position];
            let later = trace.iter().enumerate().skip(position + 1);
            let next_use = later.clone().find(|(_, other)| other.0 == page);
            model.foresee(future);
            let next_use = next_use.map(|(then, _)| then as u64);
            for event in model.reference(page, write, next_use, &Default::default()) {
                if let ModelEvent::Evict(page) = event {
                    victims.push(page);
                }
            }
        }
        victims
    }

    #[test]
    fn a_write_weighs_more_than_a_nearer_read() {
        let trace = [(1, true), (2, false), (3, false), (2, false), (1, true)];
        // At 3: page 1 saves (R + 1) / 2, page 2 saves 1 / 1.
        assert_eq!(victims(2, 0.5, &trace, true)[0], 1);
        assert_eq!(victims(2, 4.0, &trace, true)[0], 2);
    }

    #[test]
    fn at_the_end_a_dirty_page_is_dead_only_if_it_is_written_anyway() {
        let trace = [(1, true), (2, false), (3, false), (2, false)];
        assert_eq!(victims(2, 8.0, &trace, true), [1]);
        assert_eq!(victims(2, 8.0, &trace, false), [2, 3]);
    }

    #[test]
    fn it_is_cheaper_than_belady_where_writes_cost_more() {
        let trace = crate::workload::workload(1, 3000, 160);
        let cost = |policy| count(policy, 40, &trace, 32.0, 0, false, 16).cost(32.0);
        assert!(cost("cost-belady") < 0.9 * cost("belady"));
    }
}
