//! Frames of SQLite's WAL without a valid checksum, and frames that come after their commit.
//!
//! SQLite 3.40 leaves frames without checksum where it has rolled back to a savepoint after a frame got another content
//! (wal.c: `sqlite3WalSavepointUndo` kept `iReCksum`). The one in this program does not, so a VFS above does it.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::path::Path;
use std::sync::Once;

use ebbpool_sqlite::ffi::{IOERR_FSYNC, IOERR_WRITE, OK, OPEN_WAL};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::support::real::scratch;
use crate::support::shim::{self, Below, FileCall, Layer, Opening};

/// Bytes of the header of the WAL, and of each frame.
const HEADER: i64 = 32;
const FRAME: usize = 24;

/// What happens to the WAL of this thread's connections.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// No frame has salt and checksum.
    Bare,
    /// Every second frame has neither.
    EverySecond,
    /// All checksums are wrong.
    Sums,
    /// Frames that end no commit are written when their commit has ended.
    Later,
    /// They are never written.
    Never,
    /// A sync of the WAL fails, after some that succeed: SQLite takes a commit back whose frames are all written.
    Sync(u32),
}

thread_local! {
    static WRONG: Cell<Wrong> = const { Cell::new(Wrong::Nothing) };
    static HELD: RefCell<Vec<(i64, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
    static IS_COMMIT: Cell<bool> = const { Cell::new(false) };
}

/// The VFS over ours.
struct Frames;

impl Layer for Frames {
    /// Whether the file is a WAL.
    type Open = bool;

    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<bool>) {
        let (code, is_open) = opening.pass();
        (code, is_open.then_some(opening.flags & OPEN_WAL != 0))
    }

    fn call(&self, is_wal: &bool, call: FileCall<'_>, below: &Below) -> c_int {
        match call {
            FileCall::Write { from, at } if *is_wal => write(from, at, below),
            FileCall::Sync { .. } if *is_wal => match WRONG.get() {
                Wrong::Sync(0) => {
                    WRONG.set(Wrong::Nothing);
                    IOERR_FSYNC
                }
                Wrong::Sync(left) => {
                    WRONG.set(Wrong::Sync(left - 1));
                    below.pass(call)
                }
                _ => below.pass(call),
            },
            _ => below.pass(call),
        }
    }
}

fn write(from: &[u8], at: i64, below: &Below) -> c_int {
    let pass = |at: i64, from: &[u8]| below.pass(FileCall::Write { from, at });
    let wrong = WRONG.get();
    if at < HEADER || wrong == Wrong::Nothing {
        return pass(at, from);
    }
    let mut bytes = from.to_vec();
    if bytes.len() == FRAME {
        IS_COMMIT.set(bytes[4..8] != [0; 4]);
        match wrong {
            Wrong::Bare => bytes[8..].fill(0),
            Wrong::EverySecond if bytes[3].is_multiple_of(2) => bytes[8..].fill(0),
            Wrong::Sums => bytes[16..].iter_mut().for_each(|byte| *byte ^= 0x5a),
            _ => {}
        }
    }
    match wrong {
        Wrong::Later | Wrong::Never if !IS_COMMIT.get() => {
            HELD.with_borrow_mut(|held| held.push((at, bytes)));
            OK
        }
        Wrong::Later if bytes.len() != FRAME => {
            let code = pass(at, &bytes);
            let held = HELD.take();
            let all = held.iter().all(|(at, bytes)| pass(*at, bytes) == OK);
            if all { code } else { IOERR_WRITE }
        }
        _ => pass(at, &bytes),
    }
}

/// Registers the VFS over ours, and opens a database on it.
fn open_on(path: &Path, more: &str) -> Connection {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        ebbpool_sqlite::register(false).unwrap();
        shim::register(c"frames", Some(ebbpool_sqlite::NAME), &Frames);
    });
    let name = format!("file:{}?vfs=frames{more}", path.display());
    let database = Connection::open_with_flags(name, OpenFlags::default()).unwrap();
    let prepare = "PRAGMA journal_mode=wal; PRAGMA cache_size=5; CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v)";
    database.execute_batch(prepare).unwrap();
    database
}

/// Rows and the sum of the keys.
fn rows(database: &Connection) -> (i64, i64) {
    let sql = "SELECT count(*), total(k) FROM t";
    let answer = |row: &rusqlite::Row| Ok((row.get(0)?, row.get::<_, f64>(1)? as i64));
    database.query_row(sql, [], answer).unwrap()
}

/// What plain SQLite finds in a copy of the files, after the library has brought the log in place.
fn found(path: &Path) -> (i64, i64) {
    let plain = Connection::open(path).unwrap();
    let check = plain.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(check.unwrap(), "ok");
    rows(&plain)
}

