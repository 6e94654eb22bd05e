//! The smallest memory that satisfies a condition.

use super::{Curves, Estimate, Traffic};
use crate::error::SimError;
use crate::guest::SimPolicy;
use crate::stream::PassControl;

/// Sizes tried at a time between one that is too small and one that is large enough.
const TRIED_AT_A_TIME: u64 = 7;

/// The precision of a sampled result, as a share of it: 1 in this many.
const RESOLUTION: u64 = 100;

/// The smallest memory at which a policy's traffic satisfies a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallestMemory {
    /// The number of frames.
    pub frames: u64,
    /// The policy's traffic with them.
    pub estimate: Estimate,
    /// The largest number of frames below that were found to be too few; 0 if the fewest tried are
    /// enough.
    pub too_few: u64,
}

impl Curves<'_> {
    /// The smallest memory at which the traffic of each policy satisfies `condition`; `None` where
    /// no size does.
    ///
    /// For LRU every size is known. For another policy the search finds the first of the `sizes`
    /// that is large enough, and divides the range between it and the size before until the result
    /// is precise to 1 %, or to a frame where every page is sampled.
    ///
    /// # Errors
    ///
    /// The errors of [`Curves::at`].
    pub fn smallest(
        &mut self,
        policies: &[SimPolicy],
        sizes: &[u64],
        condition: impl Fn(Traffic) -> bool,
        progress: &PassControl,
    ) -> Result<Vec<Option<SmallestMemory>>, SimError> {
        let mut sizes = sizes.to_vec();
        sizes.push(self.lru.distinct_pages().max(1));
        sizes.sort_unstable();
        sizes.dedup();
        let mut found = self.narrowed(policies, |_| sizes.clone(), &condition, progress)?;
        for (policy, found) in policies.iter().zip(&mut found) {
            if let SimPolicy::Registered(policy) = policy
                && policy.to_string() == "lru"
                && let Some(frames) = self.lru.smallest(&condition)
            {
                *found = Some(SmallestMemory {
                    frames,
                    estimate: Estimate::exact(self.lru.traffic_at(frames)),
                    too_few: frames - 1,
                });
            }
        }
        loop {
            let open: Vec<usize> =
                (0..policies.len()).filter(|&at| found[at].as_ref().is_some_and(|found| self.is_open(found))).collect();
            if open.is_empty() {
                return Ok(found);
            }
            let open_policies: Vec<SimPolicy> = open.iter().map(|&at| policies[at].clone()).collect();
            let between = |at: usize| found[open[at]].as_ref().map_or(Vec::new(), divided);
            let narrower = self.narrowed(&open_policies, between, &condition, progress)?;
            for (at, narrower) in open.into_iter().zip(narrower) {
                found[at] = narrower;
            }
        }
    }

    /// For each policy the first of its sizes, in ascending order, that is large enough.
    fn narrowed(
        &mut self,
        policies: &[SimPolicy],
        sizes: impl Fn(usize) -> Vec<u64>,
        condition: &impl Fn(Traffic) -> bool,
        progress: &PassControl,
    ) -> Result<Vec<Option<SmallestMemory>>, SimError> {
        let sizes: Vec<Vec<u64>> = (0..policies.len()).map(sizes).collect();
        let requests: Vec<(&SimPolicy, u64)> =
            policies.iter().zip(&sizes).flat_map(|(policy, sizes)| sizes.iter().map(move |&frames| (policy, frames))).collect();
        let mut estimates = self.estimates_at(&requests, progress)?.into_iter();
        let mut first_of = |sizes: &Vec<u64>| {
            let mut too_few = 0;
            let mut first = None;
            for (&frames, estimate) in sizes.iter().zip(estimates.by_ref()) {
                if first.is_none() && condition(estimate.traffic) {
                    first = Some(SmallestMemory { frames, estimate, too_few });
                }
                too_few = frames;
            }
            first
        };
        Ok(sizes.iter().map(&mut first_of).collect())
    }

    fn is_open(&self, found: &SmallestMemory) -> bool {
        let between = found.frames - found.too_few - 1;
        let coarse = match found.estimate.sample.is_all() && self.rate >= 1.0 {
            true => 0,
            // The result cannot be more precise than the number of frames that one frame of a
            // miniature stands for.
            false => (found.frames / RESOLUTION).max((1.0 / found.estimate.sample.rate) as u64),
        };
        between > coarse
    }
}

/// Sizes evenly spread over the remaining range, both ends included.
fn divided(found: &SmallestMemory) -> Vec<u64> {
    let width = found.frames - found.too_few;
    let parts = TRIED_AT_A_TIME + 1;
    let at = |part: u64| found.too_few + (u128::from(width) * u128::from(part) / u128::from(parts)) as u64;
    let mut sizes: Vec<u64> = (0..=parts).map(at).filter(|&frames| frames > 0).collect();
    sizes.dedup();
    sizes
}
