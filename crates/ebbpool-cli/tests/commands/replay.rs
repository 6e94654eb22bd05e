//! `ebbpool replay` as its users meet it: the counts of `run`, on real files that it does not lose.
#![cfg(unix)]

use std::fs;

use serde_json::Value;

use crate::harness::{Ebbpool, errors, interrupted, number, wait_until};

const TRACE: &str = "scan-mix:pages=500,refs=12000,scans=4,scan-length=80,write=0.35,seed=3";

/// The engines that this system has.
fn engines(ebbpool: &Ebbpool) -> Vec<&'static str> {
    let probe = [
        "replay",
        "uniform:pages=8,refs=8",
        "--file",
        "probe",
        "--create",
        "--overwrite",
        "--policy",
        "lru",
        "--frames",
        "2",
        "--io",
        "uring",
    ];
    match ebbpool.run(&probe).status.code() {
        Some(0) => vec!["threads", "uring"],
        _ => vec!["threads"],
    }
}

const COUNTED: [&str; 18] = [
    "trace",
    "policy",
    "frames",
    "asymmetry",
    "references",
    "warmup",
    "distinct_pages",
    "hits",
    "misses",
    "reads",
    "writes",
    "dirty_left",
    "hit_ratio",
    "cost",
    "cluster_switches",
    "cluster_switch_factor",
    "padding_reads",
    "device",
];

