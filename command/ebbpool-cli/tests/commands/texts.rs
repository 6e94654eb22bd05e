//! Tests that the commands in README.md, docs/ and `--help` work as printed.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::examples::{self, ExampleCommand, document, files_of_markdown, of_markdown};
use crate::harness::{Ebbpool, ROOT};

/// Runs all commands of one text, in order, in a separate directory with the files that [`examples::prepare`] has made and these.
fn run_all(commands: &[ExampleCommand], prepared: &Ebbpool, files: &[(String, String)]) -> Vec<String> {
    let ebbpool = Ebbpool::in_scratch();
    let copied = Command::new("cp").arg("-a").arg(prepared.path(".")).arg(ebbpool.directory()).status();
    assert!(copied.expect("cp starts").success());
    for (name, content) in files {
        ebbpool.file(name, content);
    }
    commands.iter().filter_map(|command| examples::run(command, &ebbpool).err()).collect()
}

/// The number of lines of a document that call the command, in blocks that are not marked as another
/// language.
fn calls_in(text: &str) -> usize {
    let blocks = text.split("\n```").skip(1).step_by(2);
    let shell = blocks.filter_map(|block| {
        let (mark, lines) = block.split_once('\n')?;
        ["", "sh", "bash", "console"].contains(&mark).then_some(lines)
    });
    let lines = shell.flat_map(str::lines);
    lines
        .map(|line| line.trim_start_matches("$ "))
        .filter(|line| line.starts_with("ebbpool ") || line.starts_with("cargo run --release -- "))
        .count()
}

/// README.md and the pages in docs/ and docs/generated/.
fn pages_of_docs() -> Vec<String> {
    let mut names = vec!["README.md".to_string()];
    for directory in ["docs", "docs/generated"] {
        for entry in fs::read_dir(Path::new(ROOT).join(directory)).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_str().expect("a name in UTF-8");
            if name.ends_with(".md") {
                names.push(format!("{directory}/{name}"));
            }
        }
    }
    names.sort();
    names
}

/// The crate of the command depends on itself for its tests, and cargo takes `ebbpool-cli/all` for a feature of that
/// dependency: it builds the command without it, and says nothing.
#[test]
fn documents_enable_features_of_the_command_by_their_names_alone() {
    for name in pages_of_docs().iter().chain([&"CONTRIBUTING.md".into()]) {
        let text = document(name);
        assert!(!text.contains("--features ebbpool-cli/"), "{name}");
    }
}

/// The wings that have crates with tests.
const WINGS_WITH_CRATES: [&str; 8] = ["capture/", "command/", "core/", "database/", "fuzz/", "lab/", "pool/", "sqlite/"];

/// The files in the repository that a document names in code, and the programs of tests that its commands run, as far as they
/// are missing. Those that a reader makes with `cp` are not.
fn missing_in(text: &str) -> Vec<String> {
    let root = Path::new(ROOT);
    let words = text.split(|letter: char| letter.is_whitespace() || "`()|".contains(letter));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let copies = text.lines().filter_map(|line| line.strip_prefix("cp "));
    let copies: Vec<&str> = copies.filter_map(|line| line.split(' ').nth(1)).collect();
    let is_path = |word: &str| {
        let first = ["docs/", "postgres/", "tests/"];
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        first.iter().chain(&WINGS_WITH_CRATES).any(|first| word.starts_with(first)) && word.chars().all(plain)
    };
    let paths = words.iter().map(|word| word.trim_end_matches(['.', ',']));
    let paths = paths.filter(|path| is_path(path) && !copies.contains(path));
    let mut missing: Vec<String> = paths.filter(|path| !root.join(path).exists()).map(String::from).collect();
    let mut package = "";
    for pair in words.windows(2) {
        match *pair {
            ["-p", name] => package = name,
            ["--test", name] => {
                let crates = WINGS_WITH_CRATES.iter().map(|wing| root.join(wing).join(package));
                let tests = crates.map(|directory| directory.join("tests")).find(|tests| tests.exists()).unwrap_or_default();
                let files = [format!("{name}.rs"), format!("{name}/main.rs")];
                if !files.iter().any(|file| tests.join(file).exists()) {
                    missing.push(format!("{package} --test {name}"));
                }
            }
            _ => {}
        }
    }
    missing
}

#[test]
fn documents_name_files_and_tests_that_are_there() {
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(String::from);
    for name in pages_of_docs().iter().chain(&others) {
        let missing = missing_in(&document(name));
        assert!(missing.is_empty(), "{name} names {missing:?}");
    }
    let text = "cp docs/a.rs core/b.rs\n`core/b.rs`, `docs/no.md`.\ncargo test -p ebbpool-lab --test lab\n\
                `cargo test -p ebbpool-lab --test results`";
    let missing = ["docs/a.rs", "docs/no.md", "ebbpool-lab --test results"];
    assert_eq!(missing_in(text), missing);
}

