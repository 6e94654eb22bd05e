//! Copies of a database: older ones are refused beside a newer log, and those that a program has asked for are plain files.

#![allow(unsafe_code)]

use std::path::Path;

use ebbpool_sqlite::inspect::inspect;
use rusqlite::{Connection, ErrorCode};

use crate::support::real::{
    beside, copy_of, count, directory, error_code, integrity, open, plain, set_journal, try_count, write_version,
};

fn run(database: &Connection, sql: &str) {
    let mut statement = database.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while rows.next().unwrap().is_some() {}
}

fn filled(path: &Path, mode: &str, options: &str) -> Connection {
    let database = open(path, options).unwrap();
    set_journal(&database, mode);
    database
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v INT, pad); CREATE INDEX tv ON t(v);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO t SELECT i, i % 100, printf('%.100c', 'x') FROM n",
        )
        .unwrap();
    database
}

/// Updates, which leave the first 96 bytes of a database in WAL mode as they are.
fn update(database: &Connection, random: &mut fastrand::Rng, times: u32) {
    for _ in 0..times {
        database.execute("UPDATE t SET v=?1 WHERE id=?2", [random.i64(0..100), random.i64(1..1001)]).unwrap();
    }
}

fn put_back(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
}

/// What a program asks for before it copies the file, also where SQLite has no WAL to check point.
#[test]
fn a_copy_after_a_checkpoint_is_current_and_plain_in_every_journal_mode() {
    for mode in ["delete", "truncate", "persist", "memory", "wal"] {
        let (_directory, path) = directory();
        let database = filled(&path, mode, "window=1000");
        run(&database, "PRAGMA ebbpool_flush");
        run(&database, "INSERT INTO t VALUES (2000, 1, '')");
        run(&database, "PRAGMA ebbpool_flush");
        run(&database, "INSERT INTO t VALUES (2001, 1, '')");
        run(&database, "PRAGMA wal_checkpoint(TRUNCATE)");
        let copy = beside(&path, ".backup");
        std::fs::copy(&path, &copy).unwrap();
        let copied = plain(&copy);
        assert_eq!(count(&copied), 1002, "{mode}");
        copied.execute_batch("DELETE FROM t").unwrap();
        drop(database);
    }
}

/// An older copy is put back, and the log is newer.
#[test]
fn an_older_copy_beside_a_newer_log_is_refused() {
    for mode in ["wal", "delete"] {
        for way in ["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA ebbpool_checkpoint", "SELECT 1"] {
            let (_directory, path) = directory();
            let database = filled(&path, mode, "window=0&log_limit=60k");
            let mut random = fastrand::Rng::with_seed(1);
            update(&database, &mut random, 10);
            run(&database, way);
            let backup = beside(&path, ".backup");
            std::fs::copy(&path, &backup).unwrap();
            // Another two generations of the log.
            for _ in 0..2 {
                update(&database, &mut random, 300);
                run(&database, "PRAGMA ebbpool_checkpoint");
            }
            update(&database, &mut random, 20);
            let (_copies, copy) = copy_of(&path);
            put_back(&backup, &copy);
            let log = std::fs::read(beside(&copy, "-ebb")).unwrap();
            let refused = open(&copy, "").unwrap();
            let code = error_code(try_count(&refused));
            assert_eq!(code, Some(ErrorCode::CannotOpen), "{mode}, {way}");
            drop(refused);
            let after = std::fs::read(beside(&copy, "-ebb")).unwrap();
            assert!(log == after, "the log is not touched");
            drop(database);
        }
    }
}

/// Home Assistant's backup: a checkpoint that truncates, the lock of a writer, a copy. Plain SQLite writes the copy.
#[test]
fn a_copy_that_was_asked_for_is_a_plain_database() {
    for (mode, way) in [
        ("wal", "PRAGMA wal_checkpoint(TRUNCATE)"),
        ("wal", "PRAGMA ebbpool_checkpoint"),
        ("delete", "PRAGMA ebbpool_checkpoint"),
        ("persist", "PRAGMA ebbpool_checkpoint"),
    ] {
        for options in ["window=0", "window=30", "window=0&log=wal", "window=30&log=wal"] {
            let (_directory, path) = directory();
            let database = filled(&path, mode, options);
            let mut random = fastrand::Rng::with_seed(2);
            for round in 0..3 {
                let when = format!("{mode}, {way}, {options}, {round}");
                update(&database, &mut random, 20);
                run(&database, &format!("INSERT INTO t (v) VALUES ({round})"));
                run(&database, way);
                run(&database, "BEGIN IMMEDIATE");
                let copy = beside(&path, &format!(".{round}"));
                std::fs::copy(&path, &copy).unwrap();
                run(&database, "ROLLBACK");
                assert!(write_version(&copy) <= 2, "{when}: it is marked");
                let plain = plain(&copy);
                assert_eq!(integrity(&plain), "ok", "{when}");
                assert_eq!(count(&plain), 1001 + round, "{when}");
                plain.execute_batch("INSERT INTO t (v) VALUES (7)").unwrap();
                // The owner goes on, and its log fits the database.
                update(&database, &mut random, 20);
                let (_copies, killed) = copy_of(&path);
                let recovered = open(&killed, "").unwrap();
                assert_eq!(count(&recovered), 1001 + round, "{when}");
                assert_eq!(integrity(&recovered), "ok", "{when}");
            }
            database.close().unwrap();
            assert_eq!(count(&plain(&path)), 1003);
        }
    }
}

