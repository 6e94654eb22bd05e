//! Tests of `ebbpool sqlite`: programs that are killed, watched, and run with the library preloaded.
//!
//! They need python3 with a shared library of SQLite, and say so where there is none.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::harness::{Ebbpool, errors, failed, number, wait_until};

crate::table::table!("sqlite");

/// Inserts rows one by one, and prints the number of each as soon as it is committed. Arguments: the database, the journal
/// mode, the number of rows, and a PRAGMA whose value it prints at the end.
const WRITER: &str = "
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('PRAGMA journal_mode=' + sys.argv[2])
database.execute('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, s TEXT)')
database.execute('CREATE INDEX IF NOT EXISTS i ON t (s)')
first = database.execute('SELECT coalesce(max(n), 0) + 1 FROM t').fetchone()[0]
for n in range(first, first + int(sys.argv[3])):
    database.execute('INSERT INTO t VALUES (?, ?)', (n, str(n * 7919 % 1000) * 20))
    print(n, flush=True)
    time.sleep(0.002)
if len(sys.argv) > 4:
    print(database.execute('PRAGMA ' + sys.argv[4]).fetchone()[0], flush=True)
database.close()
";

/// The library beside the programs that cargo has built for the tests.
pub fn library() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_ebbpool"));
    let target = program.parent().expect("a directory");
    let name = "libebbpool_sqlite_preload.so";
    let places = [target.join("deps").join(name), target.join(name)];
    let found = places.into_iter().find(|path| path.exists());
    found.expect("cargo has built the library")
}

/// A Python whose sqlite3 module uses a shared library, so that a preloaded one stands before it; a note where there is none.
pub fn python() -> Option<&'static str> {
    let probe = "import sqlite3, sys
sqlite3.connect(':memory:').close()
sys.exit('libsqlite3' not in open('/proc/self/maps').read())";
    let works = |program: &&&str| {
        let output = Command::new(**program).args(["-c", probe]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].iter().find(works);
    if found.is_none() {
        let why = "no python3 has the module sqlite3 with a shared library of SQLite";
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
    }
    found.copied()
}

/// A database on which the commands of a test run.
pub struct Scratch {
    pub ebbpool: Ebbpool,
    pub python: &'static str,
}

/// The exit code of a command, and the JSON that it prints in any case.
pub fn code_and_json(ebbpool: &Ebbpool, args: &[&str]) -> (Option<i32>, Value) {
    let output = ebbpool.run(&[args, &["--format", "json"]].concat());
    let json = serde_json::from_slice(&output.stdout);
    let json = json.unwrap_or_else(|error| panic!("{args:?}: {error}: {}", errors(&output)));
    (output.status.code(), json)
}

impl Scratch {
    pub fn new() -> Option<Scratch> {
        let python = python()?;
        let ebbpool = Ebbpool::in_scratch();
        ebbpool.file("writer.py", WRITER);
        Some(Scratch { ebbpool, python })
    }

    /// The command that runs the writer through the VFS.
    pub fn preloaded(&self, window: &str, writer: &[&str]) -> Command {
        let library = library();
        let library = library.to_str().expect("a path in UTF-8");
        let run = ["sqlite", "run", "--window", window, "--library", library];
        let program = ["--", self.python, "writer.py"];
        self.ebbpool.command(&[&run[..], &program, writer].concat())
    }

    /// The command that runs the writer with plain SQLite.
    pub fn plain(&self, writer: &[&str]) -> Command {
        let mut command = Command::new(self.python);
        command.arg("writer.py").args(writer).current_dir(self.ebbpool.directory()).stdout(Stdio::piped());
        command
    }

