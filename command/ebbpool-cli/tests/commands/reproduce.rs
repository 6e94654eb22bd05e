//! Tests of `ebbpool reproduce`.

use std::fs;

use serde_json::Value;

use crate::harness::{Ebbpool, errors, succeeded};
#[cfg(unix)]
use crate::harness::{failed, interrupted, wait_until};

crate::table::table!("reproduce");

fn reproduce<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["reproduce"], args].concat()
}

/// The JSON output of the command.
fn experiments(ebbpool: &Ebbpool, args: &[&str]) -> Vec<Value> {
    ebbpool.rows(&reproduce(args))
}

fn refused(ebbpool: &Ebbpool, args: &[&str], code: i32, says: &str) {
    ebbpool.refused(&reproduce(args), code, &[says]);
}

/// The values of a metric of a policy, in order.
fn values(experiment: &Value, policy: &str, metric: &str) -> Vec<f64> {
    let points = experiment["points"].as_array().expect("points");
    let of_policy = points.iter().filter(|point| point["policy"] == policy);
    of_policy.filter_map(|point| point[metric].as_f64()).collect()
}

#[test]
fn the_list_has_the_fields_of_the_contract() {
    let ebbpool = Ebbpool::with_no_results();
    let all = experiments(&ebbpool, &["--list"]);
    let ids: Vec<&str> = all.iter().filter_map(|one| one["id"].as_str()).collect();
    for id in ["cikm-table2", "cfdc-fig4", "ppe-fig3", "tc-fig9", "adlru-fig6"] {
        assert!(ids.contains(&id), "{id} is missing");
    }
    for one in &all {
        let keys: Vec<&String> = one.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["claim", "id", "title"]);
        assert!(one["claim"].as_str().is_some_and(|claim| !claim.is_empty()), "{one}");
    }
    let ours = experiments(&ebbpool, &["--list", "ebb"]);
    let of_ebb = |one: &Value| one["id"].as_str().is_some_and(|id| id.starts_with("ebb-"));
    assert!(ours.len() >= 6 && ours.iter().all(of_ebb));
    assert!(ours.iter().all(|one| all.contains(one)));
    let table = ebbpool.stdout(&reproduce(&["--list"]));
    assert!(ids.iter().all(|id| table.contains(&format!("{id}: "))));
    let of_paper = experiments(&ebbpool, &["--list", "cfdc"]);
    assert!(of_paper.len() >= 7 && of_paper.len() < all.len());
}

#[test]
fn worked_examples_have_the_printed_results() {
    let ebbpool = Ebbpool::with_no_results();
    let all = experiments(&ebbpool, &["cikm-table2", "cfdc-fig3"]);
    let table = &all[0];
    assert_eq!(values(table, "Belady", "reads"), [6.0; 7]);
    assert_eq!(values(table, "Belady", "writes"), [2.0; 7]);
    assert_eq!(values(table, "FD-Buffer", "reads"), [8.0; 7]);
    assert_eq!(values(table, "FD-Buffer", "writes"), [1.0; 7]);
    // Nine references; R is 1, 1.5, 2, 2.5, 4, 8 and 32.
    let optimum: Vec<f64> = values(table, "optimum", "cost").iter().map(|cost| cost * 9.0).collect();
    let expected = [8.0, 9.0, 10.0, 10.5, 12.0, 16.0, 40.0];
    assert!(optimum.iter().zip(expected).all(|(ours, cost)| (ours - cost).abs() < 1e-9));
    let claims = all.iter().flat_map(|one| one["claims"].as_array().expect("claims"));
    for claim in claims {
        assert_eq!(claim["verdict"], "holds", "{claim}");
    }
    let out = ebbpool.path("reproduction");
    for (name, begins) in [
        ("index.html", "<!DOCTYPE html>"),
        ("verdicts.md", "13 claims of 2 tables and figures"),
        ("cikm-table2.svg", "<svg"),
        ("cikm-table2.csv", "workload,asymmetry,policy,"),
        ("cfdc-fig3.csv", "workload,policy,"),
    ] {
        let text = fs::read_to_string(out.join(name)).expect(name);
        assert!(text.starts_with(begins), "{name}");
    }
    let left: Vec<_> = fs::read_dir(&out).expect("the report").collect();
    // Beside these files, a part of the index for each experiment.
    assert_eq!(left.len(), 7, "nothing else is left behind");
}

/// The ids of the sections of the page, in their order.
fn sections(page: &str) -> Vec<&str> {
    let sections = page.split("<section id=\"").skip(1);
    sections.filter_map(|section| section.split('"').next()).collect()
}

