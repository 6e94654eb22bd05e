//! Real files: what a program sees, other processes, threads, and options.

#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ebbpool_sqlite::ffi;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::support::between::Between;
use crate::support::real::{beside, copy_of, count, directory, set_journal, status, uri};

fn open(path: &Path, options: &str) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(uri(path, options), OpenFlags::default())
}

fn plain(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

/// A table with one row that is in place, and one that is in the log only.
fn with_a_log(path: &Path) -> Connection {
    let database = open(path, "window=0").unwrap();
    database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);").unwrap();
    database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
    database.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(status(&database)["written"]["checkpoints"], 2);
    assert!(beside(path, "-ebb").exists());
    database
}

#[test]
fn closing_leaves_a_plain_database() {
    for mode in ["delete", "truncate", "persist", "wal", "memory", "off"] {
        for log in ["deltas", "wal"] {
            let (directory, path) = directory();
            let database = open(&path, &format!("log={log}")).unwrap();
            set_journal(&database, mode);
            database.execute_batch("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1), (2); COMMIT;").unwrap();
            let unsaved = status(&database)["oldest_unsaved_seconds"].clone();
            assert!(unsaved.is_number(), "{mode} {log}");
            database.close().unwrap();
            let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["home.db"], "{mode} {log}");
            let database = plain(&path);
            assert_eq!(count(&database), 2);
            database.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        }
    }
}

/// On a full disk another program may take what `-wal` gives back for the first page.
#[cfg(target_os = "linux")]
#[test]
fn the_first_page_of_a_new_database_has_its_room() {
    use std::os::unix::fs::MetadataExt;
    let (_directory, path) = directory();
    let database = open(&path, "window=30").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    let metadata = path.metadata().unwrap();
    assert_eq!(metadata.len(), 0);
    assert!(metadata.blocks() * 512 >= 4096, "{} blocks", metadata.blocks());
}

#[test]
fn without_the_library_there_is_an_older_database_that_cannot_be_written() {
    let (_directory, path) = directory();
    let database = with_a_log(&path);
    let (_copies, copy) = copy_of(&path);
    let without = plain(&copy);
    assert_eq!(count(&without), 1);
    let refused = without.execute_batch("INSERT INTO t VALUES (3)").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{refused}");
    drop(without);
    assert_eq!(count(&open(&copy, "").unwrap()), 2);
    assert_eq!(count(&plain(&copy)), 2);
    drop(database);
}

#[test]
fn a_log_of_another_version_of_the_database_is_refused() {
    let (_directory, path) = directory();
    let database = with_a_log(&path);
    let (_copies, copy) = copy_of(&path);
    drop(database);
    // Another database in its place, as when a backup is restored.
    std::fs::copy(&path, &copy).unwrap();
    let database = open(&copy, "").unwrap();
    let refused = database.query_row("SELECT * FROM t", [], |_| Ok(())).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{refused}");
    assert!(beside(&copy, "-ebb").exists(), "the log is not touched");
    drop(database);
    std::fs::remove_file(beside(&copy, "-ebb")).unwrap();
    assert_eq!(count(&open(&copy, "").unwrap()), 2);
}

#[test]
fn a_log_of_another_kind_is_taken_over() {
    for (first, second) in [("deltas", "wal"), ("wal", "deltas")] {
        let (_directory, path) = directory();
        let database = open(&path, &format!("window=0&log={first}")).unwrap();
        database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)").unwrap();
        let (_copies, copy) = copy_of(&path);
        let again = open(&copy, &format!("window=0&log={second}")).unwrap();
        assert_eq!(count(&again), 2);
        again.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        assert_eq!(status(&again)["log"], second);
        drop(again);
        assert_eq!(count(&plain(&copy)), 3);
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (_directory, path) = directory();
    for options in ["window=x", "log=none", "memory=3"] {
        let refused = open(&path, options).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{options}");
    }
    let database = open(&path, "window=7").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    let window = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(window("PRAGMA ebbpool_window").unwrap(), "7");
    assert_eq!(window("PRAGMA ebbpool_window=0.5").unwrap(), "0.5");
    assert!(window("PRAGMA ebbpool_window=x").unwrap_err().to_string().contains("expected seconds"));
    assert_eq!(status(&database)["window_seconds"], 0.5);
}

