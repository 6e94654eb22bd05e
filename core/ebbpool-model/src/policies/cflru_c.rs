//! cflru-c ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    /// Write references, that which brought the page in included.
    writes: u64,
}

/// One LRU list.
pub(crate) struct CflruC {
    list: List<State>,
    /// The size of the clean-first region, at least one page.
    region: usize,
}

impl CflruC {
    pub(crate) fn new(region: usize) -> CflruC {
        CflruC { list: List::new(), region: region.max(1) }
    }
}

impl Policy for CflruC {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.list.state(page);
        state.dirty |= write;
        state.writes += u64::from(write);
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let region = self.list.items.iter().take(self.region);
        let unpinned: Vec<_> = region.filter(|(page, _)| !pinned.contains(page)).collect();
        if let Some((page, _)) = unpinned.iter().find(|(_, state)| !state.dirty) {
            return *page;
        }
        // Of several with the least, `min_by_key` names the first, the nearest the LRU end.
        if let Some((page, _)) = unpinned.iter().min_by_key(|(_, state)| state.writes) {
            return *page;
        }
        self.list.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State { dirty: write, writes: u64::from(write) };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        let state = self.list.state(page);
        state.dirty = false;
        state.writes = 0;
    }
}
