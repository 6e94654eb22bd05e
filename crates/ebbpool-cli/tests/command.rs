//! The command as its users meet it: results, errors of one line, exit codes, files left alone.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn ebbpool(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .args(args)
        .env(
            "EBBPOOL_CACHE",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"),
        )
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("ebbpool starts")
}

fn stdout(args: &[&str]) -> String {
    let output = ebbpool(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).expect("JSON")
}

/// The command fails with this exit code and one line that holds all of `words`.
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = ebbpool(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    let first = message
        .lines()
        .filter(|line| line.contains("error"))
        .count();
    assert_eq!(first, 1, "{args:?}: {message}");
    for word in words {
        assert!(
            message.contains(word),
            "{args:?} says nothing of {word}: {message}"
        );
    }
}

fn file(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    fs::write(&path, content).expect("a file is written");
    path.to_str().expect("a path in UTF-8").into()
}

/// FD-Buffer, table 2, with the two references before it as warm-up.
const TABLE_2: &str =
    "# FD-Buffer, table 2\nR 25\nR 24\nW 1\nW 2\nR 3\nR 4\nR 3\nR 4\nR 3\nW 2\nR 1\n";

#[test]
fn run_reproduces_table_2_of_fd_buffer() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = file(dir.path(), "t.txt", TABLE_2);
    let events = dir.path().join("events.txt");
    let common = ["--frames", "2", "--warmup", "2", "--format", "json"];
    let run = |policy: &str, more: &[&str]| {
        let args = [&["run", &trace, "--policy", policy], &common[..], more].concat();
        json(&args)
    };
    let belady = run("belady", &[]);
    assert_eq!(
        (&belady["reads"], &belady["writes"]),
        (&Value::from(6), &Value::from(2))
    );
    let to = events.to_str().expect("a path in UTF-8");
    let fd = run("fd-static:clean=1", &["--events", to, "--asymmetry", "2"]);
    assert_eq!(
        (&fd["reads"], &fd["writes"]),
        (&Value::from(8), &Value::from(1))
    );
    assert_eq!(fd["cost"], Value::from(10.0 / 9.0));
    assert_eq!(fd["references"], Value::from(9));
    assert_eq!(fd["device"], Value::Null);
    assert_eq!(fd["cluster_switches"], Value::from(1));
    assert_eq!(
        fs::read_to_string(events).expect("events"),
        "# counted from here\nevict 25\nwrite 1\nevict 1\nevict 24\nevict 3\nevict 4\nevict 3\nevict 4\nevict 3\n"
    );
    let flushed = run("fd-static:clean=1", &["--at-end", "flush"]);
    assert_eq!(
        (&flushed["writes"], &flushed["dirty_left"]),
        (&Value::from(2), &Value::from(0))
    );
}

#[test]
fn compare_answers_from_the_sample_alike_with_any_number_of_threads() {
    let args = |threads| {
        stdout(&[
            "compare",
            "--frames",
            "1%,3%",
            "--asymmetry",
            "1,32",
            "--policies",
            "lru,cflru:window=0.25,fd-exact,fd-exact",
            "--format",
            "json",
            "--threads",
            threads,
        ])
    };
    let one = args("1");
    assert_eq!(one, args("2"));
    let rows: Vec<Value> = serde_json::from_str(&one).expect("JSON");
    assert_eq!(rows.len(), 3 * 2 * 2);
    assert_eq!(rows[2]["policy"], "cflru:window=0.25");
    assert_eq!(rows[4]["policy"], "fd-buffer:cost=exact");
    assert_eq!(rows[0]["frames"], 2702);
    let lru = json(&[
        "run",
        "crates/ebbpool-trace/traces/pg-tpcc.parquet",
        "--policy",
        "lru",
        "--frames",
        "3%",
        "--format",
        "json",
    ]);
    for field in [
        "reads",
        "writes",
        "cost",
        "cluster_switches",
        "cluster_switch_factor",
    ] {
        assert_eq!(rows[7][field], lru[field], "{field}");
    }
}

#[test]
fn the_table_fits_80_columns_and_ends_in_sentences() {
    let table = stdout(&["compare", "--asymmetry", "32"]);
    let (sentences, rows): (Vec<&str>, Vec<&str>) = table
        .lines()
        .partition(|line| line.starts_with("at R=") || line.starts_with("over all "));
    assert_eq!(rows.iter().find(|row| row.chars().count() > 80), None);
    let [answer, advice] = sentences[..] else {
        panic!("not two sentences: {sentences:?}");
    };
    assert!(
        answer.starts_with("at R=32 and 3 % of the database "),
        "{answer}"
    );
    assert!(answer.contains(" less than lru and costs "), "{answer}");
    assert!(table.trim_end().ends_with(advice), "{table}");
}

