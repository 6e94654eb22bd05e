//! The block with the fewest valid pages.

use super::by_valid::ByValid;
use super::{Cleaning, Look};

#[derive(Clone)]
pub(super) struct Greedy(ByValid);

impl Greedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self(ByValid::new(blocks, pages_per_block))
    }
}

impl Cleaning for Greedy {
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

    fn victim(&mut self, _: &Look<'_>) -> Option<u32> {
        let lowest = self.0.lowest()?;
        self.0.oldest(lowest)
    }
}
