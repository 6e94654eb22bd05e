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
        CflruE { list: List::new(), region: region.max(1) }
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
        let state = State { dirty: write, erases: 0 };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        self.list.state(page).dirty = false;
    }
}
