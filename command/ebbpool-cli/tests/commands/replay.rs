//! Tests of `ebbpool replay`: it has the counts of `run`, and it does not destroy foreign files.
#![cfg(unix)]

use std::fs;

use serde_json::Value;

use crate::harness::{Ebbpool, failed, interrupted, number, wait_until};

crate::table::table!("replay");

const TRACE: &str = "scan-mix:pages=500,refs=12000,scans=4,scan-length=80,write=0.35,seed=3";

/// The engines that this system has.
fn engines(ebbpool: &Ebbpool) -> Vec<&'static str> {
    let probe = [
        "replay", "uniform:pages=8,refs=8", "--file", "probe", "--create", "--overwrite", "--policy", "lru", "--frames", "2",
        "--io", "uring",
    ];
    match ebbpool.run(&probe).status.code() {
        Some(0) => vec!["threads", "uring"],
        _ => vec!["threads"],
    }
}

const COUNTED: [&str; 20] = [
    "trace", "policy", "frames", "asymmetry", "references", "warmup", "distinct_pages", "hits", "misses", "reads", "writes",
    "dirty_left", "hit_ratio", "cost", "cluster_switches", "cluster_switch_factor", "padding_reads", "device", "overwrites",
    "trimmed",
];

/// Runs `run` and `replay` with the same arguments, and compares their counts and events.
fn same_as_run(ebbpool: &Ebbpool, shared: &[&str], place: &[&str]) -> Value {
    same_as_run_of(ebbpool, TRACE, shared, place)
}

fn same_as_run_of(ebbpool: &Ebbpool, trace: &str, shared: &[&str], place: &[&str]) -> Value {
    let run = [&["run", trace], shared, &["--events", "run.txt"]].concat();
    let replay = [&["replay", trace], shared, place, &["--events", "replay.txt"]].concat();
    let simulated = ebbpool.json(&run);
    let replayed = ebbpool.json(&replay);
    for name in COUNTED {
        assert_eq!(replayed[name], simulated[name], "{name} of {replay:?}");
    }
    let events = ebbpool.text("run.txt");
    assert!(events.lines().count() > 1000, "{}", events.lines().count());
    assert!(events == ebbpool.text("replay.txt"), "events of {replay:?}");
    replayed
}

#[test]
fn one_thread_on_a_real_file_has_the_counts_of_run() {
    let ebbpool = Ebbpool::in_scratch();
    let policies = [
        "lru", "clock", "cflru:window=0.3", "cfdc:cluster=32", "fd-buffer:interval=500", "casa", "arc",
        "ace:policy=(cflru:window=0.3),batch=5",
    ];
    for io in engines(&ebbpool) {
        // The engine does not see the policy.
        let tried = if io == "threads" { policies.len() } else { 2 };
        for (at, policy) in policies.iter().take(tried).enumerate() {
            let shared = ["--policy", policy, "--frames", "40", "--asymmetry", "8"];
            let ending = match at % 2 {
                0 => ["--warmup", "10%", "--at-end", "flush"],
                _ => ["--warmup", "0", "--at-end", "free"],
            };
            let place = ["--file", "pages", "--create", "--io", io];
            let result = same_as_run(&ebbpool, &[&shared[..], &ending].concat(), &place);
            assert_eq!(result["page_size"], 4096);
            assert_eq!(result["bytes_written"], result["writes"].as_u64().expect("writes") * 4096);
            assert!(result["verified_pages"].as_u64().expect("some") > 100, "{result}");
            assert!(result["read_us"].as_f64().expect("a time") > 0.0, "{result}");
            let storage = result["storage"].as_str().expect("a description");
            let engine = if io == "uring" { "io_uring" } else { "threads" };
            assert!(storage.contains(engine), "{storage}");
        }
    }
    let pages = fs::metadata(ebbpool.path("pages")).expect("a file").len() / 4096;
    assert!(pages >= 500, "{pages}");
}

/// `replay` has the counts of `run` also with the policies of servers, where they do nothing beside replacement.
#[test]
fn policies_of_servers_that_only_replace_have_the_counts_of_run() {
    let ebbpool = Ebbpool::in_scratch();
    for policy in ["innodb:max_dirty_pages_pct=100", "sqlite", "postgres", "postgres:rate=1000,bgwriter_lru_maxpages=0"] {
        let shared = ["--policy", policy, "--frames", "40", "--asymmetry", "8"];
        same_as_run(&ebbpool, &shared, &["--memory"]);
    }
}

