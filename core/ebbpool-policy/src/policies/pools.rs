//! FD-Buffer's clean and dirty pools (FD-Buffer, algorithms 1 and 2).

use prefetch_index::prefetch_index;

use super::two_q;
use crate::ghosts::GhostList;
use crate::lists::{FrameLists, fewest_chances, second_chance};
use crate::parameters::words;
use crate::policy::{Access, Frame, Page};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// Each pool has two lists; LRU and clock use only the first.
const IN: usize = 0;
const MAIN: usize = 1;

/// The policy inside each pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolPolicy {
    /// Least recently used.
    Lru,
    /// 2Q, sized by the pool's target: A1in a quarter of it, A1out half as many page numbers.
    TwoQ,
    /// FIFO with a reference bit, clear on entry.
    Clock,
}

words!(PoolPolicy {
    "lru" => PoolPolicy::Lru,
    "2q" => PoolPolicy::TwoQ,
    "clock" => PoolPolicy::Clock,
});

/// A pool policy with the ghosts that it needs, a list for each pool.
enum PoolOrder {
    Lru,
    TwoQ(Box<[GhostList; 2]>),
    Clock,
}

impl PoolOrder {
    fn new(pool_policy: PoolPolicy, frames: u32) -> Self {
        let ghosts = || GhostList::new(frames / 2 + 1);
        match pool_policy {
            PoolPolicy::Lru => PoolOrder::Lru,
            PoolPolicy::TwoQ => PoolOrder::TwoQ(Box::new([ghosts(), ghosts()])),
            PoolPolicy::Clock => PoolOrder::Clock,
        }
    }
}

/// The two pools and the target size of the clean one.
pub(crate) struct Pools {
    lists: FrameLists<4>,
    frames: u32,
    target: u32,
    order: PoolOrder,
    pages: Vec<Page>,
    tags: Vec<Tags>,
}

#[derive(Clone, Copy, Default)]
struct Tags {
    dirty: bool,
    referenced: bool,
    main: bool,
}

impl Tags {
    #[inline]
    fn list(self) -> usize {
        list(usize::from(self.dirty), usize::from(self.main))
    }
}

#[inline]
fn list(pool: usize, part: usize) -> usize {
    2 * pool + part
}

impl Pools {
    /// Empty pools over `frames` frames; `target` is limited to 1 to `frames`.
    pub(crate) fn new(frames: u32, target: u32, pool_policy: PoolPolicy) -> Self {
        let knows_pages = pool_policy == PoolPolicy::TwoQ;
        Pools {
            lists: FrameLists::new(frames),
            frames,
            target: target.clamp(1, frames),
            order: PoolOrder::new(pool_policy, frames),
            pages: vec![0; if knows_pages { frames as usize } else { 0 }],
            tags: vec![Tags::default(); frames as usize],
        }
    }

    /// Mc, the target size of the clean pool in pages.
    pub(crate) fn target(&self) -> u32 {
        self.target
    }

    pub(crate) fn set_target(&mut self, target: u32) {
        self.target = target.clamp(1, self.frames);
    }

    /// True if the page in `frame` is dirty.
    #[inline]
    pub(crate) fn is_dirty(&self, frame: Frame) -> bool {
        self.tags[frame as usize].dirty
    }

    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.tags, frame as usize);
        self.lists.prefetch(frame);
    }

    #[inline]
    pub(crate) fn hit(&mut self, frame: Frame, access: Access) {
        let tags = self.tags[frame as usize];
        if access.is_write() && !tags.dirty {
            self.move_to(DIRTY, frame);
            return;
        }
        match &self.order {
            PoolOrder::Lru => self.lists.move_to_mru(tags.list(), frame),
            PoolOrder::Clock => self.tags[frame as usize].referenced = true,
            PoolOrder::TwoQ(_) if tags.main => self.lists.move_to_mru(tags.list(), frame),
            PoolOrder::TwoQ(_) => {}
        }
    }

    #[inline]
    pub(crate) fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        if let PoolOrder::TwoQ(_) = self.order {
            self.pages[frame as usize] = page;
        }
        self.enter(usize::from(access.is_write()), frame);
    }

    /// The frame that is probably evicted from the pool of `frame` after it.
    #[inline]
    pub(crate) fn next_after(&self, frame: Frame) -> Option<Frame> {
        self.lists.mruward(frame)
    }

    /// The page is evicted.
    #[inline]
    pub(crate) fn evicted(&mut self, frame: Frame) {
        let tags = self.tags[frame as usize];
        self.lists.remove(tags.list(), frame);
        let pool = usize::from(tags.dirty);
        let most = self.size_of(pool) / 2;
        if let PoolOrder::TwoQ(ghosts) = &mut self.order
            && !tags.main
        {
            ghosts[pool].put(self.pages[frame as usize], most);
        }
    }

    pub(crate) fn cleaned(&mut self, frame: Frame) {
        self.move_to(CLEAN, frame);
    }

    /// The victim of a miss for reading is a dirty page if the dirty pool exceeds its target, of a
    /// miss for writing a clean one if the clean pool exceeds its own.
    #[inline]
    pub(crate) fn victim(&mut self, incoming: Option<Access>, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let asks = incoming.is_none();
        let access = incoming.unwrap_or(Access::Read);
        let from_dirty = match access {
            Access::Read => self.len(DIRTY) > self.frames - self.target,
            Access::Write => self.len(CLEAN) <= self.target,
        };
        let first = usize::from(from_dirty);
        self.victim_of(first, asks, &may_evict).or_else(|| self.victim_of(1 - first, asks, &may_evict))
    }

    #[inline]
    fn len(&self, pool: usize) -> u32 {
        self.lists.len(list(pool, IN)) + self.lists.len(list(pool, MAIN))
    }

    #[inline]
    fn size_of(&self, pool: usize) -> u32 {
        if pool == CLEAN { self.target } else { self.frames - self.target }
    }

    #[inline]
    fn victim_of(&mut self, pool: usize, asks: bool, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let (newcomers, main) = (list(pool, IN), list(pool, MAIN));
        match &self.order {
            PoolOrder::Lru => self.lists.find_from_lru(newcomers, may_evict),
            PoolOrder::Clock if asks => {
                let chances = |frame: Frame| u8::from(self.tags[frame as usize].referenced);
                fewest_chances(self.lists.frames(newcomers), may_evict, chances)
            }
            PoolOrder::Clock => {
                let tags = &mut self.tags;
                second_chance(&mut self.lists, newcomers, may_evict, |frame| {
                    std::mem::take(&mut tags[frame as usize].referenced)
                })
            }
            PoolOrder::TwoQ(_) => {
                let kin = self.size_of(pool) / 4;
                two_q::victim(&self.lists, newcomers, main, kin, may_evict)
            }
        }
    }

    #[inline]
    fn move_to(&mut self, pool: usize, frame: Frame) {
        self.lists.remove(self.tags[frame as usize].list(), frame);
        self.enter(pool, frame);
    }

    #[inline]
    fn enter(&mut self, pool: usize, frame: Frame) {
        let main = match &mut self.order {
            PoolOrder::TwoQ(ghosts) => ghosts[pool].take(self.pages[frame as usize]),
            _ => false,
        };
        let tags = Tags { dirty: pool == DIRTY, referenced: false, main };
        self.tags[frame as usize] = tags;
        self.lists.push_mru(tags.list(), frame);
    }
}
