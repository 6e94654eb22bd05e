//! Flash-aware buffer management.

use crate::blocks::Blocks;
use crate::heap::IndexedHeap;
use crate::parameters::parameters;
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{BLOCK, MemoryUse, PolicyEntry};

/// Evicts whole erase blocks, the one with the most resident pages first.
pub struct Fab {
    /// Lists the resident pages in the order of admission.
    blocks: Blocks<0, LastUsed>,
    /// Most pages first, then the block least recently used. A block used since its last check may
    /// stand too far ahead until it reaches the front.
    order: IndexedHeap<(u32, u64)>,
    references: u64,
}

/// The reference that used a block last.
#[derive(Default)]
struct LastUsed(u64);

parameters! {
    /// The parameters of [`Fab`].
    pub struct FabConfig {
        block: u64 = BLOCK,
    }
}

impl RegisteredPolicy for Fab {
    type Config = FabConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "fab",
        aliases: &[],
        params: FabConfig::PARAMS,
        summary: "LRU by erase block that evicts the block with the most resident pages as a whole.",
        how: "Resident pages are grouped by erase block; a hit or an admission makes the page's block the most recent. The block with the most resident pages is evicted, among equals the least recently used: all its pages in the order of admission, the dirty ones written.",
        when: "Use it for devices that map by blocks and merge them, for which Jo et al. designed it: there it takes less device time than lru. Under the plain cost model it evicts too much at a time and is much dearer than lru.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(16).scattered(106),
        source: "Jo et al. 2006",
    };

    // Bills from samples are too low where hot pages are neighbours, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(config: FabConfig, frames: u32) -> Self {
        Fab { blocks: Blocks::new(frames, config.block), order: IndexedHeap::growing(), references: 0 }
    }
}

impl Fab {
    #[inline]
    fn key(&self, slot: u32) -> (u32, u64) {
        let pages = self.blocks.listed(slot);
        (u32::MAX - pages, self.blocks.of_owner(slot).0)
    }

    #[inline]
    fn touch(&mut self, slot: u32) {
        self.references += 1;
        self.blocks.of_owner_mut(slot).0 = self.references;
    }
}

impl Policy for Fab {
    const CAPABILITIES: Capabilities = Capabilities::EVICTS_MORE;

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn reserve(&mut self) -> bool {
        let frames = self.blocks.frames_in_all();
        self.blocks.reserve(frames);
        self.order.reserve(frames);
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.touch(self.blocks.of(frame));
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.blocks.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        loop {
            let first = |slot| self.blocks.first_where(slot, &may_evict);
            let slot = self.order.least_where(|slot| first(slot).is_some())?;
            let key = self.key(slot);
            if self.order.key(slot) == Some(key) {
                return first(slot);
            }
            self.order.set(slot, key);
        }
    }

    fn evicted_with(&self, victim: Frame, evictions: &mut Vec<Frame>) {
        let slot = self.blocks.of(victim);
        evictions.extend(self.blocks.frames(slot).filter(|&frame| frame != victim));
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        let (slot, _) = self.blocks.join(frame, page);
        self.blocks.list(frame);
        self.touch(slot);
        self.order.set(slot, self.key(slot));
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.blocks.unlist(frame);
        if let (slot, true) = self.blocks.leave(frame) {
            self.order.remove(slot);
        }
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
