//! The database and its interface.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ebbpool::{Log, Lsn};

use crate::backup::Backup;
use crate::check::{self, CheckFinding, CheckReport};
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::ended::EndedTransaction;
use crate::error::DatabaseError;
use crate::locks::{BeforeImage, Locks, Reader};
use crate::log::{Position, Record, TxnId, Undo, Wal};
use crate::options::Durability;
use crate::overlay::OverlayPages;
use crate::page::cell::{Value, read_leaf_cell};
use crate::page::{META, ROOT};
use crate::range::RecordRange;
use crate::recovery::RecoveryStats;
use crate::shrink::Shrunk;
use crate::sync::{AtomicU64, Instant, Mutex, Ordering};
use crate::transaction::Transaction;
use crate::tree::{LongValue, Tree};

/// A database: keys in order, each with a value. Many threads may use it.
///
/// Dropping it writes nothing; [`close`](Self::close) does. After a drop, recovery restores what was
/// committed, as far as the [`Durability`] promises.
pub struct Database {
    // First, since it uses the rest.
    checkpointer: Option<Checkpointer>,
    inner: Arc<DatabaseInner>,
}

/// Counters of a database since it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatabaseStats {
    /// The pool's counters.
    pub pool: ebbpool::Stats,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// The log's current length in bytes: recovery reads that much.
    pub log_length: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Why the latest attempt to take a checkpoint failed, if it did. The log becomes longer until one succeeds, and beyond
    /// twice [`checkpoint_every`](crate::DatabaseOptions::checkpoint_every) changes fail with that error.
    pub checkpoint_failure: Option<String>,
    /// The oldest transaction with changes that has not ended, if there is one.
    pub oldest_transaction: Option<OpenTransaction>,
    /// Pages of the file, those that are free included.
    pub pages: u64,
    /// How long a recovery would take now, as far as the log, and reads and writes of pages so far, say.
    pub recovery_estimate: Duration,
    /// The recovery with which it was opened.
    pub recovery: RecoveryStats,
}

/// A transaction that keeps the log from becoming shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenTransaction {
    /// The time since its first change.
    pub age: Duration,
    /// The length of the log since then, in bytes.
    pub log_bytes: u64,
}

/// What a database that was opened read-only has lost. Its content is not the state after any transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostData {
    /// Where the log ends, in bytes since its creation.
    pub log_end: Lsn,
    /// A position up to which the log was durable.
    pub durable: Lsn,
    /// True if a part of the log before its end cannot be read.
    pub beginning: bool,
    /// The number of pages, among those read so far, that have changes which the log lacks. They are shown
    /// as they are.
    pub pages_ahead: u64,
    /// Changes that could not be redone, and transactions that could not be rolled back.
    pub skipped: u64,
}

impl fmt::Display for LostData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.durable.saturating_sub(self.log_end);
        write!(f, "the log ends at byte {}", self.log_end)?;
        if missing > 0 {
            write!(f, ", {missing} bytes that were durable once are missing")?;
        }
        if self.beginning {
            f.write_str(", a part before its end is missing")?;
        }
        write!(f, "; of the pages read, {} are ahead of it", self.pages_ahead)?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, "; {skipped} steps of recovery were left out"),
        }
    }
}

/// The state of a database that was opened read-only.
pub(crate) struct ReadOnlyState {
    lost: LostData,
    pages: Arc<OverlayPages>,
}

impl ReadOnlyState {
    /// `log_end` is the log's end before recovery, which appends to the log in memory.
    pub(crate) fn new(wal: &Wal, log_end: Lsn, pages: Arc<OverlayPages>, skipped: u64) -> Self {
        let lost = wal.lost();
        ReadOnlyState {
            lost: LostData {
                log_end,
                durable: lost.map_or(log_end, |lost| lost.durable),
                beginning: lost.is_some_and(|lost| lost.beginning),
                pages_ahead: 0,
                skipped,
            },
            pages,
        }
    }

