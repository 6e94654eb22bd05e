//! `ebbpool bound` and `compare --bound`.

use crate::harness::Ebbpool;

crate::table::table!("bound");

/// Two traces: one in which a page is written at both ends and two are read in between, and a longer one.
fn with_traces() -> Ebbpool {
    let ebbpool = Ebbpool::with_no_results();
    ebbpool.file("four.txt", "W 0\nR 1\nR 2\nW 0\n");
    let line = |at: u64| {
        let access = if at.is_multiple_of(3) { 'W' } else { 'R' };
        format!("{access} {}\n", (at * at + at / 7) % 97)
    };
    ebbpool.file("more.txt", (0..4000).map(line).collect::<String>());
    ebbpool
}

#[test]
fn the_schedule_is_run_by_its_policy() {
    let ebbpool = with_traces();
    let answer = ebbpool.json(&["bound", "more.txt", "--frames", "20", "--asymmetry", "8"]);
    let policy = answer["heuristic_policy"].as_str().expect("a name");
    let run = ebbpool.json(&["run", "more.txt", "--policy", policy, "--frames", "20", "--asymmetry", "8"]);
    assert_eq!(run["cost"], answer["heuristic"]);
}
