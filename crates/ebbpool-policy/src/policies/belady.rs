//! Belady's algorithm, which knows the future.

use std::collections::BinaryHeap;

use prefetch_index::prefetch_index;

use crate::policy::{Access, Foresight, Frame, NextUse, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Memory, PolicySpec};

/// In place of the next use of a page that has none. The position of a next use is below both, and
/// not 0.
const DEAD_AND_CLEAN: u64 = u64::MAX;
const DEAD_AND_DIRTY: u64 = u64::MAX - 1;

/// In place of the next use of an empty frame.
const EMPTY: u64 = 0;

/// When a page goes, the greatest first: by its next use, and among dead pages by the page number,
/// turned round.
type Turn = (u64, Page);

/// Evicts the page whose next use is farthest; pages never used again first, among them clean
/// before dirty, then the lowest page number. Fewest misses of all, but not the smallest bill
/// (FD-Buffer, table 2).
pub struct Belady {
    next_use: u64,
    pages: Vec<Page>,
    dirty: Vec<bool>,
    next_uses: Vec<u64>,
    /// The pages whose turn is above `bound`, with turns that no longer hold among them. The next
    /// use of a page that is hit was the nearest of all, so what is not about to go need not be
    /// kept in order.
    farthest: BinaryHeap<(Turn, Frame)>,
    /// The most that `farthest` holds.
    most: usize,
    bound: Turn,
    passed_over: Vec<(Turn, Frame)>,
}

impl Build for Belady {
    const ENTRY: Entry = Entry {
        name: "belady",
        aliases: &[],
        params: &[],
        summary: "Evicts the page whose next use is farthest in the future (offline).",
        how: "Knows for every page when it is used next. The page whose next use lies farthest ahead goes; pages never used again go before all others, clean ones before dirty ones, then by page number.",
        when: "A bound, not a choice: no policy reads fewer pages. Its bill is not the least possible, as FD-Buffer, table 2 shows, because it does not weigh writes: on pg-tatp at R = 32 and 3 % ccf-lru is 1.4 % cheaper. The simulator holds the positions of next uses in memory for it.",
        memory: Memory::of(23),
        source: "Belady 1966; FD-Buffer, table 2",
        online: false,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    const FORESIGHT: Foresight = Foresight::References;

    fn build(_spec: &PolicySpec, frames: u32) -> Self {
        let count = frames as usize;
        let most = (count / 4).max(16);
        Belady {
            next_use: NextUse::NEVER,
            pages: vec![0; count],
            dirty: vec![false; count],
            next_uses: vec![EMPTY; count],
            farthest: BinaryHeap::with_capacity(most),
            most,
            bound: (EMPTY, 0),
            passed_over: Vec::new(),
        }
    }
}

impl Belady {
    #[inline]
    fn turn(&self, frame: Frame) -> Turn {
        match self.next_uses[frame as usize] {
            dead @ DEAD_AND_DIRTY.. => (dead, !self.pages[frame as usize]),
            next_use => (next_use, 0),
        }
    }

    /// The page in `frame` is used next at `self.next_use`.
    #[inline]
    fn place(&mut self, frame: Frame) {
        self.next_uses[frame as usize] = match (self.next_use, self.dirty[frame as usize]) {
            (NextUse::NEVER, false) => DEAD_AND_CLEAN,
            (NextUse::NEVER, true) => DEAD_AND_DIRTY,
            (position, _) => position.clamp(EMPTY + 1, DEAD_AND_DIRTY - 1),
        };
        self.enter(frame);
    }

    #[inline]
    fn enter(&mut self, frame: Frame) {
        let turn = self.turn(frame);
        if turn <= self.bound {
            return;
        }
        if self.farthest.len() < self.most {
            self.farthest.push((turn, frame));
        } else {
            self.gather();
        }
    }

    /// Puts the farthest anew into `farthest`, so many that it is half full at least, if there are
    /// as many.
    fn gather(&mut self) {
        let mut farthest = std::mem::take(&mut self.farthest).into_vec();
        farthest.clear();
        self.bound = (EMPTY, 0);
        for frame in 0..self.next_uses.len() as Frame {
            if self.next_uses[frame as usize] < self.bound.0 {
                continue;
            }
            if farthest.len() == self.most {
                let half = self.most / 2;
                let (_, &mut (bound, _), _) =
                    farthest.select_nth_unstable_by(half, |one, other| other.cmp(one));
                farthest.truncate(half);
                self.bound = bound;
            }
            let turn = self.turn(frame);
            if turn > self.bound {
                farthest.push((turn, frame));
            }
        }
        self.farthest = farthest.into();
    }

    /// The farthest page, if any is there.
    #[inline]
    fn farthest(&mut self) -> Option<Frame> {
        loop {
            while let Some(&(turn, frame)) = self.farthest.peek() {
                if turn == self.turn(frame) {
                    return Some(frame);
                }
                self.farthest.pop();
            }
            self.gather();
            if self.farthest.is_empty() {
                return None;
            }
        }
    }

    /// The farthest page that may go, when the farthest of all may not.
    #[cold]
    fn farthest_where(&mut self, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut found = None;
        while let Some(entry) = self.farthest.pop() {
            let (turn, frame) = entry;
            if turn == self.turn(frame) {
                self.passed_over.push(entry);
                if may_go(frame) {
                    found = Some(frame);
                    break;
                }
            }
        }
        self.farthest.extend(self.passed_over.drain(..));
        found.or_else(|| {
            (0..self.next_uses.len() as Frame)
                .filter(|&frame| self.next_uses[frame as usize] != EMPTY && may_go(frame))
                .max_by_key(|&frame| self.turn(frame))
        })
    }
}

impl Policy for Belady {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        self.place(frame);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.next_uses, frame as usize);
        prefetch_index(&self.dirty, frame as usize);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        match self.farthest()? {
            frame if may_go(frame) => Some(frame),
            _ => self.farthest_where(may_go),
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        self.dirty[frame as usize] = access.is_write();
        self.place(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.next_uses[frame as usize] = EMPTY;
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        if self.next_uses[frame as usize] == DEAD_AND_DIRTY {
            self.next_uses[frame as usize] = DEAD_AND_CLEAN;
            self.enter(frame);
        }
    }

    #[inline]
    fn next_use(&mut self, next: NextUse) {
        self.next_use = next.reference;
    }
}
