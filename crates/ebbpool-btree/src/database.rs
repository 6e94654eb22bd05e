//! The database as its users see it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use ebbpool::{Log, Lsn};

use crate::check::{self, Report};
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::error::Error;
use crate::locks::Locks;
use crate::log::{Position, TxnId, Wal};
use crate::options::Durability;
use crate::overlay::OverlayPages;
use crate::page::cell::Value;
use crate::range::Range;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::transaction::Transaction;
use crate::tree::{Long, Tree};

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

/// What a database that is only read is missing: it is no state after a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Where the log ends, in bytes of all that was ever logged.
    pub log_end: Lsn,
    /// How far it was durable once, at least.
    pub durable: Lsn,
    /// A part of the log before its end cannot be read.
    pub beginning: bool,
    /// Pages with changes that the log does not have, of those that were read so far. They are shown as
    /// they are.
    pub pages_ahead: u64,
    /// Changes that could not be redone, and transactions that could not be rolled back.
    pub skipped: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.durable.saturating_sub(self.log_end);
        write!(f, "the log ends at byte {}", self.log_end)?;
        if missing > 0 {
            write!(f, ", {missing} bytes that were durable once are missing")?;
        }
        if self.beginning {
            f.write_str(", a part before its end is missing")?;
        }
        write!(
            f,
            "; of the pages read, {} are ahead of it",
            self.pages_ahead
        )?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, "; {skipped} steps of recovery were left out"),
        }
    }
}

/// A database that is only read.
pub(crate) struct OnlyRead {
    lost: Lost,
    pages: Arc<OverlayPages>,
}

impl OnlyRead {
    /// `log_end`: before recovery, which goes on with the log in memory.
    pub(crate) fn new(wal: &Wal, log_end: Lsn, pages: Arc<OverlayPages>, skipped: u64) -> Self {
        let lost = wal.lost();
        OnlyRead {
            lost: Lost {
                log_end,
                durable: lost.map_or(log_end, |lost| lost.durable),
                beginning: lost.is_some_and(|lost| lost.beginning),
                pages_ahead: 0,
                skipped,
            },
            pages,
        }
    }

    fn lost(&self) -> Option<Lost> {
        let pages_ahead = self.pages.ahead_of_log();
        let lost = Lost {
            pages_ahead,
            ..self.lost
        };
        let something = lost.durable > lost.log_end || lost.beginning || pages_ahead > 0;
        (something || lost.skipped > 0).then_some(lost)
    }
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
    only_read: Option<OnlyRead>,
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
            only_read: None,
        }
    }

    /// The same, of a database that is only read.
    pub(crate) fn only_read(self, only_read: OnlyRead) -> Self {
        let only_read = Some(only_read);
        Inner { only_read, ..self }
    }

    /// # Errors
    ///
    /// [`Error::ReadOnly`] if nothing was ever to be changed, [`Error::Broken`] if nothing may be any
    /// more.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        if self.only_read.is_some() {
            return Err(Error::ReadOnly);
        }
        match self.broken.get() {
            Some(why) => Err(Error::Broken(why.clone())),
            None => Ok(()),
        }
    }

    /// To be held while pages are changed: if the thread panics meanwhile (in a storage or a log that is
    /// not ours, say), a page may be abandoned, or lack a change that the log has.
    pub(crate) fn broken_by_panic(&self) -> BrokenByPanic<'_> {
        BrokenByPanic {
            inner: self,
            panicking: std::thread::panicking(),
        }
    }

    /// Lets nothing be changed from now on, and answers with the reason, which may be an earlier one.
    pub(crate) fn broken_by(&self, what: &str, error: &Error) -> Error {
        tracing::error!(%error, "{what}: the database takes no more changes");
        self.break_down(format!("{what}: {error}"))
    }

    fn break_down(&self, why: String) -> Error {
        let why = self.broken.get_or_init(|| why);
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
        let mut tries = 0;
        loop {
            let found = self.tree.look_up(key, |value| {
                if self.locks.is_locked(txn, key) {
                    return Ok(Seen::Locked);
                }
                match value {
                    Some(value) if tries < MOST_TRIES => self.see(value),
                    Some(value) => Ok(Seen::Value(Some(self.tree.read_value(value)?))),
                    None => Ok(Seen::Value(None)),
                }
            })?;
            match found {
                Seen::Value(value) => return Ok(value),
                Seen::Locked => self.wait_for(txn, key)?,
                Seen::Long(long) => {
                    if let Some(value) = self.read_long(key, long)? {
                        return Ok(Some(value));
                    }
                    tries += 1;
                }
            }
        }
    }

    /// A value under its leaf's latch; not all of it if it is long.
    fn see(&self, value: Value<'_>) -> Result<Seen, Error> {
        match self.tree.long(value)? {
            Some(long) => Ok(Seen::Long(long)),
            None => Ok(Seen::Value(Some(self.tree.read_value(value)?))),
        }
    }

    /// A long value, read without its leaf's latch, so that nobody who changes the leaf has to wait for
    /// so many pages; nothing if it was replaced meanwhile, and its pages may have been others'.
    pub(crate) fn read_long(&self, key: &[u8], long: Long) -> Result<Option<Vec<u8>>, Error> {
        let read = self.tree.read_value(long.value());
        let now = self.tree.look_up(key, |value| {
            value.map_or(Ok(None), |value| self.tree.long(value))
        })?;
        match now == Some(long) {
            true => read.map(Some),
            // What it failed with is no damage, perhaps.
            false => Ok(None),
        }
    }
}

