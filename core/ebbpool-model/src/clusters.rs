//! The page clusters of cfdc, also used for write clustering ("Adaptive", cfdc).

use std::collections::BTreeSet;

/// The dirty pages of one cluster number.
struct Cluster {
    number: u64,
    /// In order of entry.
    pages: Vec<u64>,
    timestamp: u64,
    /// As it was last computed.
    priority: f64,
    is_victim: bool,
}

/// All clusters, in the order they were created. None is empty.
pub(crate) struct Clusters {
    size: u64,
    keys_now: bool,
    globaltime: u64,
    clusters: Vec<Cluster>,
}

/// The sum of the absolute differences of consecutive page numbers, 1 for a single page.
pub(crate) fn ipd(pages: &[u64]) -> u128 {
    if pages.len() == 1 {
        return 1;
    }
    pages.windows(2).map(|two| u128::from(two[0].abs_diff(two[1]))).sum()
}

/// IPD / (n^2 * max(1, globaltime - timestamp)).
pub(crate) fn priority(pages: &[u64], globaltime: u64, timestamp: u64) -> f64 {
    let n = pages.len() as f64;
    let age = (globaltime - timestamp).max(1) as f64;
    ipd(pages) as f64 / (n * n * age)
}

impl Clusters {
    pub(crate) fn new(size: u64, keys_now: bool) -> Clusters {
        assert!(size > 0);
        Clusters { size, keys_now, globaltime: 0, clusters: Vec::new() }
    }

    /// The page's cluster, and its position in it.
    fn find(&self, page: u64) -> Option<(usize, usize)> {
        for (c, cluster) in self.clusters.iter().enumerate() {
            if let Some(p) = cluster.pages.iter().position(|other| *other == page) {
                return Some((c, p));
            }
        }
        None
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        self.find(page).is_some()
    }

    pub(crate) fn pages(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for cluster in &self.clusters {
            pages.extend(&cluster.pages);
        }
        pages
    }

    /// A dirty page enters.
    pub(crate) fn enter(&mut self, page: u64) {
        assert!(!self.contains(page));
        self.globaltime += 1;
        let number = page / self.size;
        let found = self.clusters.iter().position(|c| c.number == number);
        let c = found.unwrap_or_else(|| {
            self.clusters.push(Cluster {
                number,
                pages: Vec::new(),
                timestamp: self.globaltime,
                priority: 0.0,
                is_victim: false,
            });
            self.clusters.len() - 1
        });
        let cluster = &mut self.clusters[c];
        cluster.pages.push(page);
        cluster.priority = priority(&cluster.pages, self.globaltime, cluster.timestamp);
    }

    /// A hit removes a page from its cluster.
    pub(crate) fn hit(&mut self, page: u64) {
        let (c, p) = self.find(page).expect("the page is in a cluster");
        let cluster = &mut self.clusters[c];
        cluster.timestamp = self.globaltime;
        cluster.pages.remove(p);
        if cluster.pages.is_empty() {
            self.clusters.remove(c);
        } else {
            cluster.priority = priority(&cluster.pages, self.globaltime, cluster.timestamp);
        }
    }

    /// A page leaves because it is evicted or was cleaned: no priority changes.
    pub(crate) fn leave(&mut self, page: u64) {
        let (c, p) = self.find(page).expect("the page is in a cluster");
        self.clusters[c].pages.remove(p);
        if self.clusters[c].pages.is_empty() {
            self.clusters.remove(c);
        }
    }