#[test]
fn trims_and_whole_writes_have_the_counts_of_run() {
    let ebbpool = Ebbpool::in_scratch();
    let mut trace = String::from("# ebbpool.operations=true\n");
    let mut dice = 1_u64;
    let mut draw = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    for _ in 0..8000 {
        let page = draw(300) * draw(300) / 300;
        trace += &match draw(20) {
            0..8 => format!("R {page}\n"),
            8..14 => format!("W {page}\n"),
            14..18 => format!("O {page}\n"),
            _ => format!("T {page} {}\n", 1 + draw(6)),
        };
    }
    fs::write(ebbpool.path("operations.txt"), trace).expect("a file");
    let policies = [
        "lru", "clock", "cflru", "cfdc", "fd-buffer", "ad-lru", "bplru", "arc", "lirs", "s3-fifo", "cacheus", "auto", "ebb",
        "postgres",
    ];
    for policy in policies {
        let shared = ["--policy", policy, "--frames", "40", "--asymmetry", "8"];
        let result = same_as_run_of(&ebbpool, "operations.txt", &shared, &["--memory"]);
        assert!(result["trimmed"].as_u64() > Some(50) && result["overwrites"].as_u64() > Some(100), "{result}");
    }
}

/// The time of the write of a page that the warm-up left dirty is left out, as the write is.
#[test]
fn the_time_on_the_bill_is_that_of_the_writes_on_the_bill() {
    let ebbpool = Ebbpool::in_scratch();
    let example = "R 1\nW 17\nW 1\nR 33\nW 2\nW 33\nR 3\n";
    fs::write(ebbpool.path("example.txt"), example).expect("a trace");
    let replay = ["replay", "example.txt", "--memory", "--policy", "lru"];
    let more = ["--frames", "2", "--warmup", "2", "--asymmetry", "32"];
    let result = ebbpool.json(&[&replay[..], &more].concat());
    let figure = |name: &str| result[name].as_f64().expect(name);
    assert_eq!((figure("reads"), figure("writes")), (3.0, 3.0));
    let written = result["pages_written"].as_object().expect("by cause");
    let written: u64 = written.values().filter_map(Value::as_u64).sum();
    assert_eq!(written, 4);
    let expected = figure("reads") * figure("read_us") + figure("writes") * figure("write_us");
    let found = figure("cost_us") * figure("references");
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} and {expected}");
}

#[test]
fn other_storages_and_sizes_have_the_same_counts() {
    let ebbpool = Ebbpool::in_scratch();
    let policy = ["--policy", "cflru", "--frames", "0.6%", "--asymmetry", "32"];
    same_as_run(&ebbpool, &policy, &["--memory"]);
    let small = ["--file", "small", "--create", "--buffered"];
    let sized = [&policy[..], &["--page-size", "512", "--cluster-size", "4"]].concat();
    let result = same_as_run(&ebbpool, &sized, &small);
    assert_eq!(result["page_size"], 512);
    let storage = result["storage"].as_str().expect("a description");
    assert!(storage.contains("buffered"), "{storage}");
}

#[test]
fn dirty_pages_at_the_end_are_counted_unless_they_are_free() {
    let ebbpool = Ebbpool::in_scratch();
    let place = ["--memory", "--policy", "lru", "--frames", "400", "--asymmetry", "8"];
    let free = [&["replay", TRACE, "--at-end", "free"], &place[..]].concat();
    let free = ebbpool.json(&free);
    let flush = ebbpool.json(&[&["replay", TRACE], &place[..]].concat());
    let count = |result: &Value, name: &str| result[name].as_u64().expect("a count");
    let left = count(&free, "dirty_left");
    assert!(left > 50, "{left}");
    assert_eq!(count(&flush, "dirty_left"), 0);
    assert_eq!(count(&flush, "end_writes"), left);
    assert_eq!(count(&flush, "writes"), count(&free, "writes") + left);
    assert_eq!(flush["pages_written"]["checkpoint"], left);
    assert_eq!(free["pages_written"]["checkpoint"], 0);
}

