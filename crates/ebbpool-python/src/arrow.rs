//! The Arrow PyCapsule interface, in and out.
//!
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

use std::ffi::CStr;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, Schema, SchemaRef};
use ebbpool_trace::{Batch, ClassNumbers};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{Class, raise};

const STREAM: &CStr = c"arrow_array_stream";

/// Record batches as a capsule, which pyarrow, Polars, DuckDB and pandas read.
pub(crate) fn export<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = batches.into_iter().map(Ok);
    let reader = RecordBatchIterator::new(batches, schema.clone());
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    // Dropping the capsule's stream releases it, unless a consumer has moved it out.
    PyCapsule::new_with_value(py, stream, STREAM)
}

/// The batches of an object with `__arrow_c_stream__`.
#[expect(
    unsafe_code,
    reason = "an Arrow stream arrives as a pointer in a capsule"
)]
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err("__arrow_c_stream__() returned no capsule"))?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds a valid stream. `from_raw` moves it out and leaves a released one, as the
    // interface requires, so that the capsule's destructor does not release it again.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) };
    reader.map_err(|error| raise(object.py(), Class::Trace, &error.to_string()))
}

/// The columns of a trace, as a user names them.
#[derive(Clone, Debug)]
pub(crate) struct ColumnNames {
    /// The column of page numbers.
    pub(crate) page: String,
    /// The column that says which references write; `None` if all read.
    pub(crate) write: Option<String>,
    /// The texts that mean a write, in a column of texts.
    pub(crate) write_values: Vec<String>,
    /// The column of classes, and whether its absence is an error; `None` if the pages have no classes.
    pub(crate) class: Option<(String, bool)>,
}

/// The columns of a trace in batches of one schema.
#[derive(Clone, Debug)]
pub(crate) struct TraceColumns {
    page: usize,
    write: Option<usize>,
    write_values: Vec<String>,
    class: Option<usize>,
}

impl TraceColumns {
    /// Finds the columns; the error says which there are.
    pub(crate) fn of(schema: &Schema, names: &ColumnNames) -> Result<Self, String> {
        let find = |name: &str| {
            schema.index_of(name).map_err(|_| {
                let fields = schema.fields().iter();
                let fields: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
                format!(
                    "there is no column '{name}' among {}; a trace has the columns page and write, or columns= names \
                     them, as in columns={{'page': 'blk', 'write': 'dirty'}}; without 'write' all references read",
                    fields.join(", ")
                )
            })
        };
        let class = match &names.class {
            None => None,
            Some((name, true)) => Some(find(name)?),
            // A column that has the name by chance is no column of classes.
            Some((name, false)) => schema.index_of(name).ok().filter(|&at| {
                let found = schema.field(at).data_type();
                has_classes(found)
            }),
        };
        if let Some(at) = class
            && !has_classes(schema.field(at).data_type())
        {
            return Err(format!(
                "the column of classes has the type {}; it must have whole numbers or texts",
                schema.field(at).data_type()
            ));
        }
        Ok(TraceColumns {
            page: find(&names.page)?,
            write: names.write.as_deref().map(find).transpose()?,
            write_values: names.write_values.clone(),
            class,
        })
    }

    /// True if the pages have classes.
    pub(crate) fn have_classes(&self) -> bool {
        self.class.is_some()
    }

    /// Appends the classes of the references of a record batch, if there is a column of classes. Texts get numbers in the
    /// order in which they appear, and nulls are of no known class.
    pub(crate) fn read_classes(
        &self,
        from: &RecordBatch,
        numbers: &mut ClassNumbers<String>,
        to: &mut Vec<u32>,
    ) -> Result<(), String> {
        match self.class {
            Some(at) => read_classes(from.column(at), numbers, to),
            None => Ok(()),
        }
    }

    /// Appends the references of a record batch. The error says what is wrong in it.
    pub(crate) fn read(&self, from: &RecordBatch, to: &mut Batch) -> Result<(), String> {
        read_pages(from.column(self.page), &mut to.pages)?;
        match self.write.map(|at| from.column(at)) {
            None => {
                to.writes.resize(to.pages.len(), false);
                Ok(())
            }
            Some(writes) => self.read_writes(writes, &mut to.writes),
        }
    }

