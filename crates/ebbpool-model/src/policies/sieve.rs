//! sieve ("Classics"; Zhang et al. 2024).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
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
        Sieve {
            list: List::new(),
            hand: None,
        }
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
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.list.state(page);
        state.visited = true;
        state.dirty |= write;
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

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            visited: false,
        };
        self.list.push(page, state);
    }

    fn evict(&mut self, page: u64) {
        if self.hand == Some(page) {
            self.hand = self.newer(page);
        }
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
    fn visited_pages_stay_where_they_are() {
        // 1* 2 3*. R4: 1's bit is cleared, 2 is evicted, the hand is at 3*.       -> 1 3* 4
        // R5: 3's bit is cleared, 4 is evicted, the hand is past the newest page. -> 1 3 5
        // R6: from the oldest: 1 is evicted. R7: the hand is at 3, which is evicted.
        assert_eq!(
            victims("sieve", 3, "R1 R2 R3 R1 R3 R4 R5 R6 R7"),
            [2, 4, 1, 3]
        );
    }

    #[test]
    fn the_hand_continues_where_it_stopped() {
        // 1 is evicted, the hand is at 2. A hit on 2: 3 is evicted, not the oldest page.
        assert_eq!(victims("sieve", 3, "R1 R2 R3 R4 R2 R5 R6"), [1, 3, 4]);
        // All visited: cleared in order, then the first has no bit any more.
        assert_eq!(victims("sieve", 2, "R1 R2 R2 R1 R3"), [1]);
    }

    #[test]
    fn pins() {
        // 1 is pinned: its bit stays, 2 is evicted. Unpinned, 3 is evicted first since the hand is there, then
        // 4 and 5; 1 loses its bit only when the hand reaches it again.
        assert_eq!(
            victims("sieve", 3, "R1 R2 R3 R1 +1 R4 -1 R5 R6 R7 R8"),
            [2, 3, 4, 5, 6]
        );
    }
}
