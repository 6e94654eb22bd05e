//! First in, first out.

use crate::clusters::KEYS;
use crate::lists::{FrameLists, store_coming};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

/// Evicts the page that was admitted first; a hit changes nothing.
pub struct Fifo {
    lists: FrameLists<1>,
}

impl RegisteredPolicy for Fifo {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "fifo",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "Evicts the page that was admitted first.",
        how: "One queue in order of admission. A hit changes nothing but the dirty flag. The page that has been in the buffer longest is evicted, clean or dirty.",
        when: "Use it as a floor to measure other policies against. It is almost never the cheapest, because it ignores hits.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(8),
        source: "folklore",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        Fifo { lists: FrameLists::new(frames) }
    }
}

impl Policy for Fifo {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT.union(Capabilities::RESIZES);

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        Some(store_coming(self.lists.frames(0), may_evict, coming))
    }

    #[inline]
    fn hit(&mut self, _frame: Frame, _access: Access) {}

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.lists.find_from_lru(0, may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.lists.push_mru(0, frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(0, frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}

    fn moved(&mut self, from: Frame, to: Frame) {
        self.lists.replace(from, to);
    }

    fn resize(&mut self, frames: u32) {
        self.lists.resize(frames);
    }
}
