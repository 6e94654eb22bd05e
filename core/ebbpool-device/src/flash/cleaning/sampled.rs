//! Closed blocks in an array, from which blocks are drawn at random.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Closed blocks without order.
#[derive(Clone)]
pub(super) struct SampledBlocks {
    blocks: Vec<u32>,
    index_of: Vec<u32>,
    random: Xoshiro256PlusPlus,
}

impl SampledBlocks {
    pub(super) fn new(blocks: u32, seed: u64) -> Self {
        Self {
            blocks: Vec::with_capacity(blocks as usize),
            index_of: vec![0; blocks as usize],
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub(super) fn add(&mut self, block: u32) {
        self.index_of[block as usize] = self.blocks.len() as u32;
        self.blocks.push(block);
    }

    pub(super) fn remove(&mut self, block: u32) {
        let index = self.index_of[block as usize];
        self.blocks.swap_remove(index as usize);
        if let Some(&moved) = self.blocks.get(index as usize) {
            self.index_of[moved as usize] = index;
        }
    }

    /// One closed block, each with the same probability.
    pub(super) fn draw(&mut self) -> Option<u32> {
        let below = self.blocks.len() as u64;
        let at = (u128::from(self.random.next_u64()) * u128::from(below)) >> 64;
        self.blocks.get(at as usize).copied()
    }
}
