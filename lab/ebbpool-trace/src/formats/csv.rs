//! *csv*: comma-separated values, or separated by semicolons, tabs or bars, with a
//! line of column names.
//!
//! [`Columns`] say which columns hold a reference; without them, they are guessed
//! from common names. The format holds no metadata, and of classes only the numbers.

mod classes;
mod words;

use std::io::{self, Read, Write};
use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::{ByteRecord, ReaderBuilder};
use ebbpool_cost::{did_you_mean, one_line};

use super::lines::decimal;
use super::requests::{ForeignRequest, LONGEST_REQUEST, Names, PendingRequest, pages, pages_of_volume};
use super::times::TimeUnit;
use super::{Decode, Decoding, Encode, FormatEntry, OpenedTrace, StoredClasses, WriteTarget};
use crate::bad_lines::BadLines;
use crate::columns::{ByteColumn, Columns, PageColumns, TimeColumn, WriteColumn};
use crate::compression::Sink;
use crate::error::{TraceError, quoted};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::stream::{BUFFER, Stream};
use classes::ClassField;
use words::{Operation, WriteField};

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "csv",
    description: "a line of column names, then a line per reference or request; see --columns",
    extensions: &["csv", "tsv"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    stored_classes: StoredClasses::All,
    open,
    create: Some(create),
};

/// Bytes that the csv crate reads ahead.
const READ_AHEAD: usize = 1 << 16;
/// The longest record, in bytes: without a limit, an unclosed quotation mark would read
/// the whole file into memory.
const LONGEST_RECORD: u64 = 1 << 20;

/// Names that mean a page number, a byte offset, a length in bytes, or whether a
/// page is written; each in order of preference.
const PAGE_NAMES: &[&str] = &[
    "page", "page_id", "pageid", "page_no", "page_number", "blk", "blkno", "block", "block_id", "block_no", "block_number",
    "blocknum",
];
const OFFSET_NAMES: &[&str] = &["offset", "byte_offset", "offset_bytes"];
const SIZE_NAMES: &[&str] = &["size", "length", "len", "bytes", "size_bytes"];
const WRITE_NAMES: &[&str] = &["write", "is_write", "iswrite", "dirty", "op", "operation", "rw", "type", "access", "mode"];

/// Names, or parts of names, of columns that would change the figures if they were used.
const LIKE_SIZES: &[&str] = &[
    "size", "length", "len", "bytes", "nbytes", "count", "sectors", "nsectors", "blocks", "nblocks", "blkcount", "iosize",
    "reqsize",
];
const LIKE_VOLUMES: &[&str] = &[
    "volume", "vol", "device", "dev", "deviceid", "disk", "diskid", "disknumber", "disknum", "host", "hostname", "asu", "lun",
    "lba_space", "file", "fileid", "filename", "path", "inode", "ino", "relation", "rel", "relfilenode", "relid", "relnode",
    "table", "tablespace", "segment", "namespace", "nsid", "major", "partition", "tenant", "shard",
];

const CLASS_NAME: &str = "class";
/// The name of a column of times in native traces, which says their unit.
const TIME_NAME: &str = "time_us";

/// The bytes of a trace, in the form that the csv crate reads.
struct CsvInput {
    stream: Stream,
    given: u64,
    last: u8,
    /// The offset at which the current record must end at the latest.
    end: Arc<AtomicU64>,
}

impl Read for CsvInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given > self.end.load(Ordering::Relaxed) {
            return Err(io::Error::other(TraceError::Columns {
                file: self.stream.label().to_owned(),
                problem: format!("a record longer than {LONGEST_RECORD} bytes; is a quotation mark not closed?"),
            }));
        }
        if self.stream.bytes().is_empty() && !self.stream.fill().map_err(io::Error::other)? {
            return Ok(0);
        }
        let bytes = self.stream.bytes();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.last = buffer[..count].last().copied().unwrap_or(self.last);
        self.stream.consume(count);
        self.given += count as u64;
        Ok(count)
    }
}

