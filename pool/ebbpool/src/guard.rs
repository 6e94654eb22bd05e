//! Fixed pages.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::frames::{Exclusive, Frames, Shared};
use crate::log::Lsn;
use crate::pool::Pool;

/// A page fixed for reading: it stays resident, and no thread changes it. Dropping the guard unfixes it.
///
/// It borrows the pool; an [`OwnedReadGuard`] has a part in its ownership.
pub struct ReadGuard<'p, F: Deref<Target = Frames> = &'p Frames> {
    latch: Shared<F>,
    payload: usize,
    borrowed: PhantomData<&'p Pool>,
}

/// A page fixed for writing: no other guard has it. It is dirty from now on. Dropping the guard unfixes it.
///
/// If the thread panics while it has the guard, the page is *abandoned*: no caller can fix it any more, and it is
/// never written, since it may be half changed ([`PoolError::Abandoned`](crate::PoolError::Abandoned),
/// [`Pool::discard`](crate::Pool::discard)).
///
/// It borrows the pool; an [`OwnedWriteGuard`] has a part in its ownership.
pub struct WriteGuard<'p, F: Deref<Target = Frames> = &'p Frames> {
    latch: Exclusive<F>,
    payload: usize,
    borrowed: PhantomData<&'p Pool>,
}

/// A page fixed for reading that can be stored beside its pool, or sent to a thread that may live longer than the caller: see
/// [`ReadGuard::into_owned`].
pub type OwnedReadGuard = ReadGuard<'static, PoolFrames>;

/// A page fixed for writing, as in [`OwnedReadGuard`].
pub type OwnedWriteGuard = WriteGuard<'static, PoolFrames>;

/// The frames of a pool that lives for as long as this.
pub struct PoolFrames(Arc<Pool>);

impl Deref for PoolFrames {
    type Target = Frames;

    #[inline]
    fn deref(&self) -> &Frames {
        &self.0.core.frames
    }
}

impl ReadGuard<'_> {
    /// Makes this a guard that has a part in the ownership of the pool, so that a struct may have both, and no lifetime.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ebbpool::{OwnedReadGuard, PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let pool = Arc::new(pool);
    /// let page: OwnedReadGuard = pool.fix_read(0)?.into_owned(&pool);
    /// drop(pool); // it lives as long as the guard
    /// std::thread::spawn(move || assert_eq!(page[0], 0)).join().unwrap();
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the page is of another pool.
    pub fn into_owned(self, pool: &Arc<Pool>) -> OwnedReadGuard {
        ReadGuard::new(self.latch.with(PoolFrames(Arc::clone(pool))), self.payload)
    }
}

impl WriteGuard<'_> {
    /// As [`ReadGuard::into_owned`].
    ///
    /// # Panics
    ///
    /// If the page is of another pool.
    pub fn into_owned(self, pool: &Arc<Pool>) -> OwnedWriteGuard {
        WriteGuard::new(self.latch.with(PoolFrames(Arc::clone(pool))), self.payload)
    }
}

impl<'p, F: Deref<Target = Frames>> ReadGuard<'p, F> {
    pub(crate) fn new(latch: Shared<F>, payload: usize) -> Self {
        ReadGuard { latch, payload, borrowed: PhantomData }
    }

    pub(crate) fn into_latch(self) -> Shared<F> {
        self.latch
    }

    /// The page's number.
    pub fn page(&self) -> u64 {
        self.latch.page()
    }

    /// The LSN of its latest change; 0 if it has none.
    pub fn lsn(&self) -> Lsn {
        self.latch.lsn()
    }
}

impl<'p, F: Deref<Target = Frames>> WriteGuard<'p, F> {
    pub(crate) fn new(latch: Exclusive<F>, payload: usize) -> Self {
        WriteGuard { latch, payload, borrowed: PhantomData }
    }

    /// The page's number.
    pub fn page(&self) -> u64 {
        self.latch.page()
    }

    /// The LSN of its latest change; 0 if it has none.
    pub fn lsn(&self) -> Lsn {
        self.latch.lsn()
    }

    /// Sets the LSN of the change that the caller makes. Append to the log while you hold the guard, and call this
    /// before you drop it: a checkpoint relies on both.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let mut page = pool.fix_write(0)?;
    /// page[0] = 1;
    /// page.set_lsn(17); // where the change ends in the log
    /// assert_eq!(page.lsn(), 17);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.latch.set_lsn(lsn);
    }

    /// Confirms that the caller has redone, from its log and under this guard, all changes of the page that
    /// [`Pool::discard`](crate::Pool::discard) lost. Checkpoints cover them again once they are in storage.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 2;
    /// pool.discard(0)?;
    /// let mut page = pool.fix_write(0)?;
    /// page[0] = 2; // from the log
    /// page.redone();
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn redone(&mut self) {
        self.latch.redone();
    }

    /// Makes this a guard for reading, so that other threads can read the page too.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let mut page = pool.fix_write(0)?;
    /// page[0] = 1;
    /// let page = page.downgrade();
    /// assert_eq!(pool.fix_read(0)?[0], page[0]); // read by two at once
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn downgrade(self) -> ReadGuard<'p, F> {
        ReadGuard::new(self.latch.downgrade(), self.payload)
    }
}

impl<F: Deref<Target = Frames>> Deref for ReadGuard<'_, F> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.latch.bytes()[self.payload..]
    }
}

impl<F: Deref<Target = Frames>> Deref for WriteGuard<'_, F> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.latch.bytes()[self.payload..]
    }
}

impl<F: Deref<Target = Frames>> DerefMut for WriteGuard<'_, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let payload = self.payload;
        &mut self.latch.bytes_mut()[payload..]
    }
}
