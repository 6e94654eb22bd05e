//! Statuses, the text of a thread's last error, and the border that no panic crosses.

#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::{self, Write};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ebbpool::PoolError;
use ebbpool::storage::OpenError;
use ebbpool_policy::{Frame, Page, SpecError};

/// The result of a call: `EBBPOOL_OK` or the kind of an error.
pub type StatusCode = i32;

/// The call succeeded.
pub const EBBPOOL_OK: StatusCode = 0;
/// An argument makes no sense: a null or misaligned pointer, text that is not UTF-8, an option out of range, a call out of
/// order. Nothing has changed.
pub const EBBPOOL_INVALID: StatusCode = 1;
/// There is no such policy, no such device, or no such file.
pub const EBBPOOL_NOT_FOUND: StatusCode = 2;
/// Another call has what this one needs: a page is latched for longer than the pool's patience, pages are fixed while
/// the pool is to be closed, a file is open already, or two threads use one policy.
pub const EBBPOOL_BUSY: StatusCode = 3;
/// Every frame was fixed for as long as the pool's patience, or the policy may evict no frame.
pub const EBBPOOL_ALL_FIXED: StatusCode = 4;
/// No page is fixed under this token: it was unfixed before, or never fixed in this pool.
pub const EBBPOOL_NOT_FIXED: StatusCode = 5;
/// The storage failed; `ebbpool_error_os_code` has the system's number, or that of the callback.
pub const EBBPOOL_IO: StatusCode = 6;
/// The log could not be made durable, and the page was not written; `ebbpool_error_os_code` has the callback's number.
pub const EBBPOOL_LOG: StatusCode = 7;
/// A sync failed earlier, and since then the pool only reads: reopen it, and recover from the log.
pub const EBBPOOL_SYNC_FAILED: StatusCode = 8;
/// A page in storage is not what was written.
pub const EBBPOOL_DAMAGED: StatusCode = 9;
/// A page was being changed when a thread panicked: discard it, and redo its changes.
pub const EBBPOOL_ABANDONED: StatusCode = 10;
/// There is no memory for the frames.
pub const EBBPOOL_NO_MEMORY: StatusCode = 11;
/// The program was compiled for a later version of the library.
pub const EBBPOOL_VERSION: StatusCode = 12;
/// The pool is closed.
pub const EBBPOOL_CLOSED: StatusCode = 13;
/// The library has a fault: a function panicked. The pool or the policy that it was called for is unusable from then on,
/// except for being destroyed.
pub const EBBPOOL_PANIC: StatusCode = 14;
/// The storage is for reading only, and no page can be fixed for writing.
pub const EBBPOOL_READ_ONLY: StatusCode = 15;

/// The names of the statuses, in their order.
const NAMES: [&CStr; 16] = [
    c"EBBPOOL_OK", c"EBBPOOL_INVALID", c"EBBPOOL_NOT_FOUND", c"EBBPOOL_BUSY", c"EBBPOOL_ALL_FIXED", c"EBBPOOL_NOT_FIXED",
    c"EBBPOOL_IO", c"EBBPOOL_LOG", c"EBBPOOL_SYNC_FAILED", c"EBBPOOL_DAMAGED", c"EBBPOOL_ABANDONED", c"EBBPOOL_NO_MEMORY",
    c"EBBPOOL_VERSION", c"EBBPOOL_CLOSED", c"EBBPOOL_PANIC", c"EBBPOOL_READ_ONLY",
];

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    text: FailureText,
    os_code: i32,
}

