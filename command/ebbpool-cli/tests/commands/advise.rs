//! Tests of `ebbpool advise`.

use serde_json::Value;

use crate::harness::Ebbpool;

crate::table::table!("advise");

const TRACE: &str = "zipf:pages=2000,refs=40000,write=0.3";

/// The words of a command of the page, without `ebbpool`.
fn words(command: &Value) -> Vec<String> {
    let command = command["command"].as_str().expect("a command");
    let words: Vec<String> = command.split(' ').map(String::from).collect();
    assert_eq!(words[0], "ebbpool");
    words[1..].to_vec()
}

#[test]
fn the_commands_of_the_page_have_its_figures() {
    let ebbpool = Ebbpool::in_repository();
    let advice = ebbpool.json(&[
        "advise", TRACE, "--page-size", "8k", "--frames", "512KiB", "--now", "gclock", "--memory-budget", "2MiB", "--rate",
        "100/s", "--device", "sd-a1", "--warmup", "10%",
    ]);
    assert_eq!(advice["now"]["frames"], 64);
    let commands = advice["commands"].as_array().expect("commands");
    let about = |about: &str| {
        let found = commands.iter().find(|it| it["about"] == about);
        words(found.unwrap_or_else(|| panic!("no {about}: {commands:?}")))
    };
    let rows = |about_words: Vec<String>| {
        let words: Vec<&str> = about_words.iter().map(String::as_str).collect();
        ebbpool.rows(&words)
    };
    let cells = rows(about("now and then"));
    for load in ["now", "then", "same_memory"] {
        let load = &advice[load];
        let is_it = |row: &&Value| row["policy"] == load["policy"] && row["frames"] == load["frames"];
        let row = cells.iter().find(is_it).unwrap_or_else(|| panic!("no {load}"));
        assert_eq!((&row["reads"], &row["writes"]), (&load["reads"], &load["writes"]));
        assert_eq!(row["cost"], load["cost"]);
        let per_second = 100.0 * load["reads"].as_f64().expect("reads") / 36_000.0;
        let found = load["reads_per_second"].as_f64().expect("reads a second");
        assert!((found - per_second).abs() < 1e-9 * per_second, "{found} {per_second}");
    }
    let curve = rows(about("the bill against memory"));
    for point in advice["curve"].as_array().expect("a curve") {
        let is_it = |row: &&Value| row["policy"] == point["policy"] && row["frames"] == point["frames"];
        let row = curve.iter().find(is_it).unwrap_or_else(|| panic!("no {point}"));
        // The point of a size that ran exactly is divided in another order.
        let [found, expected] = [row, point].map(|it| it["cost"].as_f64().expect("a bill"));
        assert!((found - expected).abs() < 1e-12 * expected, "{point}");
    }
}

