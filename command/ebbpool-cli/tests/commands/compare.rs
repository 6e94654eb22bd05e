//! `ebbpool compare`.

use std::collections::BTreeSet;
use std::fs;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value};

use crate::harness::{Ebbpool, SMALL_FLASH, TABLE_2, data_of, errors, failed, interrupted, sample, succeeded, wait_until};

crate::table::table!("compare");

/// The line prices each write at the R of its time: where R is nearly 0 at the end, nothing changes, and where it is large only there,
/// nearly all does.
#[test]
fn the_other_treatment_is_priced_at_the_asymmetry_of_the_end() {
    let ebbpool = Ebbpool::in_scratch();
    fs::write(ebbpool.path("cheap.csv"), "0,1000\n1990,0.1\n").expect("a file");
    fs::write(ebbpool.path("dear.csv"), "0,0.1\n1990,1000\n").expect("a file");
    let trace = "zipf:pages=500,refs=2000,write=0.5";
    let base = ["run", trace, "--policy", "lru", "--frames", "100"];
    let of = |changes: &'static str, at_end: &'static str| [&base[..], &["--asymmetry", changes, "--at-end", at_end]].concat();
    for at_end in ["flush", "free"] {
        let table = ebbpool.stdout(&of("file:cheap.csv", at_end));
        assert!(!table.contains("--at-end"), "{table}");
    }
    let bill = |at_end| ebbpool.json(&of("file:dear.csv", at_end))["cost"].as_f64().expect("a bill");
    let (flush, free) = (bill("flush"), bill("free"));
    let less = (100.0 * (1.0 - free / flush)).round();
    let table = ebbpool.stdout(&of("file:dear.csv", "flush"));
    let expected = format!("lru's bill would be {less} % less (at 100 frames)");
    assert!(table.contains(&expected), "{expected}: {table}");
    let more = (100.0 * (flush / free - 1.0)).round();
    let table = ebbpool.stdout(&of("file:dear.csv", "free"));
    let expected = format!("lru's bill would be {more} % more (at 100 frames)");
    assert!(table.contains(&expected), "{expected}: {table}");
}

#[test]
fn the_table_fits_80_columns_and_ends_in_sentences() {
    let ebbpool = Ebbpool::in_repository();
    let table = ebbpool.stdout(&["compare", "--asymmetry", "32"]);
    let (sentences, rows): (Vec<&str>, Vec<&str>) =
        table.lines().partition(|line| ["at R=", "ebb is the ", "with --at-end "].iter().any(|begin| line.starts_with(begin)));
    assert_eq!(rows.iter().find(|row| row.chars().count() > 80), None);
    let [at_end, answer, advice] = sentences[..] else {
        panic!("not three sentences: {sentences:?}");
    };
    assert!(answer.starts_with("at R=32 and 3 % of the database (8,107 frames, 63.3 MiB) "), "{answer}");
    assert!(answer.contains(" less than lru and costs "), "{answer}");
    assert!(advice.starts_with("ebb is the cheapest in all 4 sizes, on average "), "{advice}");
    assert!(at_end.starts_with("with --at-end free, which leaves out the pages"), "{at_end}");
    assert!(table.trim_end().ends_with(advice), "{table}");
}

/// Compares the advice with a computation from the rows of three policies.
#[test]
fn the_advice_is_the_least_mean_bill() {
    let ebbpool = Ebbpool::in_repository();
    let base = [
        "compare", "zipf:pages=2000,refs=20000,write=0.5", "--policies", "fifo,lru,cflru", "--frames", "1%,5%,20%",
        "--asymmetry", "1,64",
    ];
    let rows = ebbpool.json(&base);
    let rows = rows.as_array().expect("an array");
    let cost = |row: &Value| row["cost"].as_f64().expect("a cost");
    let same_place = |a: &Value, b: &Value| a["frames"] == b["frames"] && a["asymmetry"] == b["asymmetry"];
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
    let (_, worst, best) = judged.iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("one");
    let table = ebbpool.stdout(&base);
    let last = table.lines().last().expect("an advice");
    let (says, ends) = match worst {
        1.0 => (format!("{best} is the cheapest in all 6 sizes and asymmetries, on average "), " than lru".into()),
        _ => (
            format!("{best} is the best choice over all 6 sizes and asymmetries, on average "),
            format!(", and at most {:.1} % above the cheapest in each", 100.0 * (worst - 1.0)),
        ),
    };
    assert!(last.starts_with(&says) && last.ends_with(&ends), "{last}");
}

