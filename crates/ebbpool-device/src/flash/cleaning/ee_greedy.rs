//! Greedy with regard to wear: the least erased of the blocks with the fewest valid pages.

use super::valid_page_buckets::ValidPageBuckets;
use super::{Cleaning, VictimView};

#[derive(Clone)]
pub(super) struct EeGreedy(ValidPageBuckets);

impl EeGreedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self(ValidPageBuckets::new(blocks, pages_per_block))
    }
}

impl Cleaning for EeGreedy {
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

    fn victim(&mut self, view: &VictimView<'_>) -> Option<u32> {
        let lowest = self.0.lowest()?;
        let candidates = self.0.bucket(lowest);
        candidates.min_by_key(|&block| view.wear.erases_of(block))
    }
}
