//! Tests of `ebbpool db`: acknowledged records survive, and the tree fixes the pages that the generator
//! predicts.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{Ebbpool, errors, failed, interrupted, number, succeeded, wait_until};

crate::table::table!("db");

/// Asserts that the command failed with this exit code and one line that contains all words.
fn assert_failed(output: &Output, code: i32, words: &[&str]) {
    failed(output, code, words);
    let message = errors(output);
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
}

fn refused(ebbpool: &Ebbpool, args: &[&str], code: i32, words: &[&str]) {
    assert_failed(&ebbpool.run(args), code, words);
}

#[test]
fn keys_may_be_any_bytes_and_not_longer_than_a_part_of_a_page() {
    let ebbpool = Ebbpool::in_scratch();
    let put = ebbpool.fed(&["db", "put", "a.db"], b"pear\t3\n\xff\\x\t\n");
    assert_eq!(succeeded(put), b"ok pear\nok \xff\\x\n");
    assert_eq!(succeeded(ebbpool.run(&["db", "dump", "a.db"])), b"pear\t3\n\xff\\x\t\n");
    let long = [&vec![b'k'; 4000][..], b"\tv\n"].concat();
    let put = ebbpool.fed(&["db", "put", "a.db"], &long);
    assert_failed(&put, 1, &["line 1", "4000 bytes is too long"]);
    assert_eq!(ebbpool.json(&["db", "check", "a.db"])["keys"], 2);
    succeeded(ebbpool.run(&["db", "delete", "a.db", r"\xff\\x", "--escape"]));
    assert_eq!(ebbpool.stdout(&["db", "dump", "a.db"]), "pear\t3\n");
    refused(&ebbpool, &["db", "delete", "a.db", "apple"], 1, &["a.db has no key apple"]);
}