#[test]
fn reads_that_pad_blocks_are_on_the_bill() {
    let ebbpool = Ebbpool::in_repository();
    let trace = "zipf:pages=2000,refs=30000,write=0.3";
    let of = |command: &str, more: &[&str]| {
        let args = [command, trace, "--policies", "bplru:block=8,padding=true"];
        let size = ["--frames", "90", "--asymmetry", "4"];
        ebbpool.rows(&[&args[..], &size, more].concat())[0].clone()
    };
    let row = of("compare", &[]);
    let figure = |name: &str| row[name].as_f64().expect("a figure");
    assert!(figure("padding_reads") > figure("reads"), "{row}");
    let bill = figure("reads") + figure("padding_reads") + 4.0 * figure("writes");
    let expected = bill / figure("references");
    assert!((figure("cost") / expected - 1.0).abs() < 1e-12, "{row}");
    let curve = of("curve", &["--sample", "100%"]);
    assert_eq!(curve["cost"], row["cost"], "{curve}");
}

/// The fields that only JSON has: figures of a device.
const OF_JSON_ALONE: [&str; 11] = [
    "byte_write_amplification", "device_idle_seconds", "dollars_per_reference", "energy", "erases", "host_writes",
    "lifetime_assumes", "lifetime_host_bytes", "not_steady", "programs", "write_amplification",
];

/// The columns of a table in their order, and its rows.
type Table = (Vec<String>, Vec<Map<String, Value>>);

fn of_csv(text: &str) -> Table {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let rows = reader.records().map(|row| {
        let row = row.expect("a row");
        let cells = header.iter().zip(row.iter());
        let value = |cell: &str| match cell {
            "" => Value::Null,
            cell => serde_json::from_str(cell).unwrap_or_else(|_| cell.into()),
        };
        let named = cells.map(|(name, cell)| (name.to_string(), value(cell)));
        named.collect()
    });
    let rows = rows.collect();
    (header.iter().map(str::to_string).collect(), rows)
}

fn of_parquet(file: fs::File) -> Table {
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let names = fields.iter().map(|field| field.name().to_string());
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        let value = |field: &Field| match field {
            Field::Null => Value::Null,
            Field::Str(text) => text.as_str().into(),
            Field::Long(number) => (*number).into(),
            Field::Double(number) => (*number).into(),
            other => panic!("{other:?} is none of the types of results"),
        };
        let columns = row.get_column_iter();
        let named = columns.map(|(name, field)| (name.clone(), value(field)));
        named.collect()
    });
    (names.collect(), rows.collect())
}

/// Compares two values. 32 equals 32.0, and the last bit of a fraction may differ after a conversion to
/// decimal digits.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_u64(), other.as_u64(), one.as_f64(), other.as_f64()) {
        (Some(one), Some(other), ..) => one == other,
        (.., Some(one), Some(other)) => (one - other).abs() <= 2.0 * f64::EPSILON * one.abs(),
        _ => one == other,
    }
}

#[test]
fn every_format_holds_all_fields_of_the_same_rows() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.file("t.txt", TABLE_2);
    ebbpool.file("a, \"b\".txt", TABLE_2);
    let mut non_null = BTreeSet::new();
    let bounded = ["t.txt", "--bound", "--asymmetry", "2,2.5", "--page-size", "4096"];
    let changing = ["a, \"b\".txt", "--asymmetry", "8,rm1:base=25,epoch=4", "--warmup", "2"];
    let on_disk = ["t.txt", "--device", "hdd1", "--at-end", "flush"];
    let on_flash = ["zipf:pages=3000,refs=6000,write=0.5", "--device", SMALL_FLASH];
    for (more, count) in
        [(&bounded[..], 8), (&changing, 8), (&on_disk, 4), (&["t.txt", "--device", "s3-standard"], 4), (&on_flash, 4)]
    {
        let base = ["compare", "--frames", "1,2", "--policies", "lru,fd-static:clean=1"];
        let base = [&base[..], more].concat();
        let text_in = |format: &str| succeeded(ebbpool.run(&[&base[..], &["--format", format]].concat()));
        let text = String::from_utf8(text_in("json")).expect("text");
        let rows: Vec<Map<String, Value>> = serde_json::from_str(&text).expect("JSON");
        let (columns, of_csv) = of_csv(&String::from_utf8(text_in("csv")).expect("text"));
        ebbpool.file("r.parquet", text_in("parquet"));
        let file = fs::File::open(ebbpool.path("r.parquet")).expect("a file");
        let (same_columns, of_parquet) = of_parquet(file);
        assert_eq!(columns, same_columns, "{more:?}");
        let places: Vec<_> = columns.iter().map(|name| text.find(&format!("\"{name}\":"))).collect();
        assert!(places.is_sorted() && places[0].is_some(), "{more:?}: {columns:?}");
        let counts = [rows.len(), of_csv.len(), of_parquet.len()];
        assert_eq!(counts, [count; 3], "{more:?}");
        for ((row, csv), parquet) in rows.iter().zip(&of_csv).zip(&of_parquet) {
            let mut names: Vec<&str> = row.keys().map(String::as_str).collect();
            names.retain(|name| !OF_JSON_ALONE.contains(name));
            assert_eq!(names.len(), columns.len(), "{more:?}: {names:?}");
            for name in names {
                let value = &row[name];
                for (other, format) in [(&csv[name], "CSV"), (&parquet[name], "Parquet")] {
                    assert!(is_same(value, other), "{name} of {more:?}: {value}, in {format} {other}");
                }
                if !value.is_null() {
                    non_null.insert(name.to_string());
                }
            }
        }
    }
    // The time of a policy is unknown if many policies share a pass.
    let unknown = ["references_per_second", "seconds"];
    assert_eq!(non_null.len(), 34 - unknown.len(), "{non_null:?}");
}