/// The copy of a database between two epochs is older, and says so.
#[test]
fn a_copy_that_was_not_asked_for_can_be_read() {
    let (_directory, path) = directory();
    let database = filled(&path, "wal", "window=0");
    let mut random = fastrand::Rng::with_seed(3);
    run(&database, "PRAGMA ebbpool_checkpoint");
    update(&database, &mut random, 20);
    let copy = beside(&path, ".copy");
    std::fs::copy(&path, &copy).unwrap();
    let plain = plain(&copy);
    assert_eq!((count(&plain), integrity(&plain).as_str()), (1000, "ok"));
    let refused = plain.execute_batch("INSERT INTO t (v) VALUES (7)");
    assert_eq!(error_code(refused), Some(ErrorCode::ReadOnly));
}

/// A cleaner of unknown files has deleted the log.
#[test]
fn a_database_without_its_log_is_refused() {
    for log in ["deltas"] {
        let (_directory, path) = directory();
        let database = filled(&path, "wal", &format!("window=0&log={log}"));
        let mut random = fastrand::Rng::with_seed(4);
        update(&database, &mut random, 20);
        let (_copies, copy) = copy_of(&path);
        std::fs::remove_file(beside(&copy, "-ebb")).unwrap();
        for _ in 0..2 {
            let refused = open(&copy, "").unwrap();
            let code = error_code(try_count(&refused));
            assert_eq!(code, Some(ErrorCode::CannotOpen));
            let code = error_code(refused.execute_batch("INSERT INTO t (v) VALUES (7)"));
            assert_eq!(code, Some(ErrorCode::CannotOpen));
            drop(refused);
            assert!(write_version(&copy) > 2, "it is still marked");
        }
    }
}

/// The log that a kill leaves at the end of a checkpoint is put back beside what the checkpoint has brought in place: whole it belongs
/// there, and without its last records their older pages must not be mixed with newer ones.
#[test]
fn a_log_that_lacks_what_a_checkpoint_has_placed_is_refused() {
    for mode in ["wal", "delete"] {
        for seed in 0..4 {
            let (_directory, path) = directory();
            let database = filled(&path, mode, "window=0");
            let mut random = fastrand::Rng::with_seed(seed);
            run(&database, "PRAGMA ebbpool_checkpoint");
            update(&database, &mut random, 10);
            let older = std::fs::read(beside(&path, "-ebb")).unwrap();
            let used = inspect(&path).unwrap().log.unwrap().used_bytes as usize;
            update(&database, &mut random, 300);
            let whole = std::fs::read(beside(&path, "-ebb")).unwrap();
            let mut damaged = whole.clone();
            damaged[used + 50] ^= 1;
            run(&database, "PRAGMA ebbpool_checkpoint");
            let sum = sum_of(&database);
            // The mark is there again with the next record.
            update(&database, &mut random, 1);
            for (log, is_whole) in [(older, false), (whole, true), (damaged, false)] {
                let (_copies, copy) = copy_of(&path);
                std::fs::write(beside(&copy, "-ebb"), &log).unwrap();
                let reopened = open(&copy, "").unwrap();
                if is_whole {
                    assert_eq!(sum_of(&reopened), sum, "{mode}, {seed}");
                    assert_eq!(integrity(&reopened), "ok", "{mode}, {seed}");
                    continue;
                }
                let code = error_code(try_count(&reopened));
                assert_eq!(code, Some(ErrorCode::CannotOpen), "{mode}, {seed}");
                drop(reopened);
                let after = std::fs::read(beside(&copy, "-ebb")).unwrap();
                assert!(log == after, "the log is not touched");
            }
        }
    }
}

fn sum_of(database: &Connection) -> i64 {
    let sql = "SELECT sum(id * v) FROM t";
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}
