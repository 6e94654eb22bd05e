//! Tests of `ebbpool sqlite` about databases that have several names, and names that are no files.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Ebbpool, ends_within, errors, failed, wait_until};
use crate::sqlite::{Scratch, library};

/// A database whose log is beside it, in a directory of its own.
fn killed_in_a_directory() -> Option<Scratch> {
    let scratch = Scratch::new()?;
    fs::create_dir(scratch.ebbpool.path("real")).expect("a directory");
    scratch.killed("real/a.db", "0", "delete", 20);
    Some(scratch)
}

#[test]
fn a_symbolic_link_leads_to_the_database_and_its_log() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    symlink("real/a.db", ebbpool.path("link.db")).expect("a link");
    symlink("none.db", ebbpool.path("broken.db")).expect("a link");
    let status = ebbpool.json(&["sqlite", "status", "link.db"]);
    assert_eq!(status["ebb"]["fit"], "fits", "{status}");
    let check = ebbpool.json(&["sqlite", "check", "link.db"]);
    assert_eq!(check["findings"], json!([]), "{check}");
    ebbpool.refused(&["sqlite", "measure", "link.db", "--minutes", "0.01"], 1, &["uses ebbpool already"]);
    for command in ["status", "check", "recover", "measure"] {
        let words = ["broken.db: cannot read it: No such file"];
        ebbpool.refused(&["sqlite", command, "broken.db"], 1, &words);
    }
    // There is a log, so that nothing is given up.
    let done = ebbpool.json(&["sqlite", "recover", "link.db", "--discard-log"]);
    assert_eq!((&done["recovered"], &done["discarded_to"]), (&Value::Bool(true), &Value::Null));
    assert!(done["epochs"].as_u64() >= Some(20), "{done}");
    let count = scratch.judge("real/a.db", "SELECT count(*) >= 20 FROM t");
    assert_eq!(count, json!([[1]]));
    assert!(!ebbpool.path("real/a.db-ebb").exists());
}

#[test]
fn links_of_a_directory_are_followed_and_each_database_is_recovered_once() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::create_dir(ebbpool.path("links")).expect("a directory");
    for (target, name) in [
        ("../real/a.db", "links/link.db"),
        ("../real/a.db", "links/again.db"),
        ("../none.db", "links/broken.db"),
        ("../real", "links/directory"),
    ] {
        symlink(target, ebbpool.path(name)).expect("a link");
    }
    let done = ebbpool.json(&["sqlite", "recover", "links"]);
    let databases = done["databases"].as_array().expect("databases");
    assert_eq!(databases.len(), 1, "{done}");
    assert_eq!(databases[0]["recovered"], true);
    let path = databases[0]["path"].as_str().expect("a path");
    assert!(path.ends_with("/real/a.db"), "{path}");

    scratch.killed("real/a.db", "0", "delete", 20);
    symlink("a.db", ebbpool.path("real/link.db")).expect("a link");
    let done = ebbpool.json(&["sqlite", "recover", "real"]);
    let databases = done["databases"].as_array().expect("databases");
    assert_eq!(databases.len(), 1, "{done}");
    assert_eq!(databases[0]["path"], "real/a.db");
}

#[test]
fn a_log_beside_another_name_of_the_file_is_not_given_up() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::hard_link(ebbpool.path("real/a.db"), ebbpool.path("other.db")).expect("a link");
    let before = fs::read(ebbpool.path("other.db")).expect("a database");
    let words = ["2 names (hard links)", "another one may have the log"];
    ebbpool.refused(&["sqlite", "status", "other.db"], 1, &words);
    for more in [&[][..], &["--discard-log"], &["--discard-log", "--dry-run"]] {
        let recover = [&["sqlite", "recover", "other.db"][..], more].concat();
        ebbpool.refused(&recover, 1, &[&words[..], &["-samefile"]].concat());
    }
    let after = fs::read(ebbpool.path("other.db")).expect("a database");
    assert_eq!(after, before);
    ebbpool.json(&["sqlite", "recover", "real/a.db"]);
    assert_eq!(ebbpool.json(&["sqlite", "status", "other.db"])["plain"], true);
}

