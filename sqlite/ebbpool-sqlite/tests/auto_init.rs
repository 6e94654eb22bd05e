//! The library as an automatic extension, which is one for the whole process.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use rusqlite::{Connection, OpenFlags, ffi};

type AutoInit = unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

#[test]
fn an_automatic_extension_registers_the_vfs_and_lets_every_database_open() {
    let entry = ebbpool_sqlite::ebbpool_sqlite_auto_init as *const ();
    // SAFETY: the function has this type in C, but for the names of the types behind its pointers.
    let code = unsafe { ffi::sqlite3_auto_extension(Some(std::mem::transmute::<*const (), AutoInit>(entry))) };
    assert_eq!(code, ffi::SQLITE_OK);
    for _ in 0..2 {
        let memory = Connection::open_in_memory().unwrap();
        let one: i64 = memory.query_row("SELECT 1", [], |row| row.get(0)).unwrap();
        assert_eq!(one, 1);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let name = format!("file:{}?vfs=ebbpool&window=9", path.display());
    let database = Connection::open_with_flags(name, OpenFlags::default()).unwrap();
    let window: String = database.query_row("PRAGMA ebbpool_window", [], |row| row.get(0)).unwrap();
    assert_eq!(window, "9");
}
