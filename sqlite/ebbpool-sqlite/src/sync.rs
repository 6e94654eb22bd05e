//! Locks of the standard library, which wait on a word of memory and have no list of threads: a child of `fork()` can use
//! those that it makes, whatever the parent's threads waited for.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The pool's locks have lists of waiting threads, which no child may inherit: threads pass this gate to use the pool.
static GATE: RwLock<()> = RwLock::new(());

/// Keeps `fork` waiting until it is dropped. A thread that has it waits for no other one that needs it.
pub(crate) fn gate() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// The same if no thread waits to close it.
pub(crate) fn try_gate() -> Option<RwLockReadGuard<'static, ()>> {
    GATE.try_read().ok()
}

/// Waits until no thread has the gate, and lets none pass until it is dropped.
pub(crate) fn close_gate() -> RwLockWriteGuard<'static, ()> {
    GATE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Locks what stays right when a thread panics while it has the lock.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for a while; `None` if another thread has the lock all the time, as one may that is gone at the end of a process.
pub(crate) fn lock_within<T: ?Sized>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let end = Instant::now() + patience;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(std::sync::TryLockError::Poisoned(_)) => return None,
            Err(std::sync::TryLockError::WouldBlock) if Instant::now() >= end => return None,
            Err(std::sync::TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
