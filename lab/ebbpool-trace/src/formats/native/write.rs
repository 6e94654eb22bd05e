//! Writing native traces.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::operations::{ACTION, END, OPERATIONS, OVERWRITE, PAGES, READ, WRITE};
use super::requests::BYPASS;
use super::requests::TIME;
use super::{BELOW_CACHE, DATABASE_PAGES, NAME, OWN_NUMBERS, PAGE_SIZE, classes};
use crate::compression::Sink;
use crate::error::TraceError;
use crate::formats::{Encode, WriteTarget};
use crate::reference::{Batch, OptionalColumns, PageClasses, RequestDetail, Trim};

/// References in a row group, which is also one Parquet page per column because the
/// compressor finds repetitions only within a page.
const ROW_GROUP: usize = 1 << 20;
/// Ranges of pages are stored in the footer, which is read as a whole and not compressed.
const MOST_RANGES: usize = 1 << 14;
/// zstd level when the caller names none: 3.5 million references a second. Level
/// 19 makes PostgreSQL strings up to a quarter smaller and takes twelve times as
/// long.
const LEVEL: i32 = 12;

struct NativeEncoder {
    label: String,
    file: NativeFile,
    /// References of the row group that is being filled.
    pages: Vec<i64>,
    writes: Vec<bool>,
    /// `None` if there is no column of classes.
    classes: Option<Vec<i32>>,
    names: Option<Vec<String>>,
    /// `None` if there are no columns of times and rings. Unless they are expected the first references decide.
    requests: Option<RequestValues>,
    /// `None` if there are no columns of trims and writes of whole pages.
    operations: Option<OperationValues>,
}

/// The first references decide whether the file has times and rings.
enum NativeFile {
    Unbegun(Box<UnbegunFile>),
    Begun(Box<SerializedFileWriter<Sink>>),
    /// It could not be begun.
    Failed,
}

struct UnbegunFile {
    sink: Sink,
    pairs: Vec<KeyValue>,
    level: i32,
    has_classes: bool,
}

/// The columns `action` and `pages` of a row group, in place of `write`.
#[derive(Default)]
struct OperationValues {
    actions: Vec<i32>,
    pages: Vec<i64>,
}

/// The columns `time_us` and `bypass` of a row group.
#[derive(Default)]
struct RequestValues {
    times: Vec<i64>,
    rings: Vec<i32>,
}

pub(super) fn create(target: WriteTarget) -> Result<Box<dyn Encode>, TraceError> {
    let label = target.sink.file().label().to_owned();
    let metadata = target.metadata;
    let number = |number: u64| number.to_string();
    let mut pairs: Vec<KeyValue> = [
        (NAME, metadata.name.clone()),
        (PAGE_SIZE, metadata.page_size.map(number)),
        (DATABASE_PAGES, metadata.database_pages.map(number)),
        (BELOW_CACHE, metadata.below_cache.then(|| "true".to_owned())),
        (OWN_NUMBERS, metadata.own_numbers.then(|| "true".to_owned())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(KeyValue::new(key.to_owned(), value?)))
    .collect();
    let by_page = target.classes.filter(|known| (1..=MOST_RANGES).contains(&known.ranges().len()));
    pairs.extend(by_page.into_iter().flat_map(classes::pairs));
    let has_classes = target.classes.is_some() && by_page.is_none();
    Ok(Box::new(NativeEncoder {
        label,
        file: NativeFile::Unbegun(Box::new(UnbegunFile {
            sink: target.sink,
            pairs,
            level: target.level.unwrap_or(LEVEL).clamp(1, 22),
            has_classes,
        })),
        pages: Vec::new(),
        writes: Vec::new(),
        classes: has_classes.then(Vec::new),
        names: target.classes.filter(|_| has_classes).map(|known| known.names().to_vec()),
        requests: None,
        operations: None,
    }))
}

impl UnbegunFile {
    fn begin(self, has_requests: bool, has_operations: bool) -> ParquetResult<SerializedFileWriter<Sink>> {
        let class = match self.has_classes {
            true => " REQUIRED INT32 class (INTEGER(32,false));",
            false => "",
        };
        let requests = match has_requests {
            true => " REQUIRED INT64 time_us; REQUIRED INT32 bypass (INTEGER(32,false));",
            false => "",
        };
        let write = match has_operations {
            true => " REQUIRED INT32 action (INTEGER(32,false)); REQUIRED INT64 pages (INTEGER(64,false));",
            false => " REQUIRED BOOLEAN write;",
        };
        let mut pairs = self.pairs;
        if has_operations {
            pairs.push(KeyValue::new(OPERATIONS.to_owned(), "true".to_owned()));
        }
        let schema = parse_message_type(&format!(
            "message trace {{ REQUIRED INT64 page (INTEGER(64,false));{write}{class}{requests} }}"
        ))?;
        // On real reference strings plain values under zstd are smaller than
        // every other encoding (a million TPC-C references: plain 1.3 MB, byte
        // stream split 1.5, dictionary 1.4, delta 2.2): zstd finds repeated
        // sequences of pages only where a page is a whole number of bytes.
        let properties = WriterProperties::builder()
            .set_created_by(concat!("ebbpool ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(pairs))
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(self.level)?))
            .set_dictionary_enabled(false)
            .set_column_dictionary_enabled(classes::CLASS.into(), true)
            .set_column_dictionary_enabled(BYPASS.into(), true)
            .set_column_dictionary_enabled(ACTION.into(), true)
            .set_column_dictionary_enabled(PAGES.into(), true)
            .set_encoding(Encoding::PLAIN)
            // Times grow by little at a time, and deltas that are all the same have no length.
            .set_column_encoding(TIME.into(), Encoding::DELTA_BINARY_PACKED)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_data_page_size_limit(ROW_GROUP * size_of::<u64>() * 2)
            .set_data_page_row_count_limit(ROW_GROUP)
            .set_write_batch_size(ROW_GROUP)
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .build();
        SerializedFileWriter::new(self.sink, Arc::new(schema), Arc::new(properties))
    }
}

/// Calls into the Parquet writer and converts its errors into those of the output file.
fn unwritable<T>(file: &str, call: impl FnOnce() -> ParquetResult<T>) -> Result<T, TraceError> {
    call().map_err(|error| {
        let error = match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        };
        TraceError::io(file, "write", error)
    })
}

