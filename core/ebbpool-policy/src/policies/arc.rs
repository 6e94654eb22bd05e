//! Adaptive replacement cache.

use super::directory::{Directory, T1, T2};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// Two LRU lists, of pages referenced once and more often, whose sizes follow the pages missed soon
/// after their eviction.
///
/// p moves when a remembered page is missed, before room is made for it, and is a real number. If
/// no page of the list that the victim should be taken from may be evicted, the victim is from the
/// other one. On the traces tried its misses were exactly those of libCacheSim 0.3.5.
pub struct Arc {
    directory: Directory,
}

impl RegisteredPolicy for Arc {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "arc",
        aliases: &[],
        params: &[],
        summary: "An LRU list of pages referenced once and one of pages referenced more often, whose sizes follow the misses of pages evicted from each.",
        how: "T1 holds pages referenced once since their admission, T2 those referenced again; B1 and B2 remember the numbers of pages evicted from T1 and T2, as many in all as there are frames. A hit moves a page to T2's recent end. A miss of a page that B1 remembers raises p, the target size of T1, and of one that B2 remembers lowers it, by the ratio of the two but at least by 1; both pages enter T2. The least recent page of T1 is evicted if T1 is larger than p, else that of T2.",
        when: "Use it where scans must not displace the pages in use and nothing shall be tuned (Megiddo and Modha). In small memory, bursts of references make pages look frequently used, and it can cost more than lru. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(17).with_ghosts(17),
        source: "Megiddo and Modha 2003, figure 4",
    };

    fn new(_config: (), frames: u32) -> Self {
        Arc { directory: Directory::new(frames) }
    }
}

impl Policy for Arc {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT;

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn most_ghosts(&self) -> u32 {
        self.directory.most_ghosts()
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.directory.move_to_t2(frame);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.directory.miss(page, ghost);
        self.directory.adapt();
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.directory.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.directory.prefetch_ghost(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let lists = &self.directory.lists;
        let (size, target) = (f64::from(lists.len(T1)), self.directory.target());
        let from_t1 = size > target || (size == target && self.directory.missed_is_in_b2());
        let (first, second) = if from_t1 { (T1, T2) } else { (T2, T1) };
        lists.find_from_lru(first, &may_evict).or_else(|| lists.find_from_lru(second, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.directory.admit(frame, page);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.directory.not_admitted()
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        self.directory.remember(frame)
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.directory.evicted(frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
