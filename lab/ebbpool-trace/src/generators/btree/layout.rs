//! Computes where the nodes of a bulk-loaded B+-tree are.
//!
//! This repeats the bulk loading of records of one length in `ebbpool-btree` (its `tree/bulk.rs` describes
//! the order). Nodes are filled to a share of their capacity. All leaves have the same number of records and
//! all inner nodes the same number of children, except the last node of each level, which has the rest. A
//! node gets its page when it is opened. A leaf is opened when the previous leaf is full, before the previous
//! leaf is pushed to the level above. An inner node is opened when a child is pushed for which the previous
//! node has no room, before the previous node is pushed further up. The topmost node becomes the root, page
//! 2, and its own page is freed.

/// Bytes of the pool's header, and of a node's.
const HEADERS: u64 = 32 + 16;
const LEAF_CELL: u64 = 6;
const INNER_CELL: u64 = 10;
const SLOT: u64 = 2;
const ROOT: u64 = 2;

/// Every inner node has at least two children, so there are fewer levels than bits of a record's number.
const MOST_LEVELS: usize = 64;

/// Bytes of the longest cell of a leaf; longer values are stored elsewhere.
pub(super) fn most_inline_cell(page_size: u64) -> u64 {
    capacity(page_size) / 3 - SLOT
}

/// Bytes of a leaf's cell.
pub(super) fn leaf_cell(key: u64, value: u64) -> u64 {
    LEAF_CELL + key + value
}

fn capacity(page_size: u64) -> u64 {
    page_size - HEADERS
}

/// The nodes of a tree. Levels count from the leaves, 0.
#[derive(Debug, Clone)]
pub(super) struct TreeLayout {
    /// Records of a leaf.
    leaf: u64,
    /// Children of an inner node.
    fan_out: u64,
    /// Nodes of each level; the root is alone on the last.
    nodes: Vec<u64>,
    /// Pages that an allocation map covers.
    span: u64,
}

impl TreeLayout {
    /// The tree of `records` records, at least one; cells must be inline.
    pub(super) fn new(records: u64, key: u64, value: u64, page_size: u64, fill: f64) -> Self {
        let capacity = capacity(page_size);
        let room = (fill * capacity as f64) as u64;
        let leaf = (room / (leaf_cell(key, value) + SLOT)).max(1);
        // The first child's separator is the empty key.
        let first = INNER_CELL + SLOT;
        let others = room.saturating_sub(first) / (first + key);
        let fan_out = (1 + others).max(2);
        let mut nodes = vec![records.div_ceil(leaf)];
        let mut count = nodes[0];
        while count > 1 && nodes.len() < MOST_LEVELS {
            count = count.div_ceil(fan_out);
            nodes.push(count);
        }
        TreeLayout { leaf, fan_out, nodes, span: capacity * 8 }
    }

    pub(super) fn height(&self) -> usize {
        self.nodes.len()
    }

    /// The leaf that has a record.
    pub(super) fn leaf_of(&self, record: u64) -> u64 {
        record / self.leaf
    }