#[test]
fn the_index_has_all_results_in_the_directory() {
    let ebbpool = Ebbpool::with_no_results();
    ebbpool.stdout(&reproduce(&["cfdc-fig3", "cikm-table2"]));
    let page = ebbpool.text("reproduction/index.html");
    assert_eq!(sections(&page), ["cikm-table2", "cfdc-fig3"]);
    let both = ebbpool.text("reproduction/verdicts.md");

    // A later run replaces its own part, and the terminal shows its own claims.
    let output = ebbpool.stdout(&reproduce(&["cfdc-fig3"]));
    assert!(output.contains("claims of 1 tables and figures"), "{output}");
    assert_eq!(ebbpool.text("reproduction/index.html"), page);
    assert_eq!(ebbpool.text("reproduction/verdicts.md"), both);

    // A run at the other scale is marked.
    ebbpool.stdout(&reproduce(&["cfdc-priority", "--full"]));
    let page = ebbpool.text("reproduction/index.html");
    assert_eq!(sections(&page), ["cikm-table2", "cfdc-fig3", "cfdc-priority"]);
    assert!(page.contains("Full run.") && page.contains("Quick run."));
    let verdicts = ebbpool.text("reproduction/verdicts.md");
    for part in ["of 3 tables and figures, 2 quick and 1 full runs:", "| `cikm-table2` (quick) |", "| `cfdc-priority` (full) |"]
    {
        assert!(verdicts.contains(part), "no {part}: {verdicts}");
    }

    // A file that is no part is named and not used.
    ebbpool.file("reproduction/cikm-fig2.part.json", "{}");
    ebbpool.stdout(&reproduce(&["cfdc-fig3"]));
    let page = ebbpool.text("reproduction/index.html");
    assert_eq!(sections(&page).len(), 3);
    assert!(page.contains("cikm-fig2.part.json"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_the_earlier_results_in_the_index() {
    let ebbpool = Ebbpool::with_no_results();
    ebbpool.stdout(&reproduce(&["cikm-table2", "cfdc-fig3"]));
    let long = r#"
id = "long"
paper = "own"
number = "Figure 1"
title = "a long run"
basis = "counts"
[workloads]
"Zipf" = "zipf:pages=200000,refs=2000000000"
[policies]
"LRU" = "lru"
[setting]
frames = 1000
"#;
    ebbpool.file("long.toml", long);
    let child = ebbpool.started(&reproduce(&["cfdc-priority", "long.toml"]));
    let part = ebbpool.path("reproduction/cfdc-priority.part.json");
    wait_until("the first experiment", || part.exists());
    let output = interrupted(child);
    failed(&output, 130, &["interrupted:"]);
    let page = ebbpool.text("reproduction/index.html");
    assert_eq!(sections(&page), ["cikm-table2", "cfdc-fig3", "cfdc-priority"]);
}

#[test]
fn verdicts_on_computing_time_are_counted_apart() {
    let ebbpool = Ebbpool::with_no_results();
    let file = r#"
id = "timed"
paper = "own"
number = "Table 1"
title = "computing time"
basis = "counts"
kind = "timing"
[workloads]
"Zipf" = "zipf:pages=300,refs=3000"
[policies]
"LRU" = "lru"
"FIFO" = "fifo"
[setting]
frames = 30
[[claim]]
says = "a reference takes less than a second"
metric = "computing-ns"
bound = { policy = "LRU", at-most = 1e9 }
[[claim]]
says = "a reference takes no time"
metric = "computing-ns"
bound = { policy = "LRU", at-most = 0 }
[[claim]]
says = "a miss costs a read at least"
bound = { policy = "LRU", at-most = 100 }
"#;
    ebbpool.file("timed.toml", file);
    let sentence =
        "3 claims of 1 tables and figures, quick runs: 1 hold, 0 hold in part, 0 do not; 2 of computing time, which vary.";
    let output = ebbpool.run(&reproduce(&["timed.toml"]));
    let says = errors(&output);
    let line = "1 hold, 0 in part, 0 not; 2 of computing time, which vary;";
    assert!(says.contains(line), "{says}");
    let text = String::from_utf8(succeeded(output)).expect("text");
    let verdicts = ebbpool.text("reproduction/verdicts.md");
    let page = ebbpool.text("reproduction/index.html");
    for text in [&text, &verdicts, &page] {
        assert!(text.contains(sentence), "{text}");
        assert!(text.contains("does not hold (varies)"), "{text}");
    }
    let claims = &experiments(&ebbpool, &["timed.toml"])[0]["claims"];
    assert_eq!(claims[0]["computing_time"], true, "{claims}");
    assert!(claims[2]["computing_time"].is_null(), "{claims}");
}

#[test]
fn a_users_own_file_is_run_and_continued() {
    let ebbpool = Ebbpool::with_no_results();
    let file = r#"
id = "mine"
paper = "own"
number = "Figure 1"
title = "a small test"
basis = "counts"

[workloads]
"Zipf" = "zipf:pages=2000,refs=20000,write={write}"
"TM1" = { quick = "traces/pg-tatp.parquet", full = "traces/pg-tatp.parquet", quick-limit = 20000 }

[policies]
"LRU" = "lru"
"FD" = "fd-buffer:group=64"
"best static" = { best-of = "fd-static:clean={}", among = [1, 20, 50] }

[setting]
frames = 100
asymmetry = 8
warmup = "10%"

[vary]
write = [0.1, 0.5]

[[figure]]
panels = ["workload"]
x = "write"

[[figure]]
title = "clean pages over time"
panels = ["workload", "write"]
x = "references"
y = "clean"

[[claim]]
says = "wrong on purpose: LRU is the best of all"
where = { workload = "Zipf", write = 0.5 }
best = { policy = "LRU" }
why = "it knows nothing of costs"
"#;
    ebbpool.file("mine.toml", file);
    let args = ["mine.toml", "--policy", "arc,clock", "--jobs", "1"];
    let first = experiments(&ebbpool, &args);
    let experiment = &first[0];
    // 2 workloads, 2 shares of writes, 3 policies and 2 additional ones.
    assert_eq!(experiment["points"].as_array().map(Vec::len), Some(20));
    assert_eq!(values(experiment, "arc", "cost").len(), 4);
    assert_eq!(experiment["claims"][0]["verdict"], "does-not");
    assert_eq!(experiment["claims"][0]["why"], "it knows nothing of costs");
    assert_eq!(experiment["results_known"], 0);
    let computed = experiment["results_computed"].as_u64().expect("a count");
    assert!(computed >= 14, "{computed}");
    let statics = values(experiment, "best static", "cost");
    assert!(statics.iter().all(|cost| *cost > 0.0));
    let out = ebbpool.path("reproduction");
    for name in ["mine-1.svg", "mine-2.svg", "mine.csv", "mine-over-time.csv"] {
        assert!(out.join(name).exists(), "{name}");
    }

    // Stored results are not computed again, and they are equal.
    let again = experiments(&ebbpool, &args);
    assert_eq!(again[0]["results_computed"], 0);
    assert_eq!(again[0]["results_known"].as_u64(), Some(computed));
    assert_eq!(again[0]["points"], experiment["points"]);
    // For an additional policy only its own results are computed, as after an interruption.
    let more = ["mine.toml", "--policy", "arc,clock,sieve"];
    let more = experiments(&ebbpool, &more);
    assert_eq!(more[0]["results_known"].as_u64(), Some(computed));
    assert!(more[0]["results_computed"].as_u64().is_some_and(|new| (3..=4).contains(&new)));
}

#[test]
fn an_added_policy_changes_no_verdict() {
    let ebbpool = Ebbpool::with_no_results();
    let file = r#"
id = "mine"
paper = "own"
number = "Figure 1"
title = "a small test"
basis = "counts"
[workloads]
"Zipf" = "zipf:pages=300,refs=3000"
[policies]
"LRU" = "lru"
"FIFO" = "fifo"
[setting]
frames = 30
[[claim]]
says = "LRU is the best"
best = { policy = "LRU" }
[[claim]]
says = "the number of references was chosen so"
circular = "It was."
order = ["LRU", "FIFO"]
"#;
    ebbpool.file("mine.toml", file);
    let sentence =
        "2 claims of 1 tables and figures, quick runs: 1 hold, 0 hold in part, 0 do not; 1 circular, which show nothing.";
    let alone = ebbpool.stdout(&reproduce(&["mine.toml"]));
    assert!(alone.contains(sentence), "{alone}");
    // No policy misses less often than belady.
    let with_belady = ["mine.toml", "--policy", "belady"];
    let text = ebbpool.stdout(&reproduce(&with_belady));
    let verdicts = ebbpool.text("reproduction/verdicts.md");
    let page = ebbpool.text("reproduction/index.html");
    for text in [&text, &verdicts, &page] {
        assert!(text.contains(sentence), "{text}");
        assert!(text.contains("holds (circular)"), "{text}");
        assert!(text.contains("belady, which you have added"), "{text}");
        assert!(text.contains("better than LRU at 1 of 1 points"), "{text}");
        assert!(text.contains("not judged"), "{text}");
    }
    assert!(verdicts.contains("| holds (circular) | It was. |"));
    let claims = &experiments(&ebbpool, &with_belady)[0]["claims"];
    assert_eq!(claims[0]["verdict"], "holds", "{claims}");
    assert_eq!(claims[0]["guests"][0]["policy"], "belady", "{claims}");
    assert_eq!(claims[1]["circular"], "It was.", "{claims}");
    assert!(claims[1]["guests"].is_null(), "{claims}");
}

#[test]
fn cells_that_are_the_same_to_the_lab_are_points_of_their_own() {
    let ebbpool = Ebbpool::with_no_results();
    let file = r#"
id = "mine"
paper = "own"
number = "Table 1"
title = "two names of a policy, and a device with an asymmetry of its own"
basis = "counts"

[workloads]
"Zipf" = "zipf:pages=300,refs=3000"

[policies]
"short" = "fd-exact"
"long" = "fd-buffer:cost=exact"

[setting]
frames = 30

[vary]
device = ["none", "ssd1"]
asymmetry = [2, 8]
"#;
    ebbpool.file("mine.toml", file);
    let experiments = experiments(&ebbpool, &["mine.toml"]);
    let points = experiments[0]["points"].as_array().expect("points");
    let cost = |device: &str, asymmetry: &str, policy: &str| {
        let found = points
            .iter()
            .find(|point| point["device"] == device && point["asymmetry"] == asymmetry && point["policy"] == policy);
        found.expect("a point")["cost"].as_f64().expect("a cost")
    };
    for (device, asymmetry) in [("none", "2"), ("none", "8"), ("ssd1", "2"), ("ssd1", "8")] {
        let costs = ["short", "long"].map(|policy| cost(device, asymmetry, policy));
        assert_eq!(costs[0], costs[1]);
    }
    assert_eq!(cost("ssd1", "2", "long"), cost("ssd1", "8", "long"));
    assert_ne!(cost("none", "2", "long"), cost("none", "8", "long"));
}

#[test]
fn points_are_means_over_seeds_beside_bounds_and_families() {
    let ebbpool = Ebbpool::with_no_results();
    let file = r#"
id = "mine"
paper = "own"
number = "Table 1"
title = "a small test"
basis = "counts"

[workloads]
"Zipf" = "zipf:pages=300,refs=3000,seed={seed}"
"two days" = { is = ["zipf:pages=300,refs=1500,seed={seed}", "uniform:pages=300,refs=1500"] }
"always the same" = "uniform:pages=100,refs=1000"

[policies]
"ebb" = "ebb"
"published" = { each-of = "{}", among = "published" }
"hindsight best" = { best-of = "{}", among = "published" }
"lower bound" = "lower-bound"

[setting]
frames = 30
asymmetry = 8
seeds = [1, 2, 3]

[[figure]]
x = "workload"
ratio-to = "lower bound"
policies = ["ebb", "hindsight best"]

[[ranking]]
ratio-to = "hindsight best"

[[claim]]
says = "nothing is below the bound"
best = { policy = "lower bound" }

[[claim]]
says = "nothing published is better than the best of it"
fixed = { policy = "hindsight best", percent = 0 }
"#;
    ebbpool.file("mine.toml", file);
    refused(&ebbpool, &["mine.toml"], 1, "'hindsight best' is not the same policy at all points");
    let file = file.replace(
        r#"fixed = { policy = "hindsight best", percent = 0 }"#,
        r#"best = { policy = "hindsight best", against = ["published"] }"#,
    );
    ebbpool.file("mine.toml", file);
    let args = ["mine.toml"];
    let first = experiments(&ebbpool, &args);
    let experiment = &first[0];
    for claim in experiment["claims"].as_array().expect("claims") {
        assert_eq!(claim["verdict"], "holds", "{claim}");
    }
    let points = experiment["points"].as_array().expect("points");
    let of = |workload: &str, policy: &str| {
        let mut all = points.iter();
        all.find(|point| point["workload"] == workload && point["policy"] == policy)
            .unwrap_or_else(|| panic!("{policy} is missing"))
    };
    // The mean over the seeds equals the mean of single runs.
    let alone = |seed: u32| -> f64 {
        let trace = format!("zipf:pages=300,refs=3000,seed={seed}");
        let place = ["--policy", "lru", "--frames", "30", "--asymmetry", "8"];
        let result = ebbpool.json(&[&["run", &trace], &place[..]].concat());
        result["cost"].as_f64().expect("a cost")
    };
    let costs = [1, 2, 3].map(alone);
    let mean = costs.iter().sum::<f64>() / 3.0;
    let lru = of("Zipf", "lru");
    assert!((lru["cost"].as_f64().expect("a mean") - mean).abs() < 1e-12);
    let squares: f64 = costs.iter().map(|cost| (cost - mean).powi(2)).sum();
    // Student's t with 2 degrees of freedom.
    let half = 4.3027 * (squares / 2.0 / 3.0).sqrt();
    let interval = lru["cost_ci95"].as_f64().expect("an interval");
    assert!((interval / half - 1.0).abs() < 1e-3, "{interval}, {half}");
    for policy in ["ebb", "arc", "lower bound"] {
        assert_eq!(of("two days", policy)["seeds"], 3, "{policy}");
        assert_eq!(of("always the same", policy)["seeds"], 1, "{policy}");
        assert!(of("always the same", policy)["cost_ci95"].is_null());
    }
    let out = ebbpool.path("reproduction");
    let ranking = fs::read_to_string(out.join("mine-ranking.csv")).expect("the ranking");
    let ranked = |name: &str| ranking.lines().any(|line| line.starts_with(name));
    assert!(ranked("ebb,3,") && ranked("lru,3,") && !ranked("hindsight best"));
    for (name, says) in [
        ("mine.svg", "over lower bound"),
        ("mine.csv", ",seeds,cost,cost_ci95,"),
        ("verdicts.md", "| policy | geometric mean over hindsight best (worst)"),
        ("index.html", "mine-ranking.csv"),
    ] {
        let text = fs::read_to_string(out.join(name)).expect(name);
        assert!(text.contains(says), "{name} has no {says}");
    }
    // Bounds are stored like all results.
    let again = experiments(&ebbpool, &args);
    assert_eq!(again[0]["results_computed"], 0);
    assert_eq!(again[0]["points"], experiment["points"]);
}

#[cfg(unix)]
#[test]
fn a_file_replaces_the_devices() {
    let ebbpool = Ebbpool::with_no_results();
    let timed = r#"
id = "timed"
paper = "own"
number = "Figure 1"
title = "on devices"
basis = "device-model"
metric = "us-per-write"
[workloads]
"small" = "zipf:pages=200,refs=2000,write=0.5"
"large" = "zipf:pages=300,refs=2000,write=0.5"
[policies]
"LRU" = "lru"
"CFDC" = "cfdc"
[setting]
frames = 20
[vary]
device = ["ssd1", "ssd2"]
[[figure]]
x = "workload"
bars = true
[[claim]]
says = "of one device"
where = { device = "ssd1" }
order = ["LRU", "CFDC"]
[[claim]]
says = "a write takes its time"
bound = { policy = "LRU", at-most = 1e9 }
"#;
    ebbpool.file("timed.toml", timed);
    let file = ["timed.toml", "--file", "pages"];
    let all = experiments(&ebbpool, &file);
    let claims = all[0]["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 1, "{claims:?}");
    assert_eq!(claims[0]["verdict"], "holds", "{claims:?}");
    let verdicts = ebbpool.text("reproduction/verdicts.md");
    assert!(verdicts.contains("| `timed` (on pages) |"), "{verdicts}");
    assert!(verdicts.contains("quick runs, 1 of them on a file:"));
    for metric in ["us_per_write", "seconds", "cost_us", "reads", "writes"] {
        let measured = values(&all[0], "CFDC", metric);
        assert_eq!(measured.len(), 2, "{metric}");
        assert!(measured.iter().all(|&value| value > 0.0), "{metric}");
    }
    // The counts equal those of the simulator.
    let simulated = experiments(&ebbpool, &["timed.toml"]);
    let writes = values(&all[0], "LRU", "writes");
    let mut twice: Vec<f64> = writes.iter().flat_map(|&writes| [writes; 2]).collect();
    twice.sort_by(f64::total_cmp);
    let mut simulated = values(&simulated[0], "LRU", "writes");
    simulated.sort_by(f64::total_cmp);
    assert_eq!(simulated, twice);

    ebbpool.file("foreign", "a user's");
    refused(&ebbpool, &["timed.toml", "--file", "foreign"], 1, "is not a file of ebbpool replay");
    assert_eq!(fs::read(ebbpool.path("foreign")).expect("the file"), b"a user's");
    refused(&ebbpool, &["cikm-table2", "--file", "pages"], 2, "'cikm-table2' has no device");
}
