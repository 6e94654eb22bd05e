//! `ebbpool bound` and `compare --bound`.

use serde_json::Value;

use crate::harness::{Ebbpool, errors};

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
fn a_worked_value() {
    let ebbpool = with_traces();
    // Pages 1 and 2 share a frame, which makes 3 reads. The written page stays until the end.
    for (at_end, bill) in [("free", 3.0), ("flush", 3.0 + 8.0)] {
        let args = ["bound", "four.txt", "--frames", "2", "--asymmetry", "8"];
        let answer = ebbpool.json(&[&args[..], &["--at-end", at_end]].concat());
        assert_eq!(answer["trace"], "four.txt");
        assert_eq!(answer["frames"], 2);
        assert_eq!(answer["asymmetry"], 8);
        assert_eq!(answer["at_end"], at_end);
        assert_eq!(answer["references"], 4);
        assert_eq!(answer["heuristic"], bill / 4.0);
        let bound = answer["lower_bound"].as_f64().expect("a number");
        assert!(bound <= bill / 4.0 && bound > 0.999 * bill / 4.0, "{bound}");
        for field in ["gap", "seconds", "iterations"] {
            assert!(answer[field].is_number(), "{field}");
        }
    }
}

#[test]
fn answers_have_the_order_of_the_lists_with_any_number_of_threads() {
    let ebbpool = with_traces();
    let ask = |threads: &str| {
        let mut answers = ebbpool
            .json(&["bound", "more.txt", "--frames", "10%,30", "--asymmetry", "1,32", "--threads", threads, "--no-cache"]);
        for answer in answers.as_array_mut().expect("an array") {
            answer["seconds"].take();
        }
        answers
    };
    let answers = ask("1");
    assert_eq!(answers, ask("2"));
    let places = answers.as_array().expect("an array").iter();
    let places: Vec<_> = places.map(|answer| (&answer["asymmetry"], &answer["frames"])).collect();
    let [small, large, one, dear] = [9, 30, 1, 32].map(Value::from);
    assert_eq!(places, [(&one, &small), (&one, &large), (&dear, &small), (&dear, &large)]);
    let table = ebbpool.stdout(&["bound", "more.txt", "--frames", "10%,30"]);
    assert!(table.contains("no policy below"), "{table}");
    assert_eq!(table.lines().count(), 5, "{table}");
}

#[test]
fn bounds_are_stored_unless_the_user_says_otherwise() {
    let ebbpool = with_traces();
    let args = ["bound", "more.txt", "--frames", "10%,30", "--format", "json"];
    let ask = |more: &[&str]| {
        let output = ebbpool.run(&[&args[..], more].concat());
        let notes = errors(&output);
        assert!(output.status.success(), "{notes}");
        (output.stdout, notes)
    };
    let (first, notes) = ask(&["--no-cache"]);
    assert_eq!(notes, "");
    let (second, notes) = ask(&[]);
    assert!(!notes.contains("before"), "--no-cache stores nothing: {notes}");
    assert_eq!(unlike_time(&second), unlike_time(&first));
    let (third, notes) = ask(&[]);
    assert!(notes.contains("2 of 2 results were computed before"), "{notes}");
    assert!(notes.contains("--no-cache"), "{notes}");
    assert_eq!(third, second, "the time that the search took, too");
    let (_, notes) = ask(&["--no-cache"]);
    assert!(!notes.contains("before"), "{notes}");
}

/// The answers without the wall time.
fn unlike_time(json: &[u8]) -> Value {
    let mut answers: Value = serde_json::from_slice(json).expect("JSON");
    for answer in answers.as_array_mut().expect("an array") {
        answer["seconds"].take();
    }
    answers
}

#[test]
fn the_schedule_is_run_by_its_policy() {
    let ebbpool = with_traces();
    let answer = ebbpool.json(&["bound", "more.txt", "--frames", "20", "--asymmetry", "8"]);
    let policy = answer["heuristic_policy"].as_str().expect("a name");
    let run = ebbpool.json(&["run", "more.txt", "--policy", policy, "--frames", "20", "--asymmetry", "8"]);
    assert_eq!(run["cost"], answer["heuristic"]);
}

#[test]
fn compare_shows_the_distance_of_each_policy_from_the_bound() {
    let ebbpool = with_traces();
    let args = ["compare", "more.txt", "--frames", "10,30", "--asymmetry", "1,32", "--bound"];
    let policies = ["--policies", "lru,cflru,cost-belady,price-guided"];
    let args = [&args[..], &policies].concat();
    let table = ebbpool.stdout(&args);
    assert!(table.contains("above the least possible bill by at most"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("lower bound")).count(), 2);
    // The second answer comes from the store.
    assert_eq!(ebbpool.stdout(&args), table);
    let rows = ebbpool.json(&args);
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 16);
    for row in rows {
        let place = ["--frames", &row["frames"].to_string(), "--asymmetry", &row["asymmetry"].to_string()];
        let answer = ebbpool.json(&[&["bound", "more.txt"], &place[..]].concat());
        assert_eq!(row["lower_bound"], answer["lower_bound"]);
        assert!(row["cost"].as_f64() >= row["lower_bound"].as_f64(), "{row}");
    }
    let csv = ebbpool.stdout(&[&args[..], &["--format", "csv"]].concat());
    assert!(csv.lines().next().is_some_and(|header| header.contains(",lower_bound,")));
    let warm = ebbpool.json(&[&args[..], &["--warmup", "50%"]].concat());
    for row in warm.as_array().expect("an array") {
        assert!(row["cost"].as_f64() >= row["lower_bound"].as_f64(), "{row}");
        assert!(row["lower_bound"].as_f64() > Some(0.0), "{row}");
    }
    let without = ebbpool.json(&["compare", "more.txt", "--frames", "10", "--asymmetry", "1"]);
    assert!(without[0]["lower_bound"].is_null());
}

#[test]
fn the_report_contains_the_bounds() {
    let ebbpool = with_traces();
    let args = ["compare", "more.txt", "--frames", "10,30", "--asymmetry", "8", "--policies", "lru"];
    let report = || ebbpool.text("r.html");
    ebbpool.stdout(&[&args[..], &["--report", "r.html"]].concat());
    assert!(!report().contains("\"bounds\""));
    ebbpool.stdout(&[&args[..], &["--report", "r.html", "--bound"]].concat());
    assert!(report().contains("\"bounds\":["));
}

#[test]
fn wrong_usage_is_refused() {
    let ebbpool = with_traces();
    ebbpool.file("empty.txt", "# nothing\n");
    for (args, code, word) in [
        (&["bound", "more.txt"][..], 2, "--frames"),
        (&["bound", "more.txt", "--frames", "0"], 2, "memory size"),
        (&["bound", "more.txt", "--frames", "-5"], 2, "memory size"),
        (&["bound", "more.txt", "more.txt", "--frames", "3"], 2, "--concat"),
        (&["bound", "none.txt", "--frames", "3"], 1, "none.txt"),
        (&["bound", "empty.txt", "--frames", "3"], 1, "empty"),
        (&["compare", "more.txt", "--bound", "--device", "ssd1"], 2, "--device"),
        (&["compare", "more.txt", "--bound", "--asymmetry", "8,rm1"], 2, "rm1"),
        (&["bound", "more.txt", "--frames", "3", "--asymmetry", "rm2"], 2, "rm2"),
    ] {
        ebbpool.refused(args, code, &[word]);
    }
}
