//! ccf-lru ("Clean first").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    cold: bool,
}

/// A cold clean list and a mixed list.
pub(crate) struct CcfLru {
    cold_clean: List<()>,
    mixed: List<State>,
}

impl CcfLru {
    pub(crate) fn new() -> CcfLru {
        CcfLru { cold_clean: List::new(), mixed: List::new() }
    }
}

impl Policy for CcfLru {
    fn hit(&mut self, page: u64, write: bool) {
        let dirty = if self.cold_clean.contains(page) {
            self.cold_clean.take(page);
            false
        } else {
            self.mixed.take(page).dirty
        };
        let state = State { dirty: dirty || write, cold: false };
        self.mixed.push(page, state);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if let Some(page) = self.cold_clean.lru(pinned) {
            return page;
        }
        while let Some(page) = self.mixed.lru(pinned) {
            let state = self.mixed.state(page);
            if !state.dirty {
                self.mixed.take(page);
                self.cold_clean.push(page, ());
            } else if state.cold {
                return page;
            } else {
                state.cold = true;
                self.mixed.move_to_mru(page);
            }
        }
        self.cold_clean.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            let state = State { dirty: true, cold: true };
            self.mixed.push(page, state);
        } else {
            self.cold_clean.push(page, ());
        }
    }

    fn evict(&mut self, page: u64) {
        if self.cold_clean.contains(page) {
            self.cold_clean.take(page);
        } else {
            self.mixed.take(page);
        }
    }

    fn clean(&mut self, page: u64) {
        let state = self.mixed.state(page);
        state.dirty = false;
        state.cold = false;
    }
}
