//! FD-Buffer with a clean pool of fixed size.

use super::pools::{PoolPolicy, Pools};
use crate::clusters::KEYS;
use crate::parameters::{ShareOrPages, parameters};
use crate::policy::{Access, Capabilities, Frame, Gauges, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, ParameterKind, PolicyEntry};

/// A clean and a dirty pool, both LRU, of fixed target sizes.
pub struct FdStatic {
    pools: Pools,
}

parameters! {
    /// The parameters of [`FdStatic`].
    pub struct FdStaticConfig {
        clean: ShareOrPages = {
            kind: ParameterKind::ShareOrPages,
            default: "50%",
            about: "target size of the clean pool",
        },
        ..CLUSTER,
        ..KEYS,
    }
}

impl RegisteredPolicy for FdStatic {
    type Config = FdStaticConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "fd-static",
        aliases: &[],
        params: FdStaticConfig::PARAMS,
        summary: "A clean and a dirty LRU pool of fixed target sizes.",
        how: "A clean and a dirty pool, both LRU, with fixed target sizes. A hit moves the page within its pool; a write to a clean page moves it to the dirty pool. The victim of a miss for reading is from the dirty pool if that exceeds its target, of a miss for writing from the clean pool if that exceeds its own; otherwise from the other pool.",
        when: "Use it to see what a fixed split would yield, or where split and asymmetry are known and do not change. It is as good as its target: a bad one makes it dearer than lru. FD-Buffer (figure 2) finds best clean shares from 1.5 % to 50 % on its benchmarks.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(11),
        source: "FD-Buffer (On et al. 2010), algorithms 1 and 2",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(config: FdStaticConfig, frames: u32) -> Self {
        FdStatic { pools: Pools::new(frames, config.clean.of(frames), PoolPolicy::Lru) }
    }
}

impl Policy for FdStatic {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.pools.hit(frame, access);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.pools.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let access = incoming.map(|(_, access)| access);
        self.pools.victim(access, may_evict)
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
        Gauges { target: Some(f64::from(self.pools.target())), ..Gauges::default() }
    }
}
