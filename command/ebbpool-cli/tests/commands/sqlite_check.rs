//! Tests of what `ebbpool sqlite check` looks at, and of `recover` where it cannot do what it should.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{errors, failed, number};
use crate::sqlite::{Scratch, code_and_json};

#[test]
fn a_check_that_has_checked_nothing_fails() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file("text.db", "no database at all".repeat(500));
    let (code, check) = code_and_json(ebbpool, &["sqlite", "check", "text.db"]);
    assert_eq!((code, &check["findings"]), (Some(1), &json!([])));
    let words = ["text.db was not checked", "no database of SQLite"];
    ebbpool.refused(&["sqlite", "check", "text.db"], 1, &words);

    scratch.plain(&["a.db", "delete", "5"]).status().expect("rows");
    ebbpool.stdout(&["sqlite", "check", "a.db"]);
    ebbpool.file("letters.so", "no library");
    for library in ["./none.so", "./letters.so"] {
        let check = ["sqlite", "check", "a.db", "--sqlite", library];
        ebbpool.refused(&check, 1, &["a.db was not checked", library]);
    }
    // Nothing is in it that could be damaged.
    ebbpool.file("empty.db", "");
    ebbpool.stdout(&["sqlite", "check", "empty.db"]);
}

/// Makes commits of two pages each with plain SQLite in WAL mode, and ends without closing. Arguments: the database, the number of
/// commits, and before how many of them the WAL begins anew.
const WAL_WRITER: &str = "
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for sql in ['PRAGMA journal_mode=WAL', 'PRAGMA wal_autocheckpoint=0', 'CREATE TABLE t (n INTEGER PRIMARY KEY, s)',
            'CREATE INDEX i ON t (s)']:
    database.execute(sql)
for n in range(int(sys.argv[2])):
    if n + int(sys.argv[3]) == int(sys.argv[2]):
        assert database.execute('PRAGMA wal_checkpoint(RESTART)').fetchone()[0] == 0
    database.execute('INSERT INTO t VALUES (?, ?)', (n, str(n)))
os._exit(0)
";

/// Bytes of the header of a WAL, and of a frame with its page.
const WAL_HEADER: usize = 32;
const WAL_FRAME: usize = 24 + 4096;

fn wal_of(scratch: &Scratch, name: &str, commits: u32, after_restart: u32) -> Vec<u8> {
    let written = Command::new(scratch.python)
        .args(["-c", WAL_WRITER, name])
        .args([commits, after_restart].map(|count| count.to_string()))
        .current_dir(scratch.ebbpool.directory())
        .status();
    assert!(written.expect("Python starts").success());
    fs::read(scratch.ebbpool.path(&format!("{name}-wal"))).expect("a log")
}

#[test]
fn commits_behind_damage_of_the_wal_are_found() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let wal = wal_of(&scratch, "a.db", 20, 0);
    let frames = (wal.len() - WAL_HEADER) / WAL_FRAME;
    let whole = ebbpool.json(&["sqlite", "check", "a.db"]);
    assert_eq!(whole["findings"], json!([]));
    let commits = number(&whole["wal_commits"]);
    assert!(commits > 20 && frames as u64 > 40, "{whole}");
    let frame = |number: usize| WAL_HEADER + number * WAL_FRAME;
    // A byte of a page, of a frame's number, checksum and salt, a frame of zeros, and the header of the file.
    for (at, bytes) in [
        (frame(20) + 1000, 1),
        (frame(21), 4),
        (frame(20) + 16, 8),
        (frame(20) + 8, 8),
        (frame(20), WAL_FRAME),
        (0, WAL_HEADER),
    ] {
        let mut damaged = wal.clone();
        damaged[at..at + bytes].iter_mut().for_each(|it| *it = !*it);
        ebbpool.file("a.db-wal", &damaged);
        let (code, check) = code_and_json(ebbpool, &["sqlite", "check", "a.db"]);
        let finding = check["findings"][0].as_str().expect("a finding");
        assert_eq!(code, Some(1), "{at}: {check}");
        assert!(finding.contains("a.db-wal is damaged"), "{at}: {finding}");
        let taken = number(&check["wal_commits"]);
        assert!(taken < commits && (taken == 0) == (at == 0), "{at}: {check}");
        assert!(finding.contains(&format!("takes {taken} commit")), "{finding}");
    }
}

