//! price-guided: evict the page with the least max(1 - price from now to the next reference, dirty
//! ? R + n - price from now to the next write : nothing), where n is the number of references up to
//! that write. Clean pages never used again are evicted first, then dirty ones whose write is due
//! in any case; ties: the farther of the positions at which the value is saved.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::FutureUse;
use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    next_use: Option<u64>,
    future: FutureUse,
}

/// The pages with their futures, and the prices.
pub(crate) struct PriceGuided {
    list: List<State>,
    asymmetry: f64,
    prices: Vec<f64>,
    next_use: Option<u64>,
    future: FutureUse,
}

impl PriceGuided {
    pub(crate) fn new() -> PriceGuided {
        PriceGuided { list: List::new(), asymmetry: 1.0, prices: Vec::new(), next_use: None, future: FutureUse::default() }
    }

    /// The value, and the position at which it is saved.
    fn value(&self, state: &State) -> (f64, u64) {
        let now = self.future.position;
        let price = |then: u64| self.prices[then as usize] - self.prices[now as usize];
        let mut value = (f64::NEG_INFINITY, u64::MAX);
        if let Some(then) = state.next_use {
            value = (1.0 - price(then), then);
        }
        if state.dirty {
            let write = match state.future.write {
                Some(then) => {
                    let saved = self.asymmetry + state.future.references_to_write as f64;
                    (saved - price(then), then)
                }
                None => (f64::MIN, u64::MAX),
            };
            if write.0 > value.0 {
                value = write;
            }
        }
        value
    }
}

impl Policy for PriceGuided {
    fn next_use(&mut self, next_use: Option<u64>) {
        self.next_use = next_use;
    }

    fn foresee(&mut self, future: FutureUse) {
        self.future = future;
    }

    fn prices(&mut self, prices: &[f64]) {
        self.prices = prices.to_vec();
    }

    fn hit(&mut self, page: u64, write: bool) {
        let (next_use, future) = (self.next_use, self.future);
        let state = self.list.state(page);
        state.dirty |= write;
        state.next_use = next_use;
        state.future = future;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let unpinned = self.list.items.iter();
        let unpinned = unpinned.filter(|(page, _)| !pinned.contains(page));
        let least = unpinned.min_by(|(one, a), (other, b)| {
            let (a, b) = (self.value(a), self.value(b));
            a.0.total_cmp(&b.0).then(Reverse(a.1).cmp(&Reverse(b.1))).then(one.cmp(other))
        });
        least.expect("an unpinned page").0
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State { dirty: write, next_use: self.next_use, future: self.future };
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
    use std::collections::BTreeSet;

    use super::*;

    /// At position 3, page 1 is dirty, read at 4 and written at 5, 2 is read at 4, 3 at 6.
    fn victim(prices: [f64; 7], asymmetry: f64, pinned: &[u64]) -> u64 {
        let mut policy = PriceGuided::new();
        policy.costs(asymmetry);
        policy.prices(&prices);
        let pages = [(1, true, 4, Some(5), 2), (2, false, 4, None, 1), (3, false, 6, None, 1)];
        for (position, (page, dirty, next_use, write, count)) in (0..).zip(pages) {
            policy.next_use(Some(next_use));
            policy.foresee(FutureUse { position, write, references_to_write: count });
            policy.admit(page, dirty);
        }
        policy.foresee(FutureUse { position: 3, ..FutureUse::default() });
        policy.victim(false, &pinned.iter().copied().collect())
    }

    #[test]
    fn the_page_of_least_value_is_evicted() {
        // No prices: 2 and 3 save a read each, and 3's is farther.
        assert_eq!(victim([0.0; 7], 2.0, &[]), 3);
        // 1 saves its write and two reads.
        assert_eq!(victim([0.0; 7], 2.0, &[3]), 2);
        // A high price up to 4: 2's read has the value -2, 1's reads together 2 - 3.
        let high_price = [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0];
        assert_eq!(victim(high_price, 0.0, &[3]), 2);
        // A high price from 4 to 5: 1 saves its first read, as 2 does; the lower number is evicted.
        let later = [0.0, 0.0, 0.0, 0.0, 0.5, 9.0, 9.0];
        assert_eq!(victim(later, 2.0, &[3]), 1);
        // Unless the write costs enough.
        assert_eq!(victim(later, 8.0, &[3]), 2);
    }

    #[test]
    fn a_dirty_page_without_a_write_to_come() {
        let mut policy = PriceGuided::new();
        policy.costs(8.0);
        policy.prices(&[0.0, 0.0, 0.0, 5.0, 7.0]);
        let mut admit = |page, dirty, next_use, write| {
            policy.next_use(next_use);
            policy.foresee(FutureUse { position: page, write, references_to_write: 0 });
            policy.admit(page, dirty);
        };
        // 0 saves R = 8 at the end, less 7; 1 a read at 3, less 5; 2 is written in any case.
        admit(0, true, None, Some(4));
        admit(1, false, Some(3), None);
        admit(2, true, None, None);
        let mut victims = Vec::new();
        for _ in 0..3 {
            let victim = policy.victim(false, &BTreeSet::new());
            policy.evict(victim);
            victims.push(victim);
        }
        assert_eq!(victims, [2, 1, 0]);
    }
}
