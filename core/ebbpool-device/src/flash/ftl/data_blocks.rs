//! Shared by the block-mapped layers: data blocks, in which the page at offset i of a logical block
//! lies in slot i, and the merges that produce them.

use super::super::nand::{NONE, Nand, NandCause, NandObserver};
use super::super::wear::{FreeBlocks, Temperature, WearLevelling};
use super::OutOfBlocks;

/// Data blocks and erased blocks.
#[derive(Clone)]
pub(super) struct DataBlocks {
    /// By logical page: where its current content is, in a data block or elsewhere.
    pages: Vec<u32>,
    /// By logical block: its data block.
    blocks: Vec<u32>,
    pages_per_block: u32,
    free: FreeBlocks,
}

impl DataBlocks {
    pub(super) fn new(blocks: u32, pages_per_block: u32, logical_pages: u32, wear: WearLevelling) -> Self {
        Self {
            pages: vec![NONE; logical_pages as usize],
            blocks: vec![NONE; logical_pages.div_ceil(pages_per_block) as usize],
            pages_per_block,
            free: FreeBlocks::new(blocks, wear),
        }
    }

    /// Logical blocks.
    pub(super) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The logical block and the offset in it.
    #[inline]
    pub(super) fn split(&self, logical: u32) -> (u32, u32) {
        (logical / self.pages_per_block, logical % self.pages_per_block)
    }

    #[inline]
    pub(super) fn page_of(&self, logical: u32) -> Option<u32> {
        let page = self.pages[logical as usize];
        (page != NONE).then_some(page)
    }

    pub(super) fn read<O: NandObserver>(&self, nand: &mut Nand<O>, logical: u32) {
        if let Some(page) = self.page_of(logical) {
            nand.read(page, NandCause::Host);
        }
    }

    pub(super) fn trim<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical: u32) {
        let page = std::mem::replace(&mut self.pages[logical as usize], NONE);
        if page != NONE {
            nand.invalidate(page);
        }
    }

    /// Programs new content of a logical page into a slot of a block.
    pub(super) fn program<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical: u32, block: u32, slot: u32) {
        let page = nand.program_at(block, slot, logical, NandCause::Host);
        let before = std::mem::replace(&mut self.pages[logical as usize], page);
        if before != NONE {
            nand.invalidate(before);
        }
    }

    /// Writes a page to its slot of the data block if that slot is still blank and in order; false
    /// if it is not. A logical block without a data block gets one.
    pub(super) fn write_in_place<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<bool, OutOfBlocks> {
        let (logical_block, offset) = self.split(logical);
        let mut block = self.blocks[logical_block as usize];
        if block == NONE {
            block = self.take(nand, Temperature::Hot)?;
            self.blocks[logical_block as usize] = block;
        }
        let fits = offset >= nand.written(block);
        if fits {
            self.program(nand, logical, block, offset);
        }
        Ok(fits)
    }

    pub(super) fn take<O: NandObserver>(&mut self, nand: &Nand<O>, temperature: Temperature) -> Result<u32, OutOfBlocks> {
        self.free.take(nand.wear(), temperature).ok_or(OutOfBlocks)
    }

    /// Erases a block that has no valid pages left.
    pub(super) fn release<O: NandObserver>(&mut self, nand: &mut Nand<O>, block: u32, cause: NandCause) {
        if nand.erase(block, cause) {
            self.free.put(block);
        }
    }

    /// Copies the pages of a logical block with offsets in `range` to their slots of `to`, from any
    /// block; returns how many.
    pub(super) fn gather<O: NandObserver>(
        &mut self,
        nand: &mut Nand<O>,
        logical_block: u32,
        range: std::ops::Range<u32>,
        to: u32,
        cause: NandCause,
    ) -> u32 {
        let mut copies = 0;
        let first = logical_block * self.pages_per_block;
        let end = (first + range.end).min(self.pages.len() as u32);
        for logical in (first + range.start).min(end)..end {
            let from = self.pages[logical as usize];
            if from != NONE {
                self.pages[logical as usize] = nand.copy_to(from, to, logical - first, logical, cause);
                copies += 1;
            }
        }
        copies
    }

    /// Makes `block` the data block of a logical block and erases its previous data block, which must
    /// have no valid pages left.
    pub(super) fn replace<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical_block: u32, block: u32, cause: NandCause) {
        let before = std::mem::replace(&mut self.blocks[logical_block as usize], block);
        if before != NONE {
            self.release(nand, before, cause);
        }
    }

    /// Full merge: gathers all pages of a logical block in a fresh data block; takes no block if all
    /// pages are trimmed.
    pub(super) fn merge_fully<O: NandObserver>(
        &mut self,
        nand: &mut Nand<O>,
        logical_block: u32,
        temperature: Temperature,
        cause: NandCause,
    ) -> Result<(), OutOfBlocks> {
        let first = logical_block * self.pages_per_block;
        let end = (first + self.pages_per_block).min(self.pages.len() as u32);
        let any = (first..end).any(|logical| self.pages[logical as usize] != NONE);
        let mut to = NONE;
        if any {
            to = self.take(nand, temperature)?;
            self.gather(nand, logical_block, 0..self.pages_per_block, to, cause);
        }
        self.replace(nand, logical_block, to, cause);
        Ok(())
    }

    /// Static wear levelling: moves the data of the least worn data block to the most worn free
    /// block, if the two differ enough in wear; logical blocks that are `busy` stay.
    pub(super) fn level_wear<O: NandObserver>(
        &mut self,
        nand: &mut Nand<O>,
        busy: impl Fn(u32) -> bool,
    ) -> Result<(), OutOfBlocks> {
        if self.free.len() < 2 || !self.free.levelling().is_due(nand.wear()) {
            return Ok(());
        }
        let candidates = (0..self.len())
            .filter(|&at| self.blocks[at as usize] != NONE && !busy(at))
            .map(|at| (nand.wear().erases_of(self.blocks[at as usize]), at));
        match candidates.min() {
            Some((erases, at)) if self.free.levelling().is_underworn(erases, nand.wear()) => {
                self.merge_fully(nand, at, Temperature::Cold, NandCause::Wear)
            }
            _ => Ok(()),
        }
    }
}