    fn lost(&self) -> Option<LostData> {
        let pages_ahead = self.pages.ahead_of_log();
        let lost = LostData { pages_ahead, ..self.lost };
        let is_incomplete = lost.durable > lost.log_end || lost.beginning || pages_ahead > 0;
        (is_incomplete || lost.skipped > 0).then_some(lost)
    }
}

/// What transactions and the checkpoint thread share.
pub(crate) struct DatabaseInner {
    pub(crate) tree: Tree,
    pub(crate) locks: Locks,
    pub(crate) live: LiveTransactions,
    pub(crate) durability: Durability,
    pub(crate) checkpoints: Checkpoints,
    recovery: RecoveryStats,
    pub(crate) commits: AtomicU64,
    pub(crate) rollbacks: AtomicU64,
    next_txn: AtomicU64,
    /// Transactions that have ended and have work left.
    pub(crate) ended: Mutex<Vec<EndedTransaction>>,
    broken: OnceLock<String>,
    read_only_state: Option<ReadOnlyState>,
}

/// Transactions with records in the log that recovery would need, each with the position and the time of the first.
#[derive(Debug, Default)]
pub(crate) struct LiveTransactions(Mutex<BTreeMap<TxnId, (Position, Instant)>>);

impl LiveTransactions {
    /// The transaction is about to append its first record.
    pub(crate) fn begin(&self, txn: TxnId, wal: &Wal) {
        let mut firsts = self.0.lock();
        firsts.entry(txn).or_insert_with(|| (wal.end_lsn(), Instant::now()));
    }

    /// The log has the record that ends the transaction.
    pub(crate) fn end(&self, txn: TxnId) {
        self.0.lock().remove(&txn);
    }

    /// No record from this position on is given up until `txn`, which has none, ends.
    pub(crate) fn keep(&self, txn: TxnId, from: Position) {
        self.0.lock().insert(txn, (from, Instant::now()));
    }

    /// The position and the time of the first record of any live transaction.
    pub(crate) fn oldest(&self) -> Option<(Position, Instant)> {
        self.0.lock().values().min().copied()
    }
}

impl DatabaseInner {
    pub(crate) fn new(
        tree: Tree,
        locks: Locks,
        durability: Durability,
        (checkpoints, recovery): (Checkpoints, RecoveryStats),
        first_txn: TxnId,
    ) -> Self {
        DatabaseInner {
            tree,
            locks,
            live: LiveTransactions::default(),
            durability,
            checkpoints,
            recovery,
            commits: AtomicU64::new(0),
            rollbacks: AtomicU64::new(0),
            next_txn: AtomicU64::new(first_txn),
            ended: Mutex::default(),
            broken: OnceLock::new(),
            read_only_state: None,
        }
    }

    /// Makes it a database that is open read-only.
    pub(crate) fn with_read_only_state(self, read_only_state: ReadOnlyState) -> Self {
        let read_only_state = Some(read_only_state);
        DatabaseInner { read_only_state, ..self }
    }

    /// # Errors
    ///
    /// [`DatabaseError::ReadOnly`] if the database is open read-only, [`DatabaseError::Broken`] if it takes
    /// no more changes.
    pub(crate) fn check_writable(&self) -> Result<(), DatabaseError> {
        if self.read_only_state.is_some() {
            return Err(DatabaseError::ReadOnly);
        }
        match self.broken.get() {
            Some(why) => Err(DatabaseError::Broken(why.clone())),
            None => Ok(()),
        }
    }

