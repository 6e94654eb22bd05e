//! The policy inside a pool of fd-static and fd-buffer ("Adaptive", fd-buffer, `pools`).

use std::collections::BTreeSet;

use crate::list::List;

/// One of the two pools. `target` is the number of pages it should have now (Mc or Md).
pub(crate) trait Pool {
    /// A page enters the pool: it is admitted, or moves from the other pool.
    fn enter(&mut self, page: u64);

    /// A page is hit and stays in the pool.
    fn hit(&mut self, page: u64);

    /// Chooses the page to evict; at least one page is not pinned.
    fn victim(&mut self, target: usize, pinned: &BTreeSet<u64>) -> u64;

    /// A page moves to the other pool.
    fn leave_for_other(&mut self, page: u64);

    /// A page is evicted.
    fn leave_buffer(&mut self, page: u64, target: usize);

    /// The pages in the pool, in any order.
    fn pages(&self) -> Vec<u64>;
}

/// The pool of that name.
pub(crate) fn pool(name: &str) -> Box<dyn Pool> {
    match name {
        "lru" => Box::new(LruPool::default()),
        "clock" => Box::new(ClockPool::default()),
        "2q" => Box::new(TwoQueuePool::default()),
        other => panic!("`pools={other}` is neither `lru` nor `2q` nor `clock`"),
    }
}

#[derive(Default)]
struct LruPool {
    list: List<()>,
}

impl Pool for LruPool {
    fn enter(&mut self, page: u64) {
        self.list.push(page, ());
    }

    fn hit(&mut self, page: u64) {
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _target: usize, pinned: &BTreeSet<u64>) -> u64 {
        self.list.lru(pinned).expect("an unpinned page")
    }

    fn leave_for_other(&mut self, page: u64) {
        self.list.take(page);
    }

    fn leave_buffer(&mut self, page: u64, _target: usize) {
        self.list.take(page);
    }

    fn pages(&self) -> Vec<u64> {
        self.list.pages().collect()
    }
}

/// A FIFO with reference bits.
#[derive(Default)]
struct ClockPool {
    list: List<bool>,
}

impl Pool for ClockPool {
    fn enter(&mut self, page: u64) {
        self.list.push(page, false);
    }

    fn hit(&mut self, page: u64) {
        *self.list.state(page) = true;
    }

    fn victim(&mut self, _target: usize, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let page = self.list.lru(pinned).expect("an unpinned page");
            if !*self.list.state(page) {
                return page;
            }
            *self.list.state(page) = false;
            self.list.move_to_mru(page);
        }
    }

    fn leave_for_other(&mut self, page: u64) {
        self.list.take(page);
    }

    fn leave_buffer(&mut self, page: u64, _target: usize) {
        self.list.take(page);
    }

    fn pages(&self) -> Vec<u64> {
        self.list.pages().collect()
    }
}

/// Full 2Q over `target` pages.
#[derive(Default)]
struct TwoQueuePool {
    a1in: List<()>,
    /// Numbers of pages evicted from A1in, the oldest first.
    a1out: Vec<u64>,
    am: List<()>,
}

impl Pool for TwoQueuePool {
    fn enter(&mut self, page: u64) {
        match self.a1out.iter().position(|ghost| *ghost == page) {
            Some(place) => {
                self.a1out.remove(place);
                self.am.push(page, ());
            }
            None => self.a1in.push(page, ()),
        }
    }

    fn hit(&mut self, page: u64) {
        if self.am.contains(page) {
            self.am.move_to_mru(page);
        }
    }

    fn victim(&mut self, target: usize, pinned: &BTreeSet<u64>) -> u64 {
        let kin = target / 4;
        let a1in = self.a1in.lru(pinned);
        let am = self.am.lru(pinned);
        let first = if self.a1in.len() > kin { a1in.or(am) } else { am.or(a1in) };
        first.expect("an unpinned page")
    }

    fn leave_for_other(&mut self, page: u64) {
        if self.a1in.contains(page) {
            self.a1in.take(page);
        } else {
            self.am.take(page);
        }
    }

    fn leave_buffer(&mut self, page: u64, target: usize) {
        if self.am.contains(page) {
            self.am.take(page);
            return;
        }
        self.a1in.take(page);
        let kout = target / 2;
        self.a1out.push(page);
        while self.a1out.len() > kout {
            self.a1out.remove(0);
        }
    }

    fn pages(&self) -> Vec<u64> {
        self.a1in.pages().chain(self.am.pages()).collect()
    }
}
