//! Clusters of dirty pages with neighbouring numbers, and the order in which they are written
//! (CFDC, sections 3.2 and 3.3).

mod tournament;

use crate::heap::IndexedHeap;
use crate::lists::FrameLists;
use crate::parameters::{one_of, words};
use crate::policy::{Frame, Page};
use crate::slots::Slots;
use crate::spec::PolicyParameter;
use tournament::Tournament;

/// Which time the priority of a cluster is computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityUpdate {
    /// The time at which a victim cluster is chosen: priorities fall while clusters wait. So a small cluster whose pages
    /// are not written again does not stay in the buffer for ever (CFDC, section 3.3).
    Now,
    /// The time at which a page last entered the cluster or a hit removed one; in between priorities do not change. No paper
    /// has this: it is a reading of ours, under which a small cluster may stay in the buffer for ever.
    Entry,
}

words!(PriorityUpdate {
    "now" => PriorityUpdate::Now,
    "entry" => PriorityUpdate::Entry,
});

/// The parameter of policies that have write clusters.
pub const KEYS: PolicyParameter = PolicyParameter {
    name: "keys",
    kind: one_of::<PriorityUpdate>(),
    default: "now",
    about: "the time that cluster priorities are computed for: now, when a victim is chosen, as in the papers; entry, when a page last entered or was hit (a reading of ours that no paper has)",
};

/// Dirty frames grouped by cluster number = page / size, each cluster in order of entry.
///
/// The owner's lists store the order, behind the owner's own `N` lists, so that a frame has one
/// pair of links whether it is in a cluster or in a list of the owner.
pub(crate) struct Clusters {
    size: u64,
    /// Counts dirty pages that entered; CFDC's `globaltime`.
    global_time: u64,
    created: u64,
    clusters: Slots<Cluster>,
    order: Order,
    /// The cluster being emptied.
    victim: Option<u32>,
    pages: Vec<Page>,
    /// The slot of each frame's cluster; meaningless for frames in no cluster.
    cluster_of: Vec<u32>,
}

/// The clusters by priority, the lowest first; among equals the cluster created first.
enum Order {
    Now(Tournament),
    /// Keys are priorities at the time of entry, and numbers of creation.
    Entry(IndexedHeap<(f64, u64)>),
}

struct Cluster {
    pages: u32,
    /// Sum of the absolute differences of consecutive page numbers in order of entry.
    distance: u64,
    timestamp: u64,
    created: u64,
}

impl Cluster {
    /// CFDC, formula 1: the lowest priority is written first.
    fn priority(&self, global_time: u64) -> f64 {
        let age = global_time.saturating_sub(self.timestamp);
        priority(self.pages, self.distance, age)
    }

    /// The priority at the age 1; that at a greater age is it, over the age.
    fn priority_at_age_1(&self) -> f64 {
        priority(self.pages, self.distance, 1)
    }
}

/// The priority of a cluster of `pages` pages (CFDC, formula 1): the lowest is written first.
/// `distance` is the sum of the absolute differences of consecutive page numbers in order of entry,
/// `age` the dirty pages that entered clusters since its timestamp.
pub fn priority(pages: u32, distance: u64, age: u64) -> f64 {
    let inter_page_distance = if pages == 1 { 1 } else { distance };
    let pages = f64::from(pages);
    inter_page_distance as f64 / (pages * pages * age.max(1) as f64)
}

/// The list of the cluster in `slot`.
#[inline]
fn list_of<const N: usize>(slot: u32) -> usize {
    N + slot as usize
}

impl Clusters {
    /// No clusters yet, of `size` pages each, over frames `0..frames`.
    pub(crate) fn new(frames: u32, size: u64, update: PriorityUpdate) -> Self {
        Clusters {
            size,
            global_time: 0,
            created: 0,
            clusters: Slots::new(),
            order: match update {
                PriorityUpdate::Now => Order::Now(Tournament::new()),
                PriorityUpdate::Entry => Order::Entry(IndexedHeap::growing()),
            },
            victim: None,
            pages: vec![0; frames as usize],
            cluster_of: vec![0; frames as usize],
        }
    }