    /// Runs statements with plain SQLite, and returns the last row as JSON, or the error.
    pub fn judge(&self, database: &str, statement: &str) -> Value {
        let program = "
import json, sqlite3, sys
try:
    database = sqlite3.connect(sys.argv[1], isolation_level=None)
    print(json.dumps(database.execute(sys.argv[2]).fetchall()))
except sqlite3.Error as error:
    print(json.dumps(str(error)))
";
        let output = Command::new(self.python)
            .args(["-c", program, database, statement])
            .current_dir(self.ebbpool.directory())
            .output()
            .expect("Python starts");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Starts a writer, waits until it has committed rows, kills it, and returns the last row that it acknowledged.
    pub fn killed(&self, database: &str, window: &str, journal: &str, rows: usize) -> u64 {
        let mut child = self.preloaded(window, &[database, journal, "1000000"]).spawn().expect("the writer starts");
        read_rows(&mut child, rows);
        child.kill().expect("a kill");
        let output = child.wait_with_output().expect("an end");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().rev().find_map(|line| line.parse().ok());
        last.unwrap_or(rows as u64)
    }
}

/// Reads rows that a writer acknowledges, and no byte more.
pub fn read_rows(child: &mut Child, rows: usize) {
    use std::io::Read;
    let out = child.stdout.as_mut().expect("a pipe");
    let mut byte = [0];
    for _ in 0..rows {
        while byte[0] != b'\n' {
            out.read_exact(&mut byte).expect("a row");
        }
        byte[0] = 0;
    }
}

/// True if a process has a handler for Ctrl-C; `status` is its file in `/proc`.
pub fn catches_interrupts(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 2 != 0)
}

#[test]
fn a_program_that_cannot_be_changed_writes_through_the_vfs() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    for journal in ["wal", "delete"] {
        let writer = ["a.db", journal, "50", "ebbpool_status"];
        let output = scratch.preloaded("60", &writer).output();
        let output = output.expect("the writer starts");
        assert!(output.status.success(), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let status: Value = serde_json::from_str(text.lines().last().expect("a status")).expect("JSON");
        assert_eq!(status["window_seconds"], 60.0);
        assert!(number(&status["commits"]) >= 50, "{status}");
        assert!(number(&status["written"]["epochs"]) <= 4, "{status}");
    }
    let left = scratch.ebbpool.names();
    assert_eq!(left, ["a.db", "writer.py"]);
    let count = scratch.judge("a.db", "SELECT count(*), max(n) FROM t");
    assert_eq!(count, serde_json::json!([[100, 100]]));
    let status = scratch.ebbpool.json(&["sqlite", "status", "a.db"]);
    assert_eq!(status["plain"], true);
    assert_eq!(status["log"], "none");
}

#[test]
fn databases_in_memory_temporary_and_read_only_ones_are_left_alone() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    scratch.plain(&["a.db", "delete", "3"]).status().expect("rows");
    scratch.ebbpool.file(
        "writer.py",
        "
import sqlite3
for name in [':memory:', '', 'file:a.db?mode=ro']:
    database = sqlite3.connect(name, uri=True)
    assert database.execute('PRAGMA ebbpool_window').fetchone() is None, name
    database.execute('CREATE TEMP TABLE t2 AS SELECT 1 AS x')
database = sqlite3.connect('a.db')
assert database.execute('PRAGMA ebbpool_window').fetchone() == ('7',)
print('done')
",
    );
    let output = scratch.preloaded("7", &[]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("done"), "{}", errors(&output));
}

