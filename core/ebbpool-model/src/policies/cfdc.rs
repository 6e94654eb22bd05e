//! cfdc ("Adaptive").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::clusters::Clusters;
use crate::list::List;

/// The dirty pages of the priority region.
enum DirtyPages {
    Clusters(Clusters),
    /// With `cluster=0`.
    Lru(List<()>),
}

impl DirtyPages {
    fn enter(&mut self, page: u64) {
        match self {
            DirtyPages::Clusters(clusters) => clusters.enter(page),
            DirtyPages::Lru(list) => list.push(page, ()),
        }
    }

    fn hit(&mut self, page: u64) {
        match self {
            DirtyPages::Clusters(clusters) => clusters.hit(page),
            DirtyPages::Lru(list) => list.take(page),
        }
    }

    fn leave(&mut self, page: u64) {
        match self {
            DirtyPages::Clusters(clusters) => clusters.leave(page),
            DirtyPages::Lru(list) => list.take(page),
        }
    }

    fn victim(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        match self {
            DirtyPages::Clusters(clusters) => clusters.victim(pinned),
            DirtyPages::Lru(list) => list.lru(pinned),
        }
    }

    fn pages(&self) -> Vec<u64> {
        match self {
            DirtyPages::Clusters(clusters) => clusters.pages(),
            DirtyPages::Lru(list) => list.pages().collect(),
        }
    }

    fn contains(&self, page: u64) -> bool {
        self.pages().contains(&page)
    }
}

/// The working region with dirty flags, and the priority region's two parts.
pub(crate) struct Cfdc {
    working: List<bool>,
    working_size: usize,
    clean: List<()>,
    dirty: DirtyPages,
}

impl Cfdc {
    pub(crate) fn new(working_size: usize, cluster: u64, keys_now: bool) -> Cfdc {
        let dirty =
            if cluster == 0 { DirtyPages::Lru(List::new()) } else { DirtyPages::Clusters(Clusters::new(cluster, keys_now)) };
        Cfdc { working: List::new(), working_size, clean: List::new(), dirty }
    }

    /// Moves W's LRU page to P.
    fn demote(&mut self) {
        let (page, dirty) = self.working.items.remove(0);
        if dirty {
            self.dirty.enter(page);
        } else {
            self.clean.push(page, ());
        }
    }

    fn enter_working(&mut self, page: u64, dirty: bool) {
        self.working.push(page, dirty);
        if self.working.len() > self.working_size {
            self.demote();
        }
    }
}

impl Policy for Cfdc {
    fn hit(&mut self, page: u64, write: bool) {
        if self.working.contains(page) {
            *self.working.state(page) |= write;
            self.working.move_to_mru(page);
            return;
        }
        if self.working.len() >= self.working_size && self.working.len() > 0 {
            self.demote();
        }
        let was_dirty = self.dirty.contains(page);
        if was_dirty {
            self.dirty.hit(page);
        } else {
            self.clean.take(page);
        }
        self.enter_working(page, was_dirty || write);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if let Some(page) = self.clean.lru(pinned) {
            return page;
        }
        if let Some(page) = self.dirty.victim(pinned) {
            return page;
        }
        self.working.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.enter_working(page, write);
    }

    fn evict(&mut self, page: u64) {
        if self.clean.contains(page) {
            self.clean.take(page);
        } else if self.dirty.contains(page) {
            self.dirty.leave(page);
        } else {
            self.working.take(page);
        }
    }

    fn clean(&mut self, page: u64) {
        if self.working.contains(page) {
            *self.working.state(page) = false;
        } else {
            self.dirty.leave(page);
            self.clean.push(page, ());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    /// Two pages far apart in one cluster, then a dirty page of another cluster each time.
    #[test]
    fn a_small_cluster_does_not_stay_for_ever() {
        let trace: Vec<String> =
            [0, 40].into_iter().chain((1..1000).map(|cluster| 64 * cluster)).map(|page| format!("W{page}")).collect();
        // Cluster 0 has 40 / (4 * age), any other 1 / age: it is chosen once it is ten times as old as the oldest of these.
        let left = |spec: &str| {
            let victims = victims(spec, 16, &trace.join(" "));
            [0, 40].map(|page| victims.iter().position(|victim| *victim == page))
        };
        assert_eq!(left("cfdc"), [Some(43), Some(44)]);
        assert_eq!(left("cfdc:keys=entry"), [None, None]);
    }
}
