//! *native*: Parquet with columns `page` (unsigned integer) and `write`
//! (boolean), and key-value metadata `ebbpool.name`, `ebbpool.page_size`,
//! `ebbpool.database_pages`, `ebbpool.below_cache`. A column `time_us` (integer) may say when each reference was made, a
//! column `bypass` (integer) through which ring, a column `class` (integer) the class of its page; instead of the column,
//! `ebbpool.class_ranges` may say which pages are of which class. Instead of `write`, `action` and `pages` may say which writes replace whole
//! pages, and which pages end.

mod classes;
mod integers;
mod operations;
mod requests;
mod rows;
mod write;

use std::io;

use ebbpool_cost::one_line;
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReaderImpl, GenericColumnReader};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};

use super::thrift::CheckedFile;
use super::{Decode, Decoding, FormatEntry, OpenedTrace, StoredClasses};
use crate::error::TraceError;
use crate::panics::guarded;
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::stream::{Seekable, Stream};

use integers::{IntegerColumn, IntegerDecoder};
use operations::{OperationColumns, OperationDecoder};
use requests::{RequestColumns, RequestDecoder, TraceClock};

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "native",
    description: "Parquet with columns `page` (unsigned integer) and `write` (boolean)",
    extensions: &["parquet", "pq"],
    magic: |head| head.starts_with(MAGIC),
    resembles: |_| false,
    keeps_metadata: true,
    stored_classes: StoredClasses::All,
    open,
    create: Some(write::create),
};

const MAGIC: &[u8] = b"PAR1";
const NAME: &str = "ebbpool.name";
const PAGE_SIZE: &str = "ebbpool.page_size";
const DATABASE_PAGES: &str = "ebbpool.database_pages";
/// `true` where the trace was captured below a cache.
const BELOW_CACHE: &str = "ebbpool.below_cache";
/// `true` where names were numbered as they appeared.
const OWN_NUMBERS: &str = "ebbpool.own_numbers";

fn damaged(file: &str, detail: impl std::fmt::Display) -> TraceError {
    TraceError::Damaged { file: file.to_owned(), format: "Parquet", detail: one_line(&detail.to_string()) }
}

/// The error of a read: damage found by the Parquet reader, or an error of the system.
fn unreadable(file: &str, error: ParquetError) -> TraceError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) if error.raw_os_error().is_some() => TraceError::io(file, "read", *error),
            Ok(error) => damaged(file, error),
            Err(other) => damaged(file, other),
        },
        ParquetError::General(text) | ParquetError::EOF(text) => damaged(file, text),
        ParquetError::NYI(text) => TraceError::Columns {
            file: file.to_owned(),
            problem: format!("uses a Parquet feature that is not supported: {}", one_line(&text)),
        },
        other => damaged(file, other),
    }
}

/// Calls into the Parquet crate and converts its errors and panics into ours.
fn parquet<T>(file: &str, call: impl FnOnce() -> ParquetResult<T>) -> Result<T, TraceError> {
    match guarded(call) {
        Ok(result) => result.map_err(|error| unreadable(file, error)),
        Err(panic) => Err(damaged(file, panic)),
    }
}

