//! The simulator against the model's own: the same counts of every policy on the same traces.

mod common;

use std::collections::BTreeMap;

use common::{QUIET, SPECS, cell, file};
use ebbpool_model::workload::workload;
use ebbpool_model::{Counts as ModelCounts, count};
use ebbpool_policy::{Entry, registry};
use ebbpool_sim::{AtEnd, Cell, Counts, Options, TraceFacts, simulate};

const SIZES: &[u64] = &[1, 7, 64];

fn assert_same(counts: &Counts, facts: &TraceFacts, expected: &ModelCounts, what: &str) {
    assert_eq!(counts.references, expected.references, "references, {what}");
    assert_eq!(counts.hits(), expected.hits, "hits, {what}");
    assert_eq!(counts.misses, expected.misses, "misses, {what}");
    assert_eq!(counts.misses, expected.reads, "reads, {what}");
    assert_eq!(
        counts.padding_reads, expected.padding_reads,
        "padding reads, {what}"
    );
    assert_eq!(counts.writes, expected.writes, "writes, {what}");
    assert_eq!(counts.dirty_left, expected.dirty_left, "dirty left, {what}");
    assert_eq!(
        counts.cluster_switches, expected.cluster_switches,
        "cluster switches, {what}"
    );
    assert_eq!(
        facts.distinct_pages, expected.distinct_pages,
        "distinct pages, {what}"
    );
    let factor = counts.cluster_switches as f64 / facts.cluster_switches as f64;
    assert_eq!(
        Some(factor),
        expected.cluster_switch_factor,
        "cluster switch factor, {what}"
    );
}

/// Changes of cluster among the references, the first counted one included.
fn reference_switches(trace: &[(u64, bool)], cluster_size: u64) -> u64 {
    let changed = |pair: &&[(u64, bool)]| pair[0].0 / cluster_size != pair[1].0 / cluster_size;
    1 + trace.windows(2).filter(changed).count() as u64
}

/// All policies over all sizes in one pass, against the model one by one.
fn check(trace: &[(u64, bool)], name: &str, options: &Options, asymmetry: f64) {
    let (_directory, source) = file(trace, name);
    let mut cells = Vec::new();
    let mut places = Vec::new();
    for &spec in SPECS {
        for &frames in SIZES {
            cells.push(cell(spec, frames, asymmetry));
            places.push((spec, frames));
        }
    }
    let outcome = simulate(&source, &cells, options, &QUIET).expect("a simulation");
    assert_eq!(outcome.facts.references, trace.len() as u64);
    assert_eq!(
        outcome.facts.cluster_switches,
        reference_switches(&trace[options.warmup as usize..], options.cluster_size)
    );
    assert_eq!(outcome.counts.len(), cells.len());
    for (counts, (spec, frames)) in outcome.counts.iter().zip(places) {
        let expected = count(
            spec,
            frames as usize,
            trace,
            asymmetry,
            options.warmup as usize,
            options.at_end == AtEnd::Flush,
            options.cluster_size,
        );
        let what = format!("{spec}, {frames} frames, {name}, R = {asymmetry}, {options:?}");
        assert_same(counts, &outcome.facts, &expected, &what);
    }
}

/// Both warm-ups, both conventions for the end, both cluster sizes.
fn check_all(seed: u64, pages: u64, asymmetry: f64) {
    let trace = workload(seed, 3000, pages);
    for warmup in [0, 700] {
        for at_end in [AtEnd::Free, AtEnd::Flush] {
            for cluster_size in [16, 4] {
                let options = Options {
                    warmup,
                    at_end,
                    cluster_size,
                    threads: 2,
                    rate: None,
                };
                let name = if warmup == 0 { "t.parquet" } else { "t.txt" };
                check(&trace, name, &options, asymmetry);
            }
        }
    }
}

#[test]
fn all_policies_are_here() {
    let mut seen = BTreeMap::new();
    for spec in SPECS {
        let Cell { policy, .. } = cell(spec, 1, 1.0);
        *seen.entry(policy.entry().name).or_insert(0) += 1;
    }
    // The model of price-guided knows no prices; tests/bound.rs tells what it costs.
    let with_model = |entry: &&Entry| entry.name != "price-guided";
    for entry in registry::entries().iter().filter(with_model) {
        assert!(seen.contains_key(entry.name), "{} is missing", entry.name);
    }
}

#[test]
fn few_pages() {
    check_all(0, 16, 8.0);
}

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

#[test]
fn cheap_writes() {
    check_all(5, 400, 0.5);
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
        let options = Options {
            warmup,
            threads: 2,
            ..Options::default()
        };
        let outcome = simulate(&source, &cells, &options, &QUIET).expect("a simulation");
        for (counts, spec) in outcome.counts.iter().zip(specs) {
            let expected = count(spec, 5, &trace, 8.0, warmup as usize, false, 16);
            let what = format!("{spec}, warm-up {warmup}");
            assert_same(counts, &outcome.facts, &expected, &what);
        }
    }
}
