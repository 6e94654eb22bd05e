//! Quantities on the command line: sizes in frames, per cent and bytes, pages, rates and bytes per day, and how sizes
//! are printed.

use serde_json::Value;

use crate::harness::{Ebbpool, SMALL_FLASH, number};

/// A trace that states no page size.
const TRACE: &str = "zipf:pages=2000,refs=20000,write=0.3";

/// 1 MiB in frames of 4 KiB.
const FRAMES: u64 = 256;

const PAGES: [&str; 2] = ["--page-size", "4k"];

#[test]
fn memory_in_bytes_is_as_many_frames_as_pages_fit() {
    let ebbpool = Ebbpool::in_scratch();
    let json = |args: &[&str]| ebbpool.json(&[args, &PAGES].concat());
    let run = |frames: &str| json(&["run", TRACE, "--policy", "lru", "--frames", frames]);
    let in_frames = run("256");
    assert_eq!((number(&in_frames["frames"]), number(&in_frames["page_size"])), (FRAMES, 4096));
    for bytes in ["1MiB", "1m", "1048576B", "1.05MB", "1024 KiB"] {
        let in_bytes = run(bytes);
        for field in ["frames", "reads", "writes", "cost"] {
            assert_eq!(in_bytes[field], in_frames[field], "{bytes}: {field}");
        }
    }
    assert_eq!(number(&run("1B")["frames"]), 1);

    let compare = ["compare", TRACE, "--policies", "lru", "--asymmetry", "8", "--frames", "1MiB,512k,3%"];
    let frames: Vec<u64> = rows(json(&compare)).iter().map(|row| number(&row["frames"])).collect();
    assert_eq!(frames, [FRAMES, 128, 60]);

    let bound = json(&["bound", TRACE, "--frames", "1MiB"]);
    assert!(bound.to_string().contains("\"frames\":256,"), "{bound}");

    let curve = ["curve", TRACE, "--policies", "lru", "--frames", "512KiB,1MiB"];
    let frames: Vec<u64> = rows(json(&curve)).iter().map(|row| number(&row["frames"])).collect();
    assert_eq!(frames, [128, FRAMES]);
}

#[test]
fn the_sizes_of_a_curves_target_and_clean_pools_may_be_in_bytes() {
    let ebbpool = Ebbpool::in_scratch();
    let curve = |baseline: &str, pools: &str| {
        let target = ["--target", "writes -20%", "--baseline", baseline, "--clean-pools", pools];
        let args = ["curve", TRACE, "--policies", "lru", "--frames", "100"];
        ebbpool.stdout(&[&args[..], &target, &PAGES].concat())
    };
    let in_bytes = curve("clock@1MiB", "400KiB");
    assert_eq!(in_bytes, curve("clock@256", "100"));
    assert!(in_bytes.contains("against clock with 256 frames (1 MiB, 13%)"), "{in_bytes}");
    assert!(in_bytes.contains("fd-static with 100 frames (400 KiB, 5.0%)"), "{in_bytes}");
}

#[test]
fn memory_in_bytes_needs_the_page_size_of_the_trace() {
    let ebbpool = Ebbpool::in_scratch();
    let words = [TRACE, "states no page size", "1 MiB", "--page-size 8k"];
    for command in [
        &["run", TRACE, "--policy", "lru", "--frames", "1MiB"][..],
        &["compare", TRACE, "--policies", "lru", "--frames", "3%,1MiB"],
        &["bound", TRACE, "--frames", "1MiB"],
        &["curve", TRACE, "--policies", "lru", "--frames", "1MiB"],
        &["curve", TRACE, "--clean-pools", "1MiB"],
        &["curve", TRACE, "--target", "writes -20%", "--baseline", "1MiB"],
    ] {
        ebbpool.refused(command, 2, &words);
    }
    // Without a target the baseline says nothing.
    ebbpool.stdout(&["curve", TRACE, "--policies", "lru", "--frames", "9", "--baseline", "1MiB"]);
}

