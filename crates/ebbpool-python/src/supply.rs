//! References of Python as traces: Arrow tables, arrays, and functions that return streams.

use std::io;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use ebbpool_trace::{Batch, Metadata, ReferenceStream, ReferenceSupplier, TraceError};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::arrow::{ColumnNames, TraceColumns, import, schema_of};

/// References read at a time to compute a key.
const AT_ONCE: usize = 1 << 16;

/// The error of a row of a trace.
fn row_error(label: &str, row: u64, problem: String) -> TraceError {
    TraceError::Row {
        file: label.into(),
        row,
        problem,
    }
}

fn io_error(label: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TraceError {
    TraceError::Io {
        file: label.into(),
        action: "read",
        error: io::Error::other(error),
    }
}

/// The key of the references that a stream yields.
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
    pub(crate) fn new(
        label: &str,
        batches: Vec<RecordBatch>,
        columns: TraceColumns,
        metadata: Metadata,
    ) -> Self {
        ArrowReferences {
            label: label.into(),
            batches: batches.into(),
            columns,
            metadata,
            key: OnceLock::new(),
        }
    }
}

impl ReferenceSupplier for ArrowReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        Ok(Box::new(BatchStream {
            label: self.label.clone(),
            batches: Arc::clone(&self.batches),
            columns: self.columns.clone(),
            batch: 0,
            row: 0,
            served: 0,
            references: self.references().unwrap_or(0),
        }))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn references(&self) -> Option<u64> {
        Some(self.batches.iter().map(|batch| batch.num_rows() as u64).sum())
    }

    fn key(&self) -> Option<[u8; 32]> {
        *self.key.get_or_init(|| key_of(self.open().ok()?).ok())
    }
}

struct BatchStream {
    label: String,
    batches: Arc<[RecordBatch]>,
    columns: TraceColumns,
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
            let read = self.columns.read(&current.slice(self.row, rows), batch);
            read.map_err(|problem| row_error(&self.label, self.served, problem))?;
            self.row += rows;
            self.served += rows as u64;
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.served as f64 / self.references.max(1) as f64
    }
}

/// A function of the caller that returns a new Arrow stream each time.
pub(crate) struct StreamReferences {
    pub(crate) label: String,
    pub(crate) make: Py<PyAny>,
    pub(crate) columns: ColumnNames,
    pub(crate) metadata: Metadata,
    pub(crate) references: Option<u64>,
    pub(crate) key: Option<[u8; 32]>,
}

impl ReferenceSupplier for StreamReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        let reader = Python::attach(|py| import(&self.make.bind(py).call0()?));
        let reader = reader.map_err(|error| io_error(&self.label, error))?;
        let columns = TraceColumns::of(&schema_of(&reader), &self.columns);
        let columns = columns.map_err(|problem| TraceError::Columns {
            file: self.label.clone(),
            problem,
        })?;
        Ok(Box::new(ReaderStream {
            label: self.label.clone(),
            reader,
            columns,
            current: None,
            row: 0,
            served: 0,
            references: self.references,
        }))
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
    reader: RecordBatchStreamReader,
    columns: TraceColumns,
    /// The current batch, and the next row in it.
    current: Option<RecordBatch>,
    row: usize,
    served: u64,
    references: Option<u64>,
}

impl ReferenceStream for ReaderStream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            let Some(current) = &self.current else {
                let Some(next) = self.reader.next() else {
                    break;
                };
                let next = next.map_err(|error| io_error(&self.label, error.to_string()))?;
                self.current = Some(next);
                self.row = 0;
                continue;
            };
            let rows = (current.num_rows() - self.row).min(max - batch.len());
            let read = self.columns.read(&current.slice(self.row, rows), batch);
            read.map_err(|problem| row_error(&self.label, self.served, problem))?;
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
}

/// Page numbers in an array with the buffer protocol, by the type of its elements.
pub(crate) enum PageArray {
    U64(PyBuffer<u64>),
    I64(PyBuffer<i64>),
    U32(PyBuffer<u32>),
    I32(PyBuffer<i32>),
    U16(PyBuffer<u16>),
    I16(PyBuffer<i16>),
    U8(PyBuffer<u8>),
}

