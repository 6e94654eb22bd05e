//! Records in order of their keys.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};

use crate::database::{DatabaseInner, MOST_TRIES};
use crate::error::DatabaseError;
use crate::locks;
use crate::log::TxnId;
use crate::page::cell::Value;
use crate::tree::LongValue;

/// The number of records in the first batch: about one leaf.
const FIRST_BATCH: usize = 16;

/// The limits of a batch.
const MOST_RECORDS: usize = 1024;
const MOST_BYTES: usize = 1 << 20;

type KeyValue = (Vec<u8>, Vec<u8>);

/// An iterator over the records between two bounds, from either end. It reads one leaf at first, then more
/// at a time. Between these reads other transactions may change the records that follow. It ends with the
/// first error.
pub struct RecordRange<'d> {
    inner: &'d DatabaseInner,
    txn: TxnId,
    /// The bounds of the part that has not been read yet.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    exhausted: bool,
    /// Records before `from`, ascending.
    front: VecDeque<KeyValue>,
    /// Records after `to`, descending.
    back: VecDeque<KeyValue>,
    front_size: usize,
    back_size: usize,
}

/// From which end a batch is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeEnd {
    Front,
    Back,
}

/// The records of one read.
#[derive(Default)]
struct RecordBatch {
    records: Vec<KeyValue>,
    bytes: usize,
    /// There may be more after the last record.
    more: bool,
    /// The key after the last record, if another transaction has locked it.
    locked: Option<Vec<u8>>,
    /// The key after the last record, if its value is to be read without the leaf's latch.
    long: Option<(Vec<u8>, LongValue)>,
}

impl<'d> RecordRange<'d> {
    pub(crate) fn new<K: AsRef<[u8]>>(inner: &'d DatabaseInner, txn: TxnId, bounds: impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (from, to) = (owned(bounds.start_bound()), owned(bounds.end_bound()));
        RecordRange {
            inner,
            txn,
            exhausted: locks::is_empty(slice(&from), slice(&to)),
            from,
            to,
            front: VecDeque::new(),
            back: VecDeque::new(),
            front_size: FIRST_BATCH,
            back_size: FIRST_BATCH,
        }
    }

    /// Announces that the caller will read this number of records, so that they are read at once.
    #[must_use]
    pub fn expecting(mut self, records: usize) -> Self {
        self.front_size = records.clamp(1, MOST_RECORDS);
        self.back_size = self.front_size;
        self
    }

    /// Reads the next batch from one end.
    fn fill(&mut self, end: RangeEnd) -> Result<(), DatabaseError> {
        let size = match end {
            RangeEnd::Front => self.front_size,
            RangeEnd::Back => self.back_size,
        };
        let batch = self.read_whole(end, size)?;
        let larger = (size * 2).min(MOST_RECORDS.max(size));
        self.exhausted = !batch.more;
        let last = batch.records.last().map(|(key, _)| key.clone());
        match end {
            RangeEnd::Front => {
                self.front_size = larger;
                self.from = last.map_or(Bound::Unbounded, Bound::Excluded);
                self.front.extend(batch.records);
            }
            RangeEnd::Back => {
                self.back_size = larger;
                self.to = last.map_or(Bound::Unbounded, Bound::Excluded);
                self.back.extend(batch.records);
            }
        }
        Ok(())
    }

    /// Reads a batch that misses no key which another transaction may restore. It has at least one record,
    /// if there are any.
    fn read_whole(&self, end: RangeEnd, mut size: usize) -> Result<RecordBatch, DatabaseError> {
        let locks = &self.inner.locks;
        let mut tries = 0;
        let mut lock = None;
        loop {
            let brought_back = locks.brought_back();
            let mut batch = self.read(end, size, tries < MOST_TRIES)?;
            if batch.records.is_empty()
                && let Some((key, long)) = batch.long.take()
            {
                let Some(value) = self.inner.read_long(&key, long)? else {
                    tries += 1;
                    continue;
                };
                batch.records.push((key, value));
            }
            // While it waits it has no lock that a transaction may wait for.
            drop(lock.take());
            if let Some(key) = batch.locked.as_ref().filter(|_| batch.records.is_empty()) {
                lock = Some(self.inner.wait_for(self.txn, key)?);
            } else if let Some(key) = self.missing(end, &batch) {
                lock = Some(self.inner.wait_for(self.txn, &key)?);
            } else if locks.brought_back() == brought_back {
                return Ok(batch);
            }
            // A smaller batch leaves other transactions less time to interfere.
            size = (size / 2).max(1);
        }
    }

