//! The figures in README.md and docs/ are what the program prints today.
//!
//! A block in a document begins with a comment that has a command and ends with another comment:
//!
//! ```text
//! <!-- output of: ebbpool compare --frames 3% --asymmetry 32 | tail -n 1 -->
//! <!-- end -->
//! ```
//!
//! The test writes the command and its output between the two, or compares them with what stands there. The command may
//! be any line of a shell, and stands on several lines where it is long. Where its output is JSON, a last line of the
//! comment names one of the [`RENDERINGS`], which makes a table of it:
//!
//! ```text
//! <!-- output of:
//! ebbpool compare my.parquet --policies all --format json
//! as: savings of cost against lru
//! -->
//! <!-- end -->
//! ```
//!
//! A block whose comment begins with `output, each night, of:` takes seconds: `./test --whole` compares it, and `./test --all`
//! does not. Measured times differ from run to run, so a block has none.
//!
//! A study takes too long to be run by a test. Its blocks begin with another comment, which names the claims of
//! experiments or a table in the `verdicts.md` of a recorded run, and are written from the directory of such a run:
//!
//! ```text
//! <!-- recorded: claims of ebb-cells, ebb-judged -->
//! <!-- end -->
//! <!-- recorded: ebb-default: All cells -->
//! <!-- end -->
//! ```
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Ebbpool, ROOT, errors};

/// Both at the beginning of a line, so that a document can name them in a sentence.
const BEGIN: &str = "\n<!-- output of:";
const BEGIN_NIGHTLY: &str = "\n<!-- output, each night, of:";
const BEGIN_RECORDED: &str = "\n<!-- recorded:";
const END: &str = "\n<!-- end -->";

/// Makes a table of results; the second argument is the rest of its name.
type Rendering = fn(&[Value], &str) -> String;

/// What a block may name, by its first words.
const RENDERINGS: &[(&str, Rendering)] =
    &[("columns ", columns), ("savings of ", savings), ("best two by cost against ", best_two)];

/// README.md, its neighbours, and the pages in docs/ and docs/generated/.
fn documents() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for directory in ["", "docs", "docs/generated"] {
        let entries = fs::read_dir(Path::new(ROOT).join(directory)).expect("a directory");
        let all = entries.map(|entry| entry.expect("an entry").path());
        paths.extend(all.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    paths.sort();
    paths
}

/// `EBBPOOL_WRITE_DOCS=1 cargo test -p ebbpool-cli --test commands documents` writes the blocks anew.
#[test]
fn the_figures_in_documents_are_the_output_of_their_commands() {
    let ebbpool = Ebbpool::in_repository();
    let write = std::env::var_os("EBBPOOL_WRITE_DOCS").is_some();
    let mut differences = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("the document");
        let of_command = |comment: &str| content_of(comment, |it| output_of(it, &ebbpool));
        let mut current = with_current_blocks(&text, BEGIN, of_command);
        if write || std::env::var_os("EBBPOOL_WHOLE").is_some() {
            current = with_current_blocks(&current, BEGIN_NIGHTLY, of_command);
        }
        if write && current != text {
            fs::write(&path, &current).expect("the document is written");
        } else if let Some(line) = first_difference(&text, &current) {
            differences.push(format!("{}:{line}", path.display()));
        }
    }
    assert!(
        differences.is_empty(),
        "these lines are not what their commands print; \
         run: EBBPOOL_WRITE_DOCS=1 cargo test -p ebbpool-cli --test commands documents\n{}",
        differences.join("\n")
    );
}

/// `EBBPOOL_STUDY=DIRECTORY cargo test -p ebbpool-cli --test commands recorded_blocks -- --ignored` writes the blocks anew
/// from the directory that `ebbpool reproduce ebb --out DIRECTORY` has written.
#[test]
#[ignore = "writes the blocks of a recorded run, from the directory in EBBPOOL_STUDY"]
fn recorded_blocks_are_written() {
    let directory = std::env::var_os("EBBPOOL_STUDY").expect("EBBPOOL_STUDY is a directory");
    let verdicts = Path::new(&directory).join("verdicts.md");
    let verdicts = fs::read_to_string(&verdicts).expect("verdicts.md");
    for path in documents() {
        let text = fs::read_to_string(&path).expect("the document");
        let of_run = |comment: &str| recorded(comment.trim(), &verdicts);
        let current = with_current_blocks(&text, BEGIN_RECORDED, of_run);
        fs::write(&path, &current).expect("the document is written");
    }
}