#[test]
fn a_torn_last_commit_and_frames_of_an_older_wal_are_no_damage() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let wal = wal_of(&scratch, "a.db", 20, 0);
    let last = wal.len() - WAL_FRAME;
    for at in [last - WAL_FRAME + 100, last + 100] {
        let mut torn = wal.clone();
        torn[at..at + 512].fill(0);
        ebbpool.file("a.db-wal", &torn);
        let check = ebbpool.json(&["sqlite", "check", "a.db"]);
        assert_eq!(check["findings"], json!([]), "{at}");
    }
    let wal = wal_of(&scratch, "older.db", 20, 3);
    let check = ebbpool.json(&["sqlite", "check", "older.db"]);
    assert_eq!(check["findings"], json!([]));
    let commits = number(&check["wal_commits"]) as usize;
    assert!(commits == 3 && wal.len() > 10 * WAL_FRAME, "{check}");
}

#[test]
fn names_beside_which_no_log_can_be_have_no_log() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    scratch.plain(&["a.db", "delete", "5"]).status().expect("rows");
    let bytes = fs::read(ebbpool.path("a.db")).expect("a database");
    // With the first length `-wal` and `-ebb` are names and `-journal` is none; with the others none is.
    for length in [251, 252, 255] {
        let name = "n".repeat(length);
        ebbpool.file(&name, &bytes);
        let status = ebbpool.json(&["sqlite", "status", &name]);
        assert_eq!((&status["plain"], &status["ebb"]), (&json!(true), &Value::Null));
        let check = ebbpool.json(&["sqlite", "check", &name]);
        assert!(check["checked_by"].is_string(), "{check}");
        let done = ebbpool.json(&["sqlite", "recover", &name]);
        assert_eq!(done["recovered"], false);
        ebbpool.json(&["sqlite", "measure", &name, "--minutes", "0.001"]);
    }
    let words = ["cannot read it: File name too long"];
    ebbpool.refused(&["sqlite", "status", &"n".repeat(256)], 1, &words);
}

#[test]
fn recovery_of_a_damaged_first_page_is_planned_as_it_is_done() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    scratch.killed("a.db", "0", "delete", 30);
    let files = ["a.db", "a.db-ebb"].map(|name| fs::read(ebbpool.path(name)).expect("a file"));
    let [database, log] = &files;
    let restored = |at: usize, bytes: &[u8]| {
        let mut damaged = database.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        ebbpool.file("a.db", &damaged);
        ebbpool.file("a.db-ebb", log);
        damaged
    };
    let recover = ["sqlite", "recover", "a.db"];
    // Not a header, all of the page, and a header of another version.
    for (at, bytes, words) in [
        (0, &[0][..], "page 1 is damaged, or another file"),
        (0, &[0; 4096], "move a.db-ebb away, and put a backup"),
        (24, &[0xff; 4], "belongs to another version"),
    ] {
        let damaged = restored(at, bytes);
        for more in [&["--dry-run"][..], &[]] {
            let args = [&recover[..], more].concat();
            ebbpool.refused(&args, 1, &[words, "--discard-log", "a.db-ebb.stale"]);
            assert_eq!(fs::read(ebbpool.path("a.db")).expect("a database"), damaged);
            assert_eq!(&fs::read(ebbpool.path("a.db-ebb")).expect("a log"), log);
        }
        let discard = [&recover[..], &["--discard-log", "--dry-run"]].concat();
        let planned = ebbpool.json(&discard);
        assert_eq!(planned["recovered"], false);
        let args = [&discard[..], &["--sqlite", "./none.so"]].concat();
        ebbpool.refused(&args, 1, &["recovering needs SQLite", "./none.so"]);
        assert!(ebbpool.path("a.db-ebb").exists());
    }
    // The file may be an encrypted database that has taken the place of the other one.
    restored(0, &[7; 4096]);
    let text = ebbpool.stdout(&[&recover[..], &["--discard-log"]].concat());
    assert!(text.contains("no database of SQLite"), "{text}");
    assert_eq!(&fs::read(ebbpool.path("a.db-ebb.stale")).expect("the log"), log);
    // What follows the header: the log can be brought in place, and SQLite cannot read the database afterwards.
    restored(100, &[0xff; 3996]);
    let planned = ebbpool.stdout(&[&recover[..], &["--dry-run"]].concat());
    assert!(planned.contains("ebbpool sqlite check"), "{planned}");
    ebbpool.refused(&["sqlite", "check", "a.db"], 1, &["found 1 problem"]);
    let words = ["a plain database by now", "cannot read it", "malformed"];
    ebbpool.refused(&recover, 1, &words);
    assert_eq!(ebbpool.json(&["sqlite", "status", "a.db"])["plain"], true);
}

