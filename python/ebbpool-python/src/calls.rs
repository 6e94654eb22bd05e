//! Calls of the caller's policies, which Ctrl-C ends.
//!
//! A signal reaches the main thread of Python only, but policies run in the threads of the lab. So the thread that watches the
//! work sets a flag, before which no further call begins, and has the interpreter raise `KeyboardInterrupt` in the threads
//! that are in a call. That reaches code in Python. It cannot end a call that waits in C, as `time.sleep` does, nor code
//! that catches the exception and goes on.

use std::cell::{Cell, RefCell};
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;

/// How long a thread has to leave a call before the exception is raised in it once more: the policy may have caught the first
/// one, or be in a `finally` that should end.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

thread_local! {
    /// The calls in one of which this thread is.
    static CURRENT: RefCell<Option<Arc<Calls>>> = const { RefCell::new(None) };
    /// The number of this thread in Python, once it is known.
    static THREAD: Cell<Option<c_long>> = const { Cell::new(None) };
}

/// The calls of all policies of one request.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    stopped: AtomicBool,
    threads: Mutex<Threads>,
    /// Those within one of which this request was made, by a policy that asks the lab.
    outer: Option<Arc<Calls>>,
}

/// The threads that are in a call.
#[derive(Debug, Default)]
struct Threads {
    inside: Vec<c_long>,
    /// When the exception was last raised in them.
    raised: Option<Instant>,
}

impl Calls {
    /// The calls of a request that this thread makes.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Calls { outer: CURRENT.with_borrow(Clone::clone), ..Calls::default() })
    }

    /// True if no further call may begin.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// True if the request was made by a policy whose own request has been stopped.
    pub(crate) fn stopped_outside(&self) -> bool {
        let outer = self.outer.as_ref();
        outer.is_some_and(|outer| outer.stopped() || outer.stopped_outside())
    }

    /// Lets no further call begin, and ends those that run. Called again, it ends those that have not ended.
    pub(crate) fn stop(&self, py: Python<'_>) {
        self.stopped.store(true, Ordering::Relaxed);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = threads.raised.is_some_and(|at| at.elapsed() < AGAIN_AFTER);
        if waits || threads.inside.is_empty() {
            return;
        }
        threads.raised = Some(Instant::now());
        for &thread in &threads.inside {
            raise_in(py, thread, true);
        }
    }

    /// Does work in which policies are called, attached to the interpreter.
    pub(crate) fn within<T>(self: &Arc<Self>, work: impl FnOnce(Python<'_>) -> T) -> T {
        Python::attach(|py| {
            let is_inside = CURRENT.with_borrow(|current| {
                let current = current.as_ref();
                current.is_some_and(|current| Arc::ptr_eq(current, self))
            });
            if is_inside {
                return work(py);
            }
            let _inside = Inside::enter(py, self);
            work(py)
        })
    }
}

/// A thread in calls, until it is dropped.
struct Inside<'py> {
    py: Python<'py>,
    calls: Arc<Calls>,
    /// What the thread was in before.
    before: Option<Arc<Calls>>,
    thread: c_long,
}

impl<'py> Inside<'py> {
    fn enter(py: Python<'py>, calls: &Arc<Calls>) -> Self {
        let thread = this_thread(py);
        let mut threads = calls.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.inside.push(thread);
        Inside { py, calls: Arc::clone(calls), before: CURRENT.replace(Some(Arc::clone(calls))), thread }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
        let threads = self.calls.threads.lock();
        let mut threads = threads.unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = threads.inside.iter().position(|&one| one == self.thread) {
            threads.inside.swap_remove(at);
        }
        if threads.raised.is_some() {
            // The call may have ended before the exception came, which would then end something else.
            raise_in(self.py, self.thread, false);
        }
    }
}

#[expect(unsafe_code, reason = "PyO3 has no safe function for the number of a thread in Python")]
fn this_thread(_attached: Python<'_>) -> c_long {
    THREAD.get().unwrap_or_else(|| {
        // SAFETY: the function has no conditions.
        let thread = unsafe { ffi::PyThread_get_thread_ident() };
        let thread = thread as c_long;
        THREAD.set(Some(thread));
        thread
    })
}

/// Has the interpreter raise `KeyboardInterrupt` in a thread, or takes back one that it has not raised yet.
#[expect(unsafe_code, reason = "PyO3 has no safe function for exceptions in another thread")]
fn raise_in(py: Python<'_>, thread: c_long, raise: bool) {
    let exception = match raise {
        true => py.get_type::<PyKeyboardInterrupt>().as_ptr(),
        false => std::ptr::null_mut(),
    };
    // SAFETY: this thread is attached, as `py` shows, and the exception is a class of exceptions or null. A number without
    // a thread has no effect.
    unsafe { ffi::PyThreadState_SetAsyncExc(thread, exception) };
}
