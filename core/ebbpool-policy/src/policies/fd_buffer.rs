//! FD-Buffer: clean and dirty pools whose sizes a cost model adapts.

use ebbpool_cost::Decimal;
use ebbpool_cost::spec::Whole;
use prefetch_index::prefetch_index;

pub use super::pools::PoolPolicy;
use super::pools::Pools;
pub use super::two_stack::CostForm;
use super::two_stack::TwoStack;
use crate::clusters::KEYS;
use crate::parameters::{one_of, parameters, whole};
use crate::policy::{Access, Capabilities, Costs, Frame, Gauges, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MAX_PAGES, MemoryUse, ParameterKind, PolicyEntry};

/// Modelled computing time of the policy advisor per frame, in microseconds (`interval=auto`).
const ADVISOR_US_PER_FRAME: f64 = 0.002;

/// A clean and a dirty pool; at the end of each window of references the policy advisor sets the
/// clean pool's target size to the one that would have been cheapest over the window.
pub struct FdBuffer {
    pools: Pools,
    estimator: TwoStack,
    pages: Vec<Page>,
    form: CostForm,
    window: Window,
    costs: Costs,
    estimates: Option<[f64; 3]>,
    frames: u32,
}

enum Window {
    References(u64),
    /// Ends when its I/O cost `spent`, in the unit of the costs, reaches `worth_us`.
    IoCost {
        spent: f64,
        worth_us: f64,
    },
}

parameters! {
    /// The parameters of [`FdBuffer`].
    pub struct FdBufferConfig {
        interval: Option<u64> = {
            kind: ParameterKind::Whole(Whole::new(1, 1_000_000_000).or("auto")),
            default: "5000",
            about: "references between two runs of the policy advisor; auto: as many as justify its computing time",
        },
        group: u64 = {
            kind: whole(1, MAX_PAGES),
            default: "1",
            about: "pages per group in which stack distances are rounded; 1 is exact (the papers: 64)",
        },
        ..CLUSTER,
        ..KEYS,
        cost: CostForm = {
            kind: one_of::<CostForm>(),
            default: "paper",
            about: "the cost formula: as printed, or the exact one for disjoint pools",
        },
        q: Decimal = {
            kind: ParameterKind::Percent,
            default: "1%",
            about: "the advisor's share of the I/O time, with interval=auto",
        },
        pools: PoolPolicy = {
            kind: one_of::<PoolPolicy>(),
            default: "lru",
            about: "the policy inside each pool; estimation stays LRU's",
        },
    }
}

impl RegisteredPolicy for FdBuffer {
    type Config = FdBufferConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "fd-buffer",
        aliases: &[("fd-exact", "cost=exact")],
        params: FdBufferConfig::PARAMS,
        summary: "A clean and a dirty pool whose sizes follow a cost model fed by Two-Stack estimates of the misses at every size.",
        how: "The two pools of fd-static, but the policy advisor sets the clean pool's target anew every interval. Two LRU stacks of page numbers, one of pages read and one of pages written, yield for each reference the least pool size at which it would have been a hit. From these counts the advisor computes for every split of the frames what the interval would have cost, and takes the cheapest. cost=paper weighs the estimates by the formula as printed, cost=exact (fd-exact) by the one that holds for disjoint pools.",
        when: "Use it where the split between clean and dirty pages has to adapt to the costs and to the workload: it follows the costs that the driver reports and has no window to choose. It loses in memory that is small for the workload, and it takes more time and memory than most policies; group=64 makes it cheaper. FD-Buffer reports up to 21 % less than lru on its benchmarks (figure 3), FD-Buffer TC 15 to 18 % less than casa on average (figures 2 and 3, with write clustering).",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(19).with_ghosts(100),
        source: "FD-Buffer (On et al. 2010), section 4; FD-Buffer TC, section 4",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(config: FdBufferConfig, frames: u32) -> Self {
        FdBuffer {
            pools: Pools::new(frames, frames / 2, config.pools),
            estimator: TwoStack::new(frames, config.group),
            pages: vec![0; frames as usize],
            form: config.cost,
            window: match config.interval {
                Some(references) => Window::References(references),
                None => Window::IoCost { spent: 0.0, worth_us: f64::from(frames) * ADVISOR_US_PER_FRAME / config.q.to_f64() },
            },
            costs: Costs::default(),
            estimates: None,
            frames,
        }
    }
}

impl FdBuffer {
    /// Runs the policy advisor if the reference just observed ended the window.
    #[inline]
    fn observed(&mut self) {
        let ended = match &self.window {
            Window::References(references) => self.estimator.references() >= *references,
            Window::IoCost { spent, worth_us } => spent * self.costs.unit_us >= *worth_us,
        };
        if ended {
            self.advise();
        }
    }

    #[cold]
    fn advise(&mut self) {
        let asymmetry = self.costs.asymmetry();
        let current = self.pools.target();
        if let Some((target, estimates)) = self.estimator.advise(current, asymmetry, self.form)
            && self.frames > 1
        {
            self.pools.set_target(target);
            self.estimates = Some(estimates);
        }
        if let Window::IoCost { spent, .. } = &mut self.window {
            *spent = 0.0;
        }
    }

    #[inline]
    fn spend(&mut self, cost: f64) {
        if let Window::IoCost { spent, .. } = &mut self.window {
            *spent += cost;
        }
    }
}

impl Policy for FdBuffer {
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    fn most_ghosts(&self) -> u32 {
        self.estimator.most_ghosts()
    }

    fn reserve(&mut self) -> bool {
        self.estimator.reserve();
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.estimator.observe_hit(frame, access);
        self.observed();
        self.pools.hit(frame, access);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        self.estimator.observe_miss(page, ghost, access);
        self.observed();
        self.spend(self.costs.read);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.estimator.prefetch(frame);
        self.pools.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.estimator.prefetch_ghost(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let access = incoming.map(|(_, access)| access);
        self.pools.victim(access, may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pages[frame as usize] = page;
        self.estimator.admitted(frame);
        self.pools.admit(frame, page, access);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.estimator.not_admitted()
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        self.estimator.remember(frame, self.pages[frame as usize])
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        if self.pools.is_dirty(frame) {
            self.spend(self.costs.write);
        }
        if let Some(next) = self.pools.next_after(frame) {
            self.estimator.prefetch_remember(next);
            prefetch_index(&self.pages, next as usize);
        }
        self.pools.evicted(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.spend(self.costs.write);
        self.pools.cleaned(frame);
    }

    fn costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    fn gauges(&self) -> Gauges {
        Gauges { target: Some(f64::from(self.pools.target())), estimates: self.estimates, ..Gauges::default() }
    }
}
