//! S3-FIFO.

use std::hint::black_box;

use ebbpool_cost::Decimal;

use crate::ghost_queues::GhostQueues;
use crate::lists::{FrameLists, fewest_chances, second_chance};
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, text_beside};

const SMALL: usize = 0;
const MAIN: usize = 1;
/// The only queue of ghosts.
const GHOSTS: usize = 0;

/// Hits are counted up to this.
const MOST_HITS: u8 = 3;
/// This many hits move a page from the small queue to the main one.
const HITS_TO_MAIN: u8 = 2;

/// A small FIFO through which new pages must pass, a main FIFO with counters, and a FIFO of ghosts
/// of the pages evicted from the small one.
///
/// Where the paper and its authors' later implementation (libCacheSim 0.3) differ, this is the
/// latter: a page moved from the small queue to the main one may make the main one too long until
/// the next search, and until the first eviction newcomers enter the main queue once the small one
/// is full. With this the misses are those of libCacheSim. With the paper's small queue, which
/// takes all newcomers until the buffer is full, there are up to 7 % more misses on our loops.
pub struct S3Fifo {
    lists: FrameLists<2>,
    slots: Vec<Slot>,
    pages: Vec<Page>,
    /// One queue, and the free ones.
    ghosts: GhostQueues<2>,
    /// The ghost of the page missed last.
    incoming: Option<Ghost>,
    small_size: u32,
    main_size: u32,
    /// True from the first eviction on.
    has_evicted: bool,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    main: bool,
    hits: u8,
}

impl Slot {
    #[inline]
    fn list(self) -> usize {
        if self.main { MAIN } else { SMALL }
    }
}

parameters! {
    /// The parameters of [`S3Fifo`].
    pub struct S3FifoConfig {
        small: Decimal = {
            kind: ParameterKind::Share,
            default: "0.1",
            about: "share of the frames for the queue of newcomers",
        },
    }
}

impl RegisteredPolicy for S3Fifo {
    type Config = S3FifoConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "s3-fifo",
        aliases: &[],
        params: S3FifoConfig::PARAMS,
        summary: "A small FIFO that lets only pages hit twice into the main FIFO, and a FIFO of the pages evicted from it.",
        how: text_beside!("s3_fifo.md"),
        when: "Use it where a hit must be cheap, since a hit moves nothing (Yang et al.). On database traces it is among the best of the policies that ignore writes. It loses in memory that is small for the workload, where newcomers leave the small queue before their second hit.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(18).with_ghosts(15),
        source: "Yang et al. 2023",
    };

    fn new(config: S3FifoConfig, frames: u32) -> Self {
        let small_size = share_of(config.small, frames).min(frames);
        let main_size = frames - small_size;
        S3Fifo {
            lists: FrameLists::new(frames),
            slots: vec![Slot::default(); frames as usize],
            pages: vec![0; frames as usize],
            // One more, because the victim's ghost is stored before the newcomer's ghost is
            // released.
            ghosts: GhostQueues::new(main_size + 1),
            incoming: None,
            small_size,
            main_size,
            has_evicted: false,
        }
    }
}

impl S3Fifo {
    /// The frame that a search would return. No page loses a hit or moves.
    fn next_victim(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let hits = |frame: Frame| self.slots[frame as usize].hits;
        let of_main = || fewest_chances(self.lists.frames(MAIN), &may_evict, hits);
        if self.lists.len(MAIN) > self.main_size
            && let Some(victim) = of_main()
        {
            return Some(victim);
        }
        let is_next = |frame: Frame| hits(frame) < HITS_TO_MAIN && may_evict(frame);
        let of_small = self.lists.find_from_lru(SMALL, is_next);
        // A search would move the pages of the small queue behind those of the main one, where they begin without hits.
        of_small
            .or_else(|| of_main().filter(|&frame| hits(frame) == 0))
            .or_else(|| self.lists.find_from_lru(SMALL, &may_evict))
            .or_else(of_main)
    }

    #[inline]
    fn victim_of_small(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut at = self.lists.lru(SMALL);
        while let Some(frame) = at {
            at = self.lists.mruward(frame);
            if !may_evict(frame) {
                continue;
            }
            if self.slots[frame as usize].hits < HITS_TO_MAIN {
                return Some(frame);
            }
            self.lists.remove(SMALL, frame);
            self.enter(MAIN, frame);
        }
        None
    }

    #[inline]
    fn victim_of_main(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let slots = &mut self.slots;
        second_chance(&mut self.lists, MAIN, may_evict, |frame| {
            let hits = &mut slots[frame as usize].hits;
            let spared = *hits > 0;
            *hits -= u8::from(spared);
            spared
        })
    }

    #[inline]
    fn enter(&mut self, list: usize, frame: Frame) {
        self.lists.push_mru(list, frame);
        self.slots[frame as usize] = Slot { main: list == MAIN, hits: 0 };
    }

    /// Forgets the oldest ghosts until at most `most` are left.
    #[inline]
    fn forget_beyond(&mut self, most: u32) {
        while self.ghosts.len(GHOSTS) > most {
            self.ghosts.forget_oldest(GHOSTS);
        }
    }
}

impl Policy for S3Fifo {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn most_ghosts(&self) -> u32 {
        self.ghosts.capacity()
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        let hits = &mut self.slots[frame as usize].hits;
        *hits = MOST_HITS.min(*hits + 1);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.incoming = ghost.filter(|&ghost| self.ghosts.queue_of(ghost, page).is_some());
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.slots[frame as usize]);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.ghosts.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if incoming.is_none() {
            return self.next_victim(may_evict);
        }
        if self.lists.len(MAIN) > self.main_size
            && let Some(victim) = self.victim_of_main(&may_evict)
        {
            return Some(victim);
        }
        self.victim_of_small(&may_evict).or_else(|| self.victim_of_main(may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.pages[frame as usize] = page;
        let ghost = self.incoming.take();
        let ghost = ghost.filter(|&ghost| self.ghosts.queue_of(ghost, page).is_some());
        if let Some(ghost) = ghost {
            self.ghosts.release(ghost);
        }
        self.forget_beyond(self.main_size);
        let fills_up = !self.has_evicted && self.lists.len(SMALL) >= self.small_size;
        let list = if ghost.is_some() || fills_up { MAIN } else { SMALL };
        self.enter(list, frame);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.incoming.take()
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        if self.slots[frame as usize].main {
            return None;
        }
        self.forget_beyond(self.main_size);
        self.ghosts.put(GHOSTS, self.pages[frame as usize])
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.has_evicted = true;
        self.lists.remove(self.slots[frame as usize].list(), frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