#[test]
fn a_report_loads_no_other_files_and_contains_the_results() {
    let ebbpool = Ebbpool::in_scratch();
    let to = &ebbpool.named("r.html");
    let args = [
        "compare", "zipf:pages=300,refs=5000,write=0.3", "--frames", "20,10%", "--asymmetry", "2,8", "--policies", "lru,casa",
        "--warmup", "500", "--format", "json", "--no-cache",
    ];
    let output = ebbpool.run(&[&args[..], &["--report", to]].concat());
    assert!(output.status.success());
    assert_eq!(errors(&output), format!("report: {to}\n"));
    assert_eq!(output.stdout, ebbpool.run(&args).stdout, "a report changes no result");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let page = ebbpool.text("r.html");
    assert!(page.contains("content=\"default-src 'none'; script-src 'sha256-"));
    let data = data_of(&page);
    let trace = &data["traces"][0];
    assert_eq!(trace["references"], 5000);
    assert_eq!(trace["warmup"], 500);
    assert_eq!(trace["times"], serde_json::json!([1000, 2000, 3000, 4000, 5000]));
    // LRU runs once per size, CASA once per size and asymmetry.
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
        let whole = |name: &str| row[name].as_i64().expect("a count");
        let until_the_end = whole("writes") + whole("dirty_before") - whole("end_writes");
        assert_eq!(total("writes"), until_the_end);
        assert_eq!(total("dirty"), whole("end_writes"));
        assert_eq!(line["target"].is_array(), row["policy"] == "casa");
    }
}

#[test]
fn files_that_end_early_are_refused_by_name() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["trace", "convert", "zipf:refs=100000", "z.txt.zst"]);
    for (whole, cut) in [(sample("pg-tatp").into(), "cut.parquet"), (ebbpool.path("z.txt.zst"), "cut.txt.zst")] {
        let bytes = fs::read(whole).expect("a trace");
        ebbpool.file(cut, &bytes[..bytes.len() / 2]);
        ebbpool.refused(&["compare", cut, "--frames", "2"], 1, &[cut]);
    }
}

#[test]
fn extreme_pages_and_sizes_are_fine() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", "W 18446744073709551615\nR 0\nR 18446744073709551615\n");
    let rows = ebbpool
        .json(&["compare", &trace, "--frames", "1,2,18446744073709551615", "--asymmetry", "32", "--policies", "all,belady"]);
    for row in rows.as_array().expect("rows") {
        // SQLite leaves one frame empty.
        let all_fit = row["frames"].as_u64() > Some(1 + u64::from(row["policy"] == "sqlite"));
        assert_eq!(row["writes"], 1, "{row}");
        assert_eq!(row["end_writes"], u64::from(all_fit), "{row}");
        assert_eq!(row["distinct_pages"], 2);
    }
}

const ZIPF: &str = "zipf:pages=3000,refs=60000,write=0.5";

fn compared(ebbpool: &Ebbpool, charge: &[&str], policies: &str) -> Vec<Value> {
    let args = ["compare", ZIPF, "--frames", "5%,20%"];
    let all = [&args[..], &["--policies", policies], charge].concat();
    ebbpool.rows(&all)
}

/// A result of `run`, without the fields that depend on the machine.
fn run_alike(ebbpool: &Ebbpool, row: &Value, charge: &[&str]) -> Value {
    let frames = row["frames"].to_string();
    let policy = row["policy"].as_str().expect("a name");
    let args = ["run", ZIPF, "--policy", policy, "--frames", &frames];
    let mut run = ebbpool.json(&[&args[..], charge].concat());
    run["seconds"] = Value::Null;
    run["references_per_second"] = Value::Null;
    run
}

