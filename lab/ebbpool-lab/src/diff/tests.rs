//! Tests of comparisons of results.

use serde_json::{Value, json};

use super::*;
use crate::result_schemas;

fn file(label: &str, json: &Value) -> ResultFile {
    parse(label, &json.to_string()).expect("results")
}

fn parse(label: &str, text: &str) -> Result<ResultFile, DiffError> {
    ResultFile::parse(label, text.as_bytes(), &result_schemas())
}

/// A result of `compare` with these reads.
fn result(policy: &str, frames: u64, reads: u64) -> Value {
    let writes = reads / 2;
    json!({
        "trace": "t", "policy": policy, "frames": frames, "page_size": null, "asymmetry": 8, "device": null,
        "references": 1000, "warmup": 0, "distinct_pages": 100, "hits": 1000 - reads, "misses": reads,
        "reads": reads, "writes": writes, "bytes_read": null, "bytes_written": null, "dirty_left": 0,
        "hit_ratio": (1000 - reads) as f64 / 1000.0, "cost": (reads + 8 * writes) as f64 / 1000.0,
        "cost_us": null, "cluster_switches": 1, "cluster_switch_factor": 1.0, "seconds": null,
        "references_per_second": null, "padding_reads": 0, "joules_per_reference": null, "lower_bound": null,
        "background_writes": 0, "checkpoint_writes": 0,
        "end_writes": 0, "dirty_before": 0,
    })
}

fn with(mut result: Value, field: &str, value: Value) -> Value {
    result[field] = value;
    result
}

fn diff_of(before: &Value, after: &Value) -> ResultDiff {
    ResultDiff::new(&file("a.json", before), &file("b.json", after), NOISE).expect("a comparison")
}

/// Path, values before and after, and whether the change is within noise.
fn changes(diff: &ResultDiff) -> Vec<(&str, String, String, bool)> {
    let shown = |change: &FigureChange| (change.before.to_string(), change.after.to_string());
    let all = diff.changes.iter();
    let all = all.map(|change| {
        let (before, after) = shown(change);
        (change.field.as_str(), before, after, change.within_noise)
    });
    all.collect()
}

#[test]
fn results_are_matched_by_their_keys_in_any_order() {
    let rows = [("lru", 10, 500), ("lru", 20, 400), ("ebb", 10, 450)];
    let rows = rows.map(|(policy, frames, reads)| result(policy, frames, reads));
    let mut other = rows.to_vec();
    other.reverse();
    let diff = diff_of(&json!(rows), &json!(other));
    assert!(!diff.has_differences());
    assert_eq!((diff.matched, diff.changed), (3, 0));
    assert_eq!(diff.keys, ["policy", "frames"]);
    assert_eq!(sentence(&diff), "none of 3 results changed");

    other[0] = result("ebb", 10, 360);
    other[1] = result("arc", 20, 400);
    let diff = diff_of(&json!(rows), &json!(other));
    assert_eq!((diff.matched, diff.changed), (2, 1));
    assert_eq!(words(&diff, &diff.only_before[0]), "lru, 20 frames");
    assert_eq!(words(&diff, &diff.only_after[0]), "arc, 20 frames");
    let principal = diff.changes.iter().filter(|change| change.is_principal());
    let principal: Vec<(&str, f64)> =
        principal.map(|change| (change.field.as_str(), change.relative.expect("a share"))).collect();
    let fields: Vec<&str> = principal.iter().map(|(field, _)| *field).collect();
    assert_eq!(fields, ["reads", "writes", "cost"]);
    assert!(principal.iter().all(|(_, relative)| (relative + 0.2).abs() < 1e-9));
    assert_eq!(
        sentence(&diff),
        "1 of 2 results changed: reads in 1 (-20.0 %), writes in 1 (-20.0 %), cost in 1 (-20.0 %); the largest \
         change is reads of ebb, 10 frames, 450 -> 360 (-20.0 %); 1 only in a.json; 1 only in b.json"
    );
}

#[test]
fn counts_are_exact_fractions_beyond_rounding_and_times_beyond_noise() {
    let run = with(result("lru", 10, 500), "seconds", json!(1.0));
    let cases = [
        ("reads", json!(501), Some(false)),
        ("cost", json!(2.5 * (1.0 + 1e-12)), None),
        ("cost", json!(2.5 * (1.0 + 1e-6)), Some(false)),
        ("asymmetry", json!(8.0), None),
        ("seconds", json!(1.19), Some(true)),
        ("seconds", json!(0.84), Some(true)),
        ("seconds", json!(1.21), Some(false)),
        ("seconds", json!(0.82), Some(false)),
        ("page_size", json!(4096), Some(false)),
    ];
    for (field, value, expected) in cases {
        let other = with(run.clone(), field, value.clone());
        let diff = diff_of(&run, &other);
        let found: Vec<bool> = diff.changes.iter().map(|it| it.within_noise).collect();
        assert_eq!(found, Vec::from_iter(expected), "{field} {value}");
        assert_eq!(diff.has_differences(), expected == Some(false), "{field}");
    }
}

#[test]
fn key_fields_with_one_value_in_each_file_do_not_prevent_a_comparison() {
    let rows = |trace: &str, asymmetry: u64| {
        let rows = [("lru", 500), ("ebb", 400)].map(|(policy, reads)| {
            let row = with(result(policy, 10, reads), "trace", json!(trace));
            with(row, "asymmetry", json!(asymmetry))
        });
        json!(rows)
    };
    let diff = diff_of(&rows("monday", 8), &rows("tuesday", 32));
    assert_eq!((diff.matched, diff.changed, diff.changes.len()), (2, 0, 0));
    let in_all: Vec<&str> = diff.in_all.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(in_all, ["trace", "asymmetry"]);
    assert!(diff.has_differences());
    let one = diff_of(&result("lru", 10, 500), &result("cflru", 20, 500));
    let in_all: Vec<&str> = one.in_all.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(in_all, ["policy", "frames"]);
    assert_eq!(one.matched, 1);
}

