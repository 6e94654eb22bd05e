//! Any closed block.

use super::sampled::Sampled;
use super::{Cleaning, Look};

#[derive(Clone)]
pub(super) struct Random(Sampled);

impl Random {
    pub(super) fn new(blocks: u32, seed: u64) -> Self {
        Self(Sampled::new(blocks, seed))
    }
}

impl Cleaning for Random {
    fn add(&mut self, block: u32, _: u32, _: u64) {
        self.0.add(block);
    }

    fn lost_a_page(&mut self, _: u32, _: u32, _: u64) {}

    fn remove(&mut self, block: u32, _: u32) {
        self.0.remove(block);
    }

    fn victim(&mut self, _: &Look<'_>) -> Option<u32> {
        self.0.draw()
    }
}
