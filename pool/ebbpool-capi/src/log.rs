//! The write-ahead log of the program, as callbacks.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebbpool::{Log, Lsn};

use crate::error::Failure;
use crate::pointers::Versioned;
use crate::storage::{Ownership, outcome};

/// The write-ahead log of the program: no page is written before the log is durable up to the page's LSN. The pool calls the
/// functions from several threads at the same time, also from threads of its own, with `context` as the first argument. They
/// must not throw, nor jump out, nor call functions of the same pool. An LSN is a position in the log; later changes have
/// larger ones, and 0 stands for none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LogCallbacks {
    /// `sizeof(ebbpool_log)`.
    pub struct_size: usize,
    /// The first argument of each function.
    pub context: *mut c_void,
    /// The LSN up to which all changes, inclusive, survive a crash.
    pub durable_lsn: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// Makes all changes up to `lsn`, inclusive, survive a crash. Returns 0, or an error number that is not 0: then the
    /// page is not written, and stays dirty.
    pub flush_to: Option<unsafe extern "C" fn(context: *mut c_void, lsn: u64) -> i32>,
    /// The LSN of the latest change so far, durable or not. A checkpoint begins there.
    pub end_lsn: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// Called once when the pool no longer uses the log, unless opening fails. May be null.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

// SAFETY: the struct is `repr(C)`, its first field is its size, and null pointers and absent functions are all zeros.
unsafe impl Versioned for LogCallbacks {
    const NAME: &'static str = "ebbpool_log";
}

/// The callbacks as a log.
pub(crate) struct CallbackLog {
    context: *mut c_void,
    durable_lsn: unsafe extern "C" fn(*mut c_void) -> u64,
    flush_to: unsafe extern "C" fn(*mut c_void, u64) -> i32,
    end_lsn: unsafe extern "C" fn(*mut c_void) -> u64,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    owned: Ownership,
}

// SAFETY: the header requires that all threads may call the functions, with this context, at the same time.
unsafe impl Send for CallbackLog {}
// SAFETY: the same.
unsafe impl Sync for CallbackLog {}

impl CallbackLog {
    /// A log of these functions.
    pub(crate) fn new(callbacks: LogCallbacks) -> Result<Self, Failure> {
        let missing = |name: &str| Failure::invalid(format!("ebbpool_log.{name} is null"));
        Ok(CallbackLog {
            context: callbacks.context,
            durable_lsn: callbacks.durable_lsn.ok_or_else(|| missing("durable_lsn"))?,
            flush_to: callbacks.flush_to.ok_or_else(|| missing("flush_to"))?,
            end_lsn: callbacks.end_lsn.ok_or_else(|| missing("end_lsn"))?,
            release: callbacks.release,
            owned: Ownership::default(),
        })
    }

    /// What the pool sets as soon as it owns the context.
    pub(crate) fn ownership(&self) -> Ownership {
        Arc::clone(&self.owned)
    }
}

impl Log for CallbackLog {
    fn durable_lsn(&self) -> Lsn {
        // SAFETY: the header requires that the function may be called with the context.
        unsafe { (self.durable_lsn)(self.context) }
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        // SAFETY: the header requires that the function may be called with the context.
        outcome(unsafe { (self.flush_to)(self.context, lsn) })
    }

    fn end_lsn(&self) -> Lsn {
        // SAFETY: the header requires that the function may be called with the context.
        unsafe { (self.end_lsn)(self.context) }
    }
}

impl Drop for CallbackLog {
    fn drop(&mut self) {
        if let (true, Some(release)) = (self.owned.load(Ordering::Acquire), self.release) {
            // SAFETY: this is the last call with the context, and the header requires that it may be made.
            unsafe { release(self.context) };
        }
    }
}
