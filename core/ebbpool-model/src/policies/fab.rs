//! fab ("Clean first").

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;
use crate::list::List;

/// Pages in order of admission, and the blocks by recency.
pub(crate) struct Fab {
    pages: List<()>,
    blocks: List<()>,
    block: u64,
}

impl Fab {
    pub(crate) fn new(block: u64) -> Fab {
        Fab { pages: List::new(), blocks: List::new(), block }
    }

    fn pages_of(&self, block: u64) -> Vec<u64> {
        let pages = self.pages.pages();
        pages.filter(|page| page / self.block == block).collect()
    }

    fn touch(&mut self, page: u64) {
        let block = page / self.block;
        if self.blocks.contains(block) {
            self.blocks.move_to_mru(block);
        } else {
            self.blocks.push(block, ());
        }
    }
}

impl Policy for Fab {
    fn hit(&mut self, page: u64, _write: bool) {
        self.touch(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let mut pages_of: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for page in self.pages.pages() {
            pages_of.entry(page / self.block).or_default().push(page);
        }
        let unpinned = |block: &u64| {
            let mut pages = pages_of[block].iter();
            pages.find(|page| !pinned.contains(page))
        };
        let blocks = self.blocks.pages().filter(|block| unpinned(block).is_some());
        // Of several with most pages, `min_by_key` names the first, the least recently used.
        let block = blocks.min_by_key(|block| Reverse(pages_of[block].len()));
        let block = block.expect("a block with an unpinned page");
        *unpinned(&block).expect("an unpinned page")
    }

    fn evicted_with(&self, victim: u64) -> Vec<u64> {
        let mut pages = self.pages_of(victim / self.block);
        pages.retain(|page| *page != victim);
        pages
    }

    fn admit(&mut self, page: u64, _write: bool) {
        self.pages.push(page, ());
        self.touch(page);
    }

    fn evict(&mut self, page: u64) {
        self.pages.take(page);
        let block = page / self.block;
        if self.pages_of(block).is_empty() {
            self.blocks.take(block);
        }
    }
}
