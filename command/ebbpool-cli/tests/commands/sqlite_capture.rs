//! Tests of `ebbpool sqlite run --capture`: the requests of a program's SQLite, recorded inside the program.
#![cfg(all(target_os = "linux", feature = "capture", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Ebbpool, errors};
use crate::sqlite::{Scratch, library};
use crate::sqlite_program::has_second_copy;

/// Runs a program under a capture; its output, and the facts.
fn captured(ebbpool: &Ebbpool, program: &[&str], input: &str) -> (Output, Value) {
    let library = library();
    let run = ["sqlite", "run", "--library", library.to_str().expect("UTF-8"), "--capture", "seen.parquet", "--"];
    let mut command = ebbpool.command(&[&run[..], program].concat());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let facts = fs::read(ebbpool.path("seen.json")).ok().and_then(|facts| serde_json::from_slice(&facts).ok());
    (output, facts.unwrap_or_default())
}

/// References and writes of each database, by the end of its path.
fn objects(facts: &Value) -> Vec<(String, u64, u64)> {
    let objects = facts["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found: Vec<(String, u64, u64)> = objects
        .iter()
        .map(|object| {
            let name = object["name"].as_str().and_then(|name| name.rsplit('/').next()).unwrap_or_default();
            let count = |field: &str| object[field].as_u64().unwrap_or_default();
            (name.to_owned(), count("references"), count("writes"))
        })
        .collect();
    found.sort();
    found
}

/// What the shell's `.stats` counts: hits, misses and writes of all page caches.
fn counted(output: &Output) -> [u64; 3] {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ["hits", "misses", "writes"].map(|name| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("Page cache {name}:")));
        lines.map(|number| number.trim().parse::<u64>().expect("a number")).sum()
    })
}

#[test]
fn counts_are_those_of_sqlite_itself() {
    let ebbpool = &Ebbpool::in_scratch();
    if !Command::new("sqlite3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: sqlite3 is not installed");
        return;
    }
    let rows = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000) INSERT INTO t SELECT i, printf('%0120d', i * 7919 % 5003), printf('%018d', i) FROM c;
CREATE INDEX i ON t (b);";
    let mut first = 0;
    for (journal, settings) in [
        ("delete", ""),
        ("wal", ""),
        ("truncate", "PRAGMA page_size=8192;"),
        ("wal", "PRAGMA page_size=1024;"),
        // What finds no room is written in the middle of a transaction, in a log to the place that it has there.
        ("persist", "PRAGMA cache_size=10;"),
        ("wal", "PRAGMA cache_size=10;"),
        ("delete", "PRAGMA mmap_size=100000000;"),
        ("memory", "PRAGMA auto_vacuum=full;"),
    ] {
        for name in ["a.db", "a.db-wal", "a.db-shm", "a.db-journal"] {
            let _ = fs::remove_file(ebbpool.path(name));
        }
        let begin =
            format!("{settings}\nPRAGMA journal_mode={journal};\nCREATE TABLE t (a INTEGER PRIMARY KEY, b, c);\n.stats on\n");
        let (output, facts) = captured(ebbpool, &["sqlite3", "a.db"], &format!("{begin}{rows}"));
        let case = format!("{journal}, {settings}: {}", errors(&output));
        assert!(output.status.success(), "{case}");
        // The lines before .stats write a page or a few.
        let [_, _, writes] = counted(&output);
        let seen = facts["writes"].as_u64().expect("a number");
        assert!((writes..writes + 12).contains(&seen) && writes > 50, "{seen} for {writes}: {case}");
        // No page is new, which SQLite does not count.
        let work = format!(
            "{settings}\n.stats on\nSELECT sum(length(b)) FROM t; SELECT b FROM t WHERE a % 100 = 3 ORDER BY b;
UPDATE t SET c = 'x' || substr(c, 2) WHERE a % 50 = 7; BEGIN; UPDATE t SET c = 'y' || substr(c, 2) WHERE a < 900; ROLLBACK;
SELECT count(*) FROM t WHERE b > printf('%0120d', 2000);"
        );
        let (output, facts) = captured(ebbpool, &["sqlite3", "a.db"], &work);
        let [hits, misses, writes] = counted(&output);
        let (_, seen, written) = objects(&facts).pop().expect("an object");
        // The settings, and the schema that is read before the first line, may request a few pages.
        // It does not count pages of mapped memory: these requests are as many as without.
        let requests = if settings.contains("mmap") { first } else { hits + misses };
        first = if first == 0 { seen } else { first };
        assert!((requests..requests + 12).contains(&seen) && requests > 200, "{seen} for {requests}: {case}");
        // A rollback writes again what was written early, which SQLite does not count.
        assert!((writes..writes + 12).contains(&written), "{written} for {writes}: {case}");
        assert_eq!(facts["lost"], 0, "{case}");
        assert_eq!(facts["page_size"].as_u64(), size_of_pages(ebbpool), "{case}");
    }
}

