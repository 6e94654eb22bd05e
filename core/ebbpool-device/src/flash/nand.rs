//! The chip: blocks that are erased as a whole and programmed page by page, and their wear.

use serde::{Deserialize, Serialize};

use super::chips::Timing;
use super::clock::{Clock, DieNanos};
use super::geometry::Geometry;

/// The number that stands for no page and no block.
pub(super) const NONE: u32 = u32::MAX;
/// Owner of a page that was not programmed since its block was erased.
const BLANK: u32 = u32::MAX;
/// Owner of a page whose content was superseded or trimmed.
const STALE: u32 = u32::MAX - 1;

/// The reason for an operation of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NandCause {
    /// A request of the host.
    Host = 0,
    /// Valid pages are moved out of a block that is cleaned (page-mapped layers).
    Cleaning = 1,
    /// Log and data blocks are merged (block-mapped and hybrid layers).
    Merge = 2,
    /// The mapping table itself is read or written (DFTL).
    Map = 3,
    /// Cold data are moved to level wear.
    Wear = 4,
}

/// Operations of one kind, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountsByCause {
    /// For the host.
    pub host: u64,
    /// For cleaning.
    pub cleaning: u64,
    /// For merges.
    pub merge: u64,
    /// For the mapping table.
    pub map: u64,
    /// For wear levelling.
    pub wear: u64,
}

impl CountsByCause {
    fn from_counts(counts: &[u64; 5]) -> Self {
        Self {
            host: counts[NandCause::Host as usize],
            cleaning: counts[NandCause::Cleaning as usize],
            merge: counts[NandCause::Merge as usize],
            map: counts[NandCause::Map as usize],
            wear: counts[NandCause::Wear as usize],
        }
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        self.host + self.cleaning + self.merge + self.map + self.wear
    }
}

/// Is notified of every operation of the chip in order. `()` ignores them at no cost; a program that
/// needs an operation log, or page contents, implements it. Pages are physical page numbers
/// (see [`Geometry::page`]), owners logical page numbers; owners from the device's number of logical
/// pages up are pages of the mapping table.
pub trait NandObserver {
    /// A page was read, other than to copy it.
    fn read(&mut self, page: u32, cause: NandCause);
    /// New content was programmed into a page.
    fn programmed(&mut self, page: u32, owner: u32, cause: NandCause);
    /// The content of `from` was programmed into `to`.
    fn copied(&mut self, from: u32, to: u32, owner: u32, cause: NandCause);
    /// All pages of a block were erased.
    fn erased(&mut self, block: u32);
    /// An erase failed: the block is bad and is not used again.
    fn retired(&mut self, block: u32);
}

impl NandObserver for () {
    #[inline]
    fn read(&mut self, _: u32, _: NandCause) {}
    #[inline]
    fn programmed(&mut self, _: u32, _: u32, _: NandCause) {}
    #[inline]
    fn copied(&mut self, _: u32, _: u32, _: u32, _: NandCause) {}
    #[inline]
    fn erased(&mut self, _: u32) {}
    #[inline]
    fn retired(&mut self, _: u32) {}
}

/// The chip. Within a block pages are programmed in ascending order; a page that is skipped can be
/// programmed only after the next erase.
#[derive(Clone)]
pub(super) struct Nand<O> {
    geometry: Geometry,
    /// By page number: the logical page stored there, or [`BLANK`] or [`STALE`].
    owner: Vec<u32>,
    /// By block: the first slot that is not programmed, nor any after it.
    written: Vec<u32>,
    /// By block: pages that hold current content.
    valid: Vec<u32>,
    wear: Wear,
    timing: Timing,
    clock: Clock,
    reads: [u64; 5],
    programs: [u64; 5],
    erases: [u64; 5],
    pub(super) observer: O,
}

/// Erases of every block.
#[derive(Clone)]
pub(super) struct Wear {
    endurance: u32,
    erases: Vec<u32>,
    bad: Vec<bool>,
    bad_blocks: u32,
    /// The number of good blocks at each number of erases, so that finding the least takes no search.
    good_at: Vec<u32>,
    least: u32,
    most: u32,
}

