//! Least recently used.

use crate::clusters::KEYS;
use crate::lists::{FrameLists, store_coming};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

/// Evicts the page whose last reference is oldest.
pub struct Lru {
    lists: FrameLists<1>,
}

impl RegisteredPolicy for Lru {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lru",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "Evicts the least recently used page.",
        how: "One list in order of last use. A hit moves the page to the recent end; the page at the other end is evicted, clean or dirty.",
        when: "Use it where a write costs about as much as a read: there few policies save much against it. It loses where writes cost more, since it treats a dirty page like a clean one. All five papers measure against it.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(8),
        source: "folklore; the baseline of all five papers",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        Lru { lists: FrameLists::new(frames) }
    }
}

impl Policy for Lru {
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
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.lists.move_to_mru(0, frame);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.lists.prefetch(frame);
    }

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