#[test]
fn recovery_on_a_full_disk_says_what_is_safe_and_succeeds_with_room() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::create_dir(ebbpool.path("small")).expect("a directory");
    scratch.killed("a.db", "0", "delete", 300);
    // The file system ends with the processes that see it.
    let script = "set -e
mount -t tmpfs -o size=1m tmpfs small
cp a.db a.db-ebb small/
cd small
head -c 2M /dev/zero > fill 2> /dev/null || true
code=0
$0 sqlite recover a.db --dry-run > ../planned
$0 sqlite recover a.db 2> ../errors || code=$?
echo $code
cmp -n $(stat -c %s a.db-ebb) a.db-ebb ../a.db-ebb
rm fill
$0 sqlite recover a.db
cp a.db ../recovered.db
# What the log has in reserve behind its records is room enough.
cp ../a.db ../a.db-ebb .
head -c 600K /dev/zero >> a.db-ebb
head -c 2M /dev/zero > fill 2> /dev/null || true
$0 sqlite recover a.db --dry-run > ../planned-with-reserve
$0 sqlite recover a.db
cp a.db ../recovered-with-reserve.db
";
    let output = Command::new("unshare")
        .args(["-rm", "bash", "-c", script, env!("CARGO_BIN_EXE_ebbpool")])
        .current_dir(ebbpool.directory())
        .output()
        .expect("unshare starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        return eprintln!("skipped: this user may mount nothing: {}", errors(&output));
    }
    assert!(output.status.success(), "{text}: {}", errors(&output));
    assert!(text.starts_with("1\n"), "{text}");
    let planned = ebbpool.text("planned");
    assert!(planned.contains("too little room"), "{planned}");
    let said = ebbpool.text("errors");
    for words in [
        "a.db was not recovered, because its file system has no room; nothing is lost",
        " KiB there, or move the database",
        "run the command again",
    ] {
        assert!(said.contains(words), "no {words}: {said}");
    }
    let planned = ebbpool.text("planned-with-reserve");
    assert!(!planned.contains("too little room"), "{planned}");
    for recovered in ["recovered.db", "recovered-with-reserve.db"] {
        let count = scratch.judge(recovered, "SELECT count(*) >= 300 FROM t");
        assert_eq!(count, json!([[1]]));
    }
}

