//! Resident pages by erase block: blocks of consecutive pages that a flash device erases as a
//! whole.

use std::hint::black_box;

use crate::lists::FrameLists;
use crate::policy::{Frame, Page};
use crate::slots::Slots;

/// The blocks with pages in the buffer, each with a list of frames in the order in which they were
/// listed, and a `T` for its owner.
///
/// The policy looks a block up by its number only when it admits a page, and by its slot from then
/// on.
pub(crate) struct Blocks<const N: usize, T> {
    /// Pages per block.
    size: u64,
    blocks: Slots<Block<T>>,
    /// The slot of each resident page's block.
    block_of: Vec<u32>,
    /// `N` lists of the owner, for frames that are not listed under a block, and behind them one
    /// list per slot.
    pub(crate) lists: FrameLists<N>,
}

struct Block<T> {
    /// Resident pages, and holds that the owner took.
    holders: u32,
    listed: u32,
    of_owner: T,
}

impl<const N: usize, T: Default> Blocks<N, T> {
    /// No blocks yet, of `size` pages each, over frames `0..frames`.
    pub(crate) fn new(frames: u32, size: u64) -> Self {
        Blocks { size, blocks: Slots::new(), block_of: vec![0; frames as usize], lists: FrameLists::new(frames) }
    }

    /// The number of frames, resident pages or not.
    pub(crate) fn frames_in_all(&self) -> u32 {
        self.block_of.len() as u32
    }

    /// Makes room for `most` blocks at once.
    pub(crate) fn reserve(&mut self, most: u32) {
        self.blocks.reserve(most);
        self.lists.reserve_up_to(Self::list_of(most));
    }

    #[inline]
    fn list_of(slot: u32) -> usize {
        N + slot as usize
    }

    /// Loads what a hit of the page in `frame` reads of its block into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        black_box(self.blocks[self.of(frame)].listed);
    }

    /// The slot of the block of the page in `frame`, which is resident.
    #[inline]
    pub(crate) fn of(&self, frame: Frame) -> u32 {
        self.block_of[frame as usize]
    }

    /// The owner's value for the block in `slot`.
    #[inline]
    pub(crate) fn of_owner(&self, slot: u32) -> &T {
        &self.blocks[slot].of_owner
    }

    /// The owner's value for the block in `slot`.
    #[inline]
    pub(crate) fn of_owner_mut(&mut self, slot: u32) -> &mut T {
        &mut self.blocks[slot].of_owner
    }

    /// Frames listed under the block in `slot`.
    #[inline]
    pub(crate) fn listed(&self, slot: u32) -> u32 {
        self.blocks[slot].listed
    }

    /// The frame listed first under the block in `slot`.
    #[inline]
    pub(crate) fn first(&self, slot: u32) -> Option<Frame> {
        self.lists.lru(Self::list_of(slot))
    }

    /// The first frame listed under the block in `slot` that may be evicted.
    #[inline]
    pub(crate) fn first_where(&self, slot: u32, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.lists.find_from_lru(Self::list_of(slot), may_evict)
    }

    /// The frames listed under the block in `slot`, in order.
    #[inline]
    pub(crate) fn frames(&self, slot: u32) -> impl Iterator<Item = Frame> {
        self.lists.frames(Self::list_of(slot))
    }

    /// `page` is admitted to `frame`. Returns its block's slot, and whether the block is new.
    pub(crate) fn join(&mut self, frame: Frame, page: Page) -> (u32, bool) {
        let number = page / self.size;
        let (slot, new) = match self.blocks.find(number) {
            Some(slot) => {
                self.blocks[slot].holders += 1;
                (slot, false)
            }
            None => {
                let block = Block { holders: 1, listed: 0, of_owner: T::default() };
                let slot = self.blocks.insert(number, block);
                self.lists.add_up_to(Self::list_of(slot));
                (slot, true)
            }
        };
        self.block_of[frame as usize] = slot;
        (slot, new)
    }

    /// The page in `frame`, which is not listed, is evicted. Returns its block's slot, and whether
    /// that removed the block.
    #[inline]
    pub(crate) fn leave(&mut self, frame: Frame) -> (u32, bool) {
        let slot = self.of(frame);
        (slot, self.release(slot))
    }

    /// Keeps the block in `slot`, even when it is empty, until `release`.
    #[inline]
    pub(crate) fn hold(&mut self, slot: u32) {
        self.blocks[slot].holders += 1;
    }

    /// Undoes `hold`. True if that removed the block.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) -> bool {
        self.blocks[slot].holders -= 1;
        let removed = self.blocks[slot].holders == 0;
        if removed {
            self.blocks.remove(slot);
        }
        removed
    }

    /// Lists `frame`, which is in no list of the owner, last under its block.
    #[inline]
    pub(crate) fn list(&mut self, frame: Frame) {
        let slot = self.of(frame);
        self.blocks[slot].listed += 1;
        self.lists.link_mru(Self::list_of(slot), frame);
    }

    /// Removes `frame`, which is listed, from its block's list.
    #[inline]
    pub(crate) fn unlist(&mut self, frame: Frame) {
        let slot = self.of(frame);
        self.blocks[slot].listed -= 1;
        self.lists.unlink(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_under_their_block_in_order() {
        let mut blocks = Blocks::<1, ()>::new(4, 10);
        assert_eq!(blocks.join(2, 15), (0, true));
        assert_eq!(blocks.join(0, 10), (0, false));
        assert_eq!(blocks.join(1, 29), (1, true));
        for frame in [2, 0, 1] {
            blocks.list(frame);
        }
        assert_eq!(blocks.frames(0).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(blocks.first_where(0, |frame| frame != 2), Some(0));
        blocks.unlist(2);
        assert_eq!((blocks.first(0), blocks.listed(0)), (Some(0), 1));
        assert_eq!(blocks.leave(2), (0, false));
    }

    #[test]
    fn a_block_is_removed_with_its_last_holder() {
        let mut blocks = Blocks::<0, ()>::new(2, 10);
        blocks.join(0, 5);
        blocks.hold(0);
        assert_eq!(blocks.leave(0), (0, false));
        assert_eq!(blocks.join(1, 6), (0, false));
        assert!(!blocks.release(0));
        assert_eq!(blocks.leave(1), (0, true));
        assert_eq!(blocks.join(0, u64::MAX), (0, true));
    }
}
