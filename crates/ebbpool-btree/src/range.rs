//! Records in order of their keys.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};

use crate::database::{Inner, MOST_TRIES};
use crate::error::Error;
use crate::locks;
use crate::log::TxnId;
use crate::page::cell::Value;
use crate::tree::Long;

/// Records of the first batch: about a leaf of them.
const FIRST_BATCH: usize = 16;

/// The most that batches grow to.
const MOST_RECORDS: usize = 1024;
const MOST_BYTES: usize = 1 << 20;

type Pair = (Vec<u8>, Vec<u8>);

/// Records between two bounds, from either end. It reads a leaf at first, then more and more of them
/// at a time; between them others may change what comes. It ends with the first error.
pub struct Range<'d> {
    inner: &'d Inner,
    txn: TxnId,
    /// What has not been read yet.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    exhausted: bool,
    /// Records before `from`, ascending.
    front: VecDeque<Pair>,
    /// Records after `to`, descending.
    back: VecDeque<Pair>,
    front_size: usize,
    back_size: usize,
}

/// From which end a batch is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// What was read in one go.
#[derive(Default)]
struct Batch {
    records: Vec<Pair>,
    bytes: usize,
    /// There may be more behind the last record.
    more: bool,
    /// The key behind the last record, where somebody has it locked.
    locked: Option<Vec<u8>>,
    /// The key behind the last record, where its value is to be read without the leaf's latch.
    long: Option<(Vec<u8>, Long)>,
}

impl<'d> Range<'d> {
    pub(crate) fn new<K: AsRef<[u8]>>(
        inner: &'d Inner,
        txn: TxnId,
        bounds: impl RangeBounds<K>,
    ) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (from, to) = (owned(bounds.start_bound()), owned(bounds.end_bound()));
        Range {
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

    /// Says that so many records will be wanted, so that they are read in one go.
    #[must_use]
    pub fn expecting(mut self, records: usize) -> Self {
        self.front_size = records.clamp(1, MOST_RECORDS);
        self.back_size = self.front_size;
        self
    }

    /// Reads the next batch from one end.
    fn fill(&mut self, end: End) -> Result<(), Error> {
        let size = match end {
            End::Front => self.front_size,
            End::Back => self.back_size,
        };
        let batch = self.read_whole(end, size)?;
        let larger = (size * 2).min(MOST_RECORDS.max(size));
        self.exhausted = !batch.more;
        let last = batch.records.last().map(|(key, _)| key.clone());
        match end {
            End::Front => {
                self.front_size = larger;
                self.from = last.map_or(Bound::Unbounded, Bound::Excluded);
                self.front.extend(batch.records);
            }
            End::Back => {
                self.back_size = larger;
                self.to = last.map_or(Bound::Unbounded, Bound::Excluded);
                self.back.extend(batch.records);
            }
        }
        Ok(())
    }

    /// A batch in which no key is missing that another transaction may bring back: of one record at
    /// least, if there are any.
    fn read_whole(&self, end: End, mut size: usize) -> Result<Batch, Error> {
        let locks = &self.inner.locks;
        let mut tries = 0;
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
            if let Some(key) = batch.locked.as_ref().filter(|_| batch.records.is_empty()) {
                self.inner.wait_for(self.txn, key)?;
            } else if let Some(key) = self.missing(end, &batch) {
                self.inner.wait_for(self.txn, &key)?;
            } else if locks.brought_back() == brought_back {
                return Ok(batch);
            }
            // The less it reads, the less can happen meanwhile.
            size = (size / 2).max(1);
        }
    }

    /// Long values are left to be read later if they `may_wait`.
    fn read(&self, end: End, size: usize, may_wait: bool) -> Result<Batch, Error> {
        let (inner, txn) = (self.inner, self.txn);
        let (near, far) = match end {
            End::Front => (slice(&self.from), slice(&self.to)),
            End::Back => (slice(&self.to), slice(&self.from)),
        };
        let mut batch = Batch::default();
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
            End::Front => inner.tree.ascend(near, &mut each)?,
            End::Back => inner.tree.descend(near, &mut each)?,
        }
        Ok(batch)
    }

    /// A key among those of the batch that another transaction has removed, and may bring back.
    fn missing(&self, end: End, batch: &Batch) -> Option<Vec<u8>> {
        let last = match (batch.records.last(), batch.more) {
            (Some((key, _)), true) => Some(Bound::Included(key.as_slice())),
            _ => None,
        };
        let (mut from, to) = match end {
            End::Front => (slice(&self.from), last.unwrap_or(slice(&self.to))),
            End::Back => (last.unwrap_or(slice(&self.from)), slice(&self.to)),
        };
        let mut seen;
        loop {
            let key = self.inner.locks.removed_between(self.txn, from, to)?;
            // It was removed after it was read.
            if !batch.records.iter().any(|(read, _)| *read == key) {
                return Some(key);
            }
            seen = key;
            from = Bound::Excluded(&seen);
        }
    }

    fn step(&mut self, end: End) -> Option<Result<Pair, Error>> {
        loop {
            let (near, far) = match end {
                End::Front => (&mut self.front, &mut self.back),
                End::Back => (&mut self.back, &mut self.front),
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

fn is_beyond(end: End, key: &[u8], bound: Bound<&[u8]>) -> bool {
    match (end, bound) {
        (_, Bound::Unbounded) => false,
        (End::Front, Bound::Included(to)) => key > to,
        (End::Front, Bound::Excluded(to)) => key >= to,
        (End::Back, Bound::Included(from)) => key < from,
        (End::Back, Bound::Excluded(from)) => key <= from,
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

impl std::iter::FusedIterator for Range<'_> {}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("exhausted", &self.exhausted)
            .finish_non_exhaustive()
    }
}
