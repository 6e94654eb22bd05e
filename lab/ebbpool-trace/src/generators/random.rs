//! Random numbers that are the same on every machine, computed with integers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random bits with the draws that generators need.
///
/// xoshiro256++, seeded by SplitMix64; both are published algorithms, so that other
/// programs can generate the same traces.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

/// A probability that is an exact fraction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    numerator: u64,
    denominator: u64,
}

impl Chance {
    /// `numerator` of `denominator`, the latter not 0.
    pub(crate) const fn new(numerator: u64, denominator: u64) -> Chance {
        Chance { numerator, denominator }
    }

    /// The probability as a floating-point number.
    pub(crate) fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 32 random bits, the upper ones of the next 64.
    #[inline]
    pub(crate) fn bits32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }

    /// A number below `bound`, which is not 0, each equally likely (Lemire, Fast
    /// Random Integer Generation in an Interval, 2019).
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.0.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let unfair = bound.wrapping_neg() % bound;
            while (product as u64) < unfair {
                product = u128::from(self.0.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// True with the given probability.
    #[inline]
    pub(crate) fn happens(&mut self, chance: Chance) -> bool {
        self.below(chance.denominator) < chance.numerator
    }

    /// Puts `items` into a random order, all orders being equally likely (Fisher-Yates from
    /// the end).
    pub(crate) fn shuffle(&mut self, items: &mut [u32]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_fair_and_in_range() {
        let mut random = Random::new(5);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)));
        // Nearly half of the draws are rejected here.
        let bound = (1 << 63) + 1;
        assert!((0..1000).all(|_| random.below(bound) < bound));
        assert_eq!(random.below(1), 0);
        assert!((0..100).all(|_| random.happens(Chance::new(1, 1))));
        assert!(!(0..100).any(|_| random.happens(Chance::new(0, 1))));
    }

    #[test]
    fn shuffles_are_permutations_all_equally_likely() {
        let mut random = Random::new(1);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|count| (840..1160).contains(count)));
        random.shuffle(&mut []);
    }
}
