//! For programs that cannot be changed: functions that stand before SQLite's own where a library is preloaded, and make
//! the VFS the default one before the program opens its first database.
//!
//! The library `libebbpool_sqlite_preload.so` exports functions with SQLite's names, which call those here. They are not in
//! `libebbpool_sqlite.so`, nor in the crate, where they would replace those of a SQLite that is linked statically.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::ffi;
use crate::plain::functions_of;
use crate::register_with;

/// The environment variable without which, or with 0 or nothing in which, the preloaded functions only call SQLite's.
pub const VARIABLE: &str = "EBBPOOL_SQLITE_PRELOAD";

/// The name of the library's file.
pub const LIBRARY: &str = "libebbpool_sqlite_preload.so";

/// `sqlite3_open_v2`.
pub type OpenV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;
/// `sqlite3_open`.
pub type Open = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
/// `sqlite3_open16`.
pub type Open16 = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;

/// SQLite's own functions.
pub struct RealSqlite {
    /// `sqlite3_open_v2`.
    pub open_v2: OpenV2,
    /// `sqlite3_open`.
    pub open: Open,
    /// `sqlite3_open16`; builds without UTF-16 have none.
    pub open16: Option<Open16>,
}

static REAL: OnceLock<Option<RealSqlite>> = OnceLock::new();

/// SQLite's own functions, of which `own` replaces `sqlite3_open_v2`; `None` if the process has no SQLite. The first call
/// registers the VFS as the default one, if the environment asks for it.
pub fn real(own: OpenV2) -> Option<&'static RealSqlite> {
    let real = REAL.get_or_init(|| {
        let library = find(own as *const c_void)?;
        // SAFETY: `find` returns a handle of the loader.
        let api = unsafe { functions_of(library) }?;
        // SAFETY: the names end with a zero, and the functions have these types in sqlite3.h.
        let (open, open16) =
            unsafe { (libc::dlsym(library, c"sqlite3_open".as_ptr()), libc::dlsym(library, c"sqlite3_open16".as_ptr())) };
        if open.is_null() {
            return None;
        }
        if is_on(std::env::var_os(VARIABLE).as_deref()) {
            // SAFETY: the functions are those of the SQLite that the program calls.
            if let Err(code) = unsafe { register_with(api, true) } {
                // Where standard error is closed, this goes nowhere.
                let _ = writeln!(std::io::stderr(), "ebbpool: SQLite does not take the VFS: {code}");
            }
        }
        // SAFETY: as above; `open` is not null.
        unsafe {
            Some(RealSqlite {
                open_v2: api.open_v2,
                open: std::mem::transmute::<*mut c_void, Open>(open),
                open16: std::mem::transmute::<*mut c_void, Option<Open16>>(open16),
            })
        }
    });
    real.as_ref()
}

/// True if the variable asks for the VFS: it is set, and neither empty nor 0.
fn is_on(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

/// A handle of the library with SQLite: behind this one in the order of the loader, or loaded by the program itself, where
/// the loader's order does not have it.
fn find(own: *const c_void) -> Option<*mut c_void> {
    let is_other = |library: *mut c_void| {
        // SAFETY: a handle of the loader, and a name that ends with a zero.
        let found = unsafe { libc::dlsym(library, c"sqlite3_open_v2".as_ptr()) };
        !found.is_null() && found.cast_const() != own
    };
    if is_other(libc::RTLD_NEXT) {
        return Some(libc::RTLD_NEXT);
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function is called with the vector for each library, and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note_name), (&raw mut names).cast()) };
    let handles = names.iter().map(|name| {
        // SAFETY: the name ends with a zero; only a library that is loaded already is opened, and stays so from then on, since
        // its functions are called.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
    });
    let mut loaded = handles.filter(|handle| !handle.is_null());
    loaded.find(|handle| is_other(*handle))
}

/// Notes the name of a library. The loader has its own lock meanwhile, and opens none.
///
/// # Safety
///
/// The loader calls this, with the vector that `find` has passed.
unsafe extern "C" fn note_name(library: *mut libc::dl_phdr_info, _bytes: libc::size_t, names: *mut c_void) -> c_int {
    // SAFETY: the loader passes a library whose name ends with a zero.
    unsafe {
        let name = (*library).dlpi_name;
        if !name.is_null() && !CStr::from_ptr(name).is_empty() {
            (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
        }
    }
    0
}

/// Whether the system lets a process load code from a file: not on a file system that is mounted `noexec`, for example.
///
/// # Errors
///
/// The system's, with which it would refuse the loader.
pub fn can_be_loaded(file: &File) -> io::Result<()> {
    const BYTES: usize = 1;
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping, which nothing else uses, is made and removed; nothing reads or runs what it has.
    unsafe {
        let null = std::ptr::null_mut();
        let mapped = libc::mmap(null, BYTES, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(mapped, BYTES);
    }
    Ok(())
}

/// What a preloaded function returns where the process has no SQLite.
pub const NO_SQLITE: c_int = ffi::CANTOPEN;
