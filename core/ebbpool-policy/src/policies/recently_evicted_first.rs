//! Recently-evicted-first.

use std::hint::black_box;

use ebbpool_cost::Decimal;

use crate::blocks::Blocks;
use crate::heap::IndexedHeap;
use crate::parameters::{parameters, share_of, whole};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{BLOCK, MemoryUse, PolicyEntry, WINDOW};

/// The list of the pages that are not in the window.
const WORKING: usize = 0;

/// Evicts the pages of a few erase blocks together, those with the most pages in the window at the
/// LRU end, so that few blocks share the device's log blocks.
pub struct RecentlyEvictedFirst {
    /// Lists the pages in the window, least recent first. The policy holds the victim blocks.
    blocks: Blocks<1, IsVictim>,
    /// The largest number of pages that are not in the window.
    working_size: u32,
    /// Blocks with pages in the window that are not victim blocks: most pages first, then the block
    /// whose least recent page entered the window first. A block that has lost pages may be too far
    /// ahead until it reaches the front.
    candidates: IndexedHeap<(u32, u64)>,
    victims: Vec<u32>,
    most_victims: usize,
    /// When each frame entered the window, 0 if it is not there: order of entry is order of
    /// recency.
    entered: Vec<u64>,
    entries: u64,
}

/// Whether a block is a victim block.
#[derive(Default)]
struct IsVictim(bool);

parameters! {
    /// The parameters of [`RecentlyEvictedFirst`].
    pub struct RefConfig {
        window: Decimal = WINDOW,
        block: u64 = BLOCK,
        victims: usize = {
            kind: whole(1, 1024),
            default: "4",
            about: "the most victim blocks at a time",
        },
    }
}

impl RegisteredPolicy for RecentlyEvictedFirst {
    type Config = RefConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "ref",
        aliases: &[],
        params: RefConfig::PARAMS,
        summary: "LRU that evicts from a few victim blocks, those with the most pages in a window at the LRU end.",
        how: "One LRU list, whose window is the share nearest the LRU end, at least one page. The erase blocks with the most pages in the window, a few of them, are the victim blocks; of their pages in the window the one nearest the LRU end is evicted. Only when no victim block has a page in the window any more is the set chosen anew. Clean and dirty pages count alike.",
        when: "Use it for devices that map by blocks and keep log blocks, where writes that share few erase blocks save merges (Seo and Shin). The plain cost model has no merges, so that the bill shows only the price of that, which is usually a little more than lru. PPE (figure 3) finds more faults and more flushes than with lru as well.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(24).scattered(102),
        source: "Seo and Shin 2008; PPE",
    };

    fn new(config: RefConfig, frames: u32) -> Self {
        let most_victims = config.victims;
        let block = config.block;
        let window = share_of(config.window, frames).max(1);
        RecentlyEvictedFirst {
            blocks: Blocks::new(frames, block),
            working_size: frames - window.min(frames),
            candidates: IndexedHeap::growing(),
            victims: Vec::with_capacity(most_victims),
            most_victims,
            entered: vec![0; frames as usize],
            entries: 0,
        }
    }
}

impl RecentlyEvictedFirst {
    #[inline]
    fn in_window(&self, frame: Frame) -> bool {
        self.entered[frame as usize] > 0
    }

    #[inline]
    fn enter_window(&mut self, frame: Frame) {
        self.entries += 1;
        self.entered[frame as usize] = self.entries;
        self.blocks.list(frame);
        let slot = self.blocks.of(frame);
        if !self.blocks.of_owner(slot).0 {
            self.advance(slot);
        }
    }

    /// The block's key among the candidates, if it has pages in the window.
    #[inline]
    fn key(&self, slot: u32) -> Option<(u32, u64)> {
        let first = self.blocks.first(slot)?;
        let listed = self.blocks.listed(slot);
        Some((u32::MAX - listed, self.entered[first as usize]))
    }

    /// Moves the block ahead among the candidates if it is too far back.
    #[inline]
    fn advance(&mut self, slot: u32) {
        if let Some(key) = self.key(slot)
            && self.candidates.key(slot).is_none_or(|current| key < current)
        {
            self.candidates.set(slot, key);
        }
    }

    /// True if the candidate is where it belongs; else moves it there.
    fn settle(&mut self, slot: u32) -> bool {
        match self.key(slot) {
            key if key == self.candidates.key(slot) => return true,
            Some(key) => self.candidates.set(slot, key),
            None => self.candidates.remove(slot),
        }
        false
    }

    fn first_of_victims(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.victims
            .iter()
            .filter_map(|&slot| self.blocks.first_where(slot, &may_evict))
            .min_by_key(|&frame| self.entered[frame as usize])
    }

    /// The first candidate with a page in the window that may be evicted.
    fn first_of_candidates(&self, may_evict: impl Fn(Frame) -> bool) -> Option<u32> {
        let has_victim = |slot| self.blocks.first_where(slot, &may_evict).is_some();
        self.candidates.least_where(has_victim)
    }

    fn choose_victims(&mut self, may_evict: impl Fn(Frame) -> bool) {
        while let Some(slot) = self.victims.pop() {
            self.blocks.of_owner_mut(slot).0 = false;
            if !self.blocks.release(slot) {
                self.advance(slot);
            }
        }
        while self.victims.len() < self.most_victims {
            while let Some(slot) = self.candidates.least()
                && !self.settle(slot)
            {}
            let chosen = loop {
                match self.first_of_candidates(&may_evict) {
                    Some(slot) if !self.settle(slot) => {}
                    chosen => break chosen,
                }
            };
            let Some(slot) = chosen else {
                return;
            };
            self.candidates.remove(slot);
            self.blocks.of_owner_mut(slot).0 = true;
            self.blocks.hold(slot);
            self.victims.push(slot);
        }
    }

    #[inline]
    fn enter(&mut self, frame: Frame) {
        let lists = &mut self.blocks.lists;
        lists.push_mru(WORKING, frame);
        if lists.len(WORKING) > self.working_size
            && let Some(demoted) = lists.lru(WORKING)
        {
            lists.remove(WORKING, demoted);
            self.enter_window(demoted);
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        if self.in_window(frame) {
            self.blocks.unlist(frame);
            self.entered[frame as usize] = 0;
        } else {
            self.blocks.lists.remove(WORKING, frame);
        }
    }
}

impl Policy for RecentlyEvictedFirst {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT;

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn reserve(&mut self) -> bool {
        // A victim block may have no page any more.
        let held = u32::try_from(self.most_victims).unwrap_or(u32::MAX);
        let most = self.blocks.frames_in_all().saturating_add(held);
        self.blocks.reserve(most);
        self.candidates.reserve(most);
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        if self.in_window(frame) {
            self.leave(frame);
            self.enter(frame);
        } else {
            self.blocks.lists.move_to_mru(WORKING, frame);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.entered[frame as usize]);
        self.blocks.prefetch(frame);
        self.blocks.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if let Some(frame) = self.first_of_victims(&may_evict) {
            return Some(frame);
        }
        if self.first_of_candidates(&may_evict).is_none() {
            return self.blocks.lists.find_from_lru(WORKING, may_evict);
        }
        self.choose_victims(&may_evict);
        self.first_of_victims(may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.blocks.join(frame, page);
        self.enter(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
        if let (slot, true) = self.blocks.leave(frame) {
            self.candidates.remove(slot);
        }
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
