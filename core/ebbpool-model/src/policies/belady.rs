//! belady ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    next_use: Option<u64>,
}

/// The pages with their next uses.
pub(crate) struct Belady {
    list: List<State>,
    /// The next use of the page about to be referenced.
    upcoming: Option<u64>,
}

impl Belady {
    pub(crate) fn new() -> Belady {
        Belady { list: List::new(), upcoming: None }
    }
}

impl Policy for Belady {
    fn next_use(&mut self, next_use: Option<u64>) {
        self.upcoming = next_use;
    }

    fn hit(&mut self, page: u64, write: bool) {
        let upcoming = self.upcoming;
        let state = self.list.state(page);
        state.next_use = upcoming;
        state.dirty |= write;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let unpinned = self.list.items.iter();
        let unpinned = unpinned.filter(|(page, _)| !pinned.contains(page));
        let (never, again): (Vec<_>, Vec<_>) = unpinned.partition(|(_, state)| state.next_use.is_none());
        // Pages never used again: clean before dirty, then the lowest page number.
        if let Some((page, _)) = never.iter().min_by_key(|(page, s)| (s.dirty, *page)) {
            return *page;
        }
        let farthest = again.iter().max_by_key(|(_, state)| state.next_use);
        farthest.expect("an unpinned page").0
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State { dirty: write, next_use: self.upcoming };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }

    fn clean(&mut self, page: u64) {
        self.list.state(page).dirty = false;
    }
}
