//! A library to preload: `sqlite3_open` and its like register the VFS of `ebbpool-sqlite` as the default one, and then do
//! what SQLite's own do. `ebbpool sqlite run` starts programs with it.
//!
//! It is a crate of its own because a program that links SQLite statically must not have these functions twice.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use ebbpool_sqlite::preload::{NO_SQLITE, real};

/// Opens a database as SQLite's function of this name does.
///
/// # Safety
///
/// As for SQLite's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open_v2(
    path: *const c_char,
    database: *mut *mut c_void,
    flags: c_int,
    vfs: *const c_char,
) -> c_int {
    match real(sqlite3_open_v2) {
        // SAFETY: the call is passed on as it is.
        Some(real) => unsafe { (real.open_v2)(path, database, flags, vfs) },
        None => NO_SQLITE,
    }
}

/// Opens a database as SQLite's function of this name does.
///
/// # Safety
///
/// As for SQLite's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open(path: *const c_char, database: *mut *mut c_void) -> c_int {
    match real(sqlite3_open_v2) {
        // SAFETY: the call is passed on as it is.
        Some(real) => unsafe { (real.open)(path, database) },
        None => NO_SQLITE,
    }
}

/// Opens a database as SQLite's function of this name does.
///
/// # Safety
///
/// As for SQLite's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open16(path: *const c_void, database: *mut *mut c_void) -> c_int {
    match real(sqlite3_open_v2).and_then(|real| real.open16) {
        // SAFETY: the call is passed on as it is.
        Some(open16) => unsafe { open16(path, database) },
        None => NO_SQLITE,
    }
}