    /// Makes room for a cluster of each frame.
    pub(crate) fn reserve<const N: usize>(&mut self, lists: &mut FrameLists<N>) {
        let most = self.pages.len() as u32;
        self.clusters.reserve(most);
        lists.reserve_up_to(list_of::<N>(most));
        match &mut self.order {
            Order::Now(tournament) => tournament.reserve(most),
            Order::Entry(heap) => heap.reserve(most),
        }
    }

    /// Stores which page `frame` holds from now on.
    #[inline]
    pub(crate) fn admit(&mut self, frame: Frame, page: Page) {
        self.pages[frame as usize] = page;
    }

    /// The page in `frame`, which is in no cluster and no other list, joins its cluster at the end.
    pub(crate) fn enter<const N: usize>(&mut self, lists: &mut FrameLists<N>, frame: Frame) {
        self.global_time += 1;
        let page = self.pages[frame as usize];
        let slot = self.find_or_create(page / self.size, lists);
        let cluster = &mut self.clusters[slot];
        cluster.pages += 1;
        if let Some(last) = lists.mru(list_of::<N>(slot)) {
            cluster.distance += page.abs_diff(self.pages[last as usize]);
        }
        lists.link_mru(list_of::<N>(slot), frame);
        self.cluster_of[frame as usize] = slot;
        self.rekey(slot);
    }

    /// A hit removes the page in `frame` from its cluster, whose timestamp becomes the current
    /// time.
    pub(crate) fn hit<const N: usize>(&mut self, lists: &mut FrameLists<N>, frame: Frame) {
        let slot = self.unlink(lists, frame);
        let cluster = &mut self.clusters[slot];
        if cluster.pages > 0 {
            cluster.timestamp = self.global_time;
            self.rekey(slot);
        }
    }

    /// The page in `frame` was written and leaves its cluster. The cluster's timestamp stays, and with keys of entry its
    /// priority does too.
    pub(crate) fn leave<const N: usize>(&mut self, lists: &mut FrameLists<N>, frame: Frame) {
        let slot = self.unlink(lists, frame);
        if let Order::Now(tournament) = &mut self.order
            && self.clusters[slot].pages > 0
        {
            tournament.update(slot);
        }
    }

    /// The frame to be written next: the first in order of entry in the victim cluster that may be
    /// evicted. A cluster once chosen stays the victim until it is empty.
    pub(crate) fn victim<const N: usize>(&mut self, lists: &FrameLists<N>, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let first = |slot| lists.find_from_lru(list_of::<N>(slot), &may_evict);
        if let Some(frame) = self.victim.and_then(first) {
            return Some(frame);
        }
        let may_be_written = |slot| first(slot).is_some();
        let slot = match &mut self.order {
            Order::Now(tournament) => tournament.least_where(&self.clusters, self.global_time, may_be_written),
            Order::Entry(heap) => heap.least_where(may_be_written),
        }?;
        self.victim = Some(slot);
        first(slot)
    }

    fn find_or_create<const N: usize>(&mut self, number: u64, lists: &mut FrameLists<N>) -> u32 {
        if let Some(slot) = self.clusters.find(number) {
            return slot;
        }
        let cluster = Cluster { pages: 0, distance: 0, timestamp: self.global_time, created: self.created };
        self.created += 1;
        let slot = self.clusters.insert(number, cluster);
        lists.add_up_to(list_of::<N>(slot));
        slot
    }