/// Runs both with the same arguments; counts and events must be the same.
fn same_as_run(ebbpool: &Ebbpool, shared: &[&str], place: &[&str]) -> Value {
    let run = [&["run", TRACE], shared, &["--events", "run.txt"]].concat();
    let replay = [
        &["replay", TRACE],
        shared,
        place,
        &["--events", "replay.txt"],
    ]
    .concat();
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
fn one_thread_on_a_real_file_counts_what_run_counts() {
    let ebbpool = Ebbpool::in_scratch();
    let policies = [
        "lru",
        "clock",
        "cflru:window=0.3",
        "cfdc:cluster=32",
        "fd-buffer:interval=500",
        "casa",
        "arc",
        "ace:policy=(cflru:window=0.3),batch=5",
    ];
    for io in engines(&ebbpool) {
        for (at, policy) in policies.iter().enumerate() {
            let shared = ["--policy", policy, "--frames", "40", "--asymmetry", "8"];
            let ending = match at % 2 {
                0 => ["--warmup", "10%", "--at-end", "flush"],
                _ => ["--warmup", "0", "--at-end", "free"],
            };
            let place = ["--file", "pages", "--create", "--io", io];
            let told = same_as_run(&ebbpool, &[&shared[..], &ending].concat(), &place);
            assert_eq!(told["page_size"], 4096);
            assert_eq!(
                told["bytes_written"],
                told["writes"].as_u64().expect("writes") * 4096
            );
            assert!(
                told["verified_pages"].as_u64().expect("some") > 100,
                "{told}"
            );
            assert!(told["read_us"].as_f64().expect("a time") > 0.0, "{told}");
            let storage = told["storage"].as_str().expect("a description");
            let engine = if io == "uring" { "io_uring" } else { "threads" };
            assert!(storage.contains(engine), "{storage}");
        }
    }
    let pages = fs::metadata(ebbpool.path("pages")).expect("a file").len() / 4096;
    assert!(pages >= 500, "{pages}");
}

#[test]
fn every_other_way_counts_the_same() {
    let ebbpool = Ebbpool::in_scratch();
    let policy = ["--policy", "cflru", "--frames", "0.6%", "--asymmetry", "32"];
    same_as_run(&ebbpool, &policy, &["--memory"]);
    let small = ["--file", "small", "--create", "--buffered"];
    let sized = [&policy[..], &["--page-size", "512", "--cluster-size", "4"]].concat();
    let told = same_as_run(&ebbpool, &sized, &small);
    assert_eq!(told["page_size"], 512);
    let storage = told["storage"].as_str().expect("a description");
    assert!(storage.contains("buffered"), "{storage}");
}

#[test]
fn a_flush_at_the_end_is_counted_and_otherwise_is_not() {
    let ebbpool = Ebbpool::in_scratch();
    let place = [
        "--memory",
        "--policy",
        "lru",
        "--frames",
        "400",
        "--asymmetry",
        "8",
    ];
    let free = ebbpool.json(&[&["replay", TRACE], &place[..]].concat());
    let flush = [&["replay", TRACE, "--at-end", "flush"], &place[..]].concat();
    let flush = ebbpool.json(&flush);
    let count = |told: &Value, name: &str| told[name].as_u64().expect("a count");
    let left = count(&free, "dirty_left");
    assert!(left > 50, "{left}");
    assert_eq!(count(&flush, "dirty_left"), 0);
    assert_eq!(count(&flush, "writes"), count(&free, "writes") + left);
    assert_eq!(flush["pages_written"]["checkpoint"], left);
    assert_eq!(free["pages_written"]["checkpoint"], 0);
}

#[test]
fn what_is_recorded_is_what_was_replayed() {
    let ebbpool = Ebbpool::in_scratch();
    let place = [
        "--memory",
        "--policy",
        "lru",
        "--frames",
        "50",
        "--asymmetry",
        "8",
    ];
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
        let from = if name == "a.txt" {
            TRACE
        } else {
            "as-fixed.parquet"
        };
        ebbpool.stdout(&["trace", "convert", from, name]);
    }
    let references = |name: &str| -> Vec<String> {
        let text = ebbpool.text(name);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_string).collect()
    };
    assert_eq!(references("b.txt"), references("a.txt"));
    let lab = [
        "run",
        "as-fixed.parquet",
        "--policy",
        "lru",
        "--frames",
        "50",
    ];
    let lab = ebbpool.json(&lab);
    for name in ["hits", "reads", "writes", "distinct_pages"] {
        assert_eq!(lab[name], first[name], "{name}");
    }
    let threads = [&["replay", TRACE, "--threads", "3"], &place[..], &record].concat();
    let told = ebbpool.json(&threads);
    let again = ebbpool.json(&["trace", "info", "as-fixed.parquet"]);
    assert_eq!(again["references"], told["references"]);
    let of_trace: Value = serde_json::from_str(&of_trace).expect("JSON");
    for name in ["references", "writes", "distinct_pages"] {
        assert_eq!(again[name], of_trace[name], "{name}");
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let ebbpool = Ebbpool::in_scratch();
    let foreign = vec![7u8; 3_000_000];
    fs::write(ebbpool.path("foreign"), &foreign).expect("a file");
    let replay = |more: &[&'static str]| -> Vec<&'static str> {
        [
            &["replay", TRACE, "--policy", "lru", "--frames", "20"],
            more,
        ]
        .concat()
    };
    let on = |name: &'static str| replay(&["--file", name]);
    ebbpool.refused(&on("missing"), 2, &["missing", "is not there", "--create"]);
    assert!(!ebbpool.path("missing").exists());
    ebbpool.refused(
        &on("foreign"),
        2,
        &["not a file of ebbpool replay", "--overwrite"],
    );
    let create = replay(&["--file", "foreign", "--create"]);
    ebbpool.refused(&create, 2, &["not a file of ebbpool replay"]);
    assert!(fs::read(ebbpool.path("foreign")).expect("bytes") == foreign);
    fs::write(ebbpool.path("empty"), "").expect("a file");
    ebbpool.refused(&on("empty"), 2, &["is empty", "--create"]);
    ebbpool.refused(&on("."), 2, &["neither a file"]);

    let device = replay(&["--file", "/dev/null", "--overwrite"]);
    ebbpool.refused(&device, 2, &["error: /dev/null: is neither a file"]);

    // Too short a file and other page sizes are told, and the file is made anew if that is asked for.
    let short = [
        "replay",
        "uniform:pages=64,refs=500",
        "--policy",
        "lru",
        "--frames",
        "9",
    ];
    let made = [&short[..], &["--file", "short", "--create"]].concat();
    ebbpool.stdout(&made);
    let before = fs::read(ebbpool.path("short")).expect("bytes");
    assert_eq!(before.len(), 64 * 4096);
    ebbpool.refused(&on("short"), 2, &["has 64 pages", "--create"]);
    let other = [&short[..], &["--file", "short", "--page-size", "8192"]].concat();
    ebbpool.refused(&other, 2, &["4096 bytes", "8192"]);
    assert!(fs::read(ebbpool.path("short")).expect("bytes") == before);
    ebbpool.stdout(&[&other[..], &["--create"]].concat());
    let anew = fs::read(ebbpool.path("short")).expect("bytes");
    assert_eq!(anew.len(), 64 * 8192);

    // Pages of a pool that are not a replay's are somebody's too.
    let mut pool_of_others = before.clone();
    pool_of_others[32..40].fill(b'x');
    fs::write(ebbpool.path("others"), &pool_of_others).expect("a file");
    ebbpool.refused(&on("others"), 2, &["not a file of ebbpool replay"]);

    // One that is damaged is not replayed on.
    let mut damaged = before;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    fs::write(ebbpool.path("damaged"), &damaged).expect("a file");
    let again = [&short[..], &["--file", "damaged"]].concat();
    ebbpool.refused(&again, 2, &["no whole file", "checksum"]);

    let anew = replay(&["--file", "foreign", "--overwrite"]);
    let output = ebbpool.run(&anew);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("what was in it is lost"), "{notes}");
    assert!(on("foreign") == replay(&["--file", "foreign"]));
    ebbpool.stdout(&on("foreign"));
}

