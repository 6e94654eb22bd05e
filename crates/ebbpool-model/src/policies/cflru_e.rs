//! cflru-e ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    /// Of the page's erase block.
    erases: u32,
}

/// One LRU list.
pub(crate) struct CflruE {
    list: List<State>,
    /// The size of the clean-first region, at least one page.
    region: usize,
}

impl CflruE {
    pub(crate) fn new(region: usize) -> CflruE {
        CflruE {
            list: List::new(),
            region: region.max(1),
        }
    }
}

impl Policy for CflruE {
    fn hit(&mut self, page: u64, write: bool) {
        self.list.state(page).dirty |= write;
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let region = self.list.items.iter().take(self.region);
        let unpinned: Vec<_> = region.filter(|(page, _)| !pinned.contains(page)).collect();
        if let Some((page, _)) = unpinned.iter().find(|(_, state)| !state.dirty) {
            return *page;
        }
        // Of several with the least, `min_by_key` names the first, the nearest the LRU end.
        if let Some((page, _)) = unpinned.iter().min_by_key(|(_, state)| state.erases) {
            return *page;
        }
        self.list.lru(pinned).expect("an unpinned page")
    }

    fn erases(&mut self, page: u64, erases: u32) {
        self.list.state(page).erases = erases;
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            erases: 0,
        };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        self.list.state(page).dirty = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.list.items.iter();
        items.map(|(page, state)| (*page, state.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn the_least_worn_block_in_the_region() {
        // `E1=5`: the block of page 1 has 5 erases. The region is 1 2 with 5 and 3: 2. Then 1 3,
        // 3 with none: 3. Then 1 4: 1 has 5, 4 has 9: 1.
        assert_eq!(
            victims("cflru-e", 4, "W1 W2 W3 W4 E1=5 E2=3 E4=9 W5 W6 W7"),
            [2, 3, 1]
        );
        // A clean page of the region is evicted first, whatever its block; a tie is decided for the
        // LRU end.
        assert_eq!(
            victims("cflru-e:window=1", 3, "W1 W2 R3 E1=0 E2=0 E3=7 W4 W5"),
            [3, 1]
        );
        // Admitted again, the count is unknown until the device reports it.
        assert_eq!(
            victims("cflru-e:window=1", 2, "W1 W2 E1=4 E2=5 W3 W1 W4"),
            [1, 3, 1]
        );
    }
}