/// Puts records until it has read this number of `ok` lines, and then kills the process.
fn killed_after(ebbpool: &Ebbpool, oks: usize) -> Vec<String> {
    let mut child = ebbpool.started(&["db", "put", "k.db", "--frames", "16"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let feeder = std::thread::spawn(move || {
        for record in 0..1_000_000 {
            let line = format!("key {:07}\tvalue {record}\n", record * 7919 % 1_000_003);
            if stdin.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    });
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = out.lines();
    let mut acknowledged = Vec::new();
    while acknowledged.len() < oks {
        acknowledged.push(lines.next().expect("a line").expect("text"));
    }
    child.kill().expect("it runs");
    child.wait().expect("an end");
    acknowledged.extend(lines.map_while(Result::ok).filter(|line| line.len() == "ok key 0000000".len()));
    feeder.join().expect("no panic");
    acknowledged
}

#[test]
fn acknowledged_records_survive_a_kill() {
    let ebbpool = Ebbpool::in_scratch();
    for oks in [1, 300, 1500] {
        let acknowledged = killed_after(&ebbpool, oks);
        let dumped = ebbpool.stdout(&["db", "dump", "k.db"]);
        let keys: std::collections::HashSet<&str> = dumped.lines().filter_map(|line| line.split('\t').next()).collect();
        for line in &acknowledged {
            let key = line.strip_prefix("ok ").expect("an ok");
            assert!(keys.contains(key), "{key} of {} is lost", acknowledged.len());
        }
        let checked = ebbpool.json(&["db", "check", "k.db"]);
        assert_eq!(checked["findings"], Value::Array(Vec::new()));
    }
}

#[test]
fn any_bytes_survive_escaping() {
    let ebbpool = Ebbpool::in_scratch();
    let mut lines = String::new();
    for byte in 0..=255u8 {
        // One value is so long that it needs overflow pages.
        let value = format!(r"\x{:02x}", 255 - byte).repeat(1 + usize::from(byte) * 60);
        lines += &format!("\\x{byte:02x}k\t{value}\n");
    }
    succeeded(ebbpool.fed(&["db", "put", "a.db", "--escape"], lines.as_bytes()));
    let dumped = succeeded(ebbpool.run(&["db", "dump", "a.db", "--escape"]));
    let load = ["db", "load", "b.db", "--escape", "--from", "-"];
    succeeded(ebbpool.fed(&load, &dumped));
    assert_eq!(succeeded(ebbpool.run(&["db", "dump", "b.db", "--escape"])), dumped);
    let [a, b] = ["a.db", "b.db"].map(|name| ebbpool.json(&["db", "check", name]));
    assert_eq!(a["keys"], 256);
    assert_eq!(b["keys"], 256);
    assert!(number(&a["overflow_pages"]) > 100, "{a}");
    assert_eq!(a["overflow_pages"], b["overflow_pages"]);
    refused(&ebbpool, &["db", "dump", "a.db"], 1, &[r"the key \tk holds a tab or a newline", "--escape"]);
    succeeded(ebbpool.fed(&["db", "put", "v.db", "--escape"], b"key\\x01\ta\\nb\n"));
    refused(&ebbpool, &["db", "dump", "v.db"], 1, &[r"the key key\x01 has a value with", "--escape"]);
}

#[test]
fn sorted_lines_are_loaded_and_others_refused() {
    let ebbpool = Ebbpool::in_scratch();
    let lines: String = (0..20_000).map(|at| format!("{at:06}\tvalue of {at}\n")).collect();
    fs::write(ebbpool.path("lines.tsv"), &lines).expect("a file");
    let output = ebbpool.stdout(&["db", "load", "a.db", "--from", "lines.tsv"]);
    assert!(output.starts_with("a.db: 20000 records in "), "{output}");
    assert_eq!(ebbpool.stdout(&["db", "dump", "a.db"]), lines);
    refused(&ebbpool, &["db", "load", "a.db", "--from", "lines.tsv"], 1, &["a.db", "empty database"]);
    refused(&ebbpool, &["db", "load", "a.db", "--records", "10"], 1, &["a.db", "empty database"]);
    assert_eq!(ebbpool.stdout(&["db", "dump", "a.db"]), lines);
}

/// References with their classes, as lines of text.
fn references(ebbpool: &Ebbpool, trace: &str) -> String {
    ebbpool.stdout(&["trace", "convert", trace, "references.csv"]);
    let text = fs::read_to_string(ebbpool.path("references.csv")).expect("text");
    let lines = text.strip_prefix("page,write,class\n");
    lines.expect("a trace with classes").to_owned()
}

#[test]
fn the_tree_fixes_the_pages_that_the_generator_predicts() {
    let shapes = [
        // Records, key bytes, value bytes, page size, fill in per cent, the generator's fill.
        ("20000", "4", "256", "4096", "50%", "0.5"),
        ("9000", "3", "20", "512", "80%", "0.8"),
        ("4000", "8", "90", "512", "40%", "0.4"),
        ("3", "4", "100", "1024", "100%", "1"),
        // This database needs two allocation maps.
        ("30000", "2", "100", "512", "35%", "0.35"),
    ];
    for (records, key, value, page_size, fill, share) in shapes {
        let ebbpool = Ebbpool::in_scratch();
        let load = [
            "db", "load", "a.db", "--records", records, "--key-bytes", key, "--value-bytes", value, "--page-size", page_size,
            "--fill", fill,
        ];
        ebbpool.stdout(&load);
        for (more, parameters, frames) in [
            (&["--seed", "3"][..], "seed=3", "32"),
            (
                &["--update-intensity", "80%", "--scattered", "--skew", "0.9/0.1", "--scan-length", "77"],
                "intensity=0.8,scattered=true,skew=0.9/0.1,length=77",
                "4096",
            ),
        ] {
            let bench = [
                "db", "bench", "a.db", "--workload", "cfdc", "--queries", "300", "--updates", "200", "--scans", "15",
                "--scan-updates", "10", "--durability", "none", "--frames", frames, "--record", "as-fixed.parquet",
            ];
            let report = ebbpool.json(&[&bench[..], more].concat());
            let spec = format!(
                "btree:records={records},key={key},value={value},page-size={page_size},fill={share},queries=300,updates=200,scans=15,scan-updates=10,{parameters}"
            );
            let predicted = references(&ebbpool, &spec);
            let recorded = references(&ebbpool, "as-fixed.parquet");
            assert!(predicted.lines().count() > 500);
            let first = predicted.lines().zip(recorded.lines()).position(|(a, b)| a != b);
            assert_eq!(first, None, "{spec}");
            assert_eq!(predicted.lines().count(), recorded.lines().count(), "{spec}");
            let fixes = number(&report["hits"]) + number(&report["misses"]);
            assert_eq!(fixes, recorded.lines().count() as u64, "{spec}");
        }
        let checked = ebbpool.json(&["db", "check", "a.db"]);
        assert_eq!(checked["keys"].to_string(), records);
        assert_eq!(checked["findings"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_benchmark_reports_its_work() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["db", "load", "c.db", "--records", "20000"]);
    let bench = [
        "db", "bench", "c.db", "--workload", "cfdc", "--queries", "3000", "--updates", "2000", "--scans", "20",
        "--scan-updates", "10", "--frames", "200", "--policy", "cfdc",
    ];
    let report = ebbpool.json(&bench);
    assert_eq!(report["workload"], "cfdc");
    assert_eq!(report["records"], 20_000);
    assert_eq!(report["frames"], 200);
    assert_eq!(report["policy"], "cfdc");
    assert_eq!(report["durability"], "synced");
    assert_eq!(report["transactions"], 5030);
    assert_eq!(report["commits"], 2010);
    assert_eq!(report["not_found"], 0);
    assert_eq!(report["conflicts"], 0);
    assert_eq!(report["interrupted"], false);
    let counts = |kind: &str| {
        let operations = report["operations"].as_array().expect("an array");
        let of_kind = operations.iter().find(|latency| latency["kind"] == kind);
        let latency = of_kind.unwrap_or_else(|| panic!("no {kind}"));
        let us = |name: &str| latency[name].as_f64().expect("a time");
        assert!(us("p50_us") > 0.0 && us("p50_us") <= us("p99_us") && us("p99_us") <= us("max_us"));
        number(&latency["count"])
    };
    let kinds = ["read", "update", "scan", "scan update"].map(counts);
    assert_eq!(kinds, [3000, 2000, 20, 10]);
    // Each commit syncs the log, and so does each write of pages.
    assert!(number(&report["log_syncs"]) >= 2010, "{report}");
    // A range may end early, with the last record.
    let changed = number(&report["bytes_changed"]);
    assert!(changed > 2000 * 260 && changed <= (2000 + 10 * 256) * 260, "{changed}");
    let to = &report["bytes_written_to"];
    let parts = ["pages", "log", "double_write"].map(|part| number(&to[part]));
    assert!(parts.iter().all(|&bytes| bytes > 0), "{to}");
    assert_eq!(number(&report["bytes_written"]), parts.iter().sum::<u64>());
    let causes = report["pages_written"].as_object().expect("causes");
    let pages: u64 = causes.values().map(number).sum();
    assert_eq!(pages * 4096, parts[0]);
    // The double write has an image of each page, and lists.
    assert!(parts[2] > parts[0] && parts[2] < 2 * parts[0] + 4096, "{to}");
    let amplification = report["write_amplification"].as_f64().expect("a ratio");
    let expected = number(&report["bytes_written"]) as f64 / changed as f64;
    assert!((amplification - expected).abs() < 1e-6);
    let length = fs::metadata(ebbpool.path("c.db")).expect("a file").len();
    assert_eq!(number(&report["files"]["pages"]), length);
    assert!(number(&report["files"]["log"]) > 0);
    let table = ebbpool.stdout(&bench);
    for word in ["transactions per second", "write amplification", "hit ratio", "scan update"] {
        assert!(table.contains(word), "{table}");
    }
    let none = ebbpool.json(&[&bench[..], &["--update-intensity", "0%"]].concat());
    assert_eq!(none["bytes_changed"], 0);
    assert_eq!(none["write_amplification"], Value::Null);
    let few = ebbpool.json(&[&bench[..], &["--operations", "100"]].concat());
    assert_eq!(few["transactions"], 100);
}

#[test]
fn ycsb_runs_on_many_threads() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["db", "load", "y.db", "--workload", "ycsb", "--records", "3000"]);
    let mut records = 3000;
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let workload = format!("ycsb-{letter}");
        let bench = [
            "db", "bench", "y.db", "--workload", &workload, "--operations", "3000", "--threads", "3", "--durability", "none",
            "--frames", "128",
        ];
        let report = ebbpool.json(&bench);
        assert_eq!(report["transactions"], 3000, "{workload}");
        assert_eq!(number(&report["records"]), records, "{workload}");
        let operations = report["operations"].as_array().expect("an array");
        let inserts = operations.iter().find(|latency| latency["kind"] == "insert");
        let inserts = inserts.map_or(0, |latency| number(&latency["count"]));
        assert_eq!(inserts > 50, ["d", "e"].contains(&letter), "{workload}: {inserts}");
        records += inserts;
        let checked = ebbpool.json(&["db", "check", "y.db"]);
        assert_eq!(number(&checked["keys"]), records, "{workload}");
        assert_eq!(checked["findings"], Value::Array(Vec::new()), "{workload}");
    }
    let short = ["db", "bench", "y.db", "--workload", "ycsb-c", "--seconds", "0.2"];
    let report = ebbpool.json(&short);
    let seconds = report["seconds"].as_f64().expect("a time");
    assert!(seconds >= 0.2, "{seconds}");
    assert!(number(&report["transactions"]) > 0);
}

#[test]
fn check_finds_and_names_damage() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["db", "load", "c.db", "--records", "2000"]);
    let sound = ebbpool.json(&["db", "check", "c.db"]);
    assert_eq!(sound["findings"], Value::Array(Vec::new()));
    let table = ebbpool.stdout(&["db", "check", "c.db"]);
    assert!(table.contains("nothing is wrong"), "{table}");
    refused(&ebbpool, &["db", "check", "none.db"], 1, &["none.db"]);
    assert!(!ebbpool.path("none.db").exists());

    let path = ebbpool.path("c.db");
    let mut bytes = fs::read(&path).expect("a file");
    bytes[40 * 4096 + 1000] ^= 4;
    fs::write(&path, &bytes).expect("a file");
    let output = ebbpool.run(&["db", "check", "c.db"]);
    assert_failed(&output, 1, &["c.db: "]);
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(table.contains("\npage 40: "), "{table}");
    let output = ebbpool.run(&["db", "check", "c.db", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["findings"][0]["page"], 40);
    refused(&ebbpool, &["db", "dump", "c.db", "--escape"], 1, &["page 40"]);
}

#[test]
fn a_log_without_its_end_is_refused_but_can_be_opened_read_only() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["db", "load", "c.db", "--records", "2000"]);
    let contents = || {
        let names = ebbpool.names().into_iter();
        let content = |name: String| (fs::read(ebbpool.path(&name)).expect("a file"), name);
        names.map(content).collect::<Vec<_>>()
    };
    let read_only = |args: &[&str]| ebbpool.run(&[args, &["--read-only"]].concat());
    let key = r"\x00\x00\x00\x07";
    let get = &["db", "get", "c.db", key, "--escape"];
    let (value, before) = (ebbpool.stdout(get), contents());
    let whole = read_only(get);
    assert_eq!(String::from_utf8_lossy(&whole.stdout), value);
    assert!(whole.stderr.is_empty());
    read_only(&["db", "check", "c.db"]);
    assert!(contents() == before, "reading has changed files");

    let log = ebbpool.path("c.db.log0");
    let length = fs::metadata(&log).expect("a log").len();
    let log = fs::OpenOptions::new().write(true).open(log);
    log.expect("a log").set_len(length - 30).expect("shorter");
    let cut = contents();
    let why = &["bytes are missing", "--read-only"];
    refused(&ebbpool, get, 1, why);
    refused(&ebbpool, &["db", "check", "c.db"], 1, why);
    refused(&ebbpool, &["db", "bench", "c.db", "--workload", "cfdc"], 1, why);
    let left = read_only(get);
    assert!(left.status.success());
    assert_eq!(String::from_utf8_lossy(&left.stdout), value);
    let note = String::from_utf8_lossy(&left.stderr);
    assert!(note.contains("bytes that were durable once are missing"), "{note}");
    let dumped = read_only(&["db", "dump", "c.db", "--escape", "--frames", "1MiB"]);
    assert!(dumped.status.success());
    assert_eq!(dumped.stdout.iter().filter(|&&byte| byte == b'\n').count(), 2000);
    let checked = read_only(&["db", "check", "c.db", "--format", "json"]);
    assert_eq!(checked.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert!(report["lost"].as_str().expect("a text").contains("missing"));
    assert!(contents() == cut, "looking has changed files");
}

