//! Adaptive cost-aware replacement.

use std::hint::black_box;

use ebbpool_cost::Decimal;

use crate::lists::FrameLists;
use crate::parameters::{one_of, parameters, words};
use crate::policy::{Access, Capabilities, Costs, Frame, Gauges, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, text_beside};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// Each of the two lists has two parts: new pages enter below the middle, pages hit again at the
/// top.
const BOTTOM: usize = 0;
const TOP: usize = 1;

#[inline]
fn list(half: usize, part: usize) -> usize {
    2 * half + part
}

/// References per frame after which the costs counted so far are halved.
const HALF_LIFE: u64 = 8;

/// A clean and a dirty LRU list that share the frames in proportion to their I/O costs.
///
/// A reconstruction from the abstract: a clean and a dirty list, three heuristics that weigh costs,
/// and new pages that enter in the middle. Which costs the heuristics weigh, how costs age and
/// where the middle is are decided here.
pub struct Acr {
    lists: FrameLists<4>,
    list_of: Vec<u8>,
    /// The share of each list above its middle.
    top: Decimal,
    counts_logical: bool,
    counts_physical: bool,
    /// The costs of the clean and the dirty list so far, in page reads.
    cost: [f64; 2],
    frames: u32,
    /// R, the write cost in units of the read cost.
    asymmetry: f64,
    /// References since the costs were halved.
    references: u64,
}

/// The costs that count as the cost of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedCosts {
    /// The cost that the list's references would have without a buffer.
    Logical,
    /// The cost that they had.
    Physical,
    /// The sum of the two.
    Both,
}

words!(CountedCosts {
    "logical" => CountedCosts::Logical,
    "physical" => CountedCosts::Physical,
    "both" => CountedCosts::Both,
});

parameters! {
    /// The parameters of [`Acr`].
    pub struct AcrConfig {
        top: Decimal = {
            kind: ParameterKind::Share,
            default: "0.5",
            about: "share of each list above the position at which new pages enter",
        },
        cost: CountedCosts = {
            kind: one_of::<CountedCosts>(),
            default: "both",
            about: "the cost of a list: the cost that its references would have without a buffer, the cost that they had, or the sum",
        },
    }
}

impl RegisteredPolicy for Acr {
    type Config = AcrConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "acr",
        aliases: &[],
        params: AcrConfig::PARAMS,
        summary: "A clean and a dirty LRU list that share the frames in proportion to their I/O costs; new pages enter in the middle.",
        how: text_beside!("acr.md"),
        when: "Use it where writes cost much more than reads and the workload is not known in advance: it adapts both to R and to the workload, and it is among the policies that save most against lru on database traces at a large R. Where a write costs as much as a read it can cost a little more than lru. Source: Tang and Meng, who publish the heuristics without formulas.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "Tang and Meng, MDM 2010; reconstructed from the abstract",
    };

    fn new(config: AcrConfig, frames: u32) -> Self {
        Acr {
            lists: FrameLists::new(frames),
            list_of: vec![0; frames as usize],
            top: config.top,
            counts_logical: config.cost != CountedCosts::Physical,
            counts_physical: config.cost != CountedCosts::Logical,
            cost: [0.0; 2],
            frames,
            asymmetry: Costs::default().asymmetry(),
            references: 0,
        }
    }
}

impl Acr {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.list_of[frame as usize])
    }

    #[inline]
    fn is_dirty(&self, frame: Frame) -> bool {
        self.list_of(frame) >= list(DIRTY, BOTTOM)
    }

    #[inline]
    fn len(&self, half: usize) -> u32 {
        self.lists.len(list(half, BOTTOM)) + self.lists.len(list(half, TOP))
    }

    #[inline]
    fn enter(&mut self, frame: Frame, half: usize, part: usize) {
        self.list_of[frame as usize] = list(half, part) as u8;
        self.lists.push_mru(list(half, part), frame);
    }

    fn enter_top(&mut self, frame: Frame, half: usize) {
        self.enter(frame, half, TOP);
        let room = self.top.floor_times(u64::from(self.len(half)));
        while u64::from(self.lists.len(list(half, TOP))) > room
            && let Some(oldest) = self.lists.lru(list(half, TOP))
        {
            self.lists.remove(list(half, TOP), oldest);
            self.enter(oldest, half, BOTTOM);
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }

    /// Counts a reference to a page of `half`, which `missed` or hit.
    #[inline]
    fn count(&mut self, access: Access, half: usize, missed: bool) {
        if self.references == HALF_LIFE * u64::from(self.frames) {
            self.cost = self.cost.map(|cost| cost / 2.0);
            self.references = 0;
        }
        self.references += 1;
        if self.counts_logical {
            self.cost[half] += match access {
                Access::Read => 1.0,
                Access::Write => self.asymmetry,
            };
        }
        if self.counts_physical && missed {
            self.cost[half] += 1.0;
        }
    }

    #[inline]
    fn written_back(&mut self) {
        if self.counts_physical {
            self.cost[DIRTY] += self.asymmetry;
        }
    }

    /// The target number of clean pages.
    #[inline]
    fn target(&self) -> f64 {
        let all = self.cost[CLEAN] + self.cost[DIRTY];
        if all > 0.0 { f64::from(self.frames) * (self.cost[CLEAN] / all) } else { f64::from(self.frames) / 2.0 }
    }

    #[inline]
    fn victim_of(&self, half: usize, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.lists
            .find_from_lru(list(half, BOTTOM), &may_evict)
            .or_else(|| self.lists.find_from_lru(list(half, TOP), may_evict))
    }
}

impl Policy for Acr {
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let half = usize::from(access.is_write() || self.is_dirty(frame));
        self.count(access, half, false);
        self.leave(frame);
        self.enter_top(frame, half);
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, access: Access) {
        self.count(access, usize::from(access.is_write()), true);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.list_of[frame as usize]);
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let from_clean = f64::from(self.len(CLEAN)) > self.target();
        let first = if from_clean { CLEAN } else { DIRTY };
        self.victim_of(first, &may_evict).or_else(|| self.victim_of(1 - first, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.enter(frame, usize::from(access.is_write()), BOTTOM);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        if self.is_dirty(frame) {
            self.written_back();
        }
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.written_back();
        let was_on_top = self.list_of(frame) == list(DIRTY, TOP);
        self.leave(frame);
        if was_on_top {
            self.enter_top(frame, CLEAN);
        } else {
            self.enter(frame, CLEAN, BOTTOM);
        }
    }

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = costs.asymmetry();
    }

    fn gauges(&self) -> Gauges {
        Gauges { target: Some(self.target()), ..Gauges::default() }
    }
}
