//! Power cuts at every change of a simulated disk, judged by plain SQLite.

#![allow(unsafe_code)]

mod support;

use support::cases::{Bench, Case, run};

/// How many cases run: `EBBPOOL_CRASHES=100000` runs more than the usual number, from `EBBPOOL_SEED` on.
fn cases() -> std::ops::Range<u64> {
    let number = |name: &str, usual: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(usual)
    };
    let from = number("EBBPOOL_SEED", 1);
    from..from + number("EBBPOOL_CRASHES", 2000)
}

#[test]
fn a_power_cut_damages_nothing_and_loses_no_more_than_the_window() {
    judge_all("crash", cases(), Case::new);
}

#[test]
fn after_failing_writes_and_syncs_nothing_is_damaged_or_lost() {
    let cases = cases();
    judge_all(
        "fault",
        cases.start..cases.start + (cases.end - cases.start) / 4,
        Case::with_faults,
    );
}

fn judge_all(name: &str, cases: std::ops::Range<u64>, case_of: fn(u64) -> Case) {
    let count = cases.end - cases.start;
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let cases = &cases;
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let bench = Bench::new(&format!("{name}-{worker}"));
                    let mine = cases.clone().filter(|seed| seed % threads == worker);
                    let failed = mine.filter_map(|seed| {
                        let case = case_of(seed);
                        run(&bench, &case)
                            .err()
                            .map(|why| format!("{why}: {case:?}"))
                    });
                    failed.collect::<Vec<String>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let shown = failures
        .iter()
        .take(5)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failures.is_empty(),
        "{} of {count} crashes:\n{shown}",
        failures.len()
    );
}
