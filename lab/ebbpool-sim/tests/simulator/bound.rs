//! Compares the offline lower bound with the exact optimum, the linear program, and every policy.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::common::{Operations, QUIET, SPECS, cell, file, file_with, operations};
use ebbpool_model::workload::{RandomWorkload, workload};
use ebbpool_sim::bound::{Bound, BoundQuestion, RecordedTrace, solve};
use ebbpool_sim::{AtEnd, PassControl, SimOptions, simulate};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

type Trace = Vec<(u64, bool)>;

const AT_ENDS: [AtEnd; 2] = [AtEnd::Free, AtEnd::Flush];

fn bound(trace: &[(u64, bool)], frames: u64, asymmetry: f64, at_end: AtEnd) -> Bound {
    let recorded: RecordedTrace = trace.iter().copied().collect();
    let question = BoundQuestion { frames, asymmetry, at_end, warmup: 0 };
    solve(&recorded, &question, &QUIET)
}

/// The bound of a trace with operations.
fn bound_with(trace: &[(u64, bool)], operations: &Operations, frames: u64, asymmetry: f64, at_end: AtEnd) -> Bound {
    let (_directory, source) = file_with(trace, operations, "t.txt");
    let recorded = RecordedTrace::read(&source, &QUIET).expect("a trace");
    let question = BoundQuestion { frames, asymmetry, at_end, warmup: 0 };
    solve(&recorded, &question, &QUIET)
}

/// The least bill, by trying every victim: the cheapest way to each content of the buffer.
fn optimum(trace: &[(u64, bool)], operations: &Operations, frames: usize, asymmetry: f64, at_end: AtEnd) -> f64 {
    let mut states: BTreeMap<Vec<(u64, bool)>, f64> = BTreeMap::from([(Vec::new(), 0.0)]);
    // Pages that end leave every buffer.
    let end = |states: BTreeMap<Vec<(u64, bool)>, f64>, at: usize| {
        let ended = |page: u64| operations.trims.iter().any(|(it, first, last)| *it == at && (*first..=*last).contains(&page));
        let mut after: BTreeMap<Vec<(u64, bool)>, f64> = BTreeMap::new();
        for (mut buffer, bill) in states {
            buffer.retain(|(page, _)| !ended(*page));
            let best = after.entry(buffer).or_insert(bill);
            *best = best.min(bill);
        }
        after
    };
    for (at, &(page, write)) in trace.iter().enumerate() {
        states = end(states, at);
        let read = if operations.whole.get(at) == Some(&true) { 0.0 } else { 1.0 };
        let mut after: BTreeMap<Vec<(u64, bool)>, f64> = BTreeMap::new();
        let mut reach = |mut buffer: Vec<(u64, bool)>, bill: f64| {
            buffer.sort_unstable();
            let best = after.entry(buffer).or_insert(bill);
            *best = best.min(bill);
        };
        for (buffer, bill) in states {
            if let Some(at) = buffer.iter().position(|&(other, _)| other == page) {
                let mut buffer = buffer.clone();
                buffer[at].1 |= write;
                reach(buffer, bill);
            } else if buffer.len() < frames {
                let mut buffer = buffer.clone();
                buffer.push((page, write));
                reach(buffer, bill + read);
            } else {
                for victim in 0..frames {
                    let mut buffer = buffer.clone();
                    let (_, dirty) = std::mem::replace(&mut buffer[victim], (page, write));
                    let written = if dirty { asymmetry } else { 0.0 };
                    reach(buffer, bill + read + written);
                }
            }
        }
        states = after;
    }
    states = end(states, trace.len());
    let left = |buffer: &[(u64, bool)]| match at_end {
        AtEnd::Free => 0.0,
        AtEnd::Flush => asymmetry * buffer.iter().filter(|(_, dirty)| *dirty).count() as f64,
    };
    let bills = states.iter().map(|(buffer, bill)| bill + left(buffer));
    bills.fold(f64::INFINITY, f64::min)
}

