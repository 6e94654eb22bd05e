//! Fixes of pages whose class the caller knows, or with a patience of their own.

use std::time::Duration;

use ebbpool_policy::PageClass;

use crate::error::PoolError;
use crate::guard::{ReadGuard, WriteGuard};
use crate::pool::Pool;
use crate::scan::PoolScan;

/// A pool, for pages of one class, or with another patience: see [`Pool::of_class`] and [`Pool::within`]. A class is a kind of pages that are used alike, such as the
/// pages of a table or the leaves of an index; the caller chooses the numbers.
#[derive(Clone, Copy, Debug)]
pub struct ClassedPool<'p> {
    pool: &'p Pool,
    class: PageClass,
    patience: Option<Duration>,
}

impl<'p> ClassedPool<'p> {
    #[inline]
    pub(crate) fn new(pool: &'p Pool, class: PageClass) -> Self {
        ClassedPool { pool, class, patience: None }
    }

    /// The same for fixes that wait no longer than this for other threads, as [`Pool::within`] says.
    pub fn within(self, patience: Duration) -> Self {
        ClassedPool { patience: Some(patience), ..self }
    }

    /// Fixes a page of this class for reading, as [`Pool::fix_read`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_read`].
    #[inline]
    pub fn fix_read(self, page: u64) -> Result<ReadGuard<'p>, PoolError> {
        self.pool.read_of((page, self.class), self.patience.as_ref(), None)
    }

    /// Fixes a page of this class for reading in a scan, as [`Pool::fix_scan`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_scan`].
    pub fn fix_scan(self, page: u64, scan: &mut PoolScan) -> Result<ReadGuard<'p>, PoolError> {
        self.pool.read_of((page, self.class), self.patience.as_ref(), Some(scan))
    }

    /// Fixes a page of this class for writing, as [`Pool::fix_write`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_write`].
    #[inline]
    pub fn fix_write(self, page: u64) -> Result<WriteGuard<'p>, PoolError> {
        self.pool.write_of((page, self.class), self.patience.as_ref())
    }

    /// Fixes a page of this class for writing, filled with zeros instead of being read, as [`Pool::fix_new`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_new`].
    pub fn fix_new(self, page: u64) -> Result<WriteGuard<'p>, PoolError> {
        self.pool.new_of((page, self.class), self.patience.as_ref())
    }

    /// Allocates a page of this class, as [`Pool::allocate`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::allocate`].
    pub fn allocate(self) -> Result<WriteGuard<'p>, PoolError> {
        self.pool.allocate_of(self.class, self.patience.as_ref())
    }
}
