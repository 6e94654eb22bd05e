//! The database as its users see it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::{Arc, OnceLock};

use ebbpool::Log;

use crate::check::{self, Report};
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::error::Error;
use crate::locks::Locks;
use crate::log::{Position, TxnId, Wal};
use crate::options::Durability;
use crate::range::Range;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::transaction::Transaction;
use crate::tree::Tree;

/// A database: keys in order, each with a value. For many threads.
///
/// Dropping it writes nothing: [`close`](Self::close) does, and recovery brings back what was committed
/// otherwise, as far as the [`Durability`] promises.
pub struct Database {
    // First, since it uses the rest.
    checkpointer: Option<Checkpointer>,
    inner: Arc<Inner>,
}

/// What a database has done since it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatabaseStats {
    /// What the pool has done.
    pub pool: ebbpool::Stats,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes that the log has now: recovery reads them.
    pub log_length: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

/// What transactions and the thread for checkpoints share.
pub(crate) struct Inner {
    pub(crate) tree: Tree,
    pub(crate) locks: Locks,
    pub(crate) live: Live,
    pub(crate) durability: Durability,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) commits: AtomicU64,
    pub(crate) rollbacks: AtomicU64,
    next_txn: AtomicU64,
    broken: OnceLock<String>,
}

/// Transactions of which the log has something that recovery would need.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<BTreeMap<TxnId, Position>>);

impl Live {
    /// The transaction is about to append its first record.
    pub(crate) fn begin(&self, txn: TxnId, wal: &Wal) {
        let mut firsts = self.0.lock();
        firsts.entry(txn).or_insert_with(|| wal.end_lsn());
    }

    /// The log has it that nothing more comes of the transaction.
    pub(crate) fn end(&self, txn: TxnId) {
        self.0.lock().remove(&txn);
    }

    /// Nothing before this is theirs.
    pub(crate) fn first(&self) -> Option<Position> {
        self.0.lock().values().min().copied()
    }
}

impl Inner {
    pub(crate) fn new(
        tree: Tree,
        locks: Locks,
        durability: Durability,
        checkpoints: Checkpoints,
        first_txn: TxnId,
    ) -> Self {
        Inner {
            tree,
            locks,
            live: Live::default(),
            durability,
            checkpoints,
            commits: AtomicU64::new(0),
            rollbacks: AtomicU64::new(0),
            next_txn: AtomicU64::new(first_txn),
            broken: OnceLock::new(),
        }
    }

    /// # Errors
    ///
    /// [`Error::Broken`] if nothing may be changed any more.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        match self.broken.get() {
            Some(why) => Err(Error::Broken(why.clone())),
            None => Ok(()),
        }
    }

    /// Lets nothing be changed from now on, and answers with the reason, which may be an earlier one.
    pub(crate) fn broken_by(&self, what: &str, error: &Error) -> Error {
        tracing::error!(%error, "{what}: the database takes no more changes");
        let why = self.broken.get_or_init(|| format!("{what}: {error}"));
        self.locks.give_up();
        Error::Broken(why.clone())
    }

    /// Waits until no other transaction has the key.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], or [`Error::Broken`] if that is why.
    pub(crate) fn wait_for(&self, txn: TxnId, key: &[u8]) -> Result<(), Error> {
        let waited = self.locks.wait_for(txn, key);
        waited.map_err(|conflict| self.check_whole().err().unwrap_or(conflict))
    }

    /// The value of a key, as a transaction sees it, or as whoever is none (0).
    pub(crate) fn get(&self, txn: TxnId, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let found = self.tree.look_up(key, |value| {
                if self.locks.is_locked(txn, key) {
                    return Ok(None);
                }
                let value = value.map(|value| self.tree.read_value(value));
                value.transpose().map(Some)
            })?;
            match found {
                Some(value) => return Ok(value),
                None => self.wait_for(txn, key)?,
            }
        }
    }
}

impl Database {
    pub(crate) fn new(inner: Arc<Inner>, checkpointer: Option<Checkpointer>) -> Self {
        Database {
            checkpointer,
            inner,
        }
    }