/// Transactions of several pages, with savepoints, and short ones.
fn work(database: &Connection) {
    for first in (0..60).step_by(20) {
        database
            .execute_batch(&format!(
                "BEGIN; INSERT INTO t VALUES ({first}, 'before'); SAVEPOINT s;
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
                 INSERT INTO t SELECT i + 1000, zeroblob(3000) FROM n;
                 UPDATE t SET v = zeroblob(3001) WHERE k > 1000; ROLLBACK TO s;
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
                 INSERT INTO t SELECT i + {first}, zeroblob(3000) FROM n; COMMIT;
                 INSERT INTO t VALUES ({first} + 19, 'later')"
            ))
            .unwrap();
    }
}

#[test]
fn commits_whose_frames_lack_a_checksum_are_there_after_a_close() {
    for wrong in [Wrong::Bare, Wrong::EverySecond, Wrong::Sums] {
        for window in ["&window=0", "&window=30", "&window=0&log=wal"] {
            let directory = scratch();
            let path = directory.path().join("x.db");
            let database = open_on(&path, window);
            WRONG.set(wrong);
            work(&database);
            let inside = rows(&database);
            assert_eq!(inside.0, 42, "{wrong:?} {window}");
            database.execute_batch("PRAGMA wal_checkpoint(RESTART)").unwrap();
            work_again(&database);
            let inside = rows(&database);
            WRONG.set(Wrong::Nothing);
            drop(database);
            assert_eq!(found(&path), inside, "{wrong:?} {window}");
        }
    }
}

/// A few rows more.
fn work_again(database: &Connection) {
    for key in 100..110 {
        database.execute("INSERT INTO t VALUES (?1, zeroblob(9000))", [key]).unwrap();
    }
}

#[test]
fn who_makes_the_index_anew_finds_commits_whose_frames_lacked_a_checksum() {
    for wrong in [Wrong::Bare, Wrong::EverySecond, Wrong::Sums] {
        let directory = scratch();
        let path = directory.path().join("x.db");
        let database = open_on(&path, "&window=30");
        // It keeps the database, and has no index.
        let name = format!("file:{}?vfs=frames&window=30", path.display());
        let keeper = Connection::open_with_flags(name, OpenFlags::default()).unwrap();
        WRONG.set(wrong);
        database.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
        work(&database);
        let inside = rows(&database);
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        drop(database);
        // The next connection makes the index from the frames.
        let database = open_on(&path, "&window=30");
        assert_eq!(rows(&database), inside, "{wrong:?}");
        work_again(&database);
        let inside = rows(&database);
        WRONG.set(Wrong::Nothing);
        drop((database, keeper));
        assert_eq!(found(&path), inside, "{wrong:?}");
    }
}

#[test]
fn frames_that_come_after_their_commit_are_taken_with_it() {
    for window in ["&window=0", "&window=30"] {
        let directory = scratch();
        let path = directory.path().join("x.db");
        let database = open_on(&path, window);
        database.execute_batch("PRAGMA cache_size=1000").unwrap();
        WRONG.set(Wrong::Later);
        work_again(&database);
        let inside = rows(&database);
        WRONG.set(Wrong::Nothing);
        drop(database);
        assert_eq!(found(&path), inside, "{window}");
    }
}

#[test]
fn after_a_commit_that_the_wal_never_had_no_other_one_is_acknowledged() {
    let directory = scratch();
    let path = directory.path().join("x.db");
    let database = open_on(&path, "&window=0");
    database.execute_batch("PRAGMA cache_size=1000").unwrap();
    work_again(&database);
    WRONG.set(Wrong::Never);
    database.execute("INSERT INTO t VALUES (200, zeroblob(9000))", []).unwrap();
    WRONG.set(Wrong::Nothing);
    HELD.take();
    let says_so = || {
        let health = ebbpool_sqlite::inspect::published_health(&path).unwrap();
        health.is_some_and(|it| !it.database.last_epoch_succeeded)
    };
    assert!(says_so());
    let refused = database.execute("INSERT INTO t VALUES (300, 'refused')", []);
    assert!(refused.is_err());
    assert!(says_so());
}

/// How a connection has the WAL: shared with others, or to itself, from the beginning or later.
#[derive(Clone, Copy, Debug)]
enum Alone {
    Never,
    Later,
    Always,
}

/// Opens a database whose connection has the WAL to itself or not, with thirty rows in place and an index.
fn open_alone(path: &Path, window: &str, alone: Alone) -> Connection {
    let database = match alone {
        Alone::Always => open_exclusive(path, window),
        _ => open_on(path, window),
    };
    let prepare = "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=full; CREATE INDEX x ON t (v);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
        INSERT INTO t SELECT i, zeroblob(1500 + i) FROM n; PRAGMA wal_checkpoint";
    database.execute_batch(prepare).unwrap();
    if matches!(alone, Alone::Later) {
        let exclusive = "PRAGMA locking_mode=EXCLUSIVE; UPDATE t SET v = zeroblob(1400 + k)";
        database.execute_batch(exclusive).unwrap();
    }
    database
}

