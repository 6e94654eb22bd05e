//! Changes that happen all or not at all.

use std::ops::RangeBounds;

use crate::error::Error;
use crate::range::Range;

/// A transaction. Dropped, it is rolled back.
pub struct Transaction<'d> {
    database: std::marker::PhantomData<&'d ()>,
}

impl Transaction<'_> {
    /// The value of a key, its own changes included.
    ///
    /// # Errors
    ///
    /// As [`Database::get`](crate::Database::get).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        todo!()
    }

    /// As [`get`](Self::get), and nobody else changes the key until the transaction ends.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        todo!()
    }

    /// Gives a key a value.
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::Conflict`], [`Error::Log`],
    /// [`Error::Broken`], [`Error::Corrupt`], and what the pool fails with. The key has its old value
    /// then, and the transaction may go on.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// Removes a key; false if it was not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        todo!()
    }

    /// Calls `update` with key after key from `from` on, ascending, until it has seen `count`. What it
    /// answers, as long as the value, replaces the value. Answers how many keys there were.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), and [`Error::ValueTooLong`] if a new value has another length. Part of it may have happened: roll back.
    pub fn update_range(
        &mut self,
        from: &[u8],
        count: u64,
        update: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> Result<u64, Error> {
        todo!()
    }

    /// Records in order of their keys, its own changes included.
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Range<'_> {
        todo!()
    }

    /// Makes it count. Returns when it is as durable as the database was opened for.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: whether it counts will be known when the database is reopened.
    pub fn commit(self) -> Result<(), Error> {
        todo!()
    }

    /// Takes all of it back.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`] from then on, if that is not possible.
    pub fn rollback(self) -> Result<(), Error> {
        todo!()
    }
}
