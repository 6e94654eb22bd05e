//! Clean-first LRU that spares pages written often.

use ebbpool_cost::Decimal;

use super::regions::CleanThenLeast;
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry, WINDOW};

/// As CFLRU, but where the window has no clean page, its least written page is evicted.
pub struct CflruC {
    /// Counts write references since admission or the last write-back.
    regions: CleanThenLeast,
}

parameters! {
    /// The parameters of [`CflruC`].
    pub struct CflruCConfig {
        window: Decimal = WINDOW,
    }
}

impl RegisteredPolicy for CflruC {
    type Config = CflruCConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "cflru-c",
        aliases: &[],
        params: CflruCConfig::PARAMS,
        summary: "CFLRU in which, where the window has no clean page, its least often written page is evicted.",
        how: "As cflru: the clean page of the window nearest the LRU end is evicted. Where the window, which has at least one page, holds no clean page, its dirty page with the fewest writes since its admission or last write-back is evicted; among equals the one nearest the LRU end.",
        when: "Use it in place of cflru where few pages receive most of the writes. Where writes are spread evenly, counting them gains nothing. AD-LRU notes that it, too, ignores how often clean pages are used. It needs an ordered tree over the window's dirty pages.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(28),
        source: "Yoo et al. 2007; AD-LRU, section 4",
    };

    fn new(config: CflruCConfig, frames: u32) -> Self {
        CflruC { regions: CleanThenLeast::new(frames, share_of(config.window, frames)) }
    }
}

impl Policy for CflruC {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            let writes = self.regions.count(frame).saturating_add(1);
            self.regions.set_count(frame, writes);
        }
        self.regions.hit(frame, access);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.regions.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.regions.victim(may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.regions.set_count(frame, u32::from(access.is_write()));
        self.regions.enter(frame, access.is_write());
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.regions.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.regions.cleaned(frame);
        self.regions.set_count(frame, 0);
    }
}
