//! Long values: chains of overflow pages, stored from the last part to the first, so that each page
//! names one that is there already.

use ebbpool::Lsn;

use super::restructure::{apply, mark};
use super::{Author, Tree};
use crate::change::{Change, Content};
use crate::error::Error;
use crate::log::Undo;
use crate::page::cell::{Value, leaf_cell_size, most_inline_cell};
use crate::page::overflow::Part;

/// The longest value, in bytes.
pub(crate) const MOST_VALUE_BYTES: usize = 64 << 20;

/// A value in more pages than this is read without its leaf's latch.
const MOST_PARTS_UNDER_LATCH: usize = 16;

/// A value in many pages, as a leaf had it. Its pages stay as they are until the leaf has another value for
/// the key and the transaction that saw to it has committed; and pages that are used again get greater
/// LSNs. So if a leaf has it once more with the same first page of the same LSN, it was there all the
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Long {
    first: u64,
    length: u32,
    /// Of the first page.
    lsn: Lsn,
}

impl Long {
    pub(crate) fn value(self) -> Value<'static> {
        let Long { first, length, .. } = self;
        Value::Overflow { first, length }
    }
}

impl Tree {
    /// Whether a value is too long for a leaf.
    pub(crate) fn overflows(&self, key: &[u8], value: &[u8]) -> bool {
        leaf_cell_size(key, Value::Inline(value)) > most_inline_cell(self.pool.payload_size())
    }

    /// Writes a long value to overflow pages, each with a record of its own that frees it when it
    /// is undone.
    ///
    /// # Errors
    ///
    /// [`Error::ValueTooLong`], what the pool and the log fail with. Pages of which there are
    /// records are in use then: roll back.
    pub(crate) fn store(&self, value: &[u8], by: &mut dyn Author) -> Result<Value<'static>, Error> {
        let length = match u32::try_from(value.len()) {
            Ok(length) if value.len() <= MOST_VALUE_BYTES => length,
            _ => {
                let (length, most) = (value.len(), MOST_VALUE_BYTES);
                return Err(Error::ValueTooLong { length, most });
            }
        };
        let mut first = 0;
        for part in value.chunks(self.most_in_part()).rev() {
            self.pool.throttle();
            first = self.store_part(part, first, by)?;
        }
        Ok(Value::Overflow { first, length })
    }

    fn store_part(&self, bytes: &[u8], next: u64, by: &mut dyn Author) -> Result<u64, Error> {
        let mut taken = self.allocation.take(&self.pool, &self.wal)?;
        let page = taken.page.page();
        let format = Change::Format(Content::Overflow { next, bytes });
        let (map, mark) = mark(&taken);
        let undo = Undo::Free {
            first: page,
            count: 1,
        };
        let changes = vec![(page, format.clone()), (map, mark.clone())];
        let lsn = match by.log(&self.wal, undo, changes) {
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

    /// A value whole.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], and what the pool fails with.
    pub(crate) fn read_value(&self, value: Value<'_>) -> Result<Vec<u8>, Error> {
        let (first, length) = match value {
            Value::Inline(bytes) => return Ok(bytes.to_vec()),
            Value::Overflow { first, length } => (first, length as usize),
        };
        let mut whole = Vec::with_capacity(length.min(MOST_VALUE_BYTES));
        self.each_part(first, &mut |_, part| whole.extend_from_slice(part))?;
        match whole.len() == length {
            true => Ok(whole),
            false => Err(Error::corrupt(
                first,
                format!(
                    "a value of {length} bytes begins there, and there are {}",
                    whole.len()
                ),
            )),
        }
    }

    /// A value of which a leaf is latched, if it is in many pages.
    ///
    /// # Errors
    ///
    /// What the pool fails with, and [`Error::Corrupt`].
    pub(crate) fn long(&self, value: Value<'_>) -> Result<Option<Long>, Error> {
        match value {
            Value::Overflow { first, length }
                if length as usize > MOST_PARTS_UNDER_LATCH * self.most_in_part() =>
            {
                let lsn = self.pool.fix_read(first)?.lsn();
                Ok(Some(Long { first, length, lsn }))
            }
            _ => Ok(None),
        }
    }

    /// The pages of a long value, in order.
    ///
    /// # Errors
    ///
    /// As [`read_value`](Self::read_value).
    pub(crate) fn overflow_pages(&self, first: u64) -> Result<Vec<u64>, Error> {
        let mut pages = Vec::new();
        self.each_part(first, &mut |page, _| pages.push(page))?;
        Ok(pages)
    }

    fn each_part(&self, first: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        let most = self.most_in_part();
        let (mut page, mut length) = (first, 0);
        loop {
            let guard = self.pool.fix_read(page)?;
            let part = Part::read(page, &guard)?;
            length += part.bytes.len();
            // No part but the last is shorter than a page, and so even a circle ends.
            if length > MOST_VALUE_BYTES || part.next.is_some() && part.bytes.len() < most {
                return Err(Error::corrupt(
                    page,
                    "it is no part of the value that it is in",
                ));
            }
            each(page, part.bytes);
            match part.next {
                Some(next) => page = self.expect_other(page, next)?,
                None => return Ok(()),
            }
        }
    }

    fn most_in_part(&self) -> usize {
        Part::most(self.pool.payload_size()).max(1)
    }
}
