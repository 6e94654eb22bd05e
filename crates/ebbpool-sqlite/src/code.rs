//! SQLite's result codes as errors.

use std::ffi::c_int;
use std::fmt;

use crate::ffi;

/// A result code of SQLite's other than `SQLITE_OK`, such as `SQLITE_IOERR_FSYNC`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(pub c_int);

/// A result whose error SQLite understands.
pub type Answer<T> = Result<T, Code>;

impl Code {
    /// `SQLITE_IOERR`: an input or output failed.
    pub const IO: Code = Code(ffi::IOERR);
    /// `SQLITE_BUSY`: another process or handle has the file.
    pub const BUSY: Code = Code(ffi::BUSY);
    /// `SQLITE_CANTOPEN`: the file cannot be opened.
    pub const CANT_OPEN: Code = Code(ffi::CANTOPEN);
    /// `SQLITE_MISUSE`: the call came from the wrong process.
    pub const MISUSE: Code = Code(ffi::MISUSE);

    /// `Ok` for `SQLITE_OK`, otherwise the code as an error.
    pub fn check(code: c_int) -> Answer<()> {
        match code {
            ffi::OK => Ok(()),
            code => Err(Code(code)),
        }
    }

    /// The code that a method of a VFS returns for a result.
    pub fn of(answer: Answer<()>) -> c_int {
        answer.err().map_or(ffi::OK, |code| code.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Code {
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

impl std::error::Error for Code {}
