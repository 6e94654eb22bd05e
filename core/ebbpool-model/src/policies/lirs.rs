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
        let state = State { dirty: write, cold: false, lir: false };
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

    fn end(&mut self, page: u64) {
        let State { lir, .. } = self.resident.take(page);
        if !lir {
            self.queue.take(page);
        }
        if self.stack.contains(page) {
            self.stack.take(page);
        }
        self.prune();
    }

    fn clean(&mut self, page: u64) {
        let state = self.resident.state(page);
        state.dirty = false;
        state.cold = false;
    }
}