    /// The first unpinned page of the victim cluster, which is chosen if there is none or all
    /// its pages are pinned.
    pub(crate) fn victim(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let first_unpinned = |cluster: &Cluster| {
            let mut pages = cluster.pages.iter();
            pages.find(|page| !pinned.contains(page)).copied()
        };
        if let Some(victim) = self.clusters.iter().find(|cluster| cluster.is_victim)
            && let Some(page) = first_unpinned(victim)
        {
            return Some(page);
        }
        let mut lowest: Option<(f64, usize, u64)> = None;
        for (c, cluster) in self.clusters.iter().enumerate() {
            let key =
                if self.keys_now { priority(&cluster.pages, self.globaltime, cluster.timestamp) } else { cluster.priority };
            if let Some(page) = first_unpinned(cluster)
                && lowest.is_none_or(|(least, _, _)| key < least)
            {
                lowest = Some((key, c, page));
            }
        }
        let (_, chosen, page) = lowest?;
        for (c, cluster) in self.clusters.iter_mut().enumerate() {
            cluster.is_victim = c == chosen;
        }
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked example 2: the sums, and priorities as in the paper's figure 3 with globaltime 10.
    #[test]
    fn worked_example_2() {
        assert_eq!(ipd(&[0, 1, 2, 3]), 3);
        assert_eq!(ipd(&[7, 5, 4, 6]), 5);
        assert_eq!(ipd(&[42]), 1);
        // Three pages, sum 2, age 1.
        assert_eq!(priority(&[0, 1, 2], 10, 9), 2.0 / 9.0);
        // Two pages, sum 1, age 2.
        assert_eq!(priority(&[8, 9], 10, 8), 1.0 / 8.0);
        // Two pages, sum 2, age 7.
        assert_eq!(priority(&[18, 16], 10, 3), 1.0 / 14.0);
        // Three pages, sum 2, age 4.
        assert_eq!(priority(&[26, 25, 24], 10, 6), 1.0 / 18.0);
        // An age of 0 counts as 1.
        assert_eq!(priority(&[30], 10, 10), 1.0);
    }

    #[test]
    fn a_victim_cluster_stays_until_it_is_empty() {
        let none = BTreeSet::new();
        let mut clusters = Clusters::new(10, false);
        clusters.enter(1); // cluster 0, time 1: 1 / (1 * 1)
        clusters.enter(11); // cluster 1, time 2: 1 / (1 * 1)
        // A tie: the cluster created first.
        assert_eq!(clusters.victim(&none), Some(1));
        // The priority of cluster 0 rises, 8 / (4 * 2) = 1, that of cluster 1 falls, 1 / (4 * 2).
        clusters.enter(9);
        clusters.enter(12);
        assert_eq!(clusters.victim(&none), Some(1));
        clusters.leave(1);
        assert_eq!(clusters.victim(&none), Some(9));
        clusters.leave(9);
        assert_eq!(clusters.victim(&none), Some(11));
        // Cluster 0 is created anew and is not the victim cluster.
        clusters.enter(1);
        assert_eq!(clusters.victim(&none), Some(11));
        // A pinned page is skipped, and so is a cluster of pinned pages.
        assert_eq!(clusters.victim(&BTreeSet::from([11])), Some(12));
        assert_eq!(clusters.victim(&BTreeSet::from([11, 12])), Some(1));
        // Cluster 0 is the victim cluster now.
        assert_eq!(clusters.victim(&none), Some(1));
        assert_eq!(clusters.victim(&BTreeSet::from([1, 11, 12])), None);
    }

    #[test]
    fn a_hit_renews_the_timestamp_and_the_priority() {
        let none = BTreeSet::new();
        let mut clusters = Clusters::new(10, false);
        clusters.enter(1); // time 1
        clusters.enter(2); // time 2: 1 / (4 * 1)
        clusters.enter(11); // time 3: 1 / (1 * 1)
        clusters.enter(3); // time 4: 2 / (9 * 3)
        clusters.enter(12); // time 5: cluster 1 has 1 / (4 * 2)
        // A hit of 3: timestamp 5, 1 / (4 * 1), more than cluster 1's.
        clusters.hit(3);
        assert_eq!(clusters.victim(&none), Some(11));
    }

    #[test]
    fn leaving_otherwise_changes_no_priority() {
        let none = BTreeSet::new();
        let mut clusters = Clusters::new(10, false);
        clusters.enter(1); // time 1
        clusters.enter(2); // time 2: 1 / 4
        clusters.enter(11); // time 3: 1
        // One page remains, which would have 1 / (1 * 2), but 1 / 4 does not change.
        clusters.leave(2);
        clusters.enter(12); // time 4: cluster 1 has 1 / 4, a tie
        assert_eq!(clusters.victim(&none), Some(1));
    }
}