/// The size of a page that the header of a database has.
fn size_of_pages(ebbpool: &Ebbpool) -> Option<u64> {
    let header = fs::read(ebbpool.path("a.db")).ok()?;
    Some(u64::from(u16::from_be_bytes([header[16], header[17]])))
}

/// Threads, a child, other programs, a database in memory and a temporary table; it ends with 7.
const PROGRAM: &str = "
import os, sqlite3, subprocess, sys, threading
def work(name, rows):
    database = sqlite3.connect(name, timeout=60, isolation_level=None)
    database.execute('CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b)')
    for row in range(rows):
        database.execute('INSERT INTO t (b) VALUES (?)', ('y' * 100,))
    database.execute('CREATE TEMP TABLE u AS SELECT * FROM t')
    database.close()
threads = [threading.Thread(target=work, args=(f'{name % 2}.db', 40)) for name in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
work(':memory:', 40)
child = os.fork()
if child == 0:
    work('child.db', 30)
    os._exit(0)
os.waitpid(child, 0)
other = 'import sqlite3; sqlite3.connect(\"other.db\").execute(\"CREATE TABLE t (a)\")'
subprocess.run([sys.executable, '-c', other], check=True)
print('done', flush=True)
sys.exit(7)
";

#[test]
fn all_processes_and_threads_are_seen_and_each_database_has_its_name() {
    let Some(scratch) = Scratch::new() else { return };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file("program.py", PROGRAM);
    let (output, facts) = captured(ebbpool, &[scratch.python, "program.py"], "");
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    // Standard output is the program's alone.
    assert_eq!(output.stdout, b"done\n");
    let found = objects(&facts);
    let names: Vec<&str> = found.iter().map(|(name, _, _)| name.as_str()).collect();
    assert_eq!(names, ["0.db", "1.db", "child.db", "other.db"]);
    // A transaction with a journal writes the first page, too: for its counter of changes.
    let writes: Vec<u64> = found.iter().map(|(_, _, writes)| *writes).collect();
    assert!(writes[0] >= 160 && writes[1] >= 160 && (60..70).contains(&writes[2]) && writes[3] == 2, "{found:?}");
    assert_eq!(facts["commits"], 80 + 80 + 30 + 4, "{facts}");
    assert_eq!((&facts["lost"], &facts["unrequested"]), (&Value::from(0), &Value::from(0)));
}

#[test]
fn a_signal_goes_to_the_program_and_the_trace_is_written() {
    let Some(scratch) = Scratch::new() else { return };
    let ebbpool = &scratch.ebbpool;
    let program = "
import itertools, signal, sqlite3, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
database = sqlite3.connect('a.db')
database.execute('CREATE TABLE t (a)')
for look in itertools.count():
    if look == 20:
        open('ready', 'w').close()
    database.execute('SELECT * FROM t').fetchall()
    time.sleep(0.001)
";
    for (signal, code) in [("TERM", Some(0)), ("KILL", None)] {
        let library = library();
        let run = ["sqlite", "run", "--library", library.to_str().expect("UTF-8"), "--capture", "seen.parquet", "--"];
        let mut command = ebbpool.command(&[&run[..], &[scratch.python, "-c", program]].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let begun = Instant::now();
        while !ebbpool.path("ready").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the program does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = |process: String| Command::new("kill").args([&format!("-{signal}"), &process]).status().expect("kill");
        match code {
            Some(_) => kill(child.id().to_string()),
            // The program itself is killed, so that the command goes on and says how it ended.
            None => {
                let children = format!("/proc/{0}/task/{0}/children", child.id());
                kill(fs::read_to_string(children).expect("children").trim().to_owned())
            }
        };
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), code.or(Some(128 + 9)));
        let facts: Value = serde_json::from_slice(&fs::read(ebbpool.path("seen.json")).expect("facts")).expect("JSON");
        assert!(facts["references"].as_u64() > Some(10), "{facts}");
        for name in ["ready", "seen.json", "seen.parquet", "a.db"] {
            fs::remove_file(ebbpool.path(name)).expect("removed");
        }
    }
}

