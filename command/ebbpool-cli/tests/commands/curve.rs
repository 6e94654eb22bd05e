//! Tests of `ebbpool curve`.

use serde_json::Value;

use crate::harness::{Ebbpool, data_of};

crate::table::table!("curve");

const TRACE: &str = "zipf:pages=3000,refs=60000,write=0.3";

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
    assert!(trace["sentences"][0].as_str().expect("a sentence").contains("needs"));
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
    assert_eq!(trace["sentences"][0], answer);
    let [frames, what] = &trace["curve"]["mark"].as_array().expect("a mark")[..] else {
        panic!("no mark");
    };
    assert_eq!((frames, what), (&1000.into(), &"knee".into()));
}
