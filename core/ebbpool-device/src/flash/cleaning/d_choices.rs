//! The block with the fewest valid pages among `d` drawn at random, with replacement.

use super::sampled::SampledBlocks;
use super::{Cleaning, VictimView};

#[derive(Clone)]
pub(super) struct DChoices {
    closed: SampledBlocks,
    choices: u32,
}

impl DChoices {
    pub(super) fn new(blocks: u32, choices: u32, seed: u64) -> Self {
        Self { closed: SampledBlocks::new(blocks, seed), choices }
    }
}

impl Cleaning for DChoices {
    fn add(&mut self, block: u32, _: u32, _: u64) {
        self.closed.add(block);
    }

    fn page_invalidated(&mut self, _: u32, _: u32, _: u64) {}

    fn remove(&mut self, block: u32, _: u32) {
        self.closed.remove(block);
    }

    fn victim(&mut self, view: &VictimView<'_>) -> Option<u32> {
        let mut best = self.closed.draw()?;
        for _ in 1..self.choices {
            let drawn = self.closed.draw()?;
            if view.valid[drawn as usize] < view.valid[best as usize] {
                best = drawn;
            }
        }
        Some(best)
    }
}
