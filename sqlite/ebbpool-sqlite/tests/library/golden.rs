//! Golden databases and their logs, as the version of the format that is in their names leaves them when the power fails, in
//! `tests/golden/`.
//!
//! Every later release has to open it, so a file in that directory never changes after its release. After a deliberate change
//! of the format a new database is added, under a new name, by this command:
//!
//! ```text
//! cargo test -p ebbpool-sqlite --test library golden:: -- --ignored
//! ```
//!
//! It writes the files that do not exist. `docs/formats.md` draws the format.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use ebbpool_sqlite::inspect::{LogFit, inspect};
use rusqlite::{Connection, OpenFlags};

/// The databases; the last one is of the version that is written now.
const NAMES: [&str; 3] = ["home-1.db", "home-2.db", "home-3.db"];
const NEWEST: &str = NAMES[2];

fn files(name: &str) -> [String; 2] {
    [name.to_owned(), format!("{name}-ebb")]
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn open(path: &Path) -> Connection {
    ebbpool_sqlite::register(false).unwrap();
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=ebbpool&window=0", path.display());
    Connection::open_with_flags(uri, flags).unwrap()
}

/// Writes a database, of which the log changes pages, adds some, and makes the file shorter than it was in between.
fn write_database(database: &Connection) {
    let of_long = |count: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{count}) INSERT INTO t SELECT NULL, hex(zeroblob(200)) FROM n"
        )
    };
    let execute = |sql: &str| database.execute_batch(sql).unwrap();
    execute("PRAGMA page_size=512; PRAGMA auto_vacuum=FULL; CREATE TABLE t (id INTEGER PRIMARY KEY, text);");
    execute(&of_long(5));
    database.query_row("PRAGMA ebbpool_checkpoint", [], |_| Ok(())).unwrap();
    execute("UPDATE t SET text='changed' WHERE id=2");
    execute(&of_long(8));
    execute("DELETE FROM t WHERE id>7");
    execute("INSERT INTO t VALUES (100, 'the last')");
}

fn judge(database: &Connection) {
    let one = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(one("PRAGMA integrity_check"), "ok");
    assert_eq!(one("SELECT group_concat(id) FROM t"), "1,2,3,4,5,6,7,100");
    assert_eq!(one("SELECT group_concat(length(text)) FROM t"), "400,7,400,400,400,400,400,8");
    assert_eq!(one("SELECT text FROM t WHERE id=2"), "changed");
}

#[test]
fn the_databases_of_every_version_are_recovered() {
    for name in NAMES {
        let scratch = tempfile::tempdir().unwrap();
        for file in files(name) {
            fs::copy(golden().join(&file), scratch.path().join(&file)).unwrap();
        }
        let path = scratch.path().join(name);
        let found = inspect(&path).unwrap();
        let log = found.log.unwrap();
        assert_eq!((log.fit, log.epochs, log.page_size), (LogFit::Fits, 4, 512));
        let database = open(&path);
        judge(&database);
        drop(database);
        judge(&Connection::open(&path).unwrap());
    }
}

#[test]
#[ignore = "writes the files of tests/golden that do not exist"]
fn write_golden_files() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join(NEWEST);
    let database = open(&path);
    write_database(&database);
    fs::create_dir_all(golden()).unwrap();
    // Zeros follow the log, up to a multiple of 1 MiB.
    let used = inspect(&path).unwrap().log.unwrap().used_bytes;
    for (file, most) in files(NEWEST).into_iter().zip([u64::MAX, used]) {
        let to = golden().join(&file);
        if !to.exists() {
            let mut bytes = fs::read(scratch.path().join(file)).unwrap();
            bytes.truncate(most as usize);
            fs::write(to, bytes).unwrap();
        }
    }
}