    /// A caller holds the guard while it changes pages. If the thread panics meanwhile (for example in a
    /// caller's storage or log), a page may be half changed, or lack a change that the log has; so the
    /// database takes no more changes.
    pub(crate) fn panic_guard(&self) -> PanicGuard<'_> {
        PanicGuard { inner: self, panicking: std::thread::panicking() }
    }

    /// Refuses all changes from now on, and returns the reason, which may be an earlier one.
    pub(crate) fn break_with(&self, what: &str, error: &DatabaseError) -> DatabaseError {
        tracing::error!(%error, "{what}: the database takes no more changes");
        self.set_broken(format!("{what}: {error}"))
    }

    fn set_broken(&self, why: String) -> DatabaseError {
        let why = self.broken.get_or_init(|| why);
        self.locks.stop_waiting();
        DatabaseError::Broken(why.clone())
    }

    /// The value of a key, as a reader sees it.
    pub(crate) fn get(&self, reader: Reader, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let mut tries = 0;
        loop {
            let admitted = self.tree.admission.enter();
            let found = self.tree.look_up(key, |value| {
                if let Some(before) = self.locks.before(reader, key) {
                    return Ok(LookupResult::Before(before));
                }
                match value {
                    Some(value) if tries < MOST_TRIES => self.read_short(value),
                    Some(value) => Ok(LookupResult::Value(Some(self.tree.read_value(value)?))),
                    None => Ok(LookupResult::Value(None)),
                }
            })?;
            drop(admitted);
            match found {
                LookupResult::Value(value) => return Ok(value),
                LookupResult::Before(before) => {
                    let Some(position) = before.position() else { return Ok(None) };
                    let read = self.read_before(position);
                    // Otherwise the change is visible or undone by now, the log may have given up the record, and pages of
                    // the old value may have been reused.
                    if self.locks.before(reader, key) == Some(before) {
                        return read.map(Some).map_err(|error| self.check_writable().err().unwrap_or(error));
                    }
                }
                LookupResult::Long(long) => {
                    if let Some(value) = self.read_long(key, long)? {
                        return Ok(Some(value));
                    }
                    tries += 1;
                }
            }
        }
    }

    /// Reads a value under its leaf's latch; of a long value only its description.
    fn read_short(&self, value: Value<'_>) -> Result<LookupResult, DatabaseError> {
        match self.tree.long(value)? {
            Some(long) => Ok(LookupResult::Long(long)),
            None => Ok(LookupResult::Value(Some(self.tree.read_value(value)?))),
        }
    }

    /// Reads what a key was before a change of it that the log has at a position.
    fn read_before(&self, position: Position) -> Result<Vec<u8>, DatabaseError> {
        let mut buffer = Vec::new();
        let cell = match self.tree.wal.read(position, &mut buffer)? {
            Record::Update { undo: Undo::Restore { cell }, .. } => read_leaf_cell(cell),
            _ => None,
        };
        let (_, value, _) = cell
            .ok_or_else(|| DatabaseError::corrupt(ROOT, "the log does not say what a key of the tree was before a change"))?;
        let _admitted = self.tree.admission.enter();
        self.tree.read_value(value)
    }

    /// Reads a long value without its leaf's latch, so that threads that change the leaf do not wait for
    /// the reads of its pages. Returns nothing if the value was replaced meanwhile, since its pages may
    /// have been reused.
    fn read_long(&self, key: &[u8], long: LongValue) -> Result<Option<Vec<u8>>, DatabaseError> {
        let _admitted = self.tree.admission.enter();
        let read = self.tree.read_value(long.value());
        let now = self.tree.look_up(key, |value| value.map_or(Ok(None), |value| self.tree.long(value)))?;
        match now == Some(long) {
            true => read.map(Some),
            // An error of that read need not mean damage.
            false => Ok(None),
        }
    }
}

/// The result of looking up a key.
enum LookupResult {
    /// The reader is not to see what is in the leaf.
    Before(BeforeImage),
    Value(Option<Vec<u8>>),
    Long(LongValue),
}

/// How often a long value is read without its leaf's latch before it is read under the latch.
const MOST_TRIES: u32 = 4;

/// Refuses further changes to the database if the thread panics while it holds the guard.
pub(crate) struct PanicGuard<'d> {
    inner: &'d DatabaseInner,
    /// The thread was panicking already when it took the guard.
    panicking: bool,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicking {
            let why = "a thread panicked in the middle of a change";
            tracing::error!("{why}: the database takes no more changes");
            self.inner.set_broken(why.into());
        }
    }
}

