//! Cleaning (garbage collection): which closed block is emptied of its valid pages and erased.

mod block_lists;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod random;
mod sampled;
mod valid_page_buckets;

use super::nand::Wear;

/// Which block is cleaned next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningKind {
    /// The block with the fewest valid pages.
    Greedy,
    /// The block that was closed first.
    Fifo,
    /// Any block.
    Random,
    /// The block with the fewest valid pages among some that are drawn at random.
    DChoices,
    /// The block with the best product of age and gain over cost.
    CostBenefit,
    /// The least erased of the blocks with the fewest valid pages.
    EeGreedy,
}

/// The state of the device that a cleaning policy sees when it chooses a victim.
pub(super) struct VictimView<'a> {
    pub(super) wear: &'a Wear,
    /// Valid pages by block.
    pub(super) valid: &'a [u32],
    /// Host writes so far.
    pub(super) now: u64,
}

/// Orders the closed blocks; `valid` is always the block's number of valid pages after the call's
/// event, `now` the number of host writes so far.
trait Cleaning {
    /// A block was closed.
    fn add(&mut self, block: u32, valid: u32, now: u64);
    /// A page of a closed block became invalid.
    fn page_invalidated(&mut self, block: u32, valid: u32, now: u64);
    /// A closed block is removed.
    fn remove(&mut self, block: u32, valid: u32);
    /// The block to clean, which stays until it is removed; `None` only if no block is closed.
    fn victim(&mut self, view: &VictimView<'_>) -> Option<u32>;
}

/// A cleaning policy and its state.
#[derive(Clone)]
pub(super) struct Cleaner(Policy);

/// An enum rather than a trait object, so that an invalidated page costs a predictable branch.
#[derive(Clone)]
enum Policy {
    Greedy(greedy::Greedy),
    Fifo(fifo::Fifo),
    Random(random::Random),
    DChoices(d_choices::DChoices),
    CostBenefit(cost_benefit::CostBenefit),
}

macro_rules! on_policy {
    ($self:expr, $policy:ident => $call:expr) => {
        match &mut $self.0 {
            Policy::Greedy($policy) => $call,
            Policy::Fifo($policy) => $call,
            Policy::Random($policy) => $call,
            Policy::DChoices($policy) => $call,
            Policy::CostBenefit($policy) => $call,
        }
    };
}

impl Cleaner {
    pub(super) fn new(kind: CleaningKind, blocks: u32, pages_per_block: u32, choices: u32, seed: u64) -> Self {
        Self(match kind {
            CleaningKind::Greedy | CleaningKind::EeGreedy => {
                let by_wear = kind == CleaningKind::EeGreedy;
                Policy::Greedy(greedy::Greedy::new(blocks, pages_per_block, by_wear))
            }
            CleaningKind::Fifo => Policy::Fifo(fifo::Fifo::new(blocks)),
            CleaningKind::Random => Policy::Random(random::Random::new(blocks, seed)),
            CleaningKind::DChoices => Policy::DChoices(d_choices::DChoices::new(blocks, choices, seed)),
            CleaningKind::CostBenefit => Policy::CostBenefit(cost_benefit::CostBenefit::new(blocks, pages_per_block)),
        })
    }

    pub(super) fn add(&mut self, block: u32, valid: u32, now: u64) {
        on_policy!(self, policy => policy.add(block, valid, now));
    }

    #[inline]
    pub(super) fn page_invalidated(&mut self, block: u32, valid: u32, now: u64) {
        on_policy!(self, policy => policy.page_invalidated(block, valid, now));
    }

    pub(super) fn remove(&mut self, block: u32, valid: u32) {
        on_policy!(self, policy => policy.remove(block, valid));
    }

    pub(super) fn victim(&mut self, view: &VictimView<'_>) -> Option<u32> {
        on_policy!(self, policy => policy.victim(view))
    }
}