#[test]
fn what_is_not_seen_is_said() {
    let Some(scratch) = Scratch::new() else { return };
    let ebbpool = &scratch.ebbpool;
    let (output, _) = captured(ebbpool, &[scratch.python, "-c", "pass"], "");
    assert!(errors(&output).contains("opened no database by way of a shared library of SQLite"), "{}", errors(&output));
    assert!(!ebbpool.path("seen.json").exists());
    let (output, _) = captured(ebbpool, &["sh", "-c", "exit 5"], "");
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    // SQLite compares the functions of databases in memory, and these are no files.
    let memory = "
import sqlite3
one, other = sqlite3.connect('kept.db'), sqlite3.connect(':memory:')
one.execute('CREATE TABLE t (a)')
if hasattr(other, 'deserialize'):
    other.deserialize(one.serialize())
    other.execute('INSERT INTO t VALUES (1)')
for _ in range(30000):
    sqlite3.connect('kept.db').close()
print(one.execute('SELECT count(*) FROM t').fetchone()[0])
";
    let (output, facts) = captured(ebbpool, &[scratch.python, "-c", memory], "");
    assert_eq!((output.stdout.as_slice(), &facts["unnamed"]), (&b"0\n"[..], &Value::from(0)), "{}", errors(&output));
    // What is no file of facts, or a database, is not replaced.
    for (trace, other) in [("app.parquet", "app.json"), ("kept.db", "kept.db")] {
        if other == "app.json" {
            ebbpool.file(other, "{}");
        }
        let before = fs::read(ebbpool.path(other)).expect("a file");
        let output =
            ebbpool.run(&["sqlite", "run", "--capture", trace, "--library", library().to_str().expect("UTF-8"), "--", "true"]);
        assert!(errors(&output).contains("is there already"), "{}", errors(&output));
        assert_eq!(fs::read(ebbpool.path(other)).expect("a file"), before);
    }
    let (output, _) = captured(ebbpool, &["./missing"], "");
    assert_eq!(output.status.code(), Some(127), "{}", errors(&output));
    let output = ebbpool.run(&["sqlite", "run", "--capture", "x.parquet", "--window", "3", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    if !has_second_copy(&scratch, None) {
        return;
    }
    // A second copy, whose functions are found by the handle of its library: each of them begins with a call that is seen.
    let two = "
import ctypes, sqlite3
handle, other = ctypes.c_void_p(), ctypes.CDLL('./libsqliteX.so.0')
other.sqlite3_open_v2(b'two.db', ctypes.byref(handle), 6, None)
other.sqlite3_exec(handle, b'CREATE TABLE t (a)', None, None, None)
sqlite3.connect('one.db').execute('CREATE TABLE t (a)')
";
    let (output, facts) = captured(ebbpool, &[scratch.python, "-c", two], "");
    assert!(output.status.success());
    assert_eq!(objects(&facts), [("one.db".into(), 7, 2), ("two.db".into(), 7, 2)], "{}", errors(&output));
}
