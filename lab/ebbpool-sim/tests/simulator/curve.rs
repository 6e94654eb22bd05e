//! Compares curves against memory size with simulations of each size.

use std::num::NonZeroU64;

use crate::common::{QUIET, SPECS, cell, file, file_with, operations};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{
    AtEnd, BufferSize, CheckpointIntervals, Counts, CurveOptions, Curves, NoStore, SimOptions, SimPolicy, Traffic, Warmup,
    simulate,
};
use ebbpool_trace::Source;
use proptest::prelude::*;

fn policy(spec: &str) -> SimPolicy {
    let spec: PolicySpec = spec.parse().expect("a policy");
    spec.into()
}

fn curve_options(sample: Option<f64>, options: &SimOptions) -> CurveOptions {
    CurveOptions { warmup: Warmup::References(options.warmup), options: options.clone(), asymmetry: 32.0, sample }
}

fn traffic(counts: &Counts) -> Traffic {
    Traffic {
        reads: counts.reads(),
        overwrites: counts.overwrites,
        writes: counts.writes,
        dirty_left: counts.dirty_left,
        end_writes: counts.end_writes,
        dirty_before: counts.dirty_before,
        padding_reads: counts.padding_reads,
        checkpoint_writes: counts.checkpoint_writes,
        trimmed: counts.trimmed,
    }
}

fn simulated(source: &Source, policy: &str, sizes: &[u64], options: &SimOptions) -> Vec<Traffic> {
    let cells: Vec<_> = sizes.iter().map(|&frames| cell(policy, frames, 32.0)).collect();
    let outcome = simulate(source, &cells, options, &QUIET).expect("a simulation");
    outcome.counts.iter().map(traffic).collect()
}

/// Traces skewed over at most `pages` pages, so that short ones have hits.
fn traces(pages: u64, longest: usize) -> impl Strategy<Value = Vec<(u64, bool)>> {
    let page = (0..pages, 0..pages).prop_map(|(a, b)| a * b / 3);
    prop::collection::vec((page, prop::bool::weighted(0.4)), 2..longest)
}

