//! LRU-K: eviction by the k-th last reference.

use std::hint::black_box;

use crate::heap::IndexedHeap;
use crate::parameters::{parameters, whole};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// Orders pages with k references behind all pages that have fewer.
const HAS_K: u64 = 1 << 63;

/// Evicts the page whose k-th last reference is oldest, pages with fewer references first.
///
/// The correlated reference period is 0: each reference counts. A reference that cannot be served
/// because every frame is pinned does not enter the page's history.
pub struct LruK {
    /// References so far.
    now: u64,
    resident: Histories,
    /// The k-th last reference with [`HAS_K`], or the last one of a page with fewer than k.
    order: IndexedHeap<u64>,
    /// The pages evicted last, as many as there are frames, in a ring.
    evicted: Histories,
    /// The position in the ring for the next evicted page.
    oldest: u32,
    /// The page missed last, and the ghost that stood for it.
    missed: Histories,
    missed_ghost: Option<Ghost>,
}

/// Page numbers and the last k - 1 references to each, the latest first, 0 for none: with the next
/// reference they are k.
struct Histories {
    pages: Vec<Page>,
    references: Vec<u64>,
    per_page: usize,
}

impl Histories {
    fn new(entries: u32, k: usize) -> Self {
        let per_page = k - 1;
        Histories { pages: vec![0; entries as usize], references: vec![0; entries as usize * per_page], per_page }
    }

    #[inline]
    fn of(&self, entry: u32) -> &[u64] {
        let from = entry as usize * self.per_page;
        &self.references[from..from + self.per_page]
    }

    #[inline]
    fn of_mut(&mut self, entry: u32) -> &mut [u64] {
        let from = entry as usize * self.per_page;
        &mut self.references[from..from + self.per_page]
    }

    #[inline]
    fn copy(&mut self, entry: u32, from: &Histories, its: u32) {
        self.pages[entry as usize] = from.pages[its as usize];
        self.of_mut(entry).copy_from_slice(from.of(its));
    }

    /// The first entry is a page without a reference.
    #[inline]
    fn begin(&mut self, page: Page) {
        self.pages[0] = page;
        self.of_mut(0).fill(0);
    }

    #[inline]
    fn prefetch(&self, entry: u32) {
        black_box((self.pages[entry as usize], self.of(entry).first()));
    }
}

parameters! {
    /// The parameters of [`LruK`].
    pub struct LruKConfig {
        k: usize = {
            kind: whole(1, 16),
            default: "2",
            about: "the reference that counts, from the last one backwards; 1 is lru",
        },
    }
}

impl RegisteredPolicy for LruK {
    type Config = LruKConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lru-k",
        aliases: &[],
        params: LruKConfig::PARAMS,
        summary: "Evicts the page whose k-th last reference is oldest; pages with fewer references are evicted first.",
        how: "For each page the times of its last k references. The page whose k-th last reference is oldest is evicted; before it all pages that have fewer than k, the least recently used of them first. Every reference counts, also one that follows another closely (the correlated reference period is 0). The times of evicted pages are stored for as many evictions as there are frames, so that a page missed again keeps its history.",
        when: "Use it where references to a page are independent of each other (O'Neil, O'Neil and Weikum). It loses where a page is referenced several times in quick succession and then left alone, since with a correlated reference period of 0 that makes it hot. A hit costs O(log m). It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(32).with_ghosts(16),
        source: "O'Neil, O'Neil and Weikum 1993",
    };

    // Figures from samples have too few reads, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(config: LruKConfig, frames: u32) -> Self {
        let k = config.k;
        LruK {
            now: 0,
            resident: Histories::new(frames, k),
            order: IndexedHeap::new(frames, frames),
            evicted: Histories::new(frames, k),
            oldest: 0,
            missed: Histories::new(1, k),
            missed_ghost: None,
        }
    }
}

impl LruK {
    #[inline]
    fn refer(&mut self, frame: Frame) {
        let mut kth_last = self.now;
        for reference in self.resident.of_mut(frame) {
            std::mem::swap(reference, &mut kth_last);
        }
        let key = match kth_last {
            0 => self.now,
            kth_last => HAS_K | kth_last,
        };
        self.order.set(frame, key);
    }
}

impl Policy for LruK {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn most_ghosts(&self) -> u32 {
        self.evicted.pages.len() as Ghost
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.now += 1;
        self.refer(frame);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.now += 1;
        self.missed_ghost = ghost.filter(|&ghost| self.evicted.pages[ghost as usize] == page);
        match self.missed_ghost {
            // Making room for the page may overwrite its history.
            Some(ghost) => self.missed.copy(0, &self.evicted, ghost),
            None => self.missed.begin(page),
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.resident.prefetch(frame);
        self.order.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.evicted.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.order.least_where(may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        // A page that returns to its frame was not missed.
        if self.missed.pages[0] != page {
            self.missed.begin(page);
        }
        self.resident.copy(frame, &self.missed, 0);
        self.refer(frame);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.missed_ghost
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let ghost = self.oldest;
        self.evicted.copy(ghost, &self.resident, frame);
        self.oldest = if ghost as usize + 1 == self.evicted.pages.len() { 0 } else { ghost + 1 };
        Some(ghost)
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.order.remove(frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
