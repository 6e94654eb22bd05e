//! Clock with adaptive replacement.

use std::hint::black_box;

use super::directory::{Directory, T1, T2};
use crate::lists::LOOK_AHEAD;
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// ARC with clocks in place of the two LRU lists.
///
/// p moves when a remembered page is admitted, after room was made for it, as in the paper, and is
/// a real number. If no page of the clock that the victim should be taken from may be evicted, the
/// victim is from the other one.
pub struct Car {
    directory: Directory,
    referenced: Vec<bool>,
}

impl RegisteredPolicy for Car {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "car",
        aliases: &[],
        params: &[],
        summary: "ARC with clocks: a hit only sets a bit, and the search for a victim sorts the pages.",
        how: "T1, T2, B1 and B2 as in arc, but T1 and T2 are clocks: a hit sets the page's bit and moves nothing. The search looks at T1's hand if T1 has at least p pages (and one), else at T2's: a page whose bit is set loses it and moves to T2's end, from either clock; the first page without it is evicted. A page that B1 or B2 remembers enters T2 and then moves p as in arc.",
        when: "Use it in place of arc where a hit must be cheap (Bansal and Modha): it saves about as much, and a little more where R is large. In small memory it can cost more than lru. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(18).with_ghosts(17),
        source: "Bansal and Modha 2004, figure 2",
    };

    fn new(_config: (), frames: u32) -> Self {
        Car { directory: Directory::new(frames), referenced: vec![false; frames as usize] }
    }
}

impl Car {
    /// The frame that a search would return. No page loses its bit or moves.
    fn next_victim(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let lists = &self.directory.lists;
        let target = self.directory.target().max(1.0);
        let mut hands = [T1, T2].map(|list| lists.find_from_lru(list, &may_evict));
        let mut left_in_t1 = lists.len(T1);
        // A search moves pages with their bits set to T2's end, the first of them behind those that are there.
        let (mut first_moved, mut moved) = (None, 0);
        loop {
            let list = match (hands[T1], hands[T2].or(first_moved)) {
                (Some(_), Some(_)) if f64::from(left_in_t1) >= target => T1,
                (Some(_), None) => T1,
                _ => T2,
            };
            let Some(frame) = hands[list] else {
                return first_moved;
            };
            if !self.referenced[frame as usize] {
                return Some(frame);
            }
            first_moved = first_moved.or(Some(frame));
            moved += 1;
            if moved == LOOK_AHEAD {
                return first_moved;
            }
            left_in_t1 -= u32::from(list == T1);
            hands[list] = lists.find_from(lists.mruward(frame), &may_evict);
        }
    }
}

impl Policy for Car {
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
        self.referenced[frame as usize] = true;
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.directory.miss(page, ghost);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.referenced[frame as usize]);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.directory.prefetch_ghost(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if incoming.is_none() {
            return self.next_victim(&may_evict);
        }
        let target = self.directory.target().max(1.0);
        let mut hands = [T1, T2].map(|list| self.directory.lists.find_from_lru(list, &may_evict));
        loop {
            let list = match hands {
                [Some(_), Some(_)] if f64::from(self.directory.lists.len(T1)) >= target => T1,
                [Some(_), None] => T1,
                _ => T2,
            };
            let frame = hands[list]?;
            if !std::mem::take(&mut self.referenced[frame as usize]) {
                return Some(frame);
            }
            let next = self.directory.lists.mruward(frame);
            self.directory.move_to_t2(frame);
            hands[list] = self.directory.lists.find_from(next, &may_evict);
            // A page moved to T2's end is next there if no page before it may be evicted.
            hands[T2] = hands[T2].or(Some(frame));
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.directory.adapt();
        self.directory.admit(frame, page);
        self.referenced[frame as usize] = false;
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