/// What a look at a key has come to.
enum Seen {
    /// Another transaction has it.
    Locked,
    Value(Option<Vec<u8>>),
    Long(Long),
}

/// How often a long value is read without its leaf's latch before it is read with it.
pub(crate) const MOST_TRIES: u32 = 4;

/// See [`Inner::broken_by_panic`].
pub(crate) struct BrokenByPanic<'d> {
    inner: &'d Inner,
    /// The thread was panicking already, and is cleaning up.
    panicking: bool,
}

impl Drop for BrokenByPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicking {
            let why = "a thread panicked in the middle of a change";
            tracing::error!("{why}: the database takes no more changes");
            self.inner.break_down(why.into());
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
    /// what [`Transaction::commit`] does. The database is empty then, also if `records` panics.
    pub fn load<E: From<Error>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(Vec<u8>, Vec<u8>), E>>,
        fill: f64,
    ) -> Result<u64, E> {
        if !(fill > 0.0 && fill <= 1.0) {
            let why = format!("leaves are filled to more than 0 and at most 1, not {fill}");
            return Err(Error::Options(why).into());
        }
        let (mut failure, mut panicked) = (None, None);
        let mut records = records.into_iter();
        let mut records = std::iter::from_fn(|| {
            // What is loaded so far is taken back before a panic goes on.
            let next = panic::catch_unwind(AssertUnwindSafe(|| records.next()));
            let next = next.map_err(|payload| {
                panicked = Some(payload);
                Error::Options("what gives the records to be loaded panicked".into())
            });
            let next = match next {
                Ok(next) => next?,
                Err(error) => return Some(Err(error)),
            };
            Some(next.map_err(|error| {
                failure = Some(error);
                Error::Options("the records to be loaded ended in an error".into())
            }))
        });
        let mut transaction = self.begin();
        let outcome = match transaction.load(&mut records, fill) {
            Ok(count) => transaction
                .commit_as(Durability::Synced)
                .and_then(|()| self.empty_is_durable(count))
                .map(|()| count),
            // Whoever comes next is told if that is not possible.
            Err(error) => transaction.rollback().and(Err(error)),
        };
        match (panicked, failure) {
            (Some(payload), _) => panic::resume_unwind(payload),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(outcome?),
        }
    }

    /// A load of no records has nothing to commit, and still says that the database is durably empty: so the
    /// deletes have to be durable that emptied it.
    fn empty_is_durable(&self, loaded: u64) -> Result<(), Error> {
        let wal = &*self.inner.tree.wal;
        match loaded {
            0 => wal.sync(wal.end_lsn()),
            _ => Ok(()),
        }
    }

    /// Writes what is dirty, so that recovery has less to do and the log can become shorter. Others
    /// read and write meanwhile.
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with, now or in a checkpoint that was taken since the last call;
    /// [`Error::Broken`], [`Error::ReadOnly`].
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
        let _none = self.inner.checkpoints.hold_off();
        check::check(&self.inner.tree)
    }

    /// What is missing of a database that was opened with
    /// [`Options::read_only`](crate::Options::read_only), as far as is known by now; nothing if all of it
    /// is there.
    pub fn lost(&self) -> Option<Lost> {
        self.inner.only_read.as_ref()?.lost()
    }

    /// The log, as the pool sees it: for tests that watch the order of writes
    /// ([`FaultyDisk::watch`](ebbpool::storage::FaultyDisk::watch)).
    #[cfg(feature = "test-kit")]
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

    /// Takes a checkpoint and ends. One that is only read just ends.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint). What was committed is in the log in any case.
    pub fn close(mut self) -> Result<(), Error> {
        self.checkpointer = None;
        match self.inner.only_read {
            Some(_) => Ok(()),
            None => self.inner.checkpoint(),
        }
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
