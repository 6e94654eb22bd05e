//! Double-list clean-first LRU that spares worn erase blocks.

use crate::heap::IndexedHeap;
use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

const CLEAN: usize = 0;
/// The MRU half of the dirty list.
const RECENT: usize = 1;
/// The LRU half of the dirty list.
const OLD: usize = 2;

/// Evicts clean pages before dirty ones, and of the older half of the dirty ones the page on the
/// least worn erase block.
pub struct DlCflruE {
    lists: FrameLists<3>,
    list_of: Vec<u8>,
    erases: Vec<u32>,
    /// The LRU half of the dirty list by (erases, order of entry).
    least_worn: IndexedHeap<(u32, u64)>,
    entries: u64,
}

impl RegisteredPolicy for DlCflruE {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "dl-cflru-e",
        aliases: &[],
        params: &[],
        summary: "Clean pages by LRU before all dirty ones; of these the page on the least worn erase block.",
        how: "Clean and dirty pages are in two LRU lists. The LRU page of the clean list is evicted. Without clean pages, the page of the LRU half of the dirty list (rounded down, at least one page) whose erase block was erased least often is evicted; among equals the one nearest the LRU end. The device reports the erase counts; a page that no block holds counts as never erased.",
        when: "Use it where the life of a simulated flash device matters more than its time: of the policies in Yoo et al. it writes least, and reads most, since it evicts every clean page before the first dirty one. It saves more device time under a block map than under a page map.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(27),
        source: "Yoo et al. 2007",
    };

    // Figures from samples have too few reads, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(_config: (), frames: u32) -> Self {
        DlCflruE {
            lists: FrameLists::new(frames),
            list_of: vec![0; frames as usize],
            erases: vec![0; frames as usize],
            least_worn: IndexedHeap::new(frames, (frames / 2).max(1)),
            entries: 0,
        }
    }
}

impl DlCflruE {
    #[inline]
    fn enter(&mut self, frame: Frame, list: usize) {
        self.lists.push_mru(list, frame);
        self.list_of[frame as usize] = list as u8;
        self.balance();
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        let list = usize::from(self.list_of[frame as usize]);
        self.lists.remove(list, frame);
        if list == OLD {
            self.least_worn.remove(frame);
        }
        self.balance();
    }

    /// Moves the border between the two halves of the dirty list to the middle.
    #[inline]
    fn balance(&mut self) {
        let (recent, old) = (self.lists.len(RECENT), self.lists.len(OLD));
        let dirty = recent + old;
        let half = (dirty / 2).max(1).min(dirty);
        if old < half
            && let Some(frame) = self.lists.lru(RECENT)
        {
            self.lists.remove(RECENT, frame);
            self.lists.push_mru(OLD, frame);
            self.list_of[frame as usize] = OLD as u8;
            self.entries += 1;
            let key = (self.erases[frame as usize], self.entries);
            self.least_worn.set(frame, key);
        } else if old > half
            && let Some(frame) = self.lists.mru(OLD)
        {
            self.lists.remove(OLD, frame);
            self.least_worn.remove(frame);
            self.lists.push_lru(RECENT, frame);
            self.list_of[frame as usize] = RECENT as u8;
        }
    }
}

impl Policy for DlCflruE {
    const CAPABILITIES: Capabilities = Capabilities::ERASE_COUNTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let clean = usize::from(self.list_of[frame as usize]) == CLEAN;
        if clean && !access.is_write() {
            self.lists.move_to_mru(CLEAN, frame);
        } else {
            self.leave(frame);
            self.enter(frame, RECENT);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.lists
            .find_from_lru(CLEAN, &may_evict)
            .or_else(|| self.least_worn.least_where(&may_evict))
            .or_else(|| self.lists.find_from_lru(RECENT, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.erases[frame as usize] = 0;
        self.enter(frame, if access.is_write() { RECENT } else { CLEAN });
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.leave(frame);
        self.enter(frame, CLEAN);
    }

    fn erase_count(&mut self, frame: Frame, erases: u32) {
        self.erases[frame as usize] = erases;
        if let Some((_, entry)) = self.least_worn.key(frame) {
            self.least_worn.set(frame, (erases, entry));
        }
    }
}
