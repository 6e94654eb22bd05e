//! Optional columns of integers: classes, times, and rings.

use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::schema::types::ColumnDescPtr;

use super::{ColumnDecoder, RowPosition, is_integer, is_unsigned};
use crate::error::TraceError;

/// A column of integers in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntegerColumn {
    pub(super) at: usize,
    wide: bool,
    unsigned: bool,
}

impl IntegerColumn {
    /// The column of this name, if the file has one; adds a note, which ends with `consequence`, if it cannot be read.
    pub(super) fn find(
        (file, columns): (&str, &[ColumnDescPtr]),
        name: &str,
        notes: &mut Vec<String>,
        consequence: &str,
    ) -> Option<IntegerColumn> {
        let at = columns.iter().position(|column| matches!(column.path().parts(), [only] if only == name))?;
        let column = &columns[at];
        let wide = match column.physical_type() {
            Type::INT32 if column.max_rep_level() == 0 && is_integer(column) => false,
            Type::INT64 if column.max_rep_level() == 0 && is_integer(column) => true,
            other => {
                let kind = if is_integer(column) { "" } else { " with another meaning" };
                notes.push(format!("{file}: column '{name}' is {other}{kind}, {consequence}"));
                return None;
            }
        };
        Some(IntegerColumn { at, wide, unsigned: is_unsigned(column) })
    }
}

/// The column of a row group.
pub(super) struct IntegerDecoder {
    values: IntegerValues,
    unsigned: bool,
}

enum IntegerValues {
    Narrow(ColumnDecoder<Int32Type>),
    Wide(ColumnDecoder<Int64Type>),
}

impl IntegerDecoder {
    pub(super) fn new(column: IntegerColumn, descriptor: ColumnDescPtr, pages: Box<dyn PageReader>) -> IntegerDecoder {
        IntegerDecoder {
            values: match column.wide {
                true => IntegerValues::Wide(ColumnDecoder::new(descriptor, pages)),
                false => IntegerValues::Narrow(ColumnDecoder::new(descriptor, pages)),
            },
            unsigned: column.unsigned,
        }
    }

    /// Passes the values of the next `count` rows to `take`, `None` where the value is null.
    ///
    /// # Errors
    ///
    /// If the column is damaged; and the problem that `take` returns, with the row.
    pub(super) fn for_each(
        &mut self,
        name: &str,
        (count, position): (usize, RowPosition),
        mut take: impl FnMut(Option<i128>) -> Result<(), String>,
    ) -> Result<(), TraceError> {
        let unsigned = self.unsigned;
        // Unsigned integers are stored as the signed ones of the same bits.
        match &mut self.values {
            IntegerValues::Narrow(column) => for_each(column, name, (count, position), |value| {
                take(value.map(|value: i32| match unsigned {
                    true => i128::from(value as u32),
                    false => value.into(),
                }))
            }),
            IntegerValues::Wide(column) => for_each(column, name, (count, position), |value| {
                take(value.map(|value: i64| match unsigned {
                    true => i128::from(value as u64),
                    false => value.into(),
                }))
            }),
        }
    }

    /// Passes the values of the next `count` rows to `take`, 0 where the value is null.
    ///
    /// # Errors
    ///
    /// If the column is damaged, or has a value below 0 or above 2^32-1.
    pub(super) fn for_each_u32(
        &mut self,
        name: &str,
        rows: (usize, RowPosition),
        mut take: impl FnMut(u32),
    ) -> Result<(), TraceError> {
        self.for_each(name, rows, |value| {
            let value = u32::try_from(value.unwrap_or(0));
            take(value.map_err(|_| format!("{name} is not a number from 0 to 2^32-1"))?);
            Ok(())
        })
    }
}

fn for_each<T: DataType>(
    column: &mut ColumnDecoder<T>,
    name: &str,
    (count, position): (usize, RowPosition),
    mut take: impl FnMut(Option<T::T>) -> Result<(), String>,
) -> Result<(), TraceError> {
    let (values, levels) = column.read_with_nulls(name, count, position)?;
    let mut values = values.iter().cloned();
    for row in 0..count {
        // Columns are flat, so the highest level means a value.
        let value = match levels.get(row) {
            Some(0) => None,
            _ => values.next(),
        };
        take(value).map_err(|problem| position.error(row, problem))?;
    }
    Ok(())
}
