//! *csv*: comma-separated values, or separated by any other sign or by blanks, with a
//! line of column names or without.
//!
//! [`Columns`] say which columns hold a reference; without them, they are guessed
//! from common names. The format holds no metadata, and of classes only the numbers.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::{ByteRecord, ReaderBuilder};
use ebbpool_cost::one_line;

use super::table::{self, Header, Rows};
use super::{Decoding, Encode, FormatEntry, OpenedTrace, StoredClasses, WriteTarget};
use crate::columns::{BLANKS, Columns, Layout};
use crate::compression::Sink;
use crate::error::{TraceError, quoted};
use crate::reference::Batch;
use crate::stream::{BUFFER, Stream};

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

/// The bytes of a trace, in the form that the csv crate reads.
struct CsvInput {
    stream: Stream,
    given: u64,
    last: u8,
    /// Where the bytes end that were read, if any number of blanks separates fields.
    blanks: Option<Blanks>,
    has_quotes: bool,
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
        let count = match &mut self.blanks {
            Some(blanks) => {
                // A blank may be left from the bytes before.
                let read = bytes.len().min(buffer.len().saturating_sub(1));
                let count = blanks.squeeze(&bytes[..read], buffer, self.has_quotes);
                self.stream.consume(read);
                count
            }
            None => {
                let count = bytes.len().min(buffer.len());
                buffer[..count].copy_from_slice(&bytes[..count]);
                self.stream.consume(count);
                count
            }
        };
        self.last = buffer[..count].last().copied().unwrap_or(self.last);
        self.given += count as u64;
        match count {
            // The caller takes 0 bytes for the end; there were only blanks.
            0 if buffer.len() > 1 => self.read(buffer),
            _ => Ok(count),
        }
    }
}

/// Where bytes end, among blanks and tabs that separate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blanks {
    /// At the beginning of a line, or behind blanks there.
    Begin,
    /// Behind a field, or within one.
    None,
    /// Behind blanks after a field.
    Some,
    /// Within quotation marks.
    Quoted,
}

impl Blanks {
    /// Copies the bytes with one blank between fields and none at the ends of lines, into what is longer by at least 1. Returns
    /// the length.
    fn squeeze(&mut self, bytes: &[u8], into: &mut [u8], has_quotes: bool) -> usize {
        let mut length = 0;
        for &byte in bytes {
            match (byte, *self) {
                (b'"', Blanks::Quoted) => *self = Blanks::None,
                (_, Blanks::Quoted) => {}
                (b' ' | b'\t', Blanks::Begin) => continue,
                (b' ' | b'\t', _) => {
                    *self = Blanks::Some;
                    continue;
                }
                (b'\n' | b'\r', _) => *self = Blanks::Begin,
                _ => {
                    let is_first = *self != Blanks::None;
                    if *self == Blanks::Some {
                        into[length] = BLANKS;
                        length += 1;
                    }
                    *self = if byte == b'"' && is_first && has_quotes { Blanks::Quoted } else { Blanks::None };
                }
            }
            into[length] = byte;
            length += 1;
        }
        length
    }
}

/// The separator of fields: the candidate that is most frequent in the first line, and blanks where it has none.
fn delimiter(line: &[u8]) -> u8 {
    let count = |delimiter: u8| line.iter().filter(|&&byte| byte == delimiter).count();
    let mut most = b',';
    for other in [b';', b'\t', b'|'] {
        if count(other) > count(most) {
            most = other;
        }
    }
    match count(most) {
        0 if line.trim_ascii().contains(&b' ') => BLANKS,
        _ => most,
    }
}

/// The first line that is no comment and has more than blanks.
fn first_line(head: &[u8], comment: Option<u8>) -> &[u8] {
    let head = head.strip_prefix(BYTE_ORDER).unwrap_or(head);
    let is_comment = |line: &[u8]| comment.is_some_and(|sign| line.first() == Some(&sign));
    let mut lines = head.split(|&byte| byte == b'\n');
    lines.find(|line| !line.trim_ascii().is_empty() && !is_comment(line)).unwrap_or_default()
}

/// The mark at the beginning of texts in UTF-8.
const BYTE_ORDER: &[u8] = b"\xEF\xBB\xBF";

/// True if the first line has common column names.
fn resembles(head: &[u8]) -> bool {
    let line = first_line(head, None);
    let separator = char::from(delimiter(line));
    let line = String::from_utf8_lossy(line);
    let names: Vec<String> = line.trim_end().split(separator).map(|name| name.trim().trim_matches('"').to_owned()).collect();
    names.len() > 1 && table::guess(&names).map_or(true, |guessed| guessed.is_some_and(|guessed| guessed.write.is_some()))
}

/// The records of a file.
struct Records {
    reader: csv::Reader<CsvInput>,
    label: String,
    end: Arc<AtomicU64>,
    /// True if lines end in `\r\n`.
    carriage_returns: bool,
    /// Lines before the first that the csv crate reads.
    lines_before: u64,
    has_comments: bool,
    /// What to say of quotation marks, if the user has not.
    quotes: Option<[String; 2]>,
}