impl PageArray {
    /// The array of an object; `None` if its elements are not whole numbers.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        macro_rules! first {
            ($($kind:ident),+) => {
                $(if let Ok(buffer) = PyBuffer::get(object) {
                    return Some(PageArray::$kind(buffer));
                })+
            };
        }
        first!(U64, I64, U32, I32, U16, I16, U8);
        None
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            PageArray::U64(buffer) => buffer.item_count(),
            PageArray::I64(buffer) => buffer.item_count(),
            PageArray::U32(buffer) => buffer.item_count(),
            PageArray::I32(buffer) => buffer.item_count(),
            PageArray::U16(buffer) => buffer.item_count(),
            PageArray::I16(buffer) => buffer.item_count(),
            PageArray::U8(buffer) => buffer.item_count(),
        }
    }

    fn read(&self, range: std::ops::Range<usize>, to: &mut Vec<u64>) -> Result<(), String> {
        match self {
            PageArray::U64(buffer) => read(buffer, range, to),
            PageArray::I64(buffer) => read(buffer, range, to),
            PageArray::U32(buffer) => read(buffer, range, to),
            PageArray::I32(buffer) => read(buffer, range, to),
            PageArray::U16(buffer) => read(buffer, range, to),
            PageArray::I16(buffer) => read(buffer, range, to),
            PageArray::U8(buffer) => read(buffer, range, to),
        }
    }
}

fn read<T: Element + std::fmt::Display>(
    buffer: &PyBuffer<T>,
    range: std::ops::Range<usize>,
    to: &mut Vec<u64>,
) -> Result<(), String>
where
    u64: TryFrom<T>,
{
    Python::attach(|py| {
        let cells = buffer.as_slice(py).and_then(|cells| cells.get(range));
        let cells = cells.ok_or("the array of pages has gaps; give numpy.ascontiguousarray(pages)")?;
        to.reserve(cells.len());
        for cell in cells {
            let value = cell.get();
            let page = u64::try_from(value);
            to.push(page.map_err(|_| format!("{value} is not a page number"))?);
        }
        Ok(())
    })
}

/// Two arrays of the caller, which are not copied: pages, and bytes that are not 0 where the page is written.
pub(crate) struct ArrayReferences {
    pub(crate) label: String,
    pub(crate) pages: Arc<PageArray>,
    pub(crate) writes: Arc<PyBuffer<u8>>,
    pub(crate) metadata: Metadata,
}

impl ReferenceSupplier for ArrayReferences {
    fn open(&self) -> Result<Box<dyn ReferenceStream>, TraceError> {
        Ok(Box::new(ArrayStream {
            label: self.label.clone(),
            pages: Arc::clone(&self.pages),
            writes: Arc::clone(&self.writes),
            next: 0,
        }))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn references(&self) -> Option<u64> {
        Some(self.pages.len() as u64)
    }

    /// Computed each time, because the caller may change the arrays between two requests.
    fn key(&self) -> Option<[u8; 32]> {
        key_of(self.open().ok()?).ok()
    }
}

struct ArrayStream {
    label: String,
    pages: Arc<PageArray>,
    writes: Arc<PyBuffer<u8>>,
    next: usize,
}

impl ReferenceStream for ArrayStream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let end = self.next.saturating_add(max).min(self.pages.len());
        let range = self.next..end;
        let read = self.pages.read(range.clone(), &mut batch.pages);
        read.map_err(|problem| row_error(&self.label, self.next as u64, problem))?;
        Python::attach(|py| {
            let cells = self.writes.as_slice(py).and_then(|cells| cells.get(range));
            let cells = cells.into_iter().flatten();
            batch.writes.extend(cells.map(|cell| cell.get() != 0));
        });
        self.next = end;
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.next as f64 / self.pages.len().max(1) as f64
    }
}
