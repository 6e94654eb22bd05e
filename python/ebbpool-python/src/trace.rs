//! Traces: named, in memory, or made by a function.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use ebbpool_lab::{Lab, Settings};
use ebbpool_sim::{PageSample, SampledReferences};
use ebbpool_trace::{Batch, Columns, Format, Metadata, OptionalColumns, ReadOptions, Source, TraceError, Writer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::import;
use crate::errors::{Class, raise, trace_error, wrong};
use crate::requests::parsed;
use crate::supply::{ArrayReferences, ArrayView, ArrowTable, StreamTable};
use crate::watch::watched;

/// A trace as the lab reads it.
#[pyclass(frozen, module = "ebbpool._ebbpool")]
pub(crate) struct Trace {
    pub(crate) source: Source,
}

/// How a trace is read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    format: Option<String>,
    columns: Option<String>,
    page_size: Option<String>,
    skip: u64,
    limit: Option<u64>,
    skip_bad_lines: u64,
    below_cache: Option<bool>,
    whole_writes: bool,
    apart: bool,
    by_time: bool,
}

impl Reading {
    fn options(&self, py: Python<'_>) -> PyResult<ReadOptions> {
        let format = self.format.as_deref();
        let format = format.map(|text| parsed::<Format>(py, "format", text));
        let columns = self.columns.as_deref();
        let columns = columns.map(|text| parsed::<Columns>(py, "columns", text));
        let page_size = self.page_size.as_deref();
        let page_size = page_size.map(|text| {
            let bytes: ebbpool_cost::ByteSize = match text.parse::<u64>() {
                Ok(bytes) => ebbpool_cost::ByteSize::new(bytes),
                Err(_) => parsed(py, "page_size", text)?,
            };
            NonZeroU64::new(bytes.bytes()).ok_or_else(|| wrong(py, "page_size", "a page has at least 1 byte"))
        });
        Ok(ReadOptions {
            format: format.transpose()?,
            columns: columns.transpose()?,
            page_size: page_size.transpose()?,
            bad_lines: self.skip_bad_lines,
            skip: self.skip,
            limit: self.limit,
            below_cache: self.below_cache,
            whole_writes: self.whole_writes,
            apart: self.apart,
            by_time: self.by_time,
        })
    }
}

/// The size of a page, the pages of the database, the number of references, and whether the trace was captured below a
/// cache.
type StatedFigures = (Option<u64>, Option<u64>, Option<u64>, bool);

/// The name of a trace and its number of database pages, for references that are not in a file.
type Stated = (String, Option<u64>);

fn metadata((name, database_pages): &Stated) -> Metadata {
    Metadata { name: Some(name.clone()), page_size: None, database_pages: *database_pages, ..Metadata::default() }
}

#[pymethods]
impl Trace {
    /// A path, or a generator such as `zipf:pages=1000,refs=50000`; with `only_generator` no path.
    #[staticmethod]
    fn named(py: Python<'_>, name: &str, reading: Reading, only_generator: bool) -> PyResult<Self> {
        let options = reading.options(py)?;
        let source = py.detach(|| match only_generator {
            true => Source::generator(name, &options),
            false => Source::parse_with(name, &options),
        });
        let source = source.map_err(|error| trace_error(py, error))?;
        Ok(Trace { source })
    }

    /// The sample that ships with Ebbpool.
    #[staticmethod]
    fn sample(py: Python<'_>, reading: Reading) -> PyResult<Self> {
        let source = ebbpool_cli::sample(&reading.options(py)?);
        Ok(Trace { source })
    }

