//! sieve ("Classics"; Zhang et al. 2024).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    visited: bool,
}

/// A FIFO in which no page moves, and a hand that moves from the oldest page to the newest.
pub(crate) struct Sieve {
    list: List<State>,
    /// The page at which the next search begins; `None` is the oldest page.
    hand: Option<u64>,
}

impl Sieve {
    pub(crate) fn new() -> Sieve {
        Sieve { list: List::new(), hand: None }
    }

    /// The page one step newer than this one.
    fn newer(&self, page: u64) -> Option<u64> {
        let position = self.list.position(page).expect("the page is in the list");
        let newer = self.list.items.get(position + 1);
        newer.map(|(page, _)| *page)
    }

    fn oldest(&self) -> u64 {
        self.list.pages().next().expect("a page")
    }
}

impl Policy for Sieve {
    fn hit(&mut self, page: u64, _write: bool) {
        let state = self.list.state(page);
        state.visited = true;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let mut page = self.hand.unwrap_or(self.oldest());
        loop {
            if !pinned.contains(&page) {
                let state = self.list.state(page);
                if !state.visited {
                    self.hand = Some(page);
                    return page;
                }
                state.visited = false;
            }
            page = self.newer(page).unwrap_or(self.oldest());
        }
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = State { visited: false };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        if self.hand == Some(page) {
            self.hand = self.newer(page);
        }
        self.list.take(page);
    }
}
