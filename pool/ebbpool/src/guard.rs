//! Fixed pages.

use std::ops::{Deref, DerefMut};

use crate::frames::{ExclusiveLatch, SharedLatch};
use crate::log::Lsn;

/// A page fixed for reading: it stays resident, and no thread changes it. Dropping the guard unfixes it.
pub struct ReadGuard<'p> {
    latch: SharedLatch<'p>,
    payload: usize,
}

/// A page fixed for writing: no other guard has it. It is dirty from now on. Dropping the guard unfixes it.
///
/// If the thread panics while it has the guard, the page is *abandoned*: no caller can fix it any more, and it is
/// never written, since it may be half changed ([`PoolError::Abandoned`](crate::PoolError::Abandoned),
/// [`Pool::discard`](crate::Pool::discard)).
pub struct WriteGuard<'p> {
    latch: ExclusiveLatch<'p>,
    payload: usize,
}

impl<'p> ReadGuard<'p> {
    pub(crate) fn new(latch: SharedLatch<'p>, payload: usize) -> Self {
        ReadGuard { latch, payload }
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

impl<'p> WriteGuard<'p> {
    pub(crate) fn new(latch: ExclusiveLatch<'p>, payload: usize) -> Self {
        WriteGuard { latch, payload }
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
    pub fn downgrade(self) -> ReadGuard<'p> {
        ReadGuard::new(self.latch.downgrade(), self.payload)
    }
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.latch.bytes()[self.payload..]
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.latch.bytes()[self.payload..]
    }
}

impl DerefMut for WriteGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let payload = self.payload;
        &mut self.latch.bytes_mut()[payload..]
    }
}
