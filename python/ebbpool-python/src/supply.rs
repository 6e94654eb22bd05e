//! References of Python as traces: Arrow tables, arrays, and functions that return streams.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use ebbpool_arrow::{ColumnNames, RowProblem, TraceColumns};
use ebbpool_trace::{
    Batch, ClassNumbers, Metadata, OptionalColumns, PageClasses, ReferenceStream, ReferenceSupplier, TraceError,
};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::arrow::{ForeignStream, import};

/// What a class is, for messages.
const CLASS: &str = "a class; classes are whole numbers from 0 to 2^32-1";

/// References read at a time to compute a key.
const AT_ONCE: usize = 1 << 16;

/// The error of a row of a trace, of which those read begin with this one.
fn row_error(label: &str, first: u64, wrong: RowProblem) -> TraceError {
    TraceError::Row { file: label.into(), row: first + wrong.row as u64, problem: wrong.problem }
}

/// The error of a column of a trace.
fn columns_error(label: &str, problem: String) -> TraceError {
    TraceError::Columns { file: label.into(), problem }
}

fn io_error(label: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TraceError {
    TraceError::Io { file: label.into(), action: "read", error: io::Error::other(error) }
}

/// The key of the references that a stream yields, and of their classes.
fn key_of(mut stream: Box<dyn ReferenceStream>) -> Result<[u8; 32], TraceError> {
    let mut hasher = blake3::Hasher::new();
    let mut batch = Batch::with_capacity(AT_ONCE);
    let mut bytes = Vec::with_capacity(9 * AT_ONCE);
    loop {
        batch.clear();
        stream.fill(&mut batch, AT_ONCE)?;
        if batch.is_empty() {
            return Ok(*hasher.finalize().as_bytes());
        }
        bytes.clear();
        bytes.extend((batch.len() as u64).to_le_bytes());
        for page in &batch.pages {
            bytes.extend_from_slice(&page.to_le_bytes());
        }
        bytes.extend(batch.writes.iter().map(|&write| u8::from(write)));
        for class in &batch.classes {
            bytes.extend_from_slice(&class.to_le_bytes());
        }
        hasher.update(&bytes);
    }
}

/// Record batches in memory, which are not copied.
pub(crate) struct ArrowReferences {
    pub(crate) label: String,
    pub(crate) batches: Arc<[RecordBatch]>,
    pub(crate) columns: TraceColumns,
    pub(crate) metadata: Metadata,
    key: OnceLock<Option<[u8; 32]>>,
}

impl ArrowReferences {
    pub(crate) fn new(label: &str, batches: Vec<RecordBatch>, columns: TraceColumns, metadata: Metadata) -> Self {
        ArrowReferences { label: label.into(), batches: batches.into(), columns, metadata, key: OnceLock::new() }
    }

    fn stream(&self, classes: Option<ClassNumbers<String>>) -> BatchStream {
        BatchStream {
            label: self.label.clone(),
            batches: Arc::clone(&self.batches),
            columns: self.columns.clone(),
            classes,
            batch: 0,
            row: 0,
            served: 0,
            references: self.references().unwrap_or(0),
        }
    }
}

impl ReferenceSupplier for ArrowReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        Ok(Box::new(self.stream(None)))
    }

    fn open_with(&self, columns: OptionalColumns) -> Result<Box<dyn ReferenceStream>, TraceError> {
        let classes = class_numbers(&self.columns).filter(|_| columns.classes);
        Ok(Box::new(self.stream(classes)))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn references(&self) -> Option<u64> {
        Some(self.batches.iter().map(|batch| batch.num_rows() as u64).sum())
    }

    fn key(&self) -> Option<[u8; 32]> {
        *self.key.get_or_init(|| key_of(self.open_with(OptionalColumns::ALL).ok()?).ok())
    }
}

/// Numbers for classes with names, if there is a column of classes.
fn class_numbers(columns: &TraceColumns) -> Option<ClassNumbers<String>> {
    columns.have_classes().then(ClassNumbers::default)
}

