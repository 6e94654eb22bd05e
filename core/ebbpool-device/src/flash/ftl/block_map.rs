//! Block mapping with one open replacement block: an overwrite copies the rest of its block, unless
//! the next write continues where it ended.

use super::super::nand::NandCause;
use super::super::nand::{Nand, NandObserver};
use super::super::wear::{Temperature, WearLevelling};
use super::data_blocks::DataBlocks;
use super::{Merges, OutOfBlocks, TranslationLayer};

/// The layer.
#[derive(Clone)]
pub(in super::super) struct BlockMap {
    data: DataBlocks,
    replacement: Option<Replacement>,
    merges: Merges,
}

/// A block that will become a data block: it has the new content of the logical block up to its last
/// programmed slot.
#[derive(Clone, Copy)]
struct Replacement {
    logical_block: u32,
    block: u32,
    /// True if pages were copied into it before the last written one.
    copied: bool,
}

impl BlockMap {
    pub(in super::super) fn new(blocks: u32, pages_per_block: u32, logical_pages: u32, wear: WearLevelling) -> Self {
        Self {
            data: DataBlocks::new(blocks, pages_per_block, logical_pages, wear),
            replacement: None,
            merges: Merges::default(),
        }
    }

    /// Copies what is missing at the end of the replacement block and makes it the data block.
    fn finish<O: NandObserver>(&mut self, nand: &mut Nand<O>, open: Replacement) -> Result<(), OutOfBlocks> {
        let Replacement { logical_block, block, copied } = open;
        let rest = nand.written(block)..nand.geometry().pages_per_block;
        let copies = self.data.gather(nand, logical_block, rest, block, NandCause::Merge);
        self.data.replace(nand, logical_block, block, NandCause::Merge);
        self.replacement = None;
        match (copied, copies) {
            (true, _) => self.merges.full += 1,
            (false, 0) => self.merges.switch += 1,
            (false, _) => self.merges.partial += 1,
        }
        self.data.level_wear(nand, |_| false)
    }
}

impl<O: NandObserver> TranslationLayer<O> for BlockMap {
    fn read(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.data.read(nand, logical);
        Ok(())
    }

    fn write(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        let (logical_block, offset) = self.data.split(logical);
        let is_same_block = |open: &Replacement| open.logical_block == logical_block;
        if let Some(open) = self.replacement
            && (!is_same_block(&open) || offset < nand.written(open.block))
        {
            // A page that still fits into another data block needs no replacement block.
            if !is_same_block(&open) && self.data.write_in_place(nand, logical)? {
                return Ok(());
            }
            self.finish(nand, open)?;
        }
        let mut open = match self.replacement {
            Some(open) => open,
            None => {
                if self.data.write_in_place(nand, logical)? {
                    return Ok(());
                }
                Replacement { logical_block, block: self.data.take(nand, Temperature::Hot)?, copied: false }
            }
        };
        let before = nand.written(open.block)..offset;
        open.copied |= self.data.gather(nand, logical_block, before, open.block, NandCause::Merge) > 0;
        self.data.program(nand, logical, open.block, offset);
        self.replacement = Some(open);
        if nand.is_full(open.block) {
            self.finish(nand, open)?;
        }
        Ok(())
    }

    fn trim(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.data.trim(nand, logical);
        Ok(())
    }

    fn page_of(&self, logical: u32) -> Option<u32> {
        self.data.page_of(logical)
    }

    fn merges(&mut self) -> &mut Merges {
        &mut self.merges
    }
}
