//! Repeatable random numbers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::platter::Survival;

/// A source of random numbers: the same numbers for the same seed, on every machine.
#[derive(Clone, Debug)]
pub(super) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `count`; the bias of the remainder does not matter here.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count.max(1)
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// How much of the pending writes survives. `All` and `Nothing` are the interesting extremes, and so they are
    /// frequent.
    pub(super) fn survival(&mut self) -> Survival {
        match self.below(4) {
            0 => Survival::All,
            1 => Survival::Nothing,
            _ => Survival::Some,
        }
    }
}
