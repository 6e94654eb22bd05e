//! Closed blocks in buckets by their number of valid pages.

use super::block_lists::BlockLists;

/// Buckets by valid pages. A block changes buckets exactly when one of its pages becomes invalid, and
/// joins the tail then, so that the head of a bucket is the block that was left alone for longest.
#[derive(Clone)]
pub(super) struct ByValid {
    lists: BlockLists,
    /// No bucket below this one has a block.
    lowest: u32,
}

impl ByValid {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self {
            lists: BlockLists::new(blocks, pages_per_block + 1),
            lowest: 0,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, block: u32, valid: u32) {
        self.lists.push(valid, block);
        self.lowest = self.lowest.min(valid);
    }

    #[inline]
    pub(super) fn lost_a_page(&mut self, block: u32, valid: u32) {
        self.lists.remove(valid + 1, block);
        self.add(block, valid);
    }

    pub(super) fn remove(&mut self, block: u32, valid: u32) {
        self.lists.remove(valid, block);
    }

    /// The lowest bucket that has a block.
    pub(super) fn lowest(&mut self) -> Option<u32> {
        while self.lowest < self.lists.lists() {
            if self.lists.first(self.lowest).is_some() {
                return Some(self.lowest);
            }
            self.lowest += 1;
        }
        self.lowest = 0;
        None
    }

    /// The block of a bucket that was left alone for longest.
    pub(super) fn oldest(&self, valid: u32) -> Option<u32> {
        self.lists.first(valid)
    }

    /// All blocks of a bucket.
    pub(super) fn bucket(&self, valid: u32) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter(valid)
    }

    /// The oldest block of every bucket in use, fewest valid pages first.
    pub(super) fn oldest_of_each(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (self.lowest..self.lists.lists())
            .filter_map(|valid| self.lists.first(valid).map(|block| (valid, block)))
    }
}