/// The separator of fields: the candidate that is most frequent in the first line.
fn delimiter(head: &[u8]) -> u8 {
    let line = first_line(head);
    let count = |delimiter: u8| line.iter().filter(|&&byte| byte == delimiter).count();
    let mut most = b',';
    for other in [b';', b'\t', b'|'] {
        if count(other) > count(most) {
            most = other;
        }
    }
    most
}

fn first_line(head: &[u8]) -> &[u8] {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    head.split(|&byte| byte == b'\n').next().unwrap_or(head)
}

/// True if the first line has common column names.
fn resembles(head: &[u8]) -> bool {
    let line = String::from_utf8_lossy(first_line(head));
    let names: Vec<String> =
        line.trim_end().split(char::from(delimiter(head))).map(|name| name.trim().trim_matches('"').to_owned()).collect();
    names.len() > 1 && guess(&names).map_or(true, |guessed| guessed.is_some_and(|guessed| guessed.write.is_some()))
}

/// The columns to which `header` gives common names; the error asks a question, if another reading of the names is as good.
fn guess(header: &[String]) -> Result<Option<Columns>, String> {
    let find = |names: &[&str]| {
        names.iter().find_map(|name| {
            let found = header.iter().find(|column| column.eq_ignore_ascii_case(name));
            found.cloned()
        })
    };
    let measure = |column| ByteColumn { column, unit: 1 };
    let bytes =
        find(OFFSET_NAMES).map(|offset| PageColumns::Bytes { offset: measure(offset), size: find(SIZE_NAMES).map(measure) });
    let page = find(PAGE_NAMES);
    let Some(pages) = page.clone().map(PageColumns::Page).or_else(|| bytes.clone()) else {
        return Ok(None);
    };
    let guessed = Columns {
        pages,
        volumes: Vec::new(),
        write: find(WRITE_NAMES).map(|column| WriteColumn::of_words(&column)),
        class: find(&[CLASS_NAME]),
        time: find(&[TIME_NAME]).map(|column| TimeColumn { column, unit: TimeUnit::Microseconds }),
    };
    if let (Some(page), Some(bytes)) = (&page, bytes) {
        let other = Columns { pages: bytes, ..guessed.clone() };
        return Err(format!(
            "both '{page}' and an offset could say which page a request is to: --columns {guessed}, or --columns {other}"
        ));
    }
    if let Some(size) = unread_sizes(header, &guessed).next() {
        let measured = match &guessed.pages {
            PageColumns::Page(page) => format!("offset={page}:512,size={size}:512"),
            PageColumns::Bytes { offset, .. } => format!("offset={},size={size}", offset.column),
        };
        let rest = guessed.to_string();
        let rest = rest.split_once(',').map(|(_, rest)| format!(",{rest}")).unwrap_or_default();
        return Err(format!(
            "column '{size}' may be the size of requests: --columns {measured}{rest}, with the bytes of a unit behind colons where they are not these, or without it --columns {guessed}"
        ));
    }
    let volumes: Vec<String> = unread_volumes(header, &guessed).cloned().collect();
    if let Some(volume) = volumes.first() {
        let apart = Columns { volumes: volumes.clone(), ..guessed.clone() };
        return Err(format!(
            "column '{volume}' may say that equal page numbers are of several devices or files: --columns {apart}, or for one of them --columns {guessed}"
        ));
    }
    Ok(Some(guessed))
}

/// True if a name, or a part of it, is one of some words.
fn is_like(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.contains(&&*name) || parts.any(|part| words.contains(&part))
}

/// Columns that may be sizes, and are not read.
fn unread_sizes<'a>(header: &'a [String], columns: &'a Columns) -> impl Iterator<Item = &'a String> {
    header.iter().filter(|name| is_like(name, LIKE_SIZES) && !columns.names().any(|used| used == *name))
}

/// Columns that may say which device or file a page is of, and keep no pages apart. A class does not.
fn unread_volumes<'a>(header: &'a [String], columns: &'a Columns) -> impl Iterator<Item = &'a String> {
    let is_class = |name: &String| columns.class.as_ref() == Some(name) && !columns.volumes.contains(name);
    header
        .iter()
        .filter(move |name| is_like(name, LIKE_VOLUMES) && (is_class(name) || !columns.names().any(|used| used == *name)))
}

