//! Tests of `ebbpool sqlite status` about processes that say how their databases are, and of `recover` where there is no log,
//! or a directory.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use ebbpool_sqlite::inspect::sealed_health;
use serde_json::{Value, json};

use crate::harness::{Ebbpool, errors, failed, interrupted, number, wait_until};
use crate::sqlite::{Scratch, catches_interrupts, code_and_json, read_rows};

/// Locks a database as a process with the VFS does, and says about it what the files hold whose names it reads.
const OWNER: &str = "
import fcntl, os, struct, sys
database = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(database, 37, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0x40000000, 513, 0))
health = os.memfd_create('ebbpool-sqlite')
print('ready', flush=True)
for line in sys.stdin:
    with open(line.strip(), 'rb') as document:
        os.truncate(health, 0)
        os.pwrite(health, document.read(), 0)
    print('done', flush=True)
";

struct Owner<'a> {
    ebbpool: &'a Ebbpool,
    child: Child,
    out: BufReader<ChildStdout>,
}

impl<'a> Owner<'a> {
    fn of(scratch: &'a Scratch, database: &str) -> Owner<'a> {
        let mut child = Command::new(scratch.python)
            .args(["-c", OWNER, database])
            .current_dir(scratch.ebbpool.directory())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let ebbpool = &scratch.ebbpool;
        let mut owner = Owner { ebbpool, child, out };
        owner.wait();
        owner
    }

    fn wait(&mut self) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "the owner has ended");
    }

    fn say(&mut self, bytes: &[u8]) {
        self.ebbpool.file("health", bytes);
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "health").expect("a line");
        self.wait();
    }

    /// What it says about a database, with these fields.
    fn say_of(&mut self, database: &str, fields: Value) {
        let metadata = fs::metadata(self.ebbpool.path(database)).expect("a database");
        let mut said = json!({
            "path": database,
            "device": metadata.dev(),
            "inode": metadata.ino(),
            "log": "deltas",
            "window_seconds": 30.0,
            "last_epoch_succeeded": true,
        });
        let object = said.as_object_mut().expect("an object");
        object.extend(fields.as_object().expect("an object").clone());
        let document = json!({
            "version": "0.1.0",
            "process": self.child.id(),
            "databases": [{ "path": "another" }, said],
            "left_out": 0,
        });
        self.say(&sealed_health(&document.to_string()));
    }
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
    }
}

/// A time some seconds ago, in milliseconds since 1970.
fn seconds_ago(seconds: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock").as_millis() as u64 - seconds * 1000
}

fn database() -> Option<Scratch> {
    let scratch = Scratch::new()?;
    let written = scratch.plain(&["a.db", "delete", "5"]).status();
    assert!(written.expect("rows").success());
    Some(scratch)
}

/// The database with the mark of a log, and the number of its generation.
fn marked(scratch: &Scratch, name: &str, generation: u8) -> Vec<u8> {
    let mut bytes = fs::read(scratch.ebbpool.path(name)).expect("a database");
    bytes[18] = 3;
    bytes[72..80].fill(generation);
    scratch.ebbpool.file(name, &bytes);
    bytes
}

#[test]
fn status_says_what_the_owner_has_in_memory() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let mut owner = Owner::of(&scratch, "a.db");
    let status = ["sqlite", "status", "a.db"];
    owner.say_of(
        "a.db",
        json!({
            "last_epoch": seconds_ago(20),
            "unsaved_commits": 12,
            "unsaved_bytes": 49152,
            "oldest_unsaved": seconds_ago(7),
            "last_error": { "time": seconds_ago(600), "text": "the disk is full" },
            "last_refusal": { "time": seconds_ago(600), "text": "no room for a commit\u{1b}[31m" },
        }),
    );
    let (code, result) = code_and_json(ebbpool, &status);
    assert_eq!((code, &result["healthy"]), (Some(0), &Value::Bool(true)), "{result}");
    let health = &result["health"];
    assert_eq!(number(&health["process"]), u64::from(owner.child.id()));
    assert_eq!(health["process"], result["locked_by"]["process"]);
    assert_eq!((number(&health["unsaved_commits"]), health["log"].as_str()), (12, Some("deltas")));
    let oldest = health["oldest_unsaved_seconds"].as_f64().expect("a time");
    assert!((7.0..60.0).contains(&oldest), "{result}");
    assert_eq!(health["last_error"]["text"], "the disk is full");
    let text = ebbpool.stdout(&status);
    for words in ["12 commits, 48 KiB, the oldest", "30 s", "10 min ago: the disk is full", "no room for a commit"] {
        assert!(text.contains(words), "no {words}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");

    owner.say_of("a.db", json!({ "passed": "its directory cannot be written" }));
    let text = ebbpool.stdout(&status);
    let words = "SQLite's own VFS serves it: its directory cannot be written";
    assert!(text.contains(words), "{text}");
}

