//! Repeatable random numbers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }

    pub fn seed(&mut self) -> u64 {
        self.below(u64::MAX)
    }
}