    /// Stops at a long value if it `may_wait` to be read later.
    fn read(&self, end: RangeEnd, size: usize, may_wait: bool) -> Result<RecordBatch, DatabaseError> {
        let (inner, txn) = (self.inner, self.txn);
        let (near, far) = match end {
            RangeEnd::Front => (slice(&self.from), slice(&self.to)),
            RangeEnd::Back => (slice(&self.to), slice(&self.from)),
        };
        let mut batch = RecordBatch::default();
        let _admitted = inner.tree.admission.enter();
        let mut each = |key: &[u8], value: Value<'_>| {
            if is_beyond(end, key, far) {
                return Ok(ControlFlow::Break(()));
            }
            if inner.locks.is_locked(txn, key) {
                batch.locked = Some(key.to_vec());
                batch.more = true;
                return Ok(ControlFlow::Break(()));
            }
            if may_wait && let Some(long) = inner.tree.long(value)? {
                batch.long = Some((key.to_vec(), long));
                batch.more = true;
                return Ok(ControlFlow::Break(()));
            }
            let value = inner.tree.read_value(value)?;
            batch.bytes += key.len() + value.len();
            batch.records.push((key.to_vec(), value));
            batch.more = batch.records.len() >= size || batch.bytes >= MOST_BYTES;
            Ok(match batch.more {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        };
        match end {
            RangeEnd::Front => inner.tree.ascend(near, &mut each)?,
            RangeEnd::Back => inner.tree.descend(near, &mut each)?,
        }
        Ok(batch)
    }

    /// A key between those of the batch that another transaction has removed and may restore.
    fn missing(&self, end: RangeEnd, batch: &RecordBatch) -> Option<Vec<u8>> {
        let last = match (batch.records.last(), batch.more) {
            (Some((key, _)), true) => Some(Bound::Included(key.as_slice())),
            _ => None,
        };
        let (mut from, to) = match end {
            RangeEnd::Front => (slice(&self.from), last.unwrap_or(slice(&self.to))),
            RangeEnd::Back => (last.unwrap_or(slice(&self.from)), slice(&self.to)),
        };
        let mut seen;
        loop {
            let key = self.inner.locks.removed_between(self.txn, from, to)?;
            // A key in the batch was removed after it was read.
            if !batch.records.iter().any(|(read, _)| *read == key) {
                return Some(key);
            }
            seen = key;
            from = Bound::Excluded(&seen);
        }
    }

    fn step(&mut self, end: RangeEnd) -> Option<Result<KeyValue, DatabaseError>> {
        loop {
            let (near, far) = match end {
                RangeEnd::Front => (&mut self.front, &mut self.back),
                RangeEnd::Back => (&mut self.back, &mut self.front),
            };
            if let Some(record) = near.pop_front() {
                return Some(Ok(record));
            }
            if self.exhausted {
                return far.pop_back().map(Ok);
            }
            if let Err(error) = self.fill(end) {
                self.exhausted = true;
                self.front.clear();
                self.back.clear();
                return Some(Err(error));
            }
        }
    }
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn is_beyond(end: RangeEnd, key: &[u8], bound: Bound<&[u8]>) -> bool {
    match (end, bound) {
        (_, Bound::Unbounded) => false,
        (RangeEnd::Front, Bound::Included(to)) => key > to,
        (RangeEnd::Front, Bound::Excluded(to)) => key >= to,
        (RangeEnd::Back, Bound::Included(from)) => key < from,
        (RangeEnd::Back, Bound::Excluded(from)) => key <= from,
    }
}

impl Iterator for RecordRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), DatabaseError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(RangeEnd::Front)
    }
}

impl DoubleEndedIterator for RecordRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(RangeEnd::Back)
    }
}

impl std::iter::FusedIterator for RecordRange<'_> {}

impl fmt::Debug for RecordRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordRange")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("exhausted", &self.exhausted)
            .finish_non_exhaustive()
    }
}
