//! A policy in miniature: how to scale a buffer down so that over a sample it behaves as the
//! full-size one does over the trace (Waldspurger et al. 2017).

use super::shards::PageSample;
use crate::guest::SimPolicy;

/// The least number of frames of a miniature: with fewer, results vary too much.
pub const FEWEST_FRAMES: u64 = 64;

/// The sample over which the policy's miniatures of `frames` are run: the share of `rate`, doubled
/// until each has [`FEWEST_FRAMES`]; all pages where that exceeds half, and for policies that
/// have no miniature.
pub(crate) fn sample(policy: &SimPolicy, frames: u64, rate: f64) -> PageSample {
    match policy.has_miniature() {
        true => forced_sample(policy, frames, rate),
        false => PageSample::ALL,
    }
}

/// The sample over which a policy's miniatures of `frames` are run, whether the policy has a miniature or not.
///
/// A guest states no clusters and no parameters, and is scaled by its frames alone.
pub(crate) fn forced_sample(policy: &SimPolicy, frames: u64, rate: f64) -> PageSample {
    let grain = match policy {
        SimPolicy::Guest(_) => 1,
        SimPolicy::Registered(policy) => policy.grain(),
    };
    // A miniature buffer of a few blocks varies as randomly as one of a few pages.
    let fewest = FEWEST_FRAMES.saturating_mul(grain.isqrt()) as f64;
    let mut sample = PageSample { rate, grain };
    while sample.rate <= 0.5 && frames as f64 * sample.part_rate() < fewest {
        sample.rate *= 2.0;
    }
    match sample.rate > 0.5 {
        true => PageSample::ALL,
        false => sample,
    }
}

/// The frames of each part's miniature of `frames`.
pub(crate) fn frames(sample: PageSample, frames: u64) -> u64 {
    match sample.is_all() {
        true => frames,
        false => ((frames as f64 * sample.part_rate()).round() as u64).max(1),
    }
}

/// The policy with its parameters in numbers of pages, or per reference, scaled to a part of the
/// sample. A guest states no parameters.
pub(crate) fn policy(policy: &SimPolicy, sample: PageSample) -> SimPolicy {
    match policy {
        SimPolicy::Registered(policy) if !sample.is_all() => policy.in_miniature(sample.part_rate()).into(),
        policy => policy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_policy::PolicySpec;

    use super::*;

    fn spec(text: &str) -> PolicySpec {
        text.parse().expect("a policy")
    }

    fn sample(policy: &PolicySpec, frames: u64, rate: f64) -> PageSample {
        super::sample(&policy.clone().into(), frames, rate)
    }

    #[test]
    fn a_small_buffer_is_sampled_more_closely() {
        let rate = |frames| sample(&spec("lru"), frames, 0.01).rate;
        assert_eq!(rate(1_000_000), 0.01);
        assert_eq!(rate(25_600), 0.01);
        assert_eq!(rate(25_599), 0.02);
        assert_eq!(rate(1600), 0.16);
        assert_eq!(rate(400), 1.0);
        assert_eq!(frames(sample(&spec("lru"), 25_599, 0.01), 25_599), 128);
        assert!(sample(&spec("lru"), 5, 0.01).is_all());
    }

    #[test]
    fn blocks_stay_whole() {
        let grain = |text: &str| forced_sample(&spec(text).into(), 1 << 40, 0.01).grain;
        assert_eq!(grain("lru"), 1);
        assert_eq!(grain("lru:cluster=8"), 8);
        assert_eq!(grain("cfdc"), 64);
        assert_eq!(grain("ref:block=16"), 16);
        assert_eq!(grain("cfdc:cluster=0"), 1);
        assert_eq!(grain("ace:policy=(casa:cluster=32)"), 32);
    }

    #[test]
    fn numbers_of_pages_and_references_are_scaled_and_shares_are_not() {
        let scaled = |text: &str| {
            let tenth = PageSample { rate: 0.4, grain: 1 };
            policy(&spec(text).into(), tenth).to_string()
        };
        assert_eq!(scaled("fd-buffer:group=64"), "fd-buffer:group=6");
        assert_eq!(scaled("fd-static:clean=200"), "fd-static:clean=20");
        assert_eq!(scaled("fd-static:clean=25%"), "fd-static:clean=25%");
        assert_eq!(scaled("cfdc:cluster=16"), "cfdc:cluster=16");
        assert_eq!(scaled("lrfu"), "lrfu:lambda=0.01");
        assert_eq!(scaled("postgres:rate=500"), "postgres:bulkread=3,bulkwrite=205,vacuum=3,bgwriter_lru_maxpages=10,rate=50");
        assert_eq!(scaled("innodb"), "innodb:old_blocks_min=51,lru_scan_depth=102");
        assert_eq!(scaled("sqlite:commit=70"), "sqlite:commit=7");
        assert_eq!(scaled("ace:policy=(fd-static:clean=100),batch=40"), "ace:policy=(fd-static:clean=10),batch=4");
    }

    #[test]
    fn a_policy_without_a_miniature_sees_every_page() {
        for policy in
            ["fd-buffer", "fd-exact:interval=auto", "ace:policy=fd-buffer", "ebb", "ace:policy=ebb", "clock:cluster=8"]
        {
            assert!(sample(&spec(policy), 1 << 40, 0.01).is_all(), "{policy}");
            let forced = forced_sample(&spec(policy).into(), 1 << 40, 0.01);
            assert_eq!(forced.rate, 0.01, "{policy}");
        }
    }
}
