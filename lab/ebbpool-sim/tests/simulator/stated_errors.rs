//! How often the errors that curves state cover the truth, over cells drawn with fixed seeds.
//!
//! A cell is a policy with a number of frames on a trace: a recorded sample or a generator, with an asymmetry, a warm-up
//! and an end, all drawn. Its truth is the simulation over all pages.
//!
//! ```text
//! cargo test -p ebbpool-sim --test simulator stated_errors::table -- --ignored --nocapture
//! ```
//!
//! prints the table that docs/curves.md sums up; the variable EBBPOOL_SEEDS is the number of traces drawn, each of which has two
//! sizes of every policy.

#[allow(dead_code, reason = "the traces and the list of specifications are for the other tests")]
use std::env;

use crate::common::{QUIET, cell};
use ebbpool_policy::{Capabilities, PolicySpec, registry};
use ebbpool_sim::{
    AtEnd, Counts, CurveOptions, Curves, Estimate, FEWEST_FRAMES, NoStore, SimOptions, SimPolicy, Warmup, simulate,
};
use ebbpool_trace::{ReadOptions, Source, samples};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The share of cells that a stated error has to cover.
const LEAST_COVERED: f64 = 0.9;

/// The share of one policy's cells that its stated errors have to cover: less than that of all cells, since a policy has few.
const LEAST_COVERED_OF_A_POLICY: f64 = 0.75;

/// The largest mean of a policy's deviations, in stated errors, with their signs. Where nothing pulls to one side the
/// deviations cancel out; a policy beyond this is off on one side by more than half of what `curve` states.
const LARGEST_MEAN_DEVIATION: f64 = 0.5;

/// What errors are stated of.
const FIGURES: [&str; 3] = ["bill", "reads", "writes"];

/// The references of a trace.
const REFERENCES: u64 = 200_000;

/// The recorded samples and the generators that cells are drawn from. S stands for a seed.
const TRACES: &[&str] = &[
    "pg-tpcc",
    "pg-tpcb",
    "pg-tatp",
    "zipf:pages=60000,read-alpha=0.9,write-alpha=1.1,write=0.3,refs=N,seed=S",
    "uniform:pages=30000,write=0.4,refs=N,seed=S",
    "self-similar:pages=60000,skew=0.8/0.2,write=0.3,refs=N,seed=S",
    "scan-mix:pages=60000,scans=40,write=0.3,refs=N,seed=S",
    "tpcc:warehouses=4,refs=N,seed=S",
    "tpcb:scale=20,refs=N,seed=S",
    "tatp:subscribers=100000,refs=N,seed=S",
];

/// Everything but policies and sizes.
#[derive(Clone, Debug)]
struct Draw {
    trace: usize,
    seed: u64,
    asymmetry: f64,
    warmup: u64,
    at_end: AtEnd,
    /// The share of the pages to sample.
    sample: f64,
    /// Places between the smallest size that is sampled and half of the pages, from 0 to 1.
    places: Vec<f64>,
    /// Which policies.
    policies: Vec<prop::sample::Index>,
}

/// Draws traces, with a number of cells for each.
fn draws(seed: u8, traces: usize, cells: usize) -> Vec<Draw> {
    let draw = (
        0..TRACES.len(),
        1..1000u64,
        prop::sample::select(vec![1.0, 4.0, 32.0, 128.0]),
        prop::sample::select(vec![0, REFERENCES * 3 / 10]),
        prop::sample::select(vec![AtEnd::Flush, AtEnd::Free]),
        prop::sample::select(vec![0.05, 0.1, 0.2]),
        prop::collection::vec(0.0..1.0, cells),
        prop::collection::vec(any::<prop::sample::Index>(), cells),
    );
    let draw = draw.prop_map(|(trace, seed, asymmetry, warmup, at_end, sample, places, policies)| Draw {
        trace,
        seed,
        asymmetry,
        warmup,
        at_end,
        sample,
        places,
        policies,
    });
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let draws = prop::collection::vec(draw, traces).new_tree(&mut runner);
    draws.expect("draws").current()
}

impl Draw {
    fn source(&self) -> Source {
        let of_sample = |name, bytes| {
            let options = ReadOptions { skip: self.seed * 100, limit: Some(REFERENCES), ..ReadOptions::default() };
            Source::embedded(name, bytes, &options)
        };
        match TRACES[self.trace] {
            "pg-tpcc" => of_sample("pg-tpcc", samples::PG_TPCC),
            "pg-tpcb" => of_sample("pg-tpcb", samples::PG_TPCB),
            "pg-tatp" => of_sample("pg-tatp", samples::PG_TATP),
            generator => {
                let generator = generator.replace("refs=N", &format!("refs={REFERENCES}"));
                let generator = generator.replace("seed=S", &format!("seed={}", self.seed));
                Source::parse(&generator, None).expect("a generator")
            }
        }
    }

