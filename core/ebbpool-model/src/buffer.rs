//! The part that all policies share: the introduction of `docs/generated/policies.md`, and write clustering.

use std::collections::{BTreeMap, BTreeSet};

use crate::clusters::Clusters;
use crate::{FutureUse, Model, ModelEvent};

/// The policy itself. It stores an order of the resident pages; [`Resident`] has the pages and their dirty flags.
pub(crate) trait Policy {
    /// The next use of the page about to be referenced, for belady.
    fn next_use(&mut self, _next_use: Option<u64>) {}

    /// The future of that page besides its next use.
    fn foresee(&mut self, _foreseen: FutureUse) {}

    /// Takes, for price-guided, the price of a frame from the beginning to each position of the trace, the end included.
    fn prices(&mut self, _prices: &[f64]) {}

    /// Takes, for informed, the probabilities that a reference is to a page, and that it writes the page.
    fn probabilities(&mut self, _probabilities: &BTreeMap<u64, (f64, f64)>) {}

    /// The class of the page about to be missed; 0 if it is not known.
    fn class(&mut self, _class: u32) {}

    /// Takes the time of the next reference in µs, and four times the number of its ring plus the ring's kind; 0 is no ring.
    fn request(&mut self, _time_us: u64, _bypass: u32) {}

    /// The pages that background processes of the server write before the next reference, in order, and whether a checkpoint or
    /// commit writes them. They become clean.
    fn background(&mut self) -> Vec<(u64, bool)> {
        Vec::new()
    }

    /// A resident page is referenced.
    fn hit(&mut self, page: u64, write: bool);

    /// A page that is not resident is referenced.
    fn miss(&mut self, _page: u64, _write: bool) {}

    /// The page to evict for the page missed last although the buffer is not full, if there is one.
    fn early_victim(&mut self, _pinned: &BTreeSet<u64>) -> Option<u64> {
        None
    }

    /// Chooses the page to evict for a page missed for reading or writing. At least one resident
    /// page is not pinned.
    fn victim(&mut self, write: bool, pinned: &BTreeSet<u64>) -> u64;

    /// The pages that are evicted together with the victim, in order.
    fn evicted_with(&self, _victim: u64) -> Vec<u64> {
        Vec::new()
    }

    /// The pages per block, if a block is written whole.
    fn padded_block(&self) -> Option<u64> {
        None
    }

    /// How often the erase block of a resident page was erased.
    fn erases(&mut self, _page: u64, _erases: u32) {}

    /// The dirty pages that are written together with the victim chosen, in order; they stay
    /// resident.
    fn written_with(&self, _victim: u64) -> Vec<u64> {
        Vec::new()
    }

    /// A page is admitted.
    fn admit(&mut self, page: u64, write: bool);

    /// A page is evicted, written if it was dirty; not necessarily the one that `victim` chose.
    fn evict(&mut self, page: u64);

    /// A page has ended: it leaves, unwritten, and without being remembered as an evicted page is.
    fn end(&mut self, page: u64) {
        self.evict(page);
    }

    /// A dirty page was written and stays resident.
    fn clean(&mut self, _page: u64) {}

    /// The asymmetry R.
    fn costs(&mut self, _asymmetry: f64) {}

    /// The target number of clean pages, if the policy has one.
    fn target(&self) -> Option<f64> {
        None
    }

    /// For fd-buffer, Pc, Pd and Pdw at the Mc that the advisor's last run chose.
    fn estimates(&self) -> Option<[f64; 3]> {
        None
    }
}

/// A policy, its resident pages and their dirty flags.
pub(crate) struct Resident {
    policy: Box<dyn Policy>,
    pages: BTreeMap<u64, bool>,
}

impl Resident {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Resident {
        Resident { policy, pages: BTreeMap::new() }
    }

    /// The pages and their dirty flags, in ascending page order.
    pub(crate) fn pages(&self) -> &BTreeMap<u64, bool> {
        &self.pages
    }

    /// Whether the page is dirty; `None` if it is not resident.
    pub(crate) fn dirty(&self, page: u64) -> Option<bool> {
        self.pages.get(&page).copied()
    }

    pub(crate) fn hit(&mut self, page: u64, write: bool) {
        *self.pages.get_mut(&page).expect("a resident page") |= write;
        self.policy.hit(page, write);
    }

    pub(crate) fn admit(&mut self, page: u64, write: bool) {
        self.pages.insert(page, write);
        self.policy.admit(page, write);
    }

    pub(crate) fn evict(&mut self, page: u64) {
        self.pages.remove(&page);
        self.policy.evict(page);
    }

    pub(crate) fn end(&mut self, page: u64) {
        self.pages.remove(&page);
        self.policy.end(page);
    }

    pub(crate) fn clean(&mut self, page: u64) {
        self.pages.insert(page, false);
        self.policy.clean(page);
    }

    pub(crate) fn background(&mut self) -> Vec<(u64, bool)> {
        let written = self.policy.background();
        self.pages.extend(written.iter().map(|(page, _)| (*page, false)));
        written
    }
}

impl std::ops::Deref for Resident {
    type Target = dyn Policy;

    fn deref(&self) -> &Self::Target {
        &*self.policy
    }
}

impl std::ops::DerefMut for Resident {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.policy
    }
}

