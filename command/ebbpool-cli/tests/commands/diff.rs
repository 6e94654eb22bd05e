//! Tests of `ebbpool diff`.

use serde_json::{Value, json};

use crate::harness::{Ebbpool, errors};

const COMPARE: [&str; 7] =
    ["compare", "zipf:pages=300,refs=6000,write=0.4", "--frames", "10,50", "--asymmetry", "2,8", "--format"];

fn compare(ebbpool: &Ebbpool, name: &str, more: &[&str]) -> Vec<Value> {
    let text = ebbpool.stdout(&[&COMPARE[..], &["json"], more].concat());
    ebbpool.file(name, &text);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn what_changed_and_by_how_much_is_said_of_two_comparisons() {
    let ebbpool = Ebbpool::in_scratch();
    let all = compare(&ebbpool, "a.json", &[]);
    let mut other = all.clone();
    let cost = other[5]["cost"].as_f64().expect("a cost");
    other[5]["reads"] = json!(1);
    other[5]["cost"] = json!(cost / 2.0);
    other.swap(0, 9);
    ebbpool.file("b.json", Value::from(other).to_string());
    let text = ebbpool.stdout(&["diff", "a.json", "b.json"]);
    let start = format!("1 of {} results changed: ", all.len());
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("-50.0 %"), "{text}");
    assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
    let diff = ebbpool.json(&["diff", "a.json", "b.json"]);
    let fields: Vec<&Value> = diff["changes"].as_array().expect("changes").iter().collect();
    let fields: Vec<&Value> = fields.into_iter().map(|change| &change["field"]).collect();
    assert_eq!(fields, ["reads", "cost"]);
    assert_eq!(diff["changes"][0]["key"]["policy"], all[5]["policy"]);
    assert_eq!(diff["changes"][1]["relative"], -0.5);
    let same = ebbpool.stdout(&["diff", "a.json", "a.json"]);
    let expected = format!("none of {} results changed\n", all.len());
    assert!(same.starts_with(&expected), "{same}");
}

/// The version before had `asymmetry_changes` only in results whose asymmetry changes.
#[test]
fn results_of_a_version_that_left_out_a_key_are_compared() {
    let ebbpool = Ebbpool::in_scratch();
    for asymmetries in ["rm1,8", "8,rm1", "rm1,8,rm2"] {
        let text = ebbpool.stdout(&[
            "compare", "zipf:pages=300,refs=6000", "--policies", "lru,ebb", "--frames", "10", "--format", "json",
            "--asymmetry", asymmetries,
        ]);
        ebbpool.file("new.json", &text);
        let new: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let mut old = new.clone();
        for row in old.iter_mut().filter_map(Value::as_object_mut) {
            row.retain(|name, value| name != "asymmetry_changes" || !value.is_null());
        }
        assert_ne!(old, new);
        ebbpool.file("old.json", Value::from(old).to_string());
        for files in [["old.json", "old.json"], ["old.json", "new.json"], ["new.json", "old.json"]] {
            let same = ebbpool.stdout(&["diff", files[0], files[1]]);
            let expected = format!("none of {} results changed\n", new.len());
            assert!(same.starts_with(&expected), "{files:?}: {same}");
        }
    }
}

#[test]
fn another_trace_is_compared_policy_by_policy() {
    let ebbpool = Ebbpool::in_scratch();
    compare(&ebbpool, "a.json", &["--policies", "lru,ebb"]);
    let args = ["--policies", "ebb,lru", "--limit", "5000"];
    compare(&ebbpool, "b.json", &args);
    let text = ebbpool.stdout(&["diff", "a.json", "b.json", "--all"]);
    assert!(text.starts_with("8 of 8 results changed"), "{text}");
    assert!(text.contains("in all results\nreferences  6000 -> 5000\n"), "{text}");
    assert!(text.contains("hit_ratio"), "--all also lists what follows: {text}");
    let run = |policy: &str, name: &str| {
        let args = ["run", COMPARE[1], "--policy", policy, "--frames", "10", "--format", "json"];
        ebbpool.file(name, ebbpool.stdout(&args));
    };
    run("lru", "lru.json");
    run("cflru", "cflru.json");
    let text = ebbpool.stdout(&["diff", "lru.json", "cflru.json"]);
    assert!(text.starts_with("the result has changed: "), "{text}");
    assert!(text.contains("policy  lru -> cflru"), "{text}");
}

