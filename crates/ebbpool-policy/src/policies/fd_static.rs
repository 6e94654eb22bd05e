//! FD-Buffer with a clean pool of fixed size.

use super::pools::{Inside, Pools};
use crate::policy::{Access, Frame, Gauges, Page, Policy};
use crate::registry::Build;
use crate::spec::{CLUSTER, Entry, Kind, Memory, Param, PolicySpec};

/// A clean and a dirty pool, both LRU, of fixed target sizes.
pub struct FdStatic {
    pools: Pools,
}

impl Build for FdStatic {
    const ENTRY: Entry = Entry {
        name: "fd-static",
        aliases: &[],
        params: &[
            Param {
                name: "clean",
                kind: Kind::ShareOrPages,
                default: "50%",
                about: "target size of the clean pool",
            },
            CLUSTER,
        ],
        summary: "A clean and a dirty LRU pool of fixed target sizes.",
        how: "A clean and a dirty pool, both LRU, with fixed target sizes. A hit moves the page within its pool; a write to a clean page moves it to the dirty pool. A miss for reading takes from the dirty pool if that exceeds its target, a miss for writing from the clean pool if that exceeds its own; otherwise the other pool gives.",
        when: "As good as its target: with clean=25% it saves 7.2 % against lru on the sample pg-tpcc at R = 32 and 3 %, with the default half it costs 4.1 % more. On pg-tpcb both lose (6.9 % and 13.8 %). Use it to see what a fixed split would give, or where split and asymmetry are known and do not change. FD-Buffer (figure 2) finds best clean shares from 1.5 % to 50 % on its benchmarks.",
        memory: Memory::of(11),
        source: "FD-Buffer (On et al. 2010), algorithms 1 and 2",
        online: true,
        looks_at_costs: false,
        asks_erase_counts: false,
    };
    const WRITE_CLUSTERING: bool = true;

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        FdStatic {
            pools: Pools::new(frames, spec.share_of("clean", frames), Inside::Lru),
        }
    }
}

impl Policy for FdStatic {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.pools.hit(frame, access);
    }

    fn wants_every_hit(&self) -> bool {
        false
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.pools.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let access = incoming.map_or(Access::Read, |(_, access)| access);
        self.pools.victim(access, may_go)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.pools.admit(frame, page, access);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.pools.evicted(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.pools.cleaned(frame);
    }

    fn gauges(&self) -> Gauges {
        Gauges {
            target: Some(f64::from(self.pools.target())),
            ..Gauges::default()
        }
    }
}