fn open(mut stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let label = stream.label().to_owned();
    if !stream.head(MAGIC.len())?.starts_with(MAGIC) {
        return Err(damaged(&label, "it does not begin with PAR1"));
    }
    let file = opened(&label, stream)?;
    let footer = file.metadata();
    let schema = footer.file_metadata().schema_descr();
    let pairs = footer.file_metadata().key_value_metadata();
    let metadata = metadata_of(&label, pairs)?;
    let operations = match decoding.options.columns {
        None => {
            let is_named = decoding.options.format.is_some();
            OperationColumns::find((&label, schema.columns()), pairs, (is_named, decoding.columns.operations))?
        }
        Some(_) => None,
    };
    let found = || -> Result<_, TraceError> {
        let (page_column, page) = find(&label, schema.columns(), "page")?;
        let page_kind = PageKind::from_column(&label, page)?;
        if let Some(columns) = operations {
            return Ok((page_column, WriteColumns::Operations(columns), page_kind));
        }
        let (write_column, write) = find(&label, schema.columns(), "write")?;
        if write.physical_type() != Type::BOOLEAN {
            return Err(TraceError::Columns {
                file: label.clone(),
                problem: format!(
                    "column 'write' is {}, expected BOOLEAN (name it with --columns, as in page=page,write=write:1)",
                    write.physical_type()
                ),
            });
        }
        Ok((page_column, WriteColumns::Write(write_column), page_kind))
    };
    // Any table has columns with roles; a trace of this format has those of fixed names, and what other programs call so may have more.
    let is_certain = operations.is_some() || is_ours(pairs) || !rows::asks(schema.columns());
    let (page_column, write_column, page_kind) = match found() {
        Ok(columns) if decoding.options.columns.is_none() && is_certain => columns,
        Err(error) if decoding.options.columns.is_none() && !rows::has_roles(schema.columns()) => return Err(error),
        _ => return rows::open(&label, file, metadata, decoding),
    };
    let mut rows = 0u64;
    for group in footer.row_groups() {
        rows = u64::try_from(group.num_rows())
            .ok()
            .and_then(|group| rows.checked_add(group))
            .ok_or_else(|| damaged(&label, "impossible number of rows"))?;
    }
    let mut notes = match operations {
        None => rows::unread_notes(&label, schema.columns()),
        Some(_) => Vec::new(),
    };
    let (mut class_column, mut classes) = (None, None);
    let all_columns = (label.as_str(), schema.columns());
    if decoding.columns.classes {
        let stated = classes::of_metadata(&label, pairs)?;
        class_column = classes::find(all_columns, &mut notes);
        let has_classes = class_column.is_some() || !stated.ranges().is_empty();
        classes = has_classes.then_some(stated);
    }
    let request_columns = match decoding.columns.requests {
        true => RequestColumns::find(all_columns, &mut notes),
        false => None,
    };
    let by_page = classes.take_if(|_| class_column.is_none());
    let opened = OpenedTrace {
        references: Some(rows).filter(|_| matches!(write_column, WriteColumns::Write(_))),
        metadata,
        notes,
        decoder: Box::new(NativeDecoder {
            label,
            file,
            page_column,
            page_kind,
            write_column,
            class_column,
            request_columns,
            clock: TraceClock::new(decoding.volumes.are_mixed()),
            names: classes.map(|classes| classes.names().to_vec()),
            next_group: 0,
            group: None,
            row: 0,
            rows,
        }),
    };
    Ok(match by_page {
        Some(classes) => opened.with_classes(classes),
        None => opened,
    })
}

/// The Parquet file in a stream.
fn opened(label: &str, stream: Stream) -> Result<Box<dyn FileReader>, TraceError> {
    match stream.into_seekable()? {
        Seekable::File(file) => reader(label, file),
        Seekable::Bytes(bytes) => reader(label, bytes),
    }
}

fn reader<R: ChunkReader + 'static>(label: &str, file: R) -> Result<Box<dyn FileReader>, TraceError> {
    let reader = parquet(label, || SerializedFileReader::new(CheckedFile::new(file)?))?;
    Ok(Box::new(reader))
}

fn find<'a>(file: &str, columns: &'a [ColumnDescPtr], name: &str) -> Result<(usize, &'a ColumnDescriptor), TraceError> {
    let found = columns.iter().enumerate().find(|(_, column)| matches!(column.path().parts(), [only] if only == name));
    let problem = match found {
        Some((index, column)) if column.max_rep_level() == 0 => {
            return Ok((index, column));
        }
        Some(_) => format!("column '{name}' is a list, expected one value per row"),
        None => {
            let names: Vec<String> = columns.iter().take(20).map(|column| column.path().string()).collect();
            format!(
                "no column '{name}'; a native trace has 'page' and 'write', this file has {} (say which with --columns, as in --columns page=blk,write=op:W)",
                one_line(&names.join(", "))
            )
        }
    };
    Err(TraceError::Columns { file: file.to_owned(), problem })
}

