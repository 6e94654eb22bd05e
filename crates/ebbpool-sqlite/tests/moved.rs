//! Files that others have left beside a database, or taken away.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

fn open(path: &Path) -> Connection {
    ebbpool_sqlite::register(false).unwrap();
    let name = format!("file:{}?vfs=ebbpool&window=5", path.display());
    Connection::open_with_flags(name, OpenFlags::default()).unwrap()
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
    let plain = Connection::open(&path).unwrap();
    let setup = "PRAGMA journal_mode=PERSIST; CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    plain.execute_batch(setup).unwrap();
    plain.close().unwrap();
    assert!(directory.path().join("x.db-journal").exists());
    let database = open(&path);
    database.execute("INSERT INTO t VALUES (2)", []).unwrap();
    assert_eq!(numbers(&database), [1, 2]);
    database.close().unwrap();
    assert_eq!(numbers(&Connection::open(&path).unwrap()), [1, 2]);
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
    after
        .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (2);")
        .unwrap();
    assert!(before.execute("INSERT INTO t VALUES (3)", []).is_err());
    drop(before);
    assert_eq!(numbers(&after), [2]);
    after.close().unwrap();
    assert_eq!(numbers(&Connection::open(&path).unwrap()), [2]);
}

#[test]
fn a_database_that_is_moved_while_open_takes_its_commits_along() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (
        directory.path().join("x.db"),
        directory.path().join("moved.db"),
    );
    let before = open(&path);
    let setup = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    before.execute_batch(setup).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let after = open(&path);
    after.execute_batch("CREATE TABLE other (b)").unwrap();
    assert_eq!(numbers(&Connection::open(&moved).unwrap()), [1]);
    drop(before);
}
