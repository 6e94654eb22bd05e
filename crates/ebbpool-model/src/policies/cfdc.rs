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
        let dirty = if cluster == 0 {
            DirtyPages::Lru(List::new())
        } else {
            DirtyPages::Clusters(Clusters::new(cluster, keys_now))
        };
        Cfdc {
            working: List::new(),
            working_size,
            clean: List::new(),
            dirty,
        }
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

    fn resident(&self) -> Vec<(u64, bool)> {
        let mut resident = self.working.items.clone();
        for page in self.clean.pages() {
            resident.push((page, false));
        }
        for page in self.dirty.pages() {
            resident.push((page, true));
        }
        resident
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn clean_pages_of_p_first() {
        // W holds 2. R1 R2 R3 R4: P clean 1 2, W 3 4.
        // R1: 3 is demoted, 1 enters W: P clean 2 3, W 4 1.
        // R5: 2 is evicted, 4 is demoted: P clean 3 4, W 1 5. R6: 3 is evicted.
        assert_eq!(victims("cfdc", 4, "R1 R2 R3 R4 R1 R5 R6"), [2, 3]);
        // 1 is dirty in P, 2 clean: 2 is evicted. P dirty 1 3, W 4 5: 1 is evicted although 4 is clean.
        assert_eq!(victims("cfdc", 4, "W1 R2 W3 R4 R5 R6"), [2, 1]);
    }

    #[test]
    fn a_hit_in_p_demotes_first() {
        // W1 W11 W2 W21: W = 2 21, P: cluster 0 = {1} (time 1), cluster 1 = {11} (time 2), each
        // with priority 1. R1: 2 is demoted first, into cluster 0; then 1 leaves, cluster 0 =
        // {2}, timestamp 3, priority 1. A tie: cluster 0 is older, 2 is evicted. (Were 1 to leave
        // first, cluster 0 would be a new one, created after cluster 1.)
        assert_eq!(victims("cfdc:cluster=10", 4, "W1 W11 W2 W21 R1 R30"), [2]);
    }

    #[test]
    fn keys() {
        // P: cluster 0 = {1, 9}: entered at times 1 and 2, at time 3 it has 8 / (4 * 2) = 1; cluster 1 = {11}:
        // 1 / (1 * 1), a tie. Cluster 0 was created first.
        let trace = "W1 W9 W11 W31 W32 W33 R40";
        assert_eq!(victims("cfdc:cluster=10", 6, trace), [1]);
        // At its last entry, time 2, cluster 0 had 8 / (4 * 1) = 2. The lowest is cluster 1.
        assert_eq!(victims("cfdc:cluster=10,keys=entry", 6, trace), [11]);
    }

    /// Two pages far apart in one cluster, then a dirty page of another cluster each time.
    #[test]
    fn a_small_cluster_does_not_stay_for_ever() {
        let trace: Vec<String> = [0, 40]
            .into_iter()
            .chain((1..1000).map(|cluster| 64 * cluster))
            .map(|page| format!("W{page}"))
            .collect();
        // Cluster 0 has 40 / (4 * age), any other 1 / age: it is chosen once it is ten times as old as the oldest of these.
        let left = |spec: &str| {
            let victims = victims(spec, 16, &trace.join(" "));
            [0, 40].map(|page| victims.iter().position(|victim| *victim == page))
        };
        assert_eq!(left("cfdc"), [Some(43), Some(44)]);
        assert_eq!(left("cfdc:keys=entry"), [None, None]);
    }

    #[test]
    fn a_victim_cluster_is_emptied() {
        // Window 1: everything is in P. Entry order: cluster 0 = 5 1 3, cluster 1 = 11.
        // Priorities: {5, 1, 3} at time 3: 6 / (9 * 2) = 1/3; {11}: 1. Cluster 0 is evicted in order of
        // entry, each newcomer being clean and going next itself.
        assert_eq!(
            victims(
                "cfdc:cluster=10,window=1",
                4,
                "W5 W1 W3 W11 W21 W22 W23 W24"
            ),
            // {21} enters at time 5 with priority 1; 22 joins it, 1 / (4 * 1) at time 6, but
            // cluster 0 is evicted to its end; then cluster 2 = {21, 22, 23} with 2 / (9 * 2).
            [5, 1, 3, 21]
        );
    }

    #[test]
    fn one_frame_and_no_priority_region() {
        assert_eq!(victims("cfdc", 1, "W1 R2 R3"), [1, 2]);
        assert_eq!(victims("cfdc:window=0", 2, "W1 R2 R3 R4"), [1, 2]);
    }

    #[test]
    fn pins() {
        // P clean 1 2, W 3 4.
        assert_eq!(victims("cfdc", 4, "R1 R2 R3 R4 +1 R5"), [2]);
        assert_eq!(victims("cfdc", 4, "R1 R2 R3 R4 +1 +2 R5"), [3]);
        // After that W is 4 5 with the newcomer, P clean 1 2. R1: 4 is demoted: P clean 2 4.
        assert_eq!(
            victims("cfdc", 4, "R1 R2 R3 R4 +1 +2 R5 -1 -2 R1 R6 R7"),
            [3, 2, 4]
        );
    }

    #[test]
    fn cleaned_from_outside() {
        // P: clean 2, dirty 1. C1: clean 2 1.
        assert_eq!(victims("cfdc", 4, "W1 R2 R3 R4 C1 R5 R6"), [2, 1]);
        // In W it keeps its position.
        assert_eq!(victims("cfdc", 4, "R1 W2 W3 R4 C3 R5 R6"), [1, 3]);
    }
}
