//! A lock for one thread at a time.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{self, On, step};

/// As `parking_lot::Mutex`.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    /// Threads that wait, in a run.
    waiting: AtomicUsize,
    inner: parking_lot::Mutex<T>,
}

/// As `parking_lot::MutexGuard`.
#[must_use = "the lock is given back when this is dropped"]
pub struct MutexGuard<'m, T: ?Sized> {
    lock: &'m Mutex<T>,
    /// Nothing only while its thread waits for a condition.
    inner: Option<parking_lot::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    /// Not locked.
    pub const fn new(value: T) -> Self {
        Mutex {
            waiting: AtomicUsize::new(0),
            inner: parking_lot::Mutex::new(value),
        }
    }

    /// What it protects.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    fn on(&self) -> On {
        On::Lock((&raw const self.waiting).addr())
    }

    /// Waits until no other thread has it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        step();
        MutexGuard {
            lock: self,
            inner: Some(self.take(Location::caller())),
        }
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
            let _waits = Waits(&self.waiting);
            thread.block(self.on(), None, at);
        }
    }

    /// Nothing if another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        step();
        let inner = Some(self.inner.try_lock()?);
        Some(MutexGuard { lock: self, inner })
    }

    /// What it protects, which no other thread can have at the moment.
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

/// One that waits, also if it unwinds.
pub(crate) struct Waits<'w>(pub(crate) &'w AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    /// The lock itself, for waiting outside a run.
    pub(crate) fn plain(&mut self) -> Option<&mut parking_lot::MutexGuard<'m, T>> {
        self.inner.as_mut()
    }

    /// Gives the lock back for as long as a thread waits for a condition. No step is in between: the
    /// thread is to block at once.
    pub(crate) fn let_go(&mut self) {
        self.inner = None;
        self.lock.wake();
    }

    pub(crate) fn take_again(&mut self, at: &'static Location<'static>) {
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
        self.inner
            .as_ref()
            .expect("a thread that waits looks at nothing")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_mut()
            .expect("a thread that waits looks at nothing")
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
