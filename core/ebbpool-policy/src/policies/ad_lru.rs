//! Adaptive double LRU.

use ebbpool_cost::Decimal;

use crate::clusters::KEYS;
use crate::lists::{CleanCursor, FrameLists, LOOK_AHEAD, fewest_chances, second_chance, store_coming};
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, ParameterKind, PolicyEntry};

const COLD: usize = 0;
const HOT: usize = 1;

/// A cold queue for pages referenced once and a hot queue for the others; within the queue that the
/// victim is taken from, clean pages are evicted first, then dirty ones by second chance.
///
/// On a real TPC-C trace it reads 2.4 to 3.3 times as many pages as LRU: once the cold queue holds
/// only dirty pages and the newcomer, each newcomer is the next victim. Built as published.
pub struct AdLru {
    queues: FrameLists<2>,
    clean: [CleanCursor; 2],
    tags: Vec<Tags>,
    min_cold: u32,
}

#[derive(Clone, Copy, Default)]
struct Tags {
    hot: bool,
    dirty: bool,
    referenced: bool,
}

parameters! {
    /// The parameters of [`AdLru`].
    pub struct AdLruConfig {
        min_lc: Decimal = {
            kind: ParameterKind::Share,
            default: "0.1",
            about: "least share of the frames that the cold queue has",
        },
        ..CLUSTER,
        ..KEYS,
    }
}

impl RegisteredPolicy for AdLru {
    type Config = AdLruConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "ad-lru",
        aliases: &[],
        params: AdLruConfig::PARAMS,
        summary: "A cold and a hot LRU queue; evicts from the cold one while it is large enough, clean pages first.",
        how: "A cold queue for pages referenced once and a hot queue for the others, both LRU, and a reference bit per page, set on admission and on hits. A hit moves the page to the recent end of the hot queue. The victim is from the cold queue while that holds more than its least share or the hot queue is empty, else from the hot one. In that queue the clean page nearest the LRU end is evicted; if all are dirty, second chance by the bits finds the victim.",
        when: "Use it only where a write costs very much more than a read. It loses badly where reads count, because the cold queue fills with dirty pages until each newcomer is the next victim. AD-LRU reports the best hit ratio and the fewest writes on its own Zipf traces (figures 6 and 9); database traces do not confirm the hit ratio.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(11),
        source: "AD-LRU (Jin et al. 2012), section 3",
    };

    // Figures from samples have too few reads, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    const WRITE_CLUSTERING: bool = true;

    fn new(config: AdLruConfig, frames: u32) -> Self {
        AdLru {
            queues: FrameLists::new(frames),
            clean: Default::default(),
            tags: vec![Tags::default(); frames as usize],
            min_cold: share_of(config.min_lc, frames),
        }
    }
}

impl AdLru {
    #[inline]
    fn enter(&mut self, queue: usize, frame: Frame) {
        self.queues.push_mru(queue, frame);
        self.clean[queue].entered(frame);
        self.tags[frame as usize].hot = queue == HOT;
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        let Tags { hot, dirty, .. } = self.tags[frame as usize];
        let queue = usize::from(hot);
        self.clean[queue].before_unlink(&self.queues, frame, dirty);
        self.queues.remove(queue, frame);
    }

    fn victim_of(&mut self, queue: usize, asks: bool, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let tags = &mut self.tags;
        let clean = &mut self.clean[queue];
        let dirty = |frame: Frame| tags[frame as usize].dirty;
        let found = clean.find(&self.queues, dirty, &may_evict);
        if found.is_some() {
            return found;
        }
        if asks {
            let chances = |frame: Frame| u8::from(tags[frame as usize].referenced);
            return fewest_chances(self.queues.frames(queue), may_evict, chances);
        }
        // The cursor stays valid: it is at a clean frame or past the end, and only dirty frames
        // move.
        second_chance(&mut self.queues, queue, may_evict, |frame| std::mem::take(&mut tags[frame as usize].referenced))
    }
}

impl Policy for AdLru {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn wrote(&mut self, frame: Frame) -> bool {
        self.tags[frame as usize].dirty = true;
        true
    }

    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        let some_of = |queue: usize, is: fn(Tags) -> bool| {
            let frames = self.queues.frames(queue).take(LOOK_AHEAD);
            frames.filter(move |&frame| is(self.tags[frame as usize]))
        };
        let of = |queue: usize| {
            let clean = some_of(queue, |tags| !tags.dirty);
            let due = some_of(queue, |tags| tags.dirty && !tags.referenced);
            clean.chain(due).chain(some_of(queue, |tags| tags.dirty && tags.referenced))
        };
        let cold = self.queues.len(COLD).saturating_sub(self.min_cold) as usize;
        // The cold queue gives up pages until it has its least length.
        let order = of(COLD).take(cold).chain(of(HOT));
        let order = order.chain(of(COLD).skip(cold));
        Some(store_coming(order, may_evict, coming))
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.leave(frame);
        self.enter(HOT, frame);
        let tags = &mut self.tags[frame as usize];
        tags.referenced = true;
        tags.dirty |= access.is_write();
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let from_cold = self.queues.len(COLD) > self.min_cold || self.queues.find_from_lru(HOT, &may_evict).is_none();
        let (first, second) = if from_cold { (COLD, HOT) } else { (HOT, COLD) };
        let asks = incoming.is_none();
        self.victim_of(first, asks, &may_evict).or_else(|| self.victim_of(second, asks, &may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.tags[frame as usize] = Tags { hot: false, dirty: access.is_write(), referenced: true };
        self.enter(COLD, frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        let tags = &mut self.tags[frame as usize];
        tags.dirty = false;
        let queue = usize::from(tags.hot);
        self.clean[queue].cleaned(&self.queues, queue);
    }
}
