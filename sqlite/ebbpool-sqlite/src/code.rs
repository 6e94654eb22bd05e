//! SQLite's result codes as errors, and the calls that answer with them.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ffi;

/// A result code of SQLite's other than `SQLITE_OK`, such as `SQLITE_IOERR_FSYNC`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SqliteCode(pub c_int);

/// A result whose error SQLite understands.
pub type SqliteResult<T> = Result<T, SqliteCode>;

impl SqliteCode {
    /// `SQLITE_IOERR`: an input or output failed.
    pub const IO: SqliteCode = SqliteCode(ffi::IOERR);
    /// `SQLITE_BUSY`: another process or handle has the file.
    pub const BUSY: SqliteCode = SqliteCode(ffi::BUSY);
    /// `SQLITE_CANTOPEN`: the file cannot be opened.
    pub const CANT_OPEN: SqliteCode = SqliteCode(ffi::CANTOPEN);
    /// `SQLITE_MISUSE`: the call came from the wrong process.
    pub const MISUSE: SqliteCode = SqliteCode(ffi::MISUSE);

    /// `Ok` for `SQLITE_OK`, otherwise the code as an error.
    pub fn check(code: c_int) -> SqliteResult<()> {
        match code {
            ffi::OK => Ok(()),
            code => Err(SqliteCode(code)),
        }
    }

    /// The code that a method of a VFS returns for a result.
    pub fn from_result(answer: SqliteResult<()>) -> c_int {
        answer.err().map_or(ffi::OK, |code| code.0)
    }
}

impl fmt::Debug for SqliteCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for SqliteCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            ffi::BUSY => "another process or handle has the file",
            ffi::NOMEM => "there is no memory",
            ffi::CORRUPT => "the file is damaged",
            ffi::FULL => "the disk is full",
            ffi::CANTOPEN => "the file cannot be opened",
            ffi::MISUSE => "the call came from the wrong process",
            ffi::IOERR_FSYNC => "what was written could not be made durable",
            _ => return write!(formatter, "SQLite's result code {}", self.0),
        };
        write!(formatter, "{text} (SQLite's result code {})", self.0)
    }
}

impl std::error::Error for SqliteCode {}

thread_local! {
    /// Calls of the library that this thread is in.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// True in a signal handler that has interrupted a call of the library.
pub(crate) fn is_inside() -> bool {
    CALLS.get() > 0
}

/// Keeps a thread from being cancelled in the middle of a write or a sync: its locks would stay, and the forced unwinding that
/// ends it may not cross Rust.
#[cfg(target_os = "linux")]
fn without_cancellation<R>(work: impl FnOnce() -> R) -> R {
    const DISABLE: c_int = 1;
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    }
    let mut before = DISABLE;
    // SAFETY: both states are numbers that the system has given or names.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    let done = work();
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    done
}

#[cfg(not(target_os = "linux"))]
fn without_cancellation<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Runs `work`, and makes a panic an I/O error: no panic may cross into C.
pub(crate) fn guarded(work: impl FnOnce() -> SqliteResult<()>) -> c_int {
    CALLS.set(CALLS.get() + 1);
    let done = without_cancellation(|| catch_unwind(AssertUnwindSafe(work)));
    CALLS.set(CALLS.get() - 1);
    match done {
        Ok(answer) => SqliteCode::from_result(answer),
        Err(_) => ffi::IOERR,
    }
}
