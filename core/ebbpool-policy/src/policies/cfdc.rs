//! Clean-first dirty-clustered.

use std::hint::black_box;

use ebbpool_cost::Decimal;
use ebbpool_cost::spec::Whole;

pub use crate::clusters::PriorityUpdate;
use crate::clusters::{Clusters, KEYS};
use crate::lists::FrameLists;
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MAX_PAGES, MemoryUse, ParameterKind, PolicyEntry, WINDOW, text_beside};

const WORKING: usize = 0;
/// The list of the clean pages of the priority region.
const CLEAN: usize = 1;
/// The list of its dirty pages where there are no clusters.
const DIRTY: usize = 2;

/// A working region under LRU and a priority region whose clean pages are evicted first and whose
/// dirty pages are evicted cluster by cluster.
pub struct Cfdc {
    /// Behind these are the lists of the clusters.
    lists: FrameLists<3>,
    working_size: u32,
    /// `None` with `cluster=0`: the dirty pages form one LRU list.
    clusters: Option<Clusters>,
    tags: Vec<Tags>,
}

#[derive(Clone, Copy, Default)]
struct Tags {
    in_priority: bool,
    dirty: bool,
}

parameters! {
    /// The parameters of [`Cfdc`].
    pub struct CfdcConfig {
        window: Decimal = WINDOW,
        cluster: Option<u64> = {
            kind: ParameterKind::Whole(Whole::new(0, MAX_PAGES).or("auto")),
            default: "64",
            about: "pages per cluster; 0 keeps the dirty pages in one LRU list (then it is cflru)",
        },
        keys: PriorityUpdate = KEYS,
    }
}

impl RegisteredPolicy for Cfdc {
    type Config = CfdcConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "cfdc",
        aliases: &[],
        params: CfdcConfig::PARAMS,
        summary: "CFLRU's two regions, with clean pages first and dirty ones in clusters of neighbouring pages, evicted cluster by cluster.",
        how: text_beside!("cfdc.md"),
        when: "Use it where the device rewards writes that lie close together: PPE and CFDC measure the shortest times on their disks and SSDs, with fewer cluster switches than cflru. In page counts alone it costs about as much as cflru, and like it more than lru in small memory where a write costs no more than a read. Compare cluster_switches in the results as well as the bill.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(27).scattered(64),
        source: "CFDC (Ou, Haerder, Jin 2009), section 3; PPE, section 3",
    };

    fn new(config: CfdcConfig, frames: u32) -> Self {
        let size = config.cluster.filter(|&size| size > 0);
        Cfdc {
            lists: FrameLists::new(frames),
            working_size: frames - share_of(config.window, frames).min(frames),
            clusters: size.map(|size| Clusters::new(frames, size, config.keys)),
            tags: vec![Tags::default(); frames as usize],
        }
    }
}

impl Cfdc {
    #[inline]
    fn enter_priority(&mut self, frame: Frame) {
        let Tags { in_priority, dirty } = &mut self.tags[frame as usize];
        *in_priority = true;
        match &mut self.clusters {
            Some(clusters) if *dirty => clusters.enter(&mut self.lists, frame),
            _ => self.lists.push_mru(if *dirty { DIRTY } else { CLEAN }, frame),
        }
    }

    #[inline]
    fn leave_priority(&mut self, frame: Frame, leave_cluster: impl Fn(&mut Clusters, &mut FrameLists<3>, Frame)) {
        let Tags { in_priority, dirty } = &mut self.tags[frame as usize];
        *in_priority = false;
        match &mut self.clusters {
            Some(clusters) if *dirty => leave_cluster(clusters, &mut self.lists, frame),
            _ => self.lists.remove(if *dirty { DIRTY } else { CLEAN }, frame),
        }
    }

    /// Moves the working region's LRU pages to the priority region until it has `most`.
    #[inline]
    fn shrink_working(&mut self, most: u32) {
        while self.lists.len(WORKING) > most
            && let Some(demoted) = self.lists.lru(WORKING)
        {
            self.lists.remove(WORKING, demoted);
            self.enter_priority(demoted);
        }
    }

    #[inline]
    fn enter_working(&mut self, frame: Frame) {
        self.lists.push_mru(WORKING, frame);
        self.shrink_working(self.working_size);
    }
}

impl Policy for Cfdc {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn reserve(&mut self) -> bool {
        if let Some(clusters) = &mut self.clusters {
            clusters.reserve(&mut self.lists);
        }
        true
    }

    fn wrote(&mut self, frame: Frame) -> bool {
        let Tags { in_priority, dirty } = self.tags[frame as usize];
        if !dirty && in_priority {
            self.leave_priority(frame, Clusters::leave);
        }
        self.tags[frame as usize].dirty = true;
        if !dirty && in_priority {
            self.enter_priority(frame);
        }
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if self.tags[frame as usize].in_priority {
            // PPE, section 3: the working region gives up a page before the hit page is moved.
            self.shrink_working(self.working_size.saturating_sub(1));
            self.leave_priority(frame, Clusters::hit);
            self.tags[frame as usize].dirty |= access.is_write();
            self.enter_working(frame);
        } else {
            self.lists.move_to_mru(WORKING, frame);
            self.tags[frame as usize].dirty |= access.is_write();
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.tags[frame as usize]);
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.lists
            .find_from_lru(CLEAN, &may_evict)
            .or_else(|| match &mut self.clusters {
                Some(clusters) => clusters.victim(&self.lists, &may_evict),
                None => self.lists.find_from_lru(DIRTY, &may_evict),
            })
            .or_else(|| self.lists.find_from_lru(WORKING, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.tags[frame as usize].dirty = access.is_write();
        if let Some(clusters) = &mut self.clusters {
            clusters.admit(frame, page);
        }
        self.enter_working(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        if self.tags[frame as usize].in_priority {
            self.leave_priority(frame, Clusters::leave);
        } else {
            self.lists.remove(WORKING, frame);
        }
    }

    fn cleaned(&mut self, frame: Frame) {
        let in_priority = self.tags[frame as usize].in_priority;
        if in_priority {
            self.leave_priority(frame, Clusters::leave);
        }
        self.tags[frame as usize].dirty = false;
        if in_priority {
            self.enter_priority(frame);
        }
    }
}
