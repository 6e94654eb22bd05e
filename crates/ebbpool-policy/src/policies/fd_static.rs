//! FD-Buffer with a clean pool of fixed size.

use super::pools::{Inside, Pools};
use crate::policy::{Access, Frame, Gauges, Page, Policy};
use crate::registry::Build;
use crate::spec::{CLUSTER, Entry, Kind, Param, PolicySpec};

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
        source: "FD-Buffer (On et al. 2010), algorithms 1 and 2",
        online: true,
        looks_at_costs: false,
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
