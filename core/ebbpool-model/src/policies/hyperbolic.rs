//! hyperbolic (Blankstein, Sen and Freedman, USENIX ATC 2017).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::sampler::{Sampler, Slots};

struct Page {
    dirty: bool,
    admitted: u64,
    references: u64,
}

/// Priority = cost x references / time since admission; cost = 1, or 1 + R for a dirty page. Time is
/// counted in references, and is at least 1.
pub(crate) struct Hyperbolic {
    pages: Slots<Page>,
    sampler: Sampler,
    sample: usize,
    now: u64,
    asymmetry: f64,
}

impl Hyperbolic {
    pub(crate) fn new(m: usize, sample: u64) -> Hyperbolic {
        Hyperbolic { pages: Slots::new(m), sampler: Sampler::new(), sample: (sample as usize).min(m), now: 0, asymmetry: 1.0 }
    }
}

impl Policy for Hyperbolic {
    fn hit(&mut self, page: u64, write: bool) {
        self.now += 1;
        let state = self.pages.of(page);
        state.references += 1;
        state.dirty |= write;
    }

    fn miss(&mut self, _page: u64, _write: bool) {
        self.now += 1;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let drawn = self.sampler.slots(&self.pages.evictable(pinned), self.sample);
        let priority = |slot: usize| {
            let (_, page) = self.pages.at(slot);
            let cost = if page.dirty { 1.0 + self.asymmetry } else { 1.0 };
            let time = (self.now - page.admitted).max(1);
            cost * page.references as f64 / time as f64
        };
        let least = drawn.into_iter().min_by(|a, b| priority(*a).total_cmp(&priority(*b)));
        self.pages.at(least.expect("an unpinned page")).0
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = Page { dirty: write, admitted: self.now, references: 1 };
        self.pages.admit(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.pages.remove(page);
    }

    fn clean(&mut self, page: u64) {
        self.pages.of(page).dirty = false;
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}
