//! A lock for one thread at a time.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{self, BlockedOn, step};

/// A lock for one thread at a time, used as `parking_lot::Mutex` is.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    /// The number of threads that wait, in a run.
    waiting: AtomicUsize,
    inner: parking_lot::Mutex<T>,
}

/// Access to the value of a [`Mutex`], which ends when this is dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct MutexGuard<'m, T: ?Sized> {
    lock: &'m Mutex<T>,
    /// `None` only while its thread waits for a condition.
    inner: Option<parking_lot::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    /// A lock that no thread holds.
    pub const fn new(value: T) -> Self {
        Mutex { waiting: AtomicUsize::new(0), inner: parking_lot::Mutex::new(value) }
    }

    /// The protected value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    fn on(&self) -> BlockedOn {
        BlockedOn::Lock((&raw const self.waiting).addr())
    }

    /// Waits until no other thread has it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        step();
        MutexGuard { lock: self, inner: Some(self.take(Location::caller())) }
    }

    fn take(&self, at: &'static Location<'static>) -> parking_lot::MutexGuard<'_, T> {
        loop {
            if let Some(inner) = self.inner.try_lock() {
                return inner;
            }
            let Some(thread) = world::blocking() else {
                return self.inner.lock();
            };
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _waits = WaiterCount(&self.waiting);
            thread.block(self.on(), None, at);
        }
    }

    /// Takes the lock; `None` if another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        step();
        let inner = Some(self.inner.try_lock()?);
        Some(MutexGuard { lock: self, inner })
    }

    /// The protected value, which no other thread can access at the moment.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Whether a thread has it at this moment.
    pub fn is_locked(&self) -> bool {
        step();
        self.inner.is_locked()
    }

    fn wake(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0
            && let Some(thread) = world::blocking()
        {
            thread.wake_all(self.on());
        }
    }
}

/// Counts a thread that waits, until this is dropped, also by unwinding.
pub(crate) struct WaiterCount<'w>(pub(crate) &'w AtomicUsize);

impl Drop for WaiterCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    /// The guard of the real lock, for waiting outside a run.
    pub(crate) fn plain(&mut self) -> Option<&mut parking_lot::MutexGuard<'m, T>> {
        self.inner.as_mut()
    }

    /// Releases the lock while a thread waits for a condition. There is no step before the thread blocks.
    pub(crate) fn release(&mut self) {
        self.inner = None;
        self.lock.wake();
    }

    pub(crate) fn reacquire(&mut self, at: &'static Location<'static>) {
        self.inner = Some(self.lock.take(at));
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            self.lock.wake();
            step();
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a thread that waits does not access the value")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a thread that waits does not access the value")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