#[test]
fn only_one_process_can_open_a_database() {
    let ebbpool = Ebbpool::in_scratch();
    let mut child = ebbpool.started(&["db", "put", "a.db"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"a\t1\n").expect("it reads");
    let mut answer = [0; 5];
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut answer).expect("it answers while its input is open");
    assert_eq!(&answer, b"ok a\n");
    let open = &["open elsewhere"];
    refused(&ebbpool, &["db", "dump", "a.db"], 1, open);
    refused(&ebbpool, &["db", "dump", "a.db", "--read-only"], 1, open);
    drop(stdin);
    assert!(child.wait().expect("an end").success());
    assert_eq!(ebbpool.stdout(&["db", "dump", "a.db"]), "a\t1\n");
}

#[test]
fn an_interrupted_benchmark_prints_its_measurements() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["db", "load", "y.db", "--workload", "ycsb", "--records", "2000"]);
    let bench =
        ["db", "bench", "y.db", "--workload", "ycsb-a", "--seconds", "600", "--format", "json", "--record", "trace.parquet"];
    let length = || fs::metadata(ebbpool.path("y.db.log0")).map_or(0, |file| file.len());
    let before = length();
    let child = ebbpool.command(&bench).spawn().expect("it starts");
    // The benchmark makes about thirty updates until then.
    wait_until("the log grows", || length() >= before + (64 << 10));
    let output = interrupted(child);
    assert_failed(&output, 130, &["interrupted"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["interrupted"], true);
    assert!(number(&report["transactions"]) > 0);
    let checked = ebbpool.json(&["db", "check", "y.db"]);
    assert_eq!(checked["findings"], Value::Array(Vec::new()));
    assert!(references(&ebbpool, "trace.parquet").lines().count() > 0);
}

