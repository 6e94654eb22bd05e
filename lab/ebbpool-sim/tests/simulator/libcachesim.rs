//! Compares the policies that libCacheSim has too with its miss counts, on traces with scans, loops
//! and changes of the hot pages. `lab/libcachesim/goldens.py` computes the counts anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ebbpool_sim::{PassControl, SimCell, SimOptions, simulate};
use ebbpool_trace::{ReadOptions, Source};

/// Policies with exactly the same counts.
const EXACT: &[&str] = &["fifo", "lru", "clock", "gclock", "s3-fifo", "sieve", "belady"];

/// The largest difference of other policies, as a share of the misses.
const NEAR: f64 = 0.02;

/// Policies that differ more, with the trace and the difference; their documentation explains why.
const EXPLAINED: &[(&str, &str, f64)] =
    &[("w-tinylfu", "loops", 0.09), ("w-tinylfu", "phases", 0.13), ("w-tinylfu", "mixed", 0.18)];

/// Policies that must be among those compared.
const AT_LEAST: &[&str] = &["fifo", "lru", "clock", "lirs", "s3-fifo", "sieve", "w-tinylfu", "belady"];

/// The range of misses that agree with libCacheSim's.
fn agreeing(policy: &str, trace: &str, misses: u64) -> RangeInclusive<u64> {
    let explained = EXPLAINED.iter().find(|(name, on, _)| (*name, *on) == (policy, trace));
    let share = match explained {
        Some((_, _, share)) => *share,
        None if EXACT.contains(&policy) => 0.0,
        None => NEAR,
    };
    let most = (misses as f64 * share) as u64;
    misses - most..=misses + most
}

struct Golden {
    policy: String,
    frames: u64,
    references: u64,
    misses: u64,
}

fn lines(name: &str) -> Vec<String> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../libcachesim");
    let text = fs::read_to_string(directory.join(name)).expect("a file of this repository");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The traces by name.
fn traces() -> Vec<(String, Source)> {
    let source = |line: &String| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let name = words.next().expect("a name");
        let parts: Vec<String> = words.collect();
        let source = Source::concat(&parts, &ReadOptions::default()).expect("generators");
        (name, source)
    };
    lines("traces.txt").iter().map(source).collect()
}

/// libCacheSim's counts by trace.
fn goldens() -> BTreeMap<String, Vec<Golden>> {
    let mut goldens: BTreeMap<String, Vec<Golden>> = BTreeMap::new();
    for line in lines("goldens.tsv").iter().skip(1) {
        let [trace, policy, frames, references, misses] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("five columns: {line}");
        };
        let number = |text: &str| text.parse().expect("a number");
        goldens.entry(trace.to_owned()).or_default().push(Golden {
            policy: policy.to_owned(),
            frames: number(frames),
            references: number(references),
            misses: number(misses),
        });
    }
    goldens
}

/// A cell per golden whose policy exists.
fn cells(goldens: &[Golden]) -> Vec<(&Golden, SimCell)> {
    let cell = |golden: &Golden| Some(SimCell { policy: golden.policy.parse().ok()?, frames: golden.frames, asymmetry: 1.0 });
    goldens.iter().filter_map(|golden| Some((golden, cell(golden)?))).collect()
}

#[test]
fn misses_agree_with_libcachesim() {
    static NEVER_STOP: AtomicBool = AtomicBool::new(false);
    let quiet = PassControl { report: &|_| {}, stop: &NEVER_STOP };
    let goldens = goldens();
    let mut differing = Vec::new();
    let mut compared = BTreeSet::new();
    for (trace, source) in traces() {
        let (goldens, cells): (Vec<&Golden>, Vec<SimCell>) = cells(&goldens[&trace]).into_iter().unzip();
        let outcome = simulate(&source, &cells, &SimOptions::default(), &quiet);
        let counts = outcome.expect("a simulation").counts;
        for ((golden, cell), ours) in goldens.into_iter().zip(cells).zip(counts) {
            assert_eq!(ours.references, golden.references, "{trace}");
            let name = cell.policy.registered().expect("of the registry").entry().name;
            compared.insert(name);
            let (ours, theirs) = (ours.misses, golden.misses);
            if !agreeing(name, &trace, theirs).contains(&ours) {
                let more = (ours as f64 / theirs as f64 - 1.0) * 100.0;
                let Golden { policy, frames, .. } = golden;
                differing.push(format!("{policy}, {frames} frames, {trace}: {ours} misses, {more:+.2} % of {theirs}"));
            }
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
    for policy in AT_LEAST {
        assert!(compared.contains(policy), "{policy} is not compared");
    }
}

/// On a stationary trace many policies miss alike, and comparing counts proves little.
#[test]
fn all_policies_have_different_misses_on_the_traces() {
    let mut misses: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for golden in goldens().into_values().flatten() {
        misses.entry(golden.policy).or_default().push(golden.misses);
    }
    let different: BTreeSet<_> = misses.values().collect();
    assert_eq!(different.len(), misses.len(), "{misses:?}");
}
