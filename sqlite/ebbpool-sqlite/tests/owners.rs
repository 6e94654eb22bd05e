//! One process has a database: its lock outlives what the process does with the file, and its log is its own.

#![allow(unsafe_code)]

mod support;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use ebbpool_sqlite::inspect::lock_holder;
use rusqlite::{Connection, ErrorCode};
use support::real::{
    beside, copy_of, count, database_of_victim, directory, error_code, integrity, kill_myself, open, plain, run_alone,
    run_victim, set_journal, try_count,
};

fn insert(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch("INSERT INTO t VALUES (1)")
}

/// In a process of its own: neither the library nor plain SQLite reads or writes the database.
#[test]
fn finds_it_busy() {
    let Some(path) = database_of_victim("finds_it_busy") else {
        return;
    };
    for database in [open(&path, "").unwrap(), plain(&path)] {
        for answer in [try_count(&database).map(drop), insert(&database)] {
            assert_eq!(error_code(answer), Some(ErrorCode::DatabaseBusy));
        }
    }
}

fn assert_busy(path: &Path, when: &str) {
    let (status, output) = run_alone("finds_it_busy", path, &[]);
    assert!(status.success(), "{when}: {output}");
}

#[test]
fn the_lock_outlives_what_the_process_does_with_the_file() {
    for log in ["deltas", "wal"] {
        for mode in ["delete", "wal"] {
            let when = format!("log={log}, {mode}");
            let (_directory, path) = directory();
            let database = open(&path, &format!("window=0&log={log}")).unwrap();
            set_journal(&database, mode);
            database.execute_batch("CREATE TABLE t (a)").unwrap();
            for round in 0..3 {
                insert(&database).unwrap();
                // As a backup, a checksum or a download does.
                std::fs::read(&path).unwrap();
                std::fs::copy(&path, beside(&path, ".copy")).unwrap();
                drop(std::fs::OpenOptions::new().write(true).open(&path));
                assert_busy(&path, &format!("{when}, after {round} commits"));
            }
            let sql = "PRAGMA ebbpool_checkpoint";
            database.query_row(sql, [], |_| Ok(())).unwrap();
            std::fs::read(&path).unwrap();
            assert_busy(&path, &format!("{when}, after a checkpoint"));
            // A second connection comes and goes.
            let other = open(&path, "").unwrap();
            assert_eq!(count(&other), 3);
            other.close().unwrap();
            std::fs::read(&path).unwrap();
            assert_busy(&path, &format!("{when}, after another connection"));
            insert(&database).unwrap();
            database.close().unwrap();
            assert_eq!(count(&plain(&path)), 4);
        }
    }
}

#[test]
fn plain_sqlite_in_the_same_process_finds_it_busy() {
    let (_directory, path) = directory();
    let database = open(&path, "window=0").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    for _ in 0..3 {
        insert(&database).unwrap();
        let other = plain(&path);
        let read = error_code(try_count(&other));
        assert_eq!(read, Some(ErrorCode::DatabaseBusy));
        let written = error_code(insert(&other));
        assert_eq!(written, Some(ErrorCode::DatabaseBusy));
        drop(other);
        assert_busy(&path, "after plain SQLite in the owner");
    }
    database.close().unwrap();
    assert_eq!(count(&plain(&path)), 3);
}

#[test]
fn a_log_in_the_wal_keeps_plain_sqlite_from_writing_too() {
    let (_directory, path) = directory();
    plain(&path).execute_batch("CREATE TABLE t (a)").unwrap();
    let database = open(&path, "window=0&log=wal").unwrap();
    for _ in 0..3 {
        insert(&database).unwrap();
    }
    let (_copies, copy) = copy_of(&path);
    let without = plain(&copy);
    assert_eq!(count(&without), 3);
    let refused = error_code(insert(&without));
    assert_eq!(refused, Some(ErrorCode::ReadOnly));
    drop(without);
    let with = open(&copy, "").unwrap();
    insert(&with).unwrap();
    with.close().unwrap();
    assert_eq!(count(&plain(&copy)), 4);
    insert(&plain(&copy)).unwrap();
    drop(database);
    insert(&plain(&path)).unwrap();
}

/// What happens to the log of an owner that goes on.
fn with_its_log(name: &str, change: fn(&Path)) {
    if let Some(path) = database_of_victim(name) {
        let database = open(&path, "window=0").unwrap();
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        for _ in 0..5 {
            insert(&database).unwrap();
        }
        assert!(beside(&path, "-ebb").exists());
        let earlier = beside(&path, ".earlier");
        std::fs::copy(beside(&path, "-ebb"), earlier).unwrap();
        for _ in 0..5 {
            insert(&database).unwrap();
        }
        change(&path);
        for _ in 0..5 {
            insert(&database).unwrap();
        }
        kill_myself();
    }
    let (_directory, path) = directory();
    run_victim(name, &path);
    let database = open(&path, "").unwrap();
    assert_eq!(count(&database), 15, "{name}");
    insert(&database).unwrap();
    database.close().unwrap();
    let plain = plain(&path);
    assert_eq!((count(&plain), integrity(&plain).as_str()), (16, "ok"));
}

#[test]
fn nothing_is_lost_after_the_log_was_deleted_under_its_owner() {
    with_its_log("nothing_is_lost_after_the_log_was_deleted_under_its_owner", |path| {
        std::fs::remove_file(beside(path, "-ebb")).unwrap()
    });
}

