//! Hyperbolic caching.

use crate::parameters::{parameters, whole};
use crate::policy::{Access, Capabilities, Costs, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::sample::FrameSampler;
use crate::spec::{MemoryUse, PolicyEntry};

/// A resident page. One reference is one unit of time.
#[derive(Clone, Copy, Default)]
struct Admitted {
    at: u64,
    /// References since then; 0 in an empty frame.
    references: u32,
    dirty: bool,
}

/// Evicts, of pages drawn at random, the one with the least cost times references by time since its
/// admission.
///
/// The paper leaves the cost to the application. Here it is what the page's eviction and return cost in
/// page reads: 1, and R more if it is dirty. Time is counted in references, where the paper's cache has
/// a clock.
pub struct Hyperbolic {
    pages: Vec<Admitted>,
    sampler: FrameSampler,
    sample: u32,
    now: u64,
    /// The cost of evicting a clean and a dirty page.
    costs: [f64; 2],
}

parameters! {
    /// The parameters of [`Hyperbolic`].
    pub struct HyperbolicConfig {
        sample: u32 = {
            kind: whole(1, 1024),
            default: "64",
            about: "frames compared for each victim",
        },
    }
}

impl RegisteredPolicy for Hyperbolic {
    type Config = HyperbolicConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "hyperbolic",
        aliases: &[],
        params: HyperbolicConfig::PARAMS,
        summary: "Evicts, of a sample, the page with the least cost times references by time since its admission.",
        how: "The priority of a page is its cost times the number of references since its admission, divided by the references to all pages in that time. The paper leaves the cost open; here it is 1 for a clean page and 1 + R for a dirty one, what its eviction and return cost in page reads. The victim is the page of least priority of 64 drawn at random with replacement; the sequence of draws is the same in every run. Nothing is stored about evicted pages.",
        when: "Use it where pages stay as popular as they were: it counts like lfu, but a page that is no longer referenced loses rank with time, slowly if it was referenced often. Of the policies that look at costs it is the simplest.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(16),
        source: "Blankstein, Sen and Freedman, USENIX ATC 2017",
    };

    fn new(config: HyperbolicConfig, frames: u32) -> Self {
        Hyperbolic {
            pages: vec![Admitted::default(); frames as usize],
            sampler: FrameSampler::new(),
            sample: config.sample.min(frames),
            now: 0,
            costs: eviction_costs(Costs::default()),
        }
    }
}

fn eviction_costs(costs: Costs) -> [f64; 2] {
    [1.0, 1.0 + costs.finite_asymmetry()]
}

impl Policy for Hyperbolic {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.now += 1;
        let page = &mut self.pages[frame as usize];
        page.references = page.references.saturating_add(1);
        page.dirty |= access.is_write();
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {
        self.now += 1;
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let Hyperbolic { pages, sampler, now, costs, .. } = self;
        let may_evict = |frame: Frame| pages[frame as usize].references > 0 && may_evict(frame);
        let value = |frame: Frame| {
            let page = &pages[frame as usize];
            let age = (*now - page.at).max(1) as f64;
            costs[usize::from(page.dirty)] * f64::from(page.references) / age
        };
        let frames = pages.len() as u32;
        match incoming {
            None => sampler.least_next(frames, self.sample, may_evict, value),
            Some(_) => sampler.least(frames, self.sample, may_evict, value),
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.pages[frame as usize] = Admitted { at: self.now, references: 1, dirty: access.is_write() };
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.pages[frame as usize].references = 0;
    }

    fn cleaned(&mut self, frame: Frame) {
        self.pages[frame as usize].dirty = false;
    }

    fn costs(&mut self, costs: Costs) {
        self.costs = eviction_costs(costs);
    }
}