#[test]
fn status_fails_where_the_last_epoch_did() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let mut owner = Owner::of(&scratch, "a.db");
    let status = ["sqlite", "status", "a.db"];
    let error = json!({ "time": seconds_ago(3), "text": "the disk is full" });
    let failed = json!({ "last_epoch_succeeded": false, "last_error": error, "unsaved_commits": 1 });
    owner.say_of("a.db", failed);
    ebbpool.refused(&status, 1, &["is not healthy", "the disk is full"]);
    let (code, result) = code_and_json(ebbpool, &status);
    assert_eq!((code, &result["healthy"]), (Some(1), &Value::Bool(false)));
    let finding = result["findings"][0].as_str().expect("a text");
    assert!(finding.contains("ago: the disk is full; process") && finding.contains("has 1 commit in"), "{finding}");
    // A process with the mark that says nothing, or nothing that can be read, may be in any state.
    owner.say_of("a.db", json!({}));
    ebbpool.stdout(&status);
    marked(&scratch, "a.db", 0);
    owner.say(b"");
    ebbpool.refused(&status, 1, &["not healthy"]);
    let (_, result) = code_and_json(ebbpool, &status);
    let findings = result["findings"].to_string();
    assert!(findings.contains("does not say whether its last epoch succeeded"), "{findings}");
}

#[test]
fn what_makes_no_sense_is_not_believed() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let mut owner = Owner::of(&scratch, "a.db");
    let mut of_another = sealed_health("{\"version\":\"1\",\"process\":1,\"databases\":[],\"left_out\":0}");
    for bytes in [
        sealed_health("{"),
        sealed_health(&"[".repeat(60_000)),
        sealed_health("{\"version\":1e999}"),
        b"ebbhlth1\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        vec![0xff; 1 << 20],
        std::mem::take(&mut of_another),
    ] {
        owner.say(&bytes);
        let (code, result) = code_and_json(ebbpool, &["sqlite", "status", "a.db"]);
        assert_eq!((code, &result["health"]), (Some(1), &Value::Null), "{result}");
        // The lock is found all the same: it is one that only the VFS takes.
        assert_eq!(number(&result["locked_by"]["process"]), u64::from(owner.child.id()));
    }
    owner.say_of("a.db", json!({ "oldest_unsaved": u64::MAX, "last_epoch": u64::MAX, "unsaved_commits": u64::MAX, "unsaved_bytes": u64::MAX, "window_seconds": 1e308 }));
    let text = ebbpool.stdout(&["sqlite", "status", "a.db"]);
    assert!(text.contains("over a hundred years"), "{text}");
}

#[test]
fn check_and_recover_refuse_a_database_that_is_open_and_leave_its_lock() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let before = marked(&scratch, "a.db", 7);
    let owner = Owner::of(&scratch, "a.db");
    let process = format!("(process {})", owner.child.id());
    for _ in 0..2 {
        for command in [&["sqlite", "recover", "a.db"][..], &["sqlite", "recover", "a.db", "--discard-log"]] {
            ebbpool.refused(command, 1, &["is open in", &process]);
        }
        let (code, check) = code_and_json(ebbpool, &["sqlite", "check", "a.db"]);
        assert_eq!((code, &check["checked_by"]), (Some(1), &Value::Null));
        let status = code_and_json(ebbpool, &["sqlite", "status", "a.db"]).1;
        assert_eq!(number(&status["locked_by"]["process"]), u64::from(owner.child.id()));
    }
    assert_eq!(fs::read(ebbpool.path("a.db")).expect("a database"), before);
    drop(owner);
}