/// Three policies over one trace, priced by hand from the rows.
#[test]
fn the_advice_is_the_least_mean_bill() {
    let base = [
        "compare",
        "zipf:pages=2000,refs=20000,write=0.5",
        "--policies",
        "fifo,lru,cflru",
        "--frames",
        "1%,5%,20%",
        "--asymmetry",
        "1,64",
    ];
    let rows = json(&[&base[..], &["--format", "json"]].concat());
    let rows = rows.as_array().expect("an array");
    let cost = |row: &Value| row["cost"].as_f64().expect("a cost");
    let same_place =
        |a: &Value, b: &Value| a["frames"] == b["frames"] && a["asymmetry"] == b["asymmetry"];
    let judged: Vec<(f64, f64, &str)> = ["fifo", "lru", "cflru"]
        .into_iter()
        .map(|policy| {
            let own = rows.iter().filter(|row| row["policy"] == policy);
            let ratios: Vec<f64> = own
                .map(|row| {
                    let there = rows.iter().filter(|other| same_place(row, other));
                    cost(row) / there.map(cost).fold(f64::INFINITY, f64::min)
                })
                .collect();
            assert_eq!(ratios.len(), 6);
            let product: f64 = ratios.iter().product();
            (product, ratios.into_iter().fold(1.0, f64::max), policy)
        })
        .collect();
    let (_, worst, best) = judged
        .iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("one");
    let table = stdout(&base);
    let last = table.lines().last().expect("a last line");
    let says = format!("over all 6 sizes and asymmetries {best} is the one to take: ");
    assert!(last.starts_with(&says), "{last}");
    let ends = format!(
        "at most {:.1} % above the best of each",
        100.0 * (worst - 1.0)
    );
    assert!(last.ends_with(&ends), "{last}");
    let alike = [
        "--policies",
        "fifo,lru",
        "--frames",
        "2000,3000",
        "--asymmetry",
        "8",
    ];
    let alike = stdout(&[&base[..2], &alike[..]].concat());
    let last = "over all 2 sizes no policy costs less than lru on average";
    assert_eq!(alike.lines().last(), Some(last));
    let one_place = stdout(&["compare", base[1], "--frames", "5%", "--asymmetry", "8"]);
    assert!(!one_place.contains("over all"), "{one_place}");
}

#[test]
fn other_formats_hold_the_same_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = file(dir.path(), "t.txt", TABLE_2);
    let base = [
        "compare",
        &trace,
        "--frames",
        "2",
        "--asymmetry",
        "2",
        "--policies",
        "lru,fifo",
    ];
    let csv = stdout(&[&base[..], &["--format", "csv"]].concat());
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.starts_with("trace,policy,frames,page_size,asymmetry,device,references,warmup,"));
    let parquet = ebbpool(&[&base[..], &["--format", "parquet"]].concat());
    assert!(parquet.status.success());
    assert!(parquet.stdout.starts_with(b"PAR1") && parquet.stdout.ends_with(b"PAR1"));
}

#[test]
fn a_report_loads_nothing_and_holds_the_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = dir.path().join("r.html");
    let to = report.to_str().expect("a path in UTF-8");
    let args = [
        "compare",
        "zipf:pages=300,refs=5000,write=0.3",
        "--frames",
        "20,10%",
        "--asymmetry",
        "2,8",
        "--policies",
        "lru,casa",
        "--warmup",
        "500",
        "--format",
        "json",
        "--no-cache",
    ];
    let output = ebbpool(&[&args[..], &["--report", to]].concat());
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!("report: {to}\n")
    );
    assert_eq!(
        output.stdout,
        ebbpool(&args).stdout,
        "a report changes no result"
    );
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let page = fs::read_to_string(report).expect("a report");
    assert!(page.contains("content=\"default-src 'none'; script-src 'sha256-"));
    let (_, data) = page
        .split_once("<script type=\"application/json\" id=\"data\">")
        .expect("the results");
    let (data, _) = data.split_once("</script>").expect("their end");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let trace = &data["traces"][0];
    assert_eq!(trace["references"], 5000);
    assert_eq!(trace["warmup"], 500);
    assert_eq!(
        trace["times"],
        serde_json::json!([1000, 2000, 3000, 4000, 5000])
    );
    // Lru runs once per size, casa once per size and asymmetry.
    assert_eq!(trace["time_lines"].as_array().map(Vec::len), Some(2 + 4));
    let results = trace["results"].as_array().expect("results");
    assert_eq!(results.len(), rows.len());
    for (result, row) in results.iter().zip(&rows) {
        let at = |column: usize| result[column].as_u64().expect("a number") as usize;
        assert_eq!(trace["policies"][at(0)], row["policy"]);
        assert_eq!(trace["sizes"][at(1)]["frames"], row["frames"]);
        assert_eq!(trace["asymmetries"][at(2)], row["asymmetry"]);
        assert_eq!((&result[3], &result[4]), (&row["reads"], &row["writes"]));
        let line = &trace["time_lines"][at(6)];
        let total = |name: &str| -> i64 {
            let changes = line[name].as_array().expect("changes");
            changes.iter().filter_map(Value::as_i64).sum()
        };
        assert_eq!(Value::from(total("reads")), row["reads"]);
        assert_eq!(Value::from(total("writes")), row["writes"]);
        assert_eq!(Value::from(total("dirty")), row["dirty_left"]);
        assert_eq!(line["target"].is_array(), row["policy"] == "casa");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_known_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = dir.path().join("none").join("r.html");
    let to = report.to_str().expect("a path in UTF-8");
    // Simulating this many references would take minutes.
    let trace = "zipf:pages=1000,refs=1000000000";
    refused(
        &["compare", trace, "--frames", "9", "--report", to],
        1,
        &["r.html"],
    );
}

#[test]
fn traces_convert_and_are_described() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = file(dir.path(), "t.txt", TABLE_2);
    let mut before = trace;
    for name in ["a.parquet", "b.u32.zst", "c.txt.gz", "d.u32", "e.txt.zst"] {
        let to = dir.path().join(name);
        let to = to.to_str().expect("a path in UTF-8").to_string();
        stdout(&["trace", "convert", &before, &to]);
        let info = json(&["trace", "info", &to, "--format", "json"]);
        assert_eq!(
            (&info["references"], &info["writes"]),
            (&Value::from(11), &Value::from(3))
        );
        assert_eq!(info["distinct_pages"], 6);
        before = to;
    }
}

