//! Clean-first LRU.

use ebbpool_cost::Decimal;

use super::regions::CleanFirst;
use crate::clusters::KEYS;
use crate::lists::store_coming;
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry, WINDOW};

/// LRU that prefers a clean page within the window at the LRU end.
pub struct Cflru {
    regions: CleanFirst,
    window: Decimal,
}

parameters! {
    /// The parameters of [`Cflru`].
    pub struct CflruConfig {
        window: Decimal = WINDOW,
        ..CLUSTER,
        ..KEYS,
    }
}

impl RegisteredPolicy for Cflru {
    type Config = CflruConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "cflru",
        aliases: &[],
        params: CflruConfig::PARAMS,
        summary: "LRU that evicts the least recent clean page of a window at the LRU end, and a dirty one only where the window has no clean page.",
        how: "One LRU list. The window is the share of it nearest the LRU end. The clean page of the window nearest that end is evicted; where the window holds no clean page, the page at the LRU end, which is dirty then. A hit moves the page to the recent end. So clean pages are evicted earlier and dirty ones stay longer, the more so the wider the window.",
        when: "Use it in place of lru as R grows (Park et al.). It loses a little where writes are cheap and memory is small. The window must suit the workload and the asymmetry: FD-Buffer (figure 3) finds bad windows up to 18 % dearer than lru. AD-LRU adds that it ignores how often pages are used.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(10),
        source: "Park et al. 2006; a rival in all five papers",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(config: CflruConfig, frames: u32) -> Self {
        Cflru { regions: CleanFirst::new(frames, share_of(config.window, frames)), window: config.window }
    }
}

impl Policy for Cflru {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT.union(Capabilities::RESIZES);

    fn wrote(&mut self, frame: Frame) -> bool {
        self.regions.wrote(frame);
        true
    }

    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        Some(store_coming(self.regions.coming(), may_evict, coming))
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if self.regions.in_window(frame) {
            let dirty = self.regions.is_dirty(frame) || access.is_write();
            self.regions.leave(frame);
            self.regions.enter(frame, dirty);
        } else {
            self.regions.touch(frame, access);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.regions.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.regions.clean(&may_evict).or_else(|| self.regions.lru(may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.regions.enter(frame, access.is_write());
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.regions.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.regions.cleaned(frame);
    }

    fn moved(&mut self, from: Frame, to: Frame) {
        self.regions.moved(from, to);
    }

    fn resize(&mut self, frames: u32) {
        self.regions.resize(frames, share_of(self.window, frames));
    }
}
