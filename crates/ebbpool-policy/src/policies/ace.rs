//! Asymmetry- and concurrency-aware writing around any policy.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::policy::{Access, Costs, DynPolicy, Frame, Gauges, Ghost, NextUse, Page, Policy};
use crate::registry::{self, Build};
use crate::spec::{Entry, Kind, Memory, Param, PolicySpec, Value};

/// The policy that is wrapped if none is named.
const DEFAULT: &str = "lru";

/// Any policy, whose dirty victims are written together with the dirty pages that it would evict
/// next.
///
/// Who that would be, the wrapped policy says itself: it is asked again and again while all but the
/// dirty pages not yet named count as pinned. What its searches flag and move stands, as in the
/// authors' own code. The eviction of several pages and the reading ahead of the paper are left
/// out: they change who is resident, not how writes are batched.
pub struct Ace {
    policy: Box<dyn DynPolicy + Send>,
    states: Vec<State>,
    /// Pages to write with the latest victim, which is one of the batch.
    batch: Vec<Frame>,
    others: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Clean,
    Dirty,
    /// Dirty, and the victim or in its batch.
    Named,
}

impl Build for Ace {
    const ENTRY: Entry = Entry {
        name: "ace",
        aliases: &[],
        params: &[
            Param {
                name: "policy",
                kind: Kind::Policy,
                default: DEFAULT,
                about: "the policy that chooses the victims",
            },
            Param {
                name: "batch",
                kind: Kind::Whole {
                    min: 1,
                    max: 256,
                    or: None,
                },
                default: "8",
                about: "pages written at the same time, the victim included: what the device can do at once",
            },
        ],
        summary: "Any policy, whose dirty victims are written in one concurrent batch with the dirty pages that would go next.",
        how: "The wrapped policy chooses the victim. If that is dirty, the policy is asked who would go next among the dirty pages that are not pinned, until the batch is full; the batch is written at once, the victim leaves, and the others stay, clean. Flags and places that the wrapped policy changes in its searches stay changed. The bill counts each page written as one write, so here a batch costs what its pages cost one by one; a device that writes several at the same time is what ACE is made for. Evicting more than one page and reading ahead, which the paper also has, are left out. A block that bplru writes whole is a batch by itself. A policy that itself wraps one cannot be wrapped.",
        when: "On a device that writes several pages in the time of one. The bill counts page by page, and shows what that costs in writes: pages written early may be written again before they leave. On the samples at R = 32 and 3 %, ace around lru costs less than 0.1 % more than lru (pg-tpcc, pg-tpcb) and 0.2 % more (pg-tatp). Around ccf-lru, which clings to dirty pages, the clean pages that batches leave save reads: at R = 1 and 3 % on pg-tpcc it costs 5.4 % less than ccf-lru alone.",
        memory: Memory::of(9),
        source: "Papon and Athanassoulis, ICDE 2023, and their code",
        online: true,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        let policy = match spec.value("policy") {
            Some(Value::Policy(wrapped)) => registry::boxed(&wrapped, frames),
            _ => unreachable!("a parameter of kind Policy has a policy as value"),
        };
        let batch = spec.whole("batch").unwrap_or(1);
        let others = batch.saturating_sub(1).min(u64::from(frames)) as usize;
        Ace {
            policy,
            states: vec![State::Clean; frames as usize],
            batch: Vec::with_capacity(others),
            others,
        }
    }
}

impl Ace {
    /// Asks for the dirty pages that would go after `victim`.
    fn fill_batch(
        &mut self,
        victim: Frame,
        incoming: Option<(Page, Access)>,
        may_go: impl Fn(Frame) -> bool,
    ) {
        self.states[victim as usize] = State::Named;
        while self.batch.len() < self.others {
            let states = &self.states;
            let may_be_named =
                |frame: Frame| states[frame as usize] == State::Dirty && may_go(frame);
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
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.states[frame as usize] = State::Dirty;
        }
        self.policy.hit(frame, access);
    }

    fn wants_every_hit(&self) -> bool {
        self.policy.wants_every_hit()
    }

    fn left_out(&mut self, hits: u64) {
        self.policy.left_out(hits);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        self.policy.miss(page, ghost, access);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.policy.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.policy.prefetch_ghost(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        self.batch.clear();
        let victim = self.policy.victim(incoming, &may_go)?;
        let written_whole = self.policy.padding(victim).is_some();
        if self.states[victim as usize] == State::Dirty && !written_whole {
            self.fill_batch(victim, incoming, may_go);
        }
        Some(victim)
    }

    fn also_leaving(&self, victim: Frame, leaving: &mut Vec<Frame>) {
        self.policy.also_leaving(victim, leaving);
    }

    fn padding(&self, victim: Frame) -> Option<NonZeroU64> {
        self.policy.padding(victim)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.states[frame as usize] = match access {
            Access::Read => State::Clean,
            Access::Write => State::Dirty,
        };
        self.policy.admit(frame, page, access);
    }

    fn refused(&mut self) -> Option<Ghost> {
        self.policy.refused()
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        self.policy.remember(frame)
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

    fn write_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        if self.batch.is_empty() {
            self.policy.write_with(victim, max, together);
        }
        together.extend(self.batch.iter().take(max));
    }

    fn costs(&mut self, costs: Costs) {
        self.policy.costs(costs);
    }

    fn asks_erase_counts(&self) -> bool {
        self.policy.asks_erase_counts()
    }

    fn erase_count(&mut self, frame: Frame, erases: u32) {
        self.policy.erase_count(frame, erases);
    }

    fn next_use(&mut self, next: NextUse) {
        self.policy.next_use(next);
    }

    fn prices(&mut self, prices: Arc<[f64]>) {
        self.policy.prices(prices);
    }

    fn gauges(&self) -> Gauges {
        self.policy.gauges()
    }
}
