//! Repeatable random numbers.

pub struct Chance(fastrand::Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(fastrand::Rng::with_seed(seed))
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.0.u64(..count)
    }

    pub fn usize(&mut self, count: usize) -> usize {
        self.0.usize(..count)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn seed(&mut self) -> u64 {
        self.0.u64(..)
    }
}
