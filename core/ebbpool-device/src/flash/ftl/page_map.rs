//! Page mapping: a write goes to the next page of an open block, wherever that is.

use super::super::nand::{Nand, NandCause, NandObserver};
use super::rotation::{Frontier, Rotation, RotationPlan};
use super::{Merges, OutOfBlocks, TranslationLayer};

/// Where the mapping table is stored, and what accesses to it cost.
pub(in super::super) trait MapStorage {
    /// True if looking up the entry may write to flash.
    fn lookup_may_write(&self, logical: u32) -> bool;

    /// Looks an entry up, and changes it if `changes`.
    fn access<O: NandObserver>(
        &mut self,
        rotation: &mut Rotation,
        nand: &mut Nand<O>,
        logical: u32,
        changes: bool,
    ) -> Result<(), OutOfBlocks>;

    /// Updates the table for the pages in `rotation.moved()`, which have moved.
    fn follow<O: NandObserver>(&mut self, rotation: &mut Rotation, nand: &mut Nand<O>) -> Result<(), OutOfBlocks>;
}

/// The whole table is in memory and costs nothing.
#[derive(Clone)]
pub(in super::super) struct ResidentMap;

impl MapStorage for ResidentMap {
    #[inline]
    fn lookup_may_write(&self, _: u32) -> bool {
        false
    }

    #[inline]
    fn access<O: NandObserver>(&mut self, _: &mut Rotation, _: &mut Nand<O>, _: u32, _: bool) -> Result<(), OutOfBlocks> {
        Ok(())
    }

    #[inline]
    fn follow<O: NandObserver>(&mut self, _: &mut Rotation, _: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        Ok(())
    }
}

/// A page-mapped layer.
#[derive(Clone)]
pub(in super::super) struct PageMapped<M> {
    rotation: Rotation,
    storage: M,
    merges: Merges,
}

impl<M: MapStorage> PageMapped<M> {
    pub(in super::super) fn new(blocks: u32, plan: RotationPlan, storage: M) -> Self {
        Self { rotation: Rotation::new(blocks, plan), storage, merges: Merges::default() }
    }

    #[inline]
    fn make_room<O: NandObserver>(&mut self, nand: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        if self.rotation.is_short() {
            self.clean(nand)?;
        }
        Ok(())
    }

    fn clean<O: NandObserver>(&mut self, nand: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        let mut emptiest = false;
        while self.rotation.is_short() {
            self.rotation.clean_one(nand, emptiest)?;
            self.storage.follow(&mut self.rotation, nand)?;
            // With the table on flash a victim may cost more pages than it frees. A policy that ignores
            // costs could clean for ever, so it chooses one victim per request.
            emptiest = self.rotation.has_map_pages();
        }
        // At most one block per cleaning, so that no single request pays for all cold data.
        if self.rotation.is_wear_uneven(nand) && self.rotation.level_wear(nand)? {
            self.storage.follow(&mut self.rotation, nand)?;
        }
        Ok(())
    }
}

impl<O: NandObserver, M: MapStorage> TranslationLayer<O> for PageMapped<M> {
    fn read(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        // The data are read first: a table that finds no room must not make a page unreadable.
        if let Some(page) = self.rotation.page_of(logical) {
            nand.read(page, NandCause::Host);
        }
        // A read does not pay for the room that a write has taken.
        if self.storage.lookup_may_write(logical) {
            self.make_room(nand)?;
        }
        self.storage.access(&mut self.rotation, nand, logical, false)
    }

    #[inline]
    fn write(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        self.make_room(nand)?;
        self.storage.access(&mut self.rotation, nand, logical, true)?;
        self.rotation.tick();
        self.rotation.append(nand, logical, Frontier::Host, NandCause::Host)
    }

    fn trim(&mut self, nand: &mut Nand<O>, logical: u32) -> Result<(), OutOfBlocks> {
        if self.rotation.page_of(logical).is_some() {
            self.make_room(nand)?;
            self.storage.access(&mut self.rotation, nand, logical, true)?;
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