/// What `sqlite/rivals/measure.py --loads` has measured, the least and the most, stands wherever a reader first meets it.
#[test]
fn the_headline_of_sqlite_is_the_range_of_its_table() {
    let document = |name: &str| fs::read_to_string(Path::new(ROOT).join(name)).expect("the document");
    let guide = document("docs/sqlite.md");
    let (_, table) = guide.split_once("<!-- figures: loads -->").expect("the table of loads");
    let (table, _) = table.split_once(END).expect("the table's end");
    let last = table.lines().filter_map(|line| line.strip_suffix("x |")?.rsplit_once("| "));
    let times: Vec<f64> = last.map(|(_, times)| times.parse().expect("how many times fewer")).collect();
    assert_eq!(times.len(), 7);
    let (least, most) = times.iter().fold((f64::MAX, 0.0_f64), |(least, most), it| (least.min(*it), most.max(*it)));
    let headline = format!("{least:.1} to {most:.1} times");
    let crate_of_sqlite = ["README.md", "Cargo.toml", "src/lib.rs"].map(|name| format!("sqlite/ebbpool-sqlite/{name}"));
    for name in ["README.md", "docs/sqlite.md", "command/ebbpool-cli/src/args.rs"]
        .into_iter()
        .chain(crate_of_sqlite.iter().map(|it| &**it))
    {
        assert!(document(name).contains(&headline), "{name} does not say {headline}");
    }
}

/// The list of differences from plain SQLite names tests, and differences that the judge allows.
#[test]
fn the_price_of_sqlite_names_tests_that_exist() {
    fn add_sources(directory: &Path, sources: &mut String) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                add_sources(&path, sources);
            } else if path.extension().is_some_and(|it| it == "rs") {
                *sources += &fs::read_to_string(&path).expect("a source");
            }
        }
    }
    let mut sources = String::new();
    for directory in ["sqlite/ebbpool-sqlite/tests", "command/ebbpool-cli/tests"] {
        add_sources(&Path::new(ROOT).join(directory), &mut sources);
    }
    let text = fs::read_to_string(Path::new(ROOT).join("sqlite/ebbpool-sqlite/src/lib.rs")).expect("the crate's documentation");
    let (_, price) = text.split_once("//! # The price\n").expect("the list");
    let (price, _) = price.split_once("\n\n").expect("the list's end");
    let names = price.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 2 || name.starts_with("Price::"));
    let (existing, missing): (Vec<&str>, Vec<&str>) = names.filter(|name| *name != "Price::…").partition(|name| {
        let found = if name.starts_with("Price::") { format!("({name}") } else { format!("fn {name}(") };
        sources.contains(&found)
    });
    assert!(
        existing.len() > 30 && missing.is_empty(),
        "of {} names these are missing: {missing:?}",
        existing.len() + missing.len()
    );
}

/// The claims of some experiments, or the table with a title.
fn recorded(name: &str, verdicts: &str) -> String {
    let table_after = |start: usize| {
        let lines = verdicts[start..].lines();
        let table = lines.skip_while(|line| !line.starts_with('|'));
        table.take_while(|line| line.starts_with('|')).collect::<Vec<_>>()
    };
    let Some(experiments) = name.strip_prefix("claims of ") else {
        let title = format!("\n{name}\n");
        let start = verdicts.find(&title);
        let start = start.unwrap_or_else(|| panic!("verdicts.md has no table '{name}'"));
        return table_after(start).join("\n");
    };
    let ids: Vec<String> = experiments.split(", ").map(|id| format!("| `{id}` |")).collect();
    let mut rows = table_after(0);
    let claims = rows.split_off(2);
    let is_asked = |claim: &&str| ids.iter().any(|id| claim.starts_with(id));
    rows.extend(claims.into_iter().filter(is_asked));
    assert!(rows.len() > 2, "verdicts.md has no claims of {experiments}");
    rows.join("\n")
}

/// The number of the first line in which two texts differ, and both of its versions.
fn first_difference(text: &str, current: &str) -> Option<String> {
    let (mut lines, mut current) = (text.lines(), current.lines());
    for number in 1.. {
        match (lines.next(), current.next()) {
            (None, None) => break,
            (line, other) if line == other => {}
            (line, other) => {
                let show = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
                return Some(format!("{number}: `{}`, now `{}`", show(line), show(other)));
            }
        }
    }
    None
}

