//! Shared by the generators of database benchmarks: a row store's heap files and B+-tree
//! indexes, and sessions that run transactions on them.
//!
//! The row store is PostgreSQL's, as its buffer manager sees it: a reference is one
//! request for a page, hit or miss. The model covers everything on which such requests
//! depend: how many rows and keys a page holds, where the loader stored them, the path
//! from an index's root to a leaf, new versions of rows that stay on their page while
//! there is room (HOT) or move to the end of the table, pruning of dead versions, hint
//! bits, and the second attempt at a row that another session has locked. Rows hold no
//! values. The model leaves out system catalogs, free-space maps, vacuum, and splits in
//! the middle of an index.

mod generator;
mod heap;
mod index;
mod options;
mod session;

use crate::reference::PageClasses;

pub(super) use generator::generator;
pub(super) use heap::{Heap, HeapSize};
pub(super) use index::{AppendPoint, Index, IndexSize};
pub(super) use options::{BenchmarkOptions, CLIENTS, HINT_BITS, PAGE_SIZE, REFERENCES, WARMUP};
#[cfg(test)]
pub(super) use session::recording::SessionTape;
pub(super) use session::{Benchmark, Transaction};

/// Rows that every transaction may update share their pages with old versions of
/// themselves. In the recorded strings, the pages of tellers, branches, districts and
/// warehouses have room for the versions of about this many transactions.
pub(super) const HOT_VERSIONS: u64 = 900;
/// Versions that such a table may append where that room is not enough.
pub(super) const HOT_GROWTH: u64 = 100;

/// Allocates consecutive page numbers to relations.
#[derive(Debug, Default)]
pub(super) struct PageAllocator {
    pages: u64,
    /// The name, the first page and the page after the last of each relation.
    relations: Vec<(String, u64, u64)>,
}

impl PageAllocator {
    /// Allocates `pages` page numbers to a relation; returns the first.
    fn take(&mut self, relation: String, pages: u64) -> u64 {
        let first = self.pages;
        self.pages += pages;
        self.relations.push((relation, first, self.pages));
        first
    }

    /// A class for each relation.
    pub(super) fn classes(&self) -> PageClasses {
        let names = self.relations.iter().map(|one| one.0.clone()).collect();
        let relations = (1..).zip(&self.relations);
        let pages = relations.map(|(class, one)| (one.1, one.2, class)).collect();
        PageClasses::from_single_pages(names, pages).unwrap_or_default()
    }

    /// Page numbers allocated so far.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }
}

/// Bytes of a page without its header.
fn payload(page_size: u64) -> u64 {
    page_size - 24
}

/// 64 bits that look random and follow from `value` (the finalizer of SplitMix64).
pub(super) fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
