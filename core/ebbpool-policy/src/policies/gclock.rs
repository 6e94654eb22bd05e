//! Clock with counters.

use prefetch_index::prefetch_index;

use crate::lists::{FrameLists, fewest_chances, second_chance};
use crate::parameters::{parameters, whole};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// FIFO with a counter per page, each unit of which gives the page another round.
///
/// `init` is limited to `max`.
pub struct Gclock {
    lists: FrameLists<1>,
    counters: Vec<u8>,
    init: u8,
    max: u8,
}

parameters! {
    /// The parameters of [`Gclock`].
    pub struct GclockConfig {
        init: u8 = {
            kind: whole(0, u8::MAX as u64),
            default: "1",
            about: "the counter of a page just admitted, at most max",
        },
        max: u8 = {
            kind: whole(1, u8::MAX as u64),
            default: "5",
            about: "where a page's counter stops growing",
        },
    }
}

impl RegisteredPolicy for Gclock {
    type Config = GclockConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "gclock",
        aliases: &[],
        params: GclockConfig::PARAMS,
        summary: "FIFO in which a page gets as many more rounds as it had recent references, up to a limit.",
        how: "A queue in order of admission with a counter per page, init on admission. A hit adds 1 up to max and moves nothing. The search for a victim starts at the oldest page: one whose counter is above 0 loses 1 and moves to the back, the first at 0 is evicted. With the defaults it is PostgreSQL's clock sweep; init=0,max=1 is clock.",
        when: "Use it where a hit must be as cheap as clock's and pages used often are to be distinguished from pages used once; it usually saves more than clock. In small memory the counters say little. With init=0, where a page must be hit to get a second round, it often saves more. A search may pass a page up to max times. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "Smith 1978; Nicola, Dan and Dias 1992; PostgreSQL's clock sweep",
    };

    fn new(config: GclockConfig, frames: u32) -> Self {
        Gclock {
            lists: FrameLists::new(frames),
            counters: vec![0; frames as usize],
            init: config.init.min(config.max),
            max: config.max,
        }
    }
}

impl Policy for Gclock {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::RESIZES;

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        let counter = &mut self.counters[frame as usize];
        *counter += u8::from(*counter < self.max);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.counters, frame as usize);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let counters = &mut self.counters;
        if incoming.is_none() {
            let chances = |frame: Frame| counters[frame as usize];
            return fewest_chances(self.lists.frames(0), may_evict, chances);
        }
        second_chance(&mut self.lists, 0, may_evict, |frame| {
            let counter = &mut counters[frame as usize];
            let spared = *counter > 0;
            *counter -= u8::from(spared);
            spared
        })
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.lists.push_mru(0, frame);
        self.counters[frame as usize] = self.init;
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(0, frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}

    fn moved(&mut self, from: Frame, to: Frame) {
        self.lists.replace(from, to);
        self.counters[to as usize] = self.counters[from as usize];
    }

    fn resize(&mut self, frames: u32) {
        self.lists.resize(frames);
        self.counters.resize(frames as usize, 0);
    }
}