fn pipe(ebbpool: &Ebbpool, name: &str) {
    let made = Command::new("mkfifo").arg(ebbpool.path(name)).status();
    assert!(made.expect("mkfifo").success());
}

#[test]
fn pipes_and_directories_in_place_of_files_are_refused_at_once() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let refused = |command: &str, words: &[&str]| {
        let child = ebbpool.started(&["sqlite", command, "a.db"]);
        failed(&ends_within(child, 30), 1, words);
    };
    pipe(ebbpool, "a.db");
    for command in ["status", "check", "recover", "measure"] {
        refused(command, &["a.db: cannot read it: it is no regular file"]);
    }
    fs::remove_file(ebbpool.path("a.db")).expect("no pipe");
    let written = scratch.plain(&["a.db", "delete", "5"]).status();
    assert!(written.expect("rows").success());
    for beside in ["a.db-ebb", "a.db-wal", "a.db-journal"] {
        for command in ["status", "check", "recover", "measure"] {
            pipe(ebbpool, beside);
            let words = format!("a.db: cannot read it: {beside}: it is no regular file");
            refused(command, &[&words]);
            fs::remove_file(ebbpool.path(beside)).expect("no pipe");
            fs::create_dir(ebbpool.path(beside)).expect("a directory");
            refused(command, &[&words]);
            fs::remove_dir(ebbpool.path(beside)).expect("no directory");
        }
    }
}

/// SQLite's functions, in which the commands wait for a long time.
const SLOW: &str = "
#include <unistd.h>
int sqlite3_open_v2(void) { sleep(1000); return 14; }
void *sqlite3_vfs_find(void) { sleep(1000); return 0; }
int sqlite3_vfs_register(void) { return 1; }
int sqlite3_exec(void) { return 1; }
int sqlite3_close(void) { return 0; }
void *sqlite3_mprintf(void) { return 0; }
void sqlite3_log(void) {}
void *sqlite3_uri_parameter(void) { return 0; }
const char *sqlite3_libversion(void) { return \"3\"; }
const char *sqlite3_errmsg(void) { return \"\"; }
";

#[test]
fn a_signal_ends_check_and_recover_and_no_copy_stays() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file("slow.c", SLOW);
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o", "slow.so", "slow.c"]).current_dir(ebbpool.directory()).status();
    if !built.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: cc makes no library");
    }
    fs::create_dir(ebbpool.path("copies")).expect("a directory");
    let copies = || fs::read_dir(ebbpool.path("copies")).expect("a directory");
    for signal in ["-INT", "-TERM"] {
        for command in ["check", "recover"] {
            let mut args = vec!["sqlite", command, "real/a.db", "--sqlite", "./slow.so"];
            if command == "check" {
                args.extend(["--directory", "copies"]);
            }
            let child = ebbpool.started(&args);
            let maps = format!("/proc/{}/maps", child.id());
            wait_until("the library is loaded", || {
                fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("slow.so"))
                    && (command == "recover" || copies().count() == 1)
            });
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(sent.expect("a signal").success());
            let output = ends_within(child, 30);
            assert!(!output.status.success(), "{}", errors(&output));
            assert_eq!(copies().count(), 0, "{command} {signal}");
        }
    }
    let status = ebbpool.json(&["sqlite", "status", "real/a.db"]);
    assert_eq!(status["ebb"]["fit"], "fits", "{status}");
}

#[test]
fn a_commit_larger_than_memory_is_read() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    // A process that ends without closing leaves its commit of 96 MiB in `-wal`.
    let writer = "
