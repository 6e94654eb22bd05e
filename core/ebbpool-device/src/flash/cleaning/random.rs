//! Any closed block.

use super::sampled::SampledBlocks;
use super::{Cleaning, VictimView};

#[derive(Clone)]
pub(super) struct Random(SampledBlocks);

impl Random {
    pub(super) fn new(blocks: u32, seed: u64) -> Self {
        Self(SampledBlocks::new(blocks, seed))
    }
}

impl Cleaning for Random {
    fn add(&mut self, block: u32, _: u32, _: u64) {
        self.0.add(block);
    }

    fn page_invalidated(&mut self, _: u32, _: u32, _: u64) {}

    fn remove(&mut self, block: u32, _: u32) {
        self.0.remove(block);
    }

    fn victim(&mut self, _: &VictimView<'_>) -> Option<u32> {
        self.0.draw()
    }
}