#[test]
fn signals_and_exit_codes_are_those_of_the_program() {
    let ebbpool = Ebbpool::in_scratch();
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let run = ["sqlite", "run", "--library", library];
    let output = ebbpool.run(&[&run[..], &["--", "sh", "-c", "exit 7"]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    let killed = ebbpool.run(&[&run[..], &["--", "sh", "-c", "kill -9 $$"]].concat());
    assert_eq!(killed.status.code(), None);
    let shown = ebbpool.stdout(&[&run[..], &["--show", "--memory", "8M"]].concat());
    let options = shown.lines().last().expect("a line");
    assert_eq!(options, "EBBPOOL_SQLITE=window=30&memory=8M");
    assert!(shown.starts_with("LD_PRELOAD=/"), "{shown}");

    let mut command = ebbpool.command(&[&run[..], &["--show"]].concat());
    let output = command.env("EBBPOOL_SQLITE", "window=3&log=wal").output();
    let text = String::from_utf8(output.expect("an output").stdout).expect("UTF-8");
    assert!(text.contains("EBBPOOL_SQLITE=window=3&log=wal\n"), "{text}");
}

#[test]
fn wrong_runs_are_refused_with_a_remedy() {
    let ebbpool = Ebbpool::in_scratch();
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let run = |more: &[&str]| {
        let run = ["sqlite", "run", "--library", library];
        ebbpool.run(&[&run[..], more].concat())
    };
    failed(&run(&["--window", "x", "--", "true"]), 2, &["window=x", "seconds"]);
    failed(&run(&["--memory", "1", "--", "true"]), 2, &["memory=1", "at least 1M"]);
    failed(&run(&["--", "./none"]), 127, &["./none", "cannot run it"]);
    failed(&run(&[]), 2, &["<PROGRAM>"]);
    let none = ["sqlite", "run", "--library", "none.so", "--", "true"];
    ebbpool.refused(&none, 2, &["none.so is no file", "--library"]);
}

#[test]
fn status_shows_the_process_that_has_the_database_and_changes_nothing() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let mut child = scratch.preloaded("0", &["a.db", "wal", "1000000"]).spawn().expect("the writer starts");
    read_rows(&mut child, 20);
    let (code, status) = code_and_json(ebbpool, &["sqlite", "status", "a.db"]);
    assert_eq!(code, Some(0), "{status}");
    assert_eq!(number(&status["locked_by"]["process"]), u64::from(child.id()));
    assert_eq!(status["locked_by"]["exclusively"], true);
    assert_eq!(status["marked"], true);
    assert_eq!(status["ebb"]["fit"], "fits");
    assert!(number(&status["ebb"]["epochs"]) >= 10, "{status}");
    let output = ebbpool.run(&["sqlite", "status", "a.db"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("lets no other process use it"), "{text}");
    // Recovery is for files that no process has open; so are the checks of pages.
    let process = format!("process {}", child.id());
    ebbpool.refused(&["sqlite", "recover", "a.db"], 1, &["is open in", &process]);
    let (code, check) = code_and_json(ebbpool, &["sqlite", "check", "a.db"]);
    assert_eq!((code, &check["checked_by"]), (Some(1), &Value::Null));
    ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["is open in", &process]);
    assert!(check["unchecked"].as_str().expect("a text").contains(&process));
    // The writer goes on, and closes without an error.
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a further row");
    child.kill().expect("a kill");
    child.wait().expect("an end");
    let later = ebbpool.json(&["sqlite", "status", "a.db"]);
    assert_eq!(later["locked_by"], Value::Null);
}

#[test]
fn a_killed_process_leaves_files_that_are_checked_and_recovered() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    for (journal, log) in [("wal", "deltas"), ("delete", "deltas"), ("wal", "wal")] {
        let name = format!("{journal}-{log}.db");
        let rows = match log {
            "deltas" => scratch.killed(&name, "0", journal, 60),
            _ => {
                let mut run = scratch.preloaded("0", &[&name, journal, "1000000"]);
                let mut child = run.env("EBBPOOL_SQLITE", "log=wal").spawn().expect("it starts");
                read_rows(&mut child, 60);
                child.kill().expect("a kill");
                child.wait().expect("an end");
                60
            }
        };
        assert!(rows >= 60);
        let status = ebbpool.json(&["sqlite", "status", &name]);
        assert_eq!(status["log"], log, "{status}");
        assert_eq!(status["findings"], serde_json::json!([]));
        let before = ebbpool.names();
        let check = ebbpool.json(&["sqlite", "check", &name]);
        assert_eq!(check["findings"], serde_json::json!([]));
        assert!(check["checked_by"].is_string(), "{check}");
        assert_eq!(ebbpool.names(), before, "a check changes nothing");

        let planned = ebbpool.json(&["sqlite", "recover", &name, "--dry-run"]);
        assert_eq!(planned["recovered"], false);
        assert_eq!(ebbpool.names(), before, "--dry-run changes nothing");
        if log == "deltas" {
            let write = scratch.judge(&name, "CREATE TABLE other (a)");
            let write = write.as_str().expect("an error");
            assert!(write.contains("readonly"), "{write}");
        }
        let done = ebbpool.json(&["sqlite", "recover", &name]);
        assert_eq!(done["recovered"], true);
        assert_eq!(done["epochs"], planned["epochs"]);
        let status = ebbpool.json(&["sqlite", "status", &name]);
        assert_eq!(status["plain"], true, "{status}");
        // With a window of 0 nothing that was acknowledged is lost.
        let found = scratch.judge(&name, "SELECT max(n), count(*) FROM t");
        let (last, count) = (number(&found[0][0]), number(&found[0][1]));
        assert!(last >= rows && last == count, "{found} after {rows}");
        let whole = scratch.judge(&name, "PRAGMA integrity_check");
        assert_eq!(whole, serde_json::json!([["ok"]]));
        let again = ebbpool.json(&["sqlite", "recover", &name]);
        assert_eq!(again["recovered"], false);
        assert_eq!(again["steps"], serde_json::json!([]));
    }
}