#[test]
fn wrong_usage_is_told() {
    let ebbpool = Ebbpool::in_scratch();
    let on = |more: &[&'static str]| -> Vec<&'static str> {
        [&["replay", TRACE, "--memory", "--frames", "20"], more].concat()
    };
    ebbpool.refused(&on(&["--policy", "belady"]), 2, &["references to come"]);
    ebbpool.refused(&on(&["--policies", "lru,belady"]), 2, &["belady"]);
    ebbpool.refused(
        &on(&["--policy", "lru", "--page-size", "3000"]),
        2,
        &["power of two"],
    );
    ebbpool.refused(
        &on(&["--policy", "lru", "--warmup", "100%"]),
        2,
        &["--warmup"],
    );
    ebbpool.refused(&on(&["--policy", "lru", "--file", "x"]), 2, &["--memory"]);
    ebbpool.refused(&on(&[]), 2, &["--policy"]);
    fs::write(ebbpool.path("far.txt"), "R 1\nW 9000000000000000\n").expect("a trace");
    let far = [
        "replay", "far.txt", "--memory", "--frames", "2", "--policy", "lru",
    ];
    ebbpool.refused(&far, 2, &["number its pages from 0"]);
    fs::write(ebbpool.path("last.txt"), "R 18446744073709551615\n").expect("a trace");
    let last = [
        "replay", "last.txt", "--memory", "--frames", "2", "--policy", "lru",
    ];
    ebbpool.refused(&last, 2, &["number the pages"]);
}

#[test]
fn several_threads_replay_every_reference() {
    let ebbpool = Ebbpool::in_scratch();
    let place = [
        "--file",
        "pages",
        "--create",
        "--frames",
        "60",
        "--threads",
        "4",
    ];
    for more in [
        &["--policy", "cflru"][..],
        &["--policy", "casa", "--background"],
        &[
            "--policy",
            "lru",
            "--background",
            "--read-ahead",
            "8",
            "--at-end",
            "flush",
        ],
    ] {
        let args = [&["replay", TRACE, "--warmup", "1000"], &place[..], more].concat();
        let told = ebbpool.json(&args);
        let count = |name: &str| told[name].as_u64().expect("a count");
        let of_trace = ebbpool.json(&["trace", "info", TRACE]);
        let references = of_trace["references"].as_u64().expect("a count");
        assert_eq!(count("references"), references - 1000, "{told}");
        assert_eq!(
            count("hits") + count("misses"),
            count("references"),
            "{told}"
        );
        assert_eq!(
            count("distinct_pages"),
            of_trace["distinct_pages"],
            "{told}"
        );
        assert!(
            count("writes") > 500 && count("cluster_switches") > 300,
            "{told}"
        );
        assert!(count("verified_pages") > 100, "{told}");
        assert_eq!(told["threads"], 4);
        assert!(
            told["asymmetry"].as_f64().expect("measured") > 0.0,
            "{told}"
        );
        let sum = |name: &str| -> u64 {
            let causes = told[name].as_object().expect("causes").values();
            causes.map(|pages| pages.as_u64().expect("a count")).sum()
        };
        assert_eq!(sum("pages_written"), count("writes"));
        assert_eq!(sum("pages_read"), count("reads") + count("padding_reads"));
    }
}

#[test]
fn policies_are_compared_on_the_same_file() {
    let ebbpool = Ebbpool::in_scratch();
    let args = [
        "replay",
        TRACE,
        "--file",
        "pages",
        "--create",
        "--frames",
        "60",
        "--policies",
        "lru,cflru:window=0.5",
        "--asymmetry",
        "8",
    ];
    let told = ebbpool.json(&args);
    let told = told.as_array().expect("a list");
    assert_eq!(told.len(), 2);
    for (told, policy) in told.iter().zip(["lru", "cflru:window=0.5"]) {
        let alone = ebbpool.json(&[
            "run",
            TRACE,
            "--policy",
            policy,
            "--frames",
            "60",
            "--asymmetry",
            "8",
        ]);
        for name in ["policy", "reads", "writes", "dirty_left", "cost"] {
            assert_eq!(told[name], alone[name], "{name} of {policy}");
        }
    }
    let table = ebbpool.stdout(&args);
    let header = table.lines().find(|line| line.contains("written"));
    assert!(
        header.is_some_and(|line| line.contains("seconds")),
        "{table}"
    );
    assert_eq!(
        table.lines().filter(|line| line.contains("MiB")).count(),
        2,
        "{table}"
    );
}

#[test]
fn an_interrupt_prints_what_was_done_and_leaves_the_file_whole() {
    let ebbpool = Ebbpool::in_scratch();
    let long = "uniform:pages=4000,refs=50000000,write=0.5";
    let replay = [
        "replay", long, "--file", "pages", "--frames", "50", "--policy", "lru",
    ];
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
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("interrupted after"), "{message}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["interrupted"], true);
    let done = number(&told["references"]);
    assert!(done > 1000 && done < 50_000_000, "{done}");
    assert_eq!(number(&told["hits"]) + number(&told["misses"]), done);
    assert!(number(&told["verified_pages"]) > 10);
    ebbpool.stdout(&[&replay[..], &short].concat());
}
