//! Closed blocks in buckets by their number of valid pages.

use super::block_lists::BlockLists;

/// Buckets by valid pages. A block changes buckets exactly when one of its pages becomes invalid, and
/// is appended to the new one, so that the head of a bucket is the block that has not changed for longest.
#[derive(Clone)]
pub(super) struct ValidPageBuckets {
    lists: BlockLists,
    /// No bucket below this one has a block.
    lowest: u32,
}

impl ValidPageBuckets {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self { lists: BlockLists::new(blocks, pages_per_block + 1), lowest: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, block: u32, valid: u32) {
        self.lists.push(valid, block);
        self.lowest = self.lowest.min(valid);
    }

    #[inline]
    pub(super) fn page_invalidated(&mut self, block: u32, valid: u32) {
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

    /// The block of a bucket that has not changed for longest.
    pub(super) fn oldest(&self, valid: u32) -> Option<u32> {
        self.lists.first(valid)
    }

    /// All blocks of a bucket.
    pub(super) fn bucket(&self, valid: u32) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter(valid)
    }

    /// The oldest block of every bucket in use, fewest valid pages first.
    pub(super) fn oldest_per_bucket(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (self.lowest..self.lists.lists()).filter_map(|valid| self.lists.first(valid).map(|block| (valid, block)))
    }
}
