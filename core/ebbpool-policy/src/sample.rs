//! Random samples of frames, the same in every run.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::policy::Frame;

/// Any constant will do; the model of a policy that samples has the same one.
const SEED: u64 = 2026;

/// A sample ends after this many draws for each frame that it should have, so that a buffer whose
/// frames are nearly all pinned does not keep the caller waiting.
const DRAWS_PER_FRAME: u32 = 8;

/// A source of random frames and choices.
#[derive(Clone)]
pub(crate) struct FrameSampler {
    random: SplitMix64,
}

impl FrameSampler {
    pub(crate) fn new() -> Self {
        FrameSampler { random: SplitMix64::seed_from_u64(SEED) }
    }

    /// What [`least`](Self::least) would return, with the same draws each time.
    #[inline]
    pub(crate) fn least_next<V: PartialOrd>(
        &self,
        frames: u32,
        size: u32,
        may_evict: impl Fn(Frame) -> bool,
        value: impl Fn(Frame) -> V,
    ) -> Option<Frame> {
        self.clone().least(frames, size, may_evict, value)
    }

    /// A number from 0 to `end` - 1, all equally likely.
    #[inline]
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (((self.random.next_u64() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// True with this probability.
    #[inline]
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        ((self.random.next_u64() >> 11) as f64) * (0.5f64).powi(53) < probability
    }

    /// The frame of least value of `size` frames drawn at random, with replacement, from those that
    /// may be evicted; of equals the one drawn first. Frames that may not be evicted are drawn again,
    /// at most eight times the size of the sample in all; if none of the drawn frames may be evicted,
    /// the first that may, in turn from the frame drawn last. A search that finds none leaves the draws
    /// that follow as they were.
    #[inline]
    pub(crate) fn least<V: PartialOrd>(
        &mut self,
        frames: u32,
        size: u32,
        may_evict: impl Fn(Frame) -> bool,
        value: impl Fn(Frame) -> V,
    ) -> Option<Frame> {
        let before = self.random.clone();
        let mut least: Option<(V, Frame)> = None;
        let mut found = 0;
        let mut last = 0;
        for _ in 0..size.saturating_mul(DRAWS_PER_FRAME) {
            last = self.below(frames);
            if !may_evict(last) {
                continue;
            }
            let value = value(last);
            if least.as_ref().is_none_or(|(least, _)| value < *least) {
                least = Some((value, last));
            }
            found += 1;
            if found == size {
                break;
            }
        }
        let found = least.map(|(_, frame)| frame).or_else(|| {
            let mut in_turn = (last..frames).chain(0..last);
            in_turn.find(|&frame| may_evict(frame))
        });
        if found.is_none() {
            self.random = before;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_frames_is_found_by_a_large_sample() {
        let mut sampler = FrameSampler::new();
        let least = sampler.least(16, 1000, |_| true, |frame| (i64::from(frame) - 5).abs());
        assert_eq!(least, Some(5));
    }

    #[test]
    fn a_single_evictable_frame_is_found() {
        let mut sampler = FrameSampler::new();
        for only in [0, 1, 500, 999] {
            let least = sampler.least(1000, 2, |frame| frame == only, |_| 0);
            assert_eq!(least, Some(only));
        }
        let next = FrameSampler { random: sampler.random.clone() }.below(1000);
        assert_eq!(sampler.least(1000, 2, |_| false, |_| 0), None);
        assert_eq!(sampler.below(1000), next);
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut sampler = FrameSampler::new();
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[sampler.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let happened = (0..10_000).filter(|_| sampler.happens(0.3)).count();
        assert!((2800..3200).contains(&happened), "{happened}");
    }
}
