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
        CflruC {
            list: List::new(),
            region: region.max(1),
        }
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
        let state = State {
            dirty: write,
            writes: u64::from(write),
        };
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

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.list.items.iter();
        items.map(|(page, state)| (*page, state.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn fewest_writes_in_the_region() {
        // Order 1 2 3, all dirty, writes 2 1 1. Fewest: 2 and 3, of which 2 is nearer the LRU
        // end. Then 1 3 4: clean 4 is evicted. Then 1 3 5, 5 dirty with 1 write: 3. Then 1 5 6: 5.
        assert_eq!(
            victims("cflru-c:window=1", 3, "W1 W1 W2 W3 R4 W5 W6 W7"),
            [2, 4, 3, 5]
        );
        // The region of 2 is 1 2 with writes 2 2: a tie, 1. Page 3 has fewer but is outside.
        assert_eq!(victims("cflru-c", 4, "W1 W1 W2 W2 W3 W4 R5"), [1]);
        // Cleaned and written again: its count starts at 0, so page 2 has 1, page 1 has 2.
        assert_eq!(
            victims("cflru-c:window=1", 2, "W2 W2 W2 C2 W1 W1 W2 R5"),
            [2]
        );
        // window=0 is a region of one page.
        assert_eq!(victims("cflru-c:window=0", 3, "W1 W1 W2 R3 R4"), [1]);
        // The region is all pinned.
        assert_eq!(victims("cflru-c", 4, "R1 R2 W3 R4 +1 +2 R5"), [3]);
    }
}