#[test]
fn compare_spans_asymmetries_that_change() {
    let ebbpool = Ebbpool::in_scratch();
    let changes = ebbpool.file("changes.csv", "0,4\n30000,40\n");
    let spelled = ["8", "rm1:base=25,epoch=2000", "rm2", "2", &format!("file:{changes}")];
    let rows = compared(&ebbpool, &["--asymmetry", &spelled.join(",")], "lru,casa");
    assert_eq!(rows.len(), spelled.len() * 2 * 2);
    for (rows, asymmetry) in rows.chunks(4).zip(spelled) {
        for row in rows {
            assert_eq!(*row, run_alike(&ebbpool, row, &["--asymmetry", asymmetry]), "{asymmetry}");
        }
        let changing = asymmetry.parse::<f64>().is_err();
        assert_eq!(rows[0]["asymmetry_changes"].is_string(), changing);
    }
    let table = ebbpool.stdout(&["compare", ZIPF, "--frames", "9", "--asymmetry", "8,rm1:base=25,epoch=2000"]);
    let sentence =
        |line: &str| line.starts_with("at R=") || line.contains(" sizes and asymmetries") || line.contains(" 2 asymmetries");
    let fits = |line: &str| line.chars().count() <= 80 || sentence(line);
    assert!(table.lines().skip(1).all(fits), "{table}");
}

#[test]
fn compare_on_a_flash_device_shows_its_relative_lifetime() {
    let ebbpool = Ebbpool::in_repository();
    let charge = ["--device", SMALL_FLASH];
    let rows = compared(&ebbpool, &charge, "fifo,lru,cflru:window=1");
    for row in &rows {
        assert_eq!(*row, run_alike(&ebbpool, row, &charge));
    }
    let programs = |policy: &str| {
        let mut found = rows.iter();
        let row = found.find(|row| row["policy"] == policy && row["frames"] == 600);
        row.expect("a result")["programs"].as_f64().expect("a count")
    };
    let text = |policies: &str| {
        let args = ["compare", ZIPF, "--frames", "5%,20%", "--policies", policies];
        ebbpool.stdout(&[&args[..], &charge].concat())
    };
    let times = |other: &str| programs(other) / programs("cflru:window=1");
    let with_lru = text("fifo,lru,cflru:window=1");
    let expected = format!(
        "at 20 % of the database (600 frames) cflru:window=1 makes this device live {:.1} times as long as lru",
        times("lru")
    );
    assert!(with_lru.contains(&expected), "{expected} in {with_lru}");
    let cell = format!("x{:.2}", times("lru"));
    assert!(with_lru.contains(&cell), "{cell} in {with_lru}");
    let without = text("cflru:window=1,fifo");
    let expected = format!("live {:.1} times as long as fifo", times("fifo"));
    assert!(without.contains(&expected), "{expected} in {without}");
    assert!(times("fifo") > times("lru") && times("lru") > 1.1);
}

/// The answers of the traces before are printed, and so are the finished results of the later one.
#[test]
#[cfg(unix)]
fn an_interrupt_in_a_later_trace_prints_what_is_finished() {
    for format in ["table", "json"] {
        let ebbpool = Ebbpool::with_no_results();
        let args = [
            "compare", "zipf:pages=500,refs=5000", "zipf:pages=20000,refs=200000000", "--policies=lru,cflru", "--frames=10%",
            "--asymmetry=8", "--format", format, "--report", "r.html",
        ];
        let child = ebbpool.started(&args);
        let first = || fs::read_dir(ebbpool.results()).map_or(0, Iterator::count) > 0;
        wait_until("a result is stored", first);
        // The first trace takes milliseconds, the second one minutes.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let output = interrupted(child);
        failed(&output, 130, &["interrupted: 2 of 4 results are done"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match format {
            "json" => {
                let rows: Vec<Value> = serde_json::from_str(&text).expect("whole JSON");
                assert_eq!(rows.len(), 2);
                assert!(rows.iter().all(|row| row["references"] == 5000));
            }
            _ => {
                assert!(text.starts_with("zipf:pages=500,refs=5000: "), "{text}");
                assert!(text.contains("cflru writes "), "{text}");
            }
        }
        let page = ebbpool.text("r.html");
        assert!(page.contains("zipf:pages=500,refs=5000"));
    }
}

/// A file that is standard output is alone there, and no file has the name of another kind.
#[test]
fn standard_output_has_one_document() {
    let ebbpool = Ebbpool::in_scratch();
    let compare = ["compare", "zipf:pages=100,refs=1000", "--policies", "lru", "--frames", "10", "--asymmetry", "8"];
    for (option, end) in [("--report", "</html>"), ("--figure", "</svg>")] {
        let output = ebbpool.run(&[&compare[..], &[option, "-"]].concat());
        let document = String::from_utf8(output.stdout.clone()).expect("text");
        assert!(document.trim_end().ends_with(end) && errors(&output).contains("lru"), "{option}");
    }
    for (option, path, words) in [("--figure", "f.png", "SVG"), ("--report", "f.pdf", "HTML"), ("--report", "f.svg", "HTML")] {
        ebbpool.refused(&[&compare[..], &[option, path]].concat(), 2, &[words, "another format"]);
    }
    assert!(ebbpool.names().is_empty());
}
