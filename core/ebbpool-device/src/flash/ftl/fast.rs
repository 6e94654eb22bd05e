//! FAST, fully associative sector translation (Lee et al., ACM Transactions on Embedded Computing
//! Systems 6(3), 2007): one log block takes a sequential stream, the others, in a ring, take all other
//! overwrites.

use std::collections::VecDeque;

use super::super::nand::{Nand, NandCause, NandObserver};
use super::super::wear::{Temperature, WearLevelling};
use super::data_blocks::DataBlocks;
use super::{Merges, OutOfBlocks, TranslationLayer};

/// The layer.
#[derive(Clone)]
pub(in super::super) struct Fast {
    data: DataBlocks,
    sequential: Option<SequentialLog>,
    /// Log blocks for everything else, oldest first; the last one is written to.
    random: VecDeque<u32>,
    random_blocks: usize,
    merges: Merges,
}

#[derive(Clone, Copy)]
struct SequentialLog {
    logical_block: u32,
    block: u32,
}

impl Fast {
    /// `log_blocks`, at least 2, counts the sequential one too.
    pub(in super::super) fn new(
        blocks: u32,
        pages_per_block: u32,
        logical_pages: u32,
        log_blocks: u32,
        wear: WearLevelling,
    ) -> Self {
        Self {
            data: DataBlocks::new(blocks, pages_per_block, logical_pages, wear),
            sequential: None,
            random: VecDeque::with_capacity(log_blocks as usize),
            random_blocks: log_blocks as usize - 1,
            merges: Merges::default(),
        }
    }

    /// The sequential log block becomes a data block, completed by copies if it is not full.
    fn merge_sequential<O: NandObserver>(&mut self, nand: &mut Nand<O>, log: SequentialLog) {
        let rest = nand.written(log.block)..nand.geometry().pages_per_block;
        let copies = self.data.gather(nand, log.logical_block, rest, log.block, NandCause::Merge);
        self.data.replace(nand, log.logical_block, log.block, NandCause::Merge);
        self.sequential = None;
        match copies {
            0 => self.merges.switch += 1,
            _ => self.merges.partial += 1,
        }
    }

    /// Frees the oldest random log block: every logical block that has a valid page in it is merged
    /// fully.
    fn reclaim<O: NandObserver>(&mut self, nand: &mut Nand<O>, victim: u32) -> Result<(), OutOfBlocks> {
        for slot in 0..nand.written(victim) {
            let Some(logical) = nand.owner(nand.geometry().page(victim, slot)) else {
                continue;
            };
            let (logical_block, _) = self.data.split(logical);
            self.data.merge_fully(nand, logical_block, Temperature::Hot, NandCause::Merge)?;
            self.merges.full += 1;
            if let Some(log) = self.sequential
                && log.logical_block == logical_block
            {
                self.data.release(nand, log.block, NandCause::Merge);
                self.sequential = None;
            }
        }
        self.random.pop_front();
        self.data.release(nand, victim, NandCause::Merge);
        self.level_wear(nand)
    }

    fn level_wear<O: NandObserver>(&mut self, nand: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        let sequential = self.sequential;
        self.data.level_wear(nand, |logical_block| sequential.is_some_and(|log| log.logical_block == logical_block))
    }

    fn write_sequentially<O: NandObserver>(
        &mut self,
        nand: &mut Nand<O>,
        logical: u32,
        log: SequentialLog,
    ) -> Result<(), OutOfBlocks> {
        let slot = nand.written(log.block);
        self.data.program(nand, logical, log.block, slot);
        if nand.is_full(log.block) {
            self.merge_sequential(nand, log);
            self.level_wear(nand)?;
        }
        Ok(())
    }

    fn write_randomly<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        let block = match self.random.back() {
            Some(&block) if !nand.is_full(block) => block,
            _ => {
                if self.random.len() == self.random_blocks
                    && let Some(&oldest) = self.random.front()
                {
                    self.reclaim(nand, oldest)?;
                }
                let block = self.data.take(nand, Temperature::Hot)?;
                self.random.push_back(block);
                block
            }
        };
        let slot = nand.written(block);
        self.data.program(nand, logical, block, slot);
        Ok(())
    }
}

impl<O: NandObserver> TranslationLayer<O> for Fast {
    fn read(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.data.read(nand, logical);
        Ok(())
    }

    fn write(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        let (logical_block, offset) = self.data.split(logical);
        let here = self.sequential.filter(|log| log.logical_block == logical_block);
        if let Some(log) = here
            && offset == nand.written(log.block)
        {
            return self.write_sequentially(nand, logical, log);
        }
        // While a sequential log block is open for this logical block its data block gets no new
        // pages: they would be lost when the log block, ahead of them, replaces it.
        if here.is_none() && self.data.write_in_place(nand, logical)? {
            return Ok(());
        }
        if offset > 0 {
            return self.write_randomly(nand, logical);
        }
        if let Some(log) = self.sequential {
            self.merge_sequential(nand, log);
            self.level_wear(nand)?;
        }
        let log = SequentialLog { logical_block, block: self.data.take(nand, Temperature::Hot)? };
        self.sequential = Some(log);
        self.write_sequentially(nand, logical, log)
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
