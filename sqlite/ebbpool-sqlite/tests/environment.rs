//! What environment variables change, in a child process for each of them: the VFS reads them once.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use rusqlite::{Connection, OpenFlags};

/// Names the part of this program that a child runs.
const PART: &str = "EBBPOOL_TEST_PART";
/// Names the directory of the child.
const DIRECTORY: &str = "EBBPOOL_TEST_DIRECTORY";

/// Runs a part of this program in a child process with these variables.
fn child(part: &str, directory: &Path, variables: &[(&str, &str)]) -> Output {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "part", "--nocapture"])
        .env(PART, part)
        .env(DIRECTORY, directory)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{part}: {errors}");
    output
}

unsafe extern "C" {
    /// Of C11; the crate `libc` does not declare it for Linux.
    safe fn quick_exit(status: libc::c_int) -> !;
}

/// The window of a connection, which only the VFS knows.
fn window(database: &Connection) -> Option<String> {
    let found = database.query_row("PRAGMA ebbpool_window", [], |row| row.get(0));
    found.ok()
}

fn open(directory: &Path, name: &str, parameters: &str) -> rusqlite::Result<Connection> {
    let name = format!("file:{}/{name}{parameters}", directory.display());
    Connection::open_with_flags(name, OpenFlags::default())
}

/// The parts that children run; nothing in the test program itself.
#[test]
fn part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let directory = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    ebbpool_sqlite::register(part != "named").unwrap();
    match part.as_str() {
        "scope" => {
            let taken = |name, parameters| window(&open(&directory, name, parameters).unwrap());
            for name in ["home.db", "other.db"] {
                let words = taken(name, "").map_or("plain".to_owned(), |window| window);
                let named = taken(name, "?vfs=ebbpool&window=9");
                println!("{name} {words} {}", named.unwrap());
            }
            // Its journal is in the scope no more than the database itself.
            let other = open(&directory, "other.db", "").unwrap();
            other.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1);").unwrap();
            println!("index {}", directory.join("other.db-shm").exists());
        }
        "named" => {
            let named = open(&directory, "other.db", "?vfs=ebbpool&window=9").unwrap();
            println!("other.db {}", window(&named).unwrap());
        }
        "parameters" => {
            for parameters in ["", "?colour=red", "?windwo=0", "?vfs=ebbpool&colour=red"] {
                let opened = open(&directory, "home.db", parameters);
                println!("[{parameters}] {}", opened.is_ok());
            }
        }
        "clock" => {
            let database = open(&directory, "home.db", "").unwrap();
            let rows = database
                .prepare("PRAGMA ebbpool_clock=100")
                .and_then(|mut statement| Ok(statement.query([])?.next()?.is_some()));
            println!("clock {}", rows.unwrap());
        }
        // As a worker of Python's `multiprocessing` ends, and as a program becomes another one.
        "exit" | "quick exit" | "exec" | "descriptors closed" => {
            let database = open(&directory, "home.db", "?window=1000").unwrap();
            let rows = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
            database.execute_batch(rows).unwrap();
            database.query_row("PRAGMA ebbpool_flush", [], |_| Ok(())).unwrap();
            database.execute_batch("INSERT INTO t VALUES (2)").unwrap();
            match part.as_str() {
                // SAFETY: the function ends the process.
                "exit" => unsafe { libc::_exit(0) },
                // It calls the handlers of `at_quick_exit` only.
                "quick exit" => quick_exit(0),
                "descriptors closed" => unsafe {
                    // SAFETY: the process uses none of them any more, and ends in the usual way.
                    // By its number, since the crate libc has the function for glibc only.
                    libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
                    libc::exit(0)
                },
                _ => panic!("{}", Command::new("true").exec()),
            }
        }
        "descriptors" => {
            let count = || {
                let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
                let targets = descriptors.filter_map(|it| std::fs::read_link(it.unwrap().path()).ok());
                let texts = targets.map(|it| it.display().to_string());
                texts.filter(|it| it.contains("/home.db") || it.contains("memfd:ebbpool")).count()
            };
            for mode in ["DELETE", "WAL"] {
                let open = |parameters| {
                    let database = open(&directory, "home.db", parameters).unwrap();
                    // The first epoch goes to `-wal`, and those behind it to `-ebb`.
                    let table = format!("PRAGMA journal_mode={mode}; CREATE TABLE IF NOT EXISTS t (a)");
                    let row = "INSERT INTO t VALUES (1)";
                    for sql in [&*table, row, row] {
                        database.execute_batch(sql).unwrap();
                    }
                    database
                };
                let plain = open("?vfs=unix");
                println!("{mode} plain {}", count());
                drop(plain);
                let first = open("?window=0");
                println!("{mode} one {}", count());
                let second = open("?window=0");
                println!("{mode} two {}", count());
                drop((first, second));
            }
        }
        "shutdown" => {
            let default = || {
                // SAFETY: the default VFS lives as long as the process, and its name ends with a zero.
                unsafe {
                    let vfs = rusqlite::ffi::sqlite3_vfs_find(std::ptr::null());
                    CStr::from_ptr((*vfs).zName).to_string_lossy().into_owned()
                }
            };
            println!("before {}", default());
            // SAFETY: no connection is open, and no other thread uses SQLite.
            unsafe {
                rusqlite::ffi::sqlite3_shutdown();
                rusqlite::ffi::sqlite3_initialize();
            }
            println!("after {}", default());
        }
        _ => unreachable!("{part}"),
    }
}

