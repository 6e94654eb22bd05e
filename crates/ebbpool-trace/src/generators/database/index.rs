//! A B+-tree index: the pages on the way from its root to a key.
//!
//! Pages lie as PostgreSQL's bulk load leaves them: the meta page, then leaves in key
//! order, and between them each inner page where its second child was finished.

use super::{Layout, Transaction, payload};

/// What an index is made of.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct IndexSize {
    /// Keys at the start.
    pub(in super::super) keys: u64,
    /// Bytes of an entry, its line pointer included.
    pub(in super::super) entry: u64,
    /// How full leaves are at the start, in percent: 90 after a bulk load.
    pub(in super::super) fill: u64,
    /// Keys that may be appended later.
    pub(in super::super) growth: u64,
    /// Places where they are appended.
    pub(in super::super) points: u64,
}

impl IndexSize {
    /// An index that was built at once and stays as it is.
    pub(in super::super) fn built(keys: u64, entry: u64) -> IndexSize {
        IndexSize {
            keys,
            entry,
            fill: 90,
            growth: 0,
            points: 0,
        }
    }
}

/// Bytes of the smallest entry of an inner page: a key of 8, a header, a line pointer.
const INNER_ENTRY: u64 = 20;

/// How full inner pages are, in percent.
const INNER_FILL: u64 = 70;

#[derive(Debug)]
pub(in super::super) struct Index {
    first: u64,
    leaves: u64,
    /// Keys in a leaf at the start, and at most.
    keys_per_leaf: u64,
    most_keys: u64,
    /// Children of an inner page.
    fanout: u64,
    /// Pages of each level above the leaves, the root last.
    levels: Vec<u64>,
    blocks: u64,
    grown: u64,
    room: u64,
}

/// Where keys are appended that follow each other: the end of a table, or of one
/// group of its keys.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct AppendPoint {
    /// The leaf's page number.
    leaf: u64,
    /// Keys that it takes yet.
    room: u64,
}

impl Index {
    pub(in super::super) fn new(size: IndexSize, page_size: u64, layout: &mut Layout) -> Index {
        // A leaf also has a high key and 16 bytes at the page's end.
        let space = payload(page_size) - 16;
        let most_keys = space / size.entry;
        let keys_per_leaf = most_keys * size.fill / 100;
        let fanout = space * INNER_FILL / 100 / size.entry.max(INNER_ENTRY);
        let leaves = size.keys.div_ceil(keys_per_leaf).max(1);
        let mut index = Index {
            first: 0,
            leaves,
            keys_per_leaf,
            most_keys,
            fanout,
            levels: Vec::new(),
            blocks: 1 + leaves,
            grown: 0,
            room: size.growth.div_ceil(most_keys) + size.points,
        };
        let mut below = leaves;
        while below > 1 {
            let level = index.levels.len() as u32 + 1;
            below = index.before(level, leaves);
            index.levels.push(below);
            index.blocks += below;
        }
        index.first = layout.take(index.blocks + index.room);
        index
    }

    /// The leaf after which page `number` of `level` is allocated.
    fn born_after(&self, level: u32, number: u64) -> u64 {
        let width = self.fanout.pow(level);
        number * width + (width - 1) / (self.fanout - 1)
    }

    /// How many pages of `level` are allocated before leaf `leaf`.
    fn before(&self, level: u32, leaf: u64) -> u64 {
        let first = self.born_after(level, 0);
        if leaf <= first {
            0
        } else {
            (leaf - 1 - first) / self.fanout.pow(level) + 1
        }
    }

    fn leaf_page(&self, leaf: u64) -> u64 {
        let inner: u64 = (1..=self.levels.len() as u32)
            .map(|level| self.before(level, leaf))
            .sum();
        self.first + 1 + leaf + inner
    }

    fn inner_page(&self, level: u32, number: u64) -> u64 {
        self.leaf_page(self.born_after(level, number)) + u64::from(level)
    }

    fn leaf_of(&self, rank: u64) -> u64 {
        (rank / self.keys_per_leaf).min(self.leaves - 1)
    }

    /// Reads the inner pages from the root towards the key with `rank` keys before
    /// it at the start.
    fn inner(&self, transaction: &mut Transaction, rank: u64) {
        let mut path = [0; 16];
        let mut child = self.leaf_of(rank);
        for (at, &pages) in self.levels.iter().enumerate() {
            child = (child / self.fanout).min(pages - 1);
            path[at] = self.inner_page(at as u32 + 1, child);
        }
        for &page in path[..self.levels.len()].iter().rev() {
            transaction.read(page);
        }
    }

    /// Goes to the leaf of a key to look; if `kills`, it marks a key dead there.
    pub(in super::super) fn search(&self, transaction: &mut Transaction, rank: u64, kills: bool) {
        self.inner(transaction, rank);
        transaction.look(self.leaf_page(self.leaf_of(rank)), kills);
    }