/// A buffer under a policy, with write clustering or without.
pub(crate) struct Buffer {
    frames: usize,
    policy: Resident,
    /// The class of the page about to be referenced.
    class: u32,
    /// All dirty pages, with write clustering.
    clusters: Option<Clusters>,
}

impl Buffer {
    pub(crate) fn new(frames: usize, policy: Box<dyn Policy>, clusters: Option<Clusters>) -> Buffer {
        Buffer { frames, policy: Resident::new(policy), class: 0, clusters }
    }

    /// Evicts the pages in this order; `written` is already written.
    fn evict_all(&mut self, evictions: &[u64], written: Option<u64>) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        let any_dirty = evictions.iter().any(|page| self.policy.dirty(*page) == Some(true));
        let whole = self.policy.padded_block().filter(|_| any_dirty);
        if let Some(block) = whole {
            let first = evictions[0] / block * block;
            let pages = || (0..block).filter_map(|offset| first.checked_add(offset));
            let missing = pages().filter(|page| self.policy.dirty(*page).is_none());
            events.extend(missing.map(ModelEvent::Pad));
            events.extend(pages().map(ModelEvent::Write));
            // Pinned pages of the block stay.
            for page in pages().filter(|page| !evictions.contains(page)) {
                if self.policy.dirty(page) == Some(true) {
                    self.clean(page);
                }
            }
        }
        for page in evictions {
            let dirty = self.policy.dirty(*page) == Some(true) && written != Some(*page);
            if whole.is_none() && dirty {
                events.push(ModelEvent::Write(*page));
            }
            events.push(ModelEvent::Evict(*page));
            self.policy.evict(*page);
        }
        events
    }
}

impl Model for Buffer {
    fn reference(&mut self, page: u64, write: bool, next_use: Option<u64>, pinned: &BTreeSet<u64>) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        self.policy.next_use(next_use);
        let class = std::mem::take(&mut self.class);

        if let Some(dirty) = self.policy.dirty(page) {
            self.policy.hit(page, write);
            if let Some(clusters) = &mut self.clusters
                && write
            {
                if dirty {
                    clusters.hit(page);
                }
                clusters.enter(page);
            }
            return events;
        }

        self.policy.class(class);
        self.policy.miss(page, write);

        let resident = self.policy.pages();
        assert!(resident.len() <= self.frames);
        let chosen = if resident.len() < self.frames {
            self.policy.early_victim(pinned)
        } else if resident.keys().all(|page| pinned.contains(page)) {
            return events;
        } else {
            Some(self.policy.victim(write, pinned))
        };
        if let Some(mut victim) = chosen {
            let dirty = self.policy.dirty(victim).expect("the victim is resident");
            if let Some(clusters) = &mut self.clusters
                && dirty
            {
                victim = clusters.victim(pinned).expect("the page chosen is in a cluster");
                clusters.leave(victim);
            }
            assert!(!pinned.contains(&victim));
            let mut evictions = vec![victim];
            evictions.extend(self.policy.evicted_with(victim));
            evictions.retain(|page| !pinned.contains(page));
            let together = self.policy.written_with(victim);
            let written = (dirty && !together.is_empty()).then_some(victim);
            events.extend(written.map(ModelEvent::Write));
            for page in together {
                events.push(ModelEvent::Write(page));
                self.clean(page);
            }
            events.extend(self.evict_all(&evictions, written));
        }

        events.push(ModelEvent::Read(page));
        self.policy.admit(page, write);
        if let Some(clusters) = &mut self.clusters
            && write
        {
            clusters.enter(page);
        }
        events
    }

    fn request(&mut self, time_us: u64, bypass: u32) {
        self.policy.request(time_us, bypass);
    }

    fn background(&mut self) -> Vec<(u64, bool)> {
        self.policy.background()
    }

    fn foresee(&mut self, future: FutureUse) {
        self.policy.foresee(future);
    }

    fn prices(&mut self, prices: &[f64]) {
        self.policy.prices(prices);
    }

    fn probabilities(&mut self, probabilities: &BTreeMap<u64, (f64, f64)>) {
        self.policy.probabilities(probabilities);
    }

    fn clean(&mut self, page: u64) {
        assert_eq!(self.policy.dirty(page), Some(true), "only dirty pages are cleaned");
        self.policy.clean(page);
        if let Some(clusters) = &mut self.clusters {
            clusters.leave(page);
        }
    }

    fn end(&mut self, page: u64) {
        let Some(dirty) = self.policy.dirty(page) else {
            return;
        };
        self.policy.end(page);
        if let Some(clusters) = &mut self.clusters
            && dirty
        {
            clusters.leave(page);
        }
    }

    fn erases(&mut self, page: u64, erases: u32) {
        self.policy.erases(page, erases);
    }

    fn class(&mut self, class: u32) {
        self.class = class;
    }

    fn costs(&mut self, asymmetry: f64) {
        self.policy.costs(asymmetry);
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        self.policy.pages().iter().map(|(page, dirty)| (*page, *dirty)).collect()
    }

    fn target(&self) -> Option<f64> {
        self.policy.target()
    }

    fn estimates(&self) -> Option<[f64; 3]> {
        self.policy.estimates()
    }
}
