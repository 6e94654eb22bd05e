//! The classes of a native trace: the optional column `class`, or ranges of pages in the metadata, and their names.

use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::schema::types::ColumnDescPtr;

use super::{ColumnDecoder, RowPosition, is_unsigned};
use crate::error::TraceError;
use crate::reference::PageClasses;

pub(super) const CLASS: &str = "class";
/// A JSON array with the names of the classes 1, 2, 3, …
const NAMES: &str = "ebbpool.classes";
/// A JSON array of pairs: the first page of a range and the class of its pages.
const RANGES: &str = "ebbpool.class_ranges";

/// The column of classes in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassColumn {
    pub(super) at: usize,
    wide: bool,
    unsigned: bool,
}

impl ClassColumn {
    /// The column, if the file has one; adds a note if it cannot be read.
    pub(super) fn find(
        file: &str,
        columns: &[ColumnDescPtr],
        notes: &mut Vec<String>,
    ) -> Option<ClassColumn> {
        let at = columns
            .iter()
            .position(|column| matches!(column.path().parts(), [only] if only == CLASS))?;
        let column = &columns[at];
        let wide = match column.physical_type() {
            Type::INT32 if column.max_rep_level() == 0 => false,
            Type::INT64 if column.max_rep_level() == 0 => true,
            other => {
                notes.push(format!(
                    "{file}: column 'class' is {other}, and classes are integers; the pages have no classes"
                ));
                return None;
            }
        };
        Some(ClassColumn {
            at,
            wide,
            unsigned: is_unsigned(column),
        })
    }
}

/// The column of a row group.
pub(super) struct ClassDecoder {
    values: IntegerColumn,
    unsigned: bool,
}

enum IntegerColumn {
    Narrow(ColumnDecoder<Int32Type>),
    Wide(ColumnDecoder<Int64Type>),
}

impl ClassDecoder {
    pub(super) fn new(
        column: ClassColumn,
        descriptor: ColumnDescPtr,
        pages: Box<dyn PageReader>,
    ) -> ClassDecoder {
        ClassDecoder {
            values: match column.wide {
                true => IntegerColumn::Wide(ColumnDecoder::new(descriptor, pages)),
                false => IntegerColumn::Narrow(ColumnDecoder::new(descriptor, pages)),
            },
            unsigned: column.unsigned,
        }
    }

    /// Appends the next `count` classes; null is class 0.
    pub(super) fn append(
        &mut self,
        classes: &mut Vec<u32>,
        count: usize,
        position: RowPosition,
    ) -> Result<(), TraceError> {
        let unsigned = self.unsigned;
        match &mut self.values {
            IntegerColumn::Narrow(column) => append(classes, column, count, position, |value| {
                // UINT_32 is stored as the INT32 of the same bits.
                match unsigned {
                    true => Some(value as u32),
                    false => u32::try_from(value).ok(),
                }
            }),
            IntegerColumn::Wide(column) => append(classes, column, count, position, |value| {
                u32::try_from(value).ok()
            }),
        }
    }
}

fn append<T: DataType>(
    classes: &mut Vec<u32>,
    column: &mut ColumnDecoder<T>,
    count: usize,
    position: RowPosition,
    class: impl Fn(T::T) -> Option<u32>,
) -> Result<(), TraceError> {
    let start = classes.len();
    let (values, levels) = column.read_with_nulls(CLASS, count, position)?;
    let mut values = values.iter().cloned();
    for row in 0..count {
        // Columns are flat, so the highest level means a value.
        let value = match levels.get(row) {
            Some(0) => Some(0),
            _ => values.next().and_then(&class),
        };
        let Some(value) = value else {
            return Err(position.error(
                classes.len() - start,
                "class is not a number from 0 to 2^32-1".to_owned(),
            ));
        };
        classes.push(value);
    }
    Ok(())
}

/// The metadata that state these classes.
pub(super) fn pairs(classes: &PageClasses) -> Vec<KeyValue> {
    let json =
        |key: &str, value: serde_json::Value| KeyValue::new(key.to_owned(), value.to_string());
    let mut pairs = Vec::new();
    if !classes.names().is_empty() {
        pairs.push(json(NAMES, classes.names().into()));
    }
    if !classes.ranges().is_empty() {
        let ranges = classes.ranges().iter();
        let ranges = ranges.map(|&(first, class)| serde_json::json!([first, class]));
        pairs.push(json(RANGES, ranges.collect()));
    }
    pairs
}

/// The classes that the metadata state, without ranges if there are none.
pub(super) fn of_metadata(
    file: &str,
    pairs: Option<&Vec<KeyValue>>,
) -> Result<PageClasses, TraceError> {
    let find = |key: &str| {
        let pair = pairs?.iter().find(|pair| pair.key == key)?;
        pair.value.as_deref()
    };
    let wrong = |key: &str, expected: &str| TraceError::Metadata {
        file: file.to_owned(),
        problem: format!("{key} is expected to be {expected}"),
    };
    let names = match find(NAMES) {
        Some(text) => {
            serde_json::from_str(text).map_err(|_| wrong(NAMES, "a JSON array of names"))?
        }
        None => Vec::new(),
    };
    let Some(text) = find(RANGES) else {
        return Ok(PageClasses::named(names));
    };
    serde_json::from_str(text)
        .ok()
        .and_then(|ranges| PageClasses::of_ranges(names, ranges))
        .ok_or_else(|| {
            wrong(
                RANGES,
                "a JSON array of pairs of a page and a class, with ascending pages",
            )
        })
}
