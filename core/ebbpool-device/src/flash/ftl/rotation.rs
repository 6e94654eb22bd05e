//! Blocks in rotation: data are appended to open blocks, full blocks are closed, cleaned and erased.

use super::super::cleaning::{Cleaner, VictimView};
use super::super::nand::{NONE, Nand, NandCause, NandObserver};
use super::super::wear::{FreeBlocks, Temperature, WearLevelling};
use super::OutOfBlocks;

/// An open block that data are appended to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Frontier {
    /// Data that the host writes.
    Host,
    /// Data that cleaning moved; the same block as `Host` with one frontier.
    Cleaned,
    /// Pages of the mapping table.
    Map,
    /// Data that static wear levelling moved out of the least worn blocks.
    Moved,
}

/// Which open blocks the data of host and cleaning go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Placement {
    /// All to the same block.
    Together,
    /// Data moved by cleaning to another block than data written by the host.
    CleanedApart,
    /// Logical pages from `first` on to another block than those below it, as a device could do that
    /// knew how hot each page is. No device knows that, so this is a bound for tests.
    #[cfg(test)]
    ColdApart { first: u32 },
}

/// How many kinds of frontier there are.
const FRONTIERS: usize = 4;
/// Indices of the open blocks for data that are expected to stay valid.
const COLD: usize = 1;
const MOVED: usize = 3;

/// Blocks whose pages are mapped one by one.
#[derive(Clone)]
pub(in super::super) struct Rotation {
    /// By logical page, then by page of the mapping table: the physical page.
    map: Vec<u32>,
    logical_pages: u32,
    open: [u32; FRONTIERS],
    placement: Placement,
    closed: Vec<bool>,
    closed_pages: u64,
    closed_valid: u64,
    /// By block: its valid pages that belong to the mapping table; empty if the table is in memory.
    map_valid: Vec<u32>,
    free: FreeBlocks,
    reserve: u32,
    cleaner: Cleaner,
    host_writes: u64,
    /// Logical pages that the last cleaning or relocation moved; recorded only where a table on flash
    /// must be updated.
    moved: Vec<u32>,
}

/// The parameters of a rotation.
#[derive(Clone)]
pub(in super::super) struct RotationPlan {
    pub(in super::super) logical_pages: u32,
    /// Pages of the mapping table on flash.
    pub(in super::super) map_pages: u32,
    pub(in super::super) placement: Placement,
    /// Erased blocks reserved for cleaning.
    pub(in super::super) reserve: u32,
    pub(in super::super) wear: WearLevelling,
    pub(in super::super) cleaner: Cleaner,
}

impl Rotation {
    pub(super) fn new(blocks: u32, plan: RotationPlan) -> Self {
        Self {
            map: vec![NONE; (plan.logical_pages + plan.map_pages) as usize],
            logical_pages: plan.logical_pages,
            open: [NONE; FRONTIERS],
            placement: plan.placement,
            closed: vec![false; blocks as usize],
            closed_pages: 0,
            closed_valid: 0,
            map_valid: match plan.map_pages {
                0 => Vec::new(),
                _ => vec![0; blocks as usize],
            },
            free: FreeBlocks::new(blocks, plan.wear),
            reserve: plan.reserve,
            cleaner: plan.cleaner,
            host_writes: 0,
            moved: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// True if the mapping table, or some of it, is on flash.
    pub(super) fn has_map_pages(&self) -> bool {
        self.map.len() > self.logical_pages as usize
    }

    #[inline]
    pub(super) fn page_of(&self, owner: u32) -> Option<u32> {
        let page = self.map.get(owner as usize).copied();
        page.filter(|&page| page != NONE)
    }

    pub(super) fn moved(&mut self) -> &mut Vec<u32> {
        &mut self.moved
    }

    pub(super) fn is_closed(&self, block: u32) -> bool {
        self.closed[block as usize]
    }

    /// Counts a host write, which is the unit of age.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.host_writes += 1;
    }

    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.free.len() < self.reserve
    }

