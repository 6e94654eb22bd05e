//! The Arrow PyCapsule interface, in and out.
//!
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{Class, raise};

const STREAM: &CStr = c"arrow_array_stream";

/// Record batches as a capsule, which pyarrow, Polars, DuckDB and pandas read.
pub(crate) fn export<'py>(py: Python<'py>, schema: &SchemaRef, batches: Vec<RecordBatch>) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = batches.into_iter().map(Ok);
    let reader = RecordBatchIterator::new(batches, schema.clone());
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    // Dropping the capsule's stream releases it, unless a consumer has moved it out.
    PyCapsule::new_with_value(py, stream, STREAM)
}

/// The batches of an object with `__arrow_c_stream__`, whose content is not checked yet. Nothing comes after an error.
pub(crate) struct ForeignStream {
    /// `None` after an error.
    reader: Option<RecordBatchStreamReader>,
    schema: SchemaRef,
}

impl ForeignStream {
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for ForeignStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        // Arrow panics where the parts of an array are not those of its type. The reader is not used again then.
        let next = catch_unwind(AssertUnwindSafe(|| reader.next())).unwrap_or_else(|_| {
            let problem = "a batch of the stream is not of the type that the stream states";
            Some(Err(ArrowError::CDataInterface(problem.to_owned())))
        })?;
        if next.is_ok() {
            self.reader = Some(reader);
        }
        Some(next)
    }
}

/// The stream of an object with `__arrow_c_stream__`.
#[expect(unsafe_code, reason = "an Arrow stream arrives as a pointer in a capsule")]
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<ForeignStream> {
    check_sizes(object)?;
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("__arrow_c_stream__() returned no capsule"))?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds a valid stream. `from_raw` moves it out and leaves a released one, as the
    // interface requires, so that the capsule's destructor does not release it again.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) };
    let reader = reader.map_err(|error| raise(object.py(), Class::Trace, &error.to_string()))?;
    Ok(ForeignStream { schema: reader.schema(), reader: Some(reader) })
}

/// Has a table of pyarrow check that its memory is as large as its rows and offsets need. An Arrow stream does not say how large
/// it is, so that it cannot be checked later. The check takes no longer for more rows.
fn check_sizes(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let module = object.get_type().module()?;
    if module.to_str()?.split('.').next() != Some("pyarrow") || !object.hasattr("validate")? {
        return Ok(());
    }
    let checked = object.call_method0("validate");
    checked.map(drop).map_err(|error| {
        let text = format!("the table is not valid: {}", error.value(py));
        raise(py, Class::Trace, &text)
    })
}