/// The linear program: each interval between references held or not, each write saved or not.
fn linear_program(trace: &[(u64, bool)], frames: u64, asymmetry: f64, at_end: AtEnd) -> f64 {
    let mut program = Problem::new(OptimizationDirection::Minimize);
    let mut requesting: Vec<Vec<Variable>> = vec![Vec::new(); trace.len()];
    let writes = trace.iter().filter(|(_, write)| *write).count();
    let mut dearest = trace.len() as f64 + asymmetry * writes as f64;
    // Held intervals since the page's last write, if there was one.
    let mut since: BTreeMap<u64, Option<Vec<Variable>>> = BTreeMap::new();
    let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
    let save_write = |program: &mut Problem, intervals: &[Variable]| {
        let saved = program.add_var(-asymmetry, (0.0, 1.0));
        for &interval in intervals {
            program.add_constraint([(saved, 1.0), (interval, -1.0)], ComparisonOp::Le, 0.0);
        }
    };
    let mut hold = |program: &mut Problem, from: usize, to: usize, saves: f64| {
        let held = program.add_var(-saves, (0.0, 1.0));
        requesting[from + 1..to].iter_mut().for_each(|row| row.push(held));
        held
    };
    for (position, &(page, write)) in trace.iter().enumerate() {
        let intervals = since.entry(page).or_default();
        if let Some(before) = latest.insert(page, position) {
            let held = hold(&mut program, before, position, 1.0);
            if let Some(intervals) = intervals {
                intervals.push(held);
            }
        }
        if write {
            if let Some(intervals) = intervals {
                save_write(&mut program, intervals);
            }
            *intervals = Some(Vec::new());
        }
    }
    if at_end == AtEnd::Free {
        for (page, intervals) in &mut since {
            if let Some(intervals) = intervals {
                intervals.push(hold(&mut program, latest[page], trace.len(), 0.0));
                save_write(&mut program, intervals);
            }
        }
    }
    for row in requesting.iter().filter(|row| !row.is_empty()) {
        let row: Vec<_> = row.iter().map(|&held| (held, 1.0)).collect();
        program.add_constraint(row, ComparisonOp::Le, (frames - 1) as f64);
    }
    dearest += program.solve().expect("a solution").objective();
    dearest
}

/// References to few pages, some of them far more often than others.
fn tiny(seed: u64) -> (Trace, u64, f64) {
    let mut random = RandomWorkload::new(seed);
    let length = 1 + random.below(18);
    let pages = 2 + random.below(4);
    let reference = |random: &mut RandomWorkload| (random.below_skewed(pages), random.chance(40));
    let trace = (0..length).map(|_| reference(&mut random)).collect();
    let frames = 1 + random.below(pages.min(3));
    let asymmetry = [0.0, 0.5, 1.0, 2.0, 8.0, 32.0][random.below(6) as usize];
    (trace, frames, asymmetry)
}

#[test]
fn tiny_traces_against_every_possible_schedule() {
    let (mut cases, mut exact, mut gaps, mut excess) = (0, 0, 0.0, 0.0);
    for seed in 0..600 {
        let (trace, frames, asymmetry) = tiny(seed);
        let operations = if seed < 400 { Operations::default() } else { operations(&trace, seed) };
        for at_end in AT_ENDS {
            let optimum = optimum(&trace, &operations, frames as usize, asymmetry, at_end);
            let bound = bound_with(&trace, &operations, frames, asymmetry, at_end);
            let Operations { whole, trims } = &operations;
            let context = format!("{trace:?}, {whole:?}, {trims:?}, {frames} frames, R = {asymmetry}, {at_end:?}");
            let heuristic = bound.heuristic.expect("a schedule");
            assert!(bound.lower_bound <= optimum, "{context}: {bound:?}");
            assert!(heuristic >= optimum, "{context}: {bound:?}");
            let gap = if optimum > 0.0 { 1.0 - bound.lower_bound / optimum } else { 0.0 };
            // For R = 0 the linear program has the optimum.
            assert!(asymmetry > 0.0 || gap < 0.01, "{context}: {bound:?}");
            cases += 1;
            exact += usize::from(gap < 0.005);
            gaps += gap;
            excess += if optimum > 0.0 { heuristic / optimum - 1.0 } else { heuristic };
        }
    }
    assert!(exact * 100 >= cases * 95, "{exact} of {cases} bounds are exact");
    assert!(excess / (cases as f64) < 0.01, "schedules cost {excess} more in {cases}");
    assert!(gaps / (cases as f64) < 0.005, "gaps of {gaps} in {cases}");
}

#[test]
fn small_traces_against_the_linear_program() {
    for seed in 0..12 {
        let trace = workload(seed, 400, 30);
        let asymmetry = [0.0, 1.0, 4.0, 32.0][seed as usize % 4];
        let frames = 2 + seed;
        for at_end in AT_ENDS {
            let program = linear_program(&trace, frames, asymmetry, at_end);
            let bound = bound(&trace, frames, asymmetry, at_end).lower_bound;
            let context = format!("seed {seed}, R = {asymmetry}, {at_end:?}");
            assert!(bound <= program + 1e-6, "{context}: {bound} above {program}");
            assert!(bound >= 0.9985 * program, "{context}: {bound} below {program}");
        }
    }
}

