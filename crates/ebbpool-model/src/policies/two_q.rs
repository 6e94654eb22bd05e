//! 2q ("Classics"; Johnson and Shasha 1994, full version).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// A1in (a FIFO) and Am (an LRU list) with dirty flags, A1out with page numbers only.
pub(crate) struct TwoQ {
    kin: usize,
    kout: usize,
    a1in: List<bool>,
    am: List<bool>,
    a1out: List<()>,
    /// Whether the page missed last was in A1out.
    was_out: bool,
}

impl TwoQ {
    pub(crate) fn new(kin: usize, kout: usize) -> TwoQ {
        TwoQ {
            kin,
            kout,
            a1in: List::new(),
            am: List::new(),
            a1out: List::new(),
            was_out: false,
        }
    }
}

impl Policy for TwoQ {
    fn hit(&mut self, page: u64, write: bool) {
        if self.am.contains(page) {
            *self.am.state(page) |= write;
            self.am.move_to_mru(page);
        } else {
            *self.a1in.state(page) |= write;
        }
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.was_out = self.a1out.contains(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let a1in = self.a1in.lru(pinned);
        let am = self.am.lru(pinned);
        let choice = if self.a1in.len() > self.kin {
            a1in.or(am)
        } else {
            am.or(a1in)
        };
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

    fn admit(&mut self, page: u64, write: bool) {
        // It was looked up before room was made for it, which may have removed it.
        if self.a1out.contains(page) {
            self.a1out.take(page);
        }
        if self.was_out {
            self.am.push(page, write);
        } else {
            self.a1in.push(page, write);
        }
    }

    fn clean(&mut self, page: u64) {
        if self.am.contains(page) {
            *self.am.state(page) = false;
        } else {
            *self.a1in.state(page) = false;
        }
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let a1in = self.a1in.items.iter();
        a1in.chain(&self.am.items).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::victims;

    #[test]
    fn a_hit_in_a1in_moves_nothing() {
        // kin = 1: the oldest of 1 2 3 4 is evicted although it was hit, then 2.
        assert_eq!(victims("2q", 4, "R1 R2 R3 R4 R1 R5 R6"), [1, 2]);
    }

    #[test]
    fn pages_missed_again_enter_am() {
        // kout = 2. 1 is evicted from A1in and admitted to Am while 2 is evicted. A1in is 3 4 5, Am 1.
        // Victims are from A1in while it has more than one page: 3, 4. Then 1 from Am.
        assert_eq!(victims("2q", 4, "R1 R2 R3 R4 R5 R1 R6 R7"), [1, 2, 3, 4]);
        // 3, 4 and 5 are admitted again likewise, each while the next one is evicted; A1in is 7, not more
        // than kin, so the victim is the least recently used of Am, which is 3 after the hit of 1.
        let am = "R1 R2 R3 R4 R5 R1 R6 R3 R7 R4 R1 R8";
        assert_eq!(victims("2q", 4, am), [1, 2, 3, 4, 5, 6, 3]);
    }

    #[test]
    fn a1out_holds_kout_pages() {
        // kout = 2: A1out is 1 2, then 2 3. 1 is admitted as new, into A1in 4 5 6, of which 4 is
        // the oldest. 2 was dropped for it: A1out is 3 4.
        let text = "R1 R2 R3 R4 R5 R6 R7 R1 R2 R8";
        assert_eq!(victims("2q", 4, text), [1, 2, 3, 4, 5, 6]);
        // The oldest of A1out, dropped for the page that makes room for it, still enters Am:
        // 1 in Am outlives A1in's 4, 5 and 6.
        let text = "R1 R2 R3 R4 R5 R6 R1 R7 R8 R9";
        assert_eq!(victims("2q", 4, text), [1, 2, 3, 4, 5, 6]);
        // kout=0 forgets at once: FIFO.
        assert_eq!(victims("2q:kout=0", 2, "R1 R2 R3 R1 R2"), [1, 2, 3]);
    }

    #[test]
    fn without_pages_in_am_or_a1in() {
        // kin = m: A1in never holds more, and Am is empty.
        assert_eq!(victims("2q:kin=1", 2, "R1 R2 R3 R4"), [1, 2]);
        // All of A1in is pinned; 1, in Am, is evicted.
        assert_eq!(victims("2q", 2, "R1 R2 R3 R1 +3 R4"), [1, 2, 1]);
    }
}