struct BatchStream {
    label: String,
    batches: Arc<[RecordBatch]>,
    columns: TraceColumns,
    /// `None` if the references have no classes.
    classes: Option<ClassNumbers<String>>,
    /// The current batch, and the next row in it.
    batch: usize,
    row: usize,
    served: u64,
    references: u64,
}

impl ReferenceStream for BatchStream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max
            && let Some(current) = self.batches.get(self.batch)
        {
            let rows = (current.num_rows() - self.row).min(max - batch.len());
            if rows == 0 {
                self.batch += 1;
                self.row = 0;
                continue;
            }
            let part = current.slice(self.row, rows);
            let read = self.columns.read(&part, self.classes.as_mut(), batch);
            read.map_err(|wrong| row_error(&self.label, self.served, wrong))?;
            self.row += rows;
            self.served += rows as u64;
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.served as f64 / self.references.max(1) as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        self.classes.as_ref().map(ClassNumbers::classes)
    }
}

/// After this time the references of a slow stream go on, however few they are: the work can stop only between batches.
const LONGEST_FILL: Duration = Duration::from_millis(50);

/// A function of the caller that returns a new Arrow stream each time.
pub(crate) struct StreamReferences {
    pub(crate) label: String,
    pub(crate) make: Py<PyAny>,
    pub(crate) columns: ColumnNames,
    pub(crate) metadata: Metadata,
    pub(crate) references: Option<u64>,
    pub(crate) key: Option<[u8; 32]>,
}

impl StreamReferences {
    fn stream(&self, classes: bool) -> Result<Box<dyn ReferenceStream>, TraceError> {
        let reader = Python::attach(|py| import(&self.make.bind(py).call0()?));
        let reader = reader.map_err(|error| io_error(&self.label, error))?;
        let columns = TraceColumns::from_schema(reader.schema(), &self.columns);
        let columns = columns.map_err(|problem| columns_error(&self.label, problem))?;
        Ok(Box::new(ReaderStream {
            label: self.label.clone(),
            reader,
            classes: class_numbers(&columns).filter(|_| classes),
            columns,
            current: None,
            row: 0,
            served: 0,
            references: self.references,
        }))
    }
}

impl ReferenceSupplier for StreamReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        self.stream(false)
    }

    fn open_with(&self, columns: OptionalColumns) -> Result<Box<dyn ReferenceStream>, TraceError> {
        self.stream(columns.classes)
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn references(&self) -> Option<u64> {
        self.references
    }

    fn key(&self) -> Option<[u8; 32]> {
        self.key
    }
}

struct ReaderStream {
    label: String,
    reader: ForeignStream,
    columns: TraceColumns,
    /// `None` if the references have no classes.
    classes: Option<ClassNumbers<String>>,
    /// The current batch, and the next row in it.
    current: Option<RecordBatch>,
    row: usize,
    served: u64,
    references: Option<u64>,
}

impl ReferenceStream for ReaderStream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let start = Instant::now();
        while batch.len() < max && (batch.is_empty() || start.elapsed() < LONGEST_FILL) {
            let Some(current) = &self.current else {
                let Some(next) = self.reader.next() else {
                    break;
                };
                let next = next.map_err(|error| io_error(&self.label, error.to_string()))?;
                let valid = self.columns.validate(&next);
                valid.map_err(|problem| columns_error(&self.label, problem))?;
                self.current = Some(next);
                self.row = 0;
                continue;
            };
            let rows = (current.num_rows() - self.row).min(max - batch.len());
            let part = current.slice(self.row, rows);
            let read = self.columns.read(&part, self.classes.as_mut(), batch);
            read.map_err(|wrong| row_error(&self.label, self.served, wrong))?;
            self.row += rows;
            self.served += rows as u64;
            if self.row == current.num_rows() {
                self.current = None;
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        let references = self.references.unwrap_or(u64::MAX);
        self.served as f64 / references.max(1) as f64
    }

    fn classes(&self) -> Option<PageClasses> {
        self.classes.as_ref().map(ClassNumbers::classes)
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
        let writes = self.numbers.iter();
        batch.writes.extend(writes.map(|&write| write != 0));
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
