//! bplru ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// Pages in order of admission, and the blocks by recency, each with the pages that the latest
/// writes to it wrote.
pub(crate) struct Bplru {
    pages: List<()>,
    blocks: List<Vec<u64>>,
    block: u64,
    padding: bool,
}

impl Bplru {
    pub(crate) fn new(block: u64, padding: bool) -> Bplru {
        Bplru { pages: List::new(), blocks: List::new(), block, padding }
    }

    fn pages_of(&self, block: u64) -> Vec<u64> {
        let pages = self.pages.pages();
        pages.filter(|page| page / self.block == block).collect()
    }

    fn touch(&mut self, page: u64, write: bool) {
        let block = page / self.block;
        if self.blocks.contains(block) {
            self.blocks.move_to_mru(block);
        } else {
            self.blocks.push(block, Vec::new());
        }
        if !write {
            return;
        }
        let written = self.blocks.state(block);
        written.push(page);
        let first = block * self.block;
        let pages = (0..self.block).map_while(|offset| first.checked_add(offset));
        let whole: Vec<u64> = pages.collect();
        if whole.len() as u64 == self.block && written.ends_with(&whole) {
            self.blocks.take(block);
            self.blocks.items.insert(0, (block, Vec::new()));
        }
    }
}

impl Policy for Bplru {
    fn hit(&mut self, page: u64, write: bool) {
        self.touch(page, write);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let blocks = self.blocks.pages();
        let mut pages = blocks.flat_map(|block| self.pages_of(block));
        let page = pages.find(|page| !pinned.contains(page));
        page.expect("an unpinned page")
    }

    fn evicted_with(&self, victim: u64) -> Vec<u64> {
        let mut pages = self.pages_of(victim / self.block);
        pages.retain(|page| *page != victim);
        pages
    }

    fn padded_block(&self) -> Option<u64> {
        self.padding.then_some(self.block)
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.pages.push(page, ());
        self.touch(page, write);
    }

    fn evict(&mut self, page: u64) {
        self.pages.take(page);
        let block = page / self.block;
        self.blocks.state(block).clear();
        if self.pages_of(block).is_empty() {
            self.blocks.take(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelEvent::{Evict, Pad, Read, Write};
    use crate::tests::events;

    #[test]
    fn padding_writes_the_block_whole() {
        assert_eq!(
            events("bplru:block=3,padding=true", 2, "W5 R4 R9"),
            [Read(5), Read(4), Pad(3), Write(3), Write(4), Write(5), Evict(5), Evict(4), Read(9)]
        );
        // A clean block is not written, and nothing is read for it.
        assert_eq!(events("bplru:block=3,padding=true", 1, "R5 R9"), [Read(5), Evict(5), Read(9)]);
    }
}
