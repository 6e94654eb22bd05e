//! Evicts clean pages before dirty ones.

use crate::clusters::KEYS;
use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// Clean and dirty pages in an LRU list each; a dirty page is evicted only if no clean page may be.
pub struct CleanFirst {
    lists: FrameLists<2>,
    dirty: Vec<bool>,
}

impl RegisteredPolicy for CleanFirst {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "clean-first",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "Evicts the least recently used clean page, and a dirty one only where all are dirty.",
        how: "A clean and a dirty list, both LRU. A hit moves the page to the recent end of its list; a write moves it to the dirty list. The victim is the LRU page of the clean list, or of the dirty list if the clean one is empty.",
        when: "It writes least as long as dirty pages leave room for clean ones, and reads far too much once they do not. It is the example of CONTRIBUTING.md, and evicts the same victims as cflru:window=1 unless pages are cleaned from outside.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "CONTRIBUTING.md",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        CleanFirst { lists: FrameLists::new(frames), dirty: vec![false; frames as usize] }
    }
}

impl CleanFirst {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.dirty[frame as usize])
    }

    #[inline]
    fn enter(&mut self, frame: Frame, dirty: bool) {
        self.dirty[frame as usize] = dirty;
        self.lists.push_mru(self.list_of(frame), frame);
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }
}

impl Policy for CleanFirst {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let dirty = self.dirty[frame as usize] || access.is_write();
        self.leave(frame);
        self.enter(frame, dirty);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.lists.find_from_lru(CLEAN, &may_evict).or_else(|| self.lists.find_from_lru(DIRTY, &may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.enter(frame, access.is_write());
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.leave(frame);
        self.enter(frame, false);
    }
}
