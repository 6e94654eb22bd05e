//! Long values: chains of overflow pages. They are stored from the last part to the first, so that each
//! page refers to one that exists already.

use ebbpool::Lsn;

use super::restructure::{apply, mark};
use super::{ChangeLogger, Tree};
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::log::Undo;
use crate::page::cell::{Value, leaf_cell_size, most_inline_cell};
use crate::page::class::OVERFLOW;
use crate::page::overflow::OverflowPart;

/// The longest value, in bytes.
pub(crate) const MOST_VALUE_BYTES: usize = 64 << 20;

/// A value in more pages than this is read without its leaf's latch.
const MOST_PARTS_UNDER_LATCH: usize = 16;

/// A value in many pages, as a leaf had it. Its pages remain unchanged until a transaction that replaced
/// the value has committed, and a page that is used again gets a greater LSN. So if the leaf still has the
/// value with the same first page, and that page still has the same LSN, the value has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongValue {
    first: u64,
    length: u32,
    /// The LSN of the first page.
    lsn: Lsn,
}

impl LongValue {
    pub(crate) fn value(self) -> Value<'static> {
        let LongValue { first, length, .. } = self;
        Value::Overflow { first, length }
    }
}

impl Tree {
    /// Whether a value is too long for a leaf.
    pub(crate) fn overflows(&self, key: &[u8], value: &[u8]) -> bool {
        leaf_cell_size(key, Value::Inline(value)) > most_inline_cell(self.pool.payload_size())
    }

    /// Writes a long value to overflow pages, each with a log record of its own, whose undo frees the page.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::ValueTooLong`], errors of the pool and the log. Pages with records are in use then: the
    /// caller rolls back.
    pub(crate) fn store(&self, value: &[u8], logger: &mut dyn ChangeLogger) -> Result<Value<'static>, DatabaseError> {
        let length = match u32::try_from(value.len()) {
            Ok(length) if value.len() <= MOST_VALUE_BYTES => length,
            _ => {
                let (length, most) = (value.len(), MOST_VALUE_BYTES);
                return Err(DatabaseError::ValueTooLong { length, most });
            }
        };
        let mut first = 0;
        for part in value.chunks(self.most_in_part()).rev() {
            self.pool.throttle();
            first = self.store_part(part, first, logger)?;
        }
        Ok(Value::Overflow { first, length })
    }

    fn store_part(&self, bytes: &[u8], next: u64, logger: &mut dyn ChangeLogger) -> Result<u64, DatabaseError> {
        let mut taken = self.allocation.take(&self.pool, &self.wal, OVERFLOW)?;
        let page = taken.page.page();
        let format = Change::Format(Content::Overflow { next, bytes });
        let (map, mark) = mark(&taken);
        let undo = Undo::Free { first: page, count: 1 };
        let changes = vec![(page, format.clone()), (map, mark.clone())];
        let lsn = match logger.log(&self.wal, undo, changes) {
            Ok(lsn) => lsn,
            Err(error) => {
                self.allocation.give_back(&self.pool, taken);
                return Err(error);
            }
        };
        apply(&format, &mut taken.page, lsn)?;
        apply(&mark, &mut taken.map, lsn)?;
        Ok(page)
    }

    /// Reads a whole value.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`], and errors of the pool.
    pub(crate) fn read_value(&self, value: Value<'_>) -> Result<Vec<u8>, DatabaseError> {
        let (first, length) = match value {
            Value::Inline(bytes) => return Ok(bytes.to_vec()),
            Value::Overflow { first, length } => (first, length as usize),
        };
        let mut whole = Vec::with_capacity(length.min(MOST_VALUE_BYTES));
        self.each_part(first, &mut |_, part| whole.extend_from_slice(part))?;
        match whole.len() == length {
            true => Ok(whole),
            false => Err(DatabaseError::corrupt(
                first,
                format!("a value of {length} bytes begins there, and its pages have {}", whole.len()),
            )),
        }
    }

    /// Describes a value, whose leaf the caller has latched, if it is in many pages.
    ///
    /// # Errors
    ///
    /// Errors of the pool, and [`DatabaseError::Corrupt`].
    pub(crate) fn long(&self, value: Value<'_>) -> Result<Option<LongValue>, DatabaseError> {
        match value {
            Value::Overflow { first, length } if length as usize > MOST_PARTS_UNDER_LATCH * self.most_in_part() => {
                let lsn = self.pool.of_class(OVERFLOW).fix_read(first)?.lsn();
                Ok(Some(LongValue { first, length, lsn }))
            }
            _ => Ok(None),
        }
    }

    /// The pages of a long value, in order.
    ///
    /// # Errors
    ///
    /// As [`read_value`](Self::read_value).
    pub(crate) fn overflow_pages(&self, first: u64) -> Result<Vec<u64>, DatabaseError> {
        let mut pages = Vec::new();
        self.each_part(first, &mut |page, _| pages.push(page))?;
        Ok(pages)
    }

    fn each_part(&self, first: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), DatabaseError> {
        let most = self.most_in_part();
        let (mut page, mut length) = (first, 0);
        loop {
            let guard = self.pool.of_class(OVERFLOW).fix_read(page)?;
            let part = OverflowPart::read(page, &guard)?;
            length += part.bytes.len();
            // Only the last part may be shorter than a page, so a circle of pages ends at the greatest length.
            if length > MOST_VALUE_BYTES || part.next.is_some() && part.bytes.len() < most {
                return Err(DatabaseError::corrupt(page, "it is no part of the value that it is in"));
            }
            each(page, part.bytes);
            match part.next {
                Some(next) => page = self.expect_other(page, next)?,
                None => return Ok(()),
            }
        }
    }

    fn most_in_part(&self) -> usize {
        OverflowPart::most(self.pool.payload_size()).max(1)
    }
}