#[test]
fn names_that_are_not_utf_8_are_read_and_not_recovered() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let name = OsStr::from_bytes(b"a\xff.db");
    let run = |command: &str, more: &[&str]| {
        let mut started = ebbpool.command(&["sqlite", command]);
        started.arg(name).args(more).output().expect("it starts")
    };
    let shown = "a\u{fffd}.db";
    // The library leaves such a database to SQLite.
    let mut library = scratch.preloaded("1000", &[]);
    let written = library.arg(name).args(["delete", "5"]).output();
    assert!(written.expect("the writer starts").status.success());
    for command in ["status", "check", "recover"] {
        let output = run(command, &[]);
        assert!(output.status.success(), "{command}: {}", errors(&output));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(command == "check" || text.contains(shown), "{text}");
    }
    // A database with a log, after another name was given to both.
    scratch.killed("a.db", "0", "delete", 20);
    for suffix in ["", "-ebb"] {
        let mut to = name.to_owned();
        to.push(suffix);
        let from = ebbpool.path(&format!("a.db{suffix}"));
        fs::rename(from, ebbpool.directory().join(to)).expect("a name");
    }
    let check = run("check", &[]);
    assert!(check.status.success(), "{}", errors(&check));
    for more in [&["--dry-run"][..], &[]] {
        failed(&run("recover", more), 1, &[shown, "is not UTF-8", "another name"]);
    }
    for suffix in ["", "-ebb"] {
        let mut from = name.to_owned();
        from.push(suffix);
        let to = ebbpool.path(&format!("a.db{suffix}"));
        fs::rename(ebbpool.directory().join(from), to).expect("a name");
    }
    assert_eq!(ebbpool.json(&["sqlite", "recover", "a.db"])["recovered"], true);
}

#[test]
fn recovery_says_what_this_user_may_not_write() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::create_dir(ebbpool.path("real")).expect("a directory");
    scratch.killed("real/a.db", "0", "delete", 20);
    // Root may write everything, unless it has given that up.
    let drop_rights = ["--bounding-set=-dac_override,-dac_read_search"];
    let may_drop = Command::new("setpriv").args(drop_rights).arg("true").status();
    let recover = |more: &[&str]| {
        let mut command = match may_drop.as_ref().is_ok_and(|status| status.success()) {
            true => {
                let mut command = Command::new("setpriv");
                command.args(drop_rights).arg(env!("CARGO_BIN_EXE_ebbpool"));
                command
            }
            false => Command::new(env!("CARGO_BIN_EXE_ebbpool")),
        };
        let args = [&["sqlite", "recover", "real/a.db"][..], more].concat();
        let run = command.args(args).current_dir(ebbpool.directory());
        run.output().expect("it starts")
    };
    let allow = |name: &str, mode: u32| {
        let rights = fs::Permissions::from_mode(mode);
        fs::set_permissions(ebbpool.path(name), rights).expect("rights");
    };
    for (name, without, with, words) in
        [("real/a.db", 0o444, 0o644, "may not write the file"), ("real", 0o555, 0o755, "may not write its directory")]
    {
        allow(name, without);
        for more in [&["--dry-run"][..], &[]] {
            failed(&recover(more), 1, &["was not recovered", words]);
        }
        allow(name, with);
    }
    let output = recover(&[]);
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn recovery_of_a_wal_on_a_full_disk_says_what_is_safe() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let script = "mount -t tmpfs -o size=1m tmpfs small && cd small && cp ../a.db* . || exit 9
head -c 2M /dev/zero > fill 2> /dev/null
$0 sqlite recover a.db --dry-run > ../planned
exec $0 sqlite recover a.db";
    wal_of(&scratch, "a.db", 80, 0);
    fs::create_dir(ebbpool.path("small")).expect("a directory");
    let output = Command::new("unshare")
        .args(["-rm", "bash", "-c", script, env!("CARGO_BIN_EXE_ebbpool")])
        .current_dir(ebbpool.directory())
        .output()
        .expect("unshare starts");
    if !errors(&output).contains("ebbpool") {
        return eprintln!("skipped: this user may mount nothing: {}", errors(&output));
    }
    let words = ["a.db was not recovered", "no room; nothing is lost"];
    failed(&output, 1, &words);
    let planned = ebbpool.text("planned");
    assert!(planned.contains("is not known: there is no room beside it"), "{planned}");
}