#[test]
fn nothing_is_lost_after_the_log_was_replaced_under_its_owner() {
    with_its_log("nothing_is_lost_after_the_log_was_replaced_under_its_owner", |path| {
        std::fs::rename(beside(path, ".earlier"), beside(path, "-ebb")).unwrap()
    });
}

#[test]
fn nothing_is_lost_after_something_else_took_the_place_of_the_log() {
    with_its_log("nothing_is_lost_after_something_else_took_the_place_of_the_log", |path| {
        let other = beside(path, ".other");
        std::fs::write(&other, "not a log").unwrap();
        std::fs::rename(other, beside(path, "-ebb")).unwrap();
    });
}

#[test]
fn nothing_is_lost_after_the_log_was_cut_off_under_its_owner() {
    with_its_log("nothing_is_lost_after_the_log_was_cut_off_under_its_owner", |path| {
        let log = std::fs::File::options().write(true).open(beside(path, "-ebb"));
        log.unwrap().set_len(0).unwrap();
    });
}

/// With a window the commits of the last seconds have no log yet: the owner closes, and all is there.
#[test]
fn closing_after_the_log_was_deleted_leaves_all() {
    for log in ["deltas", "wal"] {
        let (_directory, path) = directory();
        let database = open(&path, &format!("window=1000&log={log}")).unwrap();
        database.execute_batch("CREATE TABLE t (a)").unwrap();
        for round in 0..6 {
            insert(&database).unwrap();
            let sql = "PRAGMA ebbpool_flush";
            database.query_row(sql, [], |_| Ok(())).unwrap();
            if round % 2 == 1 {
                let _ = std::fs::remove_file(beside(&path, "-ebb"));
            }
        }
        database.close().unwrap();
        let plain = plain(&path);
        assert_eq!((count(&plain), integrity(&plain).as_str()), (6, "ok"));
        insert(&plain).unwrap();
    }
}

/// Processes that open, write and close the same database, all at once: each waits for the others.
#[test]
fn many_processes_take_turns() {
    const NAME: &str = "many_processes_take_turns";
    if let Some(path) = database_of_victim(NAME) {
        for round in 0..20 {
            let database = if round % 5 == 4 { plain(&path) } else { open(&path, "window=0").unwrap() };
            let patience = std::time::Duration::from_secs(30);
            database.busy_timeout(patience).unwrap();
            insert(&database).unwrap();
            database.close().unwrap();
        }
        return;
    }
    let (_directory, path) = directory();
    plain(&path).execute_batch("CREATE TABLE t (a)").unwrap();
    std::thread::scope(|scope| {
        let processes: Vec<_> = (0..4).map(|_| scope.spawn(|| run_alone(NAME, &path, &[]))).collect();
        for process in processes {
            let (status, output) = process.join().unwrap();
            assert!(status.success(), "{output}");
        }
    });
    let plain = plain(&path);
    assert_eq!((count(&plain), integrity(&plain).as_str()), (80, "ok"));
}

/// Another process deletes its journal while the library looks for one: that is no error.
#[test]
fn a_journal_that_is_deleted_meanwhile_is_no_error() {
    let (_directory, path) = directory();
    plain(&path).execute_batch("CREATE TABLE t (a)").unwrap();
    let journal = beside(&path, "-journal");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    // What begins so is no journal that SQLite rolls back.
                    std::fs::write(&journal, "no journal").unwrap();
                    // SQLite or the other thread may have deleted it.
                    let _ = std::fs::remove_file(&journal);
                }
            });
        }
        let opened = (0..400).try_for_each(|_| {
            let database = open(&path, "")?;
            match database.query_row("SELECT count(*) FROM t", [], |_| Ok(())) {
                Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => Err(error),
                _ => Ok(()),
            }
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        opened.unwrap();
    });
}

/// Locks bytes by the open file description, as VFSs do that other bindings of SQLite bring along.
///
/// A process that another test has started has the locks of this one until it runs its program, also those that are gone here: the
/// call waits for their end.
fn lock_bytes(file: &File, kind: i32, at: i64, count: i64) {
    // SAFETY: all zeros are a value of the structure, which lives until the call returns; the descriptor is open.
    let code = unsafe {
        let mut range: libc::flock = std::mem::zeroed();
        range.l_type = kind as i16;
        (range.l_start, range.l_len) = (at as libc::off_t, count as libc::off_t);
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &range)
    };
    assert_eq!(code, 0);
}

#[test]
fn locks_of_another_vfs_are_not_taken_for_the_library_s() {
    const PENDING: i64 = 0x4000_0000;
    let (_directory, path) = directory();
    let database = open(&path, "").unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    let seen = File::open(&path).unwrap();
    let holder = lock_holder(&seen).unwrap();
    assert!(holder.is_of_vfs && holder.is_exclusive, "{holder:?}");
    database.close().unwrap();
    assert_eq!(lock_holder(&seen), None);
    // A reader, a writer about to commit, one that waits for readers, and one that locks all that SQLite ever locks.
    for (kind, at, count) in [
        (libc::F_RDLCK, PENDING + 2, 510),
        (libc::F_WRLCK, PENDING + 1, 1),
        (libc::F_WRLCK, PENDING, 2),
        (libc::F_WRLCK, PENDING + 2, 510),
        (libc::F_WRLCK, PENDING, 512),
    ] {
        let other = File::options().read(true).write(true).open(&path).unwrap();
        lock_bytes(&other, kind, at, count);
        let holder = lock_holder(&seen).unwrap();
        assert!(!holder.is_of_vfs, "{kind}, {at}, {count}: {holder:?}");
    }
}
