//! lrfu ("Classics"; Lee et al. 2001).

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;

struct Page {
    standing: f64,
    last: u64,
}

/// The resident pages. One reference is one unit of time.
///
/// A reference contributes (1/2)^(lambda x age) to its page's CRF. All CRF values shrink alike with
/// time, so pages are compared by a value that does not change: their standing, log2(CRF) + lambda
/// x now. It is a double, updated at each reference as the paper does with the CRF: the current CRF
/// is 2^(standing - lambda x now), 1 is added, and the logarithm taken again. Of equal standings
/// the least recently used page is evicted.
pub(crate) struct Lrfu {
    lambda: f64,
    now: u64,
    pages: BTreeMap<u64, Page>,
}

impl Lrfu {
    pub(crate) fn new(lambda: f64) -> Lrfu {
        Lrfu { lambda, now: 0, pages: BTreeMap::new() }
    }
}

impl Policy for Lrfu {
    fn hit(&mut self, page: u64, _write: bool) {
        self.now += 1;
        let faded = self.lambda * self.now as f64;
        let state = self.pages.get_mut(&page).expect("a resident page");
        let crf = 1.0 + libm::exp2(state.standing - faded);
        state.standing = faded + libm::log2(crf);
        state.last = self.now;
    }

    fn miss(&mut self, _page: u64, _write: bool) {
        self.now += 1;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let unpinned = self.pages.iter().filter(|(page, _)| !pinned.contains(page));
        let least = unpinned.min_by(|(_, a), (_, b)| {
            let by_crf = a.standing.total_cmp(&b.standing);
            by_crf.then(a.last.cmp(&b.last))
        });
        *least.expect("an unpinned page").0
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = Page { standing: self.lambda * self.now as f64, last: self.now };
        self.pages.insert(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.pages.remove(&page);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::Lrfu;
    use crate::buffer::Policy;
    use crate::{ModelEvent, model, workload};

    /// CRF values as the paper defines them, from all references since the page's admission.
    #[test]
    fn standings_are_those_of_the_sums() {
        for lambda in [0.0, 0.001, 0.05, 0.5, 1.0] {
            let mut lrfu = Lrfu::new(lambda);
            let mut times: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for (now, (page, _)) in (1..).zip(workload::workload(3, 2000, 40)) {
                if times.contains_key(&page) {
                    lrfu.hit(page, false);
                } else {
                    lrfu.miss(page, false);
                    lrfu.admit(page, false);
                }
                times.entry(page).or_default().push(now);
            }
            for (page, state) in &lrfu.pages {
                let ages = times[page].iter().map(|time| (state.last - time) as f64);
                let sum: f64 = ages.map(|age| 0.5f64.powf(lambda * age)).sum();
                let standing = sum.log2() + lambda * state.last as f64;
                assert!((state.standing - standing).abs() < 1e-9, "lambda {lambda}");
            }
        }
    }

    #[test]
    fn lambda_1_is_lru() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut lrfu = model("lrfu:lambda=1", frames);
            let mut lru = model("lru", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(lrfu.reference(page, write, None, &none), lru.reference(page, write, None, &none));
            }
        }
    }

    #[test]
    fn lambda_0_is_lfu_of_resident_pages() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut lrfu = model("lrfu:lambda=0", frames);
            let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            for (now, (page, write)) in (0..).zip(workload::workload(seed, 1500, frames as u64 * 3)) {
                let events = lrfu.reference(page, write, None, &none);
                let evicted = events.iter().find_map(|event| match event {
                    ModelEvent::Evict(page) => Some(*page),
                    _ => None,
                });
                if let Some(evicted) = evicted {
                    let least = counts.iter().min_by_key(|(_, count)| **count);
                    assert_eq!(least.map(|(page, _)| *page), Some(evicted));
                    counts.remove(&evicted);
                }
                let (count, last) = counts.entry(page).or_insert((0, now));
                *count += 1;
                *last = now;
            }
        }
    }
}
