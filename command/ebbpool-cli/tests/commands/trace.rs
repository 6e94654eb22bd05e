//! Tests of `ebbpool trace`, and of the options with which all commands read traces.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Ebbpool, TABLE_2, errors, failed, sample};

#[test]
fn traces_convert_and_are_described() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    let mut before = trace;
    for name in ["a.parquet", "b.u32.zst", "c.txt.gz", "d.u32", "e.txt.zst"] {
        let to = ebbpool.named(name);
        ebbpool.stdout(&["trace", "convert", &before, &to]);
        let info = ebbpool.json(&["trace", "info", &to]);
        assert_eq!((&info["references"], &info["writes"]), (&Value::from(11), &Value::from(3)));
        assert_eq!(info["distinct_pages"], 6);
        before = to;
    }
}

#[test]
fn times_rings_and_the_mark_of_a_capture_are_described_and_converted() {
    let ebbpool = Ebbpool::in_scratch();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/ebbpool-trace/tests/golden/native-requests-1.parquet");
    let (part, both) = (&ebbpool.named("part.parquet"), &ebbpool.named("both.parquet"));
    ebbpool.stdout(&["trace", "convert", golden, part, "--skip", "4"]);
    ebbpool.stdout(&["trace", "convert", golden, part, both, "--concat"]);
    for (trace, bulk_reads, bulk_writes, vacuums, duration) in
        [(golden, 11, 11, 11, 43 * 43), (part, 10, 10, 10, 43 * 43 - 16), (both, 21, 21, 21, 2 * 43 * 43 - 16)]
    {
        let info = ebbpool.json(&["trace", "info", trace]);
        assert_eq!(info["below_cache"], true);
        let requests = serde_json::json!({
            "duration_us": duration,
            "bulk_reads": bulk_reads,
            "bulk_writes": bulk_writes,
            "vacuums": vacuums,
        });
        assert_eq!(info["requests"], requests);
    }
    let text = ebbpool.stdout(&["trace", "info", golden]);
    for row in [
        "\ncaptured            below a cache: it has only what the cache did not answer\n",
        "\ntime                0.002 s from the first to the last\n",
        "\nthrough rings       11 of bulk reads, 11 of bulk writes, 11 of vacuum\n",
    ] {
        assert!(text.contains(row), "{text}");
    }
    let csv = &ebbpool.named("a.csv");
    let notes = errors(&ebbpool.run(&["trace", "convert", golden, csv]));
    assert!(notes.contains("csv cannot store when the references were made"), "{notes}");
    let info = ebbpool.json(&["trace", "info", csv]);
    assert_eq!((&info["requests"], &info["below_cache"]), (&Value::Null, &false.into()));
    let notes = errors(&ebbpool.run(&["run", golden, "--policy", "lru", "--frames", "9"]));
    assert!(notes.contains("its references are those that missed a cache"), "{notes}");
}

#[test]
fn block_cache_traces_of_rocksdb_are_read() {
    let ebbpool = Ebbpool::in_scratch();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/ebbpool-trace/tests/data/rocksdb.trace.zst");
    let native = &ebbpool.named("a.parquet");
    ebbpool.stdout(&["trace", "convert", golden, native]);
    for (trace, format) in [(golden, "rocksdb"), (native, "native")] {
        let info = ebbpool.json(&["trace", "info", trace]);
        assert_eq!((&info["format"], &info["references"], &info["distinct_pages"]), (&format.into(), &174.into(), &25.into()));
        let classes = info["classes"].as_array().expect("classes");
        let names: Vec<_> = classes.iter().map(|class| &class["name"]).collect();
        assert!(names.contains(&&"orders, data".into()), "{names:?}");
        assert!(info["requests"]["duration_us"].as_u64() > Some(0));
    }
}