    /// The results of those cells that are sampled. With `forced`, policies without a miniature are sampled too.
    fn cells(&self, forced: bool, requests: impl Fn(u64) -> Vec<(PolicySpec, u64)>) -> Vec<SampledCell> {
        let source = self.source();
        let options = SimOptions { warmup: self.warmup, at_end: self.at_end, threads: 2, ..SimOptions::default() };
        let curve_options = CurveOptions {
            warmup: Warmup::References(self.warmup),
            options: options.clone(),
            asymmetry: self.asymmetry,
            sample: Some(self.sample),
        };
        let mut curves = Curves::new(&source, &NoStore, &curve_options, &QUIET).expect("curves of a trace");
        let mut requests = requests(curves.lru().distinct_pages());
        if !source.knows_page_probabilities() {
            requests.retain(|(policy, _)| !policy.capabilities().contains(Capabilities::PROBABILITIES));
        }
        let policies: Vec<(SimPolicy, u64)> =
            requests.iter().map(|(policy, frames)| (policy.clone().into(), *frames)).collect();
        let asked: Vec<(&SimPolicy, u64)> = policies.iter().map(|(policy, frames)| (policy, *frames)).collect();
        let estimates = match forced {
            true => curves.sample(&asked, &QUIET),
            false => curves.estimates_at(&asked, &QUIET),
        };
        let estimates = estimates.expect("estimates");
        let sampled = requests.into_iter().zip(estimates).filter(|(_, estimate)| !estimate.sample.is_all());
        let sampled: Vec<_> = sampled.collect();
        let cells: Vec<_> =
            sampled.iter().map(|((policy, frames), _)| cell(&policy.to_string(), *frames, self.asymmetry)).collect();
        let outcome = simulate(&source, &cells, &options, &QUIET).expect("a simulation");
        let exact = sampled.iter().zip(outcome.counts);
        exact
            .map(|(((policy, frames), estimate), counts)| SampledCell {
                policy: policy.entry().name,
                cell: format!("{policy} with {frames} on {self:?}"),
                deviations: deviations(estimate, &counts, self.asymmetry),
            })
            .collect()
    }
}

/// A sampled cell.
struct SampledCell {
    policy: &'static str,
    cell: String,
    /// The deviations of bill, reads and writes from the truth, in stated errors; `None` where nothing is stated because
    /// the figure is 0.
    deviations: [Option<f64>; 3],
}

/// A line for each cell.
fn listed<'a>(cells: impl Iterator<Item = &'a SampledCell>) -> String {
    let line = |one: &SampledCell| format!("\n{}: {:?}", one.cell, one.deviations);
    cells.map(line).collect()
}

fn deviations(estimate: &Estimate, exact: &Counts, asymmetry: f64) -> [Option<f64>; 3] {
    let errors = estimate.errors.expect("errors of a sample");
    let traffic = estimate.traffic;
    let bill = |reads: u64, writes: u64| reads as f64 + asymmetry * writes as f64;
    let figures = [
        (errors.cost, bill(traffic.reads, traffic.writes), bill(exact.misses, exact.writes)),
        (errors.reads, traffic.reads as f64, exact.misses as f64),
        (errors.writes, traffic.writes as f64, exact.writes as f64),
    ];
    // An error is a share of the estimate.
    figures.map(|(error, estimate, exact)| error.map(|error| (estimate - exact) / (error * estimate)))
}

/// How the deviations of one figure are spread.
struct Spread {
    cells: usize,
    covered: usize,
    /// The mean deviation, in stated errors.
    mean: f64,
}

impl Spread {
    fn of<'a>(results: impl IntoIterator<Item = &'a SampledCell>, figure: usize) -> Self {
        let deviations = results.into_iter().filter_map(|result| result.deviations[figure]);
        let deviations: Vec<f64> = deviations.collect();
        Spread {
            cells: deviations.len(),
            covered: deviations.iter().filter(|off| off.abs() <= 1.0).count(),
            mean: deviations.iter().sum::<f64>() / deviations.len() as f64,
        }
    }

    fn share(&self) -> f64 {
        self.covered as f64 / self.cells as f64
    }
}

/// Every policy of the registry, LRU with write clusters, since without them its figures are exact.
fn policies() -> Vec<PolicySpec> {
    let clustered = "lru:cluster=16".parse().expect("a policy");
    let all = registry::entries().iter().map(PolicySpec::from_entry);
    all.map(|policy| match policy.entry().name {
        "lru" => PolicySpec::clone(&clustered),
        _ => policy,
    })
    .collect()
}

