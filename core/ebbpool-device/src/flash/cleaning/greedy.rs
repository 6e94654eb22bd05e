//! A block with the fewest valid pages: the one that has them longest, or, with regard to wear, the least erased one.

use super::valid_page_buckets::ValidPageBuckets;
use super::{Cleaning, VictimView};

#[derive(Clone)]
pub(super) struct Greedy {
    buckets: ValidPageBuckets,
    by_wear: bool,
}

impl Greedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32, by_wear: bool) -> Self {
        Greedy { buckets: ValidPageBuckets::new(blocks, pages_per_block), by_wear }
    }
}

impl Cleaning for Greedy {
    fn add(&mut self, block: u32, valid: u32, _: u64) {
        self.buckets.add(block, valid);
    }

    #[inline]
    fn page_invalidated(&mut self, block: u32, valid: u32, _: u64) {
        self.buckets.page_invalidated(block, valid);
    }

    fn remove(&mut self, block: u32, valid: u32) {
        self.buckets.remove(block, valid);
    }

    fn victim(&mut self, view: &VictimView<'_>) -> Option<u32> {
        let lowest = self.buckets.lowest()?;
        match self.by_wear {
            false => self.buckets.oldest(lowest),
            true => {
                let candidates = self.buckets.bucket(lowest);
                candidates.min_by_key(|&block| view.wear.erases_of(block))
            }
        }
    }
}