/// True if this project's writer has left a word in the file.
fn is_ours(pairs: Option<&Vec<KeyValue>>) -> bool {
    pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key.starts_with("ebbpool.")))
}

fn metadata_of(file: &str, pairs: Option<&Vec<KeyValue>>) -> Result<Metadata, TraceError> {
    let find = |key: &str| pairs?.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    let number = |key: &str| match find(key) {
        None => Ok(None),
        Some(text) => text.trim().parse().map(Some).map_err(|_| TraceError::Metadata {
            file: file.to_owned(),
            problem: format!("{key} is '{}', expected a whole number", one_line(&text)),
        }),
    };
    let flag = |key: &str| match find(key).as_deref().map(str::trim) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => Err(TraceError::Metadata {
            file: file.to_owned(),
            problem: format!("{key} is '{}', expected true or false", one_line(text)),
        }),
    };
    Ok(Metadata {
        name: find(NAME),
        page_size: number(PAGE_SIZE)?,
        database_pages: number(DATABASE_PAGES)?,
        below_cache: flag(BELOW_CACHE)?,
        own_numbers: flag(OWN_NUMBERS)?,
    })
}

/// How the page column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PageKind {
    wide: bool,
    unsigned: bool,
}

impl PageKind {
    fn from_column(file: &str, column: &ColumnDescriptor) -> Result<PageKind, TraceError> {
        let wide = match column.physical_type() {
            Type::INT32 if is_integer(column) => false,
            Type::INT64 if is_integer(column) => true,
            other => {
                return Err(TraceError::Columns {
                    file: file.to_owned(),
                    problem: format!(
                        "column 'page' is {other}, expected an integer of 32 or 64 bits (cast it, as in SQL's `page::UBIGINT AS page`)"
                    ),
                });
            }
        };
        Ok(PageKind { wide, unsigned: is_unsigned(column) })
    }
}

/// True if a number is nothing else, such as a date or a decimal number.
fn is_integer(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(logical) => matches!(logical, LogicalType::Integer(_)),
        None => !matches!(
            column.converted_type(),
            ConvertedType::DECIMAL
                | ConvertedType::DATE
                | ConvertedType::TIME_MILLIS
                | ConvertedType::TIME_MICROS
                | ConvertedType::TIMESTAMP_MILLIS
                | ConvertedType::TIMESTAMP_MICROS
        ),
    }
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => matches!(
            column.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
        ),
    }
}

struct NativeDecoder {
    label: String,
    file: Box<dyn FileReader>,
    page_column: usize,
    page_kind: PageKind,
    write_column: WriteColumns,
    /// The column of classes, if it exists and is asked for, and the names of the classes.
    class_column: Option<IntegerColumn>,
    names: Option<Vec<String>>,
    /// The columns of times and rings, if one exists and they are asked for.
    request_columns: Option<RequestColumns>,
    clock: TraceClock,
    next_group: usize,
    /// The current row group; `None` between groups.
    group: Option<RowGroup>,
    /// Rows decoded so far, of `rows`.
    row: u64,
    rows: u64,
}

/// The columns of a row group and the number of rows left in them.
struct RowGroup {
    pages: PageColumn,
    writes: WriteDecoder,
    classes: Option<IntegerDecoder>,
    requests: Option<RequestDecoder>,
    left: usize,
}

/// The columns that say which references write.
#[derive(Debug, Clone, Copy)]
enum WriteColumns {
    Write(usize),
    Operations(OperationColumns),
}

enum WriteDecoder {
    Write(Box<ColumnDecoder<BoolType>>),
    Operations(Box<OperationDecoder>),
}

enum PageColumn {
    Narrow(ColumnDecoder<Int32Type>),
    Wide(ColumnDecoder<Int64Type>),
}

