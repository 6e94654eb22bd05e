//! Tests of `ebbpool curve`.

use serde_json::Value;

use crate::harness::{Ebbpool, data_of};

const TRACE: &str = "zipf:pages=3000,refs=60000,write=0.3";

#[test]
fn a_sample_of_all_pages_equals_compare() {
    let ebbpool = Ebbpool::in_repository();
    let shared = [
        "--frames", "20,100,3%", "--policies", "lru,cflru,cfdc,fd-exact,belady,informed", "--warmup", "10%", "--at-end",
        "flush", "--asymmetry", "8",
    ];
    let curve = ebbpool.rows(&[&["curve", TRACE, "--sample", "100%"], &shared[..]].concat());
    let compare = ebbpool.rows(&[&["compare", TRACE], &shared[..]].concat());
    assert_eq!(curve.len(), 18);
    for row in &curve {
        let same = |other: &&Value| other["policy"] == row["policy"] && other["frames"] == row["frames"];
        let other = compare.iter().find(same).expect("the same result");
        for field in [
            "trace", "asymmetry", "references", "warmup", "distinct_pages", "hits", "misses", "reads", "writes", "dirty_left",
            "hit_ratio", "cost", "page_size", "bytes_read",
        ] {
            assert_eq!(row[field], other[field], "{field} of {row}");
        }
        assert_eq!((&row["method"], &row["error"]), (&"exact".into(), &0.0.into()));
    }
}

#[test]
fn sampled_figures_have_errors_and_lru_is_exact() {
    let ebbpool = Ebbpool::in_repository();
    let rows = ebbpool.rows(&["curve", "zipf:pages=30000,refs=200000,write=0.3", "--policies", "lru,cflru", "--sample", "10%"]);
    let sampled: Vec<&Value> = rows.iter().filter(|row| row["method"] == "sampled").collect();
    assert!(sampled.len() >= 3, "{rows:?}");
    for row in &sampled {
        assert_eq!(row["policy"], "cflru");
        assert!(row["sampled"].as_f64() < Some(1.0), "{row}");
        let error = row["error"].as_f64().expect("an error");
        assert!(error > 0.0 && error < 0.5, "{row}");
    }
    let exact = rows.iter().filter(|row| row["policy"] == "lru");
    assert!(exact.clone().count() >= 10 && exact.clone().all(|row| row["sampled"] == 1));
}

#[test]
fn a_target_names_the_smallest_memory() {
    let ebbpool = Ebbpool::in_repository();
    let args =
        ["curve", TRACE, "--policies", "lru,cflru", "--target", "writes -50%", "--baseline", "lru@100", "--sample", "100%"];
    let rows = ebbpool.rows(&args);
    let answers: Vec<&Value> = rows.iter().filter(|row| row["target"] == "writes -50%").collect();
    assert_eq!(answers.len(), 2);
    let writes = |policy: &str, frames: u64| {
        let frames = frames.to_string();
        let args = ["run", TRACE, "--policy", policy, "--frames", &frames];
        let row = ebbpool.json(&args);
        row["writes"].as_u64().expect("writes")
    };
    let now = writes("lru", 100);
    for answer in answers {
        let policy = answer["policy"].as_str().expect("a policy");
        let frames = answer["frames"].as_u64().expect("frames");
        assert!(2 * writes(policy, frames) <= now, "{answer}");
        assert!(2 * writes(policy, frames - 1) > now, "{answer}");
    }
    let table = ebbpool.stdout(&args);
    let is_answer = |line: &&str| line.starts_with("writes -50%");
    let last = table.lines().find(is_answer).expect("an answer");
    assert!(last.starts_with("writes -50% against lru with 100 frames"), "{last}");
    assert!(last.contains("lru needs") && last.contains("cflru needs"), "{last}");
    let never = ebbpool.stdout(&["curve", TRACE, "--policies", "lru,cflru", "--target", "reads 10"]);
    let says = "reads 10: no memory is enough for lru, cflru";
    assert!(never.lines().any(|line| line == says), "{never}");
}

#[test]
fn clean_pools_stand_beside_runs_of_fd_static() {
    let ebbpool = Ebbpool::in_repository();
    let rows = ebbpool.rows(&["curve", TRACE, "--policies", "lru", "--clean-pools", "300"]);
    let pools: Vec<&Value> = rows.iter().filter(|row| row["method"] == "two-stack").collect();
    assert!(pools.len() >= 10, "{pools:?}");
    for pool in pools {
        assert_eq!(pool["frames"], 300);
        assert!(pool["error"].as_f64() < Some(0.1), "{pool}");
        let policy = pool["policy"].as_str().expect("a policy");
        assert!(policy.starts_with("fd-static:clean="), "{policy}");
    }
    let table = ebbpool.stdout(&["curve", TRACE, "--policies", "lru", "--clean-pools", "300"]);
    assert!(table.contains("clean=150"), "{table}");
}