#[test]
fn a_log_of_another_version_is_refused_and_moved_aside() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    scratch.plain(&["backup.db", "delete", "7"]).status().expect("rows");
    scratch.killed("a.db", "0", "delete", 30);
    let log = fs::read(ebbpool.path("a.db-ebb")).expect("a log");
    let later = {
        let mut log = log.clone();
        log[7] = 4;
        ebbpool_sqlite::inspect::sealed_log(&log)
    };
    // A database that was put in place of the one that the log belongs to; one that only pretends to have the mark; and a log
    // of a later release.
    for (mark, log, fit, says) in [
        (None, &log, "not marked", "has no mark"),
        (Some(3), &log, "other database", "or is damaged"),
        (Some(3), &later, "later version", "version 4"),
    ] {
        let mut bytes = fs::read(ebbpool.path("backup.db")).expect("a database");
        bytes[18] = mark.unwrap_or(bytes[18]);
        ebbpool.file("a.db", &bytes);
        ebbpool.file("a.db-ebb", log);
        let (code, status) = code_and_json(ebbpool, &["sqlite", "status", "a.db"]);
        assert_eq!(status["ebb"]["fit"], fit, "{status}");
        assert_eq!((code, &status["healthy"]), (Some(1), &Value::Bool(false)));
        ebbpool.refused(&["sqlite", "status", "a.db"], 1, &["not healthy", says]);
        ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["found 1 problem"]);
        let refused = ["sqlite", "recover", "a.db"];
        ebbpool.refused(&refused, 1, &[says, "--discard-log", "a.db-ebb.stale"]);
        // The VFS refuses it too.
        let output = scratch.preloaded("0", &["a.db", "delete", "1"]).output();
        let output = output.expect("it starts");
        assert!(!output.status.success());
        assert!(errors(&output).contains("unable to open"), "{}", errors(&output));

        let discard = ["sqlite", "recover", "a.db", "--discard-log"];
        let done = ebbpool.json(&discard);
        let stale = done["discarded_to"].as_str().expect("a path").to_owned();
        assert_eq!(&fs::read(ebbpool.path(&stale)).expect("the log"), log);
        let found = scratch.judge("a.db", "SELECT count(*) FROM t");
        assert_eq!(found, serde_json::json!([[7]]));
        let write = scratch.judge("a.db", "INSERT INTO t VALUES (-1, '')");
        assert_eq!(write, serde_json::json!([]), "the mark is gone");
    }
    let names = ebbpool.names();
    for stale in ["a.db-ebb.stale", "a.db-ebb.stale.2"] {
        assert!(names.iter().any(|name| name == stale), "{names:?}");
    }
}