    /// The index of the open block for a page of this kind.
    #[inline]
    #[cfg_attr(not(test), expect(unused_variables, reason = "only an oracle looks at the page"))]
    fn index(&self, frontier: Frontier, owner: u32) -> usize {
        match (frontier, self.placement) {
            (Frontier::Map, _) => 2,
            (Frontier::Moved, _) => MOVED,
            (_, Placement::Together) => 0,
            (Frontier::Host, Placement::CleanedApart) => 0,
            (Frontier::Cleaned, Placement::CleanedApart) => COLD,
            #[cfg(test)]
            (_, Placement::ColdApart { first }) if owner < first => 0,
            #[cfg(test)]
            (_, Placement::ColdApart { .. }) => COLD,
        }
    }

    /// The open block at `index`, with room for one more page.
    #[inline]
    fn open_block<O: NandObserver>(&mut self, nand: &Nand<O>, index: usize) -> Result<u32, OutOfBlocks> {
        let block = self.open[index];
        if block != NONE && !nand.is_full(block) {
            return Ok(block);
        }
        self.open_next(nand, index)
    }

    fn open_next<O: NandObserver>(&mut self, nand: &Nand<O>, index: usize) -> Result<u32, OutOfBlocks> {
        let temperature = match index {
            COLD | MOVED => Temperature::Cold,
            _ => Temperature::Hot,
        };
        let next = self.free.take(nand.wear(), temperature).ok_or(OutOfBlocks)?;
        let full = std::mem::replace(&mut self.open[index], next);
        if full != NONE {
            self.close(nand, full);
        }
        Ok(next)
    }

    fn close<O: NandObserver>(&mut self, nand: &Nand<O>, block: u32) {
        let valid = nand.valid(block);
        self.closed[block as usize] = true;
        self.closed_pages += u64::from(nand.geometry().pages_per_block);
        self.closed_valid += u64::from(valid);
        self.cleaner.add(block, valid, self.host_writes);
    }

    fn remove_closed<O: NandObserver>(&mut self, nand: &Nand<O>, block: u32) {
        let valid = nand.valid(block);
        self.closed[block as usize] = false;
        self.closed_pages -= u64::from(nand.geometry().pages_per_block);
        self.closed_valid -= u64::from(valid);
        self.cleaner.remove(block, valid);
    }

    /// Programs new content of a logical page or of a page of the mapping table.
    #[inline]
    pub(super) fn append<O: NandObserver>(
        &mut self,
        nand: &mut Nand<O>,
        owner: u32,
        frontier: Frontier,
        cause: NandCause,
    ) -> Result<(), OutOfBlocks> {
        let block = self.open_block(nand, self.index(frontier, owner))?;
        let page = nand.program(block, owner, cause);
        let before = std::mem::replace(&mut self.map[owner as usize], page);
        if before != NONE {
            self.invalidate(nand, before);
        }
        if owner >= self.logical_pages {
            self.map_page_moved(nand, before, block);
        }
        Ok(())
    }

    /// Unmaps a logical page; false if it was not mapped.
    pub(super) fn forget<O: NandObserver>(&mut self, nand: &mut Nand<O>, logical: u32) -> bool {
        let before = std::mem::replace(&mut self.map[logical as usize], NONE);
        if before == NONE {
            return false;
        }
        self.invalidate(nand, before);
        true
    }

    #[inline]
    fn invalidate<O: NandObserver>(&mut self, nand: &mut Nand<O>, page: u32) {
        let block = nand.invalidate(page);
        if self.closed[block as usize] {
            self.closed_valid -= 1;
            self.cleaner.page_invalidated(block, nand.valid(block), self.host_writes);
        }
    }

    /// Cleans one block: the policy's victim, or with `emptiest` the block with the fewest valid pages.
    pub(super) fn clean_one<O: NandObserver>(&mut self, nand: &mut Nand<O>, emptiest: bool) -> Result<(), OutOfBlocks> {
        if self.closed_valid == self.closed_pages {
            return Err(OutOfBlocks);
        }
        let victim = match emptiest {
            true => self.emptiest(nand),
            false => self.choose(nand),
        };
        let victim = victim.ok_or(OutOfBlocks)?;
        if !self.can_save(nand, victim, Frontier::Cleaned) {
            return Err(OutOfBlocks);
        }
        self.remove_closed(nand, victim);
        self.save(nand, victim, Frontier::Cleaned, NandCause::Cleaning)?;
        if nand.erase(victim, NandCause::Cleaning) {
            self.free.put(victim);
        }
        Ok(())
    }