#[test]
fn malformed_sizes_are_refused_with_the_text_and_an_example() {
    let ebbpool = Ebbpool::in_scratch();
    for size in ["0MiB", "-5MiB", "16EiB", "1e9", "1.5", "8kk", "nanMiB", ""] {
        let frames = format!("--frames={size}");
        let words = [&format!("'{size}' is not a memory size"), "128MiB"];
        let words = words.map(|word| word as &str);
        ebbpool.refused(&["run", TRACE, "--policy", "lru", &frames], 2, &words);
    }
    for (size, word) in [("8x", "such as 128MiB, 8k"), ("0", "at least 1 byte"), ("16EiB", "less than 16 EiB"), ("-8k", "8k")] {
        let page_size = format!("--page-size={size}");
        ebbpool.refused(&["trace", "info", TRACE, &page_size], 2, &["--page-size", size, word]);
    }
}

#[test]
fn a_page_size_has_a_unit_or_none() {
    let ebbpool = Ebbpool::in_scratch();
    for size in ["8k", "8K", "8KiB", "8192", "8192B"] {
        let info = ebbpool.json(&["trace", "info", TRACE, "--page-size", size]);
        assert_eq!(number(&info["page_size"]), 8192, "{size}");
    }
    let text = ebbpool.stdout(&["trace", "info", TRACE, "--page-size", "8k"]);
    assert!(text.contains("\ndatabase pages      2000 (15.6 MiB)\n"), "{text}");
}

