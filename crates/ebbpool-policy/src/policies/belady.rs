//! Belady's algorithm, which knows the future.

use crate::heap::IndexedHeap;
use crate::policy::{Access, Foresight, Frame, NextUse, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Memory, PolicySpec};

/// Evicts the page whose next use is farthest; pages never used again first, among them clean
/// before dirty, then the lowest page number. Fewest misses of all, but not the smallest bill
/// (FD-Buffer, table 2).
pub struct Belady {
    next_use: u64,
    pages: Vec<Page>,
    order: IndexedHeap<Turn>,
}

/// When a page goes: the least goes first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Turn {
    class: Class,
    /// The page number of a dead page; of a live one the distance of its next use from the end of
    /// time.
    within: u64,
    dirty: bool,
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Class {
    CleanAndDead,
    DirtyAndDead,
    Alive,
}

impl Build for Belady {
    const ENTRY: Entry = Entry {
        name: "belady",
        aliases: &[],
        params: &[],
        summary: "Evicts the page whose next use is farthest in the future (offline).",
        how: "Knows for every page when it is used next. The page whose next use lies farthest ahead goes; pages never used again go before all others, clean ones before dirty ones, then by page number.",
        when: "A bound, not a choice: no policy reads fewer pages. Its bill is not the least possible, as FD-Buffer, table 2 shows, because it does not weigh writes: on pg-tatp at R = 32 and 3 % ccf-lru is 1.4 % cheaper. The simulator holds the positions of next uses in memory for it.",
        memory: Memory::of(32),
        source: "Belady 1966; FD-Buffer, table 2",
        online: false,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    const FORESIGHT: Foresight = Foresight::References;

    fn build(_spec: &PolicySpec, frames: u32) -> Self {
        Belady {
            next_use: NextUse::NEVER,
            pages: vec![0; frames as usize],
            order: IndexedHeap::new(frames, frames),
        }
    }
}

impl Belady {
    /// The turn of the page in `frame` if it is used next at `self.next_use`.
    #[inline]
    fn turn(&self, frame: Frame, dirty: bool) -> Turn {
        if self.next_use == NextUse::NEVER {
            self.turn_of_dead(frame, dirty)
        } else {
            Turn {
                class: Class::Alive,
                within: u64::MAX - self.next_use,
                dirty,
            }
        }
    }

    #[inline]
    fn turn_of_dead(&self, frame: Frame, dirty: bool) -> Turn {
        let class = if dirty {
            Class::DirtyAndDead
        } else {
            Class::CleanAndDead
        };
        Turn {
            class,
            within: self.pages[frame as usize],
            dirty,
        }
    }
}

impl Policy for Belady {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let was_dirty = self.order.key(frame).is_some_and(|turn| turn.dirty);
        let turn = self.turn(frame, was_dirty || access.is_write());
        self.order.set(frame, turn);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.order.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        self.order.least_where(may_go)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        let turn = self.turn(frame, access.is_write());
        self.order.set(frame, turn);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.order.remove(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        if let Some(turn) = self.order.key(frame) {
            let cleaned = match turn.class {
                Class::Alive => Turn {
                    dirty: false,
                    ..turn
                },
                _ => self.turn_of_dead(frame, false),
            };
            self.order.set(frame, cleaned);
        }
    }

    #[inline]
    fn next_use(&mut self, next: NextUse) {
        self.next_use = next.reference;
    }
}
