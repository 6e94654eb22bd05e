//! lecar (Vietri et al., HotStorage 2018).

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;
use crate::sampler::Sampler;

#[derive(Clone, Copy)]
struct Page {
    references: u64,
    last: u64,
}

/// A victim in the history of LRU (0) or LFU (1).
struct Remembered {
    page: u64,
    references: u64,
    evicted: u64,
}

pub(crate) struct Lecar {
    m: usize,
    pages: BTreeMap<u64, Page>,
    /// Oldest first.
    histories: [Vec<Remembered>; 2],
    weights: [f64; 2],
    sampler: Sampler,
    now: u64,
    incoming: u64,
    /// The victim chosen last, and the history it goes to.
    chosen: Option<(u64, usize)>,
}

impl Lecar {
    pub(crate) fn new(m: usize) -> Lecar {
        Lecar {
            m,
            pages: BTreeMap::new(),
            histories: [Vec::new(), Vec::new()],
            weights: [0.5, 0.5],
            sampler: Sampler::new(),
            now: 0,
            incoming: 1,
            chosen: None,
        }
    }
}

/// Multiplies a weight by `factor`, makes their sum 1 again, and keeps both between 0.01 and 0.99.
pub(super) fn reweigh(weights: &mut [f64; 2], expert: usize, factor: f64) {
    weights[expert] *= factor;
    let sum = weights[0] + weights[1];
    let recency = (weights[0] / sum).clamp(1.0 - 0.99, 0.99);
    *weights = [recency, 1.0 - recency];
}

impl Policy for Lecar {
    fn hit(&mut self, page: u64, _write: bool) {
        self.now += 1;
        let state = self.pages.get_mut(&page).expect("a resident page");
        state.references += 1;
        state.last = self.now;
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.now += 1;
        self.incoming = 1;
        for expert in 0..2 {
            let history = &mut self.histories[expert];
            let Some(at) = history.iter().position(|it| it.page == page) else {
                continue;
            };
            let remembered = history.remove(at);
            self.incoming = remembered.references + 1;
            let age = (self.now - remembered.evicted) as f64;
            let discount = libm::exp(libm::log(0.005) / self.m as f64 * age);
            reweigh(&mut self.weights, expert, libm::exp(-(0.45 * discount)));
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let evictable = || self.pages.iter().filter(|(page, _)| !pinned.contains(page));
        let lru = evictable().min_by_key(|(_, state)| state.last);
        let lfu = evictable().min_by_key(|(page, state)| (state.references, **page));
        let [lru, lfu] = [lru, lfu].map(|it| *it.expect("an unpinned page").0);
        let expert = usize::from(!self.sampler.happens(self.weights[0]));
        let victim = [lru, lfu][expert];
        self.chosen = (lru != lfu).then_some((victim, expert));
        victim
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = Page { references: self.incoming, last: self.now };
        self.pages.insert(page, state);
    }

    fn evict(&mut self, page: u64) {
        let state = self.pages.remove(&page).expect("a resident page");
        let Some((_, expert)) = self.chosen.take().filter(|(chosen, _)| *chosen == page) else {
            return;
        };
        let most = self.m / 2;
        let history = &mut self.histories[expert];
        if most == 0 {
            return;
        }
        if history.len() == most {
            history.remove(0);
        }
        history.push(Remembered { page, references: state.references, evicted: self.now });
    }
}

#[cfg(test)]
mod tests {
    use super::reweigh;

    #[test]
    fn weights_stay_between_their_limits() {
        let mut weights = [0.5, 0.5];
        reweigh(&mut weights, 0, 0.5);
        assert!((weights[0] - 1.0 / 3.0).abs() < 1e-12);
        (0..100).for_each(|_| reweigh(&mut weights, 0, 0.5));
        assert!((weights[0] - 0.01).abs() < 1e-12 && (weights[1] - 0.99).abs() < 1e-12);
    }
}
