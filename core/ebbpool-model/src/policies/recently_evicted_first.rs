//! ref ("Clean first").

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;
use crate::list::List;

/// One LRU list, and the set of victim blocks.
pub(crate) struct RecentlyEvictedFirst {
    list: List<()>,
    /// The size of the victim window, at least one page.
    window: usize,
    block: u64,
    victims: usize,
    victim_blocks: BTreeSet<u64>,
}

impl RecentlyEvictedFirst {
    pub(crate) fn new(window: usize, block: u64, victims: usize) -> RecentlyEvictedFirst {
        RecentlyEvictedFirst { list: List::new(), window: window.max(1), block, victims, victim_blocks: BTreeSet::new() }
    }

    /// The pages in the victim window, from the LRU end.
    fn window(&self) -> Vec<u64> {
        self.list.pages().take(self.window).collect()
    }

    /// The unpinned page of a victim block nearest the LRU end within the window.
    fn in_victim_blocks(&self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let mut window = self.window().into_iter();
        window.find(|page| !pinned.contains(page) && self.victim_blocks.contains(&(page / self.block)))
    }

    /// The blocks with most pages in the window, of those with an unpinned page there.
    fn choose_victim_blocks(&self, pinned: &BTreeSet<u64>) -> BTreeSet<u64> {
        // Block -> the number of its pages in the window, and the position of the least recent of
        // them.
        let mut blocks: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for (position, page) in self.window().into_iter().enumerate() {
            let (pages, _) = blocks.entry(page / self.block).or_insert((0, position));
            *pages += 1;
        }
        let mut eligible: Vec<(u64, usize, usize)> = Vec::new();
        for (block, (pages, position)) in blocks {
            let mut window = self.window().into_iter();
            if window.any(|page| page / self.block == block && !pinned.contains(&page)) {
                eligible.push((block, pages, position));
            }
        }
        // Most pages first; of equals, the one nearer the LRU end.
        eligible.sort_by_key(|(_, pages, position)| (std::cmp::Reverse(*pages), *position));
        let chosen = eligible.iter().take(self.victims);
        chosen.map(|(block, _, _)| *block).collect()
    }
}

impl Policy for RecentlyEvictedFirst {
    fn hit(&mut self, page: u64, _write: bool) {
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if self.window().iter().all(|page| pinned.contains(page)) {
            return self.list.lru(pinned).expect("an unpinned page");
        }
        if let Some(page) = self.in_victim_blocks(pinned) {
            return page;
        }
        self.victim_blocks = self.choose_victim_blocks(pinned);
        let page = self.in_victim_blocks(pinned);
        page.expect("a chosen block has an unpinned page in the window")
    }

    fn admit(&mut self, page: u64, _write: bool) {
        self.list.push(page, ());
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }
}
