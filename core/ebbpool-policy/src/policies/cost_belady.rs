//! Belady's algorithm with a cost for writes.

use crate::heap::IndexedHeap;
use crate::policy::{Access, Capabilities, Costs, Frame, NextUse, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// A position reversed, so that a heap of least keys yields the farthest.
type Farthest = u64;

fn farthest(position: u64) -> Farthest {
    u64::MAX - position
}

/// The saving of a page per position that it stays resident: 1 up to its next reference, R + 1 up
/// to its next write while it is dirty. Without a next reference or write there is no saving.
fn saving_rate(saved: f64, now: u64, then: u64) -> f64 {
    match then {
        NextUse::NEVER => 0.0,
        _ => saved / then.saturating_sub(now) as f64,
    }
}

/// Evicts the page that saves least per position that it stays resident. It knows the next
/// reference and the next write.
pub struct CostBelady {
    write_saving: f64,
    upcoming: NextUse,
    pages: Vec<Page>,
    dirty: Vec<bool>,
    reference: Vec<u64>,
    write: Vec<u64>,
    /// Clean pages never used again.
    dead: IndexedHeap<Page>,
    /// Pages of which the next reference saves most.
    by_reference: IndexedHeap<(Farthest, Page)>,
    /// Dirty pages of which the next write saves most, as of their last use. As the next reference
    /// approaches, a page may move to `by_reference` but not back, so it is enough to check it when
    /// it reaches the top.
    by_write: IndexedHeap<(Farthest, Farthest, Page)>,
}

impl RegisteredPolicy for CostBelady {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "cost-belady",
        aliases: &[],
        params: &[],
        summary: "Evicts the page that saves least per reference that it stays resident, reads and writes weighed by cost (offline).",
        how: "It knows for every page when it is read or written next. Clean pages never used again are evicted first. Of the others it evicts the page whose max(1 / references to its next use, (R + 1) / references to its next write if it is dirty) is least; among equals the one whose next use is farthest, then the lowest page number. Where dirty pages are left at the end for free, the end counts as a write.",
        when: "A yardstick, not a choice, since it requires the future: it takes no longer to compute than belady and comes close to the least possible bill; price-guided comes closer. The simulator stores three numbers per reference in memory for it.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(97),
        source: "this project; after Belady 1966",
    };

    fn new(_config: (), frames: u32) -> Self {
        let count = frames as usize;
        CostBelady {
            write_saving: 1.0 + Costs::default().asymmetry(),
            upcoming: NextUse::UNKNOWN,
            pages: vec![0; count],
            dirty: vec![false; count],
            reference: vec![NextUse::NEVER; count],
            write: vec![NextUse::NEVER; count],
            dead: IndexedHeap::new(frames, frames),
            by_reference: IndexedHeap::new(frames, frames),
            by_write: IndexedHeap::new(frames, frames),
        }
    }
}

impl CostBelady {
    fn reference_rate(&self, frame: Frame) -> f64 {
        saving_rate(1.0, self.upcoming.position, self.reference[frame as usize])
    }

    fn write_rate(&self, frame: Frame) -> f64 {
        saving_rate(self.write_saving, self.upcoming.position, self.write[frame as usize])
    }

    fn forget(&mut self, frame: Frame) {
        self.dead.remove(frame);
        self.by_reference.remove(frame);
        self.by_write.remove(frame);
    }

    fn place(&mut self, frame: Frame) {
        self.forget(frame);
        let at = frame as usize;
        let (page, reference) = (self.pages[at], self.reference[at]);
        if !self.dirty[at] && reference == NextUse::NEVER {
            self.dead.set(frame, page);
        } else if self.dirty[at] && self.write_rate(frame) > self.reference_rate(frame) {
            let key = (farthest(self.write[at]), farthest(reference), page);
            self.by_write.set(frame, key);
        } else {
            self.by_reference.set(frame, (farthest(reference), page));
        }
    }

    fn used(&mut self, frame: Frame) {
        self.reference[frame as usize] = self.upcoming.reference;
        self.write[frame as usize] = self.upcoming.write;
        self.place(frame);
    }

    /// The frame that saves least among those in `by_write`.
    fn least_by_write(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.by_write.least_where(&may_evict)?;
            if self.write_rate(frame) > self.reference_rate(frame) {
                return Some(frame);
            }
            self.place(frame);
        }
    }
}

impl Policy for CostBelady {
    const CAPABILITIES: Capabilities = Capabilities::COSTS.union(Capabilities::NEXT_USES).union(Capabilities::NEXT_WRITES);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        self.used(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if let Some(frame) = self.dead.least_where(&may_evict) {
            return Some(frame);
        }
        let by_write = self.least_by_write(&may_evict);
        let by_reference = self.by_reference.least_where(&may_evict);
        match (by_reference, by_write) {
            (Some(one), Some(other)) => {
                let rates = (self.reference_rate(one), self.write_rate(other));
                let key = |frame: Frame| {
                    let at = frame as usize;
                    (farthest(self.reference[at]), self.pages[at])
                };
                let first = rates.0 < rates.1 || rates.0 == rates.1 && key(one) < key(other);
                Some(if first { one } else { other })
            }
            (one, other) => one.or(other),
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        self.dirty[frame as usize] = access.is_write();
        self.used(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.forget(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        self.place(frame);
    }

    fn costs(&mut self, costs: Costs) {
        self.write_saving = 1.0 + costs.asymmetry();
        for frame in 0..self.pages.len() as Frame {
            if self.by_reference.key(frame).is_some() || self.by_write.key(frame).is_some() {
                self.place(frame);
            }
        }
    }

    #[inline]
    fn next_use(&mut self, next: NextUse) {
        self.upcoming = next;
    }
}