impl NativeEncoder {
    /// The file, begun with the columns of the first references.
    fn begun(&mut self, has_requests: bool) -> Result<(), TraceError> {
        if !matches!(self.file, NativeFile::Unbegun(_)) {
            return Ok(());
        }
        if let NativeFile::Unbegun(unbegun) = std::mem::replace(&mut self.file, NativeFile::Failed) {
            let writer = unwritable(&self.label, || unbegun.begin(has_requests, self.operations.is_some()))?;
            self.file = NativeFile::Begun(Box::new(writer));
            self.requests = has_requests.then(RequestValues::default);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let NativeFile::Begun(writer) = &mut self.file else {
            return Err(failed(&self.label));
        };
        unwritable(&self.label, || {
            let mut group = writer.next_row_group()?;
            if let Some(mut column) = group.next_column()? {
                let pages = column.typed::<Int64Type>();
                pages.write_batch(&self.pages, None, None)?;
                column.close()?;
            }
            match &self.operations {
                None => {
                    if let Some(mut column) = group.next_column()? {
                        let writes = column.typed::<BoolType>();
                        writes.write_batch(&self.writes, None, None)?;
                        column.close()?;
                    }
                }
                Some(OperationValues { actions, pages }) => {
                    if let Some(mut column) = group.next_column()? {
                        column.typed::<Int32Type>().write_batch(actions, None, None)?;
                        column.close()?;
                    }
                    if let Some(mut column) = group.next_column()? {
                        column.typed::<Int64Type>().write_batch(pages, None, None)?;
                        column.close()?;
                    }
                }
            }
            if let Some(classes) = &self.classes
                && let Some(mut column) = group.next_column()?
            {
                let column_of_classes = column.typed::<Int32Type>();
                column_of_classes.write_batch(classes, None, None)?;
                column.close()?;
            }
            if let Some(RequestValues { times, rings }) = &self.requests {
                if let Some(mut column) = group.next_column()? {
                    column.typed::<Int64Type>().write_batch(times, None, None)?;
                    column.close()?;
                }
                if let Some(mut column) = group.next_column()? {
                    column.typed::<Int32Type>().write_batch(rings, None, None)?;
                    column.close()?;
                }
            }
            group.close()?;
            Ok(())
        })?;
        self.pages.clear();
        self.writes.clear();
        self.classes.iter_mut().for_each(Vec::clear);
        if let Some(requests) = &mut self.requests {
            requests.times.clear();
            requests.rings.clear();
        }
        if let Some(operations) = &mut self.operations {
            operations.actions.clear();
            operations.pages.clear();
        }
        Ok(())
    }

    /// Appends the references from `at` to `end` of the batch.
    fn append(&mut self, batch: &Batch, mut at: usize, stop: usize) -> Result<(), TraceError> {
        while at < stop {
            let end = stop.min(at + ROW_GROUP - self.pages.len());
            // UINT_64 is stored as the INT64 of the same bits.
            self.pages.extend(batch.pages[at..end].iter().map(|&page| page as i64));
            match &mut self.operations {
                None => self.writes.extend_from_slice(&batch.writes[at..end]),
                Some(operations) => {
                    let action = |at: usize| match (batch.writes[at], batch.is_whole(at)) {
                        (false, _) => READ,
                        (true, false) => WRITE,
                        (true, true) => OVERWRITE,
                    };
                    operations.actions.extend((at..end).map(action));
                    operations.pages.resize(self.pages.len(), 1);
                }
            }
            if let Some(classes) = &mut self.classes {
                let known = batch.classes.get(at..end).unwrap_or_default();
                // UINT_32 is stored as the INT32 of the same bits.
                classes.extend(known.iter().map(|&class| class as i32));
                classes.resize(self.pages.len(), 0);
            }
            if let Some(requests) = &mut self.requests {
                let known = batch.requests.get(at..end).unwrap_or_default();
                requests.extend(known, self.pages.len());
            }
            at = end;
            self.flush_if_full()?;
        }
        Ok(())
    }

    /// Appends a row that is no reference.
    fn append_trim(&mut self, trim: &Trim) -> Result<(), TraceError> {
        // More pages than a number of 64 bits counts are two rows.
        let pages = (trim.last - trim.first).checked_add(1);
        let halves = [(trim.first, pages.unwrap_or(u64::MAX)), (u64::MAX, u64::from(pages.is_none()))];
        for (first, pages) in halves.into_iter().filter(|(_, pages)| *pages > 0) {
            let Some(operations) = &mut self.operations else {
                return Err(unexpected(&self.label));
            };
            self.pages.push(first as i64);
            operations.actions.push(END);
            operations.pages.push(pages as i64);
            if let Some(classes) = &mut self.classes {
                classes.push(0);
            }
            if let Some(requests) = &mut self.requests {
                requests.extend(&[RequestDetail { time_us: trim.time_us, bypass: 0 }], self.pages.len());
            }
            self.flush_if_full()?;
        }
        Ok(())
    }

    fn flush_if_full(&mut self) -> Result<(), TraceError> {
        match self.pages.len() == ROW_GROUP {
            true => self.flush(),
            false => Ok(()),
        }
    }
}

/// The error of trims in a trace that promised none.
fn unexpected(file: &str) -> TraceError {
    let problem = "has trims or writes of whole pages that its beginning does not announce; a text announces them with `# ebbpool.operations=true` in its first line";
    TraceError::Columns { file: file.to_owned(), problem: problem.to_owned() }
}

/// The error of a file that could not be begun.
fn failed(file: &str) -> TraceError {
    let error = io::Error::other("an earlier write failed");
    TraceError::io(file, "write", error)
}

impl RequestValues {
    /// Appends requests up to `count` of them; those that are missing have the time before, and no ring.
    fn extend(&mut self, requests: &[RequestDetail], count: usize) {
        let times = requests.iter().map(|request| request.time_us);
        let times = times.map(|time| i64::try_from(time).unwrap_or(i64::MAX));
        self.times.extend(times);
        // UINT_32 is stored as the INT32 of the same bits.
        let rings = requests.iter().map(|request| request.bypass as i32);
        self.rings.extend(rings);
        let last = self.times.last().copied().unwrap_or(0);
        self.times.resize(count, last);
        self.rings.resize(count, 0);
    }
}

impl Encode for NativeEncoder {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.begun(self.requests.is_some() || !batch.requests.is_empty())?;
        if self.operations.is_none() && batch.whole.contains(&true) {
            return Err(unexpected(&self.label));
        }
        let mut at = 0;
        for trim in &batch.trims {
            self.append(batch, at, trim.before)?;
            self.append_trim(trim)?;
            at = trim.before;
        }
        self.append(batch, at, batch.len())
    }

    fn expect(&mut self, columns: OptionalColumns) {
        self.operations = columns.operations.then(OperationValues::default);
        self.requests = columns.requests.then(RequestValues::default);
    }

    fn name_classes(&mut self, names: &[String]) {
        if let Some(own) = &mut self.names {
            *own = names.to_vec();
        }
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TraceError> {
        self.begun(false)?;
        if !self.pages.is_empty() {
            self.flush()?;
        }
        let NativeFile::Begun(mut writer) = self.file else {
            return Err(failed(&self.label));
        };
        for pair in classes::pairs(&PageClasses::named(self.names.unwrap_or_default())) {
            writer.append_key_value_metadata(pair);
        }
        unwritable(&self.label, || writer.into_inner())?.finish()
    }
}
