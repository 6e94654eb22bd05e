//! What all policies share: the introduction of `policies.md`, and write clustering.

use std::collections::BTreeSet;

use crate::clusters::Clusters;
use crate::{Event, Foreseen, Model};

/// A policy proper. It keeps the resident pages and their dirty flags in its own lists.
pub(crate) trait Policy {
    /// The next use of the page about to be referenced, for belady.
    fn next_use(&mut self, _next_use: Option<u64>) {}

    /// What else comes for that page.
    fn foresee(&mut self, _foreseen: Foreseen) {}

    /// See [`Model::prices`].
    fn prices(&mut self, _prices: &[f64]) {}

    /// A resident page is referenced.
    fn hit(&mut self, page: u64, write: bool);

    /// A page that is not resident is referenced.
    fn miss(&mut self, _page: u64, _write: bool) {}

    /// Chooses who leaves for a page missed for reading or writing. At least one resident page
    /// is not pinned.
    fn victim(&mut self, write: bool, pinned: &BTreeSet<u64>) -> u64;

    /// A page comes in.
    fn admit(&mut self, page: u64, write: bool);

    /// A page leaves, written if it was dirty; not necessarily the one that `victim` chose.
    fn evict(&mut self, page: u64);

    /// A dirty page was written and stays.
    fn clean(&mut self, page: u64);

    /// R.
    fn costs(&mut self, _asymmetry: f64) {}

    /// The resident pages and their dirty flags, in any order.
    fn resident(&self) -> Vec<(u64, bool)>;

    /// See [`Model::target`].
    fn target(&self) -> Option<f64> {
        None
    }

    /// See [`Model::estimates`].
    fn estimates(&self) -> Option<[f64; 3]> {
        None
    }
}

/// A buffer under a policy, with write clustering or without.
pub(crate) struct Buffer<P> {
    frames: usize,
    policy: P,
    /// All dirty pages, with write clustering.
    clusters: Option<Clusters>,
}

impl<P: Policy> Buffer<P> {
    pub(crate) fn new(frames: usize, policy: P, cluster: u64) -> Buffer<P> {
        let clusters = (cluster > 0).then(|| Clusters::new(cluster, false));
        Buffer {
            frames,
            policy,
            clusters,
        }
    }

    /// Whether the page is dirty; nothing if it is not resident.
    fn dirty(&self, page: u64) -> Option<bool> {
        let resident = self.policy.resident();
        let found = resident.iter().find(|(other, _)| *other == page);
        found.map(|(_, dirty)| *dirty)
    }
}

impl<P: Policy> Model for Buffer<P> {
    fn reference(
        &mut self,
        page: u64,
        write: bool,
        next_use: Option<u64>,
        pinned: &BTreeSet<u64>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        self.policy.next_use(next_use);

        if let Some(dirty) = self.dirty(page) {
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

        self.policy.miss(page, write);

        let resident = self.policy.resident();
        assert!(resident.len() <= self.frames);
        if resident.len() == self.frames {
            if resident.iter().all(|(page, _)| pinned.contains(page)) {
                return events;
            }
            let mut victim = self.policy.victim(write, pinned);
            let dirty = self.dirty(victim).expect("the victim is resident");
            if let Some(clusters) = &mut self.clusters
                && dirty
            {
                victim = clusters.victim(pinned).expect("the page chosen is there");
                clusters.leave(victim);
            }
            assert!(!pinned.contains(&victim));
            if dirty {
                events.push(Event::Write(victim));
            }
            events.push(Event::Evict(victim));
            self.policy.evict(victim);
        }

        events.push(Event::Read(page));
        self.policy.admit(page, write);
        if let Some(clusters) = &mut self.clusters
            && write
        {
            clusters.enter(page);
        }
        events
    }

    fn foresee(&mut self, foreseen: Foreseen) {
        self.policy.foresee(foreseen);
    }

    fn prices(&mut self, prices: &[f64]) {
        self.policy.prices(prices);
    }

    fn clean(&mut self, page: u64) {
        assert_eq!(self.dirty(page), Some(true), "only dirty pages are cleaned");
        self.policy.clean(page);
        if let Some(clusters) = &mut self.clusters {
            clusters.leave(page);
        }
    }

    fn costs(&mut self, asymmetry: f64) {
        self.policy.costs(asymmetry);
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let mut resident = self.policy.resident();
        resident.sort_unstable();
        resident
    }

    fn target(&self) -> Option<f64> {
        self.policy.target()
    }

    fn estimates(&self) -> Option<[f64; 3]> {
        self.policy.estimates()
    }
}