/// The text of a failure. Calls for a policy in a region must not allocate, so theirs are built in memory that the thread has
/// already, and only when they are noted.
#[derive(Debug)]
enum FailureText {
    Static(&'static CStr),
    Fault(CallFault),
    Built(String),
}

/// A mistake in a call that takes a pointer, a frame or a page.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum CallFault {
    #[error("{0} is a null pointer")]
    Null(&'static str),
    #[error("{what} is at {address:#x}, which is no multiple of {alignment}")]
    Misaligned { what: &'static str, address: usize, alignment: usize },
    #[error("there is no frame {frame}: they are 0 to {last}")]
    NoFrame { frame: Frame, last: Frame },
    #[error("frame {0} is empty")]
    EmptyFrame(Frame),
    #[error("frame {0} has a page; evict it first")]
    OccupiedFrame(Frame),
    #[error("page {0} was missed, and neither admitted nor refused yet")]
    Missed(Page),
    #[error("{0} is neither EBBPOOL_READ nor EBBPOOL_WRITE")]
    Access(u32),
    #[error("a read cannot cost {read:?} and a write {write:?}; a read costs more than 0")]
    Costs { read: f64, write: f64 },
    #[error("no buffer has {0} bytes")]
    BufferSize(usize),
    #[error("a page has no {length} bytes from {offset} on")]
    BeyondPage { offset: usize, length: usize },
    #[error("a list of {count} numbers ends beyond all memory")]
    ListSize { count: usize },
}

/// The failure of a thread's last call that failed: its text is static, or in one of the thread's buffers.
#[derive(Clone, Copy)]
struct LastFailure {
    text: *const c_char,
    os_code: i32,
}

/// The bytes of a text that a thread has room for without an allocation.
const SHORT_TEXT: usize = 256;

// Only the last one has a destructor, for which a thread allocates memory when it uses it for the first time.
thread_local! {
    static LAST: Cell<LastFailure> = const { Cell::new(LastFailure { text: c"".as_ptr(), os_code: 0 }) };
    static SHORT: Cell<[u8; SHORT_TEXT]> = const { Cell::new([0; SHORT_TEXT]) };
    static LONG: RefCell<CString> = RefCell::new(CString::default());
}

/// A text that ends with a NUL, in bytes that it must not exceed.
struct ShortText {
    bytes: [u8; SHORT_TEXT],
    length: usize,
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes().filter(|&byte| byte != 0) {
            // The last byte stays 0.
            if self.length == SHORT_TEXT - 1 {
                return Err(fmt::Error);
            }
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        Ok(())
    }
}

impl FailureText {
    /// Stores the text for this thread, and returns where.
    fn store(self) -> *const c_char {
        let text: &dyn fmt::Display = match &self {
            FailureText::Static(text) => return text.as_ptr(),
            FailureText::Fault(fault) => fault,
            FailureText::Built(text) => text,
        };
        let mut short = ShortText { bytes: [0; SHORT_TEXT], length: 0 };
        if write!(short, "{text}").is_ok() {
            // Without the variable, at the end of a thread, only the text is lost.
            let stored = SHORT.try_with(|it| {
                it.set(short.bytes);
                it.as_ptr().cast::<c_char>().cast_const()
            });
            return stored.unwrap_or(c"".as_ptr());
        }
        let mut bytes = text.to_string().into_bytes();
        bytes.retain(|&byte| byte != 0);
        let long = CString::new(bytes).unwrap_or_default();
        let stored = LONG.try_with(|it| {
            *it.borrow_mut() = long;
            it.borrow().as_ptr()
        });
        stored.unwrap_or(c"".as_ptr())
    }
}

impl From<CallFault> for Failure {
    fn from(fault: CallFault) -> Self {
        Failure { status: EBBPOOL_INVALID, text: FailureText::Fault(fault), os_code: 0 }
    }
}

impl Failure {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Failure { status, text: FailureText::Built(text.into()), os_code: 0 }
    }

    /// A failure the text of which is always the same.
    pub(crate) const fn fixed(status: StatusCode, text: &'static CStr) -> Self {
        Failure { status, text: FailureText::Static(text), os_code: 0 }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(EBBPOOL_INVALID, text)
    }

    /// A call out of order, or with an argument that makes no sense.
    pub(crate) const fn invalid_call(text: &'static CStr) -> Self {
        Self::fixed(EBBPOOL_INVALID, text)
    }

    pub(crate) fn version(text: impl Into<String>) -> Self {
        Self::new(EBBPOOL_VERSION, text)
    }

    pub(crate) fn busy(text: impl Into<String>) -> Self {
        Self::new(EBBPOOL_BUSY, text)
    }

    pub(crate) fn no_memory(text: impl Into<String>) -> Self {
        Self::new(EBBPOOL_NO_MEMORY, text)
    }

    pub(crate) const fn all_fixed() -> Self {
        Self::fixed(EBBPOOL_ALL_FIXED, c"every page is fixed, and the policy may evict none")
    }

    pub(crate) const fn would_wait() -> Self {
        Self::fixed(EBBPOOL_BUSY, c"the page is not resident, or another thread has it")
    }

    pub(crate) const fn disturbed() -> Self {
        Self::fixed(EBBPOOL_BUSY, c"the page is not resident, is being changed, or has changed since")
    }

    pub(crate) const fn busy_policy() -> Self {
        Self::fixed(EBBPOOL_BUSY, c"another call uses the policy")
    }

    /// For a policy in a region that did what it must not do.
    pub(crate) const fn allocated() -> Self {
        Self::fixed(EBBPOOL_PANIC, c"a fault of Ebbpool: a policy in a region has allocated memory")
    }

    pub(crate) fn not_fixed(token: u64) -> Self {
        Self::new(EBBPOOL_NOT_FIXED, format!("no page of this pool is fixed under the token {token:#x}"))
    }

    pub(crate) fn closed() -> Self {
        Self::new(EBBPOOL_CLOSED, "the pool is closed")
    }

    /// For a handle that a panic has left in an unknown state.
    pub(crate) fn unusable() -> Self {
        Self::fixed(EBBPOOL_PANIC, c"a call before panicked; only destroying is possible")
    }

    fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
        let text = format!("a fault of Ebbpool: {}", text.unwrap_or("a panic"));
        // Dropping an unknown value could panic again.
        std::mem::forget(panic);
        Self::new(EBBPOOL_PANIC, text)
    }