/// Opens a database whose connection makes the index of the WAL in its own memory.
fn open_exclusive(path: &Path, window: &str) -> Connection {
    // It is one with a WAL by now.
    drop(open_on(path, window));
    let name = format!("file:{}?vfs=frames{window}", path.display());
    let database = Connection::open_with_flags(name, OpenFlags::default()).unwrap();
    database.execute_batch("PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=5").unwrap();
    database
}

/// A transaction that changes most pages, and makes the database longer or shorter.
fn large(database: &Connection, is_longer: bool) -> rusqlite::Result<()> {
    let change = match is_longer {
        true => "INSERT INTO t SELECT k + 2000, zeroblob(1600 + k) FROM t",
        false => "DELETE FROM t WHERE k > 10; PRAGMA incremental_vacuum",
    };
    database.execute_batch(&format!("BEGIN; UPDATE t SET v = zeroblob(length(v) + 1) WHERE k % 3 > 0; {change}; COMMIT"))
}

/// What a program does after a commit that was refused, before it commits again.
const BETWEEN: [&str; 4] =
    ["", "PRAGMA wal_checkpoint", "BEGIN IMMEDIATE; COMMIT", "BEGIN IMMEDIATE; COMMIT; PRAGMA wal_checkpoint(TRUNCATE)"];

#[test]
fn a_commit_that_sqlite_takes_back_after_its_last_frame_is_not_there() {
    for alone in [Alone::Never, Alone::Later, Alone::Always] {
        for window in ["&window=0", "&window=30", "&window=0&log=wal"] {
            for (between, is_longer) in BETWEEN.iter().flat_map(|it| [(it, true), (it, false)]) {
                let directory = scratch();
                let path = directory.path().join("x.db");
                let database = open_alone(&path, window, alone);
                let before = rows(&database);
                WRONG.set(Wrong::Sync(0));
                large(&database, is_longer).unwrap_err();
                assert_eq!(WRONG.get(), Wrong::Nothing);
                database.execute_batch(between).unwrap();
                assert_eq!(rows(&database), before, "{alone:?} {window} {between}");
                if is_longer {
                    work_again(&database);
                }
                let inside = rows(&database);
                drop(database);
                assert_eq!(found(&path), inside, "{alone:?} {window} {between}");
            }
        }
    }
}

#[test]
fn a_commit_stays_whose_part_in_an_attached_database_is_refused() {
    for alone in [Alone::Never, Alone::Later, Alone::Always] {
        for window in ["&window=0", "&window=30", "&window=0&log=wal"] {
            for (between, is_longer) in BETWEEN.iter().flat_map(|it| [(it, true), (it, false)]) {
                let directory = scratch();
                let path = directory.path().join("x.db");
                let other = directory.path().join("y.db");
                drop(open_on(&other, window));
                let database = open_alone(&path, window, alone);
                let attach =
                    format!("ATTACH 'file:{}?vfs=frames{window}' AS other; PRAGMA other.synchronous=full", other.display());
                database.execute_batch(&attach).unwrap();
                // One sync for each database.
                WRONG.set(Wrong::Sync(1));
                let both = "BEGIN; INSERT INTO other.t VALUES (1, 'refused')";
                database.execute_batch(both).unwrap();
                let change = match is_longer {
                    true => "INSERT INTO main.t SELECT k + 1000, zeroblob(1600 + k) FROM main.t",
                    false => "DELETE FROM main.t WHERE k > 10",
                };
                database.execute_batch(change).unwrap();
                database.execute_batch("COMMIT").unwrap_err();
                assert_eq!(WRONG.get(), Wrong::Nothing);
                database.execute_batch(between).unwrap();
                // The next one is taken back, and this one is not.
                let inside = rows(&database);
                WRONG.set(Wrong::Sync(0));
                large(&database, is_longer).unwrap_err();
                assert_eq!(rows(&database), inside, "{alone:?} {window} {between}");
                work_again(&database);
                let inside = rows(&database);
                drop(database);
                assert_eq!(found(&path), inside, "{alone:?} {window} {between}");
                assert_eq!(found(&other).0, 0, "{alone:?} {window} {between}");
            }
        }
    }
}

/// A connection that reads, and the rows of its snapshot.
struct Reader {
    database: Connection,
    snapshot: Option<Vec<(i64, i64)>>,
}

fn contents(database: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut statement = database.prepare_cached("SELECT k, v, length(pad) FROM t ORDER BY k")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    rows.collect()
}

