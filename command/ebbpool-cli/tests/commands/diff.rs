//! Tests of `ebbpool diff`.

use serde_json::{Value, json};

use crate::harness::Ebbpool;

crate::table::table!("diff");

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
}

#[test]
fn a_result_that_stands_twice_is_named() {
    let ebbpool = Ebbpool::in_scratch();
    let rows = compare(&ebbpool, "a.json", &["--policies", "lru"]);
    let mut twice = rows.clone();
    twice[1] = rows[0].clone();
    twice[1]["reads"] = json!(1);
    ebbpool.file("twice.json", Value::from(twice).to_string());
    let says = ["twice.json: results 1 and 2", "policy lru, frames 10"];
    ebbpool.refused(&["diff", "a.json", "twice.json"], 2, &says);
}
