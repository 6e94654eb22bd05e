//! s3-fifo ("Classics"; Yang et al. 2023).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// ModelCounts stop here.
const MOST: u32 = 3;

struct State {
    dirty: bool,
    /// Hits since the page entered its queue, less one for each round in the main queue.
    count: u32,
}

/// Three queues, oldest page first: small, main, and the page numbers of those evicted from small.
pub(crate) struct S3Fifo {
    small: List<State>,
    main: List<State>,
    ghosts: List<()>,
    small_size: usize,
    main_size: usize,
    /// Whether there was an eviction.
    evicted: bool,
}

impl S3Fifo {
    pub(crate) fn new(small_size: usize, m: usize) -> S3Fifo {
        S3Fifo {
            small: List::new(),
            main: List::new(),
            ghosts: List::new(),
            small_size,
            main_size: m - small_size,
            evicted: false,
        }
    }

    /// The oldest unpinned page of the main queue without a count. Those with one lose a count and
    /// move to the end.
    fn victim_of_main(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        loop {
            let page = self.main.lru(pinned)?;
            let state = self.main.state(page);
            if state.count == 0 {
                return Some(page);
            }
            state.count -= 1;
            self.main.move_to_mru(page);
        }
    }

    /// The oldest unpinned page of the small queue that was hit less than twice. Those that were
    /// hit twice move to the main queue.
    fn victim_of_small(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        loop {
            let page = self.small.lru(pinned)?;
            if self.small.state(page).count < 2 {
                return Some(page);
            }
            let State { dirty, .. } = self.small.take(page);
            self.main.push(page, State { dirty, count: 0 });
        }
    }

    fn state(&mut self, page: u64) -> &mut State {
        if self.small.contains(page) {
            self.small.state(page)
        } else {
            self.main.state(page)
        }
    }
}

impl Policy for S3Fifo {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.state(page);
        state.count = (state.count + 1).min(MOST);
        state.dirty |= write;
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        if self.main.len() > self.main_size
            && let Some(page) = self.victim_of_main(pinned)
        {
            return page;
        }
        if let Some(page) = self.victim_of_small(pinned) {
            return page;
        }
        self.victim_of_main(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            count: 0,
        };
        let small_is_full = self.small.len() >= self.small_size;
        if self.ghosts.contains(page) {
            self.ghosts.take(page);
            self.main.push(page, state);
        } else if small_is_full && !self.evicted {
            self.main.push(page, state);
        } else {
            self.small.push(page, state);
        }
        while self.ghosts.len() > self.main_size {
            self.ghosts.items.remove(0);
        }
    }

    fn evict(&mut self, page: u64) {
        self.evicted = true;
        if self.small.contains(page) {
            self.small.take(page);
            self.ghosts.push(page, ());
        } else {
            self.main.take(page);
        }
    }

    fn clean(&mut self, page: u64) {
        self.state(page).dirty = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.small.items.iter().chain(&self.main.items);
        items.map(|(page, state)| (*page, state.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn a_page_hit_twice_moves_to_the_main_queue() {
        // Small holds one page, main three. 1 fills small; 2, 3 and 4 go to main, since nothing has
        // left yet. R5: main is not too long, 1 is evicted.        small 5, main 2 3 4
        // R5 R5, R6: 5 was hit twice and moves; small is empty: 2 is evicted.  small 6, main 3 4 5
        // R6, R7: 6 was hit once and is evicted.                         small 7, main 3 4 5
        assert_eq!(
            victims("s3-fifo:small=25%", 4, "R1 R2 R3 R4 R5 R5 R5 R6 R6 R7"),
            [1, 2, 6]
        );
    }

    #[test]
    fn ghosts_go_to_the_main_queue() {
        // As above, 1 is a ghost after R5. R1: 5 is evicted and becomes a ghost, 1 enters main.
        //                                              small -, main 2 3 4 1, ghosts 5
        // R6: main has more than three, 2 is evicted.  small 6, main 3 4 1, ghosts 5
        // R7, R8, R9: victims are from small.          ghosts 6 7 8, which are three; 5 is forgotten
        // R5: 9 is evicted, 5 is new.                  small 5, main 3 4 1, ghosts 7 8 9
        // R7: 5 is evicted, 7 enters main. R10: 3 is evicted.
        assert_eq!(
            victims(
                "s3-fifo:small=25%",
                4,
                "R1 R2 R3 R4 R5 R1 R6 R7 R8 R9 R5 R7 R10"
            ),
            [1, 5, 2, 6, 7, 8, 9, 5, 3]
        );
    }

    #[test]
    fn the_main_queue_counts_to_three() {
        // Main 2 3 4, 2 hit five times, 3 once. 5 and 6 are admitted as ghosts, so that victims are
        // from main. R1: 5 is evicted. R10: of main 2 3 4 1, 2 has 2 left, 3 has 0, 4 is evicted.
        //                                                               small 10, main 1 2 3
        // R5: 10 is evicted. R11: of main 1 2 3 5, 1 is evicted.        small 11, main 2 3 5
        // R10: 11 is evicted. R12: 2 has 1 left, 3 is evicted.          small 12, main 5 10 2
        // R11: 12 is evicted. R13: 5 is evicted.                        small 13, main 10 2 11
        // R12: 13 is evicted. R14: 10 is evicted.                       small 14, main 2 11 12
        // R13: 14 is evicted. R15: 2 has 0 left, 11 is evicted.         small 15, main 12 13 2
        assert_eq!(
            victims(
                "s3-fifo:small=25%",
                4,
                "R1 R2 R3 R4 R5 R2 R2 R2 R2 R2 R3 R1 R10 R5 R11 R10 R12 R11 R13 R12 R14 R13 R15"
            ),
            [1, 5, 4, 10, 1, 11, 3, 12, 5, 13, 10, 14, 11]
        );
    }

    #[test]
    fn pins() {
        // Small 1, main 2 3 4. 1 is pinned: small counts as empty, 2 is evicted.
        assert_eq!(
            victims("s3-fifo:small=25%", 4, "R1 R2 R3 R4 +1 R5 -1 R6"),
            [2, 1]
        );
    }

    #[test]
    fn a_miss_while_all_pages_are_pinned() {
        // 1 is a ghost. It is missed while all pages are pinned, and still remembered: it enters
        // main.
        assert_eq!(
            victims("s3-fifo:small=50%", 2, "R1 R2 R3 +2 +3 R1 -2 -3 R1 R4 R5"),
            [1, 3, 2, 4]
        );
    }
}
