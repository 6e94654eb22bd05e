//! Fixed pages.

use std::ops::{Deref, DerefMut};

use crate::frames::{Exclusive, Shared};
use crate::log::Lsn;

/// A page fixed for reading: it stays, and nobody changes it. Unfixed when dropped.
pub struct ReadGuard<'p> {
    latch: Shared<'p>,
    payload: usize,
}

/// A page fixed for writing: nobody else has it. It is dirty from now on. Unfixed when dropped.
///
/// If the thread panics while it has one, the page is *abandoned*: nobody gets at it any more, and
/// it is never written, since it may be changed by halves
/// ([`Error::Abandoned`](crate::Error::Abandoned), [`Pool::discard`](crate::Pool::discard)).
pub struct WriteGuard<'p> {
    latch: Exclusive<'p>,
    payload: usize,
}

impl<'p> ReadGuard<'p> {
    pub(crate) fn new(latch: Shared<'p>, payload: usize) -> Self {
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
    pub(crate) fn new(latch: Exclusive<'p>, payload: usize) -> Self {
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

    /// Says where the log has the change that is being made. Append to the log while you hold the
    /// guard, and call this before you drop it: a checkpoint relies on both.
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.latch.set_lsn(lsn);
    }

    /// The caller has redone, from its log and under this guard, all changes of the page that
    /// [`Pool::discard`](crate::Pool::discard) lost: checkpoints may cover them again once they are in storage.
    pub fn redone(&mut self) {
        self.latch.redone();
    }

    /// Lets others read while the caller goes on reading.
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