    /// Removes `frame` from its cluster, and removes the cluster too if `frame` was the last in it.
    fn unlink<const N: usize>(&mut self, lists: &mut FrameLists<N>, frame: Frame) -> u32 {
        let slot = self.cluster_of[frame as usize];
        let page_of = |frame: Frame| self.pages[frame as usize];
        let page = page_of(frame);
        let earlier = lists.lruward(frame).map(page_of);
        let later = lists.mruward(frame).map(page_of);
        lists.unlink(frame);
        let cluster = &mut self.clusters[slot];
        cluster.pages -= 1;
        for neighbour in [earlier, later].into_iter().flatten() {
            cluster.distance -= page.abs_diff(neighbour);
        }
        if let (Some(earlier), Some(later)) = (earlier, later) {
            cluster.distance += earlier.abs_diff(later);
        }
        if cluster.pages == 0 {
            self.dissolve(slot);
        }
        slot
    }

    fn dissolve(&mut self, slot: u32) {
        self.clusters.remove(slot);
        match &mut self.order {
            Order::Now(tournament) => tournament.update(slot),
            Order::Entry(heap) => heap.remove(slot),
        }
        if self.victim == Some(slot) {
            self.victim = None;
        }
    }

    #[inline]
    fn rekey(&mut self, slot: u32) {
        match &mut self.order {
            Order::Now(tournament) => tournament.update(slot),
            Order::Entry(heap) => {
                let cluster = &self.clusters[slot];
                let key = (cluster.priority(self.global_time), cluster.created);
                heap.set(slot, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters_of(pages: &[Page]) -> (Clusters, FrameLists<2>) {
        let mut clusters = Clusters::new(16, 64, PriorityUpdate::Now);
        let mut lists = FrameLists::new(16);
        for (frame, &page) in pages.iter().enumerate() {
            clusters.admit(frame as u32, page);
            clusters.enter(&mut lists, frame as u32);
        }
        (clusters, lists)
    }

    /// CFDC, section 3.3.
    #[test]
    fn inter_page_distances_of_the_paper() {
        let distance = |pages| clusters_of(pages).0.clusters[0].distance;
        assert_eq!(distance(&[0, 1, 2, 3]), 3);
        assert_eq!(distance(&[7, 5, 4, 6]), 5);
    }

    /// CFDC, figure 3, at globaltime 10: the pages and timestamps that yield the printed
    /// priorities.
    #[test]
    fn priorities_of_figure_3() {
        let priority =
            |pages: u32, distance: u64, timestamp: u64| Cluster { pages, distance, timestamp, created: 0 }.priority(10);
        assert_eq!(priority(3, 8, 6), 2.0 / 9.0);
        assert_eq!(priority(2, 1, 8), 1.0 / 8.0);
        assert_eq!(priority(1, 0, 2), 1.0 / 8.0);
        assert_eq!(priority(4, 8, 3), 1.0 / 14.0);
        assert_eq!(priority(3, 4, 2), 1.0 / 18.0);
    }

    #[test]
    fn removal_from_the_middle_joins_the_neighbours() {
        let (mut clusters, mut lists) = clusters_of(&[10, 30, 11]);
        assert_eq!(clusters.clusters[0].distance, 20 + 19);
        clusters.leave(&mut lists, 1);
        assert_eq!(clusters.clusters[0].distance, 1);
        clusters.leave(&mut lists, 0);
        clusters.leave(&mut lists, 2);
        assert_eq!(clusters.victim(&lists, |_| true), None);
    }

    #[test]
    fn a_chosen_cluster_stays_the_victim_until_it_is_empty() {
        let (mut clusters, mut lists) = clusters_of(&[0, 1, 100]);
        assert_eq!(clusters.victim(&lists, |_| true), Some(0));
        for (frame, page) in [(3, 101), (4, 102), (5, 103)] {
            clusters.admit(frame, page);
            clusters.enter(&mut lists, frame);
        }
        assert_eq!(clusters.victim(&lists, |frame| frame != 0), Some(1));
        clusters.leave(&mut lists, 0);
        clusters.leave(&mut lists, 1);
        assert_eq!(clusters.victim(&lists, |_| true), Some(2));
    }
}