#[test]
fn damaged_empty_and_foreign_logs_are_named_and_never_deleted() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    scratch.killed("a.db", "0", "delete", 30);
    let (database, log) = ["a.db", "a.db-ebb"].map(|name| fs::read(ebbpool.path(name)).expect("a file")).into();
    // Without a valid header, and cut off.
    let mut damaged = log.clone();
    damaged[20] ^= 1;
    damaged[512 + 20] ^= 1;
    for (number, log) in [&damaged[..], &log[..50]].into_iter().enumerate() {
        ebbpool.file("a.db", &database);
        ebbpool.file("a.db-ebb", log);
        let (code, status) = code_and_json(ebbpool, &["sqlite", "status", "a.db"]);
        assert_eq!((code, &status["ebb"]["fit"]), (Some(1), &"damaged".into()));
        ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["found 1 problem"]);
        let words = ["no valid header", "--discard-log", "a.db-ebb.stale"];
        ebbpool.refused(&["sqlite", "recover", "a.db"], 1, &words);
        assert_eq!(fs::read(ebbpool.path("a.db-ebb")).expect("a log"), log);
        let done = ebbpool.json(&["sqlite", "recover", "a.db", "--discard-log"]);
        let stale = done["discarded_to"].as_str().expect("a path").to_owned();
        assert_eq!(fs::read(ebbpool.path(&stale)).expect("the log"), log);
        assert_eq!(stale.ends_with(".2"), number == 1);
        assert_eq!(ebbpool.json(&["sqlite", "status", "a.db"])["plain"], true);
    }
    // An empty file, beside a plain database and beside one that needs its log.
    ebbpool.file("a.db-ebb", "");
    assert_eq!(ebbpool.json(&["sqlite", "status", "a.db"])["plain"], true);
    let done = ebbpool.json(&["sqlite", "recover", "a.db"]);
    assert_eq!(done["recovered"], true);
    assert!(!ebbpool.path("a.db-ebb").exists());
    ebbpool.file("a.db", &database);
    ebbpool.file("a.db-ebb", "");
    for command in ["status", "check", "recover"] {
        let code = ebbpool.run(&["sqlite", command, "a.db"]).status.code();
        assert_eq!(code, Some(1), "{command}");
    }
    ebbpool.json(&["sqlite", "recover", "a.db", "--discard-log"]);
    assert!(!ebbpool.path("a.db-ebb").exists());
    // Another program's file.
    ebbpool.file("a.db-ebb", "letters");
    assert_eq!(ebbpool.json(&["sqlite", "status", "a.db"])["ebb"]["fit"], "foreign");
    ebbpool.json(&["sqlite", "recover", "a.db"]);
    let moved = fs::read(ebbpool.path("a.db-ebb.stale.3")).expect("the letters");
    assert_eq!(moved, b"letters");
    assert_eq!(ebbpool.json(&["sqlite", "status", "a.db"])["plain"], true);
}

#[test]
fn damage_of_the_log_ends_it_and_damage_of_pages_is_found() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    scratch.killed("a.db", "0", "delete", 40);
    let status = ebbpool.json(&["sqlite", "status", "a.db"]);
    let epochs = number(&status["ebb"]["epochs"]);
    let used = number(&status["ebb"]["used_bytes"]) as usize;
    // A byte in the last epoch: the one before is the last whole one.
    let mut log = fs::read(ebbpool.path("a.db-ebb")).expect("a log");
    log[used - 9] ^= 1;
    ebbpool.file("a.db-ebb", &log);
    let status = ebbpool.json(&["sqlite", "status", "a.db"]);
    assert_eq!(number(&status["ebb"]["epochs"]), epochs - 1);
    ebbpool.stdout(&["sqlite", "check", "a.db"]);
    // A byte in the first one: those behind it are lost, and a power cut does not explain that.
    log[used - 9] ^= 1;
    log[1024 + 40] ^= 1;
    ebbpool.file("a.db-ebb", &log);
    ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["found 1 problem"]);
    ebbpool.stdout(&["sqlite", "recover", "a.db"]);
    let mut pages = fs::read(ebbpool.path("a.db")).expect("a database");
    pages[4096 + 3] ^= 0x55;
    ebbpool.file("a.db", &pages);
    ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["the check found"]);
}