#[test]
fn the_window_ends_by_itself() {
    let (_directory, path) = directory();
    let database = open(&path, "window=0.2").unwrap();
    database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    let begin = Instant::now();
    while !status(&database)["oldest_unsaved_seconds"].is_null() {
        assert!(begin.elapsed() < Duration::from_secs(20), "no epoch");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_copies, copy) = copy_of(&path);
    assert_eq!(count(&open(&copy, "").unwrap()), 1);
}

#[test]
fn a_file_that_can_only_be_read_is_left_to_sqlite() {
    let (_directory, path) = directory();
    plain(&path).execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let database = Connection::open_with_flags(uri(&path, ""), flags).unwrap();
    assert_eq!(count(&database), 1);
    // Nothing is locked: another program may write.
    plain(&path).execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(count(&database), 2);
}

/// As where `/var/tmp` is in memory, or read-only: plain SQLite has its journal and WAL beside the database, too.
#[test]
fn a_transaction_larger_than_memory_needs_no_directory_for_temporary_files() {
    let below = Between::under_the_library(c"over-no-temporary");
    below.observe(|call| (call.method == "xOpen" && call.path.is_empty()).then_some(ffi::CANTOPEN));
    for mode in ["delete", "wal"] {
        let (directory, path) = directory();
        let name = format!("file:{}?vfs=over-no-temporary&window=0&memory=1M", path.display());
        let database = Connection::open_with_flags(name, OpenFlags::default()).unwrap();
        set_journal(&database, mode);
        database.execute_batch("PRAGMA temp_store=memory; CREATE TABLE t (a)").unwrap();
        let insert = "INSERT INTO t SELECT randomblob(1000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000) SELECT i FROM n)";
        database.execute_batch(insert).unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert!(status(&database)["written"]["temporary_bytes"].as_u64().unwrap() > 1 << 20, "{mode}");
        assert_eq!(count(&database), 8000, "{mode}");
        database.close().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "{mode}");
    }
    below.observe_no_more();
}

#[test]
fn a_transaction_larger_than_memory_goes_to_a_temporary_file() {
    for mode in ["delete", "wal"] {
        let (_directory, path) = directory();
        let database = open(&path, "memory=1M&window=1000").unwrap();
        set_journal(&database, mode);
        database.execute_batch("PRAGMA cache_size=20; CREATE TABLE t (a); BEGIN;").unwrap();
        for n in 0..2000 {
            database.execute("INSERT INTO t VALUES (hex(zeroblob(?1)))", [2000 + n % 7]).unwrap();
        }
        assert!(status(&database)["written"]["temporary_bytes"].as_u64().unwrap() > 1 << 20, "{mode}");
        database.execute_batch("ROLLBACK; BEGIN").unwrap();
        for n in 0..2000 {
            database.execute("INSERT INTO t VALUES (hex(zeroblob(?1)))", [2000 + n % 7]).unwrap();
        }
        database.execute_batch("COMMIT").unwrap();
        let most = status(&database)["most_memory_bytes"].as_u64().unwrap();
        assert!(most < 1 << 20, "{mode}: {most} bytes");
        drop(database);
        let database = plain(&path);
        let ok: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((ok.as_str(), count(&database)), ("ok", 2000));
    }
}

/// Nothing is stored a second time but what SQLite has written more than once, whose disk would have got it once.
#[test]
fn a_delete_and_a_vacuum_larger_than_memory_write_no_page_three_times() {
    for window in [0, 1000] {
        let (_directory, path) = directory();
        let database = open(&path, &format!("memory=1M&window={window}&log_limit=1M")).unwrap();
        set_journal(&database, "wal");
        let figures = || {
            database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
            let status = status(&database);
            let of = |part: &str, name: &str| status[part][name].as_u64().unwrap();
            [
                of("written", "bytes"),
                of("written", "temporary_bytes"),
                of("without_ebbpool", "bytes"),
                of("without_ebbpool", "wal_bytes"),
            ]
        };
        let load = "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE INDEX t_a ON t (a);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
            INSERT INTO t SELECT i, randomblob(420) FROM n";
        database.execute_batch(load).unwrap();
        for sql in ["DELETE FROM t WHERE id % 3 = 0", "VACUUM"] {
            let before = figures();
            database.execute_batch(sql).unwrap();
            let after = figures();
            let [bytes, temporary, plain, plain_wal] = std::array::from_fn(|index| after[index] - before[index]);
            let found =
                format!("{window} {sql:.10}: {bytes} bytes, {temporary} temporary; plain {plain}, {plain_wal} in the WAL");
            assert!(temporary <= plain_wal && bytes <= plain + plain_wal, "{found}");
        }
    }
}

