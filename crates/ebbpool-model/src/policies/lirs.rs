//! lirs and lirs-wsr ("Classics", "Clean first"; Jiang and Zhang 2002, Jung et al. 2007).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

struct State {
    dirty: bool,
    cold: bool,
    /// One of the pages of low inter-reference recency.
    lir: bool,
}

/// The stack S, whose last item is on top, and the queue Q of the resident HIR pages.
pub(crate) struct Lirs {
    m: usize,
    /// The most LIR pages.
    most_lir: usize,
    write_sequence_reordering: bool,
    resident: List<State>,
    stack: List<()>,
    queue: List<()>,
    /// The pages of the stack that are not resident, in order of eviction.
    ghosts: List<()>,
}

impl Lirs {
    /// `hir` frames are for HIR pages.
    pub(crate) fn new(m: usize, hir: usize, write_sequence_reordering: bool) -> Lirs {
        Lirs {
            m,
            most_lir: m - hir.max(1),
            write_sequence_reordering,
            resident: List::new(),
            stack: List::new(),
            queue: List::new(),
            ghosts: List::new(),
        }
    }

    fn is_lir(&self, page: u64) -> bool {
        let mut items = self.resident.items.iter();
        items.any(|(other, state)| *other == page && state.lir)
    }

    fn lir_count(&self) -> usize {
        let items = self.resident.items.iter();
        items.filter(|(_, state)| state.lir).count()
    }

    /// The page becomes LIR, on top of the stack. If that makes too many, the one nearest the
    /// bottom that is not pinned becomes HIR and moves to the end of the queue.
    fn promote(&mut self, page: u64, pinned: &BTreeSet<u64>) {
        self.place_on_top(page);
        if self.queue.contains(page) {
            self.queue.take(page);
        }
        self.resident.state(page).lir = true;
        if self.lir_count() > self.most_lir {
            let lowest = self.lowest_lir(pinned).expect("the page itself");
            self.resident.state(lowest).lir = false;
            self.stack.take(lowest);
            self.queue.push(lowest, ());
        }
    }

    fn lowest_lir(&self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let mut pages = self.stack.pages();
        pages.find(|page| self.is_lir(*page) && !pinned.contains(page))
    }

    fn place_on_top(&mut self, page: u64) {
        if self.stack.contains(page) {
            self.stack.take(page);
        }
        self.stack.push(page, ());
    }

    /// Removes everything below the lowest LIR page from the stack, then the ghosts evicted first,
    /// until the stack has at most 2m pages.
    fn prune(&mut self) {
        let pages = self.stack.pages();
        let below: Vec<u64> = pages.take_while(|page| !self.is_lir(*page)).collect();
        for page in below {
            self.take_from_stack(page);
        }
        while self.stack.len() > 2 * self.m {
            let oldest = self.ghosts.pages().next().expect("more than m pages");
            self.take_from_stack(oldest);
        }
    }

    fn take_from_stack(&mut self, page: u64) {
        self.stack.take(page);
        if self.ghosts.contains(page) {
            self.ghosts.take(page);
        }
    }
}

impl Policy for Lirs {
    fn hit(&mut self, page: u64, write: bool) {
        let state = self.resident.state(page);
        if write {
            state.dirty = true;
            state.cold = false;
        }
        if state.lir {
            self.place_on_top(page);
        } else if self.stack.contains(page) {
            self.promote(page, &BTreeSet::new());
        } else {
            self.place_on_top(page);
            self.queue.move_to_mru(page);
        }
        self.prune();
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let first = self.queue.lru(pinned);
            // Where all of the queue is pinned, an LIR page is evicted.
            let page = first.or_else(|| self.lowest_lir(pinned));
            let page = page.expect("an unpinned page");
            let state = self.resident.state(page);
            if !self.write_sequence_reordering || !state.dirty || state.cold {
                return page;
            }
            state.cold = true;
            if state.lir {
                self.place_on_top(page);
            } else {
                self.promote(page, pinned);
            }
            self.prune();
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        let state = State {
            dirty: write,
            cold: false,
            lir: false,
        };
        self.resident.push(page, state);
        if self.ghosts.contains(page) {
            self.ghosts.take(page);
            self.promote(page, &BTreeSet::new());
        } else if self.lir_count() < self.most_lir {
            self.promote(page, &BTreeSet::new());
        } else {
            self.place_on_top(page);
            self.queue.push(page, ());
        }
        self.prune();
    }