impl Database {
    pub(crate) fn new(inner: Arc<DatabaseInner>, checkpointer: Option<Checkpointer>) -> Self {
        Database { checkpointer, inner }
    }

    /// Begins a transaction. It sees what other transactions have committed, and its own changes (read
    /// committed). No other transaction changes a key that it has changed until it ends, and none waits to read it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// let mut transaction = database.begin();
    /// transaction.put(b"apple", b"1")?;
    /// transaction.put(b"pear", b"2")?;
    /// transaction.commit()?; // both, or neither
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    pub fn begin(&self) -> Transaction<'_> {
        let txn = self.inner.next_txn.fetch_add(1, Ordering::Relaxed);
        Transaction::new(&self.inner, txn)
    }

    /// The value of a key: what the latest transaction left whose commit is as durable as the database's [`Durability`] demands.
    /// Waits for no transaction.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`], errors of the pool, and, for a key that a transaction has changed which has not ended,
    /// [`DatabaseError::Log`], from which its old value is read; [`DatabaseError::Broken`] if the log no longer has it.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.inner.get(Reader::default(), key)
    }

    /// Sets the value of a key, in a transaction of its own.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"apple", b"1")?;
    /// assert_eq!(database.get(b"apple")?, Some(b"1".to_vec()));
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Transaction::put`] and [`Transaction::commit`]. After an error other than [`DatabaseError::Log`]
    /// nothing has changed.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        let mut transaction = self.begin();
        transaction.put(key, value)?;
        transaction.commit()
    }

    /// Removes a key, in a transaction of its own. Returns false if the key was not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&self, key: &[u8]) -> Result<bool, DatabaseError> {
        let mut transaction = self.begin();
        let removed = transaction.delete(key)?;
        transaction.commit()?;
        Ok(removed)
    }

    /// Records in order of their keys, from either end, each as [`get`](Self::get) would return it when it is read.
    ///
    /// ```no_run
    /// # let database = ebbpool_btree::DatabaseOptions::new(100).open("a.db")?;
    /// for record in database.range("a".."b") {
    ///     let (key, value) = record?;
    /// }
    /// let last = database.range::<&[u8]>(..).next_back().transpose()?;
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"a", b"1")?;
    /// database.put(b"b", b"2")?;
    /// for record in database.range(b"b".as_slice()..) {
    ///     let (key, value) = record?;
    ///     assert_eq!((key, value), (b"b".to_vec(), b"2".to_vec()));
    /// }
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> RecordRange<'_> {
        RecordRange::new(&self.inner, Reader::default(), bounds)
    }

    /// Loads an empty database with records in ascending order of their keys, and returns their number.
    /// Leaves and inner nodes are filled to the share `fill` (more than 0, at most 1). Afterwards all
    /// records are durable, or none. The log has no copies of the pages: each page is written once.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::NotEmpty`], [`DatabaseError::Unsorted`], [`DatabaseError::KeyTooLong`],
    /// [`DatabaseError::ValueTooLong`], [`DatabaseError::Options`] for another `fill`, errors of `records`,
    /// of the pool, and of [`Transaction::commit`]. After an error, or a panic of `records`, the database
    /// is empty.
    pub fn load<E: From<DatabaseError>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(Vec<u8>, Vec<u8>), E>>,
        fill: f64,
    ) -> Result<u64, E> {
        if !(fill > 0.0 && fill <= 1.0) {
            let why = format!("leaves are filled to more than 0 and at most 1, not {fill}");
            return Err(DatabaseError::Options(why).into());
        }
        let (mut failure, mut panicked) = (None, None);
        let mut records = records.into_iter();
        let mut records = std::iter::from_fn(|| {
            // The load is rolled back before the panic resumes.
            let next = panic::catch_unwind(AssertUnwindSafe(|| records.next()));
            let next = next.map_err(|payload| {
                panicked = Some(payload);
                DatabaseError::Options("the iterator of the records to be loaded panicked".into())
            });
            let next = match next {
                Ok(next) => next?,
                Err(error) => return Some(Err(error)),
            };
            Some(next.map_err(|error| {
                failure = Some(error);
                DatabaseError::Options("the records to be loaded ended in an error".into())
            }))
        });
        let mut transaction = self.begin();
        let outcome = match transaction.load(&mut records, fill) {
            Ok(count) => transaction.commit_as(Durability::Synced).and_then(|()| self.empty_is_durable(count)).map(|()| count),
            // If the rollback fails, the next call returns an error.
            Err(error) => transaction.rollback().and(Err(error)),
        };
        match (panicked, failure) {
            (Some(payload), _) => panic::resume_unwind(payload),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(outcome?),
        }
    }

    /// A load of no records has nothing to commit, but still promises that the database is durably empty.
    /// So the deletes that emptied it have to be durable.
    fn empty_is_durable(&self, loaded: u64) -> Result<(), DatabaseError> {
        let wal = &*self.inner.tree.wal;
        match loaded {
            0 => wal.sync(wal.end_lsn()),
            _ => Ok(()),
        }
    }

    /// Writes dirty pages back, so that recovery has less to do and the log can become shorter. Other
    /// threads read and write meanwhile.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"apple", b"1")?;
    /// database.checkpoint()?; // opening has no log to redo
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the pool and the log, [`DatabaseError::Broken`], [`DatabaseError::ReadOnly`].
    pub fn checkpoint(&self) -> Result<(), DatabaseError> {
        self.inner.checkpoint()
    }

    /// Copies the database into new files, while other threads read and write it. The copy has all that was committed before the call, and
    /// the first n of the transactions that are committed during it; it is durable, and has the identity of the original. To restore it,
    /// close the original, and put the copy's files in its place, all of them. The log keeps all records until the copy is complete.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let options = || ebbpool_btree::DatabaseOptions::new(256);
    /// # let database = options().open(directory.path().join("my.db"))?;
    /// database.put(b"apple", b"1")?;
    /// let copy = directory.path().join("copy.db");
    /// database.backup(&copy)?;
    /// assert_eq!(options().open(&copy)?.get(b"apple")?, Some(b"1".to_vec()));
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DatabaseError::File`] if one of the new files is there or cannot be written, [`DatabaseError::ReadOnly`],
    /// [`DatabaseError::Broken`], [`DatabaseError::Corrupt`], and errors of the pool and the log. No copy is there then.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Backup, DatabaseError> {
        self.backup_while(path, |_| true)
    }

    /// As [`backup`](Self::backup), but asks before each page whether to go on, and says which share of the pages it has copied.
    ///
    /// # Errors
    ///
    /// Those of [`backup`](Self::backup); [`DatabaseError::File`] of the kind [`Interrupted`](std::io::ErrorKind::Interrupted) if it is
    /// not to go on.
    pub fn backup_while(&self, path: impl AsRef<Path>, mut goes_on: impl FnMut(f64) -> bool) -> Result<Backup, DatabaseError> {
        let txn = self.inner.next_txn.fetch_add(1, Ordering::Relaxed);
        self.inner.back_up(path.as_ref(), txn, &mut goes_on)
    }

    /// Makes the file as short as it can be: moves the pages in use at its end to free pages before them, and cuts off the
    /// rest. It reads the tree, and the long values if any of their pages moves, and writes the pages that move. New records make the file
    /// longer again. A crash meanwhile loses nothing, and may leave the file as long as it was.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// let mut database = database;
    /// database.put(b"long", &[1; 100_000])?;
    /// database.delete(b"long")?;
    /// let shrunk = database.shrink()?;
    /// assert!(shrunk.pages < shrunk.before);
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Truncate`](ebbpool::PoolError::Truncate) if the storage cannot become shorter, as a device;
    /// [`DatabaseError::ReadOnly`], [`DatabaseError::Broken`], [`DatabaseError::Corrupt`], and errors of the pool and the log. The
    /// records are what they were.
    pub fn shrink(&mut self) -> Result<Shrunk, DatabaseError> {
        self.inner.shrink()
    }

    /// Checks every page in use: its checksum, the order and links of the tree, and that the pages reached
    /// from the root are exactly the pages marked as in use. No other thread may change the database
    /// meanwhile.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// let mut database = database;
    /// database.put(b"apple", b"1")?;
    /// assert!(database.check()?.findings.is_empty());
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the pool. Damage is not an error: the report lists it, and why the database takes no more changes, if it does
    /// not.
    pub fn check(&mut self) -> Result<CheckReport, DatabaseError> {
        let _none = self.inner.checkpoints.hold_off();
        let ended = self.inner.finish_ended();
        let broken = self.inner.broken.get();
        if broken.is_none() {
            ended?;
        }
        let mut report = check::check(&self.inner.tree)?;
        report
            .findings
            .extend(broken.map(|why| CheckFinding { page: META, what: DatabaseError::Broken(why.clone()).to_string() }));
        Ok(report)
    }

    /// What is missing from a database that was opened with
    /// [`DatabaseOptions::read_only`](crate::DatabaseOptions::read_only), as far as its pages have been
    /// read; nothing if it is complete.
    pub fn lost(&self) -> Option<LostData> {
        self.inner.read_only_state.as_ref()?.lost()
    }

    /// The log as the pool uses it, for tests that watch the order of writes
    /// ([`FaultyDisk::watch`](ebbpool::storage::FaultyDisk::watch)).
    #[cfg(feature = "test-kit")]
    pub fn log(&self) -> Arc<dyn Log> {
        let log: Arc<dyn Log> = self.inner.tree.wal.clone();
        log
    }

    /// The counters since the database was opened.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"apple", b"1")?;
    /// println!("{} pages read", database.stats().pool.reads());
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    pub fn stats(&self) -> DatabaseStats {
        let inner = &*self.inner;
        DatabaseStats {
            pool: inner.tree.pool.stats(),
            log_bytes: inner.tree.wal.bytes_written(),
            log_length: inner.tree.wal.end_lsn().saturating_sub(inner.tree.wal.begin()),
            log_syncs: inner.tree.wal.syncs(),
            commits: inner.commits.load(Ordering::Relaxed),
            rollbacks: inner.rollbacks.load(Ordering::Relaxed),
            checkpoints: inner.checkpoints.taken(),
            checkpoint_failure: inner.checkpoints.failure(),
            oldest_transaction: inner.live.oldest().map(|(first, since)| OpenTransaction {
                age: since.elapsed(),
                log_bytes: inner.tree.wal.end_lsn().saturating_sub(first),
            }),
            pages: inner.tree.pool.pages(),
            recovery_estimate: inner.recovery_estimate(),
            recovery: inner.recovery,
        }
    }

    /// The number of pages that are free, from the allocation maps, of which each covers some ten thousand pages. New records
    /// use them.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"long", &[1; 100_000])?;
    /// database.delete(b"long")?;
    /// assert!(database.free_pages()? > 20);
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the pool, and [`DatabaseError::Corrupt`].
    pub fn free_pages(&self) -> Result<u64, DatabaseError> {
        let Tree { allocation, pool, admission, .. } = &self.inner.tree;
        let _admitted = admission.enter();
        Ok(pool.pages().saturating_sub(allocation.used(pool)?))
    }

    /// Takes a checkpoint and closes the database. One that is open read-only is only closed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"apple", b"1")?;
    /// database.close()?;
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint). The log has all commits in any case.
    pub fn close(mut self) -> Result<(), DatabaseError> {
        self.checkpointer = None;
        match self.inner.read_only_state {
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