    /// The closed block with the fewest valid pages. Rewriting pages of the table for moved data does
    /// not count against it: each rewrite leaves a stale page that is soon cheap to clean.
    fn emptiest<O: NandObserver>(&self, nand: &Nand<O>) -> Option<u32> {
        let closed = (0..nand.geometry().blocks).filter(|&block| self.is_closed(block));
        closed.min_by_key(|&block| nand.valid(block))
    }

    fn choose<O: NandObserver>(&mut self, nand: &Nand<O>) -> Option<u32> {
        let view = VictimView { wear: nand.wear(), valid: nand.valid_by_block(), now: self.host_writes };
        self.cleaner.victim(&view)
    }

    fn map_pages_in(&self, block: u32) -> u32 {
        self.map_valid.get(block as usize).copied().unwrap_or(0)
    }

    fn map_page_moved<O: NandObserver>(&mut self, nand: &Nand<O>, from: u32, to: u32) {
        if from != NONE {
            self.map_valid[nand.geometry().block(from) as usize] -= 1;
        }
        self.map_valid[to as usize] += 1;
    }

    /// True if there is room for all valid pages of a block, with its data pages going to `frontier`.
    fn can_save<O: NandObserver>(&self, nand: &Nand<O>, block: u32, frontier: Frontier) -> bool {
        let map = self.map_pages_in(block);
        let data = nand.valid(block) - map;
        let blocks_for = |pages: u32, frontier: Frontier| {
            let open = self.open[self.index(frontier, 0)];
            let room = if open == NONE { 0 } else { nand.room(open) };
            pages.saturating_sub(room).div_ceil(nand.geometry().pages_per_block)
        };
        let needed = blocks_for(data, frontier) + blocks_for(map, Frontier::Map);
        needed <= self.free.len()
    }

    /// Moves all valid pages out of a block, data pages to `frontier`.
    fn save<O: NandObserver>(
        &mut self,
        nand: &mut Nand<O>,
        block: u32,
        frontier: Frontier,
        cause: NandCause,
    ) -> Result<(), OutOfBlocks> {
        let record_moves = self.has_map_pages();
        self.moved.clear();
        for slot in 0..nand.written(block) {
            let from = nand.geometry().page(block, slot);
            let Some(owner) = nand.owner(from) else {
                continue;
            };
            let is_data = owner < self.logical_pages;
            let to = if is_data { frontier } else { Frontier::Map };
            let target = self.open_block(nand, self.index(to, owner))?;
            self.map[owner as usize] = nand.copy(from, target, owner, cause);
            if !is_data {
                self.map_page_moved(nand, from, target);
            }
            if record_moves && is_data {
                self.moved.push(owner);
            }
        }
        Ok(())
    }

    /// True if static wear levelling should move some block's data.
    pub(super) fn is_wear_uneven<O: NandObserver>(&self, nand: &Nand<O>) -> bool {
        self.free.levelling().is_due(nand.wear())
    }

    /// Moves the data of the least worn closed block to a block that was the most worn free one when it
    /// was opened; false if no closed block is so little worn. The data of several such blocks fill that
    /// block: if it were closed half empty it would be the next victim, and wear out.
    pub(super) fn level_wear<O: NandObserver>(&mut self, nand: &mut Nand<O>) -> Result<bool, OutOfBlocks> {
        let closed = (0..nand.geometry().blocks).filter(|&block| self.is_closed(block));
        let Some(block) = closed.min_by_key(|&block| nand.wear().erases_of(block)) else {
            return Ok(false);
        };
        let erases = nand.wear().erases_of(block);
        if !self.free.levelling().is_underworn(erases, nand.wear()) {
            return Ok(false);
        }
        if !self.can_save(nand, block, Frontier::Moved) {
            return Ok(false);
        }
        self.remove_closed(nand, block);
        self.save(nand, block, Frontier::Moved, NandCause::Wear)?;
        if nand.erase(block, NandCause::Wear) {
            self.free.put(block);
        }
        Ok(true)
    }
}
