//! Transactions: changes that take effect together or not at all.

use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::panic::{self, AssertUnwindSafe};

use ebbpool::{Log, Lsn};

use crate::change::Change;
use crate::database::DatabaseInner;
use crate::ended::EndedTransaction;
use crate::error::DatabaseError;
use crate::locks::{BeforeImage, HeldLocks, Locks, Reader};
use crate::log::{Position, Record, RoomUse, TxnId, Undo, Wal};
use crate::options::Durability;
use crate::page::ROOT;
use crate::page::cell::{Value, most_key_bytes, read_leaf_cell};
use crate::range::RecordRange;
use crate::rollback::{self, UnfinishedTransaction};
use crate::sync::Ordering;
use crate::tree::{ChangeLogger, OldValue, Tree};

/// The length of the longest value in bytes.
pub(crate) const LONGEST_VALUE: usize = 64 << 20;

/// The most bytes of log that the end of a transaction takes, and the freeing of a page.
pub(crate) const OF_END: u64 = 128;
pub(crate) const OF_FREED_PAGE: u64 = 16;

/// A transaction. Dropping it rolls it back.
///
/// An operation that fails changes nothing, and the transaction may go on, unless the error is
/// [`DatabaseError::RolledBack`] or [`DatabaseError::Broken`].
pub struct Transaction<'d> {
    inner: &'d DatabaseInner,
    chain: RecordChain<'d>,
    held: HeldLocks,
    /// Pages of long values that were replaced or removed.
    frees: Vec<u64>,
    ended: bool,
    /// Why it was rolled back, unless the caller asked for that.
    why: String,
}

/// The records of a transaction, each of which names the one before it.
struct RecordChain<'d> {
    inner: &'d DatabaseInner,
    txn: TxnId,
    last: Option<Position>,
    /// True if the log may have a record of it.
    begun: bool,
    /// The room in the log for the end of the transaction.
    room: u64,
}

impl RecordChain<'_> {
    fn keep_room(&mut self, bytes: u64) {
        self.inner.tree.wal.keep_room(bytes);
        self.room += bytes;
    }
}

impl ChangeLogger for RecordChain<'_> {
    fn log(&mut self, wal: &Wal, undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError> {
        if !self.begun {
            self.inner.live.begin(self.txn, wal);
            self.begun = true;
            self.keep_room(OF_END);
        }
        let appended = wal.append(&Record::Update { txn: self.txn, previous: self.last, undo: undo.clone(), changes })?;
        self.last = Some(appended.position);
        // Under the leaf's latch, before it has the change.
        match undo {
            Undo::Remove { key } => self.inner.locks.changing(key, BeforeImage::ABSENT),
            Undo::Restore { cell } => {
                if let Some((key, ..)) = read_leaf_cell(cell) {
                    self.inner.locks.changing(key, BeforeImage::logged(appended.position));
                }
            }
            Undo::Free { .. } | Undo::Empty => {}
        }
        self.keep_room(appended.lsn - appended.position);
        Ok(appended.lsn)
    }
}

impl<'d> Transaction<'d> {
    pub(crate) fn new(inner: &'d DatabaseInner, txn: TxnId) -> Self {
        Transaction {
            inner,
            chain: RecordChain { inner, txn, last: None, begun: false, room: 0 },
            held: HeldLocks::default(),
            frees: Vec::new(),
            ended: false,
            why: String::new(),
        }
    }