#[test]
fn a_database_whose_log_is_gone_is_refused_until_it_is_given_up() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let plain = fs::read(ebbpool.path("a.db")).expect("a database");
    let before = marked(&scratch, "a.db", 0xa5);
    ebbpool.refused(&["sqlite", "status", "a.db"], 1, &["not healthy", "there is no a.db-ebb"]);
    ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["found 1 problem"]);
    let recover = ["sqlite", "recover", "a.db"];
    let words = ["there is no a.db-ebb", "--discard-log, which removes the mark"];
    ebbpool.refused(&recover, 1, &words);
    ebbpool.refused(&[&recover[..], &["--dry-run"]].concat(), 1, &words);
    let discard = [&recover[..], &["--discard-log"]].concat();
    let planned = ebbpool.json(&[&discard[..], &["--dry-run"]].concat());
    assert_eq!(planned["recovered"], false);
    assert_eq!(fs::read(ebbpool.path("a.db")).expect("a database"), before);
    let done = ebbpool.json(&discard);
    assert_eq!(done["steps"], planned["steps"]);
    assert_eq!((&done["recovered"], &done["discarded_to"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(fs::read(ebbpool.path("a.db")).expect("a database"), plain);
    // With `log=wal` the mark has no number, and no log belongs to it.
    marked(&scratch, "a.db", 0);
    let done = ebbpool.json(&["sqlite", "recover", "a.db"]);
    assert_eq!(done["recovered"], true);
    assert_eq!(fs::read(ebbpool.path("a.db")).expect("a database"), plain);
    let status = ebbpool.json(&["sqlite", "status", "a.db"]);
    assert_eq!(status["plain"], true);
    let write = scratch.judge("a.db", "INSERT INTO t VALUES (-1, '')");
    assert_eq!(write, json!([]));
}

#[test]
fn the_mark_is_given_up_together_with_a_log_of_another_database() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    // `-ebb` has epochs of a database that is not this one, which is marked: the mark and the log go, in this order.
    scratch.killed("b.db", "0", "delete", 20);
    fs::rename(ebbpool.path("b.db-ebb"), ebbpool.path("a.db-ebb")).expect("a log");
    marked(&scratch, "a.db", 9);
    let done = ebbpool.json(&["sqlite", "recover", "a.db", "--discard-log"]);
    assert_eq!(done["discarded_to"], "a.db-ebb.stale");
    let bytes = fs::read(ebbpool.path("a.db")).expect("a database");
    assert_eq!((bytes[18], &bytes[72..80]), (bytes[19], &[0; 8][..]));
    let count = scratch.judge("a.db", "SELECT count(*) FROM t");
    assert_eq!(count, json!([[5]]));
}

#[test]
fn recovery_of_a_directory_goes_over_its_databases() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file("notes.txt", "no database");
    let empty = ebbpool.stdout(&["sqlite", "recover", "."]);
    assert!(empty.contains("has no database with a log"), "{empty}");
    scratch.killed("b.db", "0", "wal", 20);
    scratch.killed("c.db", "0", "delete", 20);
    scratch.plain(&["d.db", "delete", "3"]).status().expect("rows");
    marked(&scratch, "d.db", 1);
    let planned = ebbpool.run(&["sqlite", "recover", ".", "--dry-run"]);
    assert_eq!(planned.status.code(), Some(1), "{}", errors(&planned));
    assert!(ebbpool.path("b.db-ebb").exists());
    let discard = ["sqlite", "recover", ".", "--discard-log"];
    ebbpool.refused(&discard, 2, &["for one database"]);
    let (code, result) = code_and_json(ebbpool, &["sqlite", "recover", "."]);
    assert_eq!((code, &result["recovered"]), (Some(1), &Value::Bool(true)));
    let databases = result["databases"].as_array().expect("databases");
    let lines = databases.iter().map(|it| (it["path"].as_str(), it["recovered"].as_bool()));
    let expected = [("./b.db", true), ("./c.db", true), ("./d.db", false)];
    assert!(lines.eq(expected.map(|(path, done)| (Some(path), Some(done)))), "{result}");
    assert!(databases[2]["error"].as_str().expect("a text").contains("no ./d.db-ebb"));
    ebbpool.stdout(&["sqlite", "recover", "d.db", "--discard-log"]);
    let text = ebbpool.stdout(&["sqlite", "recover", "."]);
    assert!(text.contains("has no database with a log"), "{text}");
    for name in ["b.db", "c.db", "d.db"] {
        assert_eq!(ebbpool.json(&["sqlite", "status", name])["plain"], true);
    }
}

