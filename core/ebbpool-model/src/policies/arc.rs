//! arc ("Classics"; Megiddo and Modha 2003, figure 4).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The list that remembers the page missed last.
#[derive(Clone, Copy, PartialEq)]
enum MissedPage {
    Nowhere,
    InB1,
    InB2,
}

/// T1 and T2, B1 and B2 with page numbers only.
pub(crate) struct Arc {
    c: usize,
    p: f64,
    t1: List<()>,
    t2: List<()>,
    b1: List<()>,
    b2: List<()>,
    missed: MissedPage,
    /// Whether a page was evicted for it.
    made_room: bool,
}

impl Arc {
    pub(crate) fn new(c: usize) -> Arc {
        Arc {
            c,
            p: 0.0,
            t1: List::new(),
            t2: List::new(),
            b1: List::new(),
            b2: List::new(),
            missed: MissedPage::Nowhere,
            made_room: false,
        }
    }

    /// Case IV evicts a page of T1 without remembering it.
    fn t1_alone_is_full(&self) -> bool {
        self.missed == MissedPage::Nowhere && self.t1.len() == self.c
    }
}

impl Policy for Arc {
    fn hit(&mut self, page: u64, _write: bool) {
        if self.t1.contains(page) {
            self.t1.take(page);
        } else {
            self.t2.take(page);
        }
        self.t2.push(page, ());
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.made_room = false;
        let b1 = self.b1.len() as f64;
        let b2 = self.b2.len() as f64;
        if self.b1.contains(page) {
            // Case II.
            self.missed = MissedPage::InB1;
            let step = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + step).min(self.c as f64);
        } else if self.b2.contains(page) {
            // Case III.
            self.missed = MissedPage::InB2;
            let step = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - step).max(0.0);
        } else {
            self.missed = MissedPage::Nowhere;
        }
    }

    /// REPLACE, or T1's LRU page in case IV when B1 is empty.
    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let t1 = self.t1.lru(pinned);
        let t2 = self.t2.lru(pinned);
        let size = self.t1.len() as f64;
        let from_t1 = self.t1_alone_is_full() || size > self.p || (self.missed == MissedPage::InB2 && size == self.p);
        let choice = if from_t1 { t1.or(t2) } else { t2.or(t1) };
        choice.expect("an unpinned page")
    }

    fn end(&mut self, page: u64) {
        let list = if self.t1.contains(page) { &mut self.t1 } else { &mut self.t2 };
        list.take(page);
    }

    fn evict(&mut self, page: u64) {
        self.made_room = true;
        if self.missed == MissedPage::Nowhere {
            if self.t1.len() + self.b1.len() == self.c {
                if self.t1.len() < self.c {
                    self.b1.items.remove(0);
                } else {
                    self.t1.take(page);
                    return;
                }
            } else {
                let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                if all == 2 * self.c {
                    self.b2.items.remove(0);
                }
            }
        }
        if self.t1.contains(page) {
            self.t1.take(page);
            self.b1.push(page, ());
        } else {
            self.t2.take(page);
            self.b2.push(page, ());
        }
    }

    fn admit(&mut self, page: u64, _write: bool) {
        // A frame was empty, which a page that ended had left.
        if self.missed == MissedPage::Nowhere && !std::mem::take(&mut self.made_room) {
            let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
            if self.t1.len() + self.b1.len() == self.c {
                self.b1.items.remove(0);
            } else if all == 2 * self.c {
                self.b2.items.remove(0);
            }
        }
        match self.missed {
            MissedPage::Nowhere => self.t1.push(page, ()),
            MissedPage::InB1 => {
                self.b1.take(page);
                self.t2.push(page, ());
            }
            MissedPage::InB2 => {
                self.b2.take(page);
                self.t2.push(page, ());
            }
        }
        assert!(self.t1.len() + self.b1.len() <= self.c);
    }
}

#[cfg(test)]
mod tests {
    use super::Arc;
    use crate::buffer::Buffer;
    use crate::tests::Player;

    #[test]
    fn steps_are_real_numbers() {
        let mut arc = Arc::new(4);
        (1..=3).for_each(|page| arc.b2.push(page, ()));
        (4..=5).for_each(|page| arc.b1.push(page, ()));
        crate::buffer::Policy::miss(&mut arc, 4, false);
        assert_eq!(arc.p, 1.5);
        crate::buffer::Policy::miss(&mut arc, 1, false);
        assert_eq!(arc.p, 0.5);
        crate::buffer::Policy::miss(&mut arc, 2, false);
        assert_eq!(arc.p, 0.0);
    }

    #[test]
    fn pinned_pages_are_passed_over() {
        let buffer = Buffer::new(3, Box::new(Arc::new(3)), None);
        let mut player = Player::new(Box::new(buffer), "");
        // T1 2 3, T2 1, p = 0: the victim should be from T1, but its pages are pinned.
        assert_eq!(player.play("R1 R2 R1 R3 +2 +3 R4"), [1]);
        // No page can be evicted for 1, which B2 still remembers at the next miss: it enters T2,
        // where it outlives 2, 3 and 4.
        assert_eq!(player.play("+4 R1 -2 -3 -4 R1 R5 R6"), [2, 3, 4]);
    }
}