/// A column and its index in a record.
#[derive(Debug)]
struct CsvField {
    at: usize,
    name: String,
}

/// The fields that say which pages a record touches.
#[derive(Debug)]
enum PageFields {
    Number(CsvField),
    Bytes { offset: (CsvField, u64), size: Option<(CsvField, u64)>, page_size: u64 },
}

struct CsvDecoder {
    reader: csv::Reader<CsvInput>,
    label: String,
    end: Arc<AtomicU64>,
    width: usize,
    /// A first line that names no columns, until it is decoded.
    first: Option<ByteRecord>,
    pages: PageFields,
    volumes: Vec<CsvField>,
    names: Names,
    /// The name of the volume of the current record.
    volume: Vec<u8>,
    writes: WriteField,
    classes: Option<ClassField>,
    times: Option<(CsvField, TimeUnit)>,
    /// The columns of the batches.
    columns: OptionalColumns,
    record: ByteRecord,
    /// True if lines end in `\r\n`.
    carriage_returns: bool,
    pending: PendingRequest,
    bad_lines: BadLines,
}

fn open(mut stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let label = stream.label().to_owned();
    let head = stream.head(1 << 13)?;
    let delimiter = delimiter(head);
    let carriage_returns = first_line(head).ends_with(b"\r");
    if head.starts_with(b"\xEF\xBB\xBF") {
        stream.consume(3);
    }
    let end = Arc::new(AtomicU64::new(LONGEST_RECORD));
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .buffer_capacity(READ_AHEAD)
        .from_reader(CsvInput { stream, given: 0, last: 0, end: Arc::clone(&end) });
    let (header, record) = Header::read(&mut reader, &label)?;
    let mut notes = Vec::new();
    let columns = header.columns(decoding, &mut notes)?;
    let first = header.is_without_names(&columns).then_some(record);
    if first.is_some() {
        notes.push(format!("{label}: the first line is a request, since --columns names numbers of columns"));
    }
    let volumes: Vec<CsvField> = columns.volumes.iter().map(|column| header.field(column)).collect::<Result<_, _>>()?;
    let mut metadata = Metadata::default();
    let pages = header.page_fields(&columns.pages, decoding, &mut metadata)?;
    let writes = header.write_field(columns.write)?;
    let class = columns.class.map(|column| header.field(&column));
    let classes = class.transpose()?.map(ClassField::new);
    let classes = classes.filter(|_| decoding.columns.classes);
    let times = columns.time.map(|time| Ok((header.field(&time.column)?, time.unit)));
    let times = times.transpose()?;
    let columns = OptionalColumns { classes: classes.is_some(), requests: decoding.columns.requests && times.is_some() };
    let width = header.names.len();
    Ok(OpenedTrace {
        metadata,
        references: None,
        notes,
        decoder: Box::new(CsvDecoder {
            reader,
            label,
            end,
            width,
            first,
            pages,
            volumes,
            names: Names::of_reading(decoding),
            volume: Vec::new(),
            writes,
            pending: PendingRequest::new(columns),
            classes,
            times,
            columns,
            record: ByteRecord::new(),
            carriage_returns,
            bad_lines: decoding.bad_lines.clone(),
        }),
    })
}

/// The column names of a trace.
struct Header<'a> {
    label: &'a str,
    names: Vec<String>,
}

impl<'a> Header<'a> {
    fn read(reader: &mut csv::Reader<CsvInput>, label: &'a str) -> Result<(Header<'a>, ByteRecord), TraceError> {
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_err(|error| unreadable(label, error))?;
        let names = record.iter().map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect();
        let header = Header { label, names };
        match header.names.is_empty() {
            true => Err(header.refuse("is empty; the first line of a CSV names its columns".to_owned())),
            false => Ok((header, record)),
        }
    }

