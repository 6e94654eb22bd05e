//! What README.md, docs/ and `--help` tell readers to type works as it stands there.
#![cfg(unix)]

mod commands;

use std::fs;
use std::path::Path;
use std::process::Command;

use commands::{ROOT, Told};

/// Runs all commands of one text, in order, in a directory of their own.
fn run_all(told: &[Told]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    commands::prepare(directory.path());
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
        failures.extend(run_all(&told));
    }
    assert!(
        failures.is_empty(),
        "these commands fail; correct them, let `prepare` in tests/commands/mod.rs make the files \
         they need, or mark a block that is not to be run as ```text:\n{}",
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
        failures.extend(run_all(&told));
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
