//! price-guided: evict the page with the least max(1 - price from now to the next reference,
//! dirty ? R + n - price from now to the next write : nothing), n the references up to that write.
//! Clean pages never used again first, then dirty ones whose write is owed in any case; ties: the
//! farther of the positions that the value counts on.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::Foreseen;
use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    next_use: Option<u64>,
    foreseen: Foreseen,
}

/// The pages with what comes for them, and the prices.
pub(crate) struct PriceGuided {
    list: List<State>,
    asymmetry: f64,
    prices: Vec<f64>,
    next_use: Option<u64>,
    foreseen: Foreseen,
}

impl PriceGuided {
    pub(crate) fn new() -> PriceGuided {
        PriceGuided {
            list: List::new(),
            asymmetry: 1.0,
            prices: Vec::new(),
            next_use: None,
            foreseen: Foreseen::default(),
        }
    }

    /// The value, and the position that it counts on.
    fn value(&self, state: &State) -> (f64, u64) {
        let now = self.foreseen.position;
        let price = |then: u64| self.prices[then as usize] - self.prices[now as usize];
        let mut value = (f64::NEG_INFINITY, u64::MAX);
        if let Some(then) = state.next_use {
            value = (1.0 - price(then), then);
        }
        if state.dirty {
            let write = match state.foreseen.write {
                Some(then) => {
                    let saved = self.asymmetry + state.foreseen.references_to_write as f64;
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

    fn foresee(&mut self, foreseen: Foreseen) {
        self.foreseen = foreseen;
    }

    fn prices(&mut self, prices: &[f64]) {
        self.prices = prices.to_vec();
    }

    fn hit(&mut self, page: u64, write: bool) {
        let (next_use, foreseen) = (self.next_use, self.foreseen);
        let state = self.list.state(page);
        state.dirty |= write;
        state.next_use = next_use;
        state.foreseen = foreseen;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let unpinned = self.list.items.iter();
        let unpinned = unpinned.filter(|(page, _)| !pinned.contains(page));
        let least = unpinned.min_by(|(one, a), (other, b)| {
            let (a, b) = (self.value(a), self.value(b));
            a.0.total_cmp(&b.0)
                .then(Reverse(a.1).cmp(&Reverse(b.1)))
                .then(one.cmp(other))
        });
        least.expect("an unpinned page").0
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            next_use: self.next_use,
            foreseen: self.foreseen,
        };
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

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.list.items.iter();
        items.map(|(page, state)| (*page, state.dirty)).collect()
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
        let pages = [
            (1, true, 4, Some(5), 2),
            (2, false, 4, None, 1),
            (3, false, 6, None, 1),
        ];
        for (position, (page, dirty, next_use, write, count)) in (0..).zip(pages) {
            policy.next_use(Some(next_use));
            policy.foresee(Foreseen {
                position,
                write,
                references_to_write: count,
            });
            policy.admit(page, dirty);
        }
        policy.foresee(Foreseen {
            position: 3,
            ..Foreseen::default()
        });
        policy.victim(false, &pinned.iter().copied().collect())
    }

    #[test]
    fn least_value_leaves() {
        // No prices: 2 and 3 are worth a read each, and 3's is farther.
        assert_eq!(victim([0.0; 7], 2.0, &[]), 3);
        // 1 is worth its write and two reads.
        assert_eq!(victim([0.0; 7], 2.0, &[3]), 2);
        // Dear up to 4: 2's read is worth -2, 1's reads together 2 - 3.
        let dear = [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0];
        assert_eq!(victim(dear, 0.0, &[3]), 2);
        // Dear from 4 to 5: 1 is worth its first read, as 2 is; the lower number goes.
        let later = [0.0, 0.0, 0.0, 0.0, 0.5, 9.0, 9.0];
        assert_eq!(victim(later, 2.0, &[3]), 1);
        // Unless the write is dear enough.
        assert_eq!(victim(later, 8.0, &[3]), 2);
    }

    #[test]
    fn a_dirty_page_without_a_write_to_come() {
        let mut policy = PriceGuided::new();
        policy.costs(8.0);
        policy.prices(&[0.0, 0.0, 0.0, 5.0, 7.0]);
        let mut admit = |page, dirty, next_use, write| {
            policy.next_use(next_use);
            policy.foresee(Foreseen {
                position: page,
                write,
                references_to_write: 0,
            });
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