impl Decode for NativeDecoder {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            let group = match &mut self.group {
                Some(group) if group.left > 0 => group,
                _ if self.next_group == self.file.num_row_groups() => break,
                _ => {
                    let group = self.open_group(self.next_group)?;
                    self.next_group += 1;
                    self.group.insert(group)
                }
            };
            let count = group.left.min(max - batch.len());
            if count == 0 {
                continue;
            }
            let position = RowPosition { file: &self.label, row: self.row };
            let start = batch.len();
            match &mut group.pages {
                PageColumn::Narrow(column) => {
                    let values = column.read("page", count, position)?;
                    if self.page_kind.unsigned {
                        // UINT_32 is stored as the INT32 of the same bits.
                        let pages = values.iter().map(|&value| u64::from(value as u32));
                        batch.pages.extend(pages);
                    } else {
                        position.not_negative(values.iter().map(|&value| i64::from(value)))?;
                        batch.pages.extend(values.iter().map(|&value| value as u64));
                    }
                }
                PageColumn::Wide(column) => {
                    let values = column.read("page", count, position)?;
                    if !self.page_kind.unsigned {
                        position.not_negative(values.iter().copied())?;
                    }
                    batch.pages.extend(values.iter().map(|&value| value as u64));
                }
            }
            match &mut group.writes {
                WriteDecoder::Write(column) => {
                    let writes = column.read("write", count, position)?;
                    batch.writes.extend_from_slice(writes);
                }
                WriteDecoder::Operations(columns) => columns.append(batch, (count, position))?,
            }
            if let Some(classes) = &mut group.classes {
                let push = |class| batch.classes.push(class);
                classes.for_each_u32(classes::CLASS, (count, position), push)?;
            }
            if let Some(requests) = &mut group.requests {
                let rows = (count, position);
                requests.append(&mut batch.requests, &mut self.clock, rows)?;
            }
            if let WriteDecoder::Operations(columns) = &group.writes {
                columns.take_trims(batch, start);
            }
            group.left -= count;
            self.row += count as u64;
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        if self.rows == 0 { 1.0 } else { self.row as f64 / self.rows as f64 }
    }

    fn classes(&self) -> Option<PageClasses> {
        self.names.clone().map(PageClasses::named)
    }

    fn columns(&self) -> OptionalColumns {
        let operations = matches!(&self.write_column, WriteColumns::Operations(columns) if columns.are_asked_for());
        OptionalColumns { requests: self.request_columns.is_some(), operations, classes: false }
    }
}

impl NativeDecoder {
    fn open_group(&self, index: usize) -> Result<RowGroup, TraceError> {
        parquet(&self.label, || {
            let group = self.file.get_row_group(index)?;
            let schema = self.file.metadata().file_metadata().schema_descr();
            let column = |index| -> ParquetResult<_> {
                let pages: Box<dyn PageReader> = Box::new(CheckedPages { pages: group.get_column_page_reader(index)? });
                Ok((schema.column(index), pages))
            };
            let (page, page_reader) = column(self.page_column)?;
            let writes = match self.write_column {
                WriteColumns::Write(at) => {
                    let (write, pages) = column(at)?;
                    WriteDecoder::Write(Box::new(ColumnDecoder::new(write, pages)))
                }
                WriteColumns::Operations(columns) => {
                    WriteDecoder::Operations(Box::new(OperationDecoder::new(columns, column)?))
                }
            };
            let classes = match self.class_column {
                Some(found) => {
                    let (class, pages) = column(found.at)?;
                    Some(IntegerDecoder::new(found, class, pages))
                }
                None => None,
            };
            let requests = self.request_columns.map(|found| RequestDecoder::new(found, column));
            Ok(RowGroup {
                left: usize::try_from(group.metadata().num_rows())?,
                pages: if self.page_kind.wide {
                    PageColumn::Wide(ColumnDecoder::new(page, page_reader))
                } else {
                    PageColumn::Narrow(ColumnDecoder::new(page, page_reader))
                },
                writes,
                classes,
                requests: requests.transpose()?,
            })
        })
    }
}

