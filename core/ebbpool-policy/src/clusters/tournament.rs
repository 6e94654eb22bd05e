//! A tournament between clusters, whose priorities fall with time, each at a rate of its own.

use super::Cluster;
use crate::slots::Slots;

/// No cluster.
const ABSENT: u32 = u32::MAX;

/// Each time is as late or later: the match has to be played before the next search.
const DUE: u64 = 0;

/// Two priorities that differ by a smaller share may compare either way once they are rounded.
const MARGIN: f64 = 1.0 / (1u64 << 40) as f64;

/// Finds the cluster of lowest priority at any time.
///
/// A binary tree over the slots: node 1 is the root, the children of node i are 2i and 2i + 1, and the leaf of a slot is
/// the node `leaves + slot`. Each inner node has the winner of its subtree, the cluster of lowest priority, and the first
/// time at which another cluster of the subtree may win. So a search plays again only those matches whose time has come
/// (a kinetic tournament: Basch, Guibas, Hershberger 1999).
pub(super) struct Tournament {
    leaves: usize,
    winners: Vec<u32>,
    /// For each inner node, the time at which its match, or one below it, is played again.
    until: Vec<u64>,
}

impl Tournament {
    pub(super) fn new() -> Self {
        Tournament { leaves: 0, winners: Vec::new(), until: Vec::new() }
    }

    /// Makes room for `slots` slots.
    pub(super) fn reserve(&mut self, slots: u32) {
        if slots as usize > self.leaves {
            self.set_leaves(slots as usize);
        }
    }

    /// The cluster in `slot` is new, has changed, or is empty. The next search plays its matches again.
    pub(super) fn update(&mut self, slot: u32) {
        if slot as usize >= self.leaves {
            return self.grow(slot as usize + 1);
        }
        let mut node = (self.leaves + slot as usize) / 2;
        // Where a match is due, those above it are due, too.
        while node > 0 && self.until[node] != DUE {
            self.until[node] = DUE;
            node /= 2;
        }
    }

    /// The cluster of lowest priority at time `now` among those that satisfy `condition`; the one created first among
    /// equals. `now` never decreases.
    ///
    /// Looks into a subtree only if its winner does not satisfy the condition.
    pub(super) fn least_where(&mut self, clusters: &Slots<Cluster>, now: u64, condition: impl Fn(u32) -> bool) -> Option<u32> {
        if self.leaves == 0 {
            return None;
        }
        self.settle(1, clusters, now);
        self.search(1, clusters, now, &condition)
    }

    /// Makes room for `slots` slots, and for a quarter more.
    fn grow(&mut self, slots: usize) {
        self.set_leaves(slots + slots / 4);
    }

    fn set_leaves(&mut self, leaves: usize) {
        self.leaves = leaves;
        self.winners = vec![ABSENT; leaves];
        self.until = vec![DUE; leaves];
    }

    fn winner(&self, node: usize, clusters: &Slots<Cluster>) -> Option<u32> {
        let Some(slot) = node.checked_sub(self.leaves) else {
            return Some(self.winners[node]).filter(|&winner| winner != ABSENT);
        };
        let slot = slot as u32;
        (slot < clusters.len() && clusters[slot].pages > 0).then_some(slot)
    }

    fn until(&self, node: usize) -> u64 {
        self.until.get(node).copied().unwrap_or(u64::MAX)
    }

    /// Plays the match of an inner node between the winners of its children.
    fn play(&mut self, node: usize, clusters: &Slots<Cluster>, now: u64) {
        let [left, right] = [2 * node, 2 * node + 1];
        let mut until = self.until(left).min(self.until(right));
        let winner = match (self.winner(left, clusters), self.winner(right, clusters)) {
            (Some(left), Some(right)) => {
                let winner = lower(left, right, clusters, now);
                let loser = if winner == left { right } else { left };
                until = until.min(wins_until(&clusters[winner], &clusters[loser], now));
                winner
            }
            (only, None) | (None, only) => only.unwrap_or(ABSENT),
        };
        self.winners[node] = winner;
        self.until[node] = until;
    }

    /// Plays the matches of a subtree whose time has come, those below first.
    fn settle(&mut self, node: usize, clusters: &Slots<Cluster>, now: u64) {
        if node < self.leaves && self.until[node] <= now {
            self.settle(2 * node, clusters, now);
            self.settle(2 * node + 1, clusters, now);
            self.play(node, clusters, now);
        }
    }

