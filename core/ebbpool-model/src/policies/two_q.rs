//! 2q ("Classics"; Johnson and Shasha 1994, full version).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// A1in (a FIFO) and Am (an LRU list), A1out with page numbers only.
pub(crate) struct TwoQ {
    kin: usize,
    kout: usize,
    a1in: List<()>,
    am: List<()>,
    a1out: List<()>,
    /// Whether the page missed last was in A1out.
    was_out: bool,
}

impl TwoQ {
    pub(crate) fn new(kin: usize, kout: usize) -> TwoQ {
        TwoQ { kin, kout, a1in: List::new(), am: List::new(), a1out: List::new(), was_out: false }
    }
}

impl Policy for TwoQ {
    fn hit(&mut self, page: u64, _write: bool) {
        if self.am.contains(page) {
            self.am.move_to_mru(page);
        }
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.was_out = self.a1out.contains(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let a1in = self.a1in.lru(pinned);
        let am = self.am.lru(pinned);
        let choice = if self.a1in.len() > self.kin { a1in.or(am) } else { am.or(a1in) };
        choice.expect("an unpinned page")
    }

    fn evict(&mut self, page: u64) {
        if self.am.contains(page) {
            self.am.take(page);
            return;
        }
        self.a1in.take(page);
        self.a1out.push(page, ());
        if self.a1out.len() > self.kout {
            self.a1out.items.remove(0);
        }
    }

    fn end(&mut self, page: u64) {
        let list = if self.am.contains(page) { &mut self.am } else { &mut self.a1in };
        list.take(page);
    }

    fn admit(&mut self, page: u64, _write: bool) {
        // It was looked up before room was made for it, which may have removed it.
        if self.a1out.contains(page) {
            self.a1out.take(page);
        }
        if self.was_out {
            self.am.push(page, ());
        } else {
            self.a1in.push(page, ());
        }
    }
}