import os, sqlite3
database = sqlite3.connect('a.db', isolation_level=None)
for sql in ['PRAGMA journal_mode=WAL', 'PRAGMA synchronous=OFF', 'PRAGMA wal_autocheckpoint=0',
            'CREATE TABLE t (b)', 'INSERT INTO t VALUES (zeroblob(96 << 20))']:
    database.execute(sql)
os._exit(0)
";
    let written = Command::new(scratch.python).args(["-c", writer]).current_dir(ebbpool.directory()).status();
    assert!(written.expect("Python starts").success());
    let wal = fs::metadata(ebbpool.path("a.db-wal")).expect("a log").len();
    assert!(wal > 96 << 20);
    for more in [&["status", "a.db"][..], &["measure", "a.db", "--minutes", "0.01", "--memory", "8M"]] {
        let output = Command::new("bash")
            .args(["-c", "ulimit -v 95000; exec \"$@\"", "bash"])
            .args([env!("CARGO_BIN_EXE_ebbpool"), "sqlite"])
            .args(more)
            .current_dir(ebbpool.directory())
            .output()
            .expect("bash starts");
        assert!(output.status.success(), "{more:?}: {}", errors(&output));
    }
    let check = ebbpool.json(&["sqlite", "check", "a.db", "--directory", "."]);
    assert_eq!(check["findings"], json!([]));
    assert!(check["checked_by"].is_string(), "{check}");
}

/// Nothing in a `-wal` says on which version of the database it was written: SQLite would bring it in place of a restored one.
#[test]
fn a_wal_of_the_version_before_a_restore_is_not_brought_in_place() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let writer = "
import os, shutil, sqlite3
def connect(name):
    return sqlite3.connect(name, isolation_level=None)
database = connect('a.db')
database.execute('CREATE TABLE t (k INTEGER PRIMARY KEY, v)')
database.execute('CREATE INDEX i ON t (v)')
fill = 'WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 400) INSERT INTO t (v) SELECT hex(randomblob(60)) FROM c'
database.execute(fill)
database.close()
shutil.copy('a.db', 'backup.db')
backup = connect('backup.db')
for _ in range(3):
    backup.execute(fill)
backup.close()
database = connect('a.db')
database.execute('PRAGMA journal_mode=WAL')
database.execute('PRAGMA wal_autocheckpoint=0')
for _ in range(20):
    database.execute('UPDATE t SET v = hex(randomblob(50)) WHERE k % 7 = 3')
os._exit(0)
";
    let written = Command::new(scratch.python).args(["-c", writer]).current_dir(ebbpool.directory()).status();
    assert!(written.expect("Python starts").success());
    for name in ["a.db", "a.db-wal"] {
        fs::copy(ebbpool.path(name), ebbpool.path(&format!("own{}", &name[1..]))).expect("a copy");
    }
    let backup = fs::read(ebbpool.path("backup.db")).expect("the backup");
    fs::write(ebbpool.path("a.db"), &backup).expect("the restored file");
    for more in [&[][..], &["--dry-run"]] {
        let words = ["another version of it", "--discard-log", "a.db-wal.stale"];
        ebbpool.refused(&[&["sqlite", "recover", "a.db"], more].concat(), 1, &words);
    }
    let done = ebbpool.json(&["sqlite", "recover", "a.db", "--discard-log"]);
    assert_eq!(done["wal_commits"], 0, "{done}");
    assert!(done["discarded_to"].as_str().is_some_and(|to| to.ends_with("a.db-wal.stale")), "{done}");
    assert_eq!(fs::read(ebbpool.path("a.db")).expect("the database"), backup);
    assert_eq!(ebbpool.json(&["sqlite", "check", "a.db", "--directory", "."])["findings"], json!([]));
    // The version that it was written on takes it in.
    assert_eq!(ebbpool.json(&["sqlite", "recover", "own.db"])["wal_commits"], 20);
    assert_eq!(ebbpool.json(&["sqlite", "check", "own.db", "--directory", "."])["findings"], json!([]));
}