/// What a command prints, run in the repository.
fn output_of(command: &str, ebbpool: &Ebbpool) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_ebbpool"));
    let mut path = binary.parent().expect("a directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .env("EBBPOOL_CACHE", ebbpool.results())
        .current_dir(ebbpool.directory())
        .output()
        .expect("sh starts");
    // A pipe ends with success although its first command fails.
    let printed = output.status.success() && !output.stdout.is_empty();
    assert!(printed, "`{command}`: {}", errors(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// A document with each block that begins so as `fill` fills it now, which gets the rest of the comment.
fn with_current_blocks(text: &str, begins: &str, fill: impl Fn(&str) -> String) -> String {
    let mut current = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(begins) {
        let (before, block) = rest.split_at(begin);
        let (comment, _) = block.split_once("-->").expect("the comment's end");
        let (_, after) = block.split_once(END).expect("the block's end");
        let content = fill(&comment[begins.len()..]);
        current += &format!("{before}{comment}-->\n{content}{END}");
        rest = after;
    }
    current + rest
}

/// What stands in a block whose comment says this.
fn content_of(comment: &str, run: impl Fn(&str) -> String) -> String {
    let lines = comment.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let (command, rendering) = match lines.split_last() {
        Some((last, command)) if last.starts_with("as: ") => (command, Some(&last[4..])),
        _ => (&lines[..], None),
    };
    let shown = command.join(" \\\n    ");
    let output = run(&command.join(" "));
    let Some(name) = rendering else {
        return format!("```text\n$ {shown}\n{}\n```", output.trim_end());
    };
    let (prefix, render) = RENDERINGS
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .unwrap_or_else(|| panic!("no rendering is named '{name}'"));
    let table = render(&results_in(&output), &name[prefix.len()..]);
    format!("```text\n$ {shown}\n```\n\n{table}")
}

/// All results in one or more JSON texts, each of one result or an array of them.
fn results_in(output: &str) -> Vec<Value> {
    let texts = serde_json::Deserializer::from_str(output).into_iter();
    let results = texts.map(|text| match text.expect("JSON") {
        Value::Array(results) => results,
        result => vec![result],
    });
    results.flatten().collect()
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = header.iter().map(|_| "---".into()).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(header) + &line(&rule) + &rows
}

fn text<'r>(result: &'r Value, field: &str) -> &'r str {
    result[field].as_str().unwrap_or_default()
}

fn real(result: &Value, field: &str) -> f64 {
    result[field].as_f64().unwrap_or_else(|| panic!("{field} is no number in {result}"))
}

/// The trace without its directory and format, the device, the asymmetry, and the number of frames.
type Cell<'r> = (&'r str, &'r str, String, u64);

fn cell(result: &Value) -> Cell<'_> {
    let trace = text(result, "trace");
    let name = trace.rsplit('/').next().unwrap_or(trace);
    let name = name.strip_suffix(".parquet").unwrap_or(name);
    let frames = result["frames"].as_u64().expect("frames");
    let asymmetry = real(result, "asymmetry").to_string();
    (name, text(result, "device"), asymmetry, frames)
}

/// Different values in their order.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// A share in per cent, with its sign unless it is 0.
fn percent(share: f64) -> String {
    let shown = format!("{:+.1} %", share * 100.0);
    match &shown[1..] {
        "0.0 %" => "0.0 %".into(),
        _ => shown,
    }
}

/// What a policy has in a cell.
fn value_of(results: &[Value], policy: &str, in_cell: &Cell, field: &str) -> f64 {
    let is_it = |result: &&Value| text(result, "policy") == policy && cell(result) == *in_cell;
    let result = results.iter().find(is_it);
    real(result.unwrap_or_else(|| panic!("{policy} has no result for {in_cell:?}")), field)
}

/// A row for each result, with the fields named.
fn columns(results: &[Value], fields: &str) -> String {
    let fields: Vec<&str> = fields.split(", ").collect();
    let shown = |result: &Value, field: &str| match &result[field] {
        Value::Number(number) if number.is_f64() => format!("{:.6}", real(result, field)),
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    };
    let row = |result| fields.iter().map(|field| shown(result, field)).collect();
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    let header: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    table(&header, &rows)
}

