//! A lock for many readers or one writer.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::mutex::WaiterCount;
use crate::world::{self, BlockedOn, step};

/// A lock for many readers or one writer, used as `parking_lot::RwLock` is.
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    waiting: AtomicUsize,
    inner: parking_lot::RwLock<T>,
}

/// A reader's access to the value of an [`RwLock`], which ends when this is dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct RwLockReadGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
    /// `None` only while it is dropped.
    inner: Option<parking_lot::RwLockReadGuard<'l, T>>,
}

/// The writer's access to the value of an [`RwLock`], which ends when this is dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct RwLockWriteGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
    /// `None` only while it is dropped.
    inner: Option<parking_lot::RwLockWriteGuard<'l, T>>,
}

impl<T> RwLock<T> {
    /// A lock that no thread holds.
    pub const fn new(value: T) -> Self {
        RwLock { waiting: AtomicUsize::new(0), inner: parking_lot::RwLock::new(value) }
    }

    /// The protected value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    fn on(&self) -> BlockedOn {
        BlockedOn::Lock((&raw const self.waiting).addr())
    }

    fn take<'l, G>(
        &'l self,
        at: &'static Location<'static>,
        attempt: impl Fn(&'l parking_lot::RwLock<T>) -> Option<G>,
        plainly: impl Fn(&'l parking_lot::RwLock<T>) -> G,
    ) -> G {
        step();
        loop {
            if let Some(guard) = attempt(&self.inner) {
                return guard;
            }
            let Some(thread) = world::blocking() else {
                return plainly(&self.inner);
            };
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _waits = WaiterCount(&self.waiting);
            thread.block(self.on(), None, at);
        }
    }

    /// Waits until no thread has it for writing.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let at = Location::caller();
        let inner = self.take(at, parking_lot::RwLock::try_read, parking_lot::RwLock::read);
        RwLockReadGuard { lock: self, inner: Some(inner) }
    }

    /// Waits until no other thread has it.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let at = Location::caller();
        let inner = self.take(at, parking_lot::RwLock::try_write, parking_lot::RwLock::write);
        RwLockWriteGuard { lock: self, inner: Some(inner) }
    }

    /// Takes the lock for reading; `None` if a thread has it for writing.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        step();
        let inner = Some(self.inner.try_read()?);
        Some(RwLockReadGuard { lock: self, inner })
    }

    /// Takes the lock for writing; `None` if another thread has it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        step();
        let inner = Some(self.inner.try_write()?);
        Some(RwLockWriteGuard { lock: self, inner })
    }

    /// The protected value, which no other thread can access at the moment.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    fn wake(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0
            && let Some(thread) = world::blocking()
        {
            thread.wake_all(self.on());
        }
        step();
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        self.lock.wake();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        self.lock.wake();
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is not being dropped")
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is not being dropped")
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is not being dropped")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
