//! A library to preload: `sqlite3_open` and its like register the VFS of `ebbpool-sqlite` as the default one, and then do
//! what SQLite's own do. `ebbpool sqlite run` starts programs with it. With `--capture` they have requests recorded instead, which
//! must begin before `sqlite3_initialize`.
//!
//! A process may have several copies of SQLite, of which each has handles of its own. So these functions call the copy of the
//! library that calls them, which they know by the address to which they return.
//!
//! It is a crate of its own because a program that links SQLite statically must not have these functions twice.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use ebbpool_sqlite::preload::{self, NO_SQLITE, at_load, real};

/// Functions with SQLite's names, each of which passes its arguments on with the address to which it returns.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) in $x86_64:literal $aarch64:literal => $with_caller:ident;)*) => {
        $(
            /// Does what SQLite's function of this name does.
            ///
            /// # Safety
            ///
            /// As for SQLite's.
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // One argument more, in the next register; the other function returns to the caller.
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    concat!("mov ", $x86_64, ", [rsp]"),
                    "jmp {with_caller}",
                    with_caller = sym $with_caller
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    concat!("mov ", $aarch64, ", x30"),
                    "b {with_caller}",
                    with_caller = sym $with_caller
                );
            }

            /// Does what SQLite's function of this name does, where the process has one copy of SQLite.
            ///
            /// # Safety
            ///
            /// As for SQLite's.
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the call is passed on as it is.
                unsafe { $with_caller($($argument,)* std::ptr::null()) }
            }
        )*
    };
}

functions! {
    sqlite3_open_v2(path: *const c_char, database: *mut *mut c_void, flags: c_int, vfs: *const c_char) in "r8" "x4" => open_v2;
    sqlite3_open(path: *const c_char, database: *mut *mut c_void) in "rdx" "x2" => open;
    sqlite3_open16(path: *const c_void, database: *mut *mut c_void) in "rdx" "x2" => open16;
    sqlite3_initialize() in "rdi" "x0" => initialize;
}

#[used]
// SAFETY: the loader calls the functions of this section when it has loaded the library; this one only looks at the environment, and
// calls a function that SQLite has for this time.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = begin;

extern "C" fn begin() {
    at_load(sqlite3_open_v2);
}

unsafe extern "C" fn open_v2(
    path: *const c_char,
    database: *mut *mut c_void,
    flags: c_int,
    vfs: *const c_char,
    returns_to: *const c_void,
) -> c_int {
    match real(returns_to, sqlite3_open_v2) {
        // SAFETY: the call is passed on as it is.
        Some(real) => unsafe { (real.open_v2)(path, database, flags, vfs) },
        // SAFETY: the caller's.
        None => unsafe { no_sqlite(database) },
    }
}

unsafe extern "C" fn open(path: *const c_char, database: *mut *mut c_void, returns_to: *const c_void) -> c_int {
    match real(returns_to, sqlite3_open_v2) {
        // SAFETY: the call is passed on as it is.
        Some(real) => unsafe { (real.open)(path, database) },
        // SAFETY: the caller's.
        None => unsafe { no_sqlite(database) },
    }
}

unsafe extern "C" fn open16(path: *const c_void, database: *mut *mut c_void, returns_to: *const c_void) -> c_int {
    match real(returns_to, sqlite3_open_v2).and_then(|real| real.open16) {
        // SAFETY: the call is passed on as it is.
        Some(open16) => unsafe { open16(path, database) },
        // SAFETY: the caller's.
        None => unsafe { no_sqlite(database) },
    }
}

unsafe extern "C" fn initialize(returns_to: *const c_void) -> c_int {
    preload::initialize(returns_to, sqlite3_open_v2)
}

/// # Safety
///
/// `database` is null or a place for a handle.
unsafe fn no_sqlite(database: *mut *mut c_void) -> c_int {
    if !database.is_null() {
        // SAFETY: the caller's. SQLite's functions take a null for a handle that could not be made.
        unsafe { *database = std::ptr::null_mut() };
    }
    NO_SQLITE
}