#[test]
fn traces_of_other_programs_are_read_and_not_written() {
    let ebbpool = Ebbpool::in_scratch();
    let spc = ebbpool.file("t.spc", "0,15,1024,w,0.1\n1,8,4096,r,0.2\n");
    let info = ebbpool.json(&["trace", "info", &spc, "--page-size", "4096"]);
    assert_eq!((&info["format"], &info["references"], &info["writes"]), (&"spc".into(), &3.into(), &2.into()));
    let text = ebbpool.stdout(&["trace", "info", &spc, "--page-size", "4096"]);
    assert!(text.contains("\nformat              spc\n"), "{text}");
    ebbpool.refused(&["trace", "info", &spc], 2, &["--page-size 4096"]);
    let out = &ebbpool.named("out.spc");
    ebbpool.refused(&["trace", "convert", &spc, out, "--page-size", "4096"], 2, &["only read", "native, text, u32, csv"]);
    assert!(!Path::new(out).exists());
    let output = ebbpool.fed(&["trace", "info", "-"], b"*\n5\n6\n");
    let notes = errors(&output);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("looks like lirs") && notes.contains("all references are reads"), "{notes}");
}

#[test]
fn standard_input_is_a_trace() {
    let ebbpool = Ebbpool::in_repository();
    let args = ["--policies", "lru", "--frames", "50%", "--asymmetry", "2"];
    let compare = [&["compare", "-"], &args[..], &["--format", "json"]].concat();
    // Sizes in per cent need an additional pass, so the command reads the pipe twice.
    let output = ebbpool.fed(&[&compare[..], &["--trace-format", "text"]].concat(), TABLE_2.as_bytes());
    assert!(output.status.success());
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows[0]["frames"], 3);
    assert_eq!(rows[0]["references"], 11);
    assert_eq!(rows[0]["trace"], "standard input");
    // Parquet is recognised by its magic number; for text a note says that the format is a guess.
    let native = fs::read(sample("pg-tatp")).expect("the sample");
    let output = ebbpool.fed(&["trace", "info", "-", "--format", "json", "--limit", "1000"], &native);
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&info["references"], &info["page_size"]), (&1000.into(), &8192.into()));
    let output = ebbpool.fed(&["trace", "info", "-"], b"R 1\n");
    let message = errors(&output);
    assert!(output.status.success() && message.contains("looks like text"), "{message}");
    for (args, input, code, part) in [
        (&["trace", "info", "-"][..], &b"\x00\x01"[..], 1, "--trace-format"),
        (&["trace", "info", "-", "-", "--concat"], b"R 1\n", 2, "one trace only"),
        (&["compare", "-", "-"], b"R 1\n", 2, "one trace only"),
    ] {
        let output = ebbpool.fed(args, input);
        failed(&output, code, &[part]);
    }
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
        "1", "--skip", "2", "--limit", "11",
    ];
    let plain = ebbpool.file("t.txt", TABLE_2);
    let info = |args: &[&str]| {
        let mut info = ebbpool.json(&[&["trace", "info"], args].concat());
        info["page_size"].take();
        info["format"].take();
        info
    };
    assert_eq!(info(&reading), info(&[&plain]));
    let counts = |row: &Value| ["references", "reads", "writes"].map(|name| row[name].clone());
    let policy = ["--policy", "lru", "--frames", "2"];
    let run = |trace: &[&str]| ebbpool.json(&[&["run"], trace, &policy].concat());
    let expected = counts(&run(&[&plain]));
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
    assert_eq!(info(&[to]), info(&[&plain]));
    // The options also apply to the sample.
    let rows = ebbpool
        .json(&["compare", "--limit", "500", "--page-size", "16384", "--frames", "9", "--policies", "lru", "--asymmetry", "1"]);
    assert_eq!((&rows[0]["references"], &rows[0]["page_size"]), (&500.into(), &16384.into()));
}

