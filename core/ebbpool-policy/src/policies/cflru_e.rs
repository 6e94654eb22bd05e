//! Clean-first LRU that spares worn erase blocks.

use ebbpool_cost::Decimal;

use super::regions::CleanThenLeast;
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry, WINDOW};

/// As CFLRU, but where the window has no clean page, the page whose erase block was erased least is
/// evicted.
pub struct CflruE {
    /// Counts the erases of the page's erase block.
    regions: CleanThenLeast,
}

parameters! {
    /// The parameters of [`CflruE`].
    pub struct CflruEConfig {
        window: Decimal = WINDOW,
    }
}

impl RegisteredPolicy for CflruE {
    type Config = CflruEConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "cflru-e",
        aliases: &[],
        params: CflruEConfig::PARAMS,
        summary: "CFLRU in which, where the window has no clean page, the page on the least worn erase block is evicted.",
        how: "As cflru: the clean page of the window nearest the LRU end is evicted. Where the window, which has at least one page, holds no clean page, its dirty page whose erase block was erased least often is evicted; among equals the one nearest the LRU end. The device reports the erase counts; a page that no block holds counts as never erased.",
        when: "Use it on a simulated flash device that maps by blocks, where merges leave worn blocks with the pages that are written often: there it saves more device time than cflru and cflru-c. With a page map a block holds pages of all kinds, so that its wear says little about them, and cflru-c is better.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(28),
        source: "Yoo et al. 2007",
    };

    fn new(config: CflruEConfig, frames: u32) -> Self {
        CflruE { regions: CleanThenLeast::new(frames, share_of(config.window, frames)) }
    }
}

impl Policy for CflruE {
    const CAPABILITIES: Capabilities = Capabilities::ERASE_COUNTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
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
        self.regions.set_count(frame, 0);
        self.regions.enter(frame, access.is_write());
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.regions.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.regions.cleaned(frame);
    }

    fn erase_count(&mut self, frame: Frame, erases: u32) {
        self.regions.set_count(frame, erases);
    }
}