#[test]
fn the_exit_code_says_what_is_wrong_although_nothing_reads_the_output() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    scratch.killed("a.db", "0", "delete", 20);
    fs::remove_file(ebbpool.path("a.db-ebb")).expect("a log");
    for args in [["status", "a.db"], ["check", "a.db"], ["recover", "."]] {
        let mut child = ebbpool.started(&[&["sqlite"][..], &args].concat());
        drop(child.stdout.take());
        let output = ends_within(child, 60);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn control_characters_of_names_are_visible() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let name = "a\u{1b}[31m\n.db";
    scratch.killed(name, "0", "delete", 20);
    let mut texts = Vec::new();
    for command in ["status", "check", "recover"] {
        let mut args = vec!["sqlite", command, name];
        if command == "recover" {
            args.push("--dry-run");
        }
        let output = ebbpool.run(&args);
        texts.extend([output.stdout, output.stderr]);
    }
    texts.push(ebbpool.run(&["sqlite", "recover", ".", "--dry-run"]).stdout);
    fs::remove_file(ebbpool.path(&format!("{name}-ebb"))).expect("a log");
    for command in ["status", "check", "recover"] {
        let output = ebbpool.run(&["sqlite", command, name]);
        texts.extend([output.stdout, output.stderr]);
    }
    for text in texts {
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(!text.contains('\u{1b}') && !text.contains("m\n.db"), "{text:?}");
    }
}

#[test]
fn recovery_on_a_read_only_mount_says_what_to_do() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let mounted = |more: &str| {
        let script = format!("mount --bind real real && mount -o remount,bind,ro real {more}");
        let mut command = Command::new("unshare");
        command.args(["-rm", "bash", "-c", &script, env!("CARGO_BIN_EXE_ebbpool")]);
        command.current_dir(ebbpool.directory()).output()
    };
    if !mounted("").is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: this user may mount nothing");
    }
    let output = mounted("&& exec $0 sqlite recover real/a.db").expect("it starts");
    failed(&output, 1, &["mounted for reading only", "mount it for writing"]);
}

/// A file that is mounted into a container: what is beside it is the container's, and gone with it.
#[test]
fn a_database_that_is_mounted_without_its_directory_has_no_logs_there() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file("host.db", "");
    let program = "import os, sqlite3
database = sqlite3.connect('layer/app.db', isolation_level=None)
database.execute('CREATE TABLE IF NOT EXISTS t (a)')
for _ in range(100):
    database.execute('INSERT INTO t VALUES (randomblob(300))')
print(database.execute('PRAGMA ebbpool_window').fetchone(), database.execute('SELECT count(*) FROM t').fetchone(), sorted(os.listdir('layer')), flush=True)
os.kill(os.getpid(), 9)";
    let script = "mount --bind host.db layer/app.db && exec \"$@\"";
    let mut rows = 0;
    for window in ["0", "30"] {
        // Each container has a layer of its own.
        let _ = fs::remove_dir_all(ebbpool.path("layer"));
        fs::create_dir(ebbpool.path("layer")).expect("a directory");
        ebbpool.file("layer/app.db", "");
        let mut command = Command::new("unshare");
        command.args(["-rm", "bash", "-c", script, "bash", scratch.python, "-c", program]).current_dir(ebbpool.directory());
        command.env("LD_PRELOAD", library()).env("EBBPOOL_SQLITE_PRELOAD", "1");
        let output = command.env("EBBPOOL_SQLITE", format!("window={window}")).output().expect("unshare starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.is_empty() {
            return eprintln!("skipped: this user may mount nothing: {}", errors(&output));
        }
        rows += 100;
        assert_eq!(text, format!("None ({rows},) ['app.db']\n"), "{}", errors(&output));
        assert_eq!(scratch.judge("host.db", "SELECT count(*) FROM t"), json!([[rows]]));
    }
}
