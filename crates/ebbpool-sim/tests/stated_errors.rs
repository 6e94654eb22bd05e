//! The stated errors of sampled bills, checked against runs over all pages.

mod common;

use common::{QUIET, cell};
use ebbpool_policy::registry;
use ebbpool_sim::{AtEnd, CurveOptions, Curves, NoStore, SimOptions, SimPolicy, Warmup, simulate};
use ebbpool_trace::Source;

/// Cells that are drawn; each is a policy with a memory size over a trace with an R and an end.
const CELLS: usize = 200;

/// The samples that ship with Ebbpool, whole or in part, and generators, each with an R.
const TRACES: [(&str, f64); 10] = [
    ("pg-tpcc.parquet", 16.0),
    ("pg-tatp.parquet", 4.0),
    ("pg-tpcb.parquet", 1.0),
    (
        "zipf:pages=60000,refs=400000,read-alpha=0.8,write=0.3,seed=1",
        64.0,
    ),
    (
        "zipf:pages=60000,refs=400000,read-alpha=0.6,write-alpha=1.2,write=0.2,seed=2",
        8.0,
    ),
    (
        "zipf:pages=60000,refs=400000,read-alpha=1.0,write=0.1,shared=true,seed=3",
        1.0,
    ),
    (
        "self-similar:pages=60000,refs=400000,skew=0.75/0.25,write=0.3,seed=4",
        32.0,
    ),
    (
        "scan-mix:pages=60000,refs=400000,scans=20,scan-length=4000,write=0.2,seed=5",
        4.0,
    ),
    ("uniform:pages=60000,refs=400000,write=0.5,seed=6", 16.0),
    ("tatp:subscribers=60000,refs=400000,seed=7", 2.0),
];

/// References of a sample; a run over all of them would take minutes.
const LIMIT: u64 = 500_000;

/// Draws the numbers of a sequence (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    /// A number of frames between 1 % and all of the pages, of which each doubling is as likely.
    fn frames(&mut self, pages: u64) -> u64 {
        let share = 100f64.powf(self.below(1001) as f64 / 1000.0 - 1.0);
        (share * pages as f64) as u64
    }
}

fn source(name: &str) -> Source {
    let name = match name.ends_with(".parquet") {
        true => format!(
            "{}/../ebbpool-trace/traces/{name}",
            env!("CARGO_MANIFEST_DIR")
        ),
        false => name.into(),
    };
    let options = ebbpool_trace::ReadOptions {
        limit: Some(LIMIT),
        ..Default::default()
    };
    Source::parse_with(&name, &options).expect("a trace")
}

/// The policies that a curve may sample.
fn policies() -> Vec<&'static str> {
    let all = registry::entries().iter().map(|entry| entry.name);
    // These need the probabilities or the prices of references.
    all.filter(|name| !["informed", "price-guided"].contains(name))
        .collect()
}

#[test]
fn nine_of_ten_bills_are_within_their_stated_errors() {
    let policies = policies();
    let mut draws = Draws(2026);
    let (mut drawn, mut within) = (0, 0);
    let mut outside = Vec::new();
    for (at, (name, asymmetry)) in TRACES.into_iter().enumerate() {
        let source = source(name);
        let options = SimOptions {
            at_end: if at % 2 == 0 {
                AtEnd::Flush
            } else {
                AtEnd::Free
            },
            threads: 2,
            ..SimOptions::default()
        };
        let curve_options = CurveOptions {
            warmup: Warmup::References(0),
            options: options.clone(),
            asymmetry,
            sample: None,
        };
        let mut curves = Curves::new(&source, &NoStore, &curve_options, &QUIET).expect("curves");
        let pages = curves.facts().distinct_pages;
        let mut cells = Vec::new();
        let mut estimates = Vec::new();
        while cells.len() < CELLS / TRACES.len() {
            let policy = policies[draws.below(policies.len())];
            let frames = draws.frames(pages);
            let cell = cell(policy, frames, asymmetry);
            let spec = SimPolicy::from(cell.policy.clone());
            let found = curves.at(&[(&spec, frames)], &QUIET).expect("an estimate");
            if !found[0].sample.is_all() {
                cells.push(cell);
                estimates.push(found[0]);
            }
        }
        let exact = simulate(&source, &cells, &options, &QUIET)
            .expect("runs")
            .counts;
        for ((cell, found), exact) in cells.iter().zip(&estimates).zip(exact) {
            let bill = |reads: u64, writes: u64| reads as f64 + asymmetry * writes as f64;
            let truth = bill(exact.misses, exact.writes);
            let off = bill(found.traffic.reads, found.traffic.writes) / truth - 1.0;
            let stated = found
                .errors
                .and_then(|errors| errors.cost)
                .expect("an error");
            drawn += 1;
            // An error is a share of the estimate.
            let is_within = off.abs() <= stated * (1.0 + off);
            within += usize::from(is_within);
            if !is_within {
                outside.push(format!(
                    "{}, {} frames, {name}: off by {:+.2} %, stated {:.2} %",
                    cell.policy,
                    cell.frames,
                    100.0 * off,
                    100.0 * stated
                ));
            }
        }
    }
    assert_eq!(drawn, CELLS);
    println!(
        "{within} of {drawn} within; outside:\n{}",
        outside.join("\n")
    );
    assert!(
        10 * within >= 9 * drawn,
        "{within} of {drawn} within; outside:\n{}",
        outside.join("\n")
    );
}