#[test]
fn the_recorded_trace_equals_the_replayed_one() {
    let ebbpool = Ebbpool::in_scratch();
    let place = ["--memory", "--policy", "lru", "--frames", "50", "--asymmetry", "8"];
    let record = ["--record", "as-fixed.parquet"];
    let first = ebbpool.json(&[&["replay", TRACE], &place[..], &record].concat());
    let of_trace = ebbpool.stdout(&["trace", "info", TRACE, "--format", "json"]);
    let again = ebbpool.stdout(&["trace", "info", "as-fixed.parquet", "--format", "json"]);
    let strip = |info: &str| {
        let mut info: Value = serde_json::from_str(info).expect("JSON");
        for name in ["name", "format", "page_size"] {
            info[name] = Value::Null;
        }
        info
    };
    assert_eq!(strip(&again), strip(&of_trace));
    for name in ["a.txt", "b.txt"] {
        let from = if name == "a.txt" { TRACE } else { "as-fixed.parquet" };
        ebbpool.stdout(&["trace", "convert", from, name]);
    }
    let references = |name: &str| -> Vec<String> {
        let text = ebbpool.text(name);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_string).collect()
    };
    assert_eq!(references("b.txt"), references("a.txt"));
    let lab = ["run", "as-fixed.parquet", "--policy", "lru", "--frames", "50"];
    let lab = ebbpool.json(&lab);
    for name in ["hits", "reads", "writes", "distinct_pages"] {
        assert_eq!(lab[name], first[name], "{name}");
    }
    let threads = [&["replay", TRACE, "--threads", "3"], &place[..], &record].concat();
    let result = ebbpool.json(&threads);
    let again = ebbpool.json(&["trace", "info", "as-fixed.parquet"]);
    assert_eq!(again["references"], result["references"]);
    let of_trace: Value = serde_json::from_str(&of_trace).expect("JSON");
    for name in ["references", "writes", "distinct_pages"] {
        assert_eq!(again[name], of_trace[name], "{name}");
    }
}

#[test]
fn foreign_files_are_not_changed() {
    let ebbpool = Ebbpool::in_scratch();
    let foreign = vec![7u8; 3_000_000];
    fs::write(ebbpool.path("foreign"), &foreign).expect("a file");
    let replay = |more: &[&'static str]| -> Vec<&'static str> {
        [&["replay", TRACE, "--policy", "lru", "--frames", "20"], more].concat()
    };
    let on = |name: &'static str| replay(&["--file", name]);
    ebbpool.refused(&on("missing"), 2, &["missing", "does not exist", "--create"]);
    assert!(!ebbpool.path("missing").exists());
    ebbpool.refused(&on("foreign"), 2, &["not a file of ebbpool replay", "--overwrite"]);
    let create = replay(&["--file", "foreign", "--create"]);
    ebbpool.refused(&create, 2, &["not a file of ebbpool replay"]);
    assert!(fs::read(ebbpool.path("foreign")).expect("bytes") == foreign);
    fs::write(ebbpool.path("empty"), "").expect("a file");
    ebbpool.refused(&on("empty"), 2, &["is empty", "--create"]);
    ebbpool.refused(&on("."), 2, &["neither a file"]);

    let device = replay(&["--file", "/dev/null", "--overwrite"]);
    ebbpool.refused(&device, 2, &["error: /dev/null: is neither a file"]);

    // A file that is too short or has another page size is refused, or overwritten with `--create`.
    let short = ["replay", "uniform:pages=64,refs=500", "--policy", "lru", "--frames", "9"];
    let made = [&short[..], &["--file", "short", "--create"]].concat();
    ebbpool.stdout(&made);
    let before = fs::read(ebbpool.path("short")).expect("bytes");
    assert_eq!(before.len(), 64 * 4096);
    ebbpool.refused(&on("short"), 2, &["has 64 pages", "--create"]);
    let other = [&short[..], &["--file", "short", "--page-size", "8192"]].concat();
    ebbpool.refused(&other, 2, &["4096 bytes", "8192"]);
    assert!(fs::read(ebbpool.path("short")).expect("bytes") == before);
    ebbpool.stdout(&[&other[..], &["--create"]].concat());
    let overwritten = fs::read(ebbpool.path("short")).expect("bytes");
    assert_eq!(overwritten.len(), 64 * 8192);

    // A file of a pool that does not belong to a replay is foreign too.
    let mut pool_of_others = before.clone();
    pool_of_others[32..40].fill(b'x');
    fs::write(ebbpool.path("others"), &pool_of_others).expect("a file");
    ebbpool.refused(&on("others"), 2, &["not a file of ebbpool replay"]);

    // A damaged file is refused.
    let mut damaged = before;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    fs::write(ebbpool.path("damaged"), &damaged).expect("a file");
    let again = [&short[..], &["--file", "damaged"]].concat();
    ebbpool.refused(&again, 2, &["an incomplete file", "checksum"]);

    let overwrite = replay(&["--file", "foreign", "--overwrite"]);
    let output = ebbpool.run(&overwrite);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("its old contents are lost"), "{notes}");
    assert!(on("foreign") == replay(&["--file", "foreign"]));
    ebbpool.stdout(&on("foreign"));
}