    fn of_io(status: StatusCode, error: &impl ToString, source: &io::Error) -> Self {
        Failure { status, text: FailureText::Built(error.to_string()), os_code: os_code(source).unwrap_or(0) }
    }

    /// Stores the text for [`ebbpool_error_message`] and returns the status.
    fn note(self) -> StatusCode {
        let last = LastFailure { text: self.text.store(), os_code: self.os_code };
        let _ = LAST.try_with(|it| it.set(last));
        self.status
    }
}

/// The number of an error, also of one that several pages share.
fn os_code(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let shared = error.get_ref()?.downcast_ref::<Arc<io::Error>>()?;
        os_code(shared)
    })
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        let status = match &error {
            PoolError::Options(_) | PoolError::ForeignArea { .. } | PoolError::NoPage { .. } | PoolError::InCallback => {
                EBBPOOL_INVALID
            }
            PoolError::Memory { .. } | PoolError::TableMemory { .. } => EBBPOOL_NO_MEMORY,
            PoolError::Read { source, .. }
            | PoolError::Write { source, .. }
            | PoolError::Grow { source, .. }
            | PoolError::Truncate { source, .. }
            | PoolError::Storage { source, .. } => {
                return Failure::of_io(EBBPOOL_IO, &error, source);
            }
            PoolError::Log { source, .. } => return Failure::of_io(EBBPOOL_LOG, &error, source),
            PoolError::WriteAhead { .. } => EBBPOOL_LOG,
            PoolError::Damaged { .. } => EBBPOOL_DAMAGED,
            PoolError::Abandoned { .. } => EBBPOOL_ABANDONED,
            PoolError::AllPinned { .. } => EBBPOOL_ALL_FIXED,
            PoolError::Latched { .. } => EBBPOOL_BUSY,
            PoolError::Poisoned { .. } => EBBPOOL_SYNC_FAILED,
            PoolError::ReadOnly => EBBPOOL_READ_ONLY,
            _ => EBBPOOL_IO,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match &error {
            OpenError::Io { source, .. } | OpenError::Uring(source) => {
                let status = match source.kind() {
                    io::ErrorKind::NotFound => EBBPOOL_NOT_FOUND,
                    _ => EBBPOOL_IO,
                };
                Failure::of_io(status, &error, source)
            }
            OpenError::InUse(_) => Failure::busy(error.to_string()),
            _ => Failure::invalid(error.to_string()),
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        let status = match &error {
            SpecError::UnknownPolicy { .. } => EBBPOOL_NOT_FOUND,
            _ => EBBPOOL_INVALID,
        };
        Failure::new(status, error.to_string())
    }
}

