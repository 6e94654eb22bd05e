//! The block with the fewest valid pages.

use super::valid_page_buckets::ValidPageBuckets;
use super::{Cleaning, VictimView};

#[derive(Clone)]
pub(super) struct Greedy(ValidPageBuckets);

impl Greedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self(ValidPageBuckets::new(blocks, pages_per_block))
    }
}

impl Cleaning for Greedy {
    fn add(&mut self, block: u32, valid: u32, _: u64) {
        self.0.add(block, valid);
    }

    #[inline]
    fn page_invalidated(&mut self, block: u32, valid: u32, _: u64) {
        self.0.page_invalidated(block, valid);
    }

    fn remove(&mut self, block: u32, valid: u32) {
        self.0.remove(block, valid);
    }

    fn victim(&mut self, _: &VictimView<'_>) -> Option<u32> {
        let lowest = self.0.lowest()?;
        self.0.oldest(lowest)
    }
}
