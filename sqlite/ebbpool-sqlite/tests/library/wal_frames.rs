//! Frames of SQLite's WAL without a valid checksum, and frames that come after their commit.
//!
//! SQLite 3.40 leaves frames without checksum where it has rolled back to a savepoint after a frame got another content
//! (wal.c: `sqlite3WalSavepointUndo` kept `iReCksum`). The one in this program does not, so a VFS above does it.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use ebbpool_sqlite::ffi::{File, IOERR_FSYNC, IOERR_WRITE, IoMethods, OK, OPEN_WAL, Vfs};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// Bytes of the header of the WAL, and of each frame.
const HEADER: i64 = 32;
const FRAME: c_int = 24;

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
    static IS_COMMIT: RefCell<bool> = const { RefCell::new(false) };
}

/// Methods of a VFS, which are the same for each of its files.
struct Methods(&'static IoMethods);

// SAFETY: the methods are functions.
unsafe impl Sync for Methods {}
// SAFETY: as above.
unsafe impl Send for Methods {}

static OPEN: OnceLock<unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int> = OnceLock::new();
static BELOW: OnceLock<Methods> = OnceLock::new();
static ABOVE: OnceLock<Methods> = OnceLock::new();

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: the call is passed on; the handle is that of the VFS below, with other methods.
    unsafe {
        let code = OPEN.get().unwrap()(vfs, name, file, flags, out);
        if code == OK && flags & OPEN_WAL != 0 {
            let below: &'static IoMethods = &*(*file).methods;
            BELOW.get_or_init(|| Methods(below));
            let above = ABOVE.get_or_init(|| {
                let mut methods = std::ptr::read(below);
                methods.xWrite = write;
                methods.xSync = sync;
                Methods(Box::leak(Box::new(methods)))
            });
            (*file).methods = above.0;
        }
        code
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: the call is passed on, and the buffer has as many bytes.
    let mut bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count as usize) }.to_vec();
    let pass = |at: i64, bytes: &[u8]| {
        // SAFETY: as above.
        unsafe { (BELOW.get().unwrap().0.xWrite)(file, bytes.as_ptr().cast(), bytes.len() as c_int, at) }
    };
    let wrong = WRONG.get();
    if at < HEADER || wrong == Wrong::Nothing {
        return pass(at, &bytes);
    }
    if count == FRAME {
        IS_COMMIT.set(bytes[4..8] != [0; 4]);
        match wrong {
            Wrong::Bare => bytes[8..].fill(0),
            Wrong::EverySecond if bytes[3] % 2 == 0 => bytes[8..].fill(0),
            Wrong::Sums => bytes[16..].iter_mut().for_each(|byte| *byte ^= 0x5a),
            _ => {}
        }
    }
    let is_commit = IS_COMMIT.with_borrow(|is_commit| *is_commit);
    match wrong {
        Wrong::Later | Wrong::Never if !is_commit => {
            HELD.with_borrow_mut(|held| held.push((at, bytes)));
            OK
        }
        Wrong::Later if count != FRAME => {
            let code = pass(at, &bytes);
            let held = HELD.take();
            let all = held.iter().all(|(at, bytes)| pass(*at, bytes) == OK);
            if all { code } else { IOERR_WRITE }
        }
        _ => pass(at, &bytes),
    }
}

unsafe extern "C" fn sync(file: *mut File, flags: c_int) -> c_int {
    match WRONG.get() {
        Wrong::Sync(0) => {
            WRONG.set(Wrong::Nothing);
            return IOERR_FSYNC;
        }
        Wrong::Sync(left) => WRONG.set(Wrong::Sync(left - 1)),
        _ => {}
    }
    // SAFETY: the call is passed on.
    unsafe { (BELOW.get().unwrap().0.xSync)(file, flags) }
}

/// Registers the VFS over ours, and opens a database on it.
fn open_on(path: &Path, more: &str) -> Connection {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        ebbpool_sqlite::register(false).unwrap();
        let api = ebbpool_sqlite::linked_api();
        // SAFETY: the VFS is registered, its copy lives until the process ends, and its functions use its data only.
        unsafe {
            let mut vfs = std::ptr::read((api.vfs_find)(ebbpool_sqlite::NAME.as_ptr()));
            OPEN.get_or_init(|| vfs.xOpen);
            vfs.xOpen = open;
            vfs.zName = c"frames".as_ptr();
            vfs.pNext = std::ptr::null_mut();
            assert_eq!((api.vfs_register)(Box::leak(Box::new(vfs)), 0), OK);
        }
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
            let directory = tempfile::tempdir().unwrap();
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
        let directory = tempfile::tempdir().unwrap();
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
        let directory = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let database = open_on(&path, "&window=0");
    database.execute_batch("PRAGMA cache_size=1000").unwrap();
    work_again(&database);
    WRONG.set(Wrong::Never);
    database.execute("INSERT INTO t VALUES (200, zeroblob(9000))", []).unwrap();
    WRONG.set(Wrong::Nothing);
    HELD.take();
    let says_so = || {
        let health = ebbpool_sqlite::inspect::health_of(&path).unwrap();
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
                let directory = tempfile::tempdir().unwrap();
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
                let directory = tempfile::tempdir().unwrap();
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
