//! Least recently/frequently used.

use ebbpool_cost::Decimal;

use crate::heap::IndexedHeap;
use crate::parameters::parameters;
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry};

/// Evicts the page with the least sum of its references, each weighted by its age.
///
/// One reference is one unit of time. All sums (CRF, combined recency and frequency) halve every 1
/// / lambda references alike, so pages are ordered by a value that does not change with time: the
/// *standing*, log2(CRF) + lambda x now, a double. A reference computes the current CRF from it as
/// 2^(standing - lambda x now), adds 1, and takes the logarithm again. Of equal standings the least
/// recently used page is evicted. So lambda=0 is exactly LFU among resident pages, lambda=1 LRU.
pub struct Lrfu {
    lambda: f64,
    /// References so far.
    now: u64,
    /// (standing, last reference) of each page.
    order: IndexedHeap<(f64, u64)>,
}

parameters! {
    /// The parameters of [`Lrfu`].
    pub struct LrfuConfig {
        lambda: Decimal = {
            kind: ParameterKind::Share,
            default: "0.001",
            about: "how fast references fade: they count half after 1/lambda references; 0 is LFU, 1 is LRU",
        },
    }
}

impl RegisteredPolicy for Lrfu {
    type Config = LrfuConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lrfu",
        aliases: &[],
        params: LrfuConfig::PARAMS,
        summary: "Evicts the page with the least sum of past references, each counting less the older it is.",
        how: "Each page has a value, the sum of its references since its admission, of which one that is x references old counts (1/2)^(lambda x). The page with the least value is evicted, of equals the least recently used. Nothing is stored about evicted pages. Pages are in a heap by log2(value) + lambda x now, which does not change with time.",
        when: "Use it to study the range between lru and lfu: all depends on lambda (Lee et al.). With the default, references fade within a few thousand, so that it is close to lru in memory of more frames. A smaller lambda helps where the same pages stay popular and hurts badly where pages used often once are not used again. A hit costs O(log m), an exponential and a logarithm.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(24),
        source: "Lee et al. 2001",
    };

    fn new(config: LrfuConfig, frames: u32) -> Self {
        Lrfu { lambda: config.lambda.to_f64(), now: 0, order: IndexedHeap::new(frames, frames) }
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
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.now += 1;
        let one = self.standing_of_one();
        if let Some((standing, _)) = self.order.key(frame) {
            // libm and not the system's functions, so that the victims are the same on every
            // machine.
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
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.order.least_where(may_evict)
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
