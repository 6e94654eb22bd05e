//! Asymmetry- and concurrency-aware writing around any policy.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::parameters::{parameters, whole};
use crate::policy::{
    Access, Capabilities, Costs, DynPolicy, Frame, Gauges, Ghost, NextUse, Page, PageClass, PageProbabilities, Policy, forward,
};
use crate::registry::{self, RegisteredPolicy};
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, PolicySpec, text_beside};

/// Any policy, whose dirty victims are written together with the dirty pages that it would evict
/// next.
///
/// The wrapped policy itself names these pages: it chooses further victims while all frames count
/// as pinned except the dirty pages that it has not yet named. What its searches flag and move
/// stands, as in the authors' own code. The paper's eviction of several pages and its reading ahead
/// are left out: they change which pages are resident, not how writes are batched.
pub struct Ace {
    policy: Box<dyn DynPolicy + Send>,
    capabilities: Capabilities,
    states: Vec<State>,
    /// Pages to write with the latest victim, which belongs to the batch too.
    batch: Vec<Frame>,
    others: usize,
}

/// The capabilities of the wrapped policy that are forwarded.
const SERVES: Capabilities = Capabilities::FORWARDED;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Clean,
    Dirty,
    /// Dirty, and either the victim or in its batch.
    Named,
}

parameters! {
    /// The parameters of [`Ace`].
    pub struct AceConfig {
        policy: PolicySpec = {
            kind: ParameterKind::Policy { serves: SERVES },
            default: "lru",
            about: "the policy that chooses the victims",
        },
        batch: u64 = {
            kind: whole(1, 256),
            default: "8",
            about: "pages written at the same time, the victim included: what the device can do at once",
        },
    }
}

impl RegisteredPolicy for Ace {
    type Config = AceConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "ace",
        aliases: &[],
        params: AceConfig::PARAMS,
        summary: "Any policy, whose dirty victims are written in one concurrent batch with the dirty pages that it would evict next.",
        how: text_beside!("ace.md"),
        when: "Use it on a device that writes several pages in the time of one (Papon and Athanassoulis). The bill counts page by page and shows the price of batching: pages written early may be written again before their eviction. Around lru that price is small; around a policy that clings to dirty pages, such as ccf-lru, the clean pages that batches leave save reads.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "Papon and Athanassoulis, ICDE 2023, and their code",
    };

    fn new(config: AceConfig, frames: u32) -> Self {
        let others = config.batch.saturating_sub(1).min(u64::from(frames)) as usize;
        let policy = registry::boxed(&config.policy, frames);
        Ace {
            capabilities: Self::CAPABILITIES.union(policy.capabilities().wrapped()),
            policy,
            states: vec![State::Clean; frames as usize],
            batch: Vec::with_capacity(others),
            others,
        }
    }
}

impl Ace {
    /// Fills the batch with the dirty pages that the wrapped policy would evict after `victim`.
    fn fill_batch(&mut self, victim: Frame, incoming: Option<(Page, Access)>, may_evict: impl Fn(Frame) -> bool) {
        self.states[victim as usize] = State::Named;
        while self.batch.len() < self.others {
            let states = &self.states;
            let may_be_named = |frame: Frame| states[frame as usize] == State::Dirty && may_evict(frame);
            let Some(next) = self.policy.victim(incoming, &may_be_named) else {
                break;
            };
            self.states[next as usize] = State::Named;
            self.batch.push(next);
        }
        for &frame in self.batch.iter().chain([&victim]) {
            self.states[frame as usize] = State::Dirty;
        }
    }
}

impl Policy for Ace {
    const CAPABILITIES: Capabilities = Capabilities::WRITES_TOGETHER;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    forward! {
        self.policy:
        most_ghosts, page, ghost_page, omitted_hits, miss, prefetch, prefetch_ghost, evicted_with, padded_block, not_admitted,
        remember, costs, erase_count, class, next_use, prices,
        probabilities, gauges
    }

    fn reserve(&mut self) -> bool {
        self.policy.reserve()
    }

    fn wrote(&mut self, frame: Frame) -> bool {
        let noted = self.policy.wrote(frame);
        if noted {
            self.states[frame as usize] = State::Dirty;
        }
        noted
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.states[frame as usize] = State::Dirty;
        }
        self.policy.hit(frame, access);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.batch.clear();
        let victim = self.policy.victim(incoming, &may_evict)?;
        let written_whole = self.policy.padded_block(victim).is_some();
        if self.states[victim as usize] == State::Dirty && !written_whole {
            self.fill_batch(victim, incoming, may_evict);
        }
        Some(victim)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.states[frame as usize] = match access {
            Access::Read => State::Clean,
            Access::Write => State::Dirty,
        };
        self.policy.admit(frame, page, access);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.states[frame as usize] = State::Clean;
        self.policy.evicted(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.states[frame as usize] = State::Clean;
        self.policy.cleaned(frame);
    }

    fn cleaned_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        if self.batch.is_empty() {
            self.policy.cleaned_with(victim, max, together);
        }
        together.extend(self.batch.iter().take(max));
    }
}
