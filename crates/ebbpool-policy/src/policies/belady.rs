//! Belady's algorithm, which knows the future.

use crate::heap::IndexedHeap;
use crate::policy::{Access, Frame, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, PolicySpec};

/// Evicts the page whose next use is farthest; pages never used again first, among them clean
/// before dirty, then the lowest page number. Fewest misses of all, but not the smallest bill
/// (FD-Buffer, table 2).
pub struct Belady {
    next_use: u64,
    pages: Vec<Page>,
    dirty: Vec<bool>,
    /// Pages with a next use, keyed by its distance from the end of time: farthest first.
    alive: IndexedHeap<u64>,
    /// Pages without one, clean and dirty, by page number.
    dead: [IndexedHeap<Page>; 2],
}

impl Build for Belady {
    const ENTRY: Entry = Entry {
        name: "belady",
        aliases: &[],
        params: &[],
        summary: "Evicts the page whose next use is farthest in the future (offline).",
        how: "Knows for every page when it is used next. The page whose next use lies farthest ahead goes; pages never used again go before all others, clean ones before dirty ones, then by page number.",
        when: "A bound, not a choice: no policy reads fewer pages. Its bill is not the least possible, as FD-Buffer, table 2 shows, because it does not weigh writes: on pg-tatp at R = 32 and 3 % ccf-lru is 1.4 % cheaper. The simulator holds the positions of next uses in memory for it.",
        bytes_per_frame: 69,
        source: "Belady 1966; FD-Buffer, table 2",
        online: false,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    fn build(_spec: &PolicySpec, frames: u32) -> Self {
        Belady {
            next_use: u64::MAX,
            pages: vec![0; frames as usize],
            dirty: vec![false; frames as usize],
            alive: IndexedHeap::new(frames),
            dead: [IndexedHeap::new(frames), IndexedHeap::new(frames)],
        }
    }
}

impl Belady {
    fn forget(&mut self, frame: Frame) {
        self.alive.remove(frame);
        self.dead.iter_mut().for_each(|heap| heap.remove(frame));
    }

    fn place(&mut self, frame: Frame) {
        if self.next_use == u64::MAX {
            self.alive.remove(frame);
            let dirty = usize::from(self.dirty[frame as usize]);
            self.dead[dirty].set(frame, self.pages[frame as usize]);
        } else {
            self.alive.set(frame, u64::MAX - self.next_use);
        }
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
        self.alive.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let [clean, dirty] = &self.dead;
        clean
            .least_where(&may_go)
            .or_else(|| dirty.least_where(&may_go))
            .or_else(|| self.alive.least_where(&may_go))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        self.dirty[frame as usize] = access.is_write();
        self.place(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.forget(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        if let Some(page) = self.dead[1].key(frame) {
            self.dead[1].remove(frame);
            self.dead[0].set(frame, page);
        }
    }

    #[inline]
    fn next_use(&mut self, position: u64) {
        self.next_use = position;
    }
}