/// Runs the command with `input` on its standard input.
fn piped(args: &[&str], input: &[u8]) -> Output {
    use std::io::Write as _;
    let mut child = Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("ebbpool starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // Who refuses its input may be gone before it is written.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("ebbpool ends")
}

#[test]
fn traces_of_other_programs_are_read_and_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let spc = file(dir.path(), "t.spc", "0,15,1024,w,0.1\n1,8,4096,r,0.2\n");
    let info = json(&[
        "trace",
        "info",
        &spc,
        "--page-size",
        "4096",
        "--format",
        "json",
    ]);
    assert_eq!(
        (&info["format"], &info["references"], &info["writes"]),
        (&"spc".into(), &3.into(), &2.into())
    );
    let text = stdout(&["trace", "info", &spc, "--page-size", "4096"]);
    assert!(text.contains("\nformat              spc\n"), "{text}");
    refused(&["trace", "info", &spc], 2, &["--page-size 4096"]);
    let out = dir.path().join("out.spc");
    let out = out.to_str().expect("a path in UTF-8");
    refused(
        &["trace", "convert", &spc, out, "--page-size", "4096"],
        2,
        &["only read", "native, text, u32, csv"],
    );
    assert!(!Path::new(out).exists());
    let output = piped(&["trace", "info", "-"], b"*\n5\n6\n");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    assert!(
        notes.contains("looks like lirs") && notes.contains("all references are reads"),
        "{notes}"
    );
}

#[test]
fn standard_input_is_a_trace() {
    let args = ["--policies", "lru", "--frames", "50%", "--asymmetry", "2"];
    let compare = [&["compare", "-"], &args[..], &["--format", "json"]].concat();
    // Sizes in per cent need a pass of their own: the pipe is read twice.
    let output = piped(
        &[&compare[..], &["--trace-format", "text"]].concat(),
        TABLE_2.as_bytes(),
    );
    assert!(output.status.success());
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows[0]["frames"], 3);
    assert_eq!(rows[0]["references"], 11);
    assert_eq!(rows[0]["trace"], "standard input");
    // Its magic tells Parquet; what looks like text is told to be a guess.
    let native = fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../ebbpool-trace/traces/pg-tatp.parquet"
    ))
    .expect("the sample");
    let output = piped(
        &["trace", "info", "-", "--format", "json", "--limit", "1000"],
        &native,
    );
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&info["references"], &info["page_size"]),
        (&1000.into(), &8192.into())
    );
    let output = piped(&["trace", "info", "-"], b"R 1\n");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && message.contains("looks like text"),
        "{message}"
    );
    for (args, input, code, part) in [
        (
            &["trace", "info", "-"][..],
            &b"\x00\x01"[..],
            1,
            "--trace-format",
        ),
        (
            &["trace", "info", "-", "-", "--concat"],
            b"R 1\n",
            2,
            "one trace only",
        ),
        (&["compare", "-", "-"], b"R 1\n", 2, "one trace only"),
    ] {
        let output = piped(args, input);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn every_command_reads_alike() {
    let dir = tempfile::tempdir().expect("a directory");
    // The references of table 2 behind two others, as requests in bytes, in two parts, with dirt.
    let mut rows: Vec<String> = vec!["0,1,R".into(), "100,1,W".into()];
    for line in TABLE_2.lines().skip(1) {
        let (op, page) = line.split_once(' ').expect("op and page");
        let page: u64 = page.parse().expect("a page");
        rows.push(format!("{},100,{op}", page * 100));
    }
    rows.insert(4, "oops".into());
    let part = |rows: &[String]| format!("off,len,op\n{}\n", rows.join("\n"));
    let first = file(dir.path(), "a.csv", part(&rows[..7]));
    let second = file(dir.path(), "b.csv", part(&rows[7..]));
    let reading = [
        &first,
        &second,
        "--concat",
        "--columns",
        "offset=off,size=len,write=op:W",
        "--page-size",
        "100",
        "--skip-bad-lines",
        "1",
        "--skip",
        "2",
        "--limit",
        "11",
        "--format",
        "json",
    ];
    let plain = file(dir.path(), "t.txt", TABLE_2);
    let info = |args: &[&str]| {
        let mut info = json(&[&["trace", "info"], args].concat());
        info["page_size"].take();
        info["format"].take();
        info
    };
    assert_eq!(info(&reading), info(&[&plain, "--format", "json"]));
    let counts = |row: &Value| ["references", "reads", "writes"].map(|name| row[name].clone());
    let policy = ["--policy", "lru", "--frames", "2"];
    let run = |trace: &[&str]| json(&[&["run"], trace, &policy].concat());
    let expected = counts(&run(&[&plain, "--format", "json"]));
    assert_eq!(counts(&run(&reading)), expected);
    let policy = ["--policies", "lru", "--frames", "2", "--asymmetry", "32"];
    let rows = json(&[&["compare"], &reading[..], &policy].concat());
    assert_eq!(rows.as_array().map(Vec::len), Some(1));
    assert_eq!(counts(&rows[0]), expected);
    let to = dir.path().join("out.parquet");
    let to = to.to_str().expect("a path in UTF-8");
    let output = ebbpool(&[&["trace", "convert"], &reading[..13], &[to]].concat());
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("note: left out 1 bad line: "), "{notes}");
    assert_eq!(
        info(&[to, "--format", "json"]),
        info(&[&plain, "--format", "json"])
    );
    // The sample is a trace like any other.
    let rows = json(&[
        "compare",
        "--limit",
        "500",
        "--page-size",
        "16384",
        "--frames",
        "9",
        "--policies",
        "lru",
        "--asymmetry",
        "1",
        "--format",
        "json",
    ]);
    assert_eq!(
        (&rows[0]["references"], &rows[0]["page_size"]),
        (&500.into(), &16384.into())
    );
}