    fn search(&self, node: usize, clusters: &Slots<Cluster>, now: u64, condition: &impl Fn(u32) -> bool) -> Option<u32> {
        let winner = self.winner(node, clusters)?;
        if condition(winner) {
            return Some(winner);
        }
        if node >= self.leaves {
            return None;
        }
        let child = |child| self.search(child, clusters, now, condition);
        match (child(2 * node), child(2 * node + 1)) {
            (Some(left), Some(right)) => Some(lower(left, right, clusters, now)),
            (left, right) => left.or(right),
        }
    }
}

/// The one of two clusters that has the lower priority; the one created first if they are equal.
fn lower(left: u32, right: u32, clusters: &Slots<Cluster>, now: u64) -> u32 {
    let key = |slot: u32| (clusters[slot].priority(now), clusters[slot].created);
    if key(left) < key(right) { left } else { right }
}

/// The first time after `now` at which the priority of `winner` may not be the lower one any more.
///
/// With weights w and v (distance over pages²) and ages a and b, the winner stays below the loser after x more pages by
/// more than the margin ε if w (b + x) <= (1 - ε) v (a + x).
fn wins_until(winner: &Cluster, loser: &Cluster, now: u64) -> u64 {
    if winner.timestamp == loser.timestamp {
        return u64::MAX;
    }
    let [a, b] = [winner, loser].map(|it| now.saturating_sub(it.timestamp));
    if a == 0 || b == 0 {
        // An age of 0 counts as 1, so that priorities do not fall yet.
        return now + 1;
    }
    let [w, v] = [winner.priority_at_age_1(), loser.priority_at_age_1() * (1.0 - MARGIN)];
    let lead = v * a as f64 - w * b as f64;
    let loss = w - v;
    if lead < 0.0 {
        now + 1
    } else if loss <= 0.0 {
        u64::MAX
    } else {
        // A product of f64 saturates where it becomes an integer.
        now.saturating_add((lead / loss * (1.0 - MARGIN)) as u64).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lowest priority by looking at all clusters.
    fn least(clusters: &Slots<Cluster>, now: u64, condition: impl Fn(u32) -> bool) -> Option<u32> {
        (0..clusters.len())
            .filter(|&slot| clusters[slot].pages > 0 && condition(slot))
            .reduce(|a, b| lower(a, b, clusters, now))
    }

    proptest! {
        /// Clusters that appear, change, empty and become due at any time.
        #[test]
        fn agrees_with_a_search_of_all(
            steps in prop::collection::vec((0u64..60, 0u32..6, 0u64..300, 0u64..40, 0u64..5000), 1..300),
        ) {
            let mut clusters: Slots<Cluster> = Slots::new();
            let mut tournament = Tournament::new();
            let mut now = 0;
            for (created, (number, pages, distance, passes, pinned)) in steps.into_iter().enumerate() {
                now += if passes < 30 { passes / 10 } else { passes * 40 };
                let cluster = Cluster { pages, distance, timestamp: now, created: created as u64 };
                let slot = match clusters.find(number) {
                    Some(slot) => {
                        let (timestamp, created) = (clusters[slot].timestamp, clusters[slot].created);
                        clusters[slot] = cluster;
                        if distance % 2 == 0 {
                            clusters[slot].timestamp = timestamp;
                            clusters[slot].created = created;
                        }
                        slot
                    }
                    None => clusters.insert(number, cluster),
                };
                tournament.update(slot);
                // Often several clusters change between two searches.
                if pinned % 3 == 0 {
                    continue;
                }
                for condition in [u64::MAX, pinned, 1 << 7] {
                    let free = |slot: u32| condition >> (slot % 13) & 1 == 1;
                    prop_assert_eq!(
                        tournament.least_where(&clusters, now, free),
                        least(&clusters, now, free)
                    );
                }
            }
        }
    }

    #[test]
    fn a_match_is_played_again_when_the_older_cluster_falls_below() {
        let cluster = |pages, distance, timestamp| Cluster { pages, distance, timestamp, created: timestamp };
        let mut clusters = Slots::new();
        let mut tournament = Tournament::new();
        // Weights 6 since time 1 and 1 since time 11: both priorities are 1/2 at time 13.
        let older = clusters.insert(1, cluster(2, 24, 1));
        tournament.update(older);
        let younger = clusters.insert(2, cluster(2, 4, 11));
        tournament.update(younger);
        let mut winners = [0; 4];
        for (winner, now) in winners.iter_mut().zip([12, 13, 14, 30]) {
            *winner = tournament.least_where(&clusters, now, |_| true).expect("there are two clusters");
        }
        assert_eq!(winners, [older, older, younger, younger]);
        assert_eq!(tournament.until[1], u64::MAX);
    }
}
