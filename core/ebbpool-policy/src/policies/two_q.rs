//! 2Q, full version.

use std::hint::black_box;

use ebbpool_cost::Decimal;

use crate::ghost_queues::GhostQueues;
use crate::lists::FrameLists;
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry};

const A1_IN: usize = 0;
const AM: usize = 1;
const A1_OUT: usize = 0;

/// New pages pass a FIFO; pages missed again soon after their eviction from it enter an LRU list.
///
/// A page is looked up in A1out before room is made for it and removed from A1out afterwards, as in
/// the paper. libCacheSim 0.3.5 removes it first, so that A1out drops one page less; their misses
/// differed by less than 0.01 % on each trace tried. If no page of the list that the victim should
/// be taken from may be evicted, the victim is from the other one; a page evicted from A1in enters
/// A1out in any case.
pub struct TwoQ {
    lists: FrameLists<2>,
    in_am: Vec<bool>,
    pages: Vec<Page>,
    a1_out: GhostQueues<2>,
    kin: u32,
    kout: u32,
    /// The ghost of the page missed last, if A1out remembers it.
    missed: Option<Ghost>,
}

parameters! {
    /// The parameters of [`TwoQ`].
    pub struct TwoQConfig {
        kin: Decimal = {
            kind: ParameterKind::Share,
            default: "0.25",
            about: "share of the frames above which A1in, the FIFO of new pages, yields the victims",
        },
        kout: Decimal = {
            kind: ParameterKind::Share,
            default: "0.5",
            about: "page numbers remembered of pages evicted from A1in, as a share of the frames",
        },
    }
}

impl RegisteredPolicy for TwoQ {
    type Config = TwoQConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "2q",
        aliases: &[],
        params: TwoQConfig::PARAMS,
        summary: "New pages pass a FIFO; only pages missed again soon after their eviction from it enter the LRU list.",
        how: "A page read in enters A1in, a FIFO, in which a hit changes nothing. A1out remembers the numbers of the pages evicted last from A1in. A page found there when it is missed enters Am, an LRU list. The victim is from A1in as long as that holds more than its share, else from Am. So a scan passes through A1in and leaves Am alone.",
        when: "Use it where scans and pages used in one burst must not displace the pages in use (Johnson and Shasha). Where nothing distinguishes one page from another it loses a little. Its shares are fixed, so that it falls behind arc as memory grows. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(17).with_ghosts(9),
        source: "Johnson and Shasha 1994",
    };

    fn new(config: TwoQConfig, frames: u32) -> Self {
        let kout = share_of(config.kout, frames);
        TwoQ {
            lists: FrameLists::new(frames),
            in_am: vec![false; frames as usize],
            pages: vec![0; frames as usize],
            // A page enters A1out before the oldest leaves it.
            a1_out: GhostQueues::new(kout + 1),
            kin: share_of(config.kin, frames),
            kout,
            missed: None,
        }
    }
}

impl TwoQ {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.in_am[frame as usize])
    }
}

/// The page that 2Q evicts: A1in's oldest if A1in holds more than `kin` pages, else Am's LRU page;
/// from the other list if no page of the first may be evicted.
#[inline]
pub(super) fn victim<const N: usize>(
    lists: &FrameLists<N>,
    a1_in: usize,
    am: usize,
    kin: u32,
    may_evict: impl Fn(Frame) -> bool,
) -> Option<Frame> {
    let (first, second) = if lists.len(a1_in) > kin { (a1_in, am) } else { (am, a1_in) };
    lists.find_from_lru(first, &may_evict).or_else(|| lists.find_from_lru(second, may_evict))
}

impl Policy for TwoQ {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT;

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn most_ghosts(&self) -> u32 {
        self.a1_out.capacity()
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        if self.in_am[frame as usize] {
            self.lists.move_to_mru(AM, frame);
        }
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.missed = ghost.filter(|&ghost| self.a1_out.queue_of(ghost, page).is_some());
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.in_am[frame as usize]);
        self.lists.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.a1_out.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        victim(&self.lists, A1_IN, AM, self.kin, may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        let remembered = self.missed.take();
        if let Some(ghost) = remembered {
            self.a1_out.forget(ghost, page);
        }
        self.in_am[frame as usize] = remembered.is_some();
        self.pages[frame as usize] = page;
        self.lists.push_mru(self.list_of(frame), frame);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.missed.take()
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        if self.in_am[frame as usize] {
            return None;
        }
        let ghost = self.a1_out.put(A1_OUT, self.pages[frame as usize]);
        if self.a1_out.len(A1_OUT) > self.kout {
            self.a1_out.forget_oldest(A1_OUT);
        }
        ghost
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