fn open(mut stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let label = stream.label().to_owned();
    let layout = decoding.options.columns.as_ref().map(|columns| columns.layout.clone()).unwrap_or_default();
    let head = stream.head(1 << 13)?;
    // Excel's own line on the separator.
    let sep = first_line(head, layout.comment);
    let stated = match sep.strip_suffix(b"\r").unwrap_or(sep) {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', sign] => Some(*sign),
        _ => None,
    };
    let before = match stated {
        // The lines up to this one, and its end.
        Some(_) => (sep.as_ptr() as usize - head.as_ptr() as usize + sep.len() + 1).min(head.len()),
        None => 0,
    };
    let lines_before = head[..before].iter().filter(|&&byte| byte == b'\n').count() as u64;
    let is_marked = head.starts_with(BYTE_ORDER) && before == 0;
    let head = &head[before..];
    let line = first_line(head, layout.comment);
    let whole = String::from_utf8_lossy(line.trim_ascii());
    let is_one_column = decoding.options.columns.as_ref().is_some_and(|columns| columns.names().any(|name| *name == whole));
    let delimiter = layout.separator.or(stated).unwrap_or_else(|| if is_one_column { b',' } else { delimiter(line) });
    let carriage_returns = line.ends_with(b"\r");
    stream.consume(if is_marked { BYTE_ORDER.len() } else { before });
    let end = Arc::new(AtomicU64::new(LONGEST_RECORD));
    let reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .comment(layout.comment)
        .quoting(layout.quotes != Some(false))
        .flexible(true)
        .has_headers(false)
        .buffer_capacity(READ_AHEAD)
        .from_reader(CsvInput {
            stream,
            given: 0,
            last: 0,
            blanks: (delimiter == BLANKS).then_some(Blanks::Begin),
            has_quotes: layout.quotes != Some(false),
            end: Arc::clone(&end),
        });
    let mut records = Records {
        reader,
        label: label.clone(),
        end,
        carriage_returns,
        lines_before,
        has_comments: layout.comment.is_some(),
        quotes: None,
    };
    let mut record = ByteRecord::new();
    records.next(&mut record)?;
    let names = record.iter().map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect();
    let header = Header { label: &label, names, is_line: true };
    if header.names.is_empty() {
        return Err(header.refuse("is empty; the first line of a CSV names its columns".to_owned()));
    }
    let mut notes = Vec::new();
    if delimiter == BLANKS && layout.separator.is_none() {
        notes.push(format!("{label}: blanks separate the columns (separator=space in --columns)"));
    }
    let header_line = record.clone();
    let columns = header.columns(decoding, &mut notes)?;
    let first = header.is_without_names(&columns)?.then_some(record);
    if first.is_some() && layout.names.is_none() {
        notes.push(format!("{label}: the first line is a request, since --columns names numbers of columns"));
    }
    if layout.quotes.is_none() {
        let with = |quotes| Columns { layout: Layout { quotes: Some(quotes), ..layout.clone() }, ..columns.clone() }.option();
        records.quotes = Some([true, false].map(with));
        records.ends_with_its_line(&header_line)?;
    }
    table::open(records, (&header, columns, first), decoding, notes)
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

impl Records {
    /// Asks if a field has several lines, unless the user has said what quotation marks are.
    fn ends_with_its_line(&self, record: &ByteRecord) -> Result<(), TraceError> {
        let Some([several, none]) = self.quotes.as_ref().filter(|_| record.as_slice().contains(&b'\n')) else {
            return Ok(());
        };
        // A mark without its other one makes one field of many lines.
        let expected = format!(
            "a field that ends with its line: if what is between quotation marks may have several lines {several}, if they enclose nothing {none}"
        );
        let field = record.iter().find(|field| field.contains(&b'\n')).unwrap_or_default();
        Err(self.wrong(record, expected, quoted(&field[..field.len().min(80)])))
    }

    /// The line on which the current record begins. The line number of the csv crate is
    /// that of blank lines before the record, and counts a `\n` after a `\r` towards the
    /// next record.
    fn line(&self, record: &ByteRecord) -> u64 {
        let within = record.as_slice().iter().filter(|&&byte| byte == b'\n');
        let input = self.reader.get_ref();
        let cut_off = self.reader.position().byte() == input.given && input.last != b'\n';
        let counted_end = !self.carriage_returns && !cut_off;
        let lines = within.count() as u64 + u64::from(counted_end);
        self.lines_before + self.reader.position().line().saturating_sub(lines)
    }
}

impl Rows for Records {
    fn next(&mut self, record: &mut ByteRecord) -> Result<bool, TraceError> {
        let start = self.reader.position().byte();
        self.end.store(start.saturating_add(LONGEST_RECORD + READ_AHEAD as u64), Ordering::Relaxed);
        let is_read = self.reader.read_byte_record(record).map_err(|error| unreadable(&self.label, error))?;
        self.ends_with_its_line(record)?;
        // So the csv crate takes a comment that ends the file without the end of a line.
        Ok(is_read && !(self.has_comments && record.len() == 1 && record.as_slice().is_empty()))
    }

    fn wrong(&self, record: &ByteRecord, expected: String, found: String) -> TraceError {
        TraceError::Line { file: self.label.clone(), line: self.line(record), expected: expected.into(), found }
    }

    fn progress(&self) -> f64 {
        self.reader.get_ref().stream.progress()
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

    #[test]
    fn contents_of_csv() {
        assert!(resembles(b"time;blk;op\n1;2;R\n"));
        assert!(resembles(b"\xEF\xBB\xBF\"page\",\"write\"\r\n"));
        assert!(!resembles(b"page\n1\n"));
        assert!(!resembles(b"R 1\nW 2\n"));
        assert!(!resembles(b""));
        assert_eq!(delimiter(b"a\tb,c\td"), b'\t');
        assert_eq!(delimiter(b"a  b c\r"), BLANKS);
        assert_eq!(delimiter(b""), b',');
    }
}
