//! BAST, block-associative sector translation (Kim et al., IEEE Transactions on Consumer Electronics
//! 48(2), 2002): overwrites go to log blocks, each of which belongs to one data block.

use super::super::nand::{NONE, Nand, NandCause, NandObserver};
use super::super::wear::{Temperature, WearLevelling};
use super::data_blocks::DataBlocks;
use super::{Merges, OutOfBlocks, TranslationLayer};

/// The layer.
#[derive(Clone)]
pub(in super::super) struct Bast {
    data: DataBlocks,
    logs: Vec<LogBlock>,
    /// By logical block: the index of its log block in `logs`.
    log_of: Vec<u32>,
    log_blocks: u32,
    writes: u64,
    merges: Merges,
}

#[derive(Clone, Copy)]
struct LogBlock {
    logical_block: u32,
    block: u32,
    /// True while every slot i holds the page at offset i.
    in_order: bool,
    last_write: u64,
}

impl Bast {
    pub(in super::super) fn new(
        blocks: u32,
        pages_per_block: u32,
        logical_pages: u32,
        log_blocks: u32,
        wear: WearLevelling,
    ) -> Self {
        let data = DataBlocks::new(blocks, pages_per_block, logical_pages, wear);
        Self {
            log_of: vec![NONE; data.len() as usize],
            data,
            logs: Vec::with_capacity(log_blocks as usize),
            log_blocks,
            writes: 0,
            merges: Merges::default(),
        }
    }

    /// Merges a log block with its data block: a switch or a partial merge if it is in order, else a
    /// full one.
    fn merge<O: NandObserver>(&mut self, nand: &mut Nand<O>, at: u32) -> Result<(), OutOfBlocks> {
        let log = self.logs[at as usize];
        if log.in_order {
            let rest = nand.written(log.block)..nand.geometry().pages_per_block;
            let copies = self.data.gather(nand, log.logical_block, rest, log.block, NandCause::Merge);
            self.data.replace(nand, log.logical_block, log.block, NandCause::Merge);
            match copies {
                0 => self.merges.switch += 1,
                _ => self.merges.partial += 1,
            }
        } else {
            let hot = Temperature::Hot;
            self.data.merge_fully(nand, log.logical_block, hot, NandCause::Merge)?;
            self.data.release(nand, log.block, NandCause::Merge);
            self.merges.full += 1;
        }
        self.log_of[log.logical_block as usize] = NONE;
        self.logs.swap_remove(at as usize);
        if let Some(moved) = self.logs.get(at as usize) {
            self.log_of[moved.logical_block as usize] = at;
        }
        self.data.level_wear(nand, |logical_block| self.log_of[logical_block as usize] != NONE)
    }

    /// Merges the log block of a logical block if it is full; true if it was.
    fn merge_if_full<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical_block: u32) -> Result<bool, OutOfBlocks> {
        let at = self.log_of[logical_block as usize];
        let full = at != NONE && nand.is_full(self.logs[at as usize].block);
        if full {
            self.merge(nand, at)?;
        }
        Ok(full)
    }

    /// The log block of a logical block, which has room for a page if there is one already.
    fn open_log<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical_block: u32) -> Result<u32, OutOfBlocks> {
        let at = self.log_of[logical_block as usize];
        if at != NONE {
            return Ok(at);
        }
        if self.logs.len() as u32 == self.log_blocks {
            let least_recent = (0..self.logs.len()).min_by_key(|&at| self.logs[at].last_write);
            if let Some(at) = least_recent {
                self.merge(nand, at as u32)?;
            }
        }
        let block = self.data.take(nand, Temperature::Hot)?;
        let at = self.logs.len() as u32;
        self.logs.push(LogBlock { logical_block, block, in_order: true, last_write: self.writes });
        self.log_of[logical_block as usize] = at;
        Ok(at)
    }
}

impl<O: NandObserver> TranslationLayer<O> for Bast {
    fn read(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.data.read(nand, logical);
        Ok(())
    }

    fn write(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.writes += 1;
        if self.data.write_in_place(nand, logical)? {
            return Ok(());
        }
        let (logical_block, offset) = self.data.split(logical);
        // The merge may leave the page's slot of the data block blank, or no data block if all pages were
        // trimmed. The page must then go to the data block: one written there later must not follow a page in
        // a log block that is in order.
        if self.merge_if_full(nand, logical_block)? && self.data.write_in_place(nand, logical)? {
            return Ok(());
        }
        let at = self.open_log(nand, logical_block)?;
        let log = &mut self.logs[at as usize];
        let slot = nand.written(log.block);
        log.in_order &= slot == offset;
        log.last_write = self.writes;
        let LogBlock { block, in_order, .. } = *log;
        self.data.program(nand, logical, block, slot);
        if in_order && nand.is_full(block) {
            self.merge(nand, at)?;
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
