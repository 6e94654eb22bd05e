//! The times of a native trace: the column `time_us`, in µs from any moment on.

use std::ops::RangeInclusive;
use std::time::Duration;

use parquet::basic::Type;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::file::reader::FileReader;

use super::{CheckedPages, ColumnDecoder, RowPosition, opened, parquet};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) const TIME: &str = "time_us";

/// The time between two rows; the last one is that of the trace if there are fewer. `None` if there is no such column
/// of integers, if a time is missing, or if the times do not grow.
pub(in crate::formats) fn recorded_time(
    stream: Stream,
    rows: RangeInclusive<u64>,
) -> Result<Option<Duration>, TraceError> {
    let label = stream.label().to_owned();
    let file = opened(&label, stream)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let is_time = |column: &parquet::schema::types::ColumnDescPtr| {
        matches!(column.path().parts(), [only] if only == TIME) && column.max_rep_level() == 0
    };
    let Some(column) = schema.columns().iter().position(is_time) else {
        return Ok(None);
    };
    let column = TimeColumn {
        label: &label,
        file: &*file,
        wide: match schema.column(column).physical_type() {
            Type::INT64 => true,
            Type::INT32 => false,
            _ => return Ok(None),
        },
        column,
    };
    let all = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
    let (first, last) = (*rows.start(), (*rows.end()).min(all.saturating_sub(1)));
    if first >= last {
        return Ok(None);
    }
    let (Some(first), Some(last)) = (column.value(first)?, column.value(last)?) else {
        return Ok(None);
    };
    let micros = last
        .checked_sub(first)
        .and_then(|micros| u64::try_from(micros).ok());
    Ok(micros
        .filter(|micros| *micros > 0)
        .map(Duration::from_micros))
}

struct TimeColumn<'a> {
    label: &'a str,
    file: &'a dyn FileReader,
    column: usize,
    wide: bool,
}

impl TimeColumn<'_> {
    /// The time in a row; `None` if it is null.
    fn value(&self, row: u64) -> Result<Option<i64>, TraceError> {
        let mut before = row;
        for (group, metadata) in self.file.metadata().row_groups().iter().enumerate() {
            let rows = u64::try_from(metadata.num_rows()).unwrap_or(0);
            if before >= rows {
                before -= rows;
                continue;
            }
            return match self.wide {
                true => self.read::<Int64Type>(group, row, before),
                false => {
                    let value = self.read::<Int32Type>(group, row, before)?;
                    Ok(value.map(i64::from))
                }
            };
        }
        Ok(None)
    }

    fn read<T: DataType>(
        &self,
        group: usize,
        row: u64,
        offset: u64,
    ) -> Result<Option<T::T>, TraceError> {
        let mut decoder = parquet(self.label, || {
            let group = self.file.get_row_group(group)?;
            let schema = self.file.metadata().file_metadata().schema_descr();
            let pages = CheckedPages {
                pages: group.get_column_page_reader(self.column)?,
            };
            Ok(ColumnDecoder::<T>::new(
                schema.column(self.column),
                Box::new(pages),
            ))
        })?;
        let position = RowPosition {
            file: self.label,
            row: row - offset,
        };
        let count = usize::try_from(offset).unwrap_or(usize::MAX - 1) + 1;
        match decoder.read(TIME, count, position) {
            Ok(values) => Ok(values.last().cloned()),
            // A null.
            Err(TraceError::Row { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
