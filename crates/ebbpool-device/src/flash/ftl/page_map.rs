//! Page mapping: a write goes to the next page of an open block, wherever that is.

use super::super::nand::{Cause, Nand, Observer};
use super::rotation::{Frontier, Rotation, RotationPlan};
use super::{Merges, OutOfBlocks, TranslationLayer};

/// Where the mapping table is, and what it costs to use.
pub(in super::super) trait MapHome {
    /// True if looking up the entry may write to flash.
    fn lookup_may_write(&self, logical: u32) -> bool;

    /// An entry is looked up, and changed if `changes`.
    fn access<O: Observer>(
        &mut self,
        rotation: &mut Rotation,
        nand: &mut Nand<O>,
        logical: u32,
        changes: bool,
    ) -> Result<(), OutOfBlocks>;

    /// The pages in `rotation.moved()` have new places.
    fn follow<O: Observer>(
        &mut self,
        rotation: &mut Rotation,
        nand: &mut Nand<O>,
    ) -> Result<(), OutOfBlocks>;
}

/// The whole table is in memory and costs nothing.
#[derive(Clone)]
pub(in super::super) struct ResidentMap;

impl MapHome for ResidentMap {
    #[inline]
    fn lookup_may_write(&self, _: u32) -> bool {
        false
    }

    #[inline]
    fn access<O: Observer>(
        &mut self,
        _: &mut Rotation,
        _: &mut Nand<O>,
        _: u32,
        _: bool,
    ) -> Result<(), OutOfBlocks> {
        Ok(())
    }

    #[inline]
    fn follow<O: Observer>(
        &mut self,
        _: &mut Rotation,
        _: &mut Nand<O>,
    ) -> Result<(), OutOfBlocks> {
        Ok(())
    }
}

/// A page-mapped layer.
#[derive(Clone)]
pub(in super::super) struct PageMapped<M> {
    rotation: Rotation,
    home: M,
    merges: Merges,
}

impl<M: MapHome> PageMapped<M> {
    pub(in super::super) fn new(blocks: u32, plan: RotationPlan, home: M) -> Self {
        Self {
            rotation: Rotation::new(blocks, plan),
            home,
            merges: Merges::default(),
        }
    }

    #[inline]
    fn make_room<O: Observer>(&mut self, nand: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        if self.rotation.is_short() {
            self.clean(nand)?;
        }
        Ok(())
    }

    fn clean<O: Observer>(&mut self, nand: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        let mut emptiest = false;
        while self.rotation.is_short() {
            self.rotation.clean_one(nand, emptiest)?;
            self.home.follow(&mut self.rotation, nand)?;
            // With the table on flash a victim may cost more pages than it frees. A policy that does
            // not look at costs could go on for ever, so it gets one choice a request.
            emptiest = self.rotation.has_map_pages();
        }
        // At most one block a cleaning, so that no single request pays for all cold data.
        if self.rotation.is_wear_uneven(nand) && self.rotation.level_wear(nand)? {
            self.home.follow(&mut self.rotation, nand)?;
        }
        Ok(())
    }
}

impl<O: Observer, M: MapHome> TranslationLayer<O> for PageMapped<M> {
    fn read(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        // The data come first: a table that finds no room must not make a page unreadable.
        if let Some(page) = self.rotation.page_of(logical) {
            nand.read(page, Cause::Host);
        }
        // A read does not pay for the room that a write has taken.
        if self.home.lookup_may_write(logical) {
            self.make_room(nand)?;
        }
        self.home.access(&mut self.rotation, nand, logical, false)
    }

    #[inline]
    fn write(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.make_room(nand)?;
        self.home.access(&mut self.rotation, nand, logical, true)?;
        self.rotation.tick();
        self.rotation
            .append(nand, logical, Frontier::Host, Cause::Host)
    }

    fn trim(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        if self.rotation.page_of(logical).is_some() {
            self.make_room(nand)?;
            self.home.access(&mut self.rotation, nand, logical, true)?;
            self.rotation.forget(nand, logical);
        }
        Ok(())
    }

    fn page_of(&self, logical: u32) -> Option<u32> {
        self.rotation.page_of(logical)
    }

    fn merges(&mut self) -> &mut Merges {
        &mut self.merges
    }

    fn closed(&self, nand: &Nand<O>) -> Option<Vec<u32>> {
        let closed = (0..nand.geometry().blocks).filter(|&block| self.rotation.is_closed(block));
        Some(closed.map(|block| nand.valid(block)).collect())
    }
}
