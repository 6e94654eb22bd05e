//! Clusters of dirty pages with neighbouring numbers, and the order in which they are written
//! (CFDC, sections 3.2 and 3.3).

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::heap::IndexedHeap;
use crate::policy::{Frame, Page};

const NONE: u32 = u32::MAX;

/// When cluster priorities are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// When a page enters and when a hit takes one out; they stand in between.
    Entry,
    /// All of them, whenever a victim cluster is chosen.
    Now,
}

/// Dirty frames grouped by cluster number = page / size, each cluster in order of entry.
pub(crate) struct Clusters {
    size: u64,
    keys: Keys,
    /// Counts dirty pages that entered; CFDC's `globaltime`.
    global_time: u64,
    created: u64,
    by_number: HashTable<u32>,
    hasher: DefaultHashBuilder,
    clusters: Vec<Cluster>,
    free: Vec<u32>,
    /// Lowest priority first; among equals the cluster created first.
    order: IndexedHeap<(f64, u64)>,
    /// The cluster being emptied.
    victim: Option<u32>,
    nodes: Vec<Node>,
}

struct Cluster {
    number: u64,
    first: u32,
    last: u32,
    pages: u32,
    /// Sum of the absolute differences of consecutive page numbers in order of entry.
    distance: u64,
    timestamp: u64,
    created: u64,
}

#[derive(Clone, Copy)]
struct Node {
    page: Page,
    earlier: u32,
    later: u32,
    /// NONE while the frame is in no cluster.
    cluster: u32,
}

impl Cluster {
    /// CFDC, formula 1: the lowest priority is written first.
    fn priority(&self, global_time: u64) -> f64 {
        let inter_page_distance = if self.pages == 1 { 1 } else { self.distance };
        let pages = f64::from(self.pages);
        let age = global_time.saturating_sub(self.timestamp).max(1);
        inter_page_distance as f64 / (pages * pages * age as f64)
    }
}

impl Clusters {
    /// No clusters yet, of `size` pages each, over frames `0..frames`.
    pub(crate) fn new(frames: u32, size: u64, keys: Keys) -> Self {
        Clusters {
            size,
            keys,
            global_time: 0,
            created: 0,
            by_number: HashTable::with_capacity(frames as usize),
            hasher: DefaultHashBuilder::default(),
            clusters: Vec::with_capacity(frames as usize),
            free: Vec::with_capacity(frames as usize),
            order: IndexedHeap::new(frames),
            victim: None,
            nodes: vec![
                Node {
                    page: 0,
                    earlier: NONE,
                    later: NONE,
                    cluster: NONE,
                };
                frames as usize
            ],
        }
    }

    /// Notes which page `frame` holds from now on.
    #[inline]
    pub(crate) fn admit(&mut self, frame: Frame, page: Page) {
        self.nodes[frame as usize].page = page;
    }

    /// The page in `frame`, which is in no cluster, joins its cluster at the end.
    pub(crate) fn enter(&mut self, frame: Frame) {
        self.global_time += 1;
        let page = self.nodes[frame as usize].page;
        let slot = self.find_or_create(page / self.size);
        let cluster = &mut self.clusters[slot as usize];
        let last = cluster.last;
        cluster.last = frame;
        cluster.pages += 1;
        if last == NONE {
            cluster.first = frame;
        } else {
            cluster.distance += page.abs_diff(self.nodes[last as usize].page);
            self.nodes[last as usize].later = frame;
        }
        self.nodes[frame as usize] = Node {
            page,
            earlier: last,
            later: NONE,
            cluster: slot,
        };
        self.rekey(slot);
    }

    /// A hit takes the page in `frame` out of its cluster, which becomes young again.
    pub(crate) fn hit(&mut self, frame: Frame) {
        let slot = self.unlink(frame);
        let cluster = &mut self.clusters[slot as usize];
        if cluster.pages > 0 {
            cluster.timestamp = self.global_time;
            self.rekey(slot);
        }
    }

    /// The page in `frame` leaves its cluster, whose priority stands: it was written.
    pub(crate) fn leave(&mut self, frame: Frame) {
        self.unlink(frame);
    }

    /// The frame to be written next: the first in order of entry, of those that may go, in the
    /// victim cluster. A cluster once chosen stays the victim until it is empty.
    pub(crate) fn victim(&mut self, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        if let Some(slot) = self.victim
            && let Some(frame) = self.first(slot, &may_go)
        {
            return Some(frame);
        }
        if self.keys == Keys::Now {
            self.rekey_all();
        }
        let slot = match self.order.least() {
            Some((_, slot)) if self.first(slot, &may_go).is_some() => slot,
            _ => self
                .order
                .least_where(|slot| self.first(slot, &may_go).is_some())?,
        };
        self.victim = Some(slot);
        self.first(slot, &may_go)
    }

    fn first(&self, slot: u32, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut frame = self.clusters[slot as usize].first;
        while frame != NONE {
            if may_go(frame) {
                return Some(frame);
            }
            frame = self.nodes[frame as usize].later;
        }
        None
    }