#[test]
fn an_interrupt_ends_put_while_it_waits_for_input() {
    let ebbpool = Ebbpool::in_scratch();
    let mut child = ebbpool.started(&["db", "put", "a.db"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"a\t1\n").expect("it reads");
    let mut answer = [0; 5];
    let out = child.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut answer).expect("an answer");
    let output = interrupted(child);
    assert_failed(&output, 130, &["interrupted", "1 record was put and remains"]);
    drop(stdin);
    assert_eq!(ebbpool.stdout(&["db", "dump", "a.db"]), "a\t1\n");
}

#[test]
fn an_interrupted_backup_leaves_no_copy() {
    let ebbpool = Ebbpool::in_scratch();
    succeeded(ebbpool.run(&["db", "load", "a.db", "--records", "300000"]));
    let backup = ["db", "backup", "a.db", "copy.db"];
    let child = ebbpool.started(&backup);
    wait_until("a copy", || ebbpool.path("copy.db.log1.part").exists());
    assert_failed(&interrupted(child), 130, &["interrupted; no copy was made"]);
    assert!(!["", ".log0", ".log1", ".log1.part"].iter().any(|end| ebbpool.path(&format!("copy.db{end}")).exists()));
    // As a killed one leaves it.
    for end in ["", ".log0", ".log1.part"] {
        fs::write(ebbpool.path(&format!("copy.db{end}")), "").expect("a file");
    }
    assert_failed(&ebbpool.run(&backup), 1, &["remove copy.db, copy.db.log0, copy.db.log1.part"]);
}