#[test]
fn results_do_not_depend_on_threads_or_on_stored_results() {
    let ebbpool = Ebbpool::in_repository();
    let args = |more: &[&'static str]| {
        let args = ["curve", TRACE, "--policies", "cflru,casa", "--sample", "25%", "--target", "bill -10%"];
        ebbpool.stdout(&[&args[..], more].concat())
    };
    let one = args(&["--no-cache", "--threads", "1"]);
    assert_eq!(one, args(&["--no-cache", "--threads", "2"]));
    assert_eq!(one, args(&[]));
    assert_eq!(one, args(&[]));
}

#[test]
fn a_report_has_the_curves() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["curve", TRACE, "--policies", "lru,cflru", "--target", "writes -50%", "--report", "curve.html"]);
    let data = data_of(&ebbpool.text("curve.html"));
    let trace = &data["traces"][0];
    let curve = &trace["curve"];
    assert_eq!(curve["limit"]["figure"], "writes");
    let lru = curve["lru"].as_array().expect("points");
    assert!(lru.len() > 100);
    assert_eq!(lru.last().expect("a point")[0], trace["distinct_pages"]);
    assert!(trace["sentence"].as_str().expect("a sentence").contains("needs"));
    assert_eq!(curve["mark"][1], "target");
}

#[test]
fn without_a_target_the_report_is_about_the_knee() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = "uniform:pages=1000,refs=60000,write=0.3";
    let frames = "250,500,1000,2000";
    let args = ["curve", trace, "--policies", "lru,cflru", "--frames", frames];
    let table = ebbpool.stdout(&[&args[..], &["--report", "curve.html"]].concat());
    let data = data_of(&ebbpool.text("curve.html"));
    let trace = &data["traces"][0];
    let answer = table.lines().last().expect("an answer");
    assert!(answer.starts_with("at R=32 more memory pays up to "), "{answer}");
    assert_eq!(trace["sentence"], answer);
    let [frames, what] = &trace["curve"]["mark"].as_array().expect("a mark")[..] else {
        panic!("no mark");
    };
    assert_eq!((frames, what), (&1000.into(), &"knee".into()));
}

#[test]
fn the_table_explains_the_errors_that_it_has_and_names_policies_on_all_pages() {
    let ebbpool = Ebbpool::in_repository();
    let table = |policies: &str, sample: &str| {
        ebbpool.stdout(&[
            "curve", "zipf:pages=30000,refs=100000,write=0.3", "--policies", policies, "--frames", "10%,20%", "--sample",
            sample,
        ])
    };
    let line = "ebb ran on all pages, since a sample does not estimate it without bias";
    let sampled = table("lru,cflru,ebb", "10%");
    assert!(sampled.contains("± is the error"), "{sampled}");
    assert!(sampled.lines().any(|other| other == line), "{sampled}");
    let exact = table("lru,ebb", "10%");
    assert!(!exact.contains('±'), "{exact}");
    assert!(exact.lines().any(|other| other == line), "{exact}");
    let all = table("cflru,ebb", "100%");
    assert!(!all.contains('±') && !all.contains("ran on"), "{all}");
}

#[test]
fn invalid_arguments_are_refused() {
    let ebbpool = Ebbpool::in_repository();
    ebbpool.refused(&["curve", TRACE, "--target", "writes 50%"], 2, &["writes -50%"]);
    ebbpool.refused(&["curve", TRACE, "--sample", "0%"], 2, &["above 0%"]);
    ebbpool.refused(&["curve", TRACE, "--sample", "0.5"], 2, &["per cent"]);
    ebbpool.refused(&["curve", TRACE, "--baseline", "lru@0"], 2, &["memory size"]);
    ebbpool.refused(&["curve", TRACE, "--baseline", "unknown@3%"], 2, &["unknown"]);
    ebbpool.refused(&["curve", TRACE, TRACE], 2, &["--concat"]);
    ebbpool.refused(&["curve", TRACE, "--policies", "cflru-e"], 2, &["--device"]);
    ebbpool.refused(&["curve", TRACE, "--warmup", "60000"], 2, &["--warmup"]);
}
