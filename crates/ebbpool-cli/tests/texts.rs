//! What README.md, docs/ and `--help` tell readers to type works as it stands there.
#![cfg(unix)]

mod commands;

use std::fs;
use std::path::Path;
use std::process::Command;

use commands::{ROOT, Told};

/// Runs all commands of one text, in order, in a directory of their own with these files.
fn run_all(told: &[Told], files: &[(String, String)]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    commands::prepare(directory.path());
    for (name, content) in files {
        fs::write(directory.path().join(name), content).expect("a file of the document");
    }
    told.iter()
        .filter_map(|told| commands::run(told, directory.path()).err())
        .collect()
}

#[test]
fn commands_of_the_documents_work() {
    let mut names = vec!["README.md".to_string()];
    for entry in fs::read_dir(Path::new(ROOT).join("docs")).expect("docs/") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a name in UTF-8");
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    let mut count = 0;
    let mut failures = Vec::new();
    for name in names {
        let told = commands::of_markdown(&name);
        count += told.len();
        failures.extend(run_all(&told, &commands::files_of_markdown(&name)));
    }
    assert!(
        failures.is_empty(),
        "these commands fail; correct them, let `prepare` in tests/commands/mod.rs make the files \
         they need, show a file in a block marked ```text NAME, or mark a block that is not to be \
         run as ```text:\n{}",
        failures.join("\n")
    );
    assert!(count >= 8, "only {count} commands were found");
}

fn help(path: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .args(path)
        .arg("--help")
        .output()
        .expect("ebbpool starts");
    assert!(output.status.success(), "{path:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_string)
        .collect()
}

#[test]
fn every_help_has_examples_that_work() {
    let mut paths: Vec<Vec<String>> = vec![Vec::new()];
    let mut failures = Vec::new();
    let mut seen = 0;
    while let Some(path) = paths.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let text = help(&words);
        let name: String = words.iter().flat_map(|word| [word, " "]).collect();
        let told = commands::of_help(&name, &text);
        assert!(!told.is_empty(), "ebbpool {name}--help has no example");
        for told in &told {
            let call = format!("ebbpool {}", name.trim());
            assert!(
                told.line.starts_with(call.trim()),
                "{}: {}",
                told.place,
                told.line
            );
        }
        failures.extend(run_all(&told, &[]));
        seen += 1;
        paths.extend(subcommands(&text).into_iter().map(|sub| {
            let mut path = path.clone();
            path.push(sub);
            path
        }));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(seen >= 8, "only {seen} help texts were found");
}

/// The rows of the only table of docs/billing.md with three columns and numbers in two.
fn billed() -> Vec<(String, f64, f64)> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/billing.md")).expect("the document");
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells[..] {
                ["", name, free, flush, ""] => Some((
                    name.trim_matches('`').to_string(),
                    free.parse().ok()?,
                    flush.parse().ok()?,
                )),
                _ => None,
            }
        })
        .collect()
}

#[test]
fn the_bill_of_the_example_is_as_told() {
    let files = commands::files_of_markdown("docs/billing.md");
    let shown = |name: &str| {
        let file = files.iter().find(|(file, _)| file == name);
        file.unwrap_or_else(|| panic!("no {name}")).1.clone()
    };
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("example.txt"), shown("example.txt")).expect("the example");
    let run = |more: &[&str]| -> serde_json::Value {
        let output = Command::new(env!("CARGO_BIN_EXE_ebbpool"))
            .args(["run", "example.txt", "--policy", "lru", "--frames", "2"])
            .args(["--warmup", "2", "--asymmetry", "32", "--format", "json"])
            .args(more)
            .current_dir(directory.path())
            .output()
            .expect("ebbpool starts");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let free = run(&["--events", "events.txt"]);
    let flush = run(&["--at-end", "flush"]);
    let table = billed();
    assert_eq!(table.len(), 9);
    for (name, by_hand, flushed_by_hand) in table {
        assert_eq!(free[&name].as_f64(), Some(by_hand), "{name}");
        assert_eq!(
            flush[&name].as_f64(),
            Some(flushed_by_hand),
            "{name}, flushed"
        );
    }
    let events = fs::read_to_string(directory.path().join("events.txt")).expect("events");
    assert_eq!(events, shown("events"));
}
