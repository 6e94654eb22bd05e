//! W-TinyLFU.

use std::hint::black_box;

use ebbpool_cost::Decimal;

use super::frequency_sketch::{FrequencySketch, SketchKey};
use crate::lists::FrameLists;
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, text_beside};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// An LRU window and behind it a segmented LRU, which a page enters only if it was referenced more
/// often than the page that it would replace.
///
/// The paper leaves open the size of the sample and which references count: here a sample is ten
/// references per frame, all of which count, with counters up to 15, as in Caffeine, by one of the
/// authors. A newcomer is always admitted, to the window; only the victim is chosen by frequency.
///
/// The misses are within 2 % of libCacheSim's where popularity is steady, also with scans. Where
/// popularity changes, libCacheSim has up to 21 % more: it counts without a limit, does not count
/// hits in the window, and halves its counters only after 32 hits in the main part per frame, so
/// that it retains pages that were popular. On a loop that just does not fit, where that helps, it
/// has 8 % fewer; it also lets the window grow until the buffer is full. A simulation that counts
/// and fills as libCacheSim does is within 4 % of it on the same traces.
pub struct WTinyLfu {
    lists: FrameLists<3>,
    list_of: Vec<u8>,
    keys: Vec<SketchKey>,
    sketch: FrequencySketch,
    window_size: u32,
    protected_size: u32,
}

parameters! {
    /// The parameters of [`WTinyLfu`].
    pub struct WTinyLfuConfig {
        window: Decimal = {
            kind: ParameterKind::Share,
            default: "0.01",
            about: "share of the frames, at least one, for the window of newcomers",
        },
        protected: Decimal = {
            kind: ParameterKind::Share,
            default: "0.8",
            about: "share of the other frames for pages hit again",
        },
    }
}

impl RegisteredPolicy for WTinyLfu {
    type Config = WTinyLfuConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "w-tinylfu",
        aliases: &[],
        params: WTinyLfuConfig::PARAMS,
        summary: "A small LRU window, then a segmented LRU that only pages referenced more often than its own last one may enter.",
        how: text_beside!("w_tinylfu.md"),
        when: "Use it where the same pages stay popular (Einziger et al.): there it saves more than most policies at every R. It loses where newcomers are used again soon and then no more, most of all in small memory, where the window has few pages. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(17).with_ghosts(8),
        source: "Einziger et al. 2017",
    };

    fn new(config: WTinyLfuConfig, frames: u32) -> Self {
        let window_size = share_of(config.window, frames).clamp(1, frames);
        WTinyLfu {
            lists: FrameLists::new(frames),
            list_of: vec![0; frames as usize],
            keys: vec![SketchKey::default(); frames as usize],
            sketch: FrequencySketch::new(frames),
            window_size,
            protected_size: share_of(config.protected, frames - window_size),
        }
    }
}

impl WTinyLfu {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.list_of[frame as usize])
    }

    #[inline]
    fn push(&mut self, list: usize, frame: Frame) {
        self.lists.push_mru(list, frame);
        self.list_of[frame as usize] = list as u8;
    }

    #[inline]
    fn move_to(&mut self, list: usize, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
        self.push(list, frame);
    }

    #[inline]
    fn frequency(&self, frame: Frame) -> u8 {
        self.sketch.frequency(self.keys[frame as usize])
    }
}

impl Policy for WTinyLfu {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.sketch.count(self.keys[frame as usize]);
        match self.list_of(frame) {
            PROBATION => {
                self.move_to(PROTECTED, frame);
                if self.lists.len(PROTECTED) > self.protected_size
                    && let Some(last) = self.lists.lru(PROTECTED)
                {
                    self.move_to(PROBATION, last);
                }
            }
            list => self.lists.move_to_mru(list, frame),
        }
    }

    #[inline]
    fn miss(&mut self, page: Page, _ghost: Option<Ghost>, _access: Access) {
        self.sketch.count(SketchKey::for_page(page));
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.list_of[frame as usize]);
        self.sketch.prefetch(self.keys[frame as usize]);
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let of_main =
            self.lists.find_from_lru(PROBATION, &may_evict).or_else(|| self.lists.find_from_lru(PROTECTED, &may_evict));
        let candidate = self.lists.find_from_lru(WINDOW, &may_evict);
        let (Some(candidate), Some(last)) = (candidate, of_main) else {
            return candidate.or(of_main);
        };
        if self.lists.len(WINDOW) < self.window_size {
            return Some(last);
        }
        if self.frequency(candidate) <= self.frequency(last) {
            return Some(candidate);
        }
        if incoming.is_some() {
            self.move_to(PROBATION, candidate);
        }
        Some(last)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.keys[frame as usize] = SketchKey::for_page(page);
        self.push(WINDOW, frame);
        if self.lists.len(WINDOW) > self.window_size
            && let Some(last) = self.lists.lru(WINDOW)
        {
            self.move_to(PROBATION, last);
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
