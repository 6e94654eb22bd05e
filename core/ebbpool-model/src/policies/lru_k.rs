//! lru-k ("Classics"; O'Neil, O'Neil and Weikum 1993).

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;

struct Page {
    /// When it was referenced, the oldest first.
    times: Vec<u64>,
}

/// The resident pages and when they were referenced, back to the reference that admitted them or,
/// where their history was remembered, further.
pub(crate) struct LruK {
    frames: usize,
    k: usize,
    now: u64,
    pages: BTreeMap<u64, Page>,
    /// The pages of the last m evictions with their histories, the oldest first.
    evicted: Vec<(u64, Vec<u64>)>,
    /// The history of the page missed last.
    history: Vec<u64>,
}

impl LruK {
    pub(crate) fn new(frames: usize, k: usize) -> LruK {
        LruK { frames, k, now: 0, pages: BTreeMap::new(), evicted: Vec::new(), history: Vec::new() }
    }

    /// The key that is least for the page to evict.
    fn order(&self, page: &Page) -> (bool, u64) {
        let references = page.times.len();
        if references < self.k { (false, page.times[references - 1]) } else { (true, page.times[references - self.k]) }
    }
}

impl Policy for LruK {
    fn hit(&mut self, page: u64, _write: bool) {
        self.now += 1;
        let state = self.pages.get_mut(&page).expect("a resident page");
        state.times.push(self.now);
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.now += 1;
        let entry = self.evicted.iter().rev().find(|(other, _)| *other == page);
        self.history = entry.map_or(Vec::new(), |(_, times)| times.clone());
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let unpinned = self.pages.iter().filter(|(page, _)| !pinned.contains(page));
        let first = unpinned.min_by_key(|(_, state)| self.order(state));
        *first.expect("an unpinned page").0
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let mut times = std::mem::take(&mut self.history);
        times.push(self.now);
        let state = Page { times };
        self.pages.insert(page, state);
    }

    fn evict(&mut self, page: u64) {
        let state = self.pages.remove(&page).expect("a resident page");
        self.evicted.push((page, state.times));
        if self.evicted.len() > self.frames {
            self.evicted.remove(0);
        }
    }

    fn end(&mut self, page: u64) {
        self.pages.remove(&page);
        // Nor is the page remembered from an eviction before.
        for (_, times) in self.evicted.iter_mut().filter(|(other, _)| *other == page) {
            times.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{model, workload};

    #[test]
    fn with_one_reference_it_is_lru() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut lru_1 = model("lru-k:k=1", frames);
            let mut lru = model("lru", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(lru_1.reference(page, write, None, &none), lru.reference(page, write, None, &none));
            }
        }
    }
}