/// A file and a row in it, for messages.
#[derive(Clone, Copy)]
struct RowPosition<'a> {
    file: &'a str,
    /// The first row being read.
    row: u64,
}

impl RowPosition<'_> {
    fn error(&self, offset: usize, problem: String) -> TraceError {
        TraceError::Row { file: self.file.to_owned(), row: self.row + offset as u64, problem }
    }

    fn not_negative(&self, mut values: impl ExactSizeIterator<Item = i64> + Clone) -> Result<(), TraceError> {
        // Checks all values at once first, which compiles to vector code.
        if values.clone().fold(0, |bits, value| bits | value) >= 0 {
            return Ok(());
        }
        let offset = values.position(|value| value < 0).unwrap_or(0);
        Err(self.error(offset, "page is negative, expected a page number from 0 to 2^64-1".to_owned()))
    }
}

/// One column of a row group, decoded piece by piece.
struct ColumnDecoder<T: DataType> {
    reader: ColumnReaderImpl<T>,
    nullable: bool,
    values: Vec<T::T>,
    levels: Vec<i16>,
}

impl<T: DataType> ColumnDecoder<T> {
    fn new(descriptor: ColumnDescPtr, pages: Box<dyn PageReader>) -> ColumnDecoder<T> {
        ColumnDecoder {
            nullable: descriptor.max_def_level() > 0,
            reader: GenericColumnReader::new(descriptor, pages),
            values: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// The next `count` values, none of them null.
    fn read(&mut self, name: &str, count: usize, position: RowPosition) -> Result<&[T::T], TraceError> {
        let (values, levels) = self.read_with_nulls(name, count, position)?;
        if values.len() < count {
            // Columns are flat, so the highest level means a value.
            let offset = levels.iter().position(|&level| level == 0);
            return Err(
                position.error(offset.unwrap_or(values.len()), format!("{name} is null, expected a value in every row"))
            );
        }
        Ok(values)
    }

    /// The values of the next `count` rows that are not null, and the levels of these rows, 0 where the value is null; no
    /// levels if no value can be null.
    fn read_with_nulls(&mut self, name: &str, count: usize, position: RowPosition) -> Result<(&[T::T], &[i16]), TraceError> {
        self.values.clear();
        self.levels.clear();
        let (rows, values, _) = parquet(position.file, || {
            let levels = self.nullable.then_some(&mut self.levels);
            self.reader.read_records(count, levels, None, &mut self.values)
        })?;
        let complete = match self.nullable {
            true => self.levels.len() == count,
            false => values == count,
        };
        if rows < count || !complete || self.values.len() != values {
            return Err(damaged(position.file, format!("column '{name}' ends before the footer's number of rows")));
        }
        Ok((&self.values, &self.levels))
    }
}

/// Pages that are checked before the decoder reads them.
struct CheckedPages {
    pages: Box<dyn PageReader>,
}

impl CheckedPages {
    fn check(page: &Page) -> ParquetResult<()> {
        if let Page::DictionaryPage { buf, num_values, .. } = page {
            // The decoder allocates memory for as many values as the page claims to
            // hold, up to 2^32 of them; the narrowest values have a byte (there are no
            // dictionaries of booleans).
            if *num_values as usize > buf.len() {
                return Err(ParquetError::General(format!(
                    "a dictionary page of {} bytes cannot hold {num_values} values",
                    buf.len()
                )));
            }
        }
        Ok(())
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        loop {
            let page = self.pages.get_next_page()?;
            if let Some(page) = &page {
                Self::check(page)?;
                // The decoder would mistake a page without values for the end.
                if page.is_data_page() && page.num_values() == 0 {
                    continue;
                }
            }
            return Ok(page);
        }
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<ParquetResult<Page>> {
        self.get_next_page().transpose()
    }
}
