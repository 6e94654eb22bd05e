//! Write clustering for any policy (FD-Buffer TC, sections 4.5 and 5.1).

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::clusters::{Clusters, KEYS, PriorityUpdate};
use crate::lists::FrameLists;
use crate::parameters::parameters;
use crate::policy::{
    Access, BackgroundWrite, Capabilities, Costs, DynPolicy, Frame, Gauges, Ghost, NextUse, Page, PageClass, PageProbabilities,
    Policy, RecordedRequest, forward,
};
use crate::spec::CLUSTER;

parameters! {
    /// The parameters of [`Clustered`], which the registry lays over policies that have them.
    pub struct ClusteredConfig {
        cluster: Option<u64> = CLUSTER,
        keys: PriorityUpdate = KEYS,
    }
}

/// A policy whose dirty victims are replaced by the next page of a victim cluster, so that
/// consecutive writes fall close together.
///
/// The wrapped policy does not learn of the replacement: what it moved or flagged during its search
/// stands, and it removes the frame that is evicted in place of its choice from the list that holds
/// it. It is behind dynamic dispatch, so that drivers are not compiled twice for each policy.
pub struct Clustered {
    policy: Box<dyn DynPolicy + Send>,
    capabilities: Capabilities,
    clusters: Clusters,
    /// The lists of the clusters and no others.
    lists: FrameLists<0>,
    dirty: Vec<bool>,
}

impl Clustered {
    /// `policy` over `frames` frames, with clusters of `size` pages.
    pub fn new(policy: Box<dyn DynPolicy + Send>, frames: u32, size: u64, keys: PriorityUpdate) -> Self {
        Clustered {
            capabilities: policy.capabilities().wrapped(),
            policy,
            clusters: Clusters::new(frames, size, keys),
            lists: FrameLists::new(frames),
            dirty: vec![false; frames as usize],
        }
    }

    /// The page in the frame was written, and joins its cluster at the end.
    #[inline]
    fn written(&mut self, frame: Frame) {
        if std::mem::replace(&mut self.dirty[frame as usize], true) {
            self.clusters.hit(&mut self.lists, frame);
        }
        self.clusters.enter(&mut self.lists, frame);
    }
}

impl Policy for Clustered {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    forward! {
        self.policy:
        most_ghosts, page, ghost_page, omitted_hits, miss, prefetch, prefetch_ghost, evicted_with, padded_block, evicts_early, not_admitted,
        remember, cleaned_with, costs, erase_count, class, request, background_writes, next_use, prices,
        probabilities, gauges
    }

    fn reserve(&mut self) -> bool {
        self.clusters.reserve(&mut self.lists);
        self.policy.reserve()
    }

    fn wrote(&mut self, frame: Frame) -> bool {
        let noted = self.policy.wrote(frame);
        if noted {
            self.written(frame);
        }
        noted
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.policy.hit(frame, access);
        if access.is_write() {
            self.written(frame);
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let chosen = self.policy.victim(incoming, &may_evict)?;
        if self.dirty[chosen as usize] { self.clusters.victim(&self.lists, may_evict) } else { Some(chosen) }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.policy.admit(frame, page, access);
        self.clusters.admit(frame, page);
        self.dirty[frame as usize] = access.is_write();
        if access.is_write() {
            self.clusters.enter(&mut self.lists, frame);
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.policy.evicted(frame);
        if std::mem::take(&mut self.dirty[frame as usize]) {
            self.clusters.leave(&mut self.lists, frame);
        }
    }

    fn cleaned(&mut self, frame: Frame) {
        self.policy.cleaned(frame);
        if std::mem::take(&mut self.dirty[frame as usize]) {
            self.clusters.leave(&mut self.lists, frame);
        }
    }
}