#[test]
fn an_example_by_hand() {
    let trace = [(1, true), (2, false), (1, true), (3, false), (2, true), (4, false), (1, false)];
    let (_directory, source) = file(&trace, "hand.txt");
    let curves = |at_end, warmup| {
        let options = SimOptions { at_end, warmup, ..SimOptions::default() };
        Curves::new(&source, &NoStore, &curve_options(None, &options), &QUIET).expect("curves")
    };
    let of = |reads, writes, dirty_left| Traffic { reads, writes, dirty_left, ..Traffic::default() };
    // Three frames: 2 is dirty at the end.
    let flushed = Traffic { end_writes: 1, ..of(5, 2, 0) };
    assert_eq!(curves(AtEnd::Flush, 0).lru().traffic_at(3), flushed);
    // 1 was dirty after the warm-up, and is evicted after it.
    let warm = Traffic { end_writes: 1, dirty_before: 1, ..of(2, 1, 0) };
    assert_eq!(curves(AtEnd::Flush, 4).lru().traffic_at(3), warm);
    let curves = curves(AtEnd::Free, 0);
    // One frame: there is no hit; 1 is evicted dirty twice, 2 once.
    assert_eq!(curves.lru().traffic_at(1), of(7, 3, 0));
    // Two frames: the second reference to 1 hits. 1 is evicted for 2, and 2, written since, for 1.
    assert_eq!(curves.lru().traffic_at(2), of(6, 2, 0));
    // Three frames: 2 stays until the end; 1 is evicted for 4.
    assert_eq!(curves.lru().traffic_at(3), of(5, 1, 1));
    assert_eq!(curves.lru().traffic_at(4), of(4, 0, 2));
    assert_eq!(curves.lru().traffic_at(400), of(4, 0, 2));
    assert_eq!(curves.lru().smallest(|traffic| traffic.writes <= 1), Some(3));
    assert_eq!(curves.lru().smallest(|traffic| traffic.reads <= 3), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lru_in_one_pass_is_lru_at_each_size(
        trace in traces(30, 600),
        warm in 0.0..0.95,
        flush: bool,
    ) {
        let (_directory, source) = file(&trace, "trace.u32");
        let options = SimOptions {
            warmup: (trace.len() as f64 * warm) as u64,
            at_end: if flush { AtEnd::Flush } else { AtEnd::Free },
            ..SimOptions::default()
        };
        let curves = Curves::new(&source, &NoStore, &curve_options(None, &options), &QUIET).expect("curves");
        let sizes: Vec<u64> = (1..=curves.lru().distinct_pages() + 2).collect();
        let expected = simulated(&source, "lru", &sizes, &options);
        for (frames, expected) in sizes.into_iter().zip(expected) {
            prop_assert_eq!(curves.lru().traffic_at(frames), expected, "{} frames", frames);
        }
    }

    #[test]
    fn a_sample_of_all_pages_is_the_simulation(
        trace in traces(20, 400),
        warm in 0.0..0.95,
        flush: bool,
        at in 0..SPECS.len(),
    ) {
        let policy = policy(SPECS[at]);
        let (_directory, source) = file(&trace, "trace.u32");
        let options = SimOptions {
            warmup: (trace.len() as f64 * warm) as u64,
            at_end: if flush { AtEnd::Flush } else { AtEnd::Free },
            ..SimOptions::default()
        };
        let mut curves = Curves::new(&source, &NoStore, &curve_options(Some(1.0), &options), &QUIET).expect("curves");
        let sizes = [1, 2, 5, 17, 60, 1000];
        let requests: Vec<_> = sizes.iter().map(|&frames| (&policy, frames)).collect();
        let found = curves.estimates_at(&requests, &QUIET).expect("estimates");
        let found: Vec<_> = found.into_iter().map(|estimate| estimate.traffic).collect();
        prop_assert_eq!(found, simulated(&source, SPECS[at], &sizes, &options));
    }

    #[test]
    fn curves_have_the_checkpoints_and_trims_of_simulations(
        trace in traces(20, 400),
        seed: u64,
        has_operations: bool,
        warm in 0.0..0.95,
        interval in 1u64..90,
        flush: bool,
        at in 0..SPECS.len(),
    ) {
        let policy = policy(SPECS[at]);
        let operations = if has_operations { operations(&trace, seed) } else { Default::default() };
        let (_directory, source) = file_with(&trace, &operations, "trace.txt");
        let options = SimOptions {
            warmup: (trace.len() as f64 * warm) as u64,
            at_end: if flush { AtEnd::Flush } else { AtEnd::Free },
            checkpoints: Some(CheckpointIntervals {
                references: NonZeroU64::new(interval),
                ..CheckpointIntervals::default()
            }),
            ..SimOptions::default()
        };
        let mut curves = Curves::new(&source, &NoStore, &curve_options(Some(1.0), &options), &QUIET).expect("curves");
        let sizes: Vec<u64> = (1..=curves.lru().distinct_pages() + 2).collect();
        let expected = simulated(&source, "lru", &sizes, &options);
        for (frames, expected) in sizes.into_iter().zip(expected) {
            prop_assert_eq!(curves.lru().traffic_at(frames), expected, "{} frames", frames);
        }
        let sizes = [1, 2, 5, 17, 60, 1000];
        let requests: Vec<_> = sizes.iter().map(|&frames| (&policy, frames)).collect();
        let found = curves.estimates_at(&requests, &QUIET).expect("estimates");
        let found: Vec<_> = found.into_iter().map(|estimate| estimate.traffic).collect();
        prop_assert_eq!(found, simulated(&source, SPECS[at], &sizes, &options));
    }
}

#[test]
fn samples_have_the_checkpoints_of_the_whole_trace() {
    let spec = "zipf:pages=200000,refs=1000000,read-alpha=0.9,write-alpha=1.1,write=0.3,seed=5";
    let source = Source::parse(spec, None).expect("a generator");
    let options = SimOptions {
        warmup: 100_000,
        threads: 2,
        checkpoints: Some(CheckpointIntervals { references: NonZeroU64::new(50_000), ..CheckpointIntervals::default() }),
        ..SimOptions::default()
    };
    let sampled = curve_options(Some(0.1), &options);
    let mut curves = Curves::new(&source, &NoStore, &sampled, &QUIET).expect("curves");
    let sizes = [3000, 30_000];
    for policy in ["clock", "cflru", "arc"] {
        let spec = self::policy(policy);
        let requests: Vec<_> = sizes.iter().map(|&frames| (&spec, frames)).collect();
        let found = curves.estimates_at(&requests, &QUIET).expect("estimates");
        let exact = simulated(&source, policy, &sizes, &options);
        for (found, exact) in found.iter().zip(exact) {
            assert!(found.sample.rate <= 0.4, "{policy}: {:?}", found.sample);
            // As near as the estimate says that its writes are.
            let stated = found.errors.and_then(|errors| errors.writes).unwrap_or(0.0);
            let allowed = stated.max(0.1);
            let near = |found: u64, exact: u64| (found as f64 / exact as f64 - 1.0).abs() < allowed;
            let Traffic { writes, checkpoint_writes, .. } = found.traffic;
            assert!(near(writes, exact.writes), "{policy}: {found:?} {exact:?}");
            assert!(near(checkpoint_writes, exact.checkpoint_writes), "{policy}: {found:?} {exact:?}");
        }
    }
}

fn bill(traffic: Traffic) -> f64 {
    traffic.reads as f64 + 32.0 * traffic.writes as f64
}

#[test]
fn sampled_bills_are_within_their_stated_errors() {
    let spec = "zipf:pages=200000,refs=1000000,read-alpha=0.9,write-alpha=1.1,write=0.3,seed=5";
    let source = Source::parse(spec, None).expect("a generator");
    let options = SimOptions { warmup: 100_000, threads: 2, ..SimOptions::default() };
    let mut curves = Curves::new(&source, &NoStore, &curve_options(Some(0.1), &options), &QUIET).expect("curves");
    let sizes = [3000, 8000, 30_000];
    let (mut sampled, mut within) = (0, 0);
    for policy in ["cflru", "casa", "cfdc:cluster=4", "fd-static", "clock", "belady"] {
        let spec = self::policy(policy);
        let requests: Vec<_> = sizes.iter().map(|&frames| (&spec, frames)).collect();
        let found = curves.estimates_at(&requests, &QUIET).expect("estimates");
        let exact = simulated(&source, policy, &sizes, &options);
        for ((&frames, found), exact) in sizes.iter().zip(&found).zip(exact) {
            assert!(found.sample.rate <= 0.4, "{policy} {frames}: {:?}", found.sample);
            let off = bill(found.traffic) / bill(exact) - 1.0;
            let stated = found.errors.expect("errors of a sample").cost.expect("a bill");
            assert!(off.abs() < 0.1, "{policy} with {frames}: {off:+.3}");
            assert!(stated < 0.25, "{policy} with {frames}: stated error {stated:.3}");
            sampled += 1;
            within += usize::from(off.abs() <= stated);
        }
    }
    assert!(10 * within >= 9 * sampled, "{within} of {sampled} are within their errors");
}

#[test]
fn the_smallest_memory_is_found_for_stack_policies_and_others() {
    let source = Source::parse("zipf:pages=3000,refs=60000,write=0.3", None).expect("a generator");
    let options = SimOptions::default();
    let mut curves = Curves::new(&source, &NoStore, &curve_options(Some(1.0), &options), &QUIET).expect("curves");
    let policies = ["lru", "fifo", "cflru"].map(policy);
    let now = curves.lru().traffic_at(90).writes;
    let requests = |traffic: Traffic| 2 * traffic.writes <= now;
    let sizes = [50, 100, 400, 1600];
    let found = curves.smallest(&policies, &sizes, requests, &QUIET).expect("answers");
    for (policy, found) in ["lru", "fifo", "cflru"].iter().zip(found) {
        let found = found.expect("an answer");
        assert_eq!(found.too_few, found.frames - 1, "{policy}");
        let around = simulated(&source, policy, &[found.too_few, found.frames], &options);
        assert!(!requests(around[0]) && requests(around[1]), "{policy}: {around:?}");
        assert_eq!(around[1], found.estimate.traffic);
    }
    let never = curves.smallest(&policies, &sizes, |traffic| traffic.reads == 0, &QUIET);
    assert_eq!(never.expect("no answers"), [None; 3]);
    let always = curves.smallest(&policies, &sizes, |_| true, &QUIET).expect("answers");
    assert!(always.iter().flatten().all(|found| found.frames == 1));
}

#[test]
fn sizes_are_shares_of_the_pages() {
    let source = Source::parse("uniform:pages=500,refs=20000,write=0.3", None).expect("a generator");
    let curves = Curves::new(&source, &NoStore, &curve_options(None, &SimOptions::default()), &QUIET).expect("curves");
    let frames = |size| curves.frames(size).expect("a number of frames");
    let share = |text: &str| frames(BufferSize::Share(text.parse().expect("a share")));
    assert_eq!(share("3%"), 15);
    assert_eq!(share("0.01%"), 1);
    assert_eq!(frames(BufferSize::Frames(7)), 7);
}

/// The largest deviation of Two-Stack's reads and writes from fd-static's, as a share of them.
const TWO_STACK: f64 = 0.15;

#[test]
fn every_clean_pool_is_near_a_run_of_fd_static() {
    let spec = "zipf:pages=8000,refs=200000,read-alpha=0.8,write-alpha=1.1,write=0.3";
    let source = Source::parse(spec, None).expect("a generator");
    for at_end in [AtEnd::Free, AtEnd::Flush] {
        let options = SimOptions { warmup: 50_000, at_end, threads: 2, ..SimOptions::default() };
        let curves = Curves::new(&source, &NoStore, &curve_options(None, &options), &QUIET).expect("curves");
        let frames = 800;
        let pools = curves.clean_pools(frames, &QUIET).expect("clean pools");
        assert_eq!(pools.len(), 799);
        for clean in [1, 40, 200, 400, 600, 760, 799] {
            let policy = format!("fd-static:clean={clean}");
            let exact = simulated(&source, &policy, &[frames], &options)[0];
            let pool = pools[clean as usize - 1];
            assert_eq!(pool.clean, clean);
            let off = |found: u64, exact: u64| found.abs_diff(exact) as f64 / exact as f64;
            let reads = off(pool.traffic.reads, exact.reads);
            let writes = off(pool.traffic.writes, exact.writes);
            assert!(reads < TWO_STACK && writes < TWO_STACK, "clean={clean}: {:?}, {exact:?}", pool.traffic);
        }
    }
}
