//! Traces whose writes replace whole pages, or whose pages end: instead of the column `write` they have `action` and `pages`, so that
//! a release that does not know these refuses them.

use parquet::column::page::PageReader;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::ColumnDescPtr;

use super::RowPosition;
use super::integers::{IntegerColumn, IntegerDecoder};
use crate::error::TraceError;
use crate::reference::{Batch, Trim};

/// The key of the metadata that says so, with the value `true`.
pub(super) const OPERATIONS: &str = "ebbpool.operations";

/// What is done with the page of a row.
pub(super) const ACTION: &str = "action";
pub(super) const READ: i32 = 0;
pub(super) const WRITE: i32 = 1;
/// A write of the whole page.
pub(super) const OVERWRITE: i32 = 2;
/// The row is no reference: the page ends, and those behind it.
pub(super) const END: i32 = 3;

/// The number of pages that end; 1 in rows of references.
pub(super) const PAGES: &str = "pages";

/// The columns in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperationColumns {
    action: IntegerColumn,
    pages: IntegerColumn,
    /// True if batches have trims and writes of whole pages.
    asked: bool,
}

impl OperationColumns {
    /// The columns of a file whose metadata promises them, or that has them and was named a native trace; `None` for other files.
    pub(super) fn find(
        file: (&str, &[ColumnDescPtr]),
        pairs: Option<&Vec<KeyValue>>,
        (is_named, asked): (bool, bool),
    ) -> Result<Option<OperationColumns>, TraceError> {
        let is_promise = |pair: &KeyValue| pair.key == OPERATIONS && pair.value.as_deref() == Some("true");
        let is_promised = pairs.is_some_and(|pairs| pairs.iter().any(is_promise));
        let column = |name| IntegerColumn::find(file, name, &mut Vec::new(), "");
        if !is_promised && (column(ACTION).is_none() || column(PAGES).is_none() || super::find(file.0, file.1, "write").is_ok())
        {
            return Ok(None);
        }
        // Programs that write a trace anew drop its metadata, and other tables have columns with these names.
        if !is_promised && !is_named {
            return Err(TraceError::Columns {
                file: file.0.to_owned(),
                problem: format!(
                    "columns '{ACTION}' and '{PAGES}' are those of a native trace with trims, and the metadata {OPERATIONS}=true is missing: --trace-format native if this is one, else --columns page=page,write={ACTION} with what writes"
                ),
            });
        }
        let find = |name| {
            column(name).ok_or_else(|| TraceError::Columns {
                file: file.0.to_owned(),
                problem: format!("has no column '{name}' of integers, which {OPERATIONS} promises"),
            })
        };
        Ok(Some(OperationColumns { action: find(ACTION)?, pages: find(PAGES)?, asked }))
    }

    /// True if batches may have trims or writes of whole pages.
    pub(super) fn are_asked_for(&self) -> bool {
        self.asked
    }
}

/// The columns of a row group.
pub(super) struct OperationDecoder {
    action: IntegerDecoder,
    pages: IntegerDecoder,
    asked: bool,
    /// The number of pages that end, 0 for references, of the rows that are read.
    ends: Vec<u64>,
}

impl OperationDecoder {
    /// `open` opens the column with the given number.
    pub(super) fn new(
        columns: OperationColumns,
        open: impl Fn(usize) -> ParquetResult<(ColumnDescPtr, Box<dyn PageReader>)>,
    ) -> ParquetResult<OperationDecoder> {
        let decoder = |column: IntegerColumn| -> ParquetResult<IntegerDecoder> {
            let (descriptor, pages) = open(column.at)?;
            Ok(IntegerDecoder::new(column, descriptor, pages))
        };
        Ok(OperationDecoder {
            action: decoder(columns.action)?,
            pages: decoder(columns.pages)?,
            asked: columns.asked,
            ends: Vec::new(),
        })
    }

    /// Appends what the next `count` rows do; those that end pages are still references of the batch.
    pub(super) fn append(&mut self, batch: &mut Batch, (count, position): (usize, RowPosition)) -> Result<(), TraceError> {
        self.ends.clear();
        if self.asked {
            batch.whole.resize(batch.writes.len(), false);
        }
        self.action.for_each(ACTION, (count, position), |action| {
            let action = action.and_then(|action| i32::try_from(action).ok()).filter(|action| (READ..=END).contains(action));
            let action = action.ok_or_else(|| format!("{ACTION} is not a number from {READ} to {END}"))?;
            batch.writes.push(action == WRITE || action == OVERWRITE);
            if self.asked {
                batch.whole.push(action == OVERWRITE);
            }
            self.ends.push(u64::from(action == END));
            Ok(())
        })?;
        let mut ends = self.ends.iter_mut();
        self.pages.for_each(PAGES, (count, position), |pages| {
            let pages = pages.and_then(|pages| u64::try_from(pages).ok()).filter(|pages| *pages > 0);
            let pages = pages.ok_or_else(|| format!("{PAGES} is not a number from 1 to 2^64-1"))?;
            match ends.next() {
                Some(0) if pages > 1 => return Err(format!("{PAGES} is {pages} in a row that ends none, expected 1")),
                Some(end) => *end *= pages,
                None => {}
            }
            Ok(())
        })
    }

    /// Makes trims of the rows that end pages, the last ones of the batch from `start` on; the others close up.
    pub(super) fn take_trims(&self, batch: &mut Batch, start: usize) {
        if self.ends.iter().all(|&pages| pages == 0) {
            return;
        }
        let mut end = start;
        for (at, &pages) in (start..).zip(&self.ends) {
            let first = batch.pages[at];
            if pages > 0 {
                if self.asked {
                    let time_us = batch.requests.get(at).map_or(0, |request| request.time_us);
                    batch.trims.push(Trim { before: end, first, last: first.saturating_add(pages - 1), time_us });
                }
                continue;
            }
            fn close_up<T: Copy>(column: &mut [T], at: usize, end: usize) {
                if at < column.len() {
                    column[end] = column[at];
                }
            }
            close_up(&mut batch.pages, at, end);
            close_up(&mut batch.writes, at, end);
            close_up(&mut batch.classes, at, end);
            close_up(&mut batch.requests, at, end);
            close_up(&mut batch.whole, at, end);
            end += 1;
        }
        batch.pages.truncate(end);
        batch.writes.truncate(end);
        batch.classes.truncate(end);
        batch.requests.truncate(end);
        batch.whole.truncate(end);
    }
}
