//! DFTL (Gupta, Kim and Urgaonkar, ASPLOS 2009): page mapping whose table lies on flash in pages of
//! its own, with the most recently used entries in memory.

use super::super::nand::{NONE, Nand, NandCause, NandObserver};
use super::OutOfBlocks;
use super::page_map::MapStorage;
use super::rotation::{Frontier, Rotation};

/// Bytes of a mapping entry on flash.
pub(in super::super) const ENTRY_BYTES: u32 = 4;

/// The cached mapping table: which entries are in memory, least recently used first, and which of
/// them differ from flash. The rotation stores the physical pages themselves.
#[derive(Clone)]
pub(in super::super) struct CachedMap {
    entries_per_page: u32,
    /// By logical page: its entry in `entries`.
    entry_of: Vec<u32>,
    entries: Vec<Entry>,
    capacity: u32,
    oldest: u32,
    newest: u32,
    /// Pages of the table that cleaning must rewrite.
    outdated: Vec<u32>,
}

#[derive(Clone)]
struct Entry {
    logical: u32,
    older: u32,
    newer: u32,
    dirty: bool,
}

impl CachedMap {
    /// A table for `logical_pages` pages; `capacity` entries (at least 1) fit in memory.
    pub(in super::super) fn new(logical_pages: u32, page_bytes: u32, capacity: u32) -> Self {
        Self {
            entries_per_page: entries_per_page(page_bytes),
            entry_of: vec![NONE; logical_pages as usize],
            entries: Vec::with_capacity(capacity.min(logical_pages) as usize),
            capacity: capacity.clamp(1, logical_pages),
            oldest: NONE,
            newest: NONE,
            outdated: Vec::new(),
        }
    }

    fn unlink(&mut self, at: u32) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let newest = self.newest;
        self.entries[at as usize].older = newest;
        self.entries[at as usize].newer = NONE;
        match newest {
            NONE => self.oldest = at,
            newest => self.entries[newest as usize].newer = at,
        }
        self.newest = at;
    }

    /// Reads a page of the table (numbered from 0), if it was ever written, and writes it with the
    /// changed entries in memory.
    fn rewrite<O: NandObserver>(
        &mut self,
        rotation: &mut Rotation,
        nand: &mut Nand<O>,
        map_page: u32,
    ) -> Result<(), OutOfBlocks> {
        let owner = rotation.logical_pages() + map_page;
        if let Some(page) = rotation.page_of(owner) {
            nand.read(page, NandCause::Map);
        }
        rotation.append(nand, owner, Frontier::Map, NandCause::Map)?;
        let first = (map_page * self.entries_per_page) as usize;
        let end = (first + self.entries_per_page as usize).min(self.entry_of.len());
        for &at in &self.entry_of[first..end] {
            if at != NONE {
                self.entries[at as usize].dirty = false;
            }
        }
        Ok(())
    }
}

/// Mapping entries in a page of the table.
pub(in super::super) fn entries_per_page(page_bytes: u32) -> u32 {
    (page_bytes / ENTRY_BYTES).max(1)
}

impl MapStorage for CachedMap {
    #[inline]
    fn lookup_may_write(&self, logical: u32) -> bool {
        self.entry_of[logical as usize] == NONE && self.entries.len() >= self.capacity as usize
    }

    fn access<O: NandObserver>(
        &mut self,
        rotation: &mut Rotation,
        nand: &mut Nand<O>,
        logical: u32,
        changes: bool,
    ) -> Result<(), OutOfBlocks> {
        let found = self.entry_of[logical as usize];
        if found != NONE {
            self.unlink(found);
            self.link_newest(found);
            self.entries[found as usize].dirty |= changes;
            return Ok(());
        }
        let at = if (self.entries.len() as u32) < self.capacity {
            self.entries.push(Entry { logical, older: NONE, newer: NONE, dirty: false });
            self.entries.len() as u32 - 1
        } else {
            let oldest = self.oldest;
            let Entry { logical: evicted, dirty, .. } = self.entries[oldest as usize];
            if dirty {
                self.rewrite(rotation, nand, evicted / self.entries_per_page)?;
            }
            self.entry_of[evicted as usize] = NONE;
            self.unlink(oldest);
            oldest
        };
        let owner = rotation.logical_pages() + logical / self.entries_per_page;
        if let Some(page) = rotation.page_of(owner) {
            nand.read(page, NandCause::Map);
        }
        self.entries[at as usize].logical = logical;
        self.entries[at as usize].dirty = changes;
        self.entry_of[logical as usize] = at;
        self.link_newest(at);
        Ok(())
    }

    fn follow<O: NandObserver>(&mut self, rotation: &mut Rotation, nand: &mut Nand<O>) -> Result<(), OutOfBlocks> {
        let mut outdated = std::mem::take(&mut self.outdated);
        outdated.clear();
        for logical in rotation.moved().drain(..) {
            match self.entry_of[logical as usize] {
                NONE => outdated.push(logical / self.entries_per_page),
                cached => self.entries[cached as usize].dirty = true,
            }
        }
        outdated.sort_unstable();
        outdated.dedup();
        let result = outdated.iter().try_for_each(|&page| self.rewrite(rotation, nand, page));
        self.outdated = outdated;
        result
    }
}
