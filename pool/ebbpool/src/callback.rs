//! Functions of the caller that run under a lock of the pool: if one calls the pool, it would wait for itself.

use std::ptr;

use crate::error::PoolError;
use crate::sync::{AtomicUsize, Ordering};

thread_local! {
    /// Its address distinguishes the threads.
    static HERE: u8 = const { 0 };
}

/// The thread that is in such a function, if one is.
#[derive(Debug, Default)]
pub(crate) struct Callback {
    thread: AtomicUsize,
}

impl Callback {
    /// Runs the function. The calling thread has the lock.
    pub(crate) fn run<R>(&self, function: impl FnOnce() -> R) -> R {
        self.thread.store(here(), Ordering::Relaxed);
        let _end = End(self);
        function()
    }

    /// True if the calling thread is in the function.
    pub(crate) fn is_here(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == here()
    }

    /// An error if the calling thread is in the function. Before it takes anything that it had to give back.
    pub(crate) fn check(&self) -> Result<(), PoolError> {
        match self.is_here() {
            true => Err(PoolError::InCallback),
            false => Ok(()),
        }
    }
}

struct End<'c>(&'c Callback);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Ordering::Relaxed);
    }
}

fn here() -> usize {
    HERE.with(|here| ptr::from_ref(here).addr())
}
