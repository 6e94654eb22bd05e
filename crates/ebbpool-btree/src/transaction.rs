//! Changes that happen all or not at all.

use std::fmt;
use std::ops::{ControlFlow, RangeBounds};
use std::panic::{self, AssertUnwindSafe};

use ebbpool::{Log, Lsn};

use crate::change::Change;
use crate::database::Inner;
use crate::error::Error;
use crate::locks::{Held, Locks};
use crate::log::{Position, Record, TxnId, Undo, Wal};
use crate::options::Durability;
use crate::page::ROOT;
use crate::page::cell::{Value, most_key_bytes};
use crate::range::Range;
use crate::rollback;
use crate::sync::Ordering;
use crate::tree::{Author, Old};

/// Bytes of the longest value.
pub(crate) const LONGEST_VALUE: usize = 64 << 20;

/// A transaction. Dropped, it is rolled back.
///
/// An operation that fails has changed nothing, and the transaction may go on, unless the error is
/// [`Error::Broken`].
pub struct Transaction<'d> {
    inner: &'d Inner,
    chain: Chain<'d>,
    held: Held,
    /// Pages of long values that were replaced or removed.
    frees: Vec<u64>,
    ended: bool,
}

/// The records of a transaction, each of which names the one before it.
struct Chain<'d> {
    inner: &'d Inner,
    txn: TxnId,
    last: Option<Position>,
    /// The log may have something of it.
    begun: bool,
}

impl Author for Chain<'_> {
    fn log(
        &mut self,
        wal: &Wal,
        undo: Undo<'_>,
        changes: Vec<(u64, Change<'_>)>,
    ) -> Result<Lsn, Error> {
        if !self.begun {
            self.inner.live.begin(self.txn, wal);
            self.begun = true;
        }
        let appended = wal.append(&Record::Update {
            txn: self.txn,
            previous: self.last,
            undo,
            changes,
        })?;
        self.last = Some(appended.position);
        Ok(appended.lsn)
    }
}

impl<'d> Transaction<'d> {
    pub(crate) fn new(inner: &'d Inner, txn: TxnId) -> Self {
        Transaction {
            inner,
            chain: Chain {
                inner,
                txn,
                last: None,
                begun: false,
            },
            held: Held::default(),
            frees: Vec::new(),
            ended: false,
        }
    }

