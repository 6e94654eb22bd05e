//! Cold-clean-first LRU.

use crate::clusters::KEYS;
use crate::lists::{FrameLists, LOOK_AHEAD, store_coming};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

const COLD_CLEAN: usize = 0;
const MIXED: usize = 1;

/// A cold clean list that is evicted first, and a mixed list whose dirty pages get a second chance.
pub struct CcfLru {
    lists: FrameLists<2>,
    tags: Vec<Tags>,
}

#[derive(Clone, Copy, Default)]
struct Tags {
    mixed: bool,
    dirty: bool,
    cold: bool,
}

impl Tags {
    #[inline]
    fn list(self) -> usize {
        if self.mixed { MIXED } else { COLD_CLEAN }
    }
}

impl RegisteredPolicy for CcfLru {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "ccf-lru",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "Evicts clean pages referenced once first, then cold dirty ones; hot dirty pages get a second chance.",
        how: "A cold list of clean pages referenced once, and a mixed list of all others. A page read in for reading enters the cold list, one read in for writing the mixed list, marked as cold. A hit moves any page to the recent end of the mixed list, where it is not cold. The least recent page of the cold list is evicted. If that list is empty the search walks the mixed list from its LRU end: clean pages move to the cold list, a dirty page that is not cold becomes cold and moves to the recent end, a cold dirty one is evicted.",
        when: "Use it where writes cost much more than reads and reads are cheap: on database traces it is then among the cheapest policies of the five papers. It pays with reads, since new clean pages are evicted before a second reference can prove them useful, so it is much dearer than lru where a write costs as much as a read. AD-LRU names the reason: nothing bounds the cold list from below.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(11),
        source: "Li et al. 2009; AD-LRU, section 4",
    };

    // Figures from samples have too few reads, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        CcfLru { lists: FrameLists::new(frames), tags: vec![Tags::default(); frames as usize] }
    }
}

impl Policy for CcfLru {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn wrote(&mut self, frame: Frame) -> bool {
        let tags = &mut self.tags[frame as usize];
        match tags.mixed {
            true => tags.dirty = true,
            // As a page that is admitted dirty.
            false => {
                self.lists.remove(COLD_CLEAN, frame);
                self.lists.push_mru(MIXED, frame);
                *tags = Tags { mixed: true, dirty: true, cold: true };
            }
        }
        true
    }

    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        let mixed = |is: fn(Tags) -> bool| {
            let frames = self.lists.frames(MIXED).take(LOOK_AHEAD);
            frames.filter(move |&frame| is(self.tags[frame as usize]))
        };
        let has_chance = |tags: Tags| tags.dirty && !tags.cold;
        // The search passes clean pages, which come next, until it finds a dirty one.
        let mut dirty = mixed(|tags| tags.dirty && tags.cold).chain(mixed(has_chance));
        let first = dirty.find(|&frame| may_evict(frame));
        let others = mixed(|tags| !tags.dirty || tags.cold).chain(mixed(has_chance));
        let others = others.filter(|&frame| Some(frame) != first);
        let order = self.lists.frames(COLD_CLEAN).chain(first).chain(others);
        Some(store_coming(order, may_evict, coming))
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let tags = self.tags[frame as usize];
        self.lists.remove(tags.list(), frame);
        self.lists.push_mru(MIXED, frame);
        self.tags[frame as usize] = Tags { mixed: true, dirty: tags.dirty | access.is_write(), cold: false };
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if let Some(frame) = self.lists.find_from_lru(COLD_CLEAN, &may_evict) {
            return Some(frame);
        }
        // The search continues in the mixed list although it fills the cold clean list on its way.
        let mut at = self.lists.lru(MIXED);
        while let Some(frame) = at {
            let next = self.lists.mruward(frame);
            let tags = &mut self.tags[frame as usize];
            if !may_evict(frame) {
                at = next;
            } else if !tags.dirty {
                tags.mixed = false;
                self.lists.remove(MIXED, frame);
                self.lists.push_mru(COLD_CLEAN, frame);
                at = next;
            } else if tags.cold {
                return Some(frame);
            } else {
                tags.cold = true;
                self.lists.move_to_mru(MIXED, frame);
                at = next.or(Some(frame));
            }
        }
        self.lists.find_from_lru(COLD_CLEAN, may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        let dirty = access.is_write();
        let tags = Tags { mixed: dirty, dirty, cold: dirty };
        self.tags[frame as usize] = tags;
        self.lists.push_mru(tags.list(), frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.tags[frame as usize].list(), frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        let tags = &mut self.tags[frame as usize];
        tags.dirty = false;
        tags.cold = false;
    }
}
