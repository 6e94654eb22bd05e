//! Greedy that also looks at wear: among the blocks with the fewest valid pages the least erased.

use super::by_valid::ByValid;
use super::{Cleaning, Look};

#[derive(Clone)]
pub(super) struct EeGreedy(ByValid);

impl EeGreedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self(ByValid::new(blocks, pages_per_block))
    }
}

impl Cleaning for EeGreedy {
    fn add(&mut self, block: u32, valid: u32, _: u64) {
        self.0.add(block, valid);
    }

    #[inline]
    fn lost_a_page(&mut self, block: u32, valid: u32, _: u64) {
        self.0.lost_a_page(block, valid);
    }

    fn remove(&mut self, block: u32, valid: u32) {
        self.0.remove(block, valid);
    }

    fn victim(&mut self, look: &Look<'_>) -> Option<u32> {
        let lowest = self.0.lowest()?;
        let candidates = self.0.bucket(lowest);
        candidates.min_by_key(|&block| look.wear.erases_of(block))
    }
}