/// By how many per cent fields of each policy are below those of another one, in each trace, with each asymmetry and each
/// number of frames: a row for each policy, or where there is only one, for each trace, asymmetry and number of frames. One
/// policy may be left out, as in `cost against lru without sqlite`.
fn savings(results: &[Value], name: &str) -> String {
    let (fields, baseline) = name.split_once(" against ").expect("FIELDS against POLICY");
    let (baseline, left_out) = baseline.split_once(" without ").unwrap_or((baseline, ""));
    let fields: Vec<&str> = fields.split(", ").collect();
    let cells = distinct(results.iter().map(cell));
    let policies = distinct(results.iter().map(|result| text(result, "policy")));
    let is_shown = |policy: &&str| *policy != baseline && *policy != left_out;
    let others: Vec<&str> = policies.into_iter().filter(is_shown).collect();
    let saving = |policy: &str, cell: &Cell, field: &str| {
        let rest = value_of(results, policy, cell, field) / value_of(results, baseline, cell, field);
        percent(1.0 - rest)
    };
    let names = names_of(&cells);
    if let [policy] = others[..] {
        let row = |(cell, name): (&Cell, &String)| {
            let savings = fields.iter().map(|field| saving(policy, cell, field));
            std::iter::once(name.clone()).chain(savings).collect()
        };
        let header = fields.iter().map(|field| format!("`{field}` of `{policy}`"));
        let header: Vec<String> = std::iter::once(String::new()).chain(header).collect();
        return table(&header, &cells.iter().zip(&names).map(row).collect::<Vec<_>>());
    }
    let mut header = vec!["policy".to_owned()];
    for name in &names {
        header.extend(fields.iter().map(|field| match (fields.len(), &**name) {
            (_, "") => format!("`{field}`"),
            (1, name) => name.to_owned(),
            (_, name) => format!("{name}, `{field}`"),
        }));
    }
    let row = |policy: &&str| {
        let savings = cells.iter().flat_map(|cell| fields.iter().map(|field| saving(policy, cell, field)));
        std::iter::once(format!("`{policy}`")).chain(savings).collect()
    };
    table(&header, &others.iter().map(row).collect::<Vec<_>>())
}

