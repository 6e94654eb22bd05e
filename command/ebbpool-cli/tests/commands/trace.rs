//! Tests of `ebbpool trace`, and of the options with which all commands read traces.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Ebbpool, TABLE_2, errors, number, sample};

crate::table::table!("trace");

#[test]
fn standard_input_may_be_parquet() {
    let ebbpool = Ebbpool::in_repository();
    // Parquet is recognised by its magic number.
    let native = fs::read(sample("pg-tatp")).expect("the sample");
    let output = ebbpool.fed(&["trace", "info", "-", "--format", "json", "--limit", "1000"], &native);
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&info["references"], &info["page_size"]), (&1000.into(), &8192.into()));
}

#[test]
fn all_commands_read_traces_with_the_same_options() {
    let ebbpool = Ebbpool::in_scratch();
    // The references of table 2 after two others, as requests in bytes, in two parts, with a malformed line.
    let mut rows: Vec<String> = vec!["0,1,R".into(), "100,1,W".into()];
    for line in TABLE_2.lines().skip(1) {
        let (op, page) = line.split_once(' ').expect("op and page");
        let page: u64 = page.parse().expect("a page");
        rows.push(format!("{},100,{op}", page * 100));
    }
    rows.insert(4, "oops".into());
    let part = |rows: &[String]| format!("off,len,op\n{}\n", rows.join("\n"));
    let first = ebbpool.file("a.csv", part(&rows[..7]));
    let second = ebbpool.file("b.csv", part(&rows[7..]));
    let reading = [
        &first, &second, "--concat", "--columns", "offset=off,size=len,write=op:W", "--page-size", "100", "--skip-bad-lines",
        "1", "--skip", "2", "--limit", "11", "--above-cache",
    ];
    let plain = ebbpool.file("t.txt", TABLE_2);
    // The requests have the sizes of whole pages.
    let plain = [plain.as_str(), "--whole-writes"];
    let info = |args: &[&str]| {
        let mut info = ebbpool.json(&[&["trace", "info"], args].concat());
        info["page_size"].take();
        info["format"].take();
        info
    };
    assert_eq!(info(&reading), info(&plain));
    let counts = |row: &Value| ["references", "reads", "writes"].map(|name| row[name].clone());
    let policy = ["--policy", "lru", "--frames", "2"];
    let run = |trace: &[&str]| ebbpool.json(&[&["run"], trace, &policy].concat());
    let expected = counts(&run(&plain));
    assert_eq!(counts(&run(&reading)), expected);
    let policy = ["--policies", "lru", "--frames", "2", "--asymmetry", "32"];
    let rows = ebbpool.json(&[&["compare"], &reading[..], &policy].concat());
    assert_eq!(rows.as_array().map(Vec::len), Some(1));
    assert_eq!(counts(&rows[0]), expected);
    let to = &ebbpool.named("out.parquet");
    let output = ebbpool.run(&[&["trace", "convert"], &reading[..], &[to]].concat());
    let notes = errors(&output);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("note: left out 1 bad line: "), "{notes}");
    assert_eq!(info(&[to]), info(&plain));
}

#[test]
fn generators_are_listed() {
    let ebbpool = Ebbpool::in_scratch();
    let list = ebbpool.stdout(&["trace", "generate", "--list"]);
    for info in ebbpool_trace::generators() {
        assert!(list.contains(&format!("{}\n    {}\n", info.name, info.summary)));
        for parameter in info.parameters {
            let line = list.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(parameter.name) && line.ends_with(parameter.about)
            });
            assert!(line, "{} of {}", parameter.name, info.name);
        }
    }
}

