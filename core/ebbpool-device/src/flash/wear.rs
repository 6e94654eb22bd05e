//! Wear levelling: which free block is used next, and when cold data have to move.

use std::collections::VecDeque;
use std::fmt;

use super::nand::Wear;

/// How erases are spread over the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WearLevelling {
    /// Not at all: free blocks are used in the order in which they became free.
    None,
    /// New data go to the least worn free block, cleaned data to the most worn one.
    Dynamic,
    /// New data go to the least worn free block, cleaned data to the most worn one; when two blocks differ by more erases than
    /// this, the data of the least worn block move to the most worn free block.
    Static(u32),
}

impl fmt::Display for WearLevelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WearLevelling::None => f.write_str("none"),
            WearLevelling::Dynamic => f.write_str("dynamic"),
            WearLevelling::Static(gap) => write!(f, "static:{gap}"),
        }
    }
}

impl WearLevelling {
    /// True if two blocks differ in erases by more than the limit, so that cold data should move.
    pub(super) fn is_due(self, wear: &Wear) -> bool {
        matches!(self, WearLevelling::Static(gap) if wear.most() - wear.least() > gap)
    }

    /// True if a block with `erases` erases is so little worn that its data should move.
    pub(super) fn is_underworn(self, erases: u32, wear: &Wear) -> bool {
        matches!(self, WearLevelling::Static(gap) if wear.most().saturating_sub(erases) > gap)
    }
}

/// How soon data are expected to be overwritten.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Temperature {
    Hot,
    Cold,
}

/// Erased blocks.
#[derive(Clone)]
pub(super) struct FreeBlocks {
    blocks: VecDeque<u32>,
    levelling: WearLevelling,
}

impl FreeBlocks {
    pub(super) fn new(blocks: u32, levelling: WearLevelling) -> Self {
        Self { blocks: (0..blocks).collect(), levelling }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(super) fn levelling(&self) -> WearLevelling {
        self.levelling
    }

    pub(super) fn put(&mut self, block: u32) {
        self.blocks.push_back(block);
    }

    /// The block for data of this temperature.
    pub(super) fn take(&mut self, wear: &Wear, temperature: Temperature) -> Option<u32> {
        let at = match (self.levelling, temperature) {
            (WearLevelling::None, _) => 0,
            (_, Temperature::Hot) => self.least_worn(wear)?,
            (_, Temperature::Cold) => self.most_worn(wear)?,
        };
        self.blocks.remove(at)
    }

    fn least_worn(&self, wear: &Wear) -> Option<usize> {
        // The search ends at a block with the least possible wear, so that a new device is filled
        // quickly.
        let least_possible = |block: &u32| wear.erases_of(*block) == wear.least();
        match self.blocks.iter().position(least_possible) {
            Some(at) => Some(at),
            None => (0..self.blocks.len()).min_by_key(|&at| wear.erases_of(self.blocks[at])),
        }
    }

    fn most_worn(&self, wear: &Wear) -> Option<usize> {
        (0..self.blocks.len()).max_by_key(|&at| wear.erases_of(self.blocks[at]))
    }
}