#[test]
fn measure_sees_the_commits_of_a_running_program() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    for journal in ["wal", "delete"] {
        let name = format!("{journal}.db");
        let mut child = scratch.plain(&[&name, journal, "1000000"]).spawn().expect("the writer starts");
        read_rows(&mut child, 20);
        let measure = ["sqlite", "measure", &name, "--minutes", "0.05"];
        let result = scratch.ebbpool.json(&measure);
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let mode = if journal == "wal" { "wal" } else { "rollback" };
        assert_eq!(result["journal_mode"], mode);
        let commits = number(&result["commits"]);
        let seen = number(&result["seen_commits"]);
        assert!(commits > 0 && seen > 0 && seen <= commits, "{result}");
        if journal == "wal" {
            assert_eq!(commits, seen);
        }
        let lines = result["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0]["window"], Value::Null);
        let bytes = |line: &Value| number(&line["log_bytes"]) + number(&line["checkpoint_bytes"]);
        // Each commit writes at least two pages; a longer window never writes more epochs.
        assert!(bytes(&lines[0]) >= seen * 2 * 4096, "{result}");
        assert_eq!(number(&lines[1]["epochs"]), seen);
        for pair in lines[1..].windows(2) {
            assert!(number(&pair[0]["epochs"]) >= number(&pair[1]["epochs"]));
        }
        assert!(bytes(&lines[5]) < bytes(&lines[0]), "{result}");
        assert!(lines[5]["times_fewer"].as_f64() > Some(2.0), "{result}");
        assert!(lines[0]["card_years"].as_f64() > Some(0.0));
    }
    let quiet = ["sqlite", "measure", "wal.db", "--minutes", "0.002"];
    let text = scratch.ebbpool.stdout(&quiet);
    assert!(text.contains("nothing was committed"), "{text}");
}

#[test]
fn a_watch_that_is_interrupted_answers() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let mut writer = scratch.plain(&["a.db", "wal", "1000000"]).spawn().expect("the writer starts");
    read_rows(&mut writer, 5);
    let child = scratch.ebbpool.started(&["sqlite", "measure", "a.db"]);
    let status = format!("/proc/{}/status", child.id());
    wait_until("it watches", || catches_interrupts(&fs::read_to_string(&status).unwrap_or_default()));
    read_rows(&mut writer, 100);
    let output = crate::harness::interrupted(child);
    writer.kill().expect("a kill");
    writer.wait().expect("an end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(text.contains("window 300 s"), "{text}");
}

/// A file that is longer than its database, or claims to be a large one, takes no memory, and Ctrl-C ends reading it.
#[test]
fn measure_reads_a_database_and_not_what_its_file_has_behind_it() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let made = "PRAGMA page_size=65536; CREATE TABLE t (n);";
    let program = format!("import sqlite3; sqlite3.connect('a.db').executescript('{made}')");
    let mut python = Command::new(scratch.python);
    python.args(["-c", &program]);
    let status = python.current_dir(ebbpool.directory()).status();
    assert!(status.expect("it starts").success());
    let file = fs::File::options().write(true).open(ebbpool.path("a.db")).expect("a database");
    let measure = |minutes: &str| {
        let inner = ebbpool.command(&["sqlite", "measure", "a.db", "--minutes", minutes]);
        // What goes wrong here fails, and does not take the memory of the machine.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh"]);
        command.arg(inner.get_program()).args(inner.get_args());
        command.current_dir(ebbpool.directory());
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let length = |bytes| {
        let is_set = file.set_len(bytes).is_ok();
        if !is_set {
            eprintln!("skipped: the file system has no files of {bytes} bytes");
        }
        is_set
    };
    if length(3 << 40) {
        let output = measure("0.001").wait_with_output().expect("an end");
        assert!(output.status.success(), "{}", errors(&output));
        // A header that does not say how long the database is.
        file.write_all_at(&[0; 4], 28).expect("a header");
        let output = measure("0.001").wait_with_output().expect("an end");
        failed(&output, 1, &["a.db", "give --memory 768MiB"]);
    }
    file.write_all_at(&[0; 4], 28).expect("a header");
    if length(600 << 30) {
        let child = measure("5");
        let status = format!("/proc/{}/status", child.id());
        wait_until("it reads", || {
            // And not the shell.
            let text = fs::read_to_string(&status).unwrap_or_default();
            text.starts_with("Name:\tebbpool\n") && catches_interrupts(&text)
        });
        let output = crate::harness::interrupted(child);
        failed(&output, 130, &["a.db", "was ended while its pages"]);
    }
}