    /// The value of a key, this transaction's own changes included.
    ///
    /// # Errors
    ///
    /// As [`Database::get`](crate::Database::get).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.inner.get(self.reader(), key)
    }

    /// The value of a key, this transaction's own changes included. Locks the key: no other transaction changes it until this one ends.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// database.put(b"stock", b"3")?;
    /// let mut transaction = database.begin();
    /// if transaction.get_for_update(b"stock")? == Some(b"3".to_vec()) {
    ///     transaction.put(b"stock", b"2")?; // no other transaction has changed it
    /// }
    /// transaction.commit()?;
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.check_open()?;
        self.lock(key)?;
        self.get(key)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::KeyTooLong`], [`DatabaseError::ValueTooLong`], [`DatabaseError::Conflict`],
    /// [`DatabaseError::Full`], [`DatabaseError::Log`], [`DatabaseError::Corrupt`], and errors of the pool and of a checkpoint
    /// for which the log had to wait. The key has its old value then, and the transaction may go on. It may not after
    /// [`DatabaseError::RolledBack`] and [`DatabaseError::Broken`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        let most = most_key_bytes(self.inner.tree.pool.payload_size());
        if key.len() > most {
            let length = key.len();
            return Err(DatabaseError::KeyTooLong { length, most });
        }
        if value.len() > LONGEST_VALUE {
            return Err(DatabaseError::ValueTooLong { length: value.len(), most: LONGEST_VALUE });
        }
        self.all_or_nothing(|this| {
            this.lock(key)?;
            this.put_locked(key, value)
        })
    }

    /// Removes a key. Returns false if it was not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, DatabaseError> {
        self.all_or_nothing(|this| {
            this.lock(key)?;
            let locks = &this.inner.locks;
            let _room = this.inner.room_for(RoomUse::Delete, log_of(0, &this.inner.tree))?;
            let _admitted = this.inner.tree.admission.enter();
            let announced = locks.removing(this.chain.txn, key, &mut this.held);
            let removed = this.inner.tree.remove(key, &mut this.chain);
            if announced && matches!(removed, Ok(None)) {
                locks.not_removed(&mut this.held);
            }
            let Some(old) = removed? else {
                return Ok(false);
            };
            this.free_at_commit(old)?;
            Ok(true)
        })
    }

    /// Calls `update` with at most `count` keys in ascending order, from `from` on, and their values. A
    /// value that it returns replaces the old one and must have the same length. Returns the number of
    /// keys. No other transaction changes them until this one ends.
    ///
    /// The transaction holds the latch of the key's page during the call, so `update` must not use the
    /// database. If it panics, the changes of `update_range` are undone before the panic resumes, and the
    /// transaction may go on.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Options`] if a new value has another length, and the errors of [`put`](Self::put). Nothing has
    /// changed then.
    pub fn update_range(
        &mut self,
        from: &[u8],
        count: u64,
        mut update: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> Result<u64, DatabaseError> {
        let mut panicked = None;
        let outcome = self.all_or_nothing(|this| {
            let mut update = |key: &[u8], old: &[u8]| {
                // A panic must not unwind through the page's latch: the pool would take the page for half
                // changed.
                let answer = panic::catch_unwind(AssertUnwindSafe(|| update(key, old)));
                let answer = answer.map_err(|payload| {
                    panicked = Some(payload);
                    DatabaseError::Options("the update of a record panicked".into())
                });
                same_length(answer?, old)
            };
            let mut from = from.to_vec();
            let mut seen = 0;
            while seen < count {
                this.inner.keep_log_short()?;
                match this.update_leaf(&from, count, &mut seen, &mut update)? {
                    UpdateStep::Leaf(next) => from = next,
                    UpdateStep::End => break,
                    UpdateStep::Locked(key) => {
                        this.lock(&key)?;
                        from = key;
                    }
                    UpdateStep::Long(mut key) => {
                        let old = this
                            .get(&key)?
                            .ok_or_else(|| DatabaseError::corrupt(ROOT, "a locked key is no longer in the tree under it"))?;
                        if let Some(new) = update(&key, &old)? {
                            this.put_locked(&key, &new)?;
                        }
                        key.push(0);
                        from = key;
                    }
                }
            }
            Ok(seen)
        });
        match panicked {
            Some(payload) => panic::resume_unwind(payload),
            None => outcome,
        }
    }

    /// A key that another transaction has removed, and may restore, is as one that it has locked.
    fn update_leaf(
        &mut self,
        from: &[u8],
        count: u64,
        seen: &mut u64,
        update: &mut impl FnMut(&[u8], &[u8]) -> Result<Option<Vec<u8>>, DatabaseError>,
    ) -> Result<UpdateStep, DatabaseError> {
        let (locks, tree) = (&self.inner.locks, &self.inner.tree);
        let (txn, held) = (self.chain.txn, &mut self.held);
        let (mut stopped, reader) = (None, held.reader(txn));
        let brought_back = locks.brought_back();
        // The keys before this one have been seen.
        let mut at = from.to_vec();
        let removed = |at: &[u8], end: Bound<&[u8]>| {
            let first = locks.removed_between(reader, (Bound::Included(at), end), true, 1).pop();
            first.map(UpdateStep::Locked)
        };
        let mut each = |key: &[u8], value: Value<'_>| {
            if *seen == count {
                return Ok(ControlFlow::Break(()));
            }
            // Under the leaf's latch: who has removed a key from it had announced that before.
            stopped = removed(&at, Bound::Excluded(key));
            if stopped.is_none() && !locks.try_lock(txn, key, held) {
                stopped = Some(UpdateStep::Locked(key.to_vec()));
            }
            if stopped.is_some() {
                return Ok(ControlFlow::Break(()));
            }
            *seen += 1;
            at.clear();
            at.extend_from_slice(key);
            at.push(0);
            match value {
                Value::Inline(old) => Ok(ControlFlow::Continue(update(key, old)?)),
                // The key is locked, so its pages are read and written without the leaf's latch.
                Value::Overflow { .. } => {
                    stopped = Some(UpdateStep::Long(key.to_vec()));
                    Ok(ControlFlow::Break(()))
                }
            }
        };
        tree.pool.throttle();
        let _room = self.inner.room_for(RoomUse::Change, log_of(0, tree))?;
        let _admitted = tree.admission.enter();
        let next = tree.update_leaf(from, &mut each, &mut self.chain)?;
        if stopped.is_none() && *seen < count {
            let end = next.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            stopped = removed(&at, end);
            if stopped.is_none() && locks.brought_back() != brought_back {
                // A key may have been restored since the leaf was read.
                return Ok(UpdateStep::Leaf(at));
            }
        }
        Ok(stopped.unwrap_or_else(|| next.map_or(UpdateStep::End, UpdateStep::Leaf)))
    }

    /// Records in order of their keys, its own changes included.
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> RecordRange<'_> {
        RecordRange::new(self.inner, self.reader(), bounds)
    }

    /// The reader that it is: none in particular if it was rolled back, since its own changes may be left to be undone.
    fn reader(&self) -> Reader {
        match self.ended {
            true => Reader::default(),
            false => self.held.reader(self.chain.txn),
        }
    }

    /// # Errors
    ///
    /// [`DatabaseError::RolledBack`], or as [`DatabaseInner::check_writable`].
    fn check_open(&self) -> Result<(), DatabaseError> {
        self.inner.check_writable()?;
        // What fails there may be in the way of this operation, which finds that out itself.
        let _ = self.inner.finish_ended();
        match self.ended {
            true => Err(DatabaseError::RolledBack(self.why.clone())),
            false => Ok(()),
        }
    }

    /// Loads an empty tree.
    pub(crate) fn load(
        &mut self,
        records: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), DatabaseError>>,
        fill: f64,
    ) -> Result<u64, DatabaseError> {
        self.inner.check_writable()?;
        self.inner.finish_ended()?;
        let _broken = self.inner.panic_guard();
        self.inner.tree.load(records, fill, &mut self.chain)
    }

    fn lock(&mut self, key: &[u8]) -> Result<(), DatabaseError> {
        let locked = self.inner.locks.lock(self.chain.txn, key, &mut self.held);
        locked.map_err(|conflict| self.inner.check_writable().err().unwrap_or(conflict))
    }

    fn put_locked(&mut self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        let tree = &self.inner.tree;
        let _room = self.inner.room_for(RoomUse::Change, log_of(key.len() + value.len(), tree))?;
        let _admitted = tree.admission.enter();
        let value = match tree.overflows(key, value) {
            true => tree.store(value, &mut self.chain)?,
            false => Value::Inline(value),
        };
        match tree.put(key, value, &mut self.chain)? {
            Some(old) => self.free_at_commit(old),
            None => {
                self.inner.locks.put(key, &mut self.held);
                Ok(())
            }
        }
    }

    /// Notes the pages of a replaced value. They remain unchanged until the transaction has committed.
    fn free_at_commit(&mut self, old: OldValue) -> Result<(), DatabaseError> {
        if let OldValue::Overflow { first } = old {
            let pages = self.inner.tree.overflow_pages(first)?;
            let bytes = pages.len() as u64 * OF_FREED_PAGE;
            let _room = self.inner.tree.wal.promise_room(bytes, RoomUse::Delete)?;
            self.chain.keep_room(bytes);
            self.frees.extend(pages);
        }
        Ok(())
    }

    /// Runs an operation, and undoes its changes if it fails.
    fn all_or_nothing<R>(&mut self, operation: impl FnOnce(&mut Self) -> Result<R, DatabaseError>) -> Result<R, DatabaseError> {
        self.check_open()?;
        self.inner.keep_log_short()?;
        self.inner.tree.pool.throttle();
        let _broken = self.inner.panic_guard();
        let (before, frees) = (self.chain.last, self.frees.len());
        let outcome = operation(self);
        if outcome.is_err() {
            self.frees.truncate(frees);
            Locks::operation_undone(&mut self.held);
            let RecordChain { txn, last, .. } = &mut self.chain;
            let undo = || rollback::roll_back(&self.inner.tree, *txn, last, before).map(drop);
            if let Err(error) = self.inner.patiently("an operation cannot be undone", undo) {
                self.why = error.to_string();
                // If that fails too, it is done later.
                let _ = self.roll_back_all();
                return self.check_open().and(outcome);
            }
            self.chain.last = before;
        }
        outcome
    }

    /// Commits the transaction. Returns when the commit is as durable as the database's [`Durability`]
    /// demands.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// let mut transaction = database.begin();
    /// transaction.put(b"apple", b"1")?;
    /// transaction.commit()?;
    /// assert!(database.get(b"apple")?.is_some());
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// After [`DatabaseError::Log`] the log has the commit in memory and could not write it: later calls try again, and its
    /// keys stay locked until then. If a sync of the log failed, it is not known whether the transaction has committed until
    /// the database is reopened. After [`DatabaseError::Broken`] and [`DatabaseError::RolledBack`] it
    /// has not committed.
    pub fn commit(self) -> Result<(), DatabaseError> {
        let durability = self.inner.durability;
        self.commit_as(durability)
    }

    pub(crate) fn commit_as(mut self, durability: Durability) -> Result<(), DatabaseError> {
        if self.ended {
            return self.check_open();
        }
        if self.chain.last.is_some() {
            self.inner.check_writable()?;
            // From here on the transaction cannot be rolled back.
            self.ended = true;
            let _broken = self.inner.panic_guard();
            let lsn = self.append_commit().map_err(|error| self.inner.break_with("a commit failed", &error))?;
            self.inner.locks.committed(&self.held, lsn);
            let left = UnfinishedTransaction::Freeing { pages: std::mem::take(&mut self.frees), done: 0 };
            self.inner.end(self.ended_with(left, Some((durability, lsn))))?;
        } else {
            self.end_without_commit()?;
        }
        self.inner.commits.fetch_add(1, Ordering::Relaxed);
        self.inner.checkpoint_if_due();
        Ok(())
    }

    fn append_commit(&mut self) -> Result<Lsn, DatabaseError> {
        let wal = &*self.inner.tree.wal;
        // In order, so that neighbouring pages are freed together.
        self.frees.sort_unstable();
        let record = Record::Commit { txn: self.chain.txn, durable: wal.durable_lsn(), frees: self.frees.clone() };
        Ok(wal.append(&record)?.lsn)
    }

    /// Ends a transaction, and undoes its changes if there are any.
    fn end_without_commit(&mut self) -> Result<(), DatabaseError> {
        self.ended = true;
        if !self.chain.begun {
            // What it has read of its keys is to be durable.
            let commit = Some((self.inner.durability, self.held.after)).filter(|&(_, after)| after > 0);
            let left = UnfinishedTransaction::Freeing { pages: Vec::new(), done: 0 };
            return self.inner.end(self.ended_with(left, commit));
        }
        // In a broken database the chain may lack a record of the log, or a page a change; recovery undoes them.
        self.inner.check_writable()?;
        let _broken = self.inner.panic_guard();
        let ended = self.ended_with(UnfinishedTransaction::Loser { from: self.chain.last }, None);
        let outcome = self.inner.end(ended);
        outcome.map_err(|error| self.inner.check_writable().err().unwrap_or(error))
    }

    fn ended_with(&mut self, left: UnfinishedTransaction, commit: Option<(Durability, Lsn)>) -> EndedTransaction {
        let RecordChain { txn, room, .. } = self.chain;
        EndedTransaction { txn, left, held: std::mem::take(&mut self.held), commit, room }
    }

    /// Undoes all changes of the transaction.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let database = ebbpool_btree::DatabaseOptions::new(256).open(directory.path().join("my.db"))?;
    /// let mut transaction = database.begin();
    /// transaction.put(b"apple", b"1")?;
    /// transaction.rollback()?;
    /// assert!(database.get(b"apple")?.is_none());
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the pool and the log: it is rolled back by a later call, by the checkpoint thread, or when the database is
    /// closed, and its keys stay locked until then. [`DatabaseError::Broken`] if that is not possible: recovery undoes the
    /// changes when the database is reopened.
    pub fn rollback(mut self) -> Result<(), DatabaseError> {
        self.roll_back_all()
    }

    fn roll_back_all(&mut self) -> Result<(), DatabaseError> {
        if self.ended {
            self.inner.check_writable()?;
            return self.inner.finish_ended();
        }
        self.inner.rollbacks.fetch_add(1, Ordering::Relaxed);
        self.end_without_commit()?;
        self.inner.checkpoint_if_due();
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // If this fails, it is done later, or the database is broken, and the next call returns an error.
            let _ = self.roll_back_all();
        }
    }
}

/// The most bytes that an operation logs, with what its rollback logs: those of its key and value, also as the value's
/// pages, and splits or merges at each level, or the records of one leaf.
fn log_of(bytes: usize, tree: &Tree) -> u64 {
    let page = tree.pool.payload_size();
    (bytes * 3 + bytes / page * 256 + page * 16) as u64
}

/// How far an update of a range has come.
enum UpdateStep {
    /// The leaf is done; the next one has keys from this one on.
    Leaf(Vec<u8>),
    End,
    /// Another transaction has locked this key.
    Locked(Vec<u8>),
    /// This key's value is not in the leaf.
    Long(Vec<u8>),
}

fn same_length(new: Option<Vec<u8>>, old: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
    match new {
        Some(new) if new.len() != old.len() => Err(DatabaseError::Options(format!(
            "a value of {} bytes cannot be updated in place to one of {}; put it",
            old.len(),
            new.len()
        ))),
        new => Ok(new),
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("number", &self.chain.txn)
            .field("changed", &self.chain.last.is_some())
            .finish_non_exhaustive()
    }
}