    fn read_writes(&self, from: &dyn Array, to: &mut Vec<bool>) -> Result<(), String> {
        if from.null_count() > 0 {
            return Err("the column of writes has nulls".into());
        }
        let means_write = |text: Option<&str>| {
            text.is_some_and(|text| self.write_values.iter().any(|value| value == text))
        };
        macro_rules! nonzero {
            ($type:ty) => {
                to.extend(
                    from.as_primitive::<$type>()
                        .values()
                        .iter()
                        .map(|&value| value != 0),
                )
            };
        }
        match from.data_type() {
            DataType::Boolean => to.extend(from.as_boolean().values().iter()),
            DataType::UInt8 => nonzero!(UInt8Type),
            DataType::Int8 => nonzero!(Int8Type),
            DataType::Int32 => nonzero!(Int32Type),
            DataType::Int64 => nonzero!(Int64Type),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                if self.write_values.is_empty() =>
            {
                return Err(
                    "the column of writes has texts; say which mean a write, as in columns={'page': 'page', 'write': 'op:W'}"
                        .into(),
                );
            }
            DataType::Utf8 => to.extend(from.as_string::<i32>().iter().map(means_write)),
            DataType::LargeUtf8 => to.extend(from.as_string::<i64>().iter().map(means_write)),
            DataType::Utf8View => to.extend(from.as_string_view().iter().map(means_write)),
            other => {
                return Err(format!(
                    "the column of writes has the type {other}; it must be true or false, 0 or 1, or texts"
                ));
            }
        }
        Ok(())
    }
}

/// True if a column of this type can have classes.
fn has_classes(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => {
            matches!(
                **values,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            )
        }
        found => found.is_integer(),
    }
}

fn read_classes(
    from: &ArrayRef,
    numbers: &mut ClassNumbers<String>,
    to: &mut Vec<u32>,
) -> Result<(), String> {
    macro_rules! whole {
        ($type:ty) => {
            for value in from.as_primitive::<$type>().iter() {
                let class = value.map_or(Ok(0), u32::try_from);
                to.push(class.map_err(|_| {
                    format!(
                        "{} is not a class; classes are whole numbers from 0 to 2^32-1",
                        value.map_or(0, i128::from)
                    )
                })?);
            }
        };
    }
    match from.data_type() {
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::Int8 => whole!(Int8Type),
        DataType::Dictionary(_, _) => {
            let dictionary = from.as_any_dictionary();
            let texts = texts_of(dictionary.values())?;
            // Arrow panics where a dictionary has no values; then no row has a text.
            let keys = match texts.is_empty() {
                true => vec![0; from.len()],
                false => dictionary.normalized_keys(),
            };
            for (row, key) in keys.into_iter().enumerate() {
                let text = texts.get(key).copied().flatten();
                to.push(numbered(text.filter(|_| from.is_valid(row)), numbers)?);
            }
        }
        _ => {
            for text in texts_of(from)? {
                to.push(numbered(text, numbers)?);
            }
        }
    }
    Ok(())
}

/// The number of the class with this name; 0 without a name.
fn numbered(name: Option<&str>, numbers: &mut ClassNumbers<String>) -> Result<u32, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(0);
    };
    let name = name.to_owned();
    let number = numbers.number(&name, || name.clone());
    number.ok_or_else(|| "the column of classes has more than 2^20 different texts".into())
}

fn texts_of(from: &ArrayRef) -> Result<Vec<Option<&str>>, String> {
    match from.data_type() {
        DataType::Utf8 => Ok(from.as_string::<i32>().iter().collect()),
        DataType::LargeUtf8 => Ok(from.as_string::<i64>().iter().collect()),
        DataType::Utf8View => Ok(from.as_string_view().iter().collect()),
        other => Err(format!("the column of classes has the type {other}")),
    }
}

fn read_pages(from: &dyn Array, to: &mut Vec<u64>) -> Result<(), String> {
    if from.null_count() > 0 {
        return Err("the column of pages has nulls".into());
    }
    macro_rules! whole {
        ($type:ty) => {{
            let values = from.as_primitive::<$type>().values();
            to.reserve(values.len());
            for &value in values.iter() {
                let page = u64::try_from(value);
                to.push(page.map_err(|_| format!("{value} is not a page number"))?);
            }
        }};
    }
    match from.data_type() {
        DataType::UInt64 => to.extend_from_slice(from.as_primitive::<UInt64Type>().values()),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::Int8 => whole!(Int8Type),
        other => {
            return Err(format!(
                "the column of pages has the type {other}; it must have whole numbers"
            ));
        }
    }
    Ok(())
}

/// The schema of a stream.
pub(crate) fn schema_of(reader: &RecordBatchStreamReader) -> SchemaRef {
    reader.schema()
}
