//! *csv*: comma-separated values, or separated by semicolons, tabs or bars, with a
//! line of column names.
//!
//! [`Columns`] say which columns hold a reference; without them, they are guessed
//! from common names. The format holds no metadata, and of classes only the numbers.

mod classes;

use std::io::{self, Read, Write};
use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::{ByteRecord, ReaderBuilder};
use ebbpool_cost::{did_you_mean, one_line};

use super::lines::decimal;
use super::requests::{ForeignRequest, LONGEST_REQUEST, PendingRequest, pages};
use super::times::TimeUnit;
use super::{Decode, Decoding, Encode, FormatEntry, OpenedTrace, StoredClasses, WriteTarget};
use crate::bad_lines::{BadLines, WordsForWrites};
use crate::columns::{ByteColumn, Columns, PageColumns, TimeColumn, WriteColumn};
use crate::compression::Sink;
use crate::error::{TraceError, quoted};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::stream::{BUFFER, Stream};
use classes::ClassField;

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
    names.len() > 1 && guess(&names).is_some_and(|guessed| guessed.write.is_some())
}

/// The columns to which `header` gives common names.
fn guess(header: &[String]) -> Option<Columns> {
    let find = |names: &[&str]| {
        names.iter().find_map(|name| {
            let found = header.iter().find(|column| column.eq_ignore_ascii_case(name));
            found.cloned()
        })
    };
    let measure = |column| ByteColumn { column, unit: 1 };
    let pages = match find(PAGE_NAMES) {
        Some(page) => PageColumns::Page(page),
        None => PageColumns::Bytes { offset: measure(find(OFFSET_NAMES)?), size: find(SIZE_NAMES).map(measure) },
    };
    let write = find(WRITE_NAMES).map(|column| WriteColumn { column, values: Vec::new() });
    Some(Columns {
        pages,
        write,
        class: find(&[CLASS_NAME]),
        time: find(&[TIME_NAME]).map(|column| TimeColumn { column, unit: TimeUnit::Microseconds }),
    })
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

/// The field that says whether a record writes.
#[derive(Debug, Default)]
enum WriteField {
    #[default]
    Never,
    Word(CsvField),
    OneOf(CsvField, WriteWords),
}

/// The words of the user that mean a write.
#[derive(Debug)]
struct WriteWords {
    words: Vec<Vec<u8>>,
    /// True once a record had one of them.
    is_found: bool,
    /// Some of the other words, for a note should none be found.
    others: Vec<Vec<u8>>,
    /// True if a record has changed one of both since the last news.
    is_news: bool,
}

impl WriteWords {
    /// Others that a note names.
    const MOST_OTHERS: usize = 4;

    fn have(&mut self, word: &[u8]) -> bool {
        const LONGEST: usize = 64;
        let is_write = self.words.iter().any(|write| write == word);
        self.is_news |= is_write && !self.is_found;
        self.is_found |= is_write;
        let word = &word[..word.len().min(LONGEST)];
        if !self.is_found && self.others.len() < Self::MOST_OTHERS && !self.others.iter().any(|other| other == word) {
            self.others.push(word.to_vec());
            self.is_news = true;
        }
        is_write
    }
}

struct CsvDecoder {
    reader: csv::Reader<CsvInput>,
    label: String,
    end: Arc<AtomicU64>,
    width: usize,
    pages: PageFields,
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
        .buffer_capacity(READ_AHEAD)
        .from_reader(CsvInput { stream, given: 0, last: 0, end: Arc::clone(&end) });
    let header = Header::read(&mut reader, &label)?;
    let mut notes = Vec::new();
    let columns = header.columns(decoding, &mut notes)?;
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
            pages,
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
    fn read(reader: &mut csv::Reader<CsvInput>, label: &'a str) -> Result<Header<'a>, TraceError> {
        let names: Vec<String> = reader
            .byte_headers()
            .map_err(|error| unreadable(label, error))?
            .iter()
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
            .collect();
        let header = Header { label, names };
        match header.names.is_empty() {
            true => Err(header.refuse("is empty; the first line of a CSV names its columns".to_owned())),
            false => Ok(header),
        }
    }

    fn refuse(&self, problem: String) -> TraceError {
        TraceError::Columns { file: self.label.to_owned(), problem }
    }

    /// The columns that the user named, or a guess; adds notes for the user.
    fn columns(&self, decoding: &Decoding, notes: &mut Vec<String>) -> Result<Columns, TraceError> {
        let label = self.label;
        let columns = match &decoding.options.columns {
            Some(columns) => columns.clone(),
            None => {
                let guessed = guess(&self.names).ok_or_else(|| {
                    self.refuse(format!(
                        "no column has a name that means a page; the first line names {}; say which with --columns, as in --columns page=blk,write=op:W",
                        listed(&self.names)
                    ))
                })?;
                // These names can mean nothing else.
                let certain = ["page=page,write=write", "page=page,write=write,class=class"];
                if !certain.contains(&guessed.to_string().as_str()) {
                    notes.push(format!("{label}: guessed --columns {guessed}"));
                }
                guessed
            }
        };
        if columns.write.is_none() {
            notes.push(format!(
                "{label}: no column says which references write (write=COLUMN in --columns), so that all references are reads"
            ));
        }
        Ok(columns)
    }

    fn field(&self, name: &str) -> Result<CsvField, TraceError> {
        let at = self.names.iter().position(|column| column == name);
        at.map(|at| CsvField { at, name: name.to_owned() }).ok_or_else(|| {
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
            Some(WriteColumn { column, values }) if values.is_empty() => WriteField::Word(self.field(&column)?),
            Some(WriteColumn { column, values }) => {
                let words = WriteWords {
                    words: values.into_iter().map(String::into_bytes).collect(),
                    is_found: false,
                    others: Vec::new(),
                    is_news: false,
                };
                WriteField::OneOf(self.field(&column)?, words)
            }
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
    let time = unit.microseconds(text).map(Some);
    time.ok_or_else(|| {
        let expected = format!(
            "a number of {} such as 12.5 in column '{name}' (for another unit --columns …,time={name}:s, ms, us or ns; a date must be made a number first)",
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

impl WriteField {
    /// What the records so far had in the column, if there is something new. Upper and lower case differ.
    fn news(&mut self, is_read: bool) -> Option<WordsForWrites> {
        let WriteField::OneOf(field, words) = self else {
            return None;
        };
        if !mem::take(&mut words.is_news) && !is_read {
            return None;
        }
        let quoted = |words: &[Vec<u8>]| -> Vec<String> { words.iter().map(|word| quoted(word)).collect() };
        Some(WordsForWrites {
            expected: format!("{} in column '{}'", quoted(&words.words).join(", "), one_line(&field.name)),
            is_found: words.is_found,
            others: quoted(&words.others),
            is_read,
        })
    }

    fn of<'a>(&mut self, record: &'a ByteRecord) -> Result<bool, BadField<'a>> {
        match self {
            WriteField::Never => Ok(false),
            WriteField::OneOf(field, words) => {
                let text = record.get(field.at).unwrap_or_default().trim_ascii();
                Ok(words.have(text))
            }
            WriteField::Word(field) => {
                const WRITE: [&str; 4] = ["true", "1", "w", "write"];
                const READ: [&str; 4] = ["false", "0", "r", "read"];
                let text = record.get(field.at).unwrap_or_default().trim_ascii();
                let is_one_of = |words: [&str; 4]| words.iter().any(|word| word.as_bytes().eq_ignore_ascii_case(text));
                match (is_one_of(WRITE), is_one_of(READ)) {
                    (true, _) => Ok(true),
                    (_, true) => Ok(false),
                    _ => Err((
                        format!(
                            "true or false, 1 or 0, W or R, write or read in column '{}' (for other words say which mean a write, as in --columns …,write={}:WORD)",
                            field.name, field.name
                        ),
                        text,
                    )),
                }
            }
        }
    }
}

impl CsvDecoder {
    /// Reads a record; false at the end.
    fn next(&mut self) -> Result<bool, TraceError> {
        let start = self.reader.position().byte();
        self.end.store(start.saturating_add(LONGEST_RECORD + READ_AHEAD as u64), Ordering::Relaxed);
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
        request
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
        let pages = self.pages.of(&self.record).map_err(wrong)?;
        let write = write.map_err(wrong)?;
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
        guess(&names).map(|columns| columns.to_string())
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
        assert!(resembles(b"time;blk;op\n1;2;R\n"));
        assert!(resembles(b"\xEF\xBB\xBF\"page\",\"write\"\r\n"));
        assert!(!resembles(b"page\n1\n"));
        assert!(!resembles(b"R 1\nW 2\n"));
        assert!(!resembles(b""));
        assert_eq!(delimiter(b"a\tb,c\td\n,,,,"), b'\t');
        assert_eq!(delimiter(b""), b',');
    }
}
