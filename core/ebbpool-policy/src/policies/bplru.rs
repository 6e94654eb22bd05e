//! Block padding LRU.

use std::num::NonZeroU64;

use crate::blocks::Blocks;
use crate::lists::FrameLists;
use crate::parameters::{one_of, parameters};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{BLOCK, MemoryUse, PolicyEntry, text_beside};

/// Evicts the least recently used erase block as a whole; blocks written in sequence are evicted
/// first.
pub struct Bplru {
    /// Lists the resident pages in the order of admission.
    blocks: Blocks<0, InSequence>,
    /// Pages per block.
    size: u32,
    padding: Option<NonZeroU64>,
    /// The slots of the blocks, by recency.
    recency: FrameLists<1>,
    /// The number of each frame's page within its block.
    offsets: Vec<u32>,
}

/// The number of pages of a block that were written in sequence from its first page on.
#[derive(Default)]
struct InSequence(u32);

parameters! {
    /// The parameters of [`Bplru`].
    pub struct BplruConfig {
        block: u64 = BLOCK,
        padding: bool = {
            kind: one_of::<bool>(),
            default: "false",
            about: "whether the missing pages of a block are read, so that it is written whole",
        },
    }
}

impl RegisteredPolicy for Bplru {
    type Config = BplruConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "bplru",
        aliases: &[],
        params: BplruConfig::PARAMS,
        summary: "LRU by erase block that evicts whole blocks, those written in sequence first.",
        how: text_beside!("bplru.md"),
        when: "Use it for the buffer inside a drive that maps by blocks, for which Kim and Ahn designed it: under such a mapping it takes less device time than lru. Under the plain cost model it is close to lru, sometimes dearer. Padding pays only where blocks are evicted nearly complete; elsewhere it multiplies the pages written.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(27).scattered(88),
        source: "Kim and Ahn 2008",
    };

    fn new(config: BplruConfig, frames: u32) -> Self {
        let size = config.block;
        Bplru {
            blocks: Blocks::new(frames, size),
            // A block has at most MAX_PAGES pages.
            size: size as u32,
            padding: NonZeroU64::new(size).filter(|_| config.padding),
            recency: FrameLists::new(frames),
            offsets: vec![0; frames as usize],
        }
    }
}

impl Bplru {
    /// The page in `frame`, whose block has just become the most recent, was referenced.
    #[inline]
    fn note(&mut self, frame: Frame, slot: u32, access: Access) {
        if !access.is_write() {
            return;
        }
        let offset = self.offsets[frame as usize];
        let written = &mut self.blocks.of_owner_mut(slot).0;
        *written = match offset {
            0 => 1,
            _ if offset == *written => offset + 1,
            _ => 0,
        };
        if *written == self.size {
            *written = 0;
            self.recency.remove(0, slot);
            self.recency.push_lru(0, slot);
        }
    }
}

impl Policy for Bplru {
    const CAPABILITIES: Capabilities = Capabilities::EVICTS_MORE.union(Capabilities::PADDING);

    fn reserve(&mut self) -> bool {
        self.blocks.reserve(self.blocks.frames_in_all());
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let slot = self.blocks.of(frame);
        self.recency.move_to_mru(0, slot);
        self.note(frame, slot, access);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.blocks.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let first = |slot| self.blocks.first_where(slot, &may_evict);
        let slot = self.recency.find_from_lru(0, |slot| first(slot).is_some())?;
        first(slot)
    }

    fn evicted_with(&self, victim: Frame, evictions: &mut Vec<Frame>) {
        let slot = self.blocks.of(victim);
        evictions.extend(self.blocks.frames(slot).filter(|&frame| frame != victim));
    }

    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::PADDING, self.padding.is_some());
        found
    }

    fn padded_block(&self, _victim: Frame) -> Option<NonZeroU64> {
        self.padding
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        let (slot, new) = self.blocks.join(frame, page);
        self.blocks.list(frame);
        self.offsets[frame as usize] = (page % u64::from(self.size)) as u32;
        if new {
            self.recency.push_mru(0, slot);
        } else {
            self.recency.move_to_mru(0, slot);
        }
        self.note(frame, slot, access);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.blocks.unlist(frame);
        let (slot, removed) = self.blocks.leave(frame);
        *self.blocks.of_owner_mut(slot) = InSequence::default();
        if removed {
            self.recency.remove(0, slot);
        }
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
