//! References of Python as traces: Arrow tables, arrays, and functions that return streams.

use std::io;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use ebbpool_arrow::{ArrowRows, RowProblem};
use ebbpool_trace::{
    Batch, Metadata, OptionalColumns, PageClasses, ReferenceStream, ReferenceSupplier, TableRows, TableSupplier, TraceError,
    key_of,
};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::arrow::import;

/// What a class is, for messages.
const CLASS: &str = "a class; classes are whole numbers from 0 to 2^32-1";

/// The error of a row of a trace, of which those read begin with this one.
fn row_error(label: &str, first: u64, wrong: RowProblem) -> TraceError {
    TraceError::Row { file: label.into(), row: first + wrong.row as u64, problem: wrong.problem }
}

fn io_error(label: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TraceError {
    TraceError::Io { file: label.into(), action: "read", error: io::Error::other(error) }
}

/// Record batches in memory, which are not copied.
pub(crate) struct ArrowTable {
    pub(crate) label: String,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Arc<[RecordBatch]>,
    pub(crate) metadata: Metadata,
    pub(crate) key: OnceLock<Option<[u8; 32]>>,
}

impl TableSupplier for ArrowTable {
    fn open(&self) -> Result<Box<dyn TableRows>, TraceError> {
        let count = self.batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let batches = Arc::clone(&self.batches);
        let batches = (0..batches.len()).map(move |at| Ok(batches[at].clone()));
        Ok(Box::new(ArrowRows::new(&self.label, self.schema.clone(), Box::new(batches), Some(count))))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn key(&self, of_rows: &dyn Fn() -> Option<[u8; 32]>) -> Option<[u8; 32]> {
        *self.key.get_or_init(of_rows)
    }
}

/// A function of the caller that returns a new Arrow stream each time.
pub(crate) struct StreamTable {
    pub(crate) label: String,
    pub(crate) make: Py<PyAny>,
    pub(crate) metadata: Metadata,
    pub(crate) rows: Option<u64>,
    pub(crate) key: Option<[u8; 32]>,
}

impl TableSupplier for StreamTable {
    fn open(&self) -> Result<Box<dyn TableRows>, TraceError> {
        let stream = Python::attach(|py| import(&self.make.bind(py).call0()?));
        let stream = stream.map_err(|error| io_error(&self.label, error))?;
        let (schema, label) = (stream.schema().clone(), self.label.clone());
        let batches = stream.map(move |batch| batch.map_err(|error| io_error(&label, error.to_string())));
        Ok(Box::new(ArrowRows::new(&self.label, schema, Box::new(batches), self.rows)))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn key(&self, _of_rows: &dyn Fn() -> Option<[u8; 32]>) -> Option<[u8; 32]> {
        self.key
    }
}

/// Appends a part of an array to numbers, which are what the text says. The inner error says what is wrong with the values.
type ReadPart = fn(&Bound<'_, PyAny>, &str, &mut Vec<u64>) -> PyResult<Result<(), RowProblem>>;

/// An array of the caller as a memoryview, whose parts are copied when they are read.
pub(crate) struct ArrayView {
    view: Py<PyAny>,
    items: usize,
    /// Reads parts with elements of the array's type.
    read: ReadPart,
}

impl ArrayView {
    /// The array of an object; `None` if its elements are not whole numbers in one dimension.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        macro_rules! first {
            ($($type:ty),+) => {
                $(if let Ok(buffer) = PyBuffer::<$type>::get(object) {
                    // Formats of another order of bytes are taken for this machine's.
                    if cfg!(target_endian = "little") && buffer.format().to_bytes().starts_with(b">") {
                        return Ok(None);
                    }
                    let view = object.py().import("builtins")?.getattr("memoryview")?;
                    let view = ArrayView {
                        view: view.call1((object,))?.unbind(),
                        items: buffer.item_count(),
                        read: read::<$type>,
                    };
                    return Ok((buffer.dimensions() == 1).then_some(view));
                })+
            };
        }
        first!(u64, i64, u32, i32, u16, i16, u8);
        Ok(None)
    }

    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// Appends a part of the array, which is `what`. The error says what is wrong.
    fn append(&self, range: std::ops::Range<usize>, what: &str, to: &mut Vec<u64>) -> Result<(), RowProblem> {
        Python::attach(|py| {
            let (start, end) = (range.start as isize, range.end as isize);
            let part = self.view.bind(py).get_item(PySlice::new(py, start, end, 1));
            let read = part.and_then(|part| (self.read)(&part, what, to));
            read.unwrap_or_else(|error| Err(RowProblem { row: 0, problem: error.to_string() }))
        })
    }
}

fn read<T>(part: &Bound<'_, PyAny>, what: &str, to: &mut Vec<u64>) -> PyResult<Result<(), RowProblem>>
where
    T: Element + std::fmt::Display,
    u64: TryFrom<T>,
{
    let values = PyBuffer::<T>::get(part)?.to_vec(part.py())?;
    to.reserve(values.len());
    for (row, value) in values.into_iter().enumerate() {
        match u64::try_from(value) {
            Ok(number) => to.push(number),
            Err(_) => {
                let problem = format!("{value} is not {what}");
                return Ok(Err(RowProblem { row, problem }));
            }
        }
    }
    Ok(Ok(()))
}

/// Arrays of the caller: pages, numbers that are not 0 where the page is written, and classes if there are any.
pub(crate) struct ArrayReferences {
    pub(crate) label: String,
    pub(crate) pages: Arc<ArrayView>,
    pub(crate) writes: Arc<ArrayView>,
    pub(crate) classes: Option<Arc<ArrayView>>,
    pub(crate) metadata: Metadata,
}

impl ArrayReferences {
    fn stream(&self, classes: Option<Arc<ArrayView>>) -> Box<dyn ReferenceStream> {
        Box::new(ArrayStream {
            label: self.label.clone(),
            pages: Arc::clone(&self.pages),
            writes: Arc::clone(&self.writes),
            classes,
            numbers: Vec::new(),
            next: 0,
        })
    }
}

impl ReferenceSupplier for ArrayReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        Ok(self.stream(None))
    }

    fn open_with(&self, columns: OptionalColumns) -> Result<Box<dyn ReferenceStream>, TraceError> {
        let classes = self.classes.clone().filter(|_| columns.classes);
        Ok(self.stream(classes))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn references(&self) -> Option<u64> {
        Some(self.pages.len() as u64)
    }

    /// Computed each time, because the caller may change the arrays between two requests.
    fn key(&self) -> Option<[u8; 32]> {
        key_of(self.open_with(OptionalColumns::ALL).ok()?).ok()
    }
}

struct ArrayStream {
    label: String,
    pages: Arc<ArrayView>,
    writes: Arc<ArrayView>,
    classes: Option<Arc<ArrayView>>,
    /// The writes, then the classes, of the current part.
    numbers: Vec<u64>,
    next: usize,
}

impl ReferenceStream for ArrayStream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let end = self.next.saturating_add(max).min(self.pages.len());
        let range = self.next..end;
        let read = self.append(range, batch);
        read.map_err(|wrong| row_error(&self.label, self.next as u64, wrong))?;
        self.next = end;
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.next as f64 / self.pages.len().max(1) as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        self.classes.as_ref().map(|_| PageClasses::default())
    }
}

impl ArrayStream {
    fn append(&mut self, range: std::ops::Range<usize>, batch: &mut Batch) -> Result<(), RowProblem> {
        let pages = &mut batch.pages;
        self.pages.append(range.clone(), "a page number", pages)?;
        self.numbers.clear();
        self.writes.append(range.clone(), "true or false", &mut self.numbers)?;
        if let Some((row, write)) = self.numbers.iter().enumerate().find(|(_, write)| **write > 1) {
            let problem = format!("{write} in the array of writes is neither 0 nor 1");
            return Err(RowProblem { row, problem });
        }
        batch.writes.extend(self.numbers.iter().map(|&write| write != 0));
        let Some(classes) = &self.classes else {
            return Ok(());
        };
        self.numbers.clear();
        classes.append(range, CLASS, &mut self.numbers)?;
        for (row, &number) in self.numbers.iter().enumerate() {
            let class = u32::try_from(number);
            let class = class.map_err(|_| RowProblem { row, problem: format!("{number} is not {CLASS}") })?;
            batch.classes.push(class);
        }
        Ok(())
    }
}