#[test]
fn reading_options_are_checked() {
    let sample = "crates/ebbpool-trace/traces/pg-tatp.parquet";
    refused(&["trace", "info", sample, sample], 2, &["--concat"]);
    refused(
        &["trace", "info", sample, "--page-size", "5000"],
        2,
        &["8192", "5000"],
    );
    refused(
        &["trace", "info", sample, "--page-size", "0"],
        2,
        &["--page-size"],
    );
    refused(
        &["trace", "info", sample, "--columns", "pgae=x"],
        2,
        &["did you mean 'page'?"],
    );
    refused(
        &["trace", "info", sample, "--trace-format", "cvs"],
        2,
        &["did you mean 'csv'?"],
    );
    refused(&["trace", "info"], 2, &["TRACE"]);
    refused(
        &["trace", "convert", sample],
        2,
        &["the file to write is missing"],
    );
    refused(
        &["compare", sample, "--skip", "300000"],
        1,
        &[sample, "empty"],
    );
}

#[test]
fn generators_are_listed_and_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = stdout(&["trace", "generate", "--list"]);
    for info in ebbpool_trace::generators() {
        assert!(list.contains(&format!("{}\n    {}\n", info.name, info.summary)));
        for parameter in info.parameters {
            let line = list.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(parameter.name) && line.ends_with(parameter.description)
            });
            assert!(line, "{} of {}", parameter.name, info.name);
        }
    }
    for name in ["z.parquet", "z.txt.zst", "z.u32", "z.csv.gz"] {
        let to = dir.path().join(name);
        let to = to.to_str().expect("a path in UTF-8");
        let spec = "scan-mix:pages=100,refs=2000,scan-length=20";
        stdout(&["trace", "generate", spec, to]);
        let described = |trace| {
            let mut info = json(&["trace", "info", trace, "--format", "json"]);
            for lost in ["name", "format", "database_pages", "lru_hit_ratio"] {
                info[lost].take();
            }
            info
        };
        assert_eq!(described(to), described(spec));
    }
    let out = dir.path().join("x.parquet");
    let out = out.to_str().expect("a path in UTF-8");
    refused(
        &["trace", "generate", "zpif", out],
        2,
        &["did you mean 'zipf'?"],
    );
    refused(
        &[
            "trace",
            "generate",
            "crates/ebbpool-trace/traces/pg-tatp.parquet",
            out,
        ],
        2,
        &["no generator", "--list"],
    );
    refused(&["trace", "generate", "zipf"], 2, &["OUT"]);
    refused(&["trace", "generate", "zipf", "--list"], 2, &["--list"]);
    refused(&["trace", "generate", "zipf", "x.dat"], 2, &["--to-format"]);
    assert!(!Path::new(out).exists());
}

#[test]
fn a_description_fits_80_columns_and_says_the_same_in_json() {
    let trace = "self-similar:pages=5000,refs=50000";
    let text = stdout(&["trace", "info", trace]);
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    assert!(!text.contains('\u{1b}'));
    let info = json(&["trace", "info", trace, "--format", "json"]);
    let hot = info["hottest"][2]["reference_share"]
        .as_f64()
        .expect("a share");
    assert!((hot - 0.8).abs() < 0.02, "{hot}");
    assert!(text.contains(&format!(
        "hottest 20 % get    {:.1} % of references",
        100.0 * hot
    )));
    let curve = info["lru_hit_ratio"]["points"].as_array().expect("points");
    assert_eq!(curve.len(), 61);
    // What the curve says is what the simulator counts.
    let at = &curve[40];
    let frames = at["pages"].to_string();
    let run = json(&[
        "run", trace, "--policy", "lru", "--frames", &frames, "--format", "json",
    ]);
    assert_eq!(at["share"], run["hit_ratio"]);
    assert_eq!(at["percent"], 10.0);
    stdout(&["trace", "info", "zipf:refs=0"]);
}

#[test]
fn series_have_a_row_every_thousand_references() {
    let dir = tempfile::tempdir().expect("a directory");
    let series = dir.path().join("s.csv");
    let to = series.to_str().expect("a path in UTF-8");
    let trace = "zipf:pages=500,refs=10000,write=0.3";
    stdout(&[
        "run",
        trace,
        "--policy",
        "fd-buffer",
        "--frames",
        "50",
        "--series",
        to,
    ]);
    let text = fs::read_to_string(series).expect("a series");
    assert_eq!(text.lines().count(), 11);
    assert!(text.starts_with("reference,clean,dirty,target,asymmetry,pc,pd,pdw\n1000,"));
}

#[test]
fn wrong_usage_is_refused_with_the_remedy() {
    let run = [
        "run",
        "crates/ebbpool-trace/traces/pg-tatp.parquet",
        "--frames",
    ];
    let with = |frames: &'static str, policy: &'static str| {
        [&run[..], &[frames, "--policy", policy]].concat()
    };
    refused(&with("10", "lur"), 2, &["did you mean 'lru'?"]);
    refused(&with("10", "cflru:windwo=1"), 2, &["window", "0 to 1"]);
    refused(&with("10", "cflru:window=2"), 2, &["0 to 1"]);
    refused(&with("10", "lru:cluster=auto"), 2, &["cluster=64"]);
    refused(&with("0", "lru"), 2, &["from 1 up"]);
    refused(&with("0%", "lru"), 2, &["above 0"]);
    refused(&["compare", "--asymmetry", "-1"], 2, &[]);
    refused(&["compare", "--asymmetry=nan"], 2, &["asymmetry"]);
    refused(
        &["run", "zipf:pagse=3", "--policy", "lru", "--frames", "1"],
        2,
        &["pages"],
    );
    let warm = [&with("10", "lru")[..], &["--warmup", "300000"]].concat();
    refused(&warm, 2, &["300000", "--warmup"]);
}