    /// True if the first line is one of data: columns have numbers for names, and a number stands where the page does.
    fn is_without_names(&self, columns: &Columns) -> bool {
        let column = match &columns.pages {
            PageColumns::Page(column) => column,
            PageColumns::Bytes { offset, .. } => &offset.column,
        };
        let is_number = |text: &String| decimal(text.as_bytes()).is_some();
        self.place(column).is_some_and(|at| self.names[at] != *column && is_number(&self.names[at]))
    }

    /// The index of a column: of its name, or of `#3`.
    fn place(&self, name: &str) -> Option<usize> {
        let number = || name.strip_prefix('#')?.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < self.names.len());
        self.names.iter().position(|column| column == name).or_else(number)
    }

    fn refuse(&self, problem: String) -> TraceError {
        TraceError::Columns { file: self.label.to_owned(), problem }
    }

    /// The columns that the user named, or a guess; adds notes for the user.
    fn columns(&self, decoding: &Decoding, notes: &mut Vec<String>) -> Result<Columns, TraceError> {
        let label = self.label;
        let columns = match &decoding.options.columns {
            Some(columns) => {
                notes.extend(unread_volumes(&self.names, columns).map(|name| {
                    format!("{label}: equal page numbers are one page, whatever column '{name}' has; volume={name} in --columns keeps them apart")
                }));
                let is_bytes = matches!(columns.pages, PageColumns::Bytes { size: None, .. });
                notes.extend(unread_sizes(&self.names, columns).filter(|_| is_bytes).map(|name| {
                    format!(
                        "{label}: each request is one page, whatever column '{name}' has; size={name} in --columns has it read"
                    )
                }));
                columns.clone()
            }
            None => {
                let guessed = guess(&self.names).map_err(|question| self.refuse(question))?;
                let guessed = guessed.ok_or_else(|| self.refuse(self.without_names()))?;
                // These names can mean nothing else.
                let certain = ["page=page,write=write", "page=page,write=write,class=class"];
                if !certain.contains(&guessed.to_string().as_str()) {
                    let units = match &guessed.pages {
                        PageColumns::Page(_) => "",
                        PageColumns::Bytes { size: Some(_), .. } => ", offset and size in bytes",
                        PageColumns::Bytes { size: None, .. } => ", offset in bytes; without a size, each request is one page",
                    };
                    notes.push(format!("{label}: guessed --columns {guessed}{units}"));
                }
                guessed
            }
        };
        // Who names a line of data as names loses its request.
        if let Some(name) = columns.names().find(|name| decimal(name.as_bytes()).is_some() && self.names.contains(name)) {
            let at = self.place(name).unwrap_or_default() + 1;
            return Err(self.refuse(format!(
                "the first line has the number {name}, and names no columns; by its number the column is #{at}"
            )));
        }
        if columns.write.is_none() {
            notes.push(format!(
                "{label}: no column says which references write (write=COLUMN in --columns), so that all references are reads"
            ));
        }
        Ok(columns)
    }

    /// What to do about a first line of which no column is known.
    fn without_names(&self) -> String {
        let names = listed(&self.names);
        match self.names.iter().any(|name| decimal(name.as_bytes()).is_some()) {
            true => format!(
                "the first line has the values {names}, and names no columns; say which are which with --columns, by their numbers, as in --columns page=#3,write=#2:W, or offset=#3,size=#4,write=#2:W"
            ),
            false => format!(
                "no column has a name that means a page; the first line names {names}; say which with --columns, as in --columns page=blk,write=op:W"
            ),
        }
    }

    fn field(&self, name: &str) -> Result<CsvField, TraceError> {
        self.place(name).map(|at| CsvField { at, name: name.to_owned() }).ok_or_else(|| {
            self.refuse(format!(
                "no column '{}'{}; the first line names {}",
                one_line(name),
                did_you_mean(name, self.names.iter().map(String::as_str)),
                listed(&self.names)
            ))
        })
    }

    /// The fields of the page; sets the page size of `metadata` where they count bytes.
    fn page_fields(
        &self,
        columns: &PageColumns,
        decoding: &Decoding,
        metadata: &mut Metadata,
    ) -> Result<PageFields, TraceError> {
        let (offset, size) = match columns {
            PageColumns::Page(column) => return Ok(PageFields::Number(self.field(column)?)),
            PageColumns::Bytes { offset, size } => (offset, size),
        };
        let page_size = decoding.options.page_size.ok_or_else(|| TraceError::NoPageSize {
            file: self.label.to_owned(),
            what: format!("column '{}' counts bytes", offset.column),
        })?;
        metadata.page_size = Some(page_size.get());
        let measured = |bytes: &ByteColumn| Ok((self.field(&bytes.column)?, bytes.unit));
        Ok(PageFields::Bytes {
            offset: measured(offset)?,
            size: size.as_ref().map(measured).transpose()?,
            page_size: page_size.get(),
        })
    }

    fn write_field(&self, column: Option<WriteColumn>) -> Result<WriteField, TraceError> {
        Ok(match column {
            None => WriteField::Never,
            Some(column) => WriteField::new(self.field(&column.column)?, column),
        })
    }
}

