//! Keeps the pages whose savings exceed the price of their frame.

use std::sync::Arc;

use crate::heap::IndexedHeap;
use crate::policy::{Access, Capabilities, Costs, Frame, NextUse, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// The order of eviction: the least value, the farthest of equals, the lowest page number.
type Key = (f64, u64, Page);

/// The value of clean pages never used again is below all others; that of dirty ones is next.
const DEAD_CLEAN: f64 = f64::NEG_INFINITY;
const DEAD_DIRTY: f64 = f64::MIN;

/// Evicts the page of least value, computed with the prices of frames from the offline lower bound.
pub struct PriceGuided {
    asymmetry: f64,
    prices: Arc<[f64]>,
    upcoming: NextUse,
    pages: Vec<Page>,
    dirty: Vec<bool>,
    /// The future of each page as of its last use.
    next: Vec<NextUse>,
    by_value: IndexedHeap<Key>,
}

impl RegisteredPolicy for PriceGuided {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "price-guided",
        aliases: &[],
        params: &[],
        summary: "Evicts the page whose savings, less the price of a frame until then, are least (offline).",
        how: "The computation of the offline lower bound yields a price for a frame at every position of the trace. The value of a page is the read that its next use saves, less the price of its frame until then; that of a dirty page is the write and all reads saved up to its next write, less the price until then, if that is more. The page of least value is evicted; among equals the one whose savings lie farthest ahead, then the lowest page number. Clean pages never used again are evicted before all others, then dirty ones that would be written in any case.",
        when: "A yardstick, not a choice, since the prices of each size and asymmetry have to be computed from the whole trace first. On most traces it is the cheapest policy known, and so the upper end of the range that 'ebbpool bound' prints.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(73),
        source: "this project; Lagrangian prices of the paging problem with write-backs",
    };

    // Reads from samples are off by more than their error in one of eight cases (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(_config: (), frames: u32) -> Self {
        PriceGuided {
            asymmetry: Costs::default().asymmetry(),
            prices: Arc::new([]),
            upcoming: NextUse::UNKNOWN,
            pages: vec![0; frames as usize],
            dirty: vec![false; frames as usize],
            next: vec![NextUse::UNKNOWN; frames as usize],
            by_value: IndexedHeap::new(frames, frames),
        }
    }
}

impl PriceGuided {
    /// The price of a frame from the beginning to `position`.
    fn price_up_to(&self, position: u64) -> f64 {
        let index = usize::try_from(position).ok();
        let price = index.and_then(|at| self.prices.get(at));
        price.or(self.prices.last()).copied().unwrap_or(0.0)
    }

    fn key(&self, frame: Frame) -> Key {
        let at = frame as usize;
        let next = &self.next[at];
        // Prices are counted from the beginning and not from now, which shifts all values by the
        // same amount and avoids computing them anew.
        let read = match next.reference {
            NextUse::NEVER => DEAD_CLEAN,
            position => 1.0 - self.price_up_to(position),
        };
        let write = match (self.dirty[at], next.write) {
            (false, _) => DEAD_CLEAN,
            (true, NextUse::NEVER) => DEAD_DIRTY,
            (true, position) => {
                let saved = self.asymmetry + f64::from(next.references_to_write);
                saved - self.price_up_to(position)
            }
        };
        let (value, position) = match write > read {
            true => (write, next.write),
            false => (read, next.reference),
        };
        (value, u64::MAX - position, self.pages[at])
    }

    fn used(&mut self, frame: Frame) {
        self.next[frame as usize] = self.upcoming;
        self.by_value.set(frame, self.key(frame));
    }

    fn value_all(&mut self) {
        for frame in 0..self.pages.len() as Frame {
            if self.by_value.key(frame).is_some() {
                self.by_value.set(frame, self.key(frame));
            }
        }
    }
}

impl Policy for PriceGuided {
    const CAPABILITIES: Capabilities =
        Capabilities::COSTS.union(Capabilities::NEXT_USES).union(Capabilities::NEXT_WRITES).union(Capabilities::PRICES);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        self.used(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.by_value.least_where(may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        self.dirty[frame as usize] = access.is_write();
        self.used(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.by_value.remove(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        self.by_value.set(frame, self.key(frame));
    }

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = costs.asymmetry();
        self.value_all();
    }

    #[inline]
    fn next_use(&mut self, next: NextUse) {
        self.upcoming = next;
    }

    fn prices(&mut self, prices: Arc<[f64]>) {
        self.prices = prices;
        self.value_all();
    }
}
