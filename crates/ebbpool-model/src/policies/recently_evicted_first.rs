//! ref ("Clean first").

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;
use crate::list::List;

/// One LRU list with dirty flags, and the set of victim blocks.
pub(crate) struct RecentlyEvictedFirst {
    list: List<bool>,
    /// The size of the victim window, at least one page.
    window: usize,
    block: u64,
    victims: usize,
    victim_blocks: BTreeSet<u64>,
}

impl RecentlyEvictedFirst {
    pub(crate) fn new(window: usize, block: u64, victims: usize) -> RecentlyEvictedFirst {
        RecentlyEvictedFirst {
            list: List::new(),
            window: window.max(1),
            block,
            victims,
            victim_blocks: BTreeSet::new(),
        }
    }

    /// The pages in the victim window, from the LRU end.
    fn window(&self) -> Vec<u64> {
        self.list.pages().take(self.window).collect()
    }

    /// The unpinned page of a victim block nearest the LRU end within the window.
    fn in_victim_blocks(&self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let mut window = self.window().into_iter();
        window.find(|page| {
            !pinned.contains(page) && self.victim_blocks.contains(&(page / self.block))
        })
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
    fn hit(&mut self, page: u64, write: bool) {
        *self.list.state(page) |= write;
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

    fn admit(&mut self, page: u64, write: bool) {
        self.list.push(page, write);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        *self.list.state(page) = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        self.list.items.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn one_victim_block() {
        // The window is 3 pages.
        // 1 2 11 | 12 21 3: block 0 has two, is chosen, 1 is evicted.
        // 2 11 12 | 21 3 30: block 0 is still there, 2 is evicted.
        // 11 12 21 | 3 30 31: anew: block 1, 11 is evicted.
        // 12 21 3 | 30 31 32: 12.
        // 21 3 30 | 31 32 40: anew: blocks 2, 0 and 3 have one each, 2 is nearest: 21.
        assert_eq!(
            victims(
                "ref:block=10,victims=1",
                6,
                "R1 R2 R11 R12 R21 R3 R30 R31 R32 R40 R41"
            ),
            [1, 2, 11, 12, 21]
        );
    }

    #[test]
    fn not_the_lru_page() {
        // 1 11 12 | 13 14 15: block 1 has most; 11 and 12 are evicted, then, 13 and 14 having come into
        // the window, they too: the block stays a victim block while it has pages there.
        assert_eq!(
            victims(
                "ref:block=10,victims=1",
                6,
                "R1 R11 R12 R13 R14 R15 R31 R32 R33 R34"
            ),
            [11, 12, 13, 14]
        );
        // With two victim blocks, 1 is of the second.
        assert_eq!(
            victims(
                "ref:block=10,victims=2",
                6,
                "R1 R11 R12 R13 R14 R15 R31 R32"
            ),
            [1, 11]
        );
    }

    #[test]
    fn a_victim_block_without_pages_in_the_window_stays_one() {
        // victims=2, window 3. 1 11 21 | 2 12 22: all have one; blocks 0 and 1 are chosen,
        // being nearest the LRU end. 1 is evicted.
        // 11 21 2 | 12 22 30: 11 (block 1). 21 2 12 | 22 30 31: 2 (block 0), not 21.
        // 21 12 22 | ...: 12. 21 22 30 | ...: none, chosen anew: 2 first, 21.
        assert_eq!(
            victims(
                "ref:block=10,victims=2",
                6,
                "R1 R11 R21 R2 R12 R22 R30 R31 R32 R33 R34"
            ),
            [1, 11, 2, 12, 21]
        );
    }

    #[test]
    fn pins() {
        // The window is 1 11: a tie for one victim block, 0, but 1 is pinned: block 1, 11.
        assert_eq!(
            victims("ref:block=10,victims=1", 4, "R1 R11 R2 R12 +1 R30"),
            [11]
        );
        // All of the window is pinned: the unpinned page nearest the LRU end, no set chosen.
        assert_eq!(
            victims(
                "ref:block=10,victims=1",
                4,
                "R1 R11 R2 R12 +1 +11 R30 -1 -11 R31"
            ),
            [2, 1]
        );
    }
}