    /// The pages from the root to the parent of a leaf.
    pub(super) fn above(&self, leaf: u64) -> impl Iterator<Item = u64> + '_ {
        let node = move |level: usize| (0..level).fold(leaf, |node, _| node / self.fan_out);
        let levels = (1..self.height()).rev();
        levels.map(move |level| self.page(level, node(level)))
    }

    /// The page of a node.
    pub(super) fn page(&self, level: usize, node: u64) -> u64 {
        match level + 1 == self.height() {
            true => ROOT,
            false => self.page_of_nth(self.opened_before(level, node)),
        }
    }

    /// The pages of the inner nodes, level by level, and of the root.
    pub(super) fn inner_pages(&self) -> impl Iterator<Item = u64> + '_ {
        let inner = move |level| (0..self.nodes[level]).map(move |node| self.page(level, node));
        (1..self.height() - 1).flat_map(inner).chain([ROOT])
    }

    /// One more than the highest page in use.
    pub(super) fn pages(&self) -> u64 {
        let top = self.height() - 1;
        let all: u64 = self.nodes.iter().sum();
        if all == 1 {
            return ROOT + 1;
        }
        let last = all - 1;
        // The topmost node's page is freed.
        let last = last - u64::from(self.opened_before(top, 0) == last);
        self.page_of_nth(last) + 1
    }

    /// How many nodes were opened before this one.
    fn opened_before(&self, level: usize, node: u64) -> u64 {
        if level == 0 {
            return node + self.opened_above(node.saturating_sub(1));
        }
        // The child whose push opens the node.
        let child = node * self.fan_out;
        if child + 1 < self.nodes[level - 1] {
            // The child was pushed because it was full, as soon as the next child was opened.
            return self.opened_before(level - 1, child + 1) + 1;
        }
        // The child was pushed at the end, after all nodes below and its neighbours to the left.
        let below: u64 = self.nodes[..level].iter().sum();
        below + self.opened_above(child)
    }

    /// How many nodes of higher levels are opened by `pushes` pushes from one level.
    fn opened_above(&self, pushes: u64) -> u64 {
        let mut pushes = pushes;
        let mut opened = 0;
        while pushes > 0 {
            let nodes = pushes.div_ceil(self.fan_out);
            opened += nodes;
            // Each node that is opened pushes the previous one.
            pushes = nodes - 1;
        }
        opened
    }

    /// The page of a node by the number of nodes opened before it. Pages are allocated in ascending order
    /// from 3 on, except for the allocation maps; each map is the second of the pages that it covers.
    fn page_of_nth(&self, opened_before: u64) -> u64 {
        let after_root = opened_before + 1;
        ROOT + after_root + after_root / (self.span - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bulk loader, reduced to the allocation of pages.
    struct Loader {
        fan_out: u64,
        span: u64,
        next_page: u64,
        /// For each level, the pages of its nodes, and the children of the open one.
        levels: Vec<(Vec<u64>, u64)>,
    }

    impl Loader {
        fn take(&mut self) -> u64 {
            let page = self.next_page;
            self.next_page += 1;
            match page % self.span {
                1 => self.take(),
                _ => page,
            }
        }

        fn push(&mut self, level: usize) {
            if self.levels.len() == level {
                let page = self.take();
                self.levels.push((vec![page], 1));
            } else if self.levels[level].1 == self.fan_out {
                let page = self.take();
                self.levels[level].0.push(page);
                self.levels[level].1 = 0;
                self.push(level + 1);
                self.levels[level].1 = 1;
            } else {
                self.levels[level].1 += 1;
            }
        }

        fn load(layout: &TreeLayout, records: u64) -> Vec<Vec<u64>> {
            let mut loader = Loader { fan_out: layout.fan_out, span: layout.span, next_page: 3, levels: Vec::new() };
            let page = loader.take();
            loader.levels.push((vec![page], 0));
            for _ in 0..records {
                if loader.levels[0].1 == layout.leaf {
                    let page = loader.take();
                    loader.levels[0].0.push(page);
                    loader.push(1);
                    loader.levels[0].1 = 0;
                }
                loader.levels[0].1 += 1;
            }
            let mut level = 0;
            while level + 1 < loader.levels.len() {
                loader.push(level + 1);
                level += 1;
            }
            let mut pages: Vec<_> = loader.levels.into_iter().map(|(pages, _)| pages).collect();
            *pages.last_mut().unwrap() = vec![ROOT];
            pages
        }
    }

    #[test]
    fn pages_are_those_that_the_loader_allocates() {
        // From full nodes of 512 bytes down to nodes of two children, with many and few records in a leaf.
        let shapes = [(4, 90, 512, 0.5), (8, 20, 512, 0.2), (4, 90, 512, 0.01), (1, 0, 512, 1.0)];
        for (key, value, page_size, fill) in shapes {
            for records in (1..300).chain([1000, 4097, 30_000, 77_777]) {
                let layout = TreeLayout::new(records, key, value, page_size, fill);
                let expected = Loader::load(&layout, records);
                let counts: Vec<u64> = expected.iter().map(|pages| pages.len() as u64).collect();
                assert_eq!(layout.nodes, counts, "{records}");
                for (level, pages) in expected.iter().enumerate() {
                    for (node, &page) in (0..).zip(pages) {
                        let found = layout.page(level, node);
                        assert_eq!(found, page, "{records} {level} {node}");
                    }
                }
                let highest = expected.iter().flatten().max().unwrap();
                assert_eq!(layout.pages(), highest + 1, "{records}");
            }
        }
    }

    #[test]
    fn the_papers_tree() {
        let layout = TreeLayout::new(1_000_000, 4, 256, 4096, 0.5);
        // 7 cells of 268 bytes are at most half of 4048; so are 126 of 16, the first of 12.
        assert_eq!((layout.leaf, layout.fan_out), (7, 126));
        assert_eq!(layout.nodes, [142_858, 1_134, 9, 1]);
        assert_eq!(layout.span, 32_384);
        // Leaf 0, leaf 1, then the first one's parent.
        assert_eq!([layout.page(0, 0), layout.page(0, 1), layout.page(0, 2)], [3, 4, 6]);
        assert_eq!(layout.page(1, 0), 5);
        assert_eq!(layout.above(142_857).count(), 3);
        // 144,001 nodes below the root, the root, the meta page, 5 maps, and one page that was freed.
        assert_eq!(layout.pages(), 144_001 + 1 + 1 + 5 + 1);
    }
}
