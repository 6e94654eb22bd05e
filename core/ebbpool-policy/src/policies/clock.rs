//! Second chance.

use crate::clusters::KEYS;
use crate::lists::{FrameLists, LOOK_AHEAD, fewest_chances, second_chance, store_coming};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

/// FIFO with a reference bit that gives a page another round.
///
/// Admission leaves the bit clear, as in libCacheSim and SIEVE: a page referenced once gets no
/// second round.
pub struct Clock {
    lists: FrameLists<1>,
    referenced: Vec<bool>,
}

impl RegisteredPolicy for Clock {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "clock",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "FIFO in which a page referenced since the hand last passed gets another round.",
        how: "A queue in order of admission with one bit per page. A hit sets the bit and moves nothing. The search for a victim starts at the oldest page: a page whose bit is set loses it and moves to the back, the first page without it is evicted. A page just admitted has the bit clear.",
        when: "Use it where a hit must be cheap, since a hit moves nothing. Its cost is close to that of lru. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "Corbato 1968",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        Clock { lists: FrameLists::new(frames), referenced: vec![false; frames as usize] }
    }
}

impl Policy for Clock {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT.union(Capabilities::RESIZES);

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        let with_bit = |set: bool| {
            let frames = self.lists.frames(0).take(LOOK_AHEAD);
            frames.filter(move |&frame| self.referenced[frame as usize] == set)
        };
        let order = with_bit(false).chain(with_bit(true));
        Some(store_coming(order, may_evict, coming))
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.referenced[frame as usize] = true;
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let referenced = &mut self.referenced;
        if incoming.is_none() {
            let chances = |frame: Frame| u8::from(referenced[frame as usize]);
            return fewest_chances(self.lists.frames(0), may_evict, chances);
        }
        second_chance(&mut self.lists, 0, may_evict, |frame| std::mem::take(&mut referenced[frame as usize]))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.lists.push_mru(0, frame);
        self.referenced[frame as usize] = false;
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(0, frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}

    fn moved(&mut self, from: Frame, to: Frame) {
        self.lists.replace(from, to);
        self.referenced[to as usize] = self.referenced[from as usize];
    }

    fn resize(&mut self, frames: u32) {
        self.lists.resize(frames);
        self.referenced.resize(frames as usize, false);
    }
}
