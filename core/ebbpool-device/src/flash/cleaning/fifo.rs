//! The block that was closed first.

use super::block_lists::BlockLists;
use super::{Cleaning, VictimView};

#[derive(Clone)]
pub(super) struct Fifo(BlockLists);

impl Fifo {
    pub(super) fn new(blocks: u32) -> Self {
        Self(BlockLists::new(blocks, 1))
    }
}

impl Cleaning for Fifo {
    fn add(&mut self, block: u32, _: u32, _: u64) {
        self.0.push(0, block);
    }

    fn page_invalidated(&mut self, _: u32, _: u32, _: u64) {}

    fn remove(&mut self, block: u32, _: u32) {
        self.0.remove(0, block);
    }

    fn victim(&mut self, _: &VictimView<'_>) -> Option<u32> {
        self.0.first(0)
    }
}