#[test]
fn bad_files_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let native = fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../ebbpool-trace/traces/pg-tatp.parquet"
    ))
    .expect("the sample");
    let zst = dir.path().join("z.txt.zst");
    let zst = zst.to_str().expect("a path in UTF-8");
    stdout(&["trace", "convert", "zipf:refs=100000", zst]);
    let packed = fs::read(zst).expect("a trace");
    let cases = [
        (
            file(dir.path(), "bad.txt", "R 1\nR x\n"),
            vec!["bad.txt", "2"],
        ),
        (
            file(dir.path(), "empty.txt", "# nothing\n"),
            vec!["empty.txt", "empty"],
        ),
        (
            file(dir.path(), "cut.parquet", &native[..native.len() / 2]),
            vec!["cut.parquet"],
        ),
        (
            file(dir.path(), "cut.txt.zst", &packed[..packed.len() / 2]),
            vec!["cut.txt.zst"],
        ),
        (file(dir.path(), "odd.u32", [1, 2, 3]), vec!["odd.u32"]),
        (
            dir.path().join("none.txt").to_str().expect("UTF-8").into(),
            vec!["none.txt"],
        ),
    ];
    for (path, words) in cases {
        refused(&["compare", &path, "--frames", "2"], 1, &words);
    }
}

#[test]
fn extreme_pages_and_sizes_are_fine() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = file(
        dir.path(),
        "t.txt",
        "W 18446744073709551615\nR 0\nR 18446744073709551615\n",
    );
    let rows = json(&[
        "compare",
        &trace,
        "--frames",
        "1,2,18446744073709551615",
        "--asymmetry",
        "32",
        "--policies",
        "all,belady",
        "--format",
        "json",
    ]);
    for row in rows.as_array().expect("rows") {
        let all_fit = row["frames"] != 1;
        assert_eq!(row["writes"], u64::from(!all_fit), "{row}");
        assert_eq!(row["distinct_pages"], 2);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let run = |flag| {
        let trace = "zipf:pages=5000,refs=100000";
        [
            "run",
            trace,
            "--policy",
            "lru",
            "--frames",
            "10",
            flag,
            "/dev/full",
        ]
    };
    refused(&run("--events"), 1, &[]);
    refused(&run("--series"), 1, &[]);
    refused(
        &[
            "trace",
            "convert",
            "zipf:refs=100000",
            "/dev/full",
            "--to-format",
            "text",
        ],
        1,
        &[],
    );
    refused(
        &[
            "compare",
            "zipf:refs=9999",
            "--frames",
            "9",
            "--report",
            "/dev/full",
        ],
        1,
        &[],
    );
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let status = Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .arg("policies")
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status();
    assert_eq!(status.expect("ebbpool starts").code(), Some(1));
}

#[test]
fn the_page_on_policies_is_current() {
    let written = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/policies.md"
    ));
    assert_eq!(
        written.expect("docs/policies.md"),
        stdout(&["policies", "--markdown"]),
        "run: cargo run --release -- policies --markdown > docs/policies.md"
    );
}

#[test]
fn a_policy_is_explained_as_it_is_named() {
    for entry in ebbpool_policy::registry::entries() {
        let text = stdout(&["policies", entry.name]);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [entry.summary, entry.how, entry.when, entry.source] {
            assert!(!part.is_empty(), "{}", entry.name);
            assert!(
                words(&text).contains(&words(part)),
                "{}: {part}",
                entry.name
            );
        }
        for param in entry.params {
            let line = format!("  {}={} (the default)\n", param.name, param.default);
            assert!(text.contains(&line), "{}: {line}", entry.name);
        }
    }
    let exact = stdout(&["policies", "fd-exact:group=64"]);
    assert!(exact.starts_with("fd-buffer:group=64,cost=exact\n"));
    assert!(exact.contains("  group=64 (default 1)\n"));
    assert!(exact.contains("  cost=exact (default paper)\n"));
    assert!(exact.lines().all(|line| line.chars().count() <= 80));
    refused(&["policies", "lur"], 2, &["did you mean 'lru'?"]);
    refused(&["policies", "lru:cluster=x"], 2, &["0 to 1048576"]);
    refused(&["policies", "lru", "--markdown"], 2, &[]);
}

#[test]
fn devices_are_listed_and_told_of_in_80_columns() {
    let list = stdout(&["devices"]);
    assert!(list.contains("\nflash-136 "), "{list}");
    let names: Vec<&str> = list
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names.len(), 43);
    let told = names.iter().map(|name| stdout(&["devices", name]));
    for text in std::iter::once(list.clone()).chain(told) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    let one = stdout(&["devices", "flash-136"]);
    for words in ["136.2, the one that a policy sees", "TC table 1: 680.4"] {
        assert!(one.contains(words), "{one}");
    }
}

#[test]
fn devices_are_told_of_in_json_and_toml() {
    let all = json(&["devices", "--format", "json"]);
    assert_eq!(all.as_array().map(Vec::len), Some(43));
    let dc = json(&["devices", "micron-9200", "--format", "json"]);
    assert_eq!(dc["name"], "nvme-dc-9200");
    assert_eq!(dc["asymmetry"], "steady");
    assert_eq!(dc["policy_asymmetry"], dc["asymmetries"]["steady"]);
    let qd1 = dc["asymmetries"]["qd1"].as_f64().expect("known");
    assert!((qd1 - 21.0 / 92.0).abs() < 1e-12, "{qd1}");
    assert_eq!(dc["asymmetries"]["chip"], Value::Null);
    assert_eq!(dc["figures"]["read_us"]["basis"], "datasheet");
    let dir = tempfile::tempdir().expect("a directory");
    let toml = stdout(&["devices", "micron-9200", "--format", "toml"]);
    let mine = file(dir.path(), "mine.toml", toml);
    assert_eq!(json(&["devices", &mine, "--format", "json"]), dc);
}

