//! Least recently/frequently used.

use crate::heap::IndexedHeap;
use crate::policy::{Access, Frame, Ghost, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Kind, Memory, Param, PolicySpec, Value};

/// Evicts the page with the least sum of its references, each weighted by its age.
///
/// One reference is one unit of time. All sums (CRF, combined recency and frequency) halve every
/// 1 / lambda references alike, so pages are ordered by what does not change with time: the
/// *standing*, log2(CRF) + lambda x now, a double. A reference takes the CRF of the moment from it
/// as 2^(standing - lambda x now), adds 1, and takes the logarithm again. Of equal standings the
/// least recently used page goes. So lambda=0 is exactly LFU among resident pages, lambda=1 LRU.
pub struct Lrfu {
    lambda: f64,
    /// References so far.
    now: u64,
    /// (standing, last reference) of each page.
    order: IndexedHeap<(f64, u64)>,
}

impl Build for Lrfu {
    const ENTRY: Entry = Entry {
        name: "lrfu",
        aliases: &[],
        params: &[Param {
            name: "lambda",
            kind: Kind::Share,
            default: "0.001",
            about: "how fast references fade: they count half after 1/lambda references; 0 is LFU, 1 is LRU",
        }],
        summary: "Evicts the page with the least sum of past references, each counting less the older it is.",
        how: "Each page has a value, the sum of its references since it came in, of which one that is x references old counts (1/2)^(lambda x). The page with the least value goes, of equals the least recently used. Nothing is kept of pages that left. Pages stand in a heap by log2(value) + lambda x now, which time does not change.",
        when: "All depends on lambda. With the default references fade within a few thousand, so in the memory of the samples it is close to lru: at R = 32 and 3 % it saves 0.3 % (pg-tpcc), 0.1 % (pg-tpcb) and 4.0 % (pg-tatp). With lambda=0.00001 it saves 39.0 % on pg-tatp, but costs 9.8 % more than lru on pg-tpcc and 64.1 % more on pg-tpcb, where pages used often once stay too long. A hit costs O(log m), an exponential and a logarithm.",
        memory: Memory::of(24),
        source: "Lee et al. 2001",
        online: true,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        let lambda = match spec.value("lambda") {
            Some(Value::Decimal(lambda)) => lambda.to_f64(),
            _ => 0.0,
        };
        Lrfu {
            lambda,
            now: 0,
            order: IndexedHeap::new(frames, frames),
        }
    }
}

impl Lrfu {
    /// The standing of a page with a CRF of 1 now.
    #[inline]
    fn standing_of_one(&self) -> f64 {
        self.lambda * self.now as f64
    }
}

impl Policy for Lrfu {
    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.now += 1;
        let one = self.standing_of_one();
        if let Some((standing, _)) = self.order.key(frame) {
            // libm and not the system's functions: the same victims on every machine.
            let crf = 1.0 + libm::exp2(standing - one);
            self.order.set(frame, (one + libm::log2(crf), self.now));
        }
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {
        self.now += 1;
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
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.order.set(frame, (self.standing_of_one(), self.now));
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.order.remove(frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
