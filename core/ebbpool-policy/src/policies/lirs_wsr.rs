//! LIRS with write sequence reordering.

use ebbpool_cost::Decimal;
use prefetch_index::prefetch_index;

use super::recency_sets::{HIR, RecencySets};
use crate::parameters::{parameters, share_of};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// LIRS in which a dirty page not yet marked as cold gets another round.
///
/// This is a reconstruction from descriptions of the paper, which was not available. Decided here:
/// the round is one through the stack, as an LIR page on its top (which AD-LRU, section 2,
/// criticises), since a round through a queue of a hundredth of the frames saves next to no writes;
/// and a write clears the cold flag but a read does not.
pub struct LirsWsr {
    sets: RecencySets,
    writes: Vec<Writes>,
}

#[derive(Clone, Copy, Default)]
struct Writes {
    dirty: bool,
    cold: bool,
}

parameters! {
    /// The parameters of [`LirsWsr`].
    pub struct LirsWsrConfig {
        hir: Decimal = HIR,
    }
}

impl RegisteredPolicy for LirsWsr {
    type Config = LirsWsrConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lirs-wsr",
        aliases: &[],
        params: LirsWsrConfig::PARAMS,
        summary: "LIRS in which a dirty page about to be evicted is first marked as cold and moved to the top of the stack.",
        how: "The stack and the queue of lirs, and a cold flag per page. When the next victim is dirty and does not have the flag, it gets it and becomes an LIR page on top of the stack; the LIR page at the bottom moves to the end of the queue, and the search continues. A clean page, or a dirty one with the flag, is evicted. A write clears the flag, a read does not. Reconstructed from descriptions of the paper, which do not specify all of this.",
        when: "Use it where lirs is good and writes cost much more than reads: it then saves more than lirs. It pays with reads, since a dirty page displaces an LIR page however seldom it is used, which AD-LRU (section 2) criticises; in small memory at a small R it is dearer than lru.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(27).with_ghosts(50),
        source: "Jung et al. 2007, reconstructed; AD-LRU, section 2",
    };

    fn new(config: LirsWsrConfig, frames: u32) -> Self {
        LirsWsr {
            sets: RecencySets::new(frames, share_of(config.hir, frames)),
            writes: vec![Writes::default(); frames as usize],
        }
    }
}

impl Policy for LirsWsr {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn most_ghosts(&self) -> u32 {
        self.sets.most_ghosts()
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.writes[frame as usize] = Writes { dirty: true, cold: false };
        }
        self.sets.hit(frame);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.sets.miss(page, ghost);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.writes, frame as usize);
        self.sets.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.sets.prefetch_ghost(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        loop {
            let frame = self.sets.victim(&may_evict)?;
            let Writes { dirty, cold } = &mut self.writes[frame as usize];
            if !*dirty || std::mem::replace(cold, true) {
                return Some(frame);
            }
            self.sets.spare(frame, &may_evict);
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.writes[frame as usize] = Writes { dirty: access.is_write(), cold: false };
        self.sets.admit(frame, page);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.sets.not_admitted()
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        self.sets.remember(frame)
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.sets.evicted(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.writes[frame as usize] = Writes::default();
    }
}
