//! Fixes of pages whose class the caller knows, or with a patience of their own.

use std::time::Duration;

use ebbpool_cost::OperationCosts;
use ebbpool_policy::PageClass;

use crate::error::PoolError;
use crate::guard::{ReadGuard, WriteGuard};
use crate::pool::Pool;
use crate::scan::PoolScan;

/// A pool, for pages of one class or file, or with another patience: see [`Pool::of_class`], [`Pool::of_file`] and
/// [`Pool::within`]. A class is a kind of pages that are used alike, such as the
/// pages of a table or the leaves of an index; the caller chooses the numbers.
#[derive(Clone, Copy, Debug)]
pub struct ClassedPool<'p> {
    pool: &'p Pool,
    class: PageClass,
    patience: Option<Duration>,
    /// Pages have their numbers in this file.
    file: Option<u32>,
}

impl<'p> ClassedPool<'p> {
    #[inline]
    pub(crate) fn new(pool: &'p Pool, class: PageClass) -> Self {
        ClassedPool { pool, class, patience: None, file: None }
    }

    /// The same for fixes that wait no longer than this for other threads, as [`Pool::within`] says.
    pub fn within(self, patience: Duration) -> Self {
        ClassedPool { patience: Some(patience), ..self }
    }

    /// The same for pages of a class, as [`Pool::of_class`] says.
    pub fn of_class(self, class: PageClass) -> Self {
        ClassedPool { class, ..self }
    }

    /// The same for pages of a file, as [`Pool::of_file`] says.
    pub fn of_file(self, file: u32) -> Self {
        ClassedPool { file: Some(file), ..self }
    }

    /// The page's number in guards, and for the calls of the pool itself, such as [`Pool::free`] and [`Pool::flush`].
    ///
    /// # Errors
    ///
    /// [`PoolError::NoPage`] if there is no such file, or it cannot have a page of that number.
    #[inline]
    pub fn number(self, page: u64) -> Result<u64, PoolError> {
        match self.file {
            None => Ok(page),
            Some(file) => self.pool.number(file, page),
        }
    }

    /// The number of pages of the file, as [`Pool::pages`] for a pool of one.
    ///
    /// # Errors
    ///
    /// As [`number`](Self::number).
    pub fn pages(self) -> Result<u64, PoolError> {
        let first = self.number(0)?;
        Ok(self.pool.space(first).stored() - first)
    }

    /// Makes the file at least that long, as [`Pool::grow`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::grow`] and [`number`](Self::number).
    pub fn grow(self, pages: u64) -> Result<(), PoolError> {
        match pages.checked_sub(1) {
            None => Ok(()),
            Some(last) => self.pool.grow_to(self.number(last)?.saturating_add(1)),
        }
    }

    /// Makes the file no longer than that, as [`Pool::truncate`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::truncate`] and [`number`](Self::number).
    pub fn truncate(self, pages: u64) -> Result<(), PoolError> {
        self.pool.truncate_to(self.number(pages)?)
    }

    /// What a read and a write of a page of the file cost lately; `None` if there is no such file. The policy receives the average of
    /// all files.
    pub fn costs(self) -> Option<OperationCosts> {
        self.pool.costs_of(self.file.unwrap_or(0))
    }

    /// Fixes a page of this class for reading, as [`Pool::fix_read`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_read`].
    #[inline]
    pub fn fix_read(self, page: u64) -> Result<ReadGuard<'p>, PoolError> {
        self.pool.read_of((self.number(page)?, self.class), self.patience.as_ref(), None)
    }

    /// Fixes a page of this class for reading in a scan, as [`Pool::fix_scan`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_scan`].
    pub fn fix_scan(self, page: u64, scan: &mut PoolScan) -> Result<ReadGuard<'p>, PoolError> {
        self.pool.read_of((self.number(page)?, self.class), self.patience.as_ref(), Some(scan))
    }

    /// Fixes a page of this class for writing, as [`Pool::fix_write`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_write`].
    #[inline]
    pub fn fix_write(self, page: u64) -> Result<WriteGuard<'p>, PoolError> {
        self.pool.write_of((self.number(page)?, self.class), self.patience.as_ref())
    }

    /// Fixes a page of this class for writing, filled with zeros instead of being read, as [`Pool::fix_new`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_new`].
    pub fn fix_new(self, page: u64) -> Result<WriteGuard<'p>, PoolError> {
        self.pool.new_of((self.number(page)?, self.class), self.patience.as_ref())
    }

    /// Allocates a page of this class, as [`Pool::allocate`] does.
    ///
    /// # Errors
    ///
    /// As [`Pool::allocate`].
    pub fn allocate(self) -> Result<WriteGuard<'p>, PoolError> {
        self.pool.allocate_of((self.number(0)?, self.class), self.patience.as_ref())
    }
}