#[test]
fn recovery_of_a_directory_names_databases_that_are_open_and_have_no_log_yet() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let owner = Owner::of(&scratch, "a.db");
    for more in [&[][..], &["--dry-run"]] {
        let recover = [&["sqlite", "recover", "."][..], more].concat();
        let (code, result) = code_and_json(ebbpool, &recover);
        assert_eq!(code, Some(1), "{result}");
        let error = result["databases"][0]["error"].as_str().expect("a text");
        assert!(error.contains("a.db is open"), "{error}");
    }
    drop(owner);
    let text = ebbpool.stdout(&["sqlite", "recover", "."]);
    assert!(text.contains("has no database with a log"), "{text}");
}

#[test]
fn status_fails_where_the_owner_hangs() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let mut owner = Owner::of(&scratch, "a.db");
    let status = ["sqlite", "status", "a.db"];
    let unsaved = |seconds| json!({ "unsaved_commits": 3, "oldest_unsaved": seconds_ago(seconds) });
    owner.say_of("a.db", unsaved(35));
    ebbpool.stdout(&status);
    owner.say_of("a.db", unsaved(45));
    let words = ["has 3 commits in memory only, the oldest 4", "window is 30 s"];
    ebbpool.refused(&status, 1, &words);
    let (code, result) = code_and_json(ebbpool, &status);
    assert_eq!((code, &result["healthy"]), (Some(1), &Value::Bool(false)));

    // What a process that is stopped says is of the past.
    owner.say_of("a.db", json!({}));
    ebbpool.stdout(&status);
    let stop = |signal: &str| {
        let id = owner.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("a signal").success());
    };
    stop("-STOP");
    crate::harness::wait_until("it is stopped", || {
        let path = format!("/proc/{}/status", owner.child.id());
        fs::read_to_string(path).is_ok_and(|status| status.contains("T (stopped)"))
    });
    ebbpool.refused(&status, 1, &["is stopped"]);
    stop("-CONT");
}

#[test]
fn a_log_that_is_deleted_under_a_living_owner_is_not_lost() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    marked(&scratch, "a.db", 7);
    let mut owner = Owner::of(&scratch, "a.db");
    owner.say_of("a.db", json!({}));
    let text = ebbpool.stdout(&["sqlite", "status", "a.db"]);
    let words = "a.db-ebb was deleted; the process notices before the next commit is durable";
    assert!(text.contains(words), "{text}");
    let failed = json!({ "last_epoch_succeeded": false });
    owner.say_of("a.db", failed);
    ebbpool.refused(&["sqlite", "status", "a.db"], 1, &["there is no a.db-ebb"]);
}

#[test]
fn status_says_what_other_programs_read_with_each_log() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    for (log, reads) in [("wal", "reads everything that is durable"), ("deltas", "reads the state of the last checkpoint")] {
        let name = format!("{log}.db");
        let mut run = scratch.preloaded("0", &[&name, "wal", "1000000"]);
        let run = run.env("EBBPOOL_SQLITE", format!("log={log}"));
        let mut child = run.spawn().expect("it starts");
        crate::sqlite::read_rows(&mut child, 30);
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let text = scratch.ebbpool.stdout(&["sqlite", "status", &name]);
        assert!(text.contains(reads), "{text}");
    }
}

/// Says the same about a database as its owner would, with many further files in memory that say nothing. Arguments: the
/// database, and how to open it: not at all, by its path only, or for reading.
const IMPOSTOR: &str = "
import os, sys, time
if sys.argv[2] == 'path':
    file = os.open(sys.argv[1], os.O_PATH)