fn lines(output: &Output, expected: &[&str]) {
    let text = String::from_utf8_lossy(&output.stdout);
    for line in expected {
        assert!(text.lines().any(|it| it == *line), "no {line}: {text}");
    }
}

#[test]
fn a_default_vfs_takes_the_databases_of_its_scope() {
    let scope = |variables: &[(&str, &str)]| {
        let directory = tempfile::tempdir().unwrap();
        child("scope", directory.path(), variables)
    };
    lines(&scope(&[]), &["home.db 5 9", "other.db 5 9", "index false"]);
    let only = [("EBBPOOL_SQLITE_FILES", "ho*.db:x.db")];
    let output = scope(&only);
    lines(&output, &["home.db 5 9", "other.db plain 9", "index true"]);
    // A mistake takes nothing, and says so once.
    let output = scope(&[("EBBPOOL_SQLITE_FILES", "home.db:[")]);
    lines(&output, &["home.db plain 9", "other.db plain 9", "index true"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = errors.lines().filter(|line| line.contains("EBBPOOL_SQLITE_FILES=home.db:[: a [ has no ]"));
    assert_eq!(said.count(), 1, "{errors}");
    // A program that names the VFS itself has chosen its databases.
    let directory = tempfile::tempdir().unwrap();
    lines(&child("named", directory.path(), &only), &["other.db 9"]);
}

#[test]
fn a_misspelled_parameter_of_a_name_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let output = child("parameters", directory.path(), &[]);
    let expected = ["[] true", "[?colour=red] true", "[?windwo=0] false", "[?vfs=ebbpool&colour=red] false"];
    lines(&output, &expected);
}

#[test]
fn a_process_that_ends_at_once_or_closes_everything_loses_its_window() {
    for part in ["exit", "quick exit", "exec", "descriptors closed"] {
        let directory = tempfile::tempdir().unwrap();
        child(part, directory.path(), &[]);
        ebbpool_sqlite::register(false).unwrap();
        let database = open(directory.path(), "home.db", "?vfs=ebbpool").unwrap();
        let rows =
            database.query_row("SELECT count(*), max(a) FROM t", [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        assert_eq!(rows.unwrap(), (1, 1), "{part}");
    }
}

#[test]
fn a_connection_has_more_descriptors_than_with_plain_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let output = child("descriptors", directory.path(), &[]);
    lines(&output, &["DELETE plain 1", "DELETE one 9", "DELETE two 10", "WAL plain 3", "WAL one 9", "WAL two 10"]);
}

#[test]
fn after_a_shutdown_the_default_vfs_is_sqlites_own() {
    let directory = tempfile::tempdir().unwrap();
    let output = child("shutdown", directory.path(), &[]);
    lines(&output, &["before ebbpool", "after unix"]);
}

#[test]
fn the_clock_can_be_set_only_where_the_environment_allows_it() {
    let directory = tempfile::tempdir().unwrap();
    lines(&child("clock", directory.path(), &[]), &["clock false"]);
    let allowed = [("EBBPOOL_SQLITE_CLOCK", "1")];
    lines(&child("clock", directory.path(), &allowed), &["clock true"]);
}