#[test]
fn a_change_that_is_the_same_in_all_results_is_stated_once() {
    let rows = [result("lru", 10, 500), result("ebb", 10, 400)];
    let longer = rows.clone().map(|row| with(row, "references", json!(2000)));
    let diff = diff_of(&json!(rows), &json!(longer));
    assert_eq!(diff.changed, 2);
    assert!(diff.changes.is_empty(), "{:?}", diff.changes);
    assert_eq!(diff.in_all, [CommonChange { field: "references".into(), before: json!(1000), after: json!(2000) }]);
}

#[test]
fn figures_of_several_threads_are_measured() {
    let replay = |reads: u64, threads: u64| {
        let mut replay = result("lru", 10, reads);
        let more = json!({
            "storage": "memory", "threads": threads, "real_seconds": 1.0, "pages_read": { "miss": reads },
            "pages_written": {}, "write_calls": 10, "syncs": 0, "read_us": 5.0, "write_us": null,
            "measured_asymmetry": null, "read_latency_us": { "median": 4, "p99": 9, "most": 100 },
            "write_latency_us": null, "sync_latency_us": null,
            "waits": { "latch": 0, "write": 0, "frame": 0 }, "delays": 0, "delayed_seconds": 0.0,
            "verified_pages": null, "interrupted": false,
        });
        let more = more.as_object().cloned().unwrap_or_default();
        replay.as_object_mut().expect("an object").extend(more);
        replay
    };
    let diff = diff_of(&replay(500, 4), &replay(505, 4));
    assert_eq!((diff.changed, diff.within_noise), (0, 1));
    let diff = diff_of(&replay(500, 1), &replay(505, 1));
    assert_eq!(diff.changed, 1);
    assert!(changes(&diff).contains(&("pages_read.miss", "500".into(), "505".into(), false)));
    let mut waits = replay(500, 1);
    waits["waits"]["latch"] = json!(3);
    waits["read_latency_us"]["most"] = json!(1000);
    let diff = diff_of(&replay(500, 1), &waits);
    assert_eq!(
        changes(&diff),
        [("waits.latch", "0".into(), "3".into(), true), ("read_latency_us.most", "100".into(), "1000".into(), false),]
    );
}

#[test]
fn a_file_that_is_no_result_is_refused_with_its_name() {
    let same = json!([result("lru", 10, 500), result("lru", 10, 400)]);
    let without = json!([{ "trace": "t", "reads": 1, "writes": 2, "hits": 1 }]);
    let cases = [
        ("", "x: there are no results in it"),
        ("[]", "x: there are no results in it"),
        ("{\n \"reads\": 1,\n", "x: not JSON: EOF while parsing"),
        ("trace,policy\nt,lru\n", "x is CSV, and results are compared as JSON"),
        ("PAR1\0", "x is Parquet"),
        ("<!doctype html>", "x is HTML"),
        ("[1]", "x: not the results of a command: item 1 is a number"),
        ("7", "it is a number"),
        ("{\"a\": 1}", "its fields are those of no command"),
        (&without.to_string(), "its fields are those of no command"),
        (&same.to_string(), "x: results 1 and 2 differ and have the same key: trace t, policy lru, frames 10"),
    ];
    for (text, expected) in cases {
        let error = parse("x", text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = parse("x", "{\n \"reads\": 1,\n").expect_err("no end").to_string();
    assert!(error.contains("line 3"), "{error}");
    let one = file("a.json", &result("lru", 10, 500));
    let rows = file("b.json", &json!([result("lru", 10, 500)]));
    let error = ResultDiff::new(&one, &rows, NOISE).expect_err("two commands").to_string();
    assert!(error.starts_with("a.json has results of `ebbpool run`, b.json those of `ebbpool compare`"), "{error}");
}

#[test]
fn results_of_another_version_are_recognised_and_their_fields_compared() {
    let new = result("lru", 10, 500);
    let mut old = new.clone();
    old.as_object_mut().expect("an object").remove("padding_reads");
    let diff = diff_of(&json!([old]), &json!([new]));
    assert_eq!(changes(&diff), [("padding_reads", "null".into(), "0".into(), false)]);
    // Two equal results, as two equal sizes give, are one.
    let twice = file("a.json", &json!([new, new]));
    assert_eq!(twice.rows.len(), 1);
}

#[test]
fn the_page_names_files_safely_and_tints_changes() {
    let before = json!([result("lru", 10, 500), result("<b>", 10, 500)]);
    let after = json!([result("lru", 10, 500), result("<b>", 10, 100)]);
    let page = page(&diff_of(&before, &after));
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"));
    assert!(page.contains("number less t5"));
    assert!(page.contains("1 of 2 results changed"));
    assert!(!page.contains("<script"));
}

#[test]
fn a_schema_has_a_name_and_what_each_field_is() {
    let compare = &result_schemas()[0];
    assert_eq!(compare.id(), "urn:ebbpool:schema:compare:1");
    let document = compare.to_json();
    let fields = &document["$defs"]["result"]["properties"];
    assert_eq!(fields["trace"]["x-role"], "key");
    assert_eq!(fields["frames"]["x-unit"], "pages");
    assert_eq!(fields["bytes_read"]["type"], json!(["integer", "null"]));
    assert!(fields["write_amplification"].is_object() && fields["energy"].is_object());
    assert_eq!(document["type"], "array");
}