/// nohup has the command ignore the signal of a terminal that is closed.
#[test]
fn a_backup_under_nohup_goes_on() {
    let ebbpool = Ebbpool::in_scratch();
    succeeded(ebbpool.run(&["db", "load", "a.db", "--records", "300000"]));
    let mut nohup = Command::new("nohup");
    let piped = nohup.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child =
        piped.arg(env!("CARGO_BIN_EXE_ebbpool")).args(["db", "backup", "a.db", "copy.db"]).current_dir(ebbpool.directory());
    let child = child.spawn().expect("nohup");
    wait_until("a copy", || ebbpool.path("copy.db.log1.part").exists());
    let hang_up = Command::new("kill").args(["-HUP", &child.id().to_string()]).status();
    assert!(hang_up.is_ok_and(|status| status.success()));
    succeeded(child.wait_with_output().expect("an end"));
    assert_eq!(number(&ebbpool.json(&["db", "check", "copy.db"])["keys"]), 300_000);
}

#[test]
fn records_that_were_put_are_counted_where_the_output_is_closed() {
    let ebbpool = Ebbpool::in_scratch();
    let mut child = ebbpool.started(&["db", "put", "a.db", "--durability", "none"]);
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("a pipe");
    let _ = (0..100_000).try_for_each(|number| writeln!(stdin, "{number}\tvalue"));
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    assert_failed(&output, 1, &["standard output was closed", " put and remain"]);
    let kept = number(&ebbpool.json(&["db", "check", "a.db"])["keys"]);
    assert!(errors(&output).contains(&format!("; {kept} record")), "{kept}: {}", errors(&output));
}

#[test]
fn the_buffer_of_a_database_may_be_in_per_cent_of_its_pages() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["db", "load", "s.db", "--records", "6000", "--page-size", "8k", "--value-bytes", "0.5k"]);
    let pages = fs::metadata(ebbpool.path("s.db")).expect("the database").len() / 8192;
    let work = ["--workload", "cfdc", "--queries", "50", "--updates", "50", "--scans", "0", "--scan-updates", "0"];
    let bench = [&["db", "bench", "s.db", "--durability", "none", "--frames", "10%"], &work[..]].concat();
    assert_eq!(number(&ebbpool.json(&bench)["frames"]), pages / 10);
}