    fn evict(&mut self, page: u64) {
        let State { lir, .. } = self.resident.take(page);
        if lir {
            self.stack.take(page);
        } else {
            self.queue.take(page);
            if self.stack.contains(page) {
                self.ghosts.push(page, ());
            }
        }
        self.prune();
    }

    fn clean(&mut self, page: u64) {
        let state = self.resident.state(page);
        state.dirty = false;
        state.cold = false;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let items = self.resident.items.iter();
        items.map(|(page, state)| (*page, state.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn lir_pages_outlive_a_scan() {
        // Three LIR pages and one frame for others, through which a scan passes.
        assert_eq!(
            victims("lirs:hir=25%", 4, "R1 R2 R3 R4 R5 R6 R7 R8"),
            [4, 5, 6, 7]
        );
        // One frame in a hundred is the least: here as well.
        assert_eq!(victims("lirs", 4, "R1 R2 R3 R4 R5 R6"), [4, 5]);
    }

    #[test]
    fn a_ghost_in_the_stack_becomes_lir() {
        // S (top last) 1 2 3 4, Q 4. R5: 4 is evicted.      S 1 2 3 (4) 5, Q 5
        // R4: 5 is evicted, 4 becomes LIR, 1 HIR.     S 2 3 (5) 4, Q 1
        // R6: 1 is evicted, which is not in the stack.      S 2 3 (5) 4 6, Q 6
        // R1: 6 is evicted, 1 is new.                 S 2 3 (5) 4 (6) 1, Q 1
        // R6: 1 is evicted, 6 becomes LIR, 2 HIR.     S 3 (5) 4 (1) 6, Q 2
        // R7: 2 is evicted.
        assert_eq!(
            victims("lirs:hir=25%", 4, "R1 R2 R3 R4 R5 R4 R6 R1 R6 R7"),
            [4, 5, 1, 6, 1, 2]
        );
    }

    #[test]
    fn hits() {
        // S 1 2 3 4, Q 4. R4: in the stack: LIR; 1 becomes HIR.      S 2 3 4, Q 1
        // R1: not in the stack: on top, still HIR.                   S 2 3 4 1, Q 1
        // R1: in the stack: LIR; 2 becomes HIR.                      S 3 4 1, Q 2
        // R5: 2 is evicted.
        assert_eq!(victims("lirs:hir=25%", 4, "R1 R2 R3 R4 R4 R1 R1 R5"), [2]);
        // R1: 1 is LIR at the bottom; now 2 is. R4: 2 becomes HIR and is evicted.
        assert_eq!(victims("lirs:hir=25%", 4, "R1 R2 R3 R4 R1 R4 R5"), [2]);
    }

    #[test]
    fn hir_pages_are_a_queue() {
        // Two LIR pages, two HIR. Q 3 4. R5: 3 is evicted. R4: LIR; 1 to the end.   Q 5 1
        // R6: 5 is evicted. R1: on top of the stack, to the end.              Q 6 1
        // R7: 6 is evicted. R8: 1 is evicted.
        assert_eq!(
            victims("lirs:hir=50%", 4, "R1 R2 R3 R4 R5 R4 R6 R1 R7 R8"),
            [3, 5, 6, 1]
        );
    }

    #[test]
    fn the_stack_has_twice_as_many_pages_as_there_are_frames() {
        // S 1, Q 2, then (2) 3, (2) (3) 4: four. R5 forgets 2:  S 1 (3) (4) 5
        // R2: 5 is evicted, 2 is new; 3 is forgotten.           S 1 (4) (5) 2
        // R4: 2 is evicted, 4 becomes LIR, 1 HIR.               S 4, Q 1
        // R6: 1 is evicted.
        assert_eq!(
            victims("lirs", 2, "R1 R2 R3 R4 R5 R2 R4 R6"),
            [2, 3, 4, 5, 2, 1]
        );
    }

    #[test]
    fn without_lir_pages_it_is_lru() {
        assert_eq!(victims("lirs:hir=1", 3, "R1 R2 R3 R1 R4 R2 R5"), [2, 3, 1]);
        assert_eq!(victims("lirs", 1, "R1 R2 R1"), [1, 2]);
    }

    #[test]
    fn pins() {
        // 4, all of the queue, is pinned: 1 is evicted, the lowest LIR page that is not. R6: 5 has
        // become LIR, for there were only two. 2 is evicted.
        assert_eq!(victims("lirs:hir=25%", 4, "R1 R2 R3 R4 +4 R5 R6"), [1, 2]);
        assert_eq!(victims("lirs:hir=25%", 4, "R1 R2 R3 R4 +4 +1 R5"), [2]);
    }

    #[test]
    fn a_dirty_page_gets_a_round_as_lir_page() {
        // S 1 2d 3 4d, Q 4d. R5: 4 gets the flag and becomes LIR; 1 becomes HIR and is evicted.
        //                                                      S 2d 3 4dc 5, Q 5
        // R6: 5 is evicted. R5: 6 is evicted, 5 becomes LIR, 2d HIR.       S 3 4dc 5, Q 2d
        // R7: 2 gets the flag and becomes LIR; 3 is evicted.         S 4dc 5 2dc 7, Q 7
        // R8: 7 is evicted. R7: 8 is evicted, 7 becomes LIR, 4dc HIR.      S 5 2dc 7, Q 4dc
        // R9: 4 has had its round and is evicted.
        assert_eq!(
            victims("lirs-wsr:hir=25%", 4, "R1 W2 R3 W4 R5 R6 R5 R7 R8 R7 R9"),
            [1, 5, 6, 3, 7, 8, 4]
        );
    }

    #[test]
    fn only_a_write_clears_the_flag() {
        // S 1d 2, Q 2. R2: 2 becomes LIR, 1 HIR. R3: 1 gets the flag and becomes LIR; 2 becomes
        // HIR and is evicted.                                                S 1dc 3, Q 3
        // Then 1 is referenced, so that 3 leaves the stack.                  S 1dc, Q 3
        // R3 R3: 3 becomes LIR, 1 HIR.                                       S 3, Q 1dc
        // R4: 1 is evicted if it still has the flag; else it gets it anew, and 3 is evicted.
        for (access, last) in [("R1", 1), ("W1", 3)] {
            let text = format!("W1 R2 R2 R3 {access} R3 R3 R4");
            assert_eq!(victims("lirs-wsr", 2, &text), [2, last], "{access}");
        }
    }

    #[test]
    fn all_dirty() {
        // Each gets the flag in turn, then the first that is met again is evicted. S 1 2 3, Q 3. 3
        // becomes LIR, 1 HIR; 1 becomes LIR, 2 HIR; 2 becomes LIR, 3 HIR; 3 is evicted.
        assert_eq!(victims("lirs-wsr", 3, "W1 W2 W3 W4"), [3]);
        assert_eq!(victims("lirs-wsr", 1, "W1 W2 R3"), [1, 2]);
    }

    #[test]
    fn pinned_pages_keep_their_places() {
        // S 1 2 3d, Q 3d. 1 and 2 are pinned: 3 gets the flag, becomes LIR and HIR again, and is evicted.
        assert_eq!(victims("lirs-wsr", 3, "R1 R2 W3 +1 +2 R4"), [3]);
        // 1 is pinned: 2 becomes HIR in place of it.
        assert_eq!(victims("lirs-wsr", 3, "R1 R2 W3 +1 R4"), [2]);
    }
}