    fn find_or_create(&mut self, number: u64) -> u32 {
        let hash = self.hasher.hash_one(number);
        let clusters = &self.clusters;
        let found = self
            .by_number
            .find(hash, |&slot| clusters[slot as usize].number == number);
        if let Some(&slot) = found {
            return slot;
        }
        let cluster = Cluster {
            number,
            first: NONE,
            last: NONE,
            pages: 0,
            distance: 0,
            timestamp: self.global_time,
            created: self.created,
        };
        self.created += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.clusters[slot as usize] = cluster;
                slot
            }
            None => {
                self.clusters.push(cluster);
                self.clusters.len() as u32 - 1
            }
        };
        let (clusters, hasher) = (&self.clusters, &self.hasher);
        self.by_number.insert_unique(hash, slot, |&slot| {
            hasher.hash_one(clusters[slot as usize].number)
        });
        slot
    }

    /// Takes `frame` out of its cluster, and the cluster out of everything if it was the last.
    fn unlink(&mut self, frame: Frame) -> u32 {
        let Node {
            page,
            earlier,
            later,
            cluster: slot,
        } = self.nodes[frame as usize];
        self.nodes[frame as usize].cluster = NONE;
        let cluster = &mut self.clusters[slot as usize];
        cluster.pages -= 1;
        let page_of = |frame: u32| self.nodes[frame as usize].page;
        if earlier != NONE {
            cluster.distance -= page.abs_diff(page_of(earlier));
        }
        if later != NONE {
            cluster.distance -= page.abs_diff(page_of(later));
        }
        if earlier != NONE && later != NONE {
            cluster.distance += page_of(earlier).abs_diff(page_of(later));
        }
        match earlier {
            NONE => cluster.first = later,
            _ => self.nodes[earlier as usize].later = later,
        }
        match later {
            NONE => cluster.last = earlier,
            _ => self.nodes[later as usize].earlier = earlier,
        }
        if cluster.pages == 0 {
            self.dissolve(slot);
        }
        slot
    }

    fn dissolve(&mut self, slot: u32) {
        let number = self.clusters[slot as usize].number;
        let hash = self.hasher.hash_one(number);
        let clusters = &self.clusters;
        if let Ok(entry) = self
            .by_number
            .find_entry(hash, |&slot| clusters[slot as usize].number == number)
        {
            entry.remove();
        }
        self.order.remove(slot);
        self.free.push(slot);
        if self.victim == Some(slot) {
            self.victim = None;
        }
    }

    #[inline]
    fn rekey(&mut self, slot: u32) {
        let cluster = &self.clusters[slot as usize];
        let key = (cluster.priority(self.global_time), cluster.created);
        self.order.set(slot, key);
    }

    fn rekey_all(&mut self) {
        for slot in 0..self.clusters.len() as u32 {
            if self.clusters[slot as usize].pages > 0 {
                self.rekey(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster_of(pages: &[Page]) -> Clusters {
        let mut clusters = Clusters::new(16, 64, Keys::Entry);
        for (frame, &page) in pages.iter().enumerate() {
            clusters.admit(frame as u32, page);
            clusters.enter(frame as u32);
        }
        clusters
    }

    /// CFDC, section 3.3.
    #[test]
    fn inter_page_distances_of_the_paper() {
        assert_eq!(cluster_of(&[0, 1, 2, 3]).clusters[0].distance, 3);
        assert_eq!(cluster_of(&[7, 5, 4, 6]).clusters[0].distance, 5);
    }

    /// CFDC, figure 3, at globaltime 10: pages and timestamps that give the printed priorities.
    #[test]
    fn priorities_of_figure_3() {
        let priority = |pages: u32, distance: u64, timestamp: u64| {
            Cluster {
                number: 0,
                first: 0,
                last: 0,
                pages,
                distance,
                timestamp,
                created: 0,
            }
            .priority(10)
        };
        assert_eq!(priority(3, 8, 6), 2.0 / 9.0);
        assert_eq!(priority(2, 1, 8), 1.0 / 8.0);
        assert_eq!(priority(1, 0, 2), 1.0 / 8.0);
        assert_eq!(priority(4, 8, 3), 1.0 / 14.0);
        assert_eq!(priority(3, 4, 2), 1.0 / 18.0);
    }

    #[test]
    fn removal_from_the_middle_joins_the_neighbours() {
        let mut clusters = cluster_of(&[10, 30, 11]);
        assert_eq!(clusters.clusters[0].distance, 20 + 19);
        clusters.leave(1);
        assert_eq!(clusters.clusters[0].distance, 1);
        clusters.leave(0);
        clusters.leave(2);
        assert_eq!(clusters.victim(|_| true), None);
        assert_eq!(clusters.free.len(), 1);
    }

    #[test]
    fn a_chosen_cluster_stays_the_victim_until_it_is_empty() {
        let mut clusters = cluster_of(&[0, 1, 100]);
        assert_eq!(clusters.victim(|_| true), Some(0));
        for (frame, page) in [(3, 101), (4, 102), (5, 103)] {
            clusters.admit(frame, page);
            clusters.enter(frame);
        }
        assert_eq!(clusters.victim(|frame| frame != 0), Some(1));
        clusters.leave(0);
        clusters.leave(1);
        assert_eq!(clusters.victim(|_| true), Some(2));
    }
}