#[test]
fn several_threads_replay_every_reference() {
    let ebbpool = Ebbpool::in_scratch();
    let place = ["--file", "pages", "--create", "--frames", "60", "--threads", "4"];
    for more in [
        &["--policy", "cflru"][..],
        &["--policy", "casa", "--background"],
        &["--policy", "lru", "--background", "--read-ahead", "8", "--at-end", "flush"],
    ] {
        let args = [&["replay", TRACE, "--warmup", "1000"], &place[..], more].concat();
        let result = ebbpool.json(&args);
        let count = |name: &str| result[name].as_u64().expect("a count");
        let of_trace = ebbpool.json(&["trace", "info", TRACE]);
        let references = of_trace["references"].as_u64().expect("a count");
        assert_eq!(count("references"), references - 1000, "{result}");
        assert_eq!(count("hits") + count("misses"), count("references"), "{result}");
        assert_eq!(count("distinct_pages"), of_trace["distinct_pages"], "{result}");
        assert!(count("writes") > 500 && count("cluster_switches") > 300, "{result}");
        assert!(count("verified_pages") > 100, "{result}");
        assert_eq!(result["threads"], 4);
        assert!(result["asymmetry"].as_f64().expect("measured") > 0.0, "{result}");
        let sum = |name: &str| -> u64 {
            let causes = result[name].as_object().expect("causes").values();
            causes.map(|pages| pages.as_u64().expect("a count")).sum()
        };
        // Those that the warm-up left dirty are written, and not counted.
        assert_eq!(sum("pages_written"), count("writes") + count("dirty_before"));
        assert_eq!(sum("pages_read"), count("reads") + count("padding_reads"));
    }
}

/// Each page is written once: it reaches storage, or ends, or stays dirty.
#[test]
fn a_page_that_ends_beside_a_background_writer_is_counted_once() {
    let ebbpool = Ebbpool::in_scratch();
    let mut trace = String::from("# ebbpool.operations=true\n");
    for page in 0..6000 {
        trace += &format!("W {page}\n");
        if page % 64 == 63 {
            trace += &format!("T {} 40\n", page - 60);
        }
    }
    fs::write(ebbpool.path("ends.txt"), trace).expect("a file");
    let args = ["replay", "ends.txt", "--file", "pages", "--create", "--frames", "100", "--policy", "cflru", "--background"];
    let result = ebbpool.json(&args);
    let count = |name: &str| result[name].as_u64().expect("a count");
    assert_eq!(count("writes") + count("trimmed") + count("dirty_left"), 6000, "{result}");
}

#[test]
fn policies_are_charged_at_one_asymmetry() {
    let ebbpool = Ebbpool::in_scratch();
    let args = ["replay", TRACE, "--file", "pages", "--create", "--frames", "60", "--policies", "lru,cflru:window=0.5,fifo"];
    let results = ebbpool.json(&args);
    let results = results.as_array().expect("a list");
    let figure = |result: &Value, name: &str| result[name].as_f64().expect("a figure");
    let ratio = figure(&results[0], "asymmetry");
    let mut product = 1.0;
    for result in results {
        assert_eq!(figure(result, "asymmetry"), ratio);
        product *= figure(result, "measured_asymmetry");
        let bill = figure(result, "reads") + ratio * figure(result, "writes");
        let expected = bill / figure(result, "references");
        assert!((figure(result, "cost") / expected - 1.0).abs() < 1e-9, "{result}");
    }
    assert!((product.cbrt() / ratio - 1.0).abs() < 1e-6, "{product} {ratio}");
    let table = ebbpool.stdout(&args);
    assert!(table.contains("bill per reference at R = "), "{table}");
    let header = table.lines().find(|line| line.contains("written"));
    assert!(header.is_some_and(|line| line.contains(" R ")), "{table}");
}

#[test]
fn an_interrupted_replay_prints_its_counts_and_leaves_the_file_intact() {
    let ebbpool = Ebbpool::in_scratch();
    let long = "uniform:pages=4000,refs=50000000,write=0.5";
    let replay = ["replay", long, "--file", "pages", "--frames", "50", "--policy", "lru"];
    let short = ["--limit", "500"];
    ebbpool.stdout(&[&replay[..], &short, &["--create"]].concat());
    let pages = || fs::read(ebbpool.path("pages")).expect("a file");
    let before = pages();
    let args = [&replay[..], &["--format", "json"]].concat();
    let child = ebbpool.command(&args).spawn().expect("ebbpool starts");
    wait_until("a thousand pages are written", || {
        let now = pages();
        let both = before.chunks(4096).zip(now.chunks(4096));
        both.filter(|(before, now)| before != now).count() >= 1000
    });
    let output = interrupted(child);
    failed(&output, 130, &["interrupted after"]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["interrupted"], true);
    let done = number(&result["references"]);
    assert!(done > 1000 && done < 50_000_000, "{done}");
    assert_eq!(number(&result["hits"]) + number(&result["misses"]), done);
    assert!(number(&result["verified_pages"]) > 10);
    ebbpool.stdout(&[&replay[..], &short].concat());
}

mod slow {
    crate::table::table!("replay_slow");
}
