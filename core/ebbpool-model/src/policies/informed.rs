//! informed: evict the page of least value, p if it is clean and p + R * w if it is dirty, where p is the probability
//! that the next reference is to the page, and w that it writes the page. Ties: the lowest page number.

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;

/// The pages, whether they are dirty, and the probabilities.
pub(crate) struct Informed {
    dirty: BTreeMap<u64, bool>,
    asymmetry: f64,
    /// The probabilities of a reference and of a write; other pages have none.
    probabilities: BTreeMap<u64, (f64, f64)>,
}

impl Informed {
    pub(crate) fn new() -> Informed {
        Informed { dirty: BTreeMap::new(), asymmetry: 1.0, probabilities: BTreeMap::new() }
    }

    fn value(&self, page: u64) -> f64 {
        let (p, w) = self.probabilities.get(&page).copied().unwrap_or_default();
        if self.dirty[&page] { p + self.asymmetry * w } else { p }
    }
}

impl Policy for Informed {
    fn probabilities(&mut self, probabilities: &BTreeMap<u64, (f64, f64)>) {
        self.probabilities = probabilities.clone();
    }

    fn hit(&mut self, page: u64, write: bool) {
        let before = self.dirty[&page];
        self.dirty.insert(page, before || write);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let mut least: Option<u64> = None;
        for page in self.dirty.keys().copied() {
            if pinned.contains(&page) {
                continue;
            }
            // The pages come in ascending order, so the first of equals remains.
            if least.is_none_or(|other| self.value(page) < self.value(other)) {
                least = Some(page);
            }
        }
        least.expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.dirty.insert(page, write);
    }

    fn evict(&mut self, page: u64) {
        self.dirty.remove(&page);
    }

    fn clean(&mut self, page: u64) {
        self.dirty.insert(page, false);
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page 1 is read by half of the references and written by none; page 2 is written by two of ten; page 3 is read
    /// by one of ten and written by two of ten.
    fn policy(asymmetry: f64) -> Informed {
        let mut policy = Informed::new();
        policy.costs(asymmetry);
        policy.probabilities(&BTreeMap::from([(1, (0.5, 0.0)), (2, (0.2, 0.2)), (3, (0.3, 0.2))]));
        policy
    }

    #[test]
    fn the_page_of_least_value_is_evicted() {
        let victim = |policy: &mut Informed, pinned: &[u64]| policy.victim(false, &pinned.iter().copied().collect());
        // Clean: .5, .2 and .3, whatever a write costs.
        let mut informed = policy(4.0);
        for page in [1, 2, 3] {
            informed.admit(page, false);
        }
        assert_eq!(victim(&mut informed, &[]), 2);
        assert_eq!(victim(&mut informed, &[2]), 3);
        // 2 becomes dirty: .5, .2 + 4 * .2 = 1 and .3.
        informed.hit(2, true);
        assert_eq!(victim(&mut informed, &[]), 3);
        // So does 3: .3 + 4 * .2 = 1.1.
        informed.hit(3, true);
        assert_eq!(victim(&mut informed, &[]), 1);
        assert_eq!(victim(&mut informed, &[1]), 2);
        // R falls to 1: .5, .4 and .5; then 2 is pinned, and 1 is the lower of the equals.
        informed.costs(1.0);
        assert_eq!(victim(&mut informed, &[]), 2);
        assert_eq!(victim(&mut informed, &[2]), 1);
        // 3 is written back: .3.
        informed.clean(3);
        assert_eq!(victim(&mut informed, &[]), 3);
        // A page without probabilities has no value.
        informed.admit(9, true);
        assert_eq!(victim(&mut informed, &[]), 9);
    }
}
