//! LRU with write sequence reordering.

use crate::clusters::KEYS;
use crate::lists::{FrameLists, LOOK_AHEAD, fewest_chances, second_chance, store_coming};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

/// LRU in which a dirty page not yet marked as cold gets one more round.
pub struct LruWsr {
    lists: FrameLists<1>,
    dirty: Vec<bool>,
    cold: Vec<bool>,
}

impl RegisteredPolicy for LruWsr {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lru-wsr",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "LRU in which a dirty page at the LRU end is first marked as cold and sent round once more.",
        how: "One LRU list and a cold flag per page. A hit moves the page to the recent end and clears its flag. The search starts at the LRU end: a dirty page without the flag gets it and moves to the recent end; a clean page, or a dirty one with the flag, is evicted.",
        when: "Use it for a small, steady saving with little work. At a small R it is hardly dearer than lru. It gives a dirty page one more round whatever R is, so that the other write-aware policies pass it as R grows. In PPE it saves writes at the price of hits and is slower than lru.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(10),
        source: "Jung et al. 2008; PPE; AD-LRU",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        LruWsr { lists: FrameLists::new(frames), dirty: vec![false; frames as usize], cold: vec![false; frames as usize] }
    }
}

impl Policy for LruWsr {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT.union(Capabilities::RESIZES);

    fn wrote(&mut self, frame: Frame) -> bool {
        self.dirty[frame as usize] = true;
        true
    }

    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        let has_chance = |frame: Frame| self.dirty[frame as usize] && !self.cold[frame as usize];
        let frames = || self.lists.frames(0).take(LOOK_AHEAD);
        let without = frames().filter(|&frame| !has_chance(frame));
        let with = frames().filter(|&frame| has_chance(frame));
        // Those with a chance have gone round by the time that the others are evicted.
        Some(store_coming(without.chain(with), may_evict, coming))
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        self.cold[frame as usize] = false;
        self.lists.move_to_mru(0, frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let (dirty, cold) = (&self.dirty, &mut self.cold);
        if incoming.is_none() {
            let chances = |frame: Frame| u8::from(dirty[frame as usize] && !cold[frame as usize]);
            return fewest_chances(self.lists.frames(0), may_evict, chances);
        }
        second_chance(&mut self.lists, 0, may_evict, |frame| {
            dirty[frame as usize] && !std::mem::replace(&mut cold[frame as usize], true)
        })
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.dirty[frame as usize] = access.is_write();
        self.cold[frame as usize] = false;
        self.lists.push_mru(0, frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(0, frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        self.cold[frame as usize] = false;
    }

    fn moved(&mut self, from: Frame, to: Frame) {
        self.lists.replace(from, to);
        self.dirty[to as usize] = self.dirty[from as usize];
        self.cold[to as usize] = self.cold[from as usize];
    }

    fn resize(&mut self, frames: u32) {
        self.lists.resize(frames);
        self.dirty.resize(frames as usize, false);
        self.cold.resize(frames as usize, false);
    }
}