    /// The batches of an object with `__arrow_c_stream__`, which are shared and not copied.
    #[staticmethod]
    fn arrow(py: Python<'_>, table: &Bound<'_, PyAny>, stated: Stated, reading: Reading) -> PyResult<Self> {
        let options = reading.options(py)?;
        let stream = import(table)?;
        let schema = stream.schema().clone();
        let batches = py.detach(|| stream.collect::<Result<Vec<RecordBatch>, ArrowError>>());
        let batches = batches.map_err(|error| raise(py, Class::Trace, &error.to_string()))?;
        let (label, metadata) = (stated.0.clone(), metadata(&stated));
        let table = ArrowTable { label, schema, batches: batches.into(), metadata, key: OnceLock::new() };
        let source = Source::table(&stated.0, Arc::new(table), &options);
        // Wrong columns are refused here, and wrong values where they are read.
        source.open().map_err(|error| trace_error(py, error))?;
        Ok(Trace { source })
    }

    /// A trace of the content of a native file, in place of one that had this key.
    #[staticmethod]
    fn stored(name: &str, content: Vec<u8>, key: [u8; 32]) -> Self {
        Trace { source: Source::stored(name, content, key) }
    }

    /// Arrays with the buffer protocol, whose parts are copied when they are read: whole numbers all.
    #[staticmethod]
    fn arrays(
        py: Python<'_>,
        pages: &Bound<'_, PyAny>,
        writes: &Bound<'_, PyAny>,
        classes: Option<&Bound<'_, PyAny>>,
        stated: Stated,
        reading: Reading,
    ) -> PyResult<Self> {
        let options = reading.options(py)?;
        let view = |array: &Bound<'_, PyAny>, name: &str| {
            ArrayView::from_object(array)?.ok_or_else(|| {
                let text = format!("the array of {name} must have one dimension, and whole numbers of at most 64 bits in this machine's order of bytes");
                raise(py, Class::Trace, &text)
            })
        };
        let (pages, writes) = (view(pages, "pages")?, view(writes, "writes")?);
        if writes.len() != pages.len() {
            let text = format!("there are {} pages and {} writes; each reference has one of both", pages.len(), writes.len());
            return Err(raise(py, Class::Trace, &text));
        }
        let classes = classes.map(|classes| view(classes, "classes")).transpose()?;
        if let Some(classes) = classes.as_ref().filter(|classes| classes.len() != pages.len()) {
            let text = format!("there are {} pages and {} classes; each reference has one of both", pages.len(), classes.len());
            return Err(raise(py, Class::Trace, &text));
        }
        let references = ArrayReferences {
            label: stated.0.clone(),
            pages: Arc::new(pages),
            writes: Arc::new(writes),
            classes: classes.map(Arc::new),
            metadata: metadata(&stated),
        };
        let source = Source::supplied(&stated.0, Arc::new(references), &options);
        Ok(Trace { source })
    }

    /// A function that returns a new Arrow stream each time.
    #[staticmethod]
    fn stream(
        py: Python<'_>,
        make: Py<PyAny>,
        stated: Stated,
        references: Option<u64>,
        key: Option<[u8; 32]>,
        reading: Reading,
    ) -> PyResult<Self> {
        let options = reading.options(py)?;
        let table = StreamTable { label: stated.0.clone(), make, metadata: metadata(&stated), rows: references, key };
        let source = Source::table(&stated.0, Arc::new(table), &options);
        Ok(Trace { source })
    }

    /// Traces one after the other.
    #[staticmethod]
    fn sequence(py: Python<'_>, parts: Vec<PyRef<'_, Trace>>, reading: Reading) -> PyResult<Self> {
        let options = reading.options(py)?;
        let parts: Vec<Source> = parts.iter().map(|part| part.source.clone()).collect();
        if parts.is_empty() {
            return Err(wrong(py, "parts", "a trace has at least one part"));
        }
        Ok(Trace { source: Source::sequence(&parts, &options) })
    }

    /// Files or generators one after the other, read as the command reads them with `--concat`.
    #[staticmethod]
    fn concatenated(py: Python<'_>, names: Vec<String>, reading: Reading) -> PyResult<Self> {
        let options = reading.options(py)?;
        if names.is_empty() {
            return Err(wrong(py, "parts", "a trace has at least one part"));
        }
        let source = py.detach(|| Source::concat(&names, &options));
        let source = source.map_err(|error| trace_error(py, error))?;
        Ok(Trace { source })
    }

    /// The references to a share of the pages.
    #[staticmethod]
    fn sampled(py: Python<'_>, trace: &Trace, rate: f64, grain: u64) -> PyResult<Self> {
        let sample = PageSample { rate, grain };
        let references = py.detach(|| SampledReferences::new(&trace.source, sample));
        let references = references.map_err(|error| trace_error(py, error))?;
        Ok(Trace { source: references.into_source() })
    }

    /// The name in results.
    #[getter]
    fn label(&self) -> &str {
        self.source.label()
    }

    /// A key of the references and the metadata, 32 bytes.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let key = py.detach(|| self.source.content_key());
        let key = key.map_err(|error| trace_error(py, error))?;
        Ok(PyBytes::new(py, &key))
    }

    /// Reads all, and raises an error that is in the references.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let read = || -> Result<(), TraceError> {
            let mut reader = self.source.open_with(OptionalColumns::ALL)?;
            let mut batch = Batch::new();
            while reader.next_batch(&mut batch, 1 << 16)? {}
            Ok(())
        };
        py.detach(read).map_err(|error| trace_error(py, error))
    }

    /// The size of a page, the pages of the database and the number of references, as far as they are stated, and whether
    /// the trace was captured below a cache.
    fn stated(&self, py: Python<'_>) -> PyResult<StatedFigures> {
        let reader = py.detach(|| self.source.open());
        let reader = reader.map_err(|error| trace_error(py, error))?;
        let metadata = reader.metadata();
        Ok((metadata.page_size, metadata.database_pages, reader.references(), metadata.below_cache))
    }

    /// The description of the references as JSON, and notes.
    fn describe(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(String, Vec<String>)> {
        let watched = watched(py, progress.as_ref(), |watch| Lab::new(Settings::default(), watch).describe(&self.source));
        let (info, notes) = watched.finish(py)?;
        let json = serde_json::to_string(&info);
        let json = json.map_err(|error| raise(py, Class::Failure, &error.to_string()))?;
        Ok((json, notes))
    }

    /// Writes the trace to a file; returns notes on what was read and what the file does not have.
    fn write(
        &self,
        py: Python<'_>,
        path: &str,
        format: Option<&str>,
        level: Option<i32>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<String>> {
        let format = match format {
            Some(name) => parsed(py, "format", name)?,
            None => Format::of_name(Path::new(path)).ok_or_else(|| {
                let written = Format::ALL.iter().filter(|format| format.is_written());
                let names: Vec<&str> = written.map(|format| format.name()).collect();
                let names = names.join(" ");
                wrong(py, "path", format!("the name {path} does not show a format; give format=, one of: {names}"))
            })?,
        };
        let path = Path::new(path);
        let watched = watched(py, progress.as_ref(), |watch| {
            let outputs = [Some(path.to_owned()), format.sidecar(path)];
            let sources = std::slice::from_ref(&self.source);
            Source::refuse_overwriting(sources, outputs.into_iter().flatten())?;
            let lab = Lab::new(Settings::default(), watch);
            let mut reader = self.source.open_with(OptionalColumns::ALL)?;
            let mut writer = Writer::create_for(&reader, path, format, level)?;
            lab.for_each_batch(&mut reader, self.source.label(), |batch: &Batch| writer.write(batch))?;
            if let Some(classes) = reader.classes() {
                writer.name_classes(classes.names());
            }
            let mut notes = reader.notes().to_vec();
            notes.extend(writer.omitted());
            writer.finish()?;
            notes.extend(self.source.late_notes());
            Ok(notes)
        });
        Ok(watched.finish(py)?.0)
    }
}

/// The sources of some traces.
pub(crate) fn sources(traces: &[PyRef<'_, Trace>]) -> Vec<Source> {
    traces.iter().map(|trace| trace.source.clone()).collect()
}