    /// Begins a transaction. It sees what others have committed, and what it did itself (read committed);
    /// keys that it has changed nobody else changes until it ends.
    pub fn begin(&self) -> Transaction<'_> {
        let txn = self.inner.next_txn.fetch_add(1, Ordering::Relaxed);
        Transaction::new(&self.inner, txn)
    }

    /// The value of a key. Waits where a transaction has it that is not done.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], or [`Error::Broken`] where waiting is in vain for that, [`Error::Corrupt`], and what the
    /// pool fails with.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(0, key)
    }

    /// Gives a key a value, in a transaction of its own.
    ///
    /// # Errors
    ///
    /// As [`Transaction::put`] and [`Transaction::commit`]. Then nothing has changed, unless [`Error::Log`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let mut transaction = self.begin();
        transaction.put(key, value)?;
        transaction.commit()
    }

    /// Removes a key, in a transaction of its own; false if it was not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let mut transaction = self.begin();
        let removed = transaction.delete(key)?;
        transaction.commit()?;
        Ok(removed)
    }

    /// Records in order of their keys, from either end.
    ///
    /// ```no_run
    /// # let database = ebbpool_btree::Options::new(100).open("a.db")?;
    /// for record in database.range("a".."b") {
    ///     let (key, value) = record?;
    /// }
    /// let last = database.range::<&[u8]>(..).next_back().transpose()?;
    /// # Ok::<(), ebbpool_btree::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Range<'_> {
        Range::new(&self.inner, 0, bounds)
    }

    /// Loads an empty database with records that come in ascending order, and answers how many. Leaves
    /// are filled to `fill` (more than 0, 1 at most), inner nodes too. All of it is durable then, or
    /// nothing of it. Pages are not logged one by one: they are written once.
    ///
    /// # Errors
    ///
    /// [`Error::NotEmpty`], [`Error::Unsorted`], [`Error::KeyTooLong`], [`Error::ValueTooLong`],
    /// [`Error::Options`] for another `fill`, what `records` fails with, what the pool fails with, and
    /// what [`Transaction::commit`] does. The database is empty then.
    pub fn load<E: From<Error>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(Vec<u8>, Vec<u8>), E>>,
        fill: f64,
    ) -> Result<u64, E> {
        if !(fill > 0.0 && fill <= 1.0) {
            let why = format!("leaves are filled to more than 0 and at most 1, not {fill}");
            return Err(Error::Options(why).into());
        }
        let mut failure = None;
        let mut records = records.into_iter();
        let mut records = std::iter::from_fn(|| {
            Some(records.next()?.map_err(|error| {
                failure = Some(error);
                Error::Options("the records to be loaded ended in an error".into())
            }))
        });
        let mut transaction = self.begin();
        let outcome = match transaction.load(&mut records, fill) {
            Ok(count) => transaction.commit_as(Durability::Synced).map(|()| count),
            // Whoever comes next is told if that is not possible.
            Err(error) => transaction.rollback().and(Err(error)),
        };
        match failure {
            Some(failure) => Err(failure),
            None => Ok(outcome?),
        }
    }

    /// Writes what is dirty, so that recovery has less to do and the log can become shorter. Others
    /// read and write meanwhile.
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with, now or in a checkpoint that was taken since the last call.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.inner.checkpoint()
    }

    /// Looks at every page in use: its checksum, that the tree is one, that every page in use is reached
    /// and every other one is free. Nobody else may change anything meanwhile.
    ///
    /// # Errors
    ///
    /// Damage is no error, but in the report. What the pool fails with otherwise.
    pub fn check(&mut self) -> Result<Report, Error> {
        check::check(&self.inner.tree)
    }

    /// The log, as the pool sees it: for tests that watch the order of writes
    /// ([`FaultyDisk::watch`](ebbpool::storage::FaultyDisk::watch)).
    pub fn log(&self) -> Arc<dyn Log> {
        let log: Arc<dyn Log> = self.inner.tree.wal.clone();
        log
    }

    /// What it has done so far.
    pub fn stats(&self) -> DatabaseStats {
        let inner = &*self.inner;
        DatabaseStats {
            pool: inner.tree.pool.stats(),
            log_bytes: inner.tree.wal.bytes_written(),
            log_length: inner
                .tree
                .wal
                .end_lsn()
                .saturating_sub(inner.tree.wal.begin()),
            log_syncs: inner.tree.wal.syncs(),
            commits: inner.commits.load(Ordering::Relaxed),
            rollbacks: inner.rollbacks.load(Ordering::Relaxed),
            checkpoints: inner.checkpoints.taken(),
        }
    }

    /// Takes a checkpoint and ends.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint). What was committed is in the log in any case.
    pub fn close(mut self) -> Result<(), Error> {
        self.checkpointer = None;
        self.inner.checkpoint()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("pool", &self.inner.tree.pool)
            .field("durability", &self.inner.durability)
            .field("broken", &self.inner.broken.get())
            .finish_non_exhaustive()
    }
}