/// Every output that is an input, by its path, another spelling or a link, is refused before anything is read.
#[test]
#[cfg(unix)]
fn an_output_never_replaces_an_input_or_another_output() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    let words = ebbpool.named("c.u32");
    ebbpool.stdout(&["trace", "convert", &trace, &words]);
    let sidecar = ebbpool.file("c.json", r#"{"page_size": 4096}"#);
    let link = ebbpool.named("link.html");
    std::os::unix::fs::symlink(&trace, &link).expect("a link");
    let hard = ebbpool.named("hard.html");
    fs::hard_link(&trace, &hard).expect("a link");
    let spelled = ebbpool.named("./t.txt");
    let before = fs::read(&trace).expect("the trace");
    let sizes = ["--frames", "3"];
    let memory = ["--policy", "lru", "--frames", "3"];
    let refused = |args: &[&str], named: &str| {
        ebbpool.refused(args, 2, &[named, "would overwrite it"]);
    };
    for report in [&trace, &spelled, &link, &hard] {
        if report.ends_with(".html") {
            refused(&[&["compare", &trace, "--report", report], &sizes[..]].concat(), report);
            refused(&["curve", &trace, "--report", report], report);
        }
        refused(&[&["run", &trace, "--events", report], &memory[..]].concat(), report);
        refused(&[&["run", &trace, "--series", report], &memory[..]].concat(), report);
        refused(&["trace", "convert", &trace, report, "--to-format", "u32"], report);
    }
    refused(&[&["run", &words, "--events", &sidecar], &memory[..]].concat(), "c.json");
    let pages = ebbpool.named("pages");
    let replay = ["replay", &trace, "--file", &pages, "--create", "--page-size", "4096"];
    refused(&[&replay[..], &memory, &["--record", &trace]].concat(), "t.txt");
    refused(&[&replay[..], &memory, &["--events", &trace]].concat(), "t.txt");
    let both = ["--events", "e", "--series", "./e"];
    ebbpool.refused(&[&["run", &trace], &memory[..], &both].concat(), 2, &["e and ./e are the same file"]);
    ebbpool.refused(&[&replay[..], &memory, &["--record", &pages]].concat(), 2, &["are the same file"]);
    assert_eq!(fs::read(&trace).expect("the trace"), before);
    assert!(!Path::new(&pages).exists());
    // A device is not a file that can be lost.
    let nowhere = ["--events", "/dev/null", "--series", "/dev/null"];
    ebbpool.stdout(&[&["run", &trace], &memory[..], &nowhere].concat());
}

/// A sample has the references to some pages, and a note on its error; `shapes` finds by a word.
#[test]
fn a_sample_states_its_error_and_tables_are_found_by_a_word() {
    let ebbpool = Ebbpool::in_scratch();
    let to = &ebbpool.named("small.parquet");
    let from = "zipf:pages=5000,refs=100000,write=0.3";
    let output = ebbpool.run(&["trace", "convert", from, to, "--sample", "20%"]);
    let notes = errors(&output);
    assert!(output.status.success() && notes.contains("the sample has ") && notes.contains(" points"), "{notes}");
    let [whole, sample] = [from, to].map(|trace| ebbpool.json(&["trace", "info", trace]));
    let pages = |info: &Value| info["distinct_pages"].as_u64().expect("pages");
    assert!((pages(&whole) / 7..pages(&whole) / 4).contains(&pages(&sample)), "{sample}");
    let found = ebbpool.stdout(&["trace", "shapes", "tencent"]);
    assert!(found.contains("--columns time=#1,offset=#2:512") && !found.contains("Alibaba"), "{found}");
    let unknown = errors(&ebbpool.run(&["trace", "shapes", "nonesuch"]));
    assert!(unknown.contains("no table has 'nonesuch'"), "{unknown}");
}

/// The pages that one buffer reads and writes are the trace of the one below.
#[test]
fn the_misses_of_a_run_are_a_trace() {
    let ebbpool = Ebbpool::in_scratch();
    let below = &ebbpool.named("below.txt");
    let from = "zipf:pages=500,refs=5000,write=0.3";
    for (policy, frames) in [("lru", "50"), ("fd-buffer", "20")] {
        let _ = std::fs::remove_file(below);
        let run = ebbpool.json(&["run", from, "--policy", policy, "--frames", frames, "--misses", below]);
        let info = ebbpool.json(&["trace", "info", below]);
        let [reads, writes] = ["reads", "writes"].map(|name| number(&run[name]));
        assert_eq!((number(&info["references"]), number(&info["writes"])), (reads + writes, writes));
        assert_eq!(info["below_cache"], true);
    }
    // A buffer of the same size below keeps what this one has just read, which does not come again before it leaves.
    let second = ebbpool.json(&["run", below, "--policy", "lru", "--frames", "500"]);
    assert_eq!(second["reads"], second["distinct_pages"]);
}

/// A command that waits for input ends by the first signal, as a loop of the shell expects.
#[test]
#[cfg(unix)]
fn a_signal_ends_the_wait_for_input() {
    use std::os::unix::process::ExitStatusExt;
    let ebbpool = Ebbpool::in_scratch();
    let made = Command::new("mkfifo").arg(ebbpool.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let info = ["trace", "info", "--trace-format", "text"];
    for args in [&[&info[..], &["-"]].concat()[..], &[&info[..], &["pipe"]].concat(), &["diff", "-", "other.json"]] {
        let mut child = ebbpool.started(args);
        // Held, so that there is no end of the input.
        let _input = child.stdin.take();
        std::thread::sleep(Duration::from_millis(500));
        let stopped = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(stopped.is_ok_and(|status| status.success()));
        let output = child.wait_with_output().expect("an end");
        assert_eq!(output.status.signal(), Some(2), "{args:?}: {}", errors(&output));
    }
}
