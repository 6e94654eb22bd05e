//! car ("Classics"; Bansal and Modha 2004, figure 2).

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

#[derive(Clone, Copy)]
struct State {
    referenced: bool,
}

/// The list that remembers the page missed last.
#[derive(Clone, Copy, PartialEq)]
enum MissedPage {
    Nowhere,
    InB1,
    InB2,
}

/// The clocks T1 and T2, whose hands are at their first pages, and the LRU lists B1 and B2 of
/// page numbers.
pub(crate) struct Car {
    c: usize,
    p: f64,
    t1: List<State>,
    t2: List<State>,
    b1: List<()>,
    b2: List<()>,
    missed: MissedPage,
    /// Whether a page was evicted for it.
    made_room: bool,
}

impl Car {
    pub(crate) fn new(c: usize) -> Car {
        Car {
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

    fn state(&mut self, page: u64) -> &mut State {
        if self.t1.contains(page) { self.t1.state(page) } else { self.t2.state(page) }
    }
}

impl Policy for Car {
    fn hit(&mut self, page: u64, _write: bool) {
        let state = self.state(page);
        state.referenced = true;
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.made_room = false;
        self.missed = if self.b1.contains(page) {
            MissedPage::InB1
        } else if self.b2.contains(page) {
            MissedPage::InB2
        } else {
            MissedPage::Nowhere
        };
    }

    /// replace().
    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let t1 = self.t1.lru(pinned);
            let t2 = self.t2.lru(pinned);
            let from_t1 = match (t1, t2) {
                (Some(_), Some(_)) => self.t1.len() as f64 >= self.p.max(1.0),
                (t1, _) => t1.is_some(),
            };
            if from_t1 {
                let page = t1.expect("an unpinned page");
                if !self.t1.state(page).referenced {
                    return page;
                }
                let mut state = self.t1.take(page);
                state.referenced = false;
                self.t2.push(page, state);
            } else {
                let page = t2.expect("an unpinned page");
                if !self.t2.state(page).referenced {
                    return page;
                }
                self.t2.state(page).referenced = false;
                self.t2.move_to_mru(page);
            }
        }
    }

    fn end(&mut self, page: u64) {
        let list = if self.t1.contains(page) { &mut self.t1 } else { &mut self.t2 };
        list.take(page);
    }

    fn evict(&mut self, page: u64) {
        self.made_room = true;
        if self.t1.contains(page) {
            self.t1.take(page);
            self.b1.push(page, ());
        } else {
            self.t2.take(page);
            self.b2.push(page, ());
        }
        if self.missed == MissedPage::Nowhere {
            let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
            if self.t1.len() + self.b1.len() == self.c {
                self.b1.items.remove(0);
            } else if all == 2 * self.c {
                self.b2.items.remove(0);
            }
        }
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = State { referenced: false };
        let b1 = self.b1.len() as f64;
        let b2 = self.b2.len() as f64;
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
            MissedPage::Nowhere => self.t1.push(page, state),
            MissedPage::InB1 => {
                self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
                self.b1.take(page);
                self.t2.push(page, state);
            }
            MissedPage::InB2 => {
                self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
                self.b2.take(page);
                self.t2.push(page, state);
            }
        }
        assert!(self.t1.len() + self.b1.len() <= self.c);
    }
}

#[cfg(test)]
mod tests {
    use super::Car;
    use crate::buffer::Policy;

    #[test]
    fn steps_are_taken_after_room_was_made() {
        let mut car = Car::new(4);
        (1..=3).for_each(|page| car.b2.push(page, ()));
        (4..=5).for_each(|page| car.b1.push(page, ()));
        car.miss(4, false);
        assert_eq!(car.p, 0.0);
        car.admit(4, false);
        assert_eq!(car.p, 1.5);
    }
}
