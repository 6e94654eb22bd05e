//! Compares the simulator with the models' own: the same counts for every policy on the same
//! traces.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::common::{Operations, QUIET, SPECS, cell, class_of, file, file_with, operations, request_of};
use ebbpool_model::workload::workload;
use ebbpool_model::{ModelCounts, ModelTrace, count, count_with_columns};
use ebbpool_policy::{PolicyEntry, registry};
use ebbpool_sim::{AtEnd, CheckpointIntervals, Counts, SimCell, SimOptions, TraceFacts, simulate};

const SIZES: &[u64] = &[1, 7, 64];

fn assert_same(counts: &Counts, facts: &TraceFacts, expected: &ModelCounts, context: &str) {
    assert_eq!(counts.references, expected.references, "references, {context}");
    assert_eq!(counts.hits(), expected.hits, "hits, {context}");
    assert_eq!(counts.misses, expected.misses, "misses, {context}");
    assert_eq!(counts.reads(), expected.reads, "reads, {context}");
    assert_eq!(counts.trimmed, expected.trimmed, "trimmed, {context}");
    assert_eq!(counts.padding_reads, expected.padding_reads, "padding reads, {context}");
    assert_eq!(counts.writes, expected.writes, "writes, {context}");
    assert_eq!(
        (counts.background_writes, counts.checkpoint_writes),
        (expected.background_writes, expected.checkpoint_writes),
        "writes of the server, {context}"
    );
    assert_eq!(counts.dirty_left, expected.dirty_left, "dirty left, {context}");
    assert_eq!(counts.dirty_before, expected.dirty_before, "dirty before, {context}");
    assert_eq!(counts.cluster_switches, expected.cluster_switches, "cluster switches, {context}");
    assert_eq!(facts.distinct_pages, expected.distinct_pages, "distinct pages, {context}");
    let factor = counts.cluster_switches as f64 / facts.cluster_switches as f64;
    assert_eq!(Some(factor), expected.cluster_switch_factor, "cluster switch factor, {context}");
}

/// Changes of cluster among the references, the first counted one included.
fn reference_switches(trace: &[(u64, bool)], cluster_size: u64) -> u64 {
    let changed = |pair: &&[(u64, bool)]| pair[0].0 / cluster_size != pair[1].0 / cluster_size;
    1 + trace.windows(2).filter(changed).count() as u64
}

/// Those of the policies that make checkpoints of their own.
const HAVE_CHECKPOINTS: [&str; 2] = ["postgres:checkpoint_timeout=2,bgwriter_lru_maxpages=3,bulkread=2", "sqlite:commit=100"];

/// The positions before which one of the intervals has passed since the one before.
fn checkpoint_positions(trace: &[(u64, bool)], requests: &[(u64, u32)], intervals: CheckpointIntervals) -> Vec<usize> {
    let mut positions = Vec::new();
    let (mut last, mut last_us) = (0, requests.first().map_or(0, |request| request.0));
    for position in 1..trace.len() {
        let writes = trace[last..position].iter().filter(|it| it.1).count();
        let passed = |interval: Option<NonZeroU64>, count: u64| interval.is_some_and(|interval| count >= interval.get());
        let now_us = requests.get(position).map_or(0, |request| request.0);
        let by_time = passed(intervals.micros, now_us - last_us);
        let by_count = passed(intervals.references, (position - last) as u64) || passed(intervals.writes, writes as u64);
        if by_time || by_count {
            positions.push(position);
            last = position;
            last_us = match intervals.micros {
                // One after the other, until the next would be in the future.
                Some(interval) if by_time => last_us + (now_us - last_us) / interval.get() * interval.get(),
                _ => now_us,
            };
        }
    }
    positions
}

/// Simulates all policies over all sizes in one pass, and compares each with its model.
fn check(trace: &[(u64, bool)], name: &str, options: &SimOptions, asymmetry: f64) {
    check_with(trace, &Operations::default(), name, options, asymmetry);
}

fn check_with(trace: &[(u64, bool)], operations: &Operations, name: &str, options: &SimOptions, asymmetry: f64) {
    let (_directory, source) = file_with(trace, operations, name);
    let mut cells = Vec::new();
    let mut configurations = Vec::new();
    for &spec in SPECS {
        for &frames in SIZES {
            cells.push(cell(spec, frames, asymmetry));
            configurations.push((spec, frames));
        }
    }
    let classes: Vec<u32> = match name.ends_with(".parquet") {
        true => trace.iter().map(|reference| class_of(reference.0)).collect(),
        false => Vec::new(),
    };
    let requests: Vec<(u64, u32)> = match name.ends_with(".parquet") {
        true => (0..trace.len()).map(request_of).map(|request| (request.time_us, request.bypass)).collect(),
        false => Vec::new(),
    };
    let checkpoints = options.checkpoints.map_or_else(Vec::new, |intervals| checkpoint_positions(trace, &requests, intervals));
    let outcome = simulate(&source, &cells, options, &QUIET).expect("a simulation");
    assert_eq!(outcome.facts.references, trace.len() as u64);
    assert_eq!(outcome.facts.cluster_switches, reference_switches(&trace[options.warmup as usize..], options.cluster_size));
    assert_eq!(outcome.counts.len(), cells.len());
    for (counts, (spec, frames)) in outcome.counts.iter().zip(configurations) {
        let counting = (options.warmup as usize, options.at_end == AtEnd::Flush, options.cluster_size);
        let known = ModelTrace {
            references: trace,
            classes: &classes,
            requests: &requests,
            checkpoints: match HAVE_CHECKPOINTS.contains(&spec) {
                true => &[],
                false => &checkpoints,
            },
            whole: &operations.whole,
            trims: &operations.trims,
        };
        let expected = count_with_columns(spec, frames as usize, known, asymmetry, counting);
        let context = format!("{spec}, {frames} frames, {name}, R = {asymmetry}, {options:?}");
        assert_same(counts, &outcome.facts, &expected, &context);
    }
}