/// Column names for a message.
fn listed(header: &[String]) -> String {
    const MOST: usize = 20;
    let mut names: Vec<&str> = header.iter().take(MOST).map(String::as_str).collect();
    if header.len() > MOST {
        names.push("…");
    }
    one_line(&names.join(", "))
}

/// The error of a read: one of the csv crate itself, or one that it passes on.
fn unreadable(file: &str, error: csv::Error) -> TraceError {
    let problem = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => match error.downcast::<TraceError>() {
            Ok(error) => error,
            Err(error) => TraceError::io(file, "read", error),
        },
        _ => TraceError::Columns { file: file.to_owned(), problem: one_line(&problem) },
    }
}

/// What was expected of a field, and its content.
type BadField<'a> = (String, &'a [u8]);

fn number<'a>(record: &'a ByteRecord, field: &CsvField, what: &str) -> Result<u64, BadField<'a>> {
    let text = record.get(field.at).unwrap_or_default().trim_ascii();
    decimal(text).ok_or_else(|| (format!("{what} in column '{}'", field.name), text))
}

/// The time in a field, in µs; `None` if the field is empty.
fn time<'a>(record: &'a ByteRecord, field: &CsvField, unit: TimeUnit) -> Result<Option<u64>, BadField<'a>> {
    let text = record.get(field.at).unwrap_or_default().trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    // No trace is as long, nor is the time since 1970: the unit is another one.
    const IN_2200: u64 = 7_258_118_400_000_000;
    let time = unit.microseconds(text).filter(|time| *time < IN_2200).map(Some);
    time.ok_or_else(|| {
        let expected = format!(
            "a number of {} such as 12.5, less than 230 years, in column '{name}' (for another unit --columns …,time={name}:s, ms, us or ns; a date must be made a number first)",
            unit.words(),
            name = field.name
        );
        (expected, text)
    })
}

impl PageFields {
    /// The pages that a record touches; `None` for a request of 0 bytes.
    fn of<'a>(&self, record: &'a ByteRecord) -> Result<Option<RangeInclusive<u64>>, BadField<'a>> {
        match self {
            PageFields::Number(field) => {
                let page = number(record, field, "a page number from 0 to 2^64-1")?;
                Ok(Some(page..=page))
            }
            PageFields::Bytes { offset: (field, unit), size, page_size } => {
                let what = "an offset from 0 to 2^64-1";
                let offset = u128::from(number(record, field, what)?) * u128::from(*unit);
                let bytes = match size {
                    None => 1,
                    Some((field, unit)) => {
                        let what = "a size up to 2^40 bytes";
                        let bytes = u128::from(number(record, field, what)?) * u128::from(*unit);
                        if bytes > u128::from(LONGEST_REQUEST) {
                            let text = record.get(field.at).unwrap_or_default();
                            return Err((format!("{what} in column '{}'", field.name), text));
                        }
                        bytes as u64
                    }
                };
                if bytes == 0 {
                    return Ok(None);
                }
                pages(offset, bytes, *page_size).map(Some).ok_or_else(|| {
                    (format!("an offset below 2^64 pages in column '{}'", field.name), record.get(field.at).unwrap_or_default())
                })
            }
        }
    }
}