    /// The same for a leaf that [`append`](Index::append) told, in the part of the tree
    /// where `rank` is.
    pub(in super::super) fn search_at(
        &self,
        transaction: &mut Transaction,
        rank: u64,
        leaf: u64,
        kills: bool,
    ) {
        self.inner(transaction, rank);
        transaction.look(leaf, kills);
    }

    /// Adds a key that is in the tree already, for a new version of its row.
    pub(in super::super) fn insert(&self, transaction: &mut Transaction, rank: u64) {
        self.inner(transaction, rank);
        transaction.write(self.leaf_page(self.leaf_of(rank)));
    }

    /// The same in a leaf that [`append`](Index::append) told.
    pub(in super::super) fn insert_at(&self, transaction: &mut Transaction, rank: u64, leaf: u64) {
        self.inner(transaction, rank);
        transaction.write(leaf);
    }

    /// Where keys are appended behind the one with `rank`.
    pub(in super::super) fn append_point(&self, rank: u64) -> AppendPoint {
        AppendPoint {
            leaf: self.leaf_page(self.leaf_of(rank)),
            room: self.most_keys - self.keys_per_leaf,
        }
    }

    /// Adds a key behind all others of `point`, which `rank` led to, and tells the
    /// leaf's page number. A full leaf is split behind its last key.
    pub(in super::super) fn append(
        &mut self,
        transaction: &mut Transaction,
        rank: u64,
        point: &mut AppendPoint,
    ) -> u64 {
        self.inner(transaction, rank);
        if point.room == 0 && self.room > 0 {
            transaction.write(point.leaf);
            // Room is an estimate from above; were it too small, the oldest leaves
            // would be used again, as after a vacuum.
            point.leaf = self.first + self.blocks + self.grown % self.room;
            self.grown += 1;
            point.room = self.most_keys;
        }
        point.room = point.room.saturating_sub(1);
        transaction.write(point.leaf);
        point.leaf
    }

    /// The leaf that held the key with `rank` at the start.
    pub(in super::super) fn leaf(&self, rank: u64) -> u64 {
        self.leaf_page(self.leaf_of(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::recording::Recorder;
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn path(index: &Index, rank: u64) -> Vec<u64> {
        let references = Recorder::new(1).record(0, |transaction| {
            index.search(transaction, rank, false);
        });
        assert!(references.iter().all(|&(_, write)| !write));
        references.into_iter().map(|(page, _)| page).collect()
    }

    /// Every page but the meta page is on some way, and has one parent.
    #[test]
    fn ways_from_the_root_make_a_tree_of_all_pages() {
        for (keys, height) in [
            (0, 1),
            (1, 1),
            (366, 1),
            (367, 2),
            (366 * 286, 2),
            (366 * 286 + 1, 3),
            (15_000_000, 3),
            (31_000_000, 4),
        ] {
            let mut layout = Layout::default();
            layout.take(1000);
            let index = Index::new(IndexSize::built(keys, 20), 8192, &mut layout);
            let mut seen = HashSet::new();
            let mut parents = HashMap::new();
            let (mut roots, mut last) = (HashSet::new(), 0);
            for rank in (0..keys.max(1)).step_by(366) {
                let path = path(&index, rank);
                assert_eq!(path.len(), height, "{keys} keys");
                roots.insert(path[0]);
                for pair in path.windows(2) {
                    assert_eq!(*parents.entry(pair[1]).or_insert(pair[0]), pair[0]);
                }
                assert!(path[height - 1] > last, "leaves lie in key order");
                last = path[height - 1];
                seen.extend(path);
            }
            assert_eq!(roots.len(), 1);
            let expected: HashSet<u64> = (1001..layout.pages()).collect();
            assert_eq!(seen, expected, "{keys} keys");
        }
    }

    /// As found in an index of 15 million keys that PostgreSQL 15 had built.
    #[test]
    fn pages_lie_as_postgresql_loads_them() {
        let mut layout = Layout::default();
        let index = Index::new(IndexSize::built(15_000_000, 20), 8192, &mut layout);
        assert_eq!(path(&index, 0), [290, 3, 1]);
        assert_eq!(path(&index, 367)[2], 2);
        assert_eq!(path(&index, 2 * 366)[2], 4);
        assert_eq!(path(&index, 285 * 366)[1], 289);
    }

    #[test]
    fn appended_keys_fill_a_leaf_and_go_on_at_the_end() {
        let mut layout = Layout::default();
        let size = IndexSize {
            growth: 2000,
            points: 1,
            ..IndexSize::built(1000, 20)
        };
        let mut index = Index::new(size, 8192, &mut layout);
        let mut point = index.append_point(999);
        let full = index.leaf(999);
        let mut leaves = Vec::new();
        for _ in 0..2000 {
            Recorder::new(1).record(0, |transaction| {
                leaves.push(index.append(transaction, 999, &mut point));
            });
        }
        leaves.dedup();
        assert_eq!(leaves[0], full);
        assert_eq!(leaves.len(), 6);
        assert!(leaves[1..].is_sorted());
        assert!(leaves[1..].iter().all(|&leaf| leaf < layout.pages()));
    }
}