#[test]
fn the_exit_code_says_whether_results_differ_only_on_request() {
    let ebbpool = Ebbpool::in_scratch();
    compare(&ebbpool, "a.json", &["--policies", "lru"]);
    let other = compare(&ebbpool, "b.json", &["--policies", "lru,arc"]);
    for (args, code) in [
        (&["a.json", "b.json"][..], 0),
        (&["a.json", "b.json", "--exit-code"], 1),
        (&["a.json", "a.json", "--exit-code"], 0),
        (&["a.json", "none.json", "--exit-code"], 2),
    ] {
        let output = ebbpool.run(&[&["diff"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(errors(&output).is_empty(), code < 2, "{args:?}");
    }
    let input = Value::from(other).to_string();
    let output = ebbpool.fed(&["diff", "-", "b.json", "--exit-code"], input.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
}

#[test]
fn noise_is_a_threshold_that_the_user_sets() {
    let ebbpool = Ebbpool::in_scratch();
    let args = ["run", COMPARE[1], "--policy", "lru", "--frames", "10"];
    let mut run = ebbpool.json(&args);
    run["seconds"] = json!(1.0);
    run["references_per_second"] = json!(6000.0);
    ebbpool.file("a.json", run.to_string());
    run["seconds"] = json!(1.1);
    ebbpool.file("b.json", run.to_string());
    let args = ["diff", "a.json", "b.json", "--exit-code"];
    let output = ebbpool.run(&args);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let says = "the result has not changed; it differs within the noise of measured figures\n\
                measured figures count as changed from a difference of 20 % on\n";
    assert!(text.starts_with(says), "{text}");
    let strict = ebbpool.run(&[&args[..], &["--noise", "5%"]].concat());
    assert_eq!(strict.status.code(), Some(1));
    for noise in ["5", "-5%", "x%", "nan%"] {
        let noise = format!("--noise={noise}");
        let says = ["give a share in per cent"];
        ebbpool.refused(&["diff", "a.json", "b.json", &noise], 2, &says);
    }
}

#[test]
fn files_that_cannot_be_compared_are_named() {
    let ebbpool = Ebbpool::in_scratch();
    let rows = compare(&ebbpool, "a.json", &["--policies", "lru"]);
    ebbpool.file("a.csv", ebbpool.stdout(&[&COMPARE[..], &["csv"]].concat()));
    ebbpool.file("cut.json", "[\n  {\n    \"trace\": ");
    ebbpool.file("empty.json", "[]");
    ebbpool.file("one.json", rows[0].to_string());
    let mut twice = rows.clone();
    twice[1] = rows[0].clone();
    twice[1]["reads"] = json!(1);
    ebbpool.file("twice.json", Value::from(twice).to_string());
    for (other, says) in [
        ("a.csv", &["a.csv is CSV", "--format json"][..]),
        ("cut.json", &["cut.json: not JSON", "line 3"]),
        ("empty.json", &["empty.json: there are no results"]),
        ("one.json", &["one.json those of `ebbpool run`", "a.json has results of `ebbpool compare`"]),
        ("twice.json", &["twice.json: results 1 and 2", "policy lru, frames 10"]),
        ("none.json", &["cannot read none.json"]),
    ] {
        ebbpool.refused(&["diff", "a.json", other], 2, says);
    }
    ebbpool.refused(&["diff", "-", "-"], 2, &["standard input can be one"]);
}

#[test]
fn the_report_is_one_page_and_replaces_no_input() {
    let ebbpool = Ebbpool::in_scratch();
    compare(&ebbpool, "a.json", &[]);
    compare(&ebbpool, "b.json", &["--limit", "5000"]);
    let args = ["diff", "a.json", "b.json", "--report"];
    let output = ebbpool.run(&[&args[..], &["diff.html"]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(errors(&output), "report: diff.html\n");
    let page = ebbpool.text("diff.html");
    assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-"));
    assert!(page.contains("results changed") && page.contains("class=\"number less t"));
    for link in ["http:", "https:", "<script", "src="] {
        assert!(!page.contains(link), "{link}");
    }
    ebbpool.refused(&[&args[..], &["./a.json"]].concat(), 2, &["a.json"]);
    assert!(ebbpool.text("a.json").starts_with('['));
}