impl CsvDecoder {
    /// Reads a record; false at the end.
    fn next(&mut self) -> Result<bool, TraceError> {
        let start = self.reader.position().byte();
        self.end.store(start.saturating_add(LONGEST_RECORD + READ_AHEAD as u64), Ordering::Relaxed);
        if let Some(first) = self.first.take() {
            self.record = first;
            return Ok(true);
        }
        self.reader.read_byte_record(&mut self.record).map_err(|error| unreadable(&self.label, error))
    }

    /// The line on which the current record begins. The line number of the csv crate is
    /// that of blank lines before the record, and counts a `\n` after a `\r` towards the
    /// next record.
    fn line(&self) -> u64 {
        let within = self.record.as_slice().iter().filter(|&&byte| byte == b'\n');
        let input = self.reader.get_ref();
        let cut_off = self.reader.position().byte() == input.given && input.last != b'\n';
        let counted_end = !self.carriage_returns && !cut_off;
        let lines = within.count() as u64 + u64::from(counted_end);
        self.reader.position().line().saturating_sub(lines)
    }

    /// The request of the current record.
    fn request(&mut self) -> Result<Option<ForeignRequest>, TraceError> {
        let (mut classes, mut writes) = (self.classes.take(), mem::take(&mut self.writes));
        let request = self.request_of(classes.as_mut(), &mut writes);
        (self.classes, self.writes) = (classes, writes);
        match request? {
            Some(request) if !self.volumes.is_empty() => self.in_volume(request).map(Some),
            request => Ok(request),
        }
    }

    /// The request with the pages of its volume.
    fn in_volume(&mut self, request: ForeignRequest) -> Result<ForeignRequest, TraceError> {
        self.volume.clear();
        for field in &self.volumes {
            self.volume.extend_from_slice(self.record.get(field.at).unwrap_or_default().trim_ascii());
            // No text of a line has it.
            self.volume.push(b'\n');
        }
        let volume = self.names.number(&self.volume);
        let pages = pages_of_volume(volume, request.pages.clone());
        let pages = pages.ok_or_else(|| TraceError::Line {
            file: self.label.clone(),
            line: self.line(),
            expected: "a page below 2^48 of one of at most 65536 volumes (volume= in --columns)".into(),
            found: quoted(&self.volume),
        })?;
        Ok(ForeignRequest { pages, ..request })
    }

    fn request_of(
        &self,
        classes: Option<&mut ClassField>,
        writes: &mut WriteField,
    ) -> Result<Option<ForeignRequest>, TraceError> {
        let wrong = |(expected, found): BadField| TraceError::Line {
            file: self.label.clone(),
            line: self.line(),
            expected: expected.into(),
            found: quoted(found),
        };
        if self.record.len() != self.width {
            let expected = format!("{} columns as in the first line", self.width);
            let found = format!("{}", self.record.len());
            return Err(wrong((expected, found.as_bytes())));
        }
        // The word for a write also counts where the page is bad and the line is left out.
        let write = writes.of(&self.record);
        if write == Ok(Operation::Skip) {
            // A flush may have no page.
            return Ok(None);
        }
        let pages = self.pages.of(&self.record).map_err(wrong)?;
        let write = write.map_err(wrong)? == Operation::Write;
        let class = match classes {
            Some(field) => field.of(&self.record).map_err(wrong)?,
            None => 0,
        };
        let times = self.times.as_ref();
        let time_us = times.map(|(field, unit)| time(&self.record, field, *unit));
        let time_us = time_us.transpose().map_err(wrong)?.flatten();
        Ok(pages.map(|pages| ForeignRequest { pages, write, class, time_us }))
    }
}

impl Decode for CsvDecoder {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let mut is_read = false;
        while batch.len() < max {
            if self.pending.continue_into(batch, max) {
                continue;
            }
            if !self.next()? {
                is_read = true;
                break;
            }
            match self.request() {
                Ok(request) => self.pending.begin(request),
                Err(error) => self.bad_lines.leave_out(error)?,
            }
        }
        // Not only at the end, which a reading up to a limit does not reach.
        if let Some(words) = self.writes.news(is_read) {
            self.bad_lines.found_words(words);
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.reader.get_ref().stream.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        self.classes.as_ref().map(ClassField::classes)
    }

