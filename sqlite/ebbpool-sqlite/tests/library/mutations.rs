//! Each sync is needed: without it the crash tests find damage or loss.

#![allow(unsafe_code)]

use std::panic::AssertUnwindSafe;

use crate::support::cases::{Bench, Case, run};
use crate::support::faulty_vfs::Step;

/// Crashes within which a missing sync must be found.
const MOST_CASES: u64 = 6000;
/// Crashes within which it must be found where only rare ones need the sync.
const MOST_RARE_CASES: u64 = 40_000;

/// The number of the first crash that shows that syncs of one kind are left out.
fn found_after(step: Step, is_deltas: bool, most: u64, case_of: fn(u64) -> Case) -> Option<u64> {
    let bench = Bench::new(&format!("without-{step:?}-{is_deltas}"));
    bench.machine.leave_out(Some(step));
    let cases = (1..).map(case_of).filter(|case| case.is_deltas == is_deltas);
    let mut numbered = (1..=most).zip(cases);
    let found = numbered.find(|(_, case)| {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run(&bench, case)));
        !matches!(outcome, Ok(Ok(())))
    });
    found.map(|(number, _)| number)
}

fn assert_found(steps: &[Step], is_deltas: bool, most: u64, case_of: fn(u64) -> Case) {
    for step in steps {
        let found = found_after(*step, is_deltas, most, case_of);
        println!("without the sync of {step:?}: found by crash {found:?}");
        assert!(found.is_some(), "without the sync of {step:?} nothing is wrong");
    }
}

#[test]
fn every_sync_of_deltas_is_needed() {
    assert_found(
        &[Step::Deltas, Step::DeltasHeader, Step::Wal, Step::InPlace, Step::Appended, Step::Mark, Step::Unmark],
        true,
        MOST_CASES,
        Case::new,
    );
}

#[test]
fn every_sync_of_wal_is_needed() {
    assert_found(&[Step::Wal, Step::InPlace, Step::FirstPage], false, MOST_CASES, Case::new);
}

/// These are needed in rare crashes only, which takes some minutes.
#[test]
#[ignore = "takes some minutes: cargo test -p ebbpool-sqlite --test library mutations:: -- --ignored"]
fn the_rarely_needed_syncs_are_needed() {
    assert_found(&[Step::FirstPage, Step::WalCutOff], true, MOST_RARE_CASES, Case::new);
    // A commit of which the sync has failed is made invalid.
    assert_found(&[Step::WalHeader], true, MOST_RARE_CASES, Case::with_faults);
    assert_found(&[Step::WalHeader], false, MOST_RARE_CASES, Case::new);
}