    /// The value of a key, its own changes included.
    ///
    /// # Errors
    ///
    /// As [`Database::get`](crate::Database::get).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(self.chain.txn, key)
    }

    /// As [`get`](Self::get), and nobody else changes the key until the transaction ends.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.check_whole()?;
        self.lock(key)?;
        self.get(key)
    }

    /// Gives a key a value.
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::Conflict`], [`Error::Log`],
    /// [`Error::Broken`], [`Error::Corrupt`], and what the pool fails with. The key has its old value
    /// then, and the transaction may go on.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let most = most_key_bytes(self.inner.tree.pool.payload_size());
        if key.len() > most {
            let length = key.len();
            return Err(Error::KeyTooLong { length, most });
        }
        if value.len() > LONGEST_VALUE {
            return Err(Error::ValueTooLong {
                length: value.len(),
                most: LONGEST_VALUE,
            });
        }
        self.all_or_nothing(|this| {
            this.lock(key)?;
            this.put_locked(key, value)
        })
    }

    /// Removes a key; false if it was not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.all_or_nothing(|this| {
            this.lock(key)?;
            let locks = &this.inner.locks;
            let announced = locks.removing(this.chain.txn, key, &mut this.held);
            let removed = this.inner.tree.remove(key, &mut this.chain);
            if announced && matches!(removed, Ok(None)) {
                locks.not_removed(&mut this.held);
            }
            let Some(old) = removed? else {
                return Ok(false);
            };
            this.no_longer_needs(old)?;
            Ok(true)
        })
    }

    /// Calls `update` with key after key from `from` on, ascending, until it has seen `count`. What it
    /// answers, as long as the value, replaces the value. Answers how many keys there were, which
    /// nobody else changes until the transaction ends.
    ///
    /// `update` is called while nobody else gets at the key's page: it must not use the database. If it
    /// panics, what this call has changed is taken back before the panic goes on, and the transaction
    /// may be used further.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), and [`Error::Options`] if a new value has another length. Nothing has
    /// changed then.
    pub fn update_range(
        &mut self,
        from: &[u8],
        count: u64,
        mut update: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> Result<u64, Error> {
        let mut panicked = None;
        let outcome = self.all_or_nothing(|this| {
            let mut update = |key: &[u8], old: &[u8]| {
                // A panic must not meet the page's latch: the pool would take the page for changed by
                // halves.
                let answer = panic::catch_unwind(AssertUnwindSafe(|| update(key, old)));
                let answer = answer.map_err(|payload| {
                    panicked = Some(payload);
                    Error::Options("the update of a record panicked".into())
                });
                same_length(answer?, old)
            };
            let mut from = from.to_vec();
            let mut seen = 0;
            while seen < count {
                match this.update_leaf(&from, count, &mut seen, &mut update)? {
                    Step::Leaf(next) => from = next,
                    Step::End => break,
                    Step::Locked(key) => {
                        this.lock(&key)?;
                        from = key;
                    }
                    Step::Long(mut key) => {
                        let old = this.get(&key)?.ok_or_else(|| {
                            Error::corrupt(ROOT, "a locked key is no longer in the tree under it")
                        })?;
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

    fn update_leaf(
        &mut self,
        from: &[u8],
        count: u64,
        seen: &mut u64,
        update: &mut impl FnMut(&[u8], &[u8]) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<Step, Error> {
        let (locks, tree) = (&self.inner.locks, &self.inner.tree);
        let (txn, held) = (self.chain.txn, &mut self.held);
        let mut stopped = None;
        let mut each = |key: &[u8], value: Value<'_>| {
            if *seen == count {
                return Ok(ControlFlow::Break(()));
            }
            if !locks.try_lock(txn, key, held) {
                stopped = Some(Step::Locked(key.to_vec()));
                return Ok(ControlFlow::Break(()));
            }
            *seen += 1;
            match value {
                Value::Inline(old) => Ok(ControlFlow::Continue(update(key, old)?)),
                // Its pages are read and written without the leaf's latch: the key is locked.
                Value::Overflow { .. } => {
                    stopped = Some(Step::Long(key.to_vec()));
                    Ok(ControlFlow::Break(()))
                }
            }
        };
        tree.pool.throttle();
        let next = tree.update_leaf(from, &mut each, &mut self.chain)?;
        Ok(stopped.unwrap_or_else(|| next.map_or(Step::End, Step::Leaf)))
    }

    /// Records in order of their keys, its own changes included.
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Range<'_> {
        Range::new(self.inner, self.chain.txn, bounds)
    }

    /// Loads an empty tree.
    pub(crate) fn load(
        &mut self,
        records: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>,
        fill: f64,
    ) -> Result<u64, Error> {
        self.inner.check_whole()?;
        let _broken = self.inner.broken_by_panic();
        self.inner.tree.load(records, fill, &mut self.chain)
    }

    fn lock(&mut self, key: &[u8]) -> Result<(), Error> {
        let locked = self.inner.locks.lock(self.chain.txn, key, &mut self.held);
        locked.map_err(|conflict| self.inner.check_whole().err().unwrap_or(conflict))
    }

    fn put_locked(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let tree = &self.inner.tree;
        let value = match tree.overflows(key, value) {
            true => tree.store(value, &mut self.chain)?,
            false => Value::Inline(value),
        };
        match tree.put(key, value, &mut self.chain)? {
            Some(old) => self.no_longer_needs(old),
            None => {
                self.inner.locks.put(key, &mut self.held);
                Ok(())
            }
        }
    }

    /// The pages of a value stay as they are until the transaction has committed.
    fn no_longer_needs(&mut self, old: Old) -> Result<(), Error> {
        if let Old::Overflow { first } = old {
            self.frees.extend(self.inner.tree.overflow_pages(first)?);
        }
        Ok(())
    }

    /// Takes back what an operation has done so far, if it fails.
    fn all_or_nothing<R>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.inner.check_whole()?;
        self.inner.tree.pool.throttle();
        let _broken = self.inner.broken_by_panic();
        let (before, frees) = (self.chain.last, self.frees.len());
        let outcome = operation(self);
        if outcome.is_err() {
            self.frees.truncate(frees);
            let Chain { txn, last, .. } = self.chain;
            if let Err(error) = rollback::roll_back(&self.inner.tree, txn, last, before) {
                // Part of it was taken back, which must not happen twice.
                self.ended = true;
                return Err(self
                    .inner
                    .broken_by("an operation cannot be taken back", &error));
            }
            self.chain.last = before;
            Locks::taken_back(&mut self.held);
        }
        outcome
    }

    /// Makes it count. Returns when it is as durable as the database was opened for.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: whether it counts will be known when the database is reopened, and until then
    /// nobody gets at its keys. [`Error::Broken`]: it does not count.
    pub fn commit(self) -> Result<(), Error> {
        let durability = self.inner.durability;
        self.commit_as(durability)
    }

    pub(crate) fn commit_as(mut self, durability: Durability) -> Result<(), Error> {
        if self.chain.last.is_some() {
            self.inner.check_whole()?;
            // Whatever comes of it, there is no way back.
            self.ended = true;
            let _broken = self.inner.broken_by_panic();
            let made = self.make_it_count(durability);
            made.inspect_err(|error| _ = self.inner.broken_by("a commit failed", error))?;
            self.tidy_up();
        } else {
            self.ended = true;
            self.end_without_changes()?;
        }
        self.inner.commits.fetch_add(1, Ordering::Relaxed);
        self.inner.checkpoint_if_due();
        Ok(())
    }

    fn make_it_count(&mut self, durability: Durability) -> Result<(), Error> {
        let wal = &*self.inner.tree.wal;
        // Neighbours are freed together.
        self.frees.sort_unstable();
        let appended = wal.append(&Record::Commit {
            txn: self.chain.txn,
            durable: wal.durable_lsn(),
            frees: self.frees.clone(),
        })?;
        match durability {
            Durability::None => Ok(()),
            Durability::Buffered => wal.write(),
            Durability::Synced => wal.sync(appended.lsn),
        }
    }

    /// After the commit: nothing of this can make it fail.
    fn tidy_up(&mut self) {
        let frees = std::mem::take(&mut self.frees);
        let txn = self.chain.txn;
        if !frees.is_empty()
            && let Err(error) = rollback::free(&self.inner.tree, txn, &frees, 0)
        {
            // Recovery frees them, by the commit's record, which the log keeps for as long as the
            // transaction counts as live.
            self.inner.broken_by("pages cannot be freed", &error);
        } else {
            self.inner.live.end(txn);
        }
        self.release(false);
    }

    fn release(&mut self, rolled_back: bool) {
        let held = std::mem::take(&mut self.held);
        self.inner.locks.release(held, rolled_back);
    }

    /// Nothing of it is in the tree.
    fn end_without_changes(&mut self) -> Result<(), Error> {
        let txn = self.chain.txn;
        if self.chain.begun {
            let ended = self.inner.tree.wal.append(&Record::End { txn });
            ended.map_err(|error| self.inner.broken_by("the log takes no more", &error))?;
            self.inner.live.end(txn);
        }
        self.release(true);
        Ok(())
    }

    /// Takes all of it back.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`] if that is not possible. Then its changes stay where nobody gets at them, and
    /// are taken back when the database is reopened.
    pub fn rollback(mut self) -> Result<(), Error> {
        self.take_all_back()
    }

    fn take_all_back(&mut self) -> Result<(), Error> {
        if self.ended {
            return self.inner.check_whole();
        }
        self.ended = true;
        if self.chain.begun {
            // Its chain may lack a record that the log has, or a page its change: recovery sees to it.
            self.inner.check_whole()?;
        }
        let _broken = self.inner.broken_by_panic();
        let Chain { txn, last, .. } = self.chain;
        rollback::roll_back(&self.inner.tree, txn, last, None).map_err(|error| {
            self.inner
                .broken_by("a transaction cannot be rolled back", &error)
        })?;
        self.end_without_changes()?;
        self.inner.rollbacks.fetch_add(1, Ordering::Relaxed);
        self.inner.checkpoint_if_due();
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // Whoever comes next is told: the database is broken then.
        let _ = self.take_all_back();
    }
}

/// Where an update of a range got to.
enum Step {
    /// A leaf is done; the next one has keys from this one on.
    Leaf(Vec<u8>),
    End,
    /// Somebody has this key.
    Locked(Vec<u8>),
    /// This key's value is not in the leaf.
    Long(Vec<u8>),
}

fn same_length(new: Option<Vec<u8>>, old: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    match new {
        Some(new) if new.len() != old.len() => Err(Error::Options(format!(
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