#[test]
fn threads_share_a_database() {
    std::thread::scope(|scope| {
        for (mode, log) in [("delete", "deltas"), ("delete", "wal"), ("wal", "deltas"), ("wal", "wal")] {
            scope.spawn(move || transfers(mode, log));
        }
    });
}

/// Two threads transfer between accounts, and two read: the sum never changes.
fn transfers(mode: &str, log: &str) {
    let (_directory, path) = directory();
    let options = format!("window=0.05&log={log}&memory=1M&log_limit=300k");
    let database = open(&path, &options).unwrap();
    set_journal(&database, mode);
    database
        .execute_batch(
            "PRAGMA wal_autocheckpoint=50; CREATE TABLE t (id INTEGER PRIMARY KEY, n INT, f BLOB); CREATE INDEX t_n ON t(n);
            WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<500)
            INSERT INTO t SELECT x, 0, zeroblob(200) FROM c;",
        )
        .unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (path, options) = (&path, &options);
            scope.spawn(move || {
                let database = open(path, options).unwrap();
                database.busy_timeout(Duration::from_secs(20)).unwrap();
                let mut random = fastrand::Rng::with_seed(thread);
                while Instant::now() < end {
                    if thread < 2 {
                        let (from, to, sum) = (random.u32(1..501), random.u32(1..501), random.u32(0..100));
                        let end = if random.u32(0..10) == 0 { "ROLLBACK" } else { "COMMIT" };
                        let sql = format!(
                            "BEGIN IMMEDIATE; UPDATE t SET n=n-{sum} WHERE id={from}; UPDATE t SET n=n+{sum} WHERE id={to}; {end}"
                        );
                        database.execute_batch(&sql).unwrap();
                    } else {
                        let sum = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
                        assert_eq!(sum("SELECT sum(n) FROM t"), 0);
                        assert_eq!(sum("SELECT sum(n) FROM t INDEXED BY t_n WHERE n>-100000000"), 0);
                    }
                }
            });
        }
    });
    assert!(status(&database)["written"]["epochs"].as_u64().unwrap() > 2);
    drop(database);
    let plain = plain(&path);
    let ok: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(ok, "ok");
    assert_eq!(plain.query_row("SELECT sum(n) FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// Runs one test of this program in a process of its own, which finds the path in its environment.
fn in_another_process(test: &str, path: &Path) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("EBBPOOL_TEST_DATABASE", path)
        .output()
        .unwrap()
}

fn path_of_parent() -> PathBuf {
    PathBuf::from(std::env::var_os("EBBPOOL_TEST_DATABASE").unwrap())
}

#[test]
fn another_process_waits_until_the_database_is_closed() {
    let (_directory, path) = directory();
    let database = open(&path, "").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    let output = in_another_process("files::finds_the_database_busy", &path);
    assert!(output.status.success(), "{output:?}");
    drop(database);
    let output = in_another_process("files::finds_the_database_busy", &path);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
#[ignore = "runs in a process of its own"]
fn finds_the_database_busy() {
    let path = path_of_parent();
    for database in [open(&path, "").unwrap(), plain(&path)] {
        database.busy_timeout(Duration::ZERO).unwrap();
        let refused = database.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{refused}");
    }
}

#[test]
fn another_name_of_an_open_database_finds_it_locked() {
    let (directory, path) = directory();
    let database = with_a_log(&path);
    let other = directory.path().join("other.db");
    std::fs::hard_link(&path, &other).unwrap();
    let named = open(&other, "window=0").unwrap();
    named.busy_timeout(Duration::ZERO).unwrap();
    let error = named.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    drop(named);
    assert_eq!(count(&database), 2);
}

#[test]
fn a_process_that_ends_without_closing_loses_nothing() {
    let (_directory, path) = directory();
    let output = in_another_process("files::ends_without_closing", &path);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(!beside(&path, "-ebb").exists(), "the end of a process closes what no statement uses");
    assert_eq!(count(&plain(&path)), 1);
}

#[test]
#[ignore = "runs in a process of its own"]
fn ends_without_closing() {
    let database = open(&path_of_parent(), "window=1000").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
    database.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    std::mem::forget(database);
    std::process::exit(7);
}

/// A statement uses the database when the process ends: what was committed is in the log.
#[test]
fn a_process_that_ends_in_a_transaction_loses_nothing_committed() {
    let (_directory, path) = directory();
    let output = in_another_process("files::ends_in_a_transaction", &path);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let database = open(&path, "").unwrap();
    assert_eq!(count(&database), 2);
    database.close().unwrap();
    assert_eq!(count(&plain(&path)), 2);
}

#[test]
#[ignore = "runs in a process of its own"]
fn ends_in_a_transaction() {
    let database = open(&path_of_parent(), "window=1000").unwrap();
    database
        .execute_batch(
            "CREATE TABLE t (a); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);
            BEGIN; INSERT INTO t VALUES (3); UPDATE t SET a=7",
        )
        .unwrap();
    std::mem::forget(database);
    std::process::exit(7);
}

#[test]
fn a_child_cannot_use_what_it_inherited() {
    let (_directory, path) = directory();
    for test in ["files::forks", "files::forks_beside_handles_that_only_read"] {
        let _ = std::fs::remove_file(&path);
        let output = in_another_process(test, &path);
        let is_run = String::from_utf8_lossy(&output.stdout).contains(" 1 passed");
        assert!(output.status.success() && is_run, "{output:?}");
        assert_eq!(count(&open(&path, "").unwrap()), 2);
    }
}

#[test]
#[ignore = "runs in a process of its own"]
fn forks() {
    let path = path_of_parent();
    let database = open(&path, "window=1000").unwrap();
    database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    // SAFETY: the child uses only this thread, and ends without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inherited = database.execute_batch("INSERT INTO t VALUES (9)").unwrap_err();
        let is_misuse = inherited.sqlite_error_code() == Some(ErrorCode::ApiMisuse);
        let own = open(&path, "").unwrap();
        own.busy_timeout(Duration::ZERO).unwrap();
        let is_busy = own.query_row("SELECT 1 FROM t", [], |_| Ok(())).is_err();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!(is_misuse && is_busy))) };
    }
    let mut state = 0;
    // SAFETY: the child is one of this process's.
    unsafe { libc::waitpid(child, &mut state, 0) };
    assert_eq!(state, 0);
    database.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    database.close().unwrap();
}