#[test]
fn a_device_is_charged() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = file(dir.path(), "t.txt", TABLE_2);
    let run = |more: &[&str]| {
        let mut args = vec![
            "run",
            &trace,
            "--policy",
            "fd-static:clean=1",
            "--frames",
            "2",
        ];
        args.extend(["--warmup", "2", "--format", "json"]);
        args.extend(more);
        json(&args)
    };
    let profile = |name: &str| json(&["devices", name, "--format", "json"]);
    let figure = |name: &str, figure: &str| {
        profile(name)["figures"][figure]["value"]
            .as_f64()
            .expect("a figure")
    };
    let counts = run(&[]);
    let (reads, writes) = (counts["reads"].as_f64(), counts["writes"].as_f64());
    let (reads, writes) = (reads.expect("reads"), writes.expect("writes"));
    assert_eq!(
        (reads, writes, counts["device"].clone()),
        (8.0, 1.0, Value::Null)
    );

    let slow = run(&["--device", "flash-136"]);
    assert_eq!(
        (&slow["device"], &slow["reads"]),
        (&"flash-136".into(), &counts["reads"])
    );
    let read = figure("flash-136", "read_us");
    let write = figure("flash-136", "write_us");
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().expect("a number");
        assert!(
            (value / expected - 1.0).abs() < 1e-9,
            "{value} is not {expected}"
        );
    };
    near(&slow["asymmetry"], write / read);
    near(&slow["cost_us"], (reads * read + writes * write) / 9.0);
    near(&slow["cost"], (reads + writes * write / read) / 9.0);
    assert!(slow["joules_per_reference"].is_null());

    let disk = run(&["--device", "hdd1"]);
    assert!(disk["joules_per_reference"].as_f64().expect("joules") > 0.0);

    // Nine references at a thousand a second: 9 ms, for which the disk and the host draw power.
    let ssd = run(&["--device", "ssd3", "--rate", "1000"]);
    let busy = ssd["cost_us"].as_f64().expect("a time") * 9.0;
    let idle = ssd["device_idle_seconds"].as_f64().expect("a time") * 1e6;
    assert!(idle > 0.0 && busy + idle > 8900.0, "{busy} {idle}");
    let watts = 0.1 + figure("ssd3", "host_active_w");
    near(
        &ssd["joules_per_reference"],
        ((busy + idle) * watts + busy * 1.1) / 1e6 / 9.0,
    );
    let without = [
        "run", &trace, "--policy", "lru", "--frames", "2", "--rate", "5",
    ];
    refused(&without, 2, &["--device"]);

    let price = run(&["--device", "s3-standard"]);
    near(
        &price["dollars_per_reference"],
        (reads * 4e-7 + writes * 5e-6) / 9.0,
    );
    assert!(price["cost_us"].is_null());

    let all = json(&[
        "compare",
        &trace,
        "--device",
        "flash-136",
        "--policies",
        "fd-static:clean=1",
        "--frames",
        "2",
        "--warmup",
        "2",
        "--format",
        "json",
    ]);
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&all[0]["cost_us"], &all[0]["cost"]),
        (&slow["cost_us"], &slow["cost"])
    );

    assert!(all[0]["joules_per_reference"].is_null());
    let on_disk = [
        "compare",
        &trace,
        "--device",
        "hdd1",
        "--policies",
        "fd-static:clean=1",
        "--frames",
        "2",
        "--warmup",
        "2",
    ];
    let all = json(&[&on_disk[..], &["--format", "json"]].concat());
    assert_eq!(all[0]["joules_per_reference"], disk["joules_per_reference"]);
    assert!(stdout(&on_disk).contains("energy per reference"));

    for (args, words) in [
        (["--device", "flash-137"], "flash-136"),
        (["--device", "nowhere/x.toml"], "nowhere/x.toml"),
        (["--asymmetry", "rm3"], "rm1"),
        (["--asymmetry", "file:none.csv"], "none.csv"),
    ] {
        let run = [
            "run", &trace, "--policy", "lru", "--frames", "2", args[0], args[1],
        ];
        let code = match words {
            "nowhere/x.toml" | "none.csv" => 1,
            _ => 2,
        };
        refused(&run, code, &[words]);
    }
    let both = ["run", &trace, "--policy", "lru", "--frames", "2"];
    let both = [&both[..], &["--device", "ssd3", "--asymmetry", "3"]].concat();
    refused(&both, 2, &["--asymmetry"]);
}

#[test]
fn an_asymmetry_that_changes_is_charged_as_it_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let rows = (0..40).map(|at| format!("W {at}\n")).collect::<String>();
    let trace = file(dir.path(), "t.txt", rows);
    let changes = file(dir.path(), "c.csv", "reference,R\n0,1\n20,10\n");
    let spec = format!("file:{changes}");
    let result = json(&[
        "run",
        &trace,
        "--policy",
        "fifo",
        "--frames",
        "10",
        "--asymmetry",
        &spec,
        "--format",
        "json",
    ]);
    // The misses of references 10 to 19 write ten pages at 1, those of 20 to 39 twenty at 10.
    assert_eq!(result["writes"], 30);
    assert_eq!(result["cost"], (40.0 + 10.0 + 200.0) / 40.0);
    assert_eq!(result["asymmetry"], 1);
}

const SMALL_FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=64,page_size=2048,precondition=steady";

