//! An open pool, and what a call may do with it.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_utils::sync::ShardedLock;
use ebbpool::Pool;

use crate::error::{Failure, StatusCode, guarded};
use crate::fixed::FixedPages;
use crate::pointers::object;

// Invariant: while `fixed` has a guard, the pool in `open` is neither moved nor dropped, because the guard borrows it. Every
// call has a read lock of `open` while it uses the pool. `close` takes the pool out under the write lock, and only while
// nothing is fixed. Fields are dropped in their order, `fixed` first.
/// A pool. Functions take a pointer to it; any number of threads may use it at the same time.
pub struct PoolHandle {
    pub(crate) fixed: FixedPages,
    open: ShardedLock<Option<Pool>>,
    /// A call closes the pool, and has found that nothing is fixed.
    closing: AtomicBool,
    /// A call has panicked.
    failed: AtomicBool,
}

impl PoolHandle {
    pub(crate) fn new(pool: Pool) -> Self {
        PoolHandle {
            fixed: FixedPages::new(),
            open: ShardedLock::new(Some(pool)),
            closing: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    fn check_usable(&self) -> Result<(), Failure> {
        match self.failed.load(Ordering::Relaxed) {
            true => Err(Failure::unusable()),
            false => Ok(()),
        }
    }

    /// Runs a body; if it panics, the handle is unusable from then on.
    fn contain<R>(&self, body: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            self.failed.store(true, Ordering::Relaxed);
            resume_unwind(panic)
        })
    }

    /// Uses the pool, unless it is closed.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&Pool) -> Result<R, Failure>) -> Result<R, Failure> {
        self.check_usable()?;
        self.contain(|| {
            let open = loop {
                match self.open.try_read() {
                    Ok(open) => break open,
                    Err(_) if self.closing.load(Ordering::Acquire) => return Err(Failure::busy("the pool is being closed")),
                    // The thread that has the lock gives it back, since something is fixed, or is about to close the pool. It
                    // may be this thread that closes it, so that this must not wait for the lock.
                    Err(_) => thread::yield_now(),
                }
            };
            body(open.as_ref().ok_or_else(Failure::closed)?)
        })
    }

    /// Writes everything and ends the pool. After an error it is open as before.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.check_usable()?;
        self.contain(|| {
            let open = self.open.try_write();
            let mut open = open.map_err(|_| Failure::busy("another call uses the pool"))?;
            let fixed = self.fixed.count();
            if fixed > 0 {
                let fixed = if fixed == 1 { "a page is".into() } else { format!("{fixed} pages are") };
                return Err(Failure::busy(format!("{fixed} fixed; unfix what is fixed first")));
            }
            let pool = open.take().ok_or_else(Failure::closed)?;
            self.closing.store(true, Ordering::Release);
            let closed = pool.close().map_err(|error| {
                let (pool, error) = error.into_parts();
                *open = Some(pool);
                error.into()
            });
            self.closing.store(false, Ordering::Release);
            closed
        })
    }

    /// True if no call uses the pool now.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.try_write().is_ok() || self.failed.load(Ordering::Relaxed)
    }
}

/// Runs the body of a function of a pool.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of a pool that is not destroyed before the call returns.
pub(crate) unsafe fn with_pool(
    pool: *const PoolHandle,
    body: impl FnOnce(&PoolHandle, &Pool) -> Result<(), Failure>,
) -> StatusCode {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let handle = unsafe { object(pool, "pool") }?;
        handle.with(|pool| body(handle, pool))
    })
}

#[cfg(test)]
mod tests {
    use ebbpool::PoolOptions;
    use ebbpool::storage::MemoryStorage;

    use super::*;
    use crate::error::{EBBPOOL_CLOSED, EBBPOOL_OK, EBBPOOL_PANIC};

    fn pool() -> PoolHandle {
        let pool = PoolOptions::new(4).open(MemoryStorage::new(512));
        PoolHandle::new(pool.expect("a pool"))
    }

    #[test]
    fn a_pool_is_unusable_after_a_panic() {
        let handle = pool();
        // SAFETY: the pointer is that of a live pool.
        let call = |fails: bool| unsafe {
            with_pool(&raw const handle, |_, _| {
                assert!(!fails, "a fault");
                Ok(())
            })
        };
        assert_eq!(call(false), EBBPOOL_OK);
        assert_eq!(call(true), EBBPOOL_PANIC);
        assert_eq!(call(false), EBBPOOL_PANIC);
        assert_eq!(guarded(|| handle.close()), EBBPOOL_PANIC);
        assert!(handle.is_idle());
    }

    #[test]
    fn a_pool_is_not_destroyed_during_a_call() {
        let handle = pool();
        let during = handle.with(|_| {
            assert!(!handle.is_idle());
            assert!(handle.close().is_err());
            Ok(())
        });
        assert!(during.is_ok() && handle.is_idle() && handle.close().is_ok());
        assert_eq!(guarded(|| handle.close()), EBBPOOL_CLOSED);
    }
}