/// Both warm-ups, both conventions for the end, both cluster sizes.
fn check_all(seed: u64, pages: u64, asymmetry: f64) {
    let trace = workload(seed, 3000, pages);
    for warmup in [0, 700] {
        for at_end in [AtEnd::Free, AtEnd::Flush] {
            for cluster_size in [16, 4] {
                let options = SimOptions { warmup, at_end, cluster_size, threads: 2, rate: None, checkpoints: None };
                let name = if warmup == 0 { "t.parquet" } else { "t.txt" };
                check(&trace, name, &options, asymmetry);
            }
        }
    }
}

#[test]
fn all_policies_are_compared() {
    let mut specs_by_policy = BTreeMap::new();
    for spec in SPECS {
        let SimCell { policy, .. } = cell(spec, 1, 1.0);
        *specs_by_policy.entry(policy.registered().expect("of the registry").entry().name).or_insert(0) += 1;
    }
    // The model of price-guided has no prices here; bound.rs tests its bill. That of informed has no
    // probabilities; informed.rs compares it.
    let with_model = |entry: &&PolicyEntry| !["price-guided", "informed"].contains(&entry.name);
    for entry in registry::entries().iter().filter(with_model) {
        assert!(specs_by_policy.contains_key(entry.name), "{} is missing", entry.name);
    }
}

#[test]
fn few_pages() {
    check_all(0, 16, 8.0);
}

#[test]
fn cheap_writes() {
    check_all(5, 400, 0.5);
}

/// With checkpoints by references, by references that write, and by time.
#[test]
fn checkpoints() {
    let trace = workload(4, 3000, 160);
    let every = NonZeroU64::new;
    let by_references = CheckpointIntervals { references: every(70), ..CheckpointIntervals::default() };
    let by_both = CheckpointIntervals { writes: every(150), micros: every(210_000), ..CheckpointIntervals::default() };
    for (warmup, at_end) in [(0, AtEnd::Free), (700, AtEnd::Flush), (701, AtEnd::Flush)] {
        for (intervals, name) in [(by_references, "t.txt"), (by_both, "t.parquet")] {
            let options = SimOptions { warmup, at_end, threads: 2, checkpoints: Some(intervals), ..SimOptions::default() };
            check(&trace, name, &options, 8.0);
        }
    }
}

/// With pages that end, and writes that replace all of theirs.
#[test]
fn trims_and_whole_writes() {
    let every = NonZeroU64::new;
    let checkpoints = CheckpointIntervals { references: every(90), ..CheckpointIntervals::default() };
    for (seed, pages) in [(4, 160), (6, 16)] {
        let trace = workload(seed, 3000, pages);
        let operations = operations(&trace, seed);
        assert!(operations.trims.len() > 100 && operations.whole.contains(&true));
        for (warmup, at_end, checkpoints) in [
            (0, AtEnd::Flush, None),
            (700, AtEnd::Flush, None),
            (701, AtEnd::Free, None),
            (702, AtEnd::Flush, Some(checkpoints)),
        ] {
            let name = if warmup % 2 == 0 { "t.parquet" } else { "t.txt" };
            let options = SimOptions { warmup, at_end, threads: 2, checkpoints, ..SimOptions::default() };
            check_with(&trace, &operations, name, &options, 8.0);
        }
    }
}

mod whole {
    use super::*;

    #[test]
    fn more_pages() {
        check_all(1, 160, 8.0);
    }

    #[test]
    fn pages_with_gaps() {
        check_all(2, 200, 2.5);
    }

    #[test]
    fn pages_down_from_the_largest() {
        check_all(3, 150, 32.0);
    }

    /// Chunks are much longer than the traces above.
    #[test]
    fn several_chunks() {
        const CHUNK: u64 = 1 << 18;
        let trace = workload(2, 600_000, 20);
        let (_directory, source) = file(&trace, "t.parquet");
        let specs = ["lru", "belady", "cfdc:cluster=4", "fd-buffer:interval=999"];
        let cells = specs.map(|spec| cell(spec, 5, 8.0));
        for warmup in [0, CHUNK - 1, CHUNK, CHUNK + 1, 599_999] {
            let options = SimOptions { warmup, threads: 2, ..SimOptions::default() };
            let outcome = simulate(&source, &cells, &options, &QUIET).expect("a simulation");
            for (counts, spec) in outcome.counts.iter().zip(specs) {
                let expected = count(spec, 5, &trace, 8.0, warmup as usize, true, 16);
                let context = format!("{spec}, warm-up {warmup}");
                assert_same(counts, &outcome.facts, &expected, &context);
            }
        }
    }
}