#[test]
fn a_flash_device_is_replayed_as_theory_says() {
    let replay = |trace: &str, device: &str| {
        json(&[
            "device", "replay", trace, "--device", device, "--format", "json",
        ])
    };
    let all_over = "uniform:pages=25000,refs=400000,write=1";
    let device = "flash:slc-mt29f4g08aaa,blocks=512,rho=0.8,precondition=steady";
    let report = replay(all_over, device);
    assert_eq!(report["host_writes"], 400_000);
    let figure = |name: &str| report[name].as_f64().expect("a figure");
    let theory = figure("predicted_write_amplification");
    let found = figure("write_amplification");
    assert!((found / theory - 1.0).abs() < 0.03, "{found} for {theory}");
    assert_eq!(
        figure("programs"),
        400_000.0
            + report["programs_by_cause"]["cleaning"]
                .as_f64()
                .expect("a count")
    );
    assert!(report["lifetime_days"].is_null() && report["failed"].is_null());
    // 49.5 mW while the one die works, which is all the time.
    let joules = report["energy"]["total_j"]
        .as_f64()
        .expect("its power is known");
    let expected = 0.0495 * figure("device_seconds");
    assert!((joules / expected - 1.0).abs() < 1e-9, "{joules}");
    assert!((figure("joules_per_reference") * 400_000.0 / joules - 1.0).abs() < 1e-9);
    let unknown = replay(
        "uniform:pages=2000,refs=3000,write=1",
        "flash:znand,blocks=64",
    );
    assert!(unknown["energy"].is_null() && unknown["joules_per_reference"].is_null());

    let in_order = (0..5000)
        .map(|page| format!("W {page}\n"))
        .collect::<String>();
    let dir = tempfile::tempdir().expect("a directory");
    let in_order = file(dir.path(), "t.txt", in_order);
    let fresh = replay(&in_order, "flash:slc-mt29f4g08aaa,blocks=512");
    assert_eq!(
        (&fresh["programs"], &fresh["erases"]),
        (&5000.into(), &0.into())
    );
    assert!(fresh["write_amplification"].is_null());
    assert!(
        fresh["not_steady"].is_string(),
        "a run without erases says so"
    );
}

#[test]
fn a_buffer_on_a_flash_device() {
    let zipf = "zipf:pages=3000,refs=60000,write=0.5";
    let run = |policy: &str, device: &[&str]| {
        let args = [
            "run", zipf, "--policy", policy, "--frames", "5%", "--format", "json",
        ];
        json(&[&args[..], device].concat())
    };
    let plain = run("lru", &[]);
    let flash = run("lru", &["--device", SMALL_FLASH]);
    for same in ["reads", "writes", "hits", "cluster_switches"] {
        assert_eq!(plain[same], flash[same], "lru does not look at the device");
    }
    assert_eq!(flash["host_writes"], flash["writes"]);
    let joules = flash["joules_per_reference"].as_f64().expect("joules");
    let at_work = 0.0495 * flash["cost_us"].as_f64().expect("a time") / 1e6;
    assert!((joules / at_work - 1.0).abs() < 1e-9, "{joules}");
    assert!(flash["erases"].as_u64() > Some(100) && flash["cost_us"].as_f64() > Some(25.0));
    let saving = run("cflru:window=1", &["--device", SMALL_FLASH]);
    assert!(saving["erases"].as_u64() < flash["erases"].as_u64());

    let args = [
        "compare",
        zipf,
        "--frames",
        "5%",
        "--policies",
        "lru,cflru:window=1",
    ];
    let text = stdout(&[&args[..], &["--device", SMALL_FLASH]].concat());
    assert!(text.contains("lifetime of the device"), "{text}");
    let erases = flash["erases"].to_string();
    assert!(text.contains(&erases), "{erases} in {text}");
}

fn compared(charge: &[&str], policies: &str) -> Vec<Value> {
    let args = ["compare", ZIPF, "--frames", "5%,20%", "--format", "json"];
    let all = [&args[..], &["--policies", policies], charge].concat();
    serde_json::from_value(json(&all)).expect("an array")
}

const ZIPF: &str = "zipf:pages=3000,refs=60000,write=0.5";

/// A result of `run`, without what depends on the machine.
fn run_alike(row: &Value, charge: &[&str]) -> Value {
    let frames = row["frames"].to_string();
    let policy = row["policy"].as_str().expect("a name");
    let args = [
        "run", ZIPF, "--format", "json", "--policy", policy, "--frames", &frames,
    ];
    let mut run = json(&[&args[..], charge].concat());
    run["seconds"] = Value::Null;
    run["references_per_second"] = Value::Null;
    run
}

#[test]
fn compare_spans_asymmetries_that_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let changes = file(dir.path(), "changes.csv", "0,4\n30000,40\n");
    let spelled = [
        "8",
        "rm1:base=25,epoch=2000",
        "rm2",
        "2",
        &format!("file:{changes}"),
    ];
    let rows = compared(&["--asymmetry", &spelled.join(",")], "lru,casa");
    assert_eq!(rows.len(), spelled.len() * 2 * 2);
    for (rows, asymmetry) in rows.chunks(4).zip(spelled) {
        for row in rows {
            assert_eq!(
                *row,
                run_alike(row, &["--asymmetry", asymmetry]),
                "{asymmetry}"
            );
        }
        let changing = asymmetry.parse::<f64>().is_err();
        assert_eq!(rows[0]["asymmetry_changes"].is_string(), changing);
    }
    let table = stdout(&[
        "compare",
        ZIPF,
        "--frames",
        "9",
        "--asymmetry",
        "8,rm1:base=25,epoch=2000",
    ]);
    let long = table.lines().find(|line| line.starts_with("R = rm1"));
    assert_eq!(long, Some("R = rm1:base=25,epoch=2000"));
    let sentence = |line: &str| line.starts_with("at R=") || line.starts_with("over all ");
    let fits = |line: &str| line.chars().count() <= 80 || sentence(line);
    assert!(table.lines().skip(1).all(fits), "{table}");
    for (list, word) in [
        ("8,rm3", "rm3"),
        ("", "no asymmetry"),
        ("rm1:base=25,reading=literal", "reading"),
    ] {
        refused(&["compare", ZIPF, "--asymmetry", list], 2, &[word]);
    }
    let missing = ["compare", ZIPF, "--asymmetry", "8,file:/no/such.csv"];
    refused(&missing, 1, &["/no/such.csv"]);
}

