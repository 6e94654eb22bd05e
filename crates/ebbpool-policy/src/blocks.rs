//! Resident pages by erase block: blocks of consecutive pages that a flash device erases as a
//! whole.

use std::hash::BuildHasher;
use std::hint::black_box;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::policy::{Frame, Page};

/// No frame, no block.
pub(crate) const NONE: u32 = u32::MAX;

/// The blocks with pages in the buffer, each with a list of frames in the order in which they were
/// listed.
///
/// A block is looked up by its number only when a page comes in; from then on it is a small number,
/// its slot.
pub(crate) struct Blocks {
    /// Pages per block.
    size: u64,
    by_number: HashTable<u32>,
    hasher: DefaultHashBuilder,
    blocks: Vec<Block>,
    free: Vec<u32>,
    nodes: Vec<Node>,
}

struct Block {
    number: u64,
    /// Resident pages, and whoever else holds the block.
    holders: u32,
    first: u32,
    last: u32,
    listed: u32,
}

#[derive(Clone, Copy)]
struct Node {
    block: u32,
    earlier: u32,
    later: u32,
}

impl Blocks {
    /// No blocks yet, of `size` pages each, over frames `0..frames`; at most `held` blocks are
    /// held at a time.
    pub(crate) fn new(frames: u32, size: u64, held: usize) -> Self {
        let most = frames as usize + held;
        Blocks {
            size,
            by_number: HashTable::with_capacity(most),
            hasher: DefaultHashBuilder::default(),
            blocks: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            nodes: vec![
                Node {
                    block: NONE,
                    earlier: NONE,
                    later: NONE,
                };
                frames as usize
            ],
        }
    }

    /// See [`crate::Policy::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        let block = self.nodes[frame as usize].block;
        black_box(self.blocks.get(block as usize).map(|block| block.first));
    }

    /// The slot of the block of the page in `frame`, which is resident.
    #[inline]
    pub(crate) fn of(&self, frame: Frame) -> u32 {
        self.nodes[frame as usize].block
    }

    /// Frames listed under the block in `slot`.
    #[inline]
    pub(crate) fn listed(&self, slot: u32) -> u32 {
        self.blocks[slot as usize].listed
    }

    /// The frame listed first under the block in `slot`, or [`NONE`].
    #[inline]
    pub(crate) fn first(&self, slot: u32) -> u32 {
        self.blocks[slot as usize].first
    }

    /// The first frame listed under the block in `slot` that may go.
    #[inline]
    pub(crate) fn first_where(&self, slot: u32, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.frames(slot).find(|&frame| may_go(frame))
    }

    /// The frames listed under the block in `slot`, in order.
    #[inline]
    pub(crate) fn frames(&self, slot: u32) -> impl Iterator<Item = Frame> {
        let at = |frame: u32| (frame != NONE).then_some(frame);
        std::iter::successors(at(self.first(slot)), move |&frame| {
            at(self.nodes[frame as usize].later)
        })
    }

    /// `page` comes into `frame`: answers its block's slot, and whether the block is new.
    pub(crate) fn join(&mut self, frame: Frame, page: Page) -> (u32, bool) {
        let number = page / self.size;
        let hash = self.hasher.hash_one(number);
        let blocks = &mut self.blocks;
        let found = self
            .by_number
            .find(hash, |&slot| blocks[slot as usize].number == number);
        if let Some(&slot) = found {
            blocks[slot as usize].holders += 1;
            self.nodes[frame as usize].block = slot;
            return (slot, false);
        }
        let block = Block {
            number,
            holders: 1,
            first: NONE,
            last: NONE,
            listed: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                blocks[slot as usize] = block;
                slot
            }
            None => {
                blocks.push(block);
                blocks.len() as u32 - 1
            }
        };
        let (blocks, hasher) = (&self.blocks, &self.hasher);
        self.by_number.insert_unique(hash, slot, |&slot| {
            hasher.hash_one(blocks[slot as usize].number)
        });
        self.nodes[frame as usize].block = slot;
        (slot, true)
    }

    /// The page in `frame`, which is not listed, leaves: answers its block's slot, and whether the
    /// block is gone.
    #[inline]
    pub(crate) fn leave(&mut self, frame: Frame) -> (u32, bool) {
        let slot = self.of(frame);
        (slot, self.release(slot))
    }

    /// The block in `slot` stays, even empty, until it is released.
    #[inline]
    pub(crate) fn hold(&mut self, slot: u32) {
        self.blocks[slot as usize].holders += 1;
    }

    /// Undoes `hold`; true if the block is gone.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) -> bool {
        let block = &mut self.blocks[slot as usize];
        block.holders -= 1;
        if block.holders > 0 {
            return false;
        }
        let hash = self.hasher.hash_one(block.number);
        if let Ok(entry) = self.by_number.find_entry(hash, |&known| known == slot) {
            entry.remove();
        }
        self.free.push(slot);
        true
    }

    /// Lists `frame` last under its block.
    #[inline]
    pub(crate) fn list(&mut self, frame: Frame) {
        let slot = self.of(frame);
        let block = &mut self.blocks[slot as usize];
        let last = std::mem::replace(&mut block.last, frame);
        block.listed += 1;
        if last == NONE {
            block.first = frame;
        } else {
            self.nodes[last as usize].later = frame;
        }
        self.nodes[frame as usize] = Node {
            block: slot,
            earlier: last,
            later: NONE,
        };
    }

    /// Takes `frame`, which is listed, off its block's list.
    #[inline]
    pub(crate) fn unlist(&mut self, frame: Frame) {
        let Node {
            block: slot,
            earlier,
            later,
        } = self.nodes[frame as usize];
        let block = &mut self.blocks[slot as usize];
        block.listed -= 1;
        match earlier {
            NONE => block.first = later,
            _ => self.nodes[earlier as usize].later = later,
        }
        match later {
            NONE => block.last = earlier,
            _ => self.nodes[later as usize].earlier = earlier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_under_their_block_in_order() {
        let mut blocks = Blocks::new(4, 10, 1);
        assert_eq!(blocks.join(2, 15), (0, true));
        assert_eq!(blocks.join(0, 10), (0, false));
        assert_eq!(blocks.join(1, 29), (1, true));
        for frame in [2, 0, 1] {
            blocks.list(frame);
        }
        assert_eq!(blocks.frames(0).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(blocks.first_where(0, |frame| frame != 2), Some(0));
        blocks.unlist(2);
        assert_eq!((blocks.first(0), blocks.listed(0)), (0, 1));
        assert_eq!(blocks.leave(2), (0, false));
    }

    #[test]
    fn a_block_goes_with_its_last_holder() {
        let mut blocks = Blocks::new(2, 10, 1);
        blocks.join(0, 5);
        blocks.hold(0);
        assert_eq!(blocks.leave(0), (0, false));
        assert_eq!(blocks.join(1, 6), (0, false));
        assert!(!blocks.release(0));
        assert_eq!(blocks.leave(1), (0, true));
        assert_eq!(blocks.join(0, u64::MAX), (0, true));
    }
}
