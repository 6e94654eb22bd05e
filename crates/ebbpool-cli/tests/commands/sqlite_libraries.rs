//! Tests of the libraries that the command carries: the files that they become, and the programs that load them.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Ebbpool, errors, failed, succeeded};
use crate::sqlite::python;

/// A user without a cache: the command with an empty home.
struct Home {
    ebbpool: Ebbpool,
    home: PathBuf,
}

impl Home {
    fn new() -> Home {
        let ebbpool = Ebbpool::in_scratch();
        let home = ebbpool.path("home");
        fs::create_dir(&home).expect("a directory");
        Home { ebbpool, home }
    }

    fn command(&self, home: &Path, args: &[&str]) -> Command {
        let mut command = self.ebbpool.command(args);
        command.env_remove("XDG_CACHE_HOME");
        command.env_remove("XDG_RUNTIME_DIR");
        command.env_remove("EBBPOOL_SQLITE_LIBRARY");
        command.env("HOME", home);
        command.env("TMPDIR", self.ebbpool.directory());
        command
    }

    /// The paths that the command prints.
    fn libraries(&self, home: &Path) -> Vec<PathBuf> {
        let output = self.command(home, &["sqlite", "libraries"]).output();
        paths(succeeded(output.expect("it starts")))
    }
}

fn paths(printed: Vec<u8>) -> Vec<PathBuf> {
    let text = String::from_utf8(printed).expect("UTF-8");
    text.lines().map(PathBuf::from).collect()
}

/// Prints the window of the VFS through which a database is open.
const WINDOW: &str = "
import sqlite3
database = sqlite3.connect('a.db')
database.execute('CREATE TABLE IF NOT EXISTS t (n)')
print(database.execute('PRAGMA ebbpool_window').fetchone()[0])
";

#[test]
fn a_program_is_run_with_the_library_that_the_command_carries() {
    let Some(python) = python() else {
        return;
    };
    let home = Home::new();
    let run = ["sqlite", "run", "--window", "7", "--", python, "-c", WINDOW];
    let window = || {
        let output = home.command(&home.home, &run).output();
        succeeded(output.expect("it starts"))
    };
    assert_eq!(window(), b"7\n");
    let libraries = home.libraries(&home.home);
    assert!(libraries.iter().all(|path| path.starts_with(&home.home)));
    // Another user's file, or one of a disk that forgot, does no harm.
    let whole = fs::read(&libraries[0]).expect("a file");
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    for damaged in [&bytes[..], &bytes[..middle], b""] {
        fs::write(&libraries[0], damaged).expect("a file");
        assert_eq!(window(), b"7\n");
        assert!(fs::read(&libraries[0]).expect("a file") == whole);
    }
}

#[test]
fn sqlite_loads_the_extension_that_the_command_writes() {
    let home = Home::new();
    let home = &home.ebbpool;
    let directory = home.path("lib");
    home.refused(
        &["sqlite", "libraries", "lib"],
        1,
        &["lib/libebbpool_sqlite_preload.so"],
    );
    fs::create_dir(&directory).expect("a directory");
    let written = paths(succeeded(home.run(&["sqlite", "libraries", "lib"])));
    let directory = directory.canonicalize().expect("a directory");
    let names = ["libebbpool_sqlite_preload.so", "libebbpool_sqlite.so"];
    assert_eq!(written, names.map(|name| directory.join(name)));
    let program = "
import sqlite3, sys
if not hasattr(sqlite3.Connection, 'enable_load_extension'):
    sys.exit(3)
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
database = sqlite3.connect('file:a.db?vfs=ebbpool&window=9', uri=True)
print(database.execute('PRAGMA ebbpool_window').fetchone()[0])
";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", program]).arg(&written[1]);
    let output = python.current_dir(home.directory()).output();
    match output {
        Ok(output) if output.status.code() != Some(3) => assert_eq!(succeeded(output), b"9\n"),
        _ => {
            let why = "/usr/bin/python3 has no sqlite3 that loads extensions";
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
        }
    }
}

#[test]
fn processes_that_start_at_the_same_time_agree_on_one_file() {
    let home = Home::new();
    let start = |_| {
        let mut command = home.command(&home.home, &["sqlite", "libraries"]);
        command.spawn().expect("it starts")
    };
    let children: Vec<_> = (0..6).map(start).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output());
    let printed: Vec<_> = outputs
        .map(|it| paths(succeeded(it.expect("an end"))))
        .collect();
    assert!(printed.iter().all(|paths| *paths == printed[0]));
    let directory = printed[0][0].parent().expect("a directory");
    assert_eq!(fs::read_dir(directory).expect("a directory").count(), 2);
}

#[test]
fn without_a_home_that_can_be_written_the_library_goes_elsewhere() {
    let home = Home::new();
    // No file can be made there, not by root either.
    let proc = Path::new("/proc");
    let libraries = home.libraries(proc);
    let temporary = home
        .ebbpool
        .directory()
        .canonicalize()
        .expect("a directory");
    assert!(libraries.iter().all(|path| path.starts_with(&temporary)));
    let mut command = home.command(proc, &["sqlite", "run", "--", "true"]);
    let output = command.env("TMPDIR", "/proc").output();
    let words = [
        "/proc/.cache/ebbpool-sqlite",
        "ebbpool sqlite libraries",
        "--library",
    ];
    failed(&output.expect("it starts"), 1, &words);
}

/// In a namespace of its own, with a home that is mounted in some way; nothing where nothing may be mounted.
#[test]
fn a_home_that_forbids_writing_or_loading_is_passed_over() {
    let home = Home::new();
    for (options, word) in [("ro", "os error 30"), ("noexec,mode=700", "noexec")] {
        let script = format!("mount -t tmpfs -o {options} none \"$HOME\" || exit 77; exec \"$@\"");
        for is_alone in [false, true] {
            let mut inner = home.command(&home.home, &["sqlite", "libraries"]);
            if is_alone {
                inner.env("TMPDIR", "/proc");
            }
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", &script, "sh"]);
            command.arg(inner.get_program()).args(inner.get_args());
            for (name, value) in inner.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.current_dir(home.ebbpool.directory());
            let output = match command.output() {
                Ok(output)
                    if !matches!(output.status.code(), Some(77))
                        && !errors(&output).starts_with("unshare:") =>
                {
                    output
                }
                _ => {
                    let _ = writeln!(std::io::stderr(), "skipped: this process may mount nothing");
                    return;
                }
            };
            if is_alone {
                failed(&output, 1, &[word, "--library"]);
            } else {
                let libraries = paths(succeeded(output));
                assert!(libraries.iter().all(|path| !path.starts_with(&home.home)));
            }
        }
    }
}
