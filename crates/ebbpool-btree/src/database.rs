//! The database as its users see it.

use std::ops::RangeBounds;

use crate::check::Report;
use crate::error::Error;
use crate::range::Range;
use crate::transaction::Transaction;

/// A database: keys in order, each with a value. For many threads.
pub struct Database {}

/// What a database has done since it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatabaseStats {
    /// What the pool has done.
    pub pool: ebbpool::Stats,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

impl Database {
    /// Begins a transaction. It sees what others have committed, and what it did itself (read committed); keys that it has changed nobody else changes until it ends.
    pub fn begin(&self) -> Transaction<'_> {
        todo!()
    }

    /// The value of a key. Waits where a transaction has it that is not done.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], [`Error::Corrupt`], and what the pool fails with.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        todo!()
    }

    /// Gives a key a value, in a transaction of its own.
    ///
    /// # Errors
    ///
    /// As [`Transaction::put`] and [`Transaction::commit`]. Then nothing has changed, unless [`Error::Log`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// Removes a key, in a transaction of its own; false if it was not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        todo!()
    }

    /// Records in order of their keys, from either end.
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Range<'_> {
        todo!()
    }

    /// Loads an empty database with records that come in ascending order, and answers how many. Leaves
    /// are filled to `fill` (0 to 1), inner nodes too. All of it is durable then, or nothing of it. Pages are not
    /// logged one by one: they are written once.
    ///
    /// # Errors
    ///
    /// [`Error::NotEmpty`], [`Error::Unsorted`], what `records` fails with, and what the pool fails with.
    pub fn load<E: From<Error>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(Vec<u8>, Vec<u8>), E>>,
        fill: f64,
    ) -> Result<u64, E> {
        todo!()
    }

    /// Writes what is dirty, so that recovery has less to do and the log can become shorter. Others
    /// read and write meanwhile.
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with.
    pub fn checkpoint(&self) -> Result<(), Error> {
        todo!()
    }

    /// Looks at every page in use: its checksum, that the tree is one, that every page in use is reached
    /// and every other one is free. Nobody else may change anything meanwhile.
    ///
    /// # Errors
    ///
    /// Damage is no error, but in the report. What the pool fails with otherwise.
    pub fn check(&mut self) -> Result<Report, Error> {
        todo!()
    }

    /// What it has done so far.
    pub fn stats(&self) -> DatabaseStats {
        todo!()
    }

    /// Takes a checkpoint and ends.
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with. What was committed is in the log in any case.
    pub fn close(self) -> Result<(), Error> {
        todo!()
    }
}
