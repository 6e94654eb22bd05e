//! A database whose pages are encrypted between SQLite and the VFS: its page size is what SQLite writes, and its log is
//! `-wal`, because there is no header to mark.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use ebbpool_sqlite::ffi::{File, IoMethods, OK, OPEN_MAIN_DB, Vfs};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

/// What each byte is combined with.
const KEY: u8 = 0x5a;

/// Methods of a VFS, which are the same for each of its files.
struct Methods(&'static IoMethods);

// SAFETY: the methods are functions.
unsafe impl Sync for Methods {}
// SAFETY: as above.
unsafe impl Send for Methods {}

/// The open function of the VFS below, and its methods.
static OPEN: OnceLock<unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int> = OnceLock::new();
static BELOW: OnceLock<Methods> = OnceLock::new();
static ENCRYPTING: OnceLock<Methods> = OnceLock::new();

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: the call is passed on; the handle is that of the VFS below, with other methods.
    unsafe {
        let code = OPEN.get().unwrap()(vfs, name, file, flags, out);
        if code == OK && flags & OPEN_MAIN_DB != 0 {
            let below: &'static IoMethods = &*(*file).methods;
            BELOW.get_or_init(|| Methods(below));
            let encrypting = ENCRYPTING.get_or_init(|| {
                let mut methods = std::ptr::read(below);
                methods.xRead = read;
                methods.xWrite = write;
                Methods(Box::leak(Box::new(methods)))
            });
            (*file).methods = encrypting.0;
        }
        code
    }
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: the call is passed on, and the buffer has as many bytes.
    unsafe {
        let code = (BELOW.get().unwrap().0.xRead)(file, into, count, at);
        if code == OK {
            let bytes = std::slice::from_raw_parts_mut(into.cast::<u8>(), count as usize);
            bytes.iter_mut().for_each(|byte| *byte ^= KEY);
        }
        code
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: as in `read`.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), count as usize);
        let encrypted: Vec<u8> = bytes.iter().map(|byte| byte ^ KEY).collect();
        (BELOW.get().unwrap().0.xWrite)(file, encrypted.as_ptr().cast(), count, at)
    }
}

/// Registers a VFS that encrypts, over ours.
fn register() {
    ebbpool_sqlite::register(false).unwrap();
    let api = ebbpool_sqlite::linked_api();
    // SAFETY: the VFS is registered, its copy lives until the process ends, and its functions use its data only.
    unsafe {
        let mut vfs = std::ptr::read((api.vfs_find)(ebbpool_sqlite::NAME.as_ptr()));
        OPEN.get_or_init(|| vfs.xOpen);
        vfs.xOpen = open;
        vfs.zName = c"encrypting".as_ptr();
        vfs.pNext = std::ptr::null_mut();
        assert_eq!((api.vfs_register)(Box::leak(Box::new(vfs)), 0), OK);
    }
}

#[test]
fn an_encrypted_database_uses_the_log_of_sqlite() {
    register();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let options = OpenFlags::default();
    let open = |path: &std::path::Path| {
        let name = format!("file:{}?vfs=encrypting&window=0&log_limit=100k", path.display());
        Connection::open_with_flags(name, options).unwrap()
    };
    for round in 1..4i64 {
        let database = open(&path);
        if round == 1 {
            database.execute_batch("PRAGMA page_size=2048; CREATE TABLE t (a, b)").unwrap();
        }
        for n in 0..50 {
            database.execute("INSERT INTO t VALUES (?1, hex(zeroblob(500)))", [n]).unwrap();
        }
        let status: String = database.query_row("PRAGMA ebbpool_status", [], |row| row.get(0)).unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!((&status["log"], &status["page_size"]), (&"wal".into(), &2048.into()));
        // What a power cut would leave.
        let copy = directory.path().join("copy.db");
        for suffix in ["", "-wal"] {
            std::fs::copy(format!("{}{suffix}", path.display()), format!("{}{suffix}", copy.display())).unwrap();
        }
        let count = |database: &Connection| -> i64 {
            let ok: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(ok, "ok");
            database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count(&open(&copy)), round * 50);
        drop(database);
        let bytes = std::fs::read(&path).unwrap();
        let plain: Vec<u8> = bytes.iter().take(16).map(|byte| byte ^ KEY).collect();
        assert_eq!(plain, b"SQLite format 3\0");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with("-ebb")), "{left:?}");
}