/// Readers hold more snapshots than SQLite's index has slots for, and none has room for its pages in its cache.
fn hold_snapshots(seed: u64, options: &str, page_size: u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = scratch();
    let path = directory.path().join("x.db");
    let connect = || {
        let database = crate::support::real::open(&path, options).unwrap();
        let setup =
            format!("PRAGMA page_size={page_size}; PRAGMA journal_mode=WAL; PRAGMA cache_size=1; PRAGMA synchronous=NORMAL");
        database.execute_batch(&setup).unwrap();
        database
    };
    let writer = connect();
    writer.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, v INT, pad TEXT); CREATE INDEX i ON t (v)").unwrap();
    let mut rows = std::collections::BTreeMap::new();
    let mut readers: Vec<Reader> = (0..7).map(|_| Reader { database: connect(), snapshot: None }).collect();
    for step in 0..250 {
        let context = format!("seed {seed}, {options}, {page_size}, step {step}");
        let number = random.usize(..readers.len());
        match random.u32(..12) {
            0..=4 => {
                writer.execute_batch("BEGIN").unwrap();
                let mut after = rows.clone();
                for part in 0..random.u32(1..12) {
                    let (k, v) = (random.i64(0..300), random.i64(0..1000));
                    if random.u32(..4) == 0 {
                        writer.execute("DELETE FROM t WHERE k BETWEEN ?1 AND ?1 + 20", [k]).unwrap();
                        after.retain(|key, _| !(k..=k + 20).contains(key));
                        continue;
                    }
                    let insert = "INSERT INTO t VALUES (?1, ?2, hex(zeroblob(?3))) ON CONFLICT (k) DO UPDATE SET v = ?2, pad = excluded.pad";
                    let undone = random.u32(..8) == 0;
                    if undone {
                        writer.execute_batch("SAVEPOINT s").unwrap();
                    }
                    writer.execute(insert, [k, v, random.i64(0..400)]).unwrap();
                    match undone {
                        true => writer.execute_batch("ROLLBACK TO s; RELEASE s").unwrap(),
                        false => drop(after.insert(k, v)),
                    }
                    if part == 5 {
                        assert_eq!(contents(&writer).unwrap(), Vec::from_iter(after.clone()), "{context}: in the transaction");
                    }
                }
                match random.u32(..6) {
                    0 => writer.execute_batch("ROLLBACK").unwrap(),
                    _ => {
                        writer.execute_batch("COMMIT").unwrap();
                        rows = after;
                    }
                }
            }
            5 | 6 => {
                let reader = &mut readers[number];
                if reader.snapshot.is_none() {
                    reader.database.execute_batch("BEGIN").unwrap();
                    reader.database.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(())).unwrap();
                    reader.snapshot = Some(Vec::from_iter(rows.clone()));
                }
            }
            7 if readers[number].snapshot.take().is_some() => readers[number].database.execute_batch("COMMIT").unwrap(),
            8 => {
                let way =
                    ["PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(RESTART)", "PRAGMA wal_checkpoint(TRUNCATE)"];
                // Busy while others read.
                let _ = writer.query_row(way[random.usize(..3)], [], |_| Ok(()));
            }
            9 => {
                let way = ["PRAGMA ebbpool_flush", "PRAGMA ebbpool_checkpoint", "PRAGMA incremental_vacuum"];
                let _ = writer.query_row(way[random.usize(..3)], [], |_| Ok(()));
            }
            // Closing does not check point then, and the last one leaves the WAL to who comes next.
            10 if random.u32(..6) == 0 => {
                for reader in &mut readers {
                    reader.snapshot = None;
                    reader.database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
                    reader.database = Connection::open_in_memory().unwrap();
                }
                // In a rollback mode it would have the index no more.
                for reader in &mut readers {
                    reader.database = connect();
                }
            }
            11 => readers[number].database.execute_batch("PRAGMA shrink_memory").unwrap(),
            _ => {}
        }
        let reader = &readers[number];
        let expected = reader.snapshot.clone().unwrap_or_else(|| Vec::from_iter(rows.clone()));
        let found = contents(&reader.database).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(found, expected, "{context}");
    }
    drop(readers);
    writer.close().unwrap();
    let database = crate::support::real::plain(&path);
    assert_eq!(crate::support::real::integrity(&database), "ok", "seed {seed}, {options}");
    assert_eq!(contents(&database).unwrap(), Vec::from_iter(rows), "seed {seed}, {options}");
}

#[test]
fn each_snapshot_shows_what_it_showed_at_first() {
    for seed in 0..12 {
        for options in ["window=0&memory=1M", "window=30&memory=1M", "window=0", "window=30&log=wal&memory=1M", "window=0.01"] {
            for page_size in [512, 4096] {
                hold_snapshots(seed, options, page_size);
            }
        }
    }
}