    fn has_requests(&self) -> bool {
        self.columns.requests
    }
}

struct CsvEncoder {
    sink: Sink,
    lines: Vec<u8>,
    classes: bool,
}

fn create(target: WriteTarget) -> Result<Box<dyn Encode>, TraceError> {
    let mut lines = Vec::with_capacity(BUFFER);
    let classes = target.classes.is_some();
    let header: &[u8] = match classes {
        true => b"page,write,class\n",
        false => b"page,write\n",
    };
    lines.extend_from_slice(header);
    Ok(Box::new(CsvEncoder { sink: target.sink, lines, classes }))
}

impl CsvEncoder {
    fn flush(&mut self) -> Result<(), TraceError> {
        let written = self.sink.write_all(&self.lines);
        self.lines.clear();
        written.map_err(|error| TraceError::io(self.sink.file().label(), "write", error))
    }
}

impl Encode for CsvEncoder {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        const LINE: usize = "18446744073709551615,false,4294967295\n".len();
        let mut digits = itoa::Buffer::new();
        let mut classes = batch.classes.iter();
        for (page, write) in batch.iter() {
            self.lines.extend_from_slice(digits.format(page).as_bytes());
            let write: &[u8] = if write { b",true" } else { b",false" };
            self.lines.extend_from_slice(write);
            if self.classes {
                let class = classes.next().copied().unwrap_or(0);
                self.lines.push(b',');
                self.lines.extend_from_slice(digits.format(class).as_bytes());
            }
            self.lines.push(b'\n');
            if self.lines.len() > BUFFER - LINE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TraceError> {
        self.flush()?;
        self.sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(header: &str) -> Option<String> {
        let names: Vec<String> = header.split(',').map(str::to_owned).collect();
        match guess(&names) {
            Ok(columns) => columns.map(|columns| columns.to_string()),
            Err(question) => Some(format!("? {question}")),
        }
    }

    #[test]
    fn guesses() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(guessed("time,page,write"), some("page=page,write=write"));
        assert_eq!(guessed("Op,BLK"), some("page=BLK,write=Op"));
        assert_eq!(guessed("ts,offset,size,op"), some("offset=offset,size=size,write=op"));
        assert_eq!(guessed("page"), some("page=page"));
        assert_eq!(guessed("page,write,class"), some("page=page,write=write,class=class"));
        assert_eq!(guessed("time_us,page,write"), some("page=page,write=write,time=time_us:us"));
        assert_eq!(guessed("a,b,c"), None);
        for (names, answers) in [
            ("block_id,offset,size,op", ["page=block_id,write=op", "offset=offset,size=size,write=op"]),
            ("block,size,op", ["offset=block:512,size=size:512,write=op", "page=block,write=op"]),
            ("offset,io_size,op", ["offset=offset,size=io_size,write=op", "offset=offset,write=op"]),
            (
                "device_id,offset,length,op",
                ["offset=offset,size=length,volume=device_id,write=op", "offset=offset,size=length,write=op"],
            ),
            ("relfilenode,block", ["page=block,volume=relfilenode", "page=block"]),
        ] {
            let question = guessed(names).unwrap();
            for answer in answers {
                assert!(question.starts_with('?') && question.contains(&format!("--columns {answer}")), "{names}: {question}");
                assert_eq!(answer.parse::<Columns>().unwrap().to_string(), answer);
            }
        }
        assert!(resembles(b"time;blk;op\n1;2;R\n"));
        assert!(resembles(b"\xEF\xBB\xBF\"page\",\"write\"\r\n"));
        assert!(!resembles(b"page\n1\n"));
        assert!(!resembles(b"R 1\nW 2\n"));
        assert!(!resembles(b""));
        assert_eq!(delimiter(b"a\tb,c\td\n,,,,"), b'\t');
        assert_eq!(delimiter(b""), b',');
    }
}
