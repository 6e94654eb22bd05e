//! for (Lv, Cui, He and Chen 2011), as the `how` of its entry in the registry describes it.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The reads of a page, or its writes, since its admission.
#[derive(Clone, Copy, Default)]
struct Operations {
    /// The position of the last one.
    last: Option<u64>,
    /// The references between the last two.
    distance: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct State {
    dirty: bool,
    reads: Operations,
    writes: Operations,
}

impl State {
    fn is_hot(&self) -> bool {
        self.reads.distance.is_some() || self.writes.distance.is_some()
    }

    /// Its queue: cold clean, hot clean, cold dirty, hot dirty.
    fn queue(&self) -> usize {
        2 * usize::from(self.dirty) + usize::from(self.is_hot())
    }
}

/// The pages in the order in which they were referenced or entered their queue.
pub(crate) struct OperationAware {
    m: usize,
    list: List<State>,
    now: u64,
    asymmetry: f64,
}

impl OperationAware {
    pub(crate) fn new(m: usize) -> OperationAware {
        OperationAware { m, list: List::new(), now: 0, asymmetry: 1.0 }
    }

    fn reference(&self, state: &mut State, write: bool) {
        state.dirty |= write;
        let operations = if write { &mut state.writes } else { &mut state.reads };
        operations.distance = operations.last.map(|last| self.now - last);
        operations.last = Some(self.now);
    }

    /// `cost` over the distance to the next operation of this kind.
    fn weight_of(&self, operations: Operations, cost: f64) -> f64 {
        match operations.last {
            None => 0.0,
            Some(last) => {
                let distance = operations.distance.unwrap_or(self.m as u64);
                cost / (distance + (self.now - last)) as f64
            }
        }
    }

    fn weight(&self, state: &State) -> f64 {
        let write = if state.dirty { 1.0 + self.asymmetry } else { 1.0 };
        self.weight_of(state.reads, 1.0) + self.weight_of(state.writes, write)
    }
}

impl Policy for OperationAware {
    fn hit(&mut self, page: u64, write: bool) {
        self.now += 1;
        let mut state = self.list.take(page);
        self.reference(&mut state, write);
        self.list.push(page, state);
    }

    fn miss(&mut self, _page: u64, _write: bool) {
        self.now += 1;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let mut best: Option<(f64, u64)> = None;
        for queue in 0..4 {
            let in_queue = |state: &State| state.queue() == queue;
            let Some(page) = self.list.lru_such_that(pinned, in_queue) else {
                continue;
            };
            let state = *self.list.state(page);
            let weight = self.weight(&state);
            if best.is_none_or(|(least, _)| weight < least) {
                best = Some((weight, page));
            }
        }
        best.expect("an unpinned page").1
    }

    fn admit(&mut self, page: u64, write: bool) {
        let mut state = State::default();
        self.reference(&mut state, write);
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        let mut state = self.list.take(page);
        state.dirty = false;
        self.list.push(page, state);
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}

#[cfg(test)]
mod tests {
    use crate::model;
    use crate::tests::Player;

    #[test]
    fn the_least_weight_of_four_queues() {
        let mut player = Player::new(model("for", 3), "");
        player.model.costs(2.0);
        // At the fourth reference: 1 was written three ago, 3 / (3 + 3); 2 was read two ago,
        // 1 / (3 + 2); 3 is younger.
        assert_eq!(player.play("W1 R2 R3 R4"), [2]);
        // At the seventh: 3 is hot, read 3 references apart and one ago, 1 / 4; 4 is cold,
        // 1 / (3 + 3); 1 has 3 / (3 + 6).
        assert_eq!(player.play("R3 R3 R5"), [4]);
        // At the eighth: 1 has 3 / (3 + 7), 5 has 1 / (3 + 1), 3 has 1 / (1 + 2).
        assert_eq!(player.play("R6"), [5]);
        // Written back, 1 is the most recent of the cold clean pages, and 6 the least: 1 / (3 + 1),
        // as much as the hot 3 with 1 / (1 + 3).
        assert_eq!(player.play("C1 R7"), [6]);
        // Now it is 1's turn: a write of it costs no more than a read, 1 / (3 + 9).
        assert_eq!(player.play("R8"), [1]);
    }
}
