//! Translation layers: where on the chip a logical page is, and which operations a write causes.

mod bast;
mod block_map;
mod data_blocks;
mod dftl;
mod fast;
mod page_map;
mod rotation;

use serde::{Deserialize, Serialize};

pub(super) use bast::Bast;
pub(super) use block_map::BlockMap;
pub(super) use dftl::{CachedMap, entries_per_page as dftl_entries_per_page};
pub(super) use fast::Fast;
pub(super) use page_map::{PageMapped, ResidentMap};
pub(super) use rotation::{Placement, RotationPlan};

use super::nand::{Nand, NandObserver};

/// Which translation layer a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Every page is mapped, the map is in memory.
    PageMap,
    /// Every page is mapped, the map is on flash and partly cached.
    Dftl,
    /// Blocks are mapped, one replacement block is open.
    BlockMap,
    /// Blocks are mapped, log blocks belong to one data block each.
    Bast,
    /// Blocks are mapped, log blocks are shared by all data blocks.
    Fast,
}

/// No erased block is left and none can be made: too many blocks are bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfBlocks;

/// Merges of log or replacement blocks into data blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Merges {
    /// The log block became the data block, nothing was copied.
    pub switch: u64,
    /// The rest of the data block was copied behind pages that were in order.
    pub partial: u64,
    /// All pages of a logical block were gathered in a fresh block.
    pub full: u64,
}

/// The operations of all layers. Logical pages are below the device's number of logical pages. A failed
/// operation leaves every page readable with the content it had before.
pub(super) trait TranslationLayer<O: NandObserver> {
    fn read(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks>;
    fn write(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks>;
    fn trim(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks>;
    /// The physical page of a logical page, if it was written since it was last trimmed.
    fn page_of(&self, logical: u32) -> Option<u32>;
    /// Merges since the counters were last reset.
    fn merges(&mut self) -> &mut Merges;
    /// Valid pages of each block that is closed, where the layer cleans closed blocks.
    fn closed(&self, _nand: &Nand<O>) -> Option<Vec<u32>> {
        None
    }
}