/// As long as it lives, the thread is not cancelled (`pthread_cancel`): the unwinding that ends it may not cross Rust, and would leave
/// latches behind.
struct Whole {
    #[cfg(target_os = "linux")]
    before: c_int,
}

impl Whole {
    fn begin() -> Whole {
        #[cfg(target_os = "linux")]
        {
            const DISABLE: c_int = 1;
            Whole { before: Whole::set(DISABLE) }
        }
        #[cfg(not(target_os = "linux"))]
        Whole {}
    }

    /// Sets whether the thread may be cancelled, and returns what it was before.
    #[cfg(target_os = "linux")]
    fn set(state: c_int) -> c_int {
        unsafe extern "C" {
            fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
        }
        let mut before = state;
        // SAFETY: the system has given the number, or names it, and stores the state before there.
        unsafe { pthread_setcancelstate(state, &mut before) };
        before
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        Whole::set(self.before);
    }
}

/// Runs the body of a function that C calls: its failure becomes the status and the thread's last error, and so does a
/// panic.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> StatusCode {
    let _whole = Whole::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => EBBPOOL_OK,
        Ok(Err(failure)) => failure.note(),
        Err(panic) => Failure::panicked(panic).note(),
    }
}

/// The text of the last call of this thread that failed, in UTF-8; empty if none has failed. It is valid until the thread's
/// next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn ebbpool_error_message() -> *const c_char {
    LAST.try_with(|last| last.get().text).unwrap_or(c"".as_ptr())
}

/// The number of the operating system's error (`errno`), or the number that a callback returned, behind the last call of
/// this thread that failed; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ebbpool_error_os_code() -> i32 {
    LAST.try_with(|last| last.get().os_code).unwrap_or(0)
}

/// The name of a status, such as `EBBPOOL_BUSY`; `EBBPOOL_UNKNOWN` for a number that is none. It is valid for as long as
/// the library is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn ebbpool_status_name(status: StatusCode) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|at| NAMES.get(at).copied());
    name.unwrap_or(c"EBBPOOL_UNKNOWN").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_text() -> String {
        // SAFETY: the text is valid until the next failure of this thread.
        let text = unsafe { CStr::from_ptr(ebbpool_error_message()) };
        text.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        assert_eq!(guarded(|| panic!("frame {} is empty", 7)), EBBPOOL_PANIC);
        assert_eq!(last_text(), "a fault of Ebbpool: frame 7 is empty");
        assert_eq!(ebbpool_error_os_code(), 0);
    }

    #[test]
    fn a_long_text_is_whole_too() {
        let long = "ü".repeat(SHORT_TEXT);
        assert_eq!(guarded(|| Err(Failure::invalid(&*long))), EBBPOOL_INVALID);
        assert_eq!(last_text(), long);
        let fits = "x".repeat(SHORT_TEXT - 1);
        assert_eq!(guarded(|| Err(Failure::invalid(&*fits))), EBBPOOL_INVALID);
        assert_eq!(last_text(), fits);
        assert_eq!(guarded(|| Err(CallFault::EmptyFrame(7).into())), EBBPOOL_INVALID);
        assert_eq!(last_text(), "frame 7 is empty");
    }

    #[test]
    fn a_text_loses_its_nul_bytes_only() {
        assert_eq!(guarded(|| Err(Failure::invalid("a\0b"))), EBBPOOL_INVALID);
        assert_eq!(last_text(), "ab");
        assert_eq!(guarded(|| Ok(())), EBBPOOL_OK);
        assert_eq!(last_text(), "ab", "success leaves the last error");
    }
}
