//! Records in order of their keys.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};

use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::locks::{self, BeforeImage, Reader};
use crate::page::cell::Value;

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
    reader: Reader,
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

impl RangeEnd {
    /// The order in which it reads keys.
    fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            RangeEnd::Front => a.cmp(b),
            RangeEnd::Back => b.cmp(a),
        }
    }
}

/// The records of one read.
#[derive(Default)]
struct RecordBatch {
    records: Vec<KeyValue>,
    /// Keys to be looked up one by one, without the latch of a leaf: their values are long, or other transactions have changed or
    /// removed them.
    open: Vec<Vec<u8>>,
    /// The key with which it ends, if there may be more after it.
    last: Option<Vec<u8>>,
}

impl RecordBatch {
    /// Ends it with a key.
    fn cut(&mut self, end: RangeEnd, last: Vec<u8>) {
        let is_within = |key: &[u8]| !is_beyond(end, key, Bound::Included(&last));
        self.records.retain(|(key, _)| is_within(key));
        self.open.retain(|key| is_within(key));
        self.last = Some(last);
    }
}

impl<'d> RecordRange<'d> {
    pub(crate) fn new<K: AsRef<[u8]>>(inner: &'d DatabaseInner, reader: Reader, bounds: impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (from, to) = (owned(bounds.start_bound()), owned(bounds.end_bound()));
        RecordRange {
            inner,
            reader,
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
        let mut batch = self.read_whole(end, size)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        for key in std::mem::take(&mut batch.open) {
            let Some(value) = self.inner.get(self.reader, &key)? else { continue };
            bytes += key.len() + value.len();
            found.push((key, value));
            if bytes >= MOST_BYTES {
                batch.cut(end, found[found.len() - 1].0.clone());
                break;
            }
        }
        if !found.is_empty() {
            batch.records.extend(found);
            // The sort is stable: of a key that was removed after it was read its value remains.
            batch.records.sort_by(|(a, _), (b, _)| end.order(a, b));
            batch.records.dedup_by(|(a, _), (b, _)| a == b);
        }
        let larger = (size * 2).min(MOST_RECORDS.max(size));
        self.exhausted = batch.last.is_none();
        let last = batch.last.map_or(Bound::Unbounded, Bound::Excluded);
        match end {
            RangeEnd::Front => {
                self.front_size = larger;
                self.from = last;
                self.front.extend(batch.records);
            }
            RangeEnd::Back => {
                self.back_size = larger;
                self.to = last;
                self.back.extend(batch.records);
            }
        }
        Ok(())
    }

    /// Reads a batch that misses no key which other transactions have removed and may restore.
    fn read_whole(&self, end: RangeEnd, mut size: usize) -> Result<RecordBatch, DatabaseError> {
        let locks = &self.inner.locks;
        loop {
            let brought_back = locks.brought_back();
            let mut batch = self.read(end, size)?;
            let removed = self.removed(end, &batch, size);
            if locks.brought_back() != brought_back {
                // A smaller batch leaves other transactions less time to interfere.
                size = (size / 2).max(1);
                continue;
            }
            if removed.len() == size {
                batch.cut(end, removed[size - 1].clone());
            }
            if !removed.is_empty() {
                batch.open.extend(removed);
                batch.open.sort_by(|a, b| end.order(a, b));
                batch.open.dedup();
            }
            return Ok(batch);
        }
    }

    fn read(&self, end: RangeEnd, size: usize) -> Result<RecordBatch, DatabaseError> {
        let (inner, reader) = (self.inner, self.reader);
        let (near, far) = match end {
            RangeEnd::Front => (slice(&self.from), slice(&self.to)),
            RangeEnd::Back => (slice(&self.to), slice(&self.from)),
        };
        let (mut batch, mut bytes) = (RecordBatch::default(), 0);
        let _admitted = inner.tree.admission.enter();
        let mut each = |key: &[u8], value: Value<'_>| {
            if is_beyond(end, key, far) {
                return Ok(ControlFlow::Break(()));
            }
            match inner.locks.before(reader, key) {
                Some(BeforeImage::ABSENT) => return Ok(ControlFlow::Continue(())),
                None if inner.tree.long(value)?.is_none() => {
                    let value = inner.tree.read_value(value)?;
                    bytes += key.len() + value.len();
                    batch.records.push((key.to_vec(), value));
                }
                _ => batch.open.push(key.to_vec()),
            }
            Ok(match batch.records.len() + batch.open.len() >= size || bytes >= MOST_BYTES {
                true => {
                    batch.last = Some(key.to_vec());
                    ControlFlow::Break(())
                }
                false => ControlFlow::Continue(()),
            })
        };
        match end {
            RangeEnd::Front => inner.tree.ascend(near, &mut each)?,
            RangeEnd::Back => inner.tree.descend(near, &mut each)?,
        }
        Ok(batch)
    }

    /// Keys that other transactions have removed, from this end on to that of the batch, `most` of them.
    fn removed(&self, end: RangeEnd, batch: &RecordBatch, most: usize) -> Vec<Vec<u8>> {
        let last = batch.last.as_deref().map(Bound::Included);
        let within = match end {
            RangeEnd::Front => (slice(&self.from), last.unwrap_or(slice(&self.to))),
            RangeEnd::Back => (last.unwrap_or(slice(&self.from)), slice(&self.to)),
        };
        self.inner.locks.removed_between(self.reader, within, end == RangeEnd::Front, most)
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