impl Wear {
    fn new(blocks: u32, endurance: u32) -> Self {
        Self {
            endurance,
            erases: vec![0; blocks as usize],
            bad: vec![false; blocks as usize],
            bad_blocks: 0,
            good_at: vec![blocks],
            least: 0,
            most: 0,
        }
    }

    /// Counts an erase; false if it failed because the block is worn out.
    fn erase(&mut self, block: u32) -> bool {
        let before = self.erases[block as usize];
        self.good_at[before as usize] -= 1;
        let good = before < self.endurance;
        if good {
            let after = before + 1;
            self.erases[block as usize] = after;
            if self.good_at.len() <= after as usize {
                self.good_at.push(0);
            }
            self.good_at[after as usize] += 1;
            self.most = self.most.max(after);
        } else {
            self.bad[block as usize] = true;
            self.bad_blocks += 1;
        }
        while self.good_at[self.least as usize] == 0 && self.least < self.most {
            self.least += 1;
        }
        good
    }

    #[inline]
    pub(super) fn erases_of(&self, block: u32) -> u32 {
        self.erases[block as usize]
    }

    /// The least erases of a good block.
    pub(super) fn least(&self) -> u32 {
        self.least
    }

    /// The most erases of a block.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    pub(super) fn bad_blocks(&self) -> u32 {
        self.bad_blocks
    }

    /// Erases of every block, bad ones included.
    pub(super) fn all(&self) -> &[u32] {
        &self.erases
    }

    pub(super) fn endurance(&self) -> u32 {
        self.endurance
    }
}

impl<O: NandObserver> Nand<O> {
    pub(super) fn new(geometry: Geometry, timing: Timing, clock: Clock, observer: O) -> Self {
        let blocks = geometry.blocks as usize;
        Self {
            geometry,
            owner: vec![BLANK; geometry.page_numbers()],
            written: vec![0; blocks],
            valid: vec![0; blocks],
            wear: Wear::new(geometry.blocks, timing.endurance()),
            timing,
            clock,
            reads: [0; 5],
            programs: [0; 5],
            erases: [0; 5],
            observer,
        }
    }

    #[inline]
    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn wear(&self) -> &Wear {
        &self.wear
    }

    #[inline]
    pub(super) fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// How long the dies have worked since the device was new.
    pub(super) fn worked(&self) -> DieNanos {
        self.clock.worked()
    }

    /// The first slot of the block that is not programmed, nor any after it.
    #[inline]
    pub(super) fn written(&self, block: u32) -> u32 {
        self.written[block as usize]
    }

    #[inline]
    pub(super) fn is_full(&self, block: u32) -> bool {
        self.written(block) == self.geometry.pages_per_block
    }

    /// Pages that can still be programmed.
    pub(super) fn room(&self, block: u32) -> u32 {
        self.geometry.pages_per_block - self.written(block)
    }

