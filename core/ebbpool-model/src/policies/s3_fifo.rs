//! s3-fifo ("Classics"; Yang et al. 2023).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// ModelCounts stop here.
const MOST: u32 = 3;

struct State {
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
            self.small.take(page);
            self.main.push(page, State { count: 0 });
        }
    }

    fn state(&mut self, page: u64) -> &mut State {
        if self.small.contains(page) { self.small.state(page) } else { self.main.state(page) }
    }
}

impl Policy for S3Fifo {
    fn hit(&mut self, page: u64, _write: bool) {
        let state = self.state(page);
        state.count = (state.count + 1).min(MOST);
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

    fn admit(&mut self, page: u64, _write: bool) {
        let state = State { count: 0 };
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

    fn end(&mut self, page: u64) {
        self.evicted = true;
        let queue = if self.small.contains(page) { &mut self.small } else { &mut self.main };
        queue.take(page);
    }
}
