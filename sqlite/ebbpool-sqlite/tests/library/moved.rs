//! Files that others have left beside a database, or taken away.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::support::real::set_journal;

fn open(path: &Path) -> Connection {
    ebbpool_sqlite::register(false).unwrap();
    let name = format!("file:{}?vfs=ebbpool&window=5", path.display());
    Connection::open_with_flags(name, OpenFlags::default()).unwrap()
}

/// Waits for a sync of the library, which takes longer than SQLite's usual five seconds on a disk that other tests use.
fn plain(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.busy_timeout(Duration::from_secs(60)).unwrap();
    database
}

fn numbers(database: &Connection) -> Vec<i64> {
    let mut statement = database.prepare("SELECT a FROM t ORDER BY a").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_persistent_journal_of_plain_sqlite_is_no_hindrance() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let sqlite = plain(&path);
    let setup = "PRAGMA journal_mode=PERSIST; CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    sqlite.execute_batch(setup).unwrap();
    sqlite.close().unwrap();
    assert!(directory.path().join("x.db-journal").exists());
    let database = open(&path);
    database.execute("INSERT INTO t VALUES (2)", []).unwrap();
    assert_eq!(numbers(&database), [1, 2]);
    database.close().unwrap();
    assert_eq!(numbers(&plain(&path)), [1, 2]);
}

#[test]
fn a_database_made_anew_is_not_the_one_that_was_deleted_while_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = open(&path);
    let setup = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    before.execute_batch(setup).unwrap();
    std::fs::remove_file(&path).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (2);").unwrap();
    assert!(before.execute("INSERT INTO t VALUES (3)", []).is_err());
    drop(before);
    assert_eq!(numbers(&after), [2]);
    after.close().unwrap();
    assert_eq!(numbers(&plain(&path)), [2]);
}

/// SQLite uses the index of its WAL until it unmaps it.
#[test]
fn closing_leaves_the_index_of_the_wal_to_a_handle_whose_database_was_moved() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = open(&path);
    set_journal(&before, "wal");
    before
        .execute_batch(
            "PRAGMA cache_size=1; PRAGMA cache_spill=1; CREATE TABLE t (a);
            BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO t SELECT hex(zeroblob(1000)) FROM n",
        )
        .unwrap();
    std::fs::rename(&path, path.with_extension("old")).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE t (a)").unwrap();
    let _ = before.execute_batch("ROLLBACK");
    drop(before);
    assert!(numbers(&after).is_empty());
}

/// Files of a rotated database, and those of the one that has its name by now.
#[test]
fn closing_a_moved_database_leaves_the_logs_of_a_new_one_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = open(&path);
    before.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1); PRAGMA ebbpool_checkpoint").unwrap();
    before.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    let moved = path.with_extension("old");
    std::fs::rename(&path, &moved).unwrap();
    let after = plain(&path);
    set_journal(&after, "wal");
    after.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (3)").unwrap();
    let foreign = path.with_extension("db-ebb");
    // Another file, and not the one that the moved database has open.
    let _ = std::fs::remove_file(&foreign);
    std::fs::write(&foreign, "of another database").unwrap();
    drop(before);
    assert_eq!(numbers(&plain(&moved)), [1, 2]);
    assert!(path.with_extension("db-wal").exists());
    assert!(foreign.exists());
    assert_eq!(numbers(&plain(&path)), [3]);
}

#[test]
fn a_database_whose_directory_is_renamed_keeps_its_commits() {
    for (window, mode) in [(0, "wal"), (5, "wal"), (0, "delete"), (5, "delete")] {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let database = open(&inner.join("x.db"));
        let sql = format!("PRAGMA ebbpool_window={window}");
        database.query_row(&sql, [], |_| Ok(())).unwrap();
        set_journal(&database, mode);
        database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)").unwrap();
        let moved = directory.path().join("moved");
        std::fs::rename(&inner, &moved).unwrap();
        let mut expected = vec![1, 2];
        for number in 3..20 {
            if database.execute("INSERT INTO t VALUES (?1)", [number]).is_ok() {
                expected.push(number);
            }
        }
        drop(database);
        let found = numbers(&plain(&moved.join("x.db")));
        assert_eq!(found, expected, "{window}, {mode}");
    }
}

#[test]
fn a_database_that_is_moved_while_open_takes_its_commits_along() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("x.db"), directory.path().join("moved.db"));
    let before = open(&path);
    let setup = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    before.execute_batch(setup).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE other (b)").unwrap();
    assert_eq!(numbers(&plain(&moved)), [1]);
    drop(before);
}