#[test]
fn the_page_fits_a_screen() {
    let ebbpool = Ebbpool::in_repository();
    let page = ebbpool.stdout(&[
        "advise", TRACE, "--page-size", "8k", "--frames", "100", "--server", "postgresql", "--duration", "2h", "--device",
        "sd-a1", "--life", "5y",
    ]);
    let (page, commands) = page.split_once("Commands").expect("commands");
    assert!(page.lines().count() <= 64, "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 104), "{page}");
    for words in ["Set shared_buffers = 3200kB (now 800kB): reads -", "checkpoint_timeout", "knee", "R = ", "a day", "years"] {
        assert!(page.contains(words), "no {words}: {page}");
    }
    assert!(commands.contains("ebbpool compare") && commands.contains("ebbpool curve"));
}

#[test]
fn a_native_trace_with_times_has_its_own_clock() {
    let ebbpool = Ebbpool::in_scratch();
    let schema = parquet::schema::parser::parse_message_type(
        "message trace { REQUIRED INT64 time_us; REQUIRED INT64 page (INTEGER(64,false)); REQUIRED BOOLEAN write; }",
    );
    let file = std::fs::File::create(ebbpool.path("timed.parquet")).expect("a file");
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(file, schema.expect("a schema").into(), Default::default())
            .expect("a writer");
    // Two row groups of 1,000 references, 10 ms apart.
    for group in 0..2i64 {
        let rows = 1000 * group..1000 * (group + 1);
        let mut columns = writer.next_row_group().expect("a row group");
        let times: Vec<i64> = rows.clone().map(|row| 5_000_000 + 10_000 * row).collect();
        let pages: Vec<i64> = rows.clone().map(|row| row * row % 97).collect();
        let writes: Vec<bool> = rows.map(|row| row % 3 == 0).collect();
        for values in [times, pages] {
            let mut column = columns.next_column().expect("a column").expect("a column");
            column.typed::<parquet::data_type::Int64Type>().write_batch(&values, None, None).expect("values");
            column.close().expect("a column");
        }
        let mut column = columns.next_column().expect("a column").expect("a column");
        column.typed::<parquet::data_type::BoolType>().write_batch(&writes, None, None).expect("values");
        column.close().expect("a column");
        columns.close().expect("a row group");
    }
    writer.close().expect("a file");
    let rate = |more: &[&str]| {
        let args = [&["advise", "timed.parquet", "--frames", "10"], more].concat();
        let advice = ebbpool.json(&args);
        assert_eq!(advice["arrivals"]["source"], "trace_times", "{advice}");
        advice["arrivals"]["references_per_second"].as_f64().expect("a rate")
    };
    assert!((rate(&[]) - 100.0).abs() < 1e-9);
    assert!((rate(&["--skip", "900", "--limit", "200"]) - 100.0).abs() < 1e-9);
    // What arrives at the first moment is no arrival, as the references of a warm-up are none.
    let both = ["--concat", "timed.parquet", "--warmup", "50%"];
    assert!((rate(&both) - 100.0).abs() < 1e-9);
    // The checkpoints of the present policy, by the trace's own times: 1,999 references of 10 ms, and one every 100 of them.
    let args = ["advise", "timed.parquet", "--frames", "200", "--now", "postgres:checkpoint_timeout=1"];
    let advice = ebbpool.json(&args);
    assert_eq!((&advice["now"]["policy"], &advice["checkpoints"]), (&"postgres".into(), &"1s".into()));
    let commands = advice["commands"].as_array().expect("commands");
    let now = commands.iter().find(|it| it["about"] == "now and then");
    let words = words(now.expect("a command"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(words.windows(2).any(|pair| pair == ["--checkpoints", "1s"]), "{words:?}");
    let rows = ebbpool.rows(&words);
    let of_now = rows.iter().find(|row| row["policy"] == "postgres").expect("a row");
    assert_eq!(of_now["checkpoint_writes"], advice["now"]["checkpoint_writes"]);
    // Nothing is evicted; each checkpoint writes the pages that 33 or 34 references have made dirty.
    let written = of_now["checkpoint_writes"].as_u64().expect("a count");
    assert!((19 * 20..=19 * 34).contains(&written), "{written}");
    // A rate in the request overrules the times.
    let advice = ebbpool.json(&["advise", "timed.parquet", "--frames", "10", "--rate", "7"]);
    assert_eq!(advice["arrivals"]["references_per_second"], 7.0);
}

#[test]
fn extreme_rates_have_short_lines() {
    let ebbpool = Ebbpool::in_scratch();
    for rate in ["1e300", "1e-300"] {
        let args = ["advise", TRACE, "--page-size", "8k", "--frames", "100"];
        let more = ["--device", "sd-a1", "--life", "5y", "--rate", rate];
        let page = ebbpool.stdout(&[&args[..], &more].concat());
        let text = page.split("Commands that").next().expect("a page");
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(130), "{longest:?}: {page}");
    }
}

/// The page of a capture whose counters are known: a rate, bytes a day and years are one number in its JSON, its text and its report, and
/// the counters'.
#[test]
fn a_figure_is_one_number_wherever_it_stands() {
    const PAGE: f64 = 8192.0;
    let ebbpool = Ebbpool::in_scratch();
    let ask = |more: &[&str]| {
        let args = ["advise", TRACE, "--page-size", "8k", "--frames", "400", "--server", "postgresql", "--device", "sd-a1"];
        [&args[..], &["--duration", "400s"], more].concat().into_iter().map(String::from).collect::<Vec<_>>()
    };
    let asked = |more: &[&str]| ebbpool.json(&ask(more).iter().map(String::as_str).collect::<Vec<_>>());
    let simulated = asked(&[])["now"].clone();
    let bytes = |count: &str| PAGE * simulated[count].as_f64().expect("a count");
    let facts = format!(
        r#"{{"references": 40000, "written": {{"seconds": 400.0, "page_bytes": {}, "log_bytes": 3000000, "process_bytes": null, "device": null}},
            "read": {{"page_bytes": {1}, "process_bytes": {1}}}}}"#,
        bytes("writes"),
        bytes("reads")
    );
    std::fs::write(ebbpool.path("t.json"), facts).expect("a file");
    let json = asked(&["--facts", "t.json"]);
    let now = |field: &str| json["now"][field].as_f64().unwrap_or_else(|| panic!("no {field}: {json}"));
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    // The counters of the capture.
    near(now("reads_per_second") * 400.0 * PAGE, bytes("reads"));
    near(now("writes_per_second") * 400.0 * PAGE, bytes("writes"));
    let day = (bytes("writes") + 3e6) * 86_400.0 / 400.0;
    near(now("bytes_written_per_day"), day);
    near(json["life"]["measured"]["total"].as_f64().expect("bytes"), day);
    near(now("life_years"), json["life"]["host_bytes"].as_f64().expect("bytes") / day / 365.0);
    assert_eq!(json["cached_reads"], Value::Null);
    // What the simulation writes by cause is what it writes.
    let causes = json["life"]["causes"].as_array().expect("causes").iter().filter(|cause| cause["included"] == true);
    let sum: f64 = causes.map(|cause| cause["bytes_per_day"].as_f64().expect("bytes")).sum();
    near(sum, day - 3e6 * 86_400.0 / 400.0);
    // The size of the curve that is the present one.
    let points = json["curve"].as_array().expect("a curve");
    let present = points.iter().find(|point| point["frames"] == 400).expect("the present size");
    for field in ["bytes_written_per_day", "life_years", "reads_per_reference", "writes_per_reference"] {
        near(present[field].as_f64().expect("a figure"), now(field));
    }
    let words = ask(&["--facts", "t.json", "--report", "a.html"]);
    let page = ebbpool.stdout(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let report = std::fs::read_to_string(ebbpool.path("a.html")).expect("a report");
    let [reads, writes] = ["reads_per_second", "writes_per_second"].map(|field| format!("{:.0}", now(field)));
    let daily = format!("{:.2} GB", day / 1e9);
    let row = page.lines().find(|line| line.starts_with("  now ")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[3..5], [&reads, &writes], "{row}");
    assert!(row.contains(&daily), "{row} {daily}");
    let life = row.split(" % ").nth(1).expect("a life").trim();
    for text in [&page, &report] {
        assert!(text.contains(&format!("the server writes {daily} a day")), "no {daily}: {page}");
    }
    // The row, and the card "now".
    for figure in [reads.as_str(), &writes, &daily, life] {
        assert!(report.contains(&format!("<span>{figure}</span>")), "no {figure} in the row");
        assert!(report.contains(&format!("now {figure}")), "no {figure} in the card");
    }
    // The mark of the present size in the table of the memory.
    let size = page.lines().find(|line| line.trim_end().ends_with(" now")).expect("the present size");
    assert!(size.contains(life), "{size} {life}");
}