#[test]
#[ignore = "runs in a process of its own"]
fn forks_beside_handles_that_only_read() {
    let path = path_of_parent();
    plain(&path).execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)").unwrap();
    let database =
        Connection::open_with_flags(uri(&path, ""), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI).unwrap();
    database.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&database), 2);
    // SAFETY: the child uses only this thread, and ends without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = database.execute_batch("COMMIT");
        let answered = database.query_row("SELECT count(*) FROM t", [], |_| Ok(()));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(answered.is_ok())) };
    }
    let mut state = 0;
    // SAFETY: the child is one of this process's.
    unsafe { libc::waitpid(child, &mut state, 0) };
    assert_eq!(state, 0);
    database.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&database), 2);
}

#[test]
fn an_old_log_goes_in_place_by_itself() {
    let (_directory, path) = directory();
    let database = open(&path, "window=0&checkpoint_age=0.3").unwrap();
    database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    let begin = Instant::now();
    while status(&database)["log_bytes_now"].as_u64().unwrap() > 1024 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no checkpoint");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_copies, copy) = copy_of(&path);
    assert_eq!(count(&plain(&copy)), 1);
}

/// Commits that come one after the other leave no pause to the thread that brings the log in place.
#[test]
fn a_long_log_goes_in_place_while_commits_go_on() {
    for mode in ["delete", "wal"] {
        for log in ["deltas", "wal"] {
            let (_directory, path) = directory();
            let options = format!("window=0&log_limit=50k&log={log}");
            let database = open(&path, &options).unwrap();
            set_journal(&database, mode);
            database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
            let (mut before, mut checkpoints) = (0, 0);
            for n in 0..20_000 {
                let update = "UPDATE t SET a=randomblob(?1)";
                database.execute(update, [500 + n % 7]).unwrap();
                let now = status(&database)["log_bytes_now"].as_u64().unwrap();
                checkpoints += u32::from(now < before);
                before = now;
                if checkpoints == 5 {
                    break;
                }
            }
            assert_eq!(checkpoints, 5, "{mode}, {log}: {before} bytes");
        }
    }
}
