//! Finds the commands in documents and help texts, and runs them as a reader would.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Ebbpool, ROOT, SAMPLES, empty_sqlite_database, errors};

/// A command of a text and its position, such as `README.md:17`.
pub struct ExampleCommand {
    pub position: String,
    pub line: String,
}

/// Creates the files that the texts assume: small traces and databases with the names of the texts, and
/// the samples.
pub fn prepare() -> Ebbpool {
    let ebbpool = Ebbpool::in_scratch();
    let own = "zipf:pages=2000,refs=40000,write=0.3";
    for name in ["my.parquet", "my.txt", "a.parquet", "b.u32.zst", "big.u32.zst", "trace.txt"] {
        ebbpool.stdout(&["trace", "convert", own, name]);
    }
    for (name, header, access) in [
        ("my.csv", "time,blk,op", "W"),
        ("monday.csv", "page,write", "true"),
        ("tuesday.csv", "page,write", "true"),
        ("requests.csv", "off,len,op", "W"),
    ] {
        let first = header.matches(',').count() == 2;
        let rows = (0..3000u64).map(|at| match first {
            true => format!("{},{},{access}\n", at * 4096, 1 + at * at % 512),
            false => format!("{},{access}\n", at * at % 512),
        });
        let content = format!("{header}\n{}", rows.collect::<String>());
        ebbpool.file(name, content);
    }
    for (name, content) in [
        ("disk.blkparse", "8,16 0 1 0.000000001 7 Q WS 15 + 2 [dd]\n"),
        ("requests.iolog", "fio version 2 iolog\na write 4095 2\n"),
        ("Financial1.spc", "0,15,1024,w,0.026214\n"),
        ("Financial2.spc", "0,8,4096,r,0.020001\n"),
    ] {
        ebbpool.file(name, content);
    }
    for name in ["lab/ebbpool-trace/tests/data/rocksdb.trace.zst", "lab/ebbpool-trace/tests/golden/native-requests-1.parquet"] {
        let copy = ebbpool.path(name);
        fs::create_dir_all(copy.parent().expect("a directory")).expect("a directory");
        fs::copy(Path::new(ROOT).join(name), copy).expect("a copy");
    }
    let compare = ["compare", "my.parquet", "--frames", "3%", "--asymmetry", "32"];
    let results = ebbpool.stdout(&[&compare[..], &["--format", "json"]].concat());
    ebbpool.file("monday.json", &results);
    ebbpool.file("tuesday.json", &results);
    ebbpool.file("my.tsv", "apple\t1\nbanana\t2\ncherry\t3\n");
    for load in [
        &["my.db", "--from", "my.tsv"][..],
        &["cfdc.db", "--records", "3000"],
        &["ycsb.db", "--workload", "ycsb", "--records", "2000"],
    ] {
        ebbpool.stdout(&[&["db", "load"], load].concat());
    }
    ebbpool.file("home.db", empty_sqlite_database());
    let samples = ebbpool.path(SAMPLES);
    fs::create_dir_all(samples.parent().expect("a directory")).expect("a directory");
    std::os::unix::fs::symlink(Path::new(ROOT).join(SAMPLES), samples).expect("a link to the samples");
    ebbpool
}

/// Runs a command in the directory that [`prepare`] has filled. A failure names the position.
///
/// To keep the test short, a `compare` without `--frames` runs with `--frames 3%`, and one without
/// `--asymmetry` and `--device` runs with `--asymmetry 32`. Files in `/tmp/` are created in the directory.
pub fn run(command: &ExampleCommand, ebbpool: &Ebbpool) -> Result<(), String> {
    let line = cut_down(&command.line);
    let binary = Path::new(env!("CARGO_BIN_EXE_ebbpool"));
    let mut path = binary.parent().expect("a directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("PATH", path)
        .env("HOME", ebbpool.directory())
        .env("EBBPOOL_CACHE", ebbpool.results())
        .current_dir(ebbpool.directory())
        .output()
        .expect("sh starts");
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: `{line}` failed ({}): {}", command.position, output.status, errors(&output).trim()))
}

fn cut_down(line: &str) -> String {
    // Such a command needs root and a running server; here only its arguments are read.
    if let Some(line) = line.strip_prefix("sudo ") {
        return format!("{line} --help");
    }
    // It takes 40 s.
    if line.contains(" reproduce cikm-fig12 --file ") {
        return format!("{line} --help");
    }
    // It becomes a program that the machine may not have; here only its help is read.
    if let Some((command, _)) = line.split_once(" sqlite run ") {
        return format!("{command} sqlite run --help");
    }
    let line = line.replace("/tmp/", "");
    let mut short = line.clone();
    if let Some(rest) = line.strip_prefix("ebbpool compare") {
        let missing = |flag: &str| !rest.contains(flag);
        let mut flags = String::new();
        if missing("--frames") {
            flags.push_str(" --frames 3%");
        }
        if missing("--asymmetry") && missing("--device") {
            flags.push_str(" --asymmetry 32");
        }
        short = format!("ebbpool compare{flags}{rest}");
    }
    short
}

/// A document of the repository.
pub fn document(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name)).expect("the document")
}

/// The files that a Markdown file contains: blocks marked as ```text NAME, with their names.
pub fn files_of_markdown(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(file) = line.strip_prefix("```text ") {
            let content = lines.by_ref().take_while(|line| !line.starts_with("```"));
            let content: String = content.flat_map(|line| [line, "\n"]).collect();
            found.push((file.to_string(), content));
        }
    }
    found
}

/// The command lines in the fenced blocks of a Markdown file: those that begin with `ebbpool`,
/// `cargo run --release --`, `printf` or `cp`, in blocks marked as nothing, `sh`, `bash` or `console`.
pub fn of_markdown(name: &str, text: &str) -> Vec<ExampleCommand> {
    let mut found: Vec<ExampleCommand> = Vec::new();
    let mut fence: Option<bool> = None;
    let mut continued = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(mark) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(["", "sh", "bash", "console"].contains(&mark)),
            };
            continued = false;
            continue;
        }
        if fence != Some(true) {
            continue;
        }
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let (part, goes_on) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        if continued {
            if let Some(last) = found.last_mut() {
                last.line.push_str(part);
            }
            continued = goes_on;
        } else if let Some(line) = command(part) {
            found.push(ExampleCommand { position: format!("{name}:{number}"), line });
            continued = goes_on;
        }
    }
    found
}

/// The line as a call of `ebbpool`; a line that creates a file for one is unchanged. `None` for other lines.
fn command(line: &str) -> Option<String> {
    if let Some(rest) = line.strip_prefix("cargo run --release --") {
        return Some(format!("ebbpool{rest}"));
    }
    let programs = ["ebbpool", "printf", "cp"];
    let first = line.split(' ').next().unwrap_or(line);
    programs.contains(&first).then(|| line.into())
}

/// The example lines of a help text, without the remark behind two spaces.
pub fn of_help(command: &str, help: &str) -> Vec<ExampleCommand> {
    let after = help.split("Example").nth(1).unwrap_or("");
    after
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with("ebbpool") || line.starts_with("sudo ebbpool"))
        .map(|line| ExampleCommand {
            position: format!("ebbpool {command}--help"),
            line: line.split("  ").next().unwrap_or(line).into(),
        })
        .collect()
}
