//! A B+-tree index: the pages on the path from its root to a key.
//!
//! Pages are ordered as by PostgreSQL's bulk load: the meta page, then leaves in key
//! order, and between them each inner page at the point where its second child was
//! finished.

use super::{PageAllocator, Transaction, payload};

/// The size of an index and of its entries.
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
    /// The number of points at which they are appended.
    pub(in super::super) points: u64,
}

impl IndexSize {
    /// An index that is bulk-loaded and does not grow.
    pub(in super::super) fn built(keys: u64, entry: u64) -> IndexSize {
        IndexSize { keys, entry, fill: 90, growth: 0, points: 0 }
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

/// Where consecutive keys are appended: the end of a table, or of a group of its keys.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct AppendPoint {
    /// The leaf's page number.
    leaf: u64,
    /// Keys for which it still has room.
    room: u64,
}

impl Index {
    pub(in super::super) fn new(name: &str, size: IndexSize, page_size: u64, allocator: &mut PageAllocator) -> Index {
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
        index.first = allocator.take(name.to_owned(), index.blocks + index.room);
        index
    }

    /// The leaf after which page `number` of `level` is allocated.
    fn allocated_after(&self, level: u32, number: u64) -> u64 {
        let width = self.fanout.pow(level);
        number * width + (width - 1) / (self.fanout - 1)
    }

    /// How many pages of `level` are allocated before a leaf.
    fn before(&self, level: u32, leaf: u64) -> u64 {
        let first = self.allocated_after(level, 0);
        if leaf <= first { 0 } else { (leaf - 1 - first) / self.fanout.pow(level) + 1 }
    }

    fn leaf_page(&self, leaf: u64) -> u64 {
        let inner: u64 = (1..=self.levels.len() as u32).map(|level| self.before(level, leaf)).sum();
        self.first + 1 + leaf + inner
    }

    fn inner_page(&self, level: u32, number: u64) -> u64 {
        self.leaf_page(self.allocated_after(level, number)) + u64::from(level)
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

    /// Descends to the leaf of a key and reads it; if `kills`, marks a key dead there.
    pub(in super::super) fn search(&self, transaction: &mut Transaction, rank: u64, kills: bool) {
        self.inner(transaction, rank);
        transaction.read_and_mark(self.leaf_page(self.leaf_of(rank)), kills);
    }

    /// Descends to `rank` and reads the leaf that [`append`](Index::append) returned; if `kills`, marks a key dead there.
    pub(in super::super) fn search_at(&self, transaction: &mut Transaction, rank: u64, leaf: u64, kills: bool) {
        self.inner(transaction, rank);
        transaction.read_and_mark(leaf, kills);
    }

    /// Adds another key for a row that is in the tree already, for a new version of it.
    pub(in super::super) fn insert(&self, transaction: &mut Transaction, rank: u64) {
        self.inner(transaction, rank);
        transaction.write(self.leaf_page(self.leaf_of(rank)));
    }

    /// Adds another key for a row, for a new version of it, to the leaf that [`append`](Index::append) returned.
    pub(in super::super) fn insert_at(&self, transaction: &mut Transaction, rank: u64, leaf: u64) {
        self.inner(transaction, rank);
        transaction.write(leaf);
    }

    /// The point for appending keys after the one with `rank`.
    pub(in super::super) fn append_point(&self, rank: u64) -> AppendPoint {
        AppendPoint { leaf: self.leaf_page(self.leaf_of(rank)), room: self.most_keys - self.keys_per_leaf }
    }

    /// Adds a key after all others of `point`, to which `rank` led, and returns the leaf's
    /// page number. A full leaf is split after its last key.
    pub(in super::super) fn append(&mut self, transaction: &mut Transaction, rank: u64, point: &mut AppendPoint) -> u64 {
        self.inner(transaction, rank);
        if point.room == 0 && self.room > 0 {
            transaction.write(point.leaf);
            // The room is an upper estimate. If it is too small nevertheless, the oldest
            // leaves are used again, as after a vacuum.
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
    use super::super::session::recording::SessionTape;
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn path(index: &Index, rank: u64) -> Vec<u64> {
        let references = SessionTape::new(1).record(0, |transaction| {
            index.search(transaction, rank, false);
        });
        assert!(references.iter().all(|&(_, write)| !write));
        references.into_iter().map(|(page, _)| page).collect()
    }

    /// Every page except the meta page is on a path, and has one parent.
    #[test]
    fn paths_from_the_root_form_a_tree_of_all_pages() {
        for (keys, height) in
            [(0, 1), (1, 1), (366, 1), (367, 2), (366 * 286, 2), (366 * 286 + 1, 3), (15_000_000, 3), (31_000_000, 4)]
        {
            let mut allocator = PageAllocator::default();
            allocator.take("before".into(), 1000);
            let index = Index::new("key", IndexSize::built(keys, 20), 8192, &mut allocator);
            let mut visited = HashSet::new();
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
                visited.extend(path);
            }
            assert_eq!(roots.len(), 1);
            let expected: HashSet<u64> = (1001..allocator.pages()).collect();
            assert_eq!(visited, expected, "{keys} keys");
        }
    }

    /// As in an index of 15 million keys built by PostgreSQL 15.
    #[test]
    fn pages_are_in_the_order_of_postgresql() {
        let mut allocator = PageAllocator::default();
        let index = Index::new("key", IndexSize::built(15_000_000, 20), 8192, &mut allocator);
        assert_eq!(path(&index, 0), [290, 3, 1]);
        assert_eq!(path(&index, 367)[2], 2);
        assert_eq!(path(&index, 2 * 366)[2], 4);
        assert_eq!(path(&index, 285 * 366)[1], 289);
    }

    #[test]
    fn appended_keys_fill_a_leaf_and_continue_on_new_ones() {
        let mut allocator = PageAllocator::default();
        let size = IndexSize { growth: 2000, points: 1, ..IndexSize::built(1000, 20) };
        let mut index = Index::new("key", size, 8192, &mut allocator);
        let mut point = index.append_point(999);
        let full = index.leaf(999);
        let mut leaves = Vec::new();
        for _ in 0..2000 {
            SessionTape::new(1).record(0, |transaction| {
                leaves.push(index.append(transaction, 999, &mut point));
            });
        }
        leaves.dedup();
        assert_eq!(leaves[0], full);
        assert_eq!(leaves.len(), 6);
        assert!(leaves[1..].is_sorted());
        assert!(leaves[1..].iter().all(|&leaf| leaf < allocator.pages()));
    }
}
