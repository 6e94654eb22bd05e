//! The block with the fewest valid pages among `d` drawn at random, with replacement.

use super::sampled::Sampled;
use super::{Cleaning, Look};

#[derive(Clone)]
pub(super) struct DChoices {
    closed: Sampled,
    choices: u32,
}

impl DChoices {
    pub(super) fn new(blocks: u32, choices: u32, seed: u64) -> Self {
        Self {
            closed: Sampled::new(blocks, seed),
            choices,
        }
    }
}

impl Cleaning for DChoices {
    fn add(&mut self, block: u32, _: u32, _: u64) {
        self.closed.add(block);
    }

    fn lost_a_page(&mut self, _: u32, _: u32, _: u64) {}

    fn remove(&mut self, block: u32, _: u32) {
        self.closed.remove(block);
    }

    fn victim(&mut self, look: &Look<'_>) -> Option<u32> {
        let mut best = self.closed.draw()?;
        for _ in 1..self.choices {
            let drawn = self.closed.draw()?;
            if look.valid[drawn as usize] < look.valid[best as usize] {
                best = drawn;
            }
        }
        Some(best)
    }
}