#[test]
fn compare_on_a_flash_device_tells_how_long_it_lives() {
    let charge = ["--device", SMALL_FLASH];
    let rows = compared(&charge, "fifo,lru,cflru:window=1");
    for row in &rows {
        assert_eq!(*row, run_alike(row, &charge));
    }
    let programs = |policy: &str| {
        let mut found = rows.iter();
        let row = found.find(|row| row["policy"] == policy && row["frames"] == 600);
        row.expect("a result")["programs"]
            .as_f64()
            .expect("a count")
    };
    let text = |policies: &str| {
        let args = [
            "compare",
            ZIPF,
            "--frames",
            "5%,20%",
            "--policies",
            policies,
        ];
        stdout(&[&args[..], &charge].concat())
    };
    let times = |other: &str| programs(other) / programs("cflru:window=1");
    let with_lru = text("fifo,lru,cflru:window=1");
    let told = format!(
        "at 20 % of the database cflru:window=1 makes this device live {:.1} times as long as lru",
        times("lru")
    );
    assert!(with_lru.contains(&told), "{told} in {with_lru}");
    let cell = format!("x{:.2}", times("lru"));
    assert!(with_lru.contains(&cell), "{cell} in {with_lru}");
    let without = text("cflru:window=1,fifo");
    let told = format!("live {:.1} times as long as fifo", times("fifo"));
    assert!(without.contains(&told), "{told} in {without}");
    assert!(times("fifo") > times("lru") && times("lru") > 1.1);

    let fresh = ["--device", "flash:slc-mt29f4g08aaa,blocks=2048"];
    let args = [
        "compare",
        ZIPF,
        "--frames",
        "5%",
        "--policies",
        "lru,cflru:window=1",
    ];
    let fresh = stdout(&[&args[..], &fresh].concat());
    assert!(
        fresh.contains("has not reached a steady state (no block"),
        "{fresh}"
    );
}

#[test]
fn a_policy_under_which_the_device_fails_wins_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let chip = "name = \"weak\"\npage_bytes = 2048\npages_per_block = 16\nblocks = 64\n\
        read_us = [25.0]\nprogram_us = [220.0]\nerase_us = 1500.0\ntransfer_ns_per_byte = 25.0\n\
        endurance = 60\nsource = \"made to wear out\"\n";
    let device = format!("flash:{}", file(dir.path(), "weak.toml", chip));
    let trace = "zipf:pages=600,refs=120000,write=0.5";
    let compare = |policies: &str, more: &[&str]| {
        let args = [
            "compare",
            trace,
            "--frames",
            "5%",
            "--device",
            &device,
            "--policies",
            policies,
        ];
        stdout(&[&args[..], more].concat())
    };
    // The device of lru fails early in the trace, so that it has paid for less.
    let table = compare("lru,cflru:window=1", &[]);
    let line = |name: &str| {
        table
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a line")
    };
    assert!(line("lru").ends_with("failed"), "{table}");
    assert!(line("cflru:window=1").contains('*'), "{table}");
    assert!(
        table.contains("lifetimes cannot be compared: under lru the device failed"),
        "{table}"
    );
    assert!(
        table.contains("cflru:window=1 has the smallest time"),
        "{table}"
    );
    let all_failed = compare("lru,fifo", &[]);
    assert!(
        all_failed.contains("lifetimes cannot be compared"),
        "{all_failed}"
    );
    let path = dir.path().join("r.html");
    let path = path.to_str().expect("UTF-8");
    compare("lru,cflru:window=1", &["--report", path]);
    let page = fs::read_to_string(path).expect("the report");
    assert!(
        page.contains("\"failed\":\"the device failed: "),
        "the report knows"
    );
}

#[test]
fn flash_devices_that_cannot_be() {
    let zipf = "zipf:pages=3000,refs=600";
    for (device, words) in [
        ("flash:slc-mt29f4g08aaa,blocks=8", "blocks="),
        ("flash:slc-mt29f4g08aaa,blok=64", "did you mean 'blocks'"),
        (
            "flash:slc-mt29f4g08aaa,pages_per_block=0",
            "pages_per_block",
        ),
        ("flash:none", "slc-mt29f4g08aaa"),
    ] {
        refused(&["device", "replay", zipf, "--device", device], 2, &[words]);
        let run = [
            "run", zipf, "--policy", "lru", "--frames", "9", "--device", device,
        ];
        refused(&run, 2, &[words]);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let beyond = file(dir.path(), "t.txt", "R 1\nW 99999999\n");
    refused(
        &["device", "replay", &beyond, "--device", SMALL_FLASH],
        1,
        &["beyond the device's", "blocks=1953128 is the least"],
    );
}

#[test]
fn devices_that_cannot_be_told_of() {
    refused(&["devices", "flsh-136"], 2, &["did you mean 'flash-136'"]);
    refused(
        &["devices", "/no/such.toml"],
        1,
        &["/no/such.toml: cannot read"],
    );
    refused(&["devices", "--format", "toml"], 2, &["name it"]);
    refused(&["devices", "ssd1", "--markdown"], 2, &["--markdown"]);
    let dir = tempfile::tempdir().expect("a directory");
    let wrong = file(dir.path(), "wrong.toml", "name = \"x\"\ncolour = 1\n");
    refused(&["devices", &wrong], 1, &["wrong.toml, line 2", "`colour`"]);
}

#[test]
fn the_page_on_devices_is_current() {
    let written = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/devices.md"
    ));
    assert_eq!(
        written.expect("docs/devices.md"),
        stdout(&["devices", "--markdown"]),
        "run: cargo run --release -- devices --markdown > docs/devices.md"
    );
}