if sys.argv[2] in ('read', 'many'):
    file = os.open(sys.argv[1], os.O_RDONLY)
print('ready', os.getpid(), flush=True)
sys.stdin.readline()
document = open('health', 'rb').read()
first = os.memfd_create('ebbpool-sqlite')
os.write(first, document)
for n in range(900 if sys.argv[2] == 'many' else 0):
    another = os.memfd_create('ebbpool-sqlite')
    os.write(another, b'ebbhlth1' + b'x' * 100)
print('done', flush=True)
time.sleep(1000)
";

#[test]
fn only_processes_that_have_the_database_open_are_believed_and_none_keeps_the_answer_waiting() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let metadata = fs::metadata(ebbpool.path("a.db")).expect("a database");
    for access in ["none", "path", "read", "many"] {
        let mut child = Command::new("bash")
            .args(["-c", "ulimit -n 1000; exec \"$@\"", "bash", scratch.python])
            .args(["-c", IMPOSTOR, "a.db", access])
            .current_dir(ebbpool.directory())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let document = json!({
            "version": "0.1.0",
            "process": child.id(),
            "databases": [{
                "path": "a.db",
                "device": metadata.dev(),
                "inode": metadata.ino(),
                "log": "deltas",
                "window_seconds": 30.0,
                "last_epoch_succeeded": false,
            }],
            "left_out": 0,
        });
        ebbpool.file("health", sealed_health(&document.to_string()));
        writeln!(child.stdin.as_mut().expect("a pipe"), "go").expect("a line");
        out.read_line(&mut line).expect("a line");
        let begin = std::time::Instant::now();
        let (code, result) = code_and_json(ebbpool, &["sqlite", "status", "a.db"]);
        let seconds = begin.elapsed().as_secs_f64();
        child.kill().expect("a kill");
        child.wait().expect("an end");
        assert_eq!((code, &result["health"]), (Some(0), &Value::Null), "{access}: {result}");
        assert!(seconds < 20.0, "{access}: {seconds} s");
    }
}

/// Makes a database with four commits in less time than passes between two reports, and waits.
const BRIEF: &str = "
import sqlite3, sys
database = sqlite3.connect('new.db', isolation_level=None)
database.execute('CREATE TABLE t (a)')
for n in range(3):
    database.execute('INSERT INTO t VALUES (1)')
print('ready', flush=True)
sys.stdin.readline()
";

#[test]
fn commits_of_a_program_that_then_waits_are_in_memory_only() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file("writer.py", BRIEF);
    let mut child = scratch.preloaded("1000", &[]).stdin(Stdio::piped()).spawn().expect("the program starts");
    read_rows(&mut child, 1);
    let status = ["sqlite", "status", "new.db"];
    wait_until("all commits are reported", || number(&ebbpool.json(&status)["health"]["unsaved_commits"]) == 4);
    let text = ebbpool.stdout(&status);
    assert!(text.contains("4 commits, 8 KiB, the oldest"), "{text}");
    assert!(!text.contains("nothing to recover"), "{text}");
    let measure = ["sqlite", "measure", "new.db", "--minutes", "0.001"];
    ebbpool.refused(&measure, 1, &["uses ebbpool already"]);
    child.kill().expect("a kill");
    child.wait().expect("an end");
}

#[test]
fn measure_refuses_a_database_that_a_program_opens_through_the_vfs() {
    let Some(scratch) = database() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let words = ["a.db: cannot read it: its program uses ebbpool already"];
    let watch = ebbpool.started(&["sqlite", "measure", "a.db", "--minutes", "60"]);
    let caught = || fs::read_to_string(format!("/proc/{}/status", watch.id())).unwrap_or_default();
    // With the handler of Ctrl-C it ends as soon as that is pressed, and begins the watch before.
    wait_until("it watches", || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", watch.id())).expect("a process");
        let mut targets = descriptors.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
        targets.any(|target| target.ends_with("a.db")) && catches_interrupts(&caught())
    });
    let mut owner = Owner::of(&scratch, "a.db");
    owner.say_of("a.db", json!({}));
    failed(&interrupted(watch), 130, &words);
    ebbpool.refused(&["sqlite", "measure", "a.db"], 1, &words);
}