#[test]
fn reading_options_are_checked() {
    let ebbpool = Ebbpool::in_repository();
    let sample = &sample("pg-tatp");
    ebbpool.refused(&["trace", "info", sample, sample], 2, &["--concat"]);
    ebbpool.refused(&["trace", "info", sample, "--page-size", "5000"], 2, &["8192", "5000"]);
    ebbpool.refused(&["trace", "info", sample, "--page-size", "0"], 2, &["--page-size"]);
    ebbpool.refused(&["trace", "info", sample, "--columns", "pgae=x"], 2, &["did you mean 'page'?"]);
    ebbpool.refused(&["trace", "info", sample, "--trace-format", "cvs"], 2, &["did you mean 'csv'?"]);
    ebbpool.refused(&["trace", "info"], 2, &["TRACE"]);
    ebbpool.refused(&["trace", "convert", sample], 2, &["the file to write is missing"]);
    ebbpool.refused(&["compare", sample, "--skip", "300000"], 1, &[sample, "empty"]);
}

#[test]
fn generators_are_listed_and_written() {
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
    for name in ["z.parquet", "z.txt.zst", "z.u32", "z.csv.gz"] {
        let to = &ebbpool.named(name);
        let spec = "scan-mix:pages=100,refs=2000,scan-length=20";
        ebbpool.stdout(&["trace", "generate", spec, to]);
        let described = |trace| {
            let mut info = ebbpool.json(&["trace", "info", trace]);
            for lost in ["name", "format", "database_pages", "lru_hit_ratio"] {
                info[lost].take();
            }
            info
        };
        assert_eq!(described(to), described(spec));
    }
    let out = &ebbpool.named("x.parquet");
    ebbpool.refused(&["trace", "generate", "zpif", out], 2, &["did you mean 'zipf'?"]);
    ebbpool.refused(&["trace", "generate", &sample("pg-tatp"), out], 2, &["no generator", "--list"]);
    ebbpool.refused(&["trace", "generate", "zipf"], 2, &["OUT"]);
    ebbpool.refused(&["trace", "generate", "zipf", "--list"], 2, &["--list"]);
    ebbpool.refused(&["trace", "generate", "zipf", "x.dat"], 2, &["--to-format"]);
    assert!(!Path::new(out).exists());
}

#[test]
fn a_description_fits_80_columns_and_says_the_same_in_json() {
    let ebbpool = Ebbpool::in_repository();
    let trace = "self-similar:pages=5000,refs=50000";
    let text = ebbpool.stdout(&["trace", "info", trace]);
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    assert!(!text.contains('\u{1b}'));
    let info = ebbpool.json(&["trace", "info", trace]);
    let hot = info["hottest"][2]["reference_share"].as_f64().expect("a share");
    assert!((hot - 0.8).abs() < 0.02, "{hot}");
    assert!(text.contains(&format!("hottest 20 % get    {:.1} % of references", 100.0 * hot)));
    let curve = info["lru_hit_ratio"]["points"].as_array().expect("points");
    assert_eq!(curve.len(), 61);
    // The curve agrees with the simulator's counts.
    let at = &curve[40];
    let frames = at["pages"].to_string();
    let run = ebbpool.json(&["run", trace, "--policy", "lru", "--frames", &frames]);
    assert_eq!(at["share"], run["hit_ratio"]);
    assert_eq!(at["percent"], 10.0);
    ebbpool.stdout(&["trace", "info", "zipf:refs=0"]);
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
        refused(&[&["compare", &trace, "--report", report], &sizes[..]].concat(), report);
        refused(&["curve", &trace, "--report", report], report);
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

#[test]
#[cfg(unix)]
fn a_trace_is_written_to_standard_output() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    let text = ebbpool.stdout(&["trace", "convert", &trace, "-", "--to-format", "text"]);
    assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 11);
    assert!(!Path::new(&ebbpool.named("-")).exists());
    ebbpool.refused(&["trace", "convert", &trace, "-"], 2, &["--to-format"]);
}