#[test]
fn commands_of_the_documents_work() {
    let prepared = examples::prepare();
    let mut failures = Vec::new();
    for name in pages_of_docs() {
        let text = document(&name);
        let commands = of_markdown(&name, &text);
        let calls = commands.iter().filter(|command| command.line.starts_with("ebbpool "));
        assert_eq!(calls.count(), calls_in(&text), "commands found in {name}");
        failures.extend(run_all(&commands, &prepared, &files_of_markdown(&text)));
    }
    assert!(
        failures.is_empty(),
        "these commands fail; correct them, let `prepare` in tests/commands/examples.rs create the \
         files they need, show a file in a block marked ```text NAME, or mark a block that the \
         test must not run as ```text:\n{}",
        failures.join("\n")
    );
}

#[test]
fn commands_and_files_of_a_document() {
    let text = "Say `ebbpool no`.\nebbpool no\n\n```\nebbpool run a \\\n    --b\n# ebbpool no\nls no\n```\n\
                ```sh\n$ cargo run --release -- run c\nprintf x > y\n```\n\
                ```text\nebbpool no\n```\n```text in.csv\n1,2\n3,4\n```\n```console\nebbpool db\n```\n";
    let commands = of_markdown("a.md", text);
    let found: Vec<(&str, &str)> = commands.iter().map(|command| (&*command.position, &*command.line)).collect();
    assert_eq!(
        found,
        [("a.md:5", "ebbpool run a --b"), ("a.md:11", "ebbpool run c"), ("a.md:12", "printf x > y"), ("a.md:22", "ebbpool db"),]
    );
    assert_eq!(calls_in(text), 3);
    assert_eq!(files_of_markdown(text), [("in.csv".into(), "1,2\n3,4\n".into())]);
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
    let prepared = examples::prepare();
    let ebbpool = Ebbpool::in_scratch();
    let mut paths: Vec<Vec<String>> = vec![Vec::new()];
    let mut failures = Vec::new();
    let mut seen = Vec::new();
    while let Some(path) = paths.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let text = ebbpool.stdout(&[&words[..], &["--help"]].concat());
        let name: String = words.iter().flat_map(|word| [word, " "]).collect();
        let commands = examples::of_help(&name, &text);
        assert!(!commands.is_empty(), "ebbpool {name}--help has no example");
        // One value of an option with a text of its own makes a page of three lines for each option.
        assert!(!text.contains("Possible values:"), "ebbpool {name}--help has another layout than others");
        for command in &commands {
            let call = format!("ebbpool {}", name.trim());
            assert!(
                command.line.trim_start_matches("sudo ").starts_with(call.trim()),
                "{}: {}",
                command.position,
                command.line
            );
        }
        failures.extend(run_all(&commands, &prepared, &[]));
        seen.push([&["ebbpool"], &words[..]].concat().join("-") + ".1");
        paths.extend(subcommands(&text).into_iter().map(|sub| {
            let mut path = path.clone();
            path.push(sub);
            path
        }));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // Each command has a manual page.
    ebbpool.stdout(&["man", &ebbpool.named("")]);
    seen.sort();
    assert_eq!(seen, ebbpool.names());
}

/// The rows of the table in docs/billing.md that has five columns with numbers in four of them.
fn billed() -> Vec<(String, [f64; 4])> {
    let text = document("docs/billing.md");
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells[..] {
                ["", name, a, b, c, d, ""] => {
                    let figures: Result<Vec<f64>, _> = [a, b, c, d].iter().map(|text| text.parse()).collect();
                    let figures = figures.ok()?.try_into().ok()?;
                    Some((name.trim_matches('`').to_string(), figures))
                }
                _ => None,
            }
        })
        .collect()
}

#[test]
fn the_bill_of_the_example_agrees_with_the_document() {
    let files = files_of_markdown(&document("docs/billing.md"));
    let shown = |name: &str| {
        let file = files.iter().find(|(file, _)| file == name);
        file.unwrap_or_else(|| panic!("no {name}")).1.clone()
    };
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.file("example.txt", shown("example.txt"));
    let run = |more: &[&str]| {
        let run = ["run", "example.txt", "--policy", "lru", "--frames", "2"];
        ebbpool.json(&[&run[..], &["--asymmetry", "32"], more].concat())
    };
    let warm = ["--warmup", "2"];
    let free = ["--at-end", "free"];
    let runs = [run(&warm), run(&[&warm[..], &free, &["--events", "events.txt"]].concat()), run(&[]), run(&free)];
    let table = billed();
    assert_eq!(table.len(), 11);
    for (name, by_hand) in table {
        for (run, by_hand) in runs.iter().zip(by_hand) {
            assert_eq!(run[&name].as_f64(), Some(by_hand), "{name}: {run}");
        }
    }
    assert_eq!(ebbpool.text("events.txt"), shown("events"));
}