#[test]
fn tables_print_memory_in_frames_and_bytes() {
    let ebbpool = Ebbpool::in_scratch();
    let table = |args: &[&str]| ebbpool.stdout(&[args, &PAGES].concat());
    let line = |text: &str, start: &str| {
        let found = text.lines().find(|line| line.starts_with(start));
        let line = found.unwrap_or_else(|| panic!("no {start}: {text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let run = ["run", TRACE, "--policy", "lru", "--frames", "3%"];
    assert_eq!(line(&table(&run), "frames"), "frames 60 (240 KiB)");
    assert_eq!(line(&ebbpool.stdout(&run), "frames"), "frames 60");

    let compare = ["compare", TRACE, "--policies", "lru,casa", "--asymmetry", "32", "--frames", "3%,1MiB"];
    let text = table(&compare);
    assert_eq!(line(&text, "R = 32"), "R = 32 3% = 60 1MiB = 256");
    let below = text.lines().skip_while(|line| !line.starts_with("R = 32")).nth(1);
    let below: Vec<&str> = below.expect("a line").split_whitespace().collect();
    assert_eq!(below, ["240", "KiB", "1", "MiB"]);
    assert!(text.contains("at R=32 and 3 % of the database (60 frames, 240 KiB) "), "{text}");
    let one_size = ["compare", TRACE, "--policies", "lru,casa", "--asymmetry", "32", "--frames"];
    let text = table(&[&one_size[..], &["1MiB"]].concat());
    assert!(text.contains("at R=32 and 256 frames (1 MiB) "), "{text}");
    let text = ebbpool.stdout(&[&one_size[..], &["3%"]].concat());
    assert!(text.contains("at R=32 and 3 % of the database (60 frames) "), "{text}");

    let curve = ["curve", TRACE, "--policies", "lru", "--frames", "60"];
    let text = table(&curve);
    assert_eq!(line(&text, "frames"), "frames memory lru");
    assert!(line(&text, "60 ").starts_with("60 3.0% 240 KiB "), "{text}");

    let bound = table(&["bound", TRACE, "--frames", "60"]);
    assert!(bound.contains(" 60 (240 KiB) "), "{bound}");
}

#[cfg(unix)]
#[test]
fn a_replays_memory_in_bytes_is_of_its_pages() {
    let ebbpool = Ebbpool::in_scratch();
    let replay = ["replay", TRACE, "--memory", "--asymmetry", "8", "--frames", "1MiB"];
    let one = [&replay[..], &["--policy", "lru"]].concat();
    // A replay has pages of 4096 bytes where the trace states none.
    assert_eq!(number(&ebbpool.json(&one)["frames"]), FRAMES);
    let large = [&one[..], &["--page-size", "16k"]].concat();
    assert_eq!(number(&ebbpool.json(&large)["frames"]), FRAMES / 4);
    let text = ebbpool.stdout(&one);
    assert!(text.contains("256 (1 MiB)\n") && text.contains(" 4 KiB\n"), "{text}");
    let two = ebbpool.stdout(&[&replay[..], &["--policies", "lru,fifo"]].concat());
    assert!(two.contains("20000 references, 256 frames, 1 MiB in pages of 4 KiB, 1 thread\n"), "{two}");
}

#[test]
fn bytes_per_day_and_rates_have_a_period_or_none() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = "uniform:pages=500,refs=60000,write=1";
    let replay = |flag: &str, value: &str| ebbpool.json(&["device", "replay", trace, "--device", SMALL_FLASH, flag, value]);
    let days = |bytes: &str| replay("--bytes-per-day", bytes)["lifetime_days"].as_f64();
    let plain = days("1e10");
    assert!(plain.is_some_and(|days| days > 0.0));
    for same in ["10GB", "10GB/day", "10000000000", "10 GB / d", "3650GB/year"] {
        assert_eq!(days(same), plain, "{same}");
    }
    assert!(days("10GiB") < plain && days("10GB/h") < days("10GiB"));

    let idle = |rate: &str| replay("--rate", rate)["idle_seconds"].as_f64();
    let plain = idle("500");
    assert!(plain.is_some_and(|seconds| seconds > 0.0));
    for same in ["500/s", "30000/min", "5e2", "43.2e6/day"] {
        assert_eq!(idle(same), plain, "{same}");
    }
    for rate in ["5/x", "/s", "-5/s", "nan/min", "0/s"] {
        let rate_flag = format!("--rate={rate}");
        let replay = ["device", "replay", trace, "--device", SMALL_FLASH, &rate_flag];
        ebbpool.refused(&replay, 2, &[&format!("'{rate}' is not a rate"), "300/min"]);
    }
    let run = |rate: &str| {
        let args = ["run", trace, "--policy", "lru", "--frames", "9", "--device", "ssd3", "--rate", rate];
        ebbpool.json(&args)["joules_per_reference"].clone()
    };
    assert_eq!(run("60/min"), run("1"));
}

#[test]
fn an_experiments_memory_may_be_in_bytes() {
    let ebbpool = Ebbpool::with_no_results();
    let experiment = |page_size: &str| {
        format!(
            r#"
id = "bytes"
paper = "own"
number = "Figure 1"
title = "memory in bytes"
basis = "counts"
[workloads]
"small" = "btree:records=20000,queries=500,updates=500{page_size}"
[policies]
"LRU" = "lru"
"FIFO" = "fifo"
[vary]
frames = ["64KiB", "128KiB"]
[[figure]]
x = "frames"
[[claim]]
says = "LRU misses less"
order = ["LRU", "FIFO"]
"#
        )
    };
    ebbpool.file("bytes.toml", experiment(",page-size=8192"));
    let all = ebbpool.rows(&["reproduce", "bytes.toml"]);
    let text = all[0].to_string();
    for frames in ["\"frames_used\":8", "\"frames_used\":16"] {
        assert!(text.contains(frames), "{frames} is not in {text}");
    }
    let no_pages = experiment("").replace("btree:records=20000,queries=500,updates=500", "zipf:pages=200,refs=2000");
    ebbpool.file("zipf.toml", no_pages);
    ebbpool.refused(&["reproduce", "zipf.toml"], 1, &["states no page size", "64 KiB"]);
}

fn rows(value: Value) -> Vec<Value> {
    match value {
        Value::Array(rows) => rows,
        other => panic!("not an array: {other}"),
    }
}