    /// Pages of the block with current content.
    #[inline]
    pub(super) fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }

    /// Pages with current content of every block.
    pub(super) fn valid_by_block(&self) -> &[u32] {
        &self.valid
    }

    /// The logical page whose current content the page holds.
    #[inline]
    pub(super) fn owner(&self, page: u32) -> Option<u32> {
        let owner = self.owner[page as usize];
        (owner < STALE).then_some(owner)
    }

    /// Reads a page.
    #[inline]
    pub(super) fn read(&mut self, page: u32, cause: NandCause) {
        let block = self.geometry.block(page);
        let array = self.timing.read(self.geometry.slot(page));
        self.clock.read(block, array, self.timing.transfer());
        self.reads[cause as usize] += 1;
        self.observer.read(page, cause);
    }

    /// Programs new content for `owner` into the next slot of a block that is not full; returns the page.
    #[inline]
    pub(super) fn program(&mut self, block: u32, owner: u32, cause: NandCause) -> u32 {
        self.program_at(block, self.written(block), owner, cause)
    }

    /// Programs new content for `owner` into a slot behind all programmed ones; returns the page.
    #[inline]
    pub(super) fn program_at(&mut self, block: u32, slot: u32, owner: u32, cause: NandCause) -> u32 {
        let page = self.occupy(block, slot, owner);
        let array = self.timing.program(slot);
        self.clock.program(block, 0, array, self.timing.transfer());
        self.programs[cause as usize] += 1;
        self.observer.programmed(page, owner, cause);
        page
    }

    /// Moves a valid page into the next slot of a block that is not full; returns its new page.
    #[inline]
    pub(super) fn copy(&mut self, from: u32, block: u32, owner: u32, cause: NandCause) -> u32 {
        self.copy_to(from, block, self.written(block), owner, cause)
    }

    /// Moves a valid page into a slot behind all programmed ones; returns its new page.
    #[inline]
    pub(super) fn copy_to(&mut self, from: u32, block: u32, slot: u32, owner: u32, cause: NandCause) -> u32 {
        let array = self.timing.read(self.geometry.slot(from));
        let transfer = self.timing.transfer();
        let source = self.geometry.block(from);
        let sensed = self.clock.read(source, array, transfer);
        self.clock.program(block, sensed, self.timing.program(slot), transfer);
        self.reads[cause as usize] += 1;
        self.programs[cause as usize] += 1;
        let page = self.occupy(block, slot, owner);
        self.invalidate(from);
        self.observer.copied(from, page, owner, cause);
        page
    }

    #[inline]
    fn occupy(&mut self, block: u32, slot: u32, owner: u32) -> u32 {
        debug_assert!(slot < self.geometry.pages_per_block, "block {block} is full");
        debug_assert!(slot >= self.written(block), "out of order in block {block}");
        let page = self.geometry.page(block, slot);
        debug_assert_eq!(self.owner[page as usize], BLANK, "page {page} not erased");
        self.owner[page as usize] = owner;
        self.written[block as usize] = slot + 1;
        self.valid[block as usize] += 1;
        page
    }

    /// Marks the content of a page as superseded or trimmed; returns the page's block.
    #[inline]
    pub(super) fn invalidate(&mut self, page: u32) -> u32 {
        let block = self.geometry.block(page);
        debug_assert!(self.owner[page as usize] < STALE, "page {page} not valid");
        self.owner[page as usize] = STALE;
        self.valid[block as usize] -= 1;
        block
    }

    /// Erases a block without valid pages; false if it is worn out: then it is bad from now on.
    pub(super) fn erase(&mut self, block: u32, cause: NandCause) -> bool {
        debug_assert_eq!(self.valid(block), 0, "block {block} still has valid pages");
        self.clock.erase(block, self.timing.erase());
        let good = self.wear.erase(block);
        if good {
            let first = self.geometry.page(block, 0) as usize;
            let end = first + self.written(block) as usize;
            self.owner[first..end].fill(BLANK);
            self.written[block as usize] = 0;
            self.erases[cause as usize] += 1;
            self.observer.erased(block);
        } else {
            self.observer.retired(block);
        }
        good
    }

    pub(super) fn reads(&self) -> CountsByCause {
        CountsByCause::from_counts(&self.reads)
    }

    pub(super) fn programs(&self) -> CountsByCause {
        CountsByCause::from_counts(&self.programs)
    }

    pub(super) fn erases(&self) -> CountsByCause {
        CountsByCause::from_counts(&self.erases)
    }

    #[inline]
    pub(super) fn programs_so_far(&self) -> u64 {
        self.programs.iter().sum()
    }

    /// Sets the counters to zero; wear stays.
    pub(super) fn reset_counters(&mut self) {
        self.reads = [0; 5];
        self.programs = [0; 5];
        self.erases = [0; 5];
    }

    /// Makes every block as new, with its content; only for a device without bad blocks.
    pub(super) fn forget_wear(&mut self) {
        debug_assert_eq!(self.wear.bad_blocks(), 0, "a bad block came back");
        self.wear = Wear::new(self.geometry.blocks, self.timing.endurance());
    }

    /// Keeps blocks from wearing out until [`Self::forget_wear`].
    pub(super) fn suspend_wear_out(&mut self) {
        self.wear.endurance = u32::MAX;
    }
}