/// The frames at a place between the smallest size at which `curve` samples the policy and half of the pages, evenly
/// over the logarithms; `None` where the smallest is larger than that.
fn frames(policy: &PolicySpec, place: f64, pages: u64) -> Option<u64> {
    // Four parts, each of at most an eighth of the pages, and more frames for a policy that treats pages in blocks.
    let smallest = 8 * FEWEST_FRAMES * policy.grain().isqrt();
    let times = (pages / 2) as f64 / smallest as f64;
    (times >= 1.0).then(|| (smallest as f64 * times.powf(place)).ceil() as u64)
}

/// The policies that `curve` samples.
fn sampled_policies() -> Vec<PolicySpec> {
    let policies = policies().into_iter();
    policies.filter(PolicySpec::has_miniature).collect()
}

#[test]
#[ignore = "prints the table that docs/curves.md sums up"]
fn table() {
    let seeds = env::var("EBBPOOL_SEEDS").ok();
    let traces = seeds.map_or(40, |seeds| seeds.parse().expect("a number of traces"));
    let policies = policies();
    let mut results = Vec::new();
    for draw in draws(1, traces, 2) {
        results.extend(draw.cells(true, |pages| {
            let at_place = |policy: &PolicySpec, &place: &f64| Some((policy.clone(), frames(policy, place, pages)?));
            let of_policy = |policy| draw.places.iter().filter_map(move |place| at_place(policy, place));
            policies.iter().flat_map(of_policy).collect()
        }));
    }
    println!("| policy | runs on | cells | bill | reads | writes | bill is off | reads are off | writes are off |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for policy in policies {
        let name = policy.entry().name;
        let of_policy: Vec<&SampledCell> = results.iter().filter(|one| one.policy == name).collect();
        let spreads = [0, 1, 2].map(|figure| Spread::of(of_policy.iter().copied(), figure));
        let runs_on = match policy.has_miniature() {
            true => "samples",
            false => "all pages",
        };
        let cells = spreads[0].cells;
        let shares = spreads.each_ref().map(|one| format!("{:.0} %", 100.0 * one.share()));
        let means = spreads.each_ref().map(|one| format!("{:+.1}", one.mean));
        let (shares, means) = (shares.join(" | "), means.join(" | "));
        println!("| `{policy}` | {runs_on} | {cells} | {shares} | {means} |");
    }
}

mod whole {
    use super::*;

    #[test]
    fn no_policy_is_off_on_one_side() {
        let policies = sampled_policies();
        let mut results: Vec<SampledCell> = Vec::new();
        let draws = draws(3, TRACES.len(), 1).into_iter().enumerate();
        for draw in draws.map(|(trace, draw)| Draw { trace, ..draw }) {
            results.extend(draw.cells(false, |pages| {
                let at_place = |policy: &PolicySpec| {
                    let frames = frames(policy, draw.places[0], pages)?;
                    Some((policy.clone(), frames))
                };
                policies.iter().filter_map(at_place).collect()
            }));
        }
        for policy in &policies {
            let of_policy = || results.iter().filter(|one| one.policy == policy.entry().name);
            assert!(of_policy().count() >= 3, "{policy}");
            for (figure, name) in FIGURES.into_iter().enumerate() {
                let spread = Spread::of(of_policy(), figure);
                let fits = spread.share() >= LEAST_COVERED_OF_A_POLICY && spread.mean.abs() <= LARGEST_MEAN_DEVIATION;
                assert!(
                    fits,
                    "{name} of {policy}: {} of {} are within the stated error, and their mean deviation is {:+.2} of it:{}",
                    spread.covered,
                    spread.cells,
                    spread.mean,
                    listed(of_policy())
                );
            }
        }
    }

    #[test]
    fn stated_errors_cover_the_truth_in_nine_of_ten_cells() {
        let policies = sampled_policies();
        let mut results: Vec<SampledCell> = Vec::new();
        for draw in draws(2, 40, 8) {
            results.extend(draw.cells(false, |pages| {
                let cells = draw.policies.iter().zip(&draw.places);
                let at_place = |(policy, &place): (&prop::sample::Index, &f64)| {
                    let policy = policy.get(&policies);
                    Some((policy.clone(), frames(policy, place, pages)?))
                };
                let remaining = 200 - results.len();
                cells.filter_map(at_place).take(remaining).collect()
            }));
            if results.len() == 200 {
                break;
            }
        }
        assert_eq!(results.len(), 200);
        for (figure, name) in FIGURES.into_iter().enumerate() {
            let spread = Spread::of(&results, figure);
            println!("{name}: {} of {}", spread.covered, spread.cells);
            let beyond = results.iter().filter(|one| {
                let off = one.deviations[figure];
                off.is_some_and(|off| off.abs() > 1.0)
            });
            assert!(
                spread.share() >= LEAST_COVERED,
                "{name}: {} of {} are within the stated error; the others:{}",
                spread.covered,
                spread.cells,
                listed(beyond)
            );
        }
    }
}