/// What distinguishes each cell from the others.
fn names_of(cells: &[Cell]) -> Vec<String> {
    let several_traces = distinct(cells.iter().map(|cell| cell.0)).len() > 1;
    let several_asymmetries = distinct(cells.iter().map(|cell| &cell.2)).len() > 1;
    let of_first_trace = cells.iter().filter(|cell| cell.0 == cells[0].0);
    let several_sizes = distinct(of_first_trace.map(|cell| cell.3)).len() > 1;
    let name = |(trace, _, asymmetry, frames): &Cell| {
        let parts = [
            several_traces.then(|| (*trace).to_owned()),
            several_asymmetries.then(|| format!("R = {asymmetry}")),
            several_sizes.then(|| format!("{frames} frames")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    cells.iter().map(name).collect()
}

/// For each asymmetry and each size the two policies with the least geometric mean, over all traces, of the cost in
/// that of another policy.
fn best_two(results: &[Value], baseline: &str) -> String {
    let cells = distinct(results.iter().map(cell));
    let traces = distinct(cells.iter().map(|cell| cell.0));
    let asymmetries = distinct(cells.iter().map(|cell| cell.2.clone()));
    let mut sizes: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (trace, _, _, frames) in &cells {
        let sizes = sizes.entry(trace).or_default();
        if !sizes.contains(frames) {
            sizes.push(*frames);
        }
    }
    let policies = distinct(results.iter().map(|result| text(result, "policy")));
    let best = |asymmetry: &String, size: usize| {
        let mean = |policy: &str| {
            let ratio = |trace: &&str| {
                let cell = (*trace, "", asymmetry.clone(), sizes[trace][size]);
                let of = |policy| value_of(results, policy, &cell, "cost");
                (of(policy) / of(baseline)).ln()
            };
            (traces.iter().map(ratio).sum::<f64>() / traces.len() as f64).exp()
        };
        let mut means: Vec<(f64, &str)> = policies.iter().map(|it| (mean(it), *it)).collect();
        means.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let shown = means.iter().take(2);
        let shown = shown.map(|(mean, policy)| format!("`{policy}` {}", percent(1.0 - mean)));
        shown.collect::<Vec<_>>().join(", ")
    };
    let count = sizes.values().map(Vec::len).max().unwrap_or(0);
    let mut header = vec!["R".to_owned()];
    let size_of = |size: usize| {
        let frames = traces.iter().map(|trace| sizes[trace][size].to_string());
        format!("{} frames", frames.collect::<Vec<_>>().join(" / "))
    };
    header.extend((0..count).map(size_of));
    let row = |asymmetry: &String| {
        let cells = (0..count).map(|size| best(asymmetry, size));
        std::iter::once(asymmetry.clone()).chain(cells).collect()
    };
    table(&header, &asymmetries.iter().map(row).collect::<Vec<_>>())
}

#[test]
fn a_block_is_filled_with_the_output_of_its_command() {
    let run = |command: &str| format!("[{command}]\n\n");
    let text = "a `<!-- output of: COMMAND -->`\n<!-- output of: ebbpool x -->\nold\n<!-- end -->\nb\n\
                <!-- output of:\nebbpool y\n| tail -n 1\n-->\n<!-- end -->\n";
    let expected = "a `<!-- output of: COMMAND -->`\n<!-- output of: ebbpool x -->\n```text\n$ ebbpool x\n[ebbpool x]\n```\n<!-- end -->\nb\n\
                    <!-- output of:\nebbpool y\n| tail -n 1\n-->\n```text\n$ ebbpool y \\\n    | tail -n 1\n\
                    [ebbpool y | tail -n 1]\n```\n<!-- end -->\n";
    let fill = |comment: &str| content_of(comment, run);
    assert_eq!(with_current_blocks(text, BEGIN, fill), expected);
    assert_eq!(with_current_blocks(expected, BEGIN, fill), expected);
    let difference = first_difference(text, expected);
    assert_eq!(difference.as_deref(), Some("3: `old`, now ````text`"));
    assert_eq!(first_difference(text, text), None);
}

#[test]
fn recorded_claims_and_tables_are_found() {
    let verdicts = "2 claims\n\n| where | ours |\n| --- | --- |\n| `a-b` | 1 |\n| `a` | 2 |\n\n\
                    a: All cells\n\n| policy |\n| --- |\n| ebb |\n\na: Others\n\n| x |\n";
    let claims = recorded("claims of c, a", verdicts);
    assert_eq!(claims, "| where | ours |\n| --- | --- |\n| `a` | 2 |");
    let table = recorded("a: All cells", verdicts);
    assert_eq!(table, "| policy |\n| --- |\n| ebb |");
}

#[test]
fn tables_of_results() {
    let result = |trace: &str, policy: &str, asymmetry: u32, cost: f64| {
        serde_json::json!({ "trace": format!("traces/{trace}.parquet"), "policy": policy, "device": null,
            "asymmetry": f64::from(asymmetry), "frames": 10, "cost": cost, "reads": 4 })
    };
    let results =
        [result("a", "lru", 1, 2.0), result("a", "ebb", 1, 1.5), result("a", "lru", 8, 8.0), result("a", "ebb", 8, 9.0)];
    assert_eq!(
        savings(&results, "cost, reads against lru"),
        "|  | `cost` of `ebb` | `reads` of `ebb` |\n| --- | --- | --- |\n\
         | R = 1 | +25.0 % | 0.0 % |\n| R = 8 | -12.5 % | 0.0 % |\n"
    );
    let three = [&results[..2], &[result("a", "arc", 1, 1.0)]].concat();
    assert_eq!(
        savings(&three, "cost against lru"),
        "| policy | `cost` |\n| --- | --- |\n| `ebb` | +25.0 % |\n| `arc` | +50.0 % |\n"
    );
    assert_eq!(
        columns(&results[3..], "policy, frames, cost"),
        "| `policy` | `frames` | `cost` |\n| --- | --- | --- |\n| `ebb` | 10 | 9.000000 |\n"
    );
    assert_eq!(savings(&three, "cost against lru without arc"), savings(&three[..2], "cost against lru"));
    let texts = "{\"cost\": 1}\n[{\"cost\": 2}, {\"cost\": 3}]";
    assert_eq!(results_in(texts).len(), 3);
    let other = [result("b", "lru", 1, 1.0), result("b", "ebb", 1, 3.0)];
    assert_eq!(
        best_two(&[&results[..2], &other].concat(), "lru"),
        "| R | 10 / 10 frames |\n| --- | --- |\n| 1 | `lru` 0.0 %, `ebb` -50.0 % |\n"
    );
}