#[test]
fn enough_frames_for_all_pages_leave_no_gap() {
    let trace = workload(2, 2000, 60);
    let distinct = trace.iter().map(|(page, _)| page).collect::<std::collections::BTreeSet<_>>();
    let bound = bound(&trace, 1000, 32.0, AtEnd::Free);
    assert_eq!(bound.lower_bound, distinct.len() as f64);
    assert_eq!(bound.heuristic, Some(bound.lower_bound));
}

#[test]
fn the_same_question_has_the_same_answer() {
    let trace = workload(5, 3000, 150);
    let [one, other] = [(); 2].map(|()| bound(&trace, 20, 8.0, AtEnd::Free));
    assert_eq!(one.lower_bound, other.lower_bound);
    assert_eq!(one.heuristic, other.heuristic);
    assert_eq!(one.prices, other.prices);
}

#[test]
fn an_interrupted_bound_is_still_valid() {
    let trace = workload(1, 3000, 150);
    let recorded: RecordedTrace = trace.iter().copied().collect();
    let question = BoundQuestion { frames: 20, asymmetry: 8.0, at_end: AtEnd::Flush, warmup: 0 };
    let full = solve(&recorded, &question, &QUIET);
    assert!(!full.interrupted);
    let stop = AtomicBool::new(false);
    let after_a_while = |share: f64| {
        if share > 0.3 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let progress = PassControl { report: &after_a_while, stop: &stop };
    let part = solve(&recorded, &question, &progress);
    assert!(part.interrupted && part.iterations < full.iterations);
    assert!(part.lower_bound > 0.8 * full.lower_bound);
    assert!(part.lower_bound <= full.heuristic.expect("a schedule"));
    assert!(part.heuristic >= Some(full.lower_bound));
    // Stopped before it began, it has no schedule.
    let none = solve(&recorded, &question, &PassControl { report: &|_| {}, stop: &stop });
    assert!(none.interrupted && none.heuristic.is_none());
    assert!(none.lower_bound <= full.lower_bound);
}

mod whole {
    use super::*;

    #[test]
    fn the_schedule_has_the_bill_that_the_simulator_computes() {
        for seed in 0..6 {
            let trace = workload(seed, 4000, 200);
            let (_directory, source) = file(&trace, "t.parquet");
            for at_end in AT_ENDS {
                let bound = bound(&trace, 40, 8.0, at_end);
                let options = SimOptions { at_end, threads: 2, ..SimOptions::default() };
                let cells = ["cost-belady", "price-guided"].map(|spec| cell(spec, 40, 8.0));
                let outcome = simulate(&source, &cells, &options, &QUIET).expect("a simulation");
                let bills = outcome.counts.iter().zip(&cells).map(|(counts, cell)| {
                    let bill = counts.misses as f64 + 8.0 * counts.writes as f64;
                    (bill, cell.policy.to_string())
                });
                let (bill, policy) = bills.min_by(|a, b| a.0.total_cmp(&b.0)).expect("two");
                assert_eq!((Some(bill), Some(policy)), (bound.heuristic, bound.heuristic_policy.map(str::to_owned)));
                let gap = bill / bound.lower_bound - 1.0;
                assert!(gap < 0.02, "seed {seed}, {at_end:?}: {gap}");
            }
        }
    }

    #[test]
    fn no_policy_is_below_the_bound() {
        for seed in 0..4 {
            let trace = workload(seed, 3000, 150);
            let (_directory, source) = file(&trace, "t.txt");
            let recorded = RecordedTrace::read(&source, &QUIET).expect("a trace");
            assert_eq!(recorded.references(), 3000);
            for (frames, asymmetry, warmup) in [(1, 8.0, 0), (20, 8.0, 0), (20, 0.3, 1000), (140, 32.0, 0)] {
                for at_end in AT_ENDS {
                    let question = BoundQuestion { frames, asymmetry, at_end, warmup };
                    let bound = solve(&recorded, &question, &QUIET);
                    assert_eq!(bound.references, 3000 - warmup);
                    let options = SimOptions { at_end, warmup, ..SimOptions::default() };
                    let cells: Vec<_> = SPECS.iter().map(|spec| cell(spec, frames, asymmetry)).collect();
                    let outcome = simulate(&source, &cells, &options, &QUIET).expect("a simulation");
                    for (counts, cell) in outcome.counts.iter().zip(&cells) {
                        let bill = counts.misses as f64 + asymmetry * counts.writes as f64;
                        let context = format!("{}, {question:?}, seed {seed}", cell.policy);
                        assert!(bill >= bound.lower_bound, "{context}: {bill} below {bound:?}");
                    }
                }
            }
        }
    }
}
