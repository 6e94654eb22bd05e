//! *text*: a line `R 123` or `W 123` per reference; `#` starts a comment. `O 123` overwrites the whole page, and `T 123 8` ends 8
//! pages (1 without the number).
//!
//! Metadata is in leading comments such as `# ebbpool.page_size=8192`, which every
//! other reader of the format skips. A name that does not fit on a line as it is
//! becomes a JSON string, `# ebbpool.name="two\nlines"`.

use std::io::Write;

use super::lines::{Lines, NextLine, decimal, words};
use super::requests::Expected;
use super::{Decode, Decoding, Encode, FormatEntry, OpenedTrace, StoredClasses, WriteTarget};
use crate::compression::Sink;
use crate::error::TraceError;
use crate::reference::{Batch, Metadata, OptionalColumns};
use crate::stream::{BUFFER, Stream};

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "text",
    description: "a line `R 123` or `W 123` per reference (`O 123` overwrites the page, `T 123` trims it), `#` starts a comment",
    extensions: &["txt", "text"],
    magic: |_| false,
    resembles,
    keeps_metadata: true,
    stored_classes: StoredClasses::None,
    open,
    create: Some(create),
};

/// The key of the comment that says that there may be lines `O` and `T`.
const OPERATIONS: &str = "operations";
/// How far into a file metadata comments are searched at first, in bytes; if all these
/// bytes are comments, the whole buffer is searched.
const METADATA_HEAD: usize = 1 << 13;
/// The most bytes of metadata comments that are written: they must fit into the buffer
/// so that they can be read again.
const LONGEST_METADATA: usize = BUFFER / 2;
/// The longest line that is read without searching its end first: a letter, a space, 19
/// digits (which cannot overflow), `\r\n`.
const FAST_LINE: usize = 1 + 1 + 19 + 2;

struct TextDecoder {
    lines: Lines,
    /// True if the reader asks for trims and writes of whole pages, and if the beginning shows that there are some.
    asks_operations: bool,
    shows_operations: bool,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Reference {
        page: u64,
        write: bool,
    },
    /// The page is overwritten.
    Whole(u64),
    /// These pages end, from the first to the last.
    Trim(u64, u64),
}

/// The first line that is neither blank nor a comment is a reference; it may be cut off.
fn resembles(head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n').find_map(|line| reference(line).transpose()).is_some_and(|first| first.is_ok())
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let mut lines = Lines::new(stream, decoding)?;
    let comments = leading_comments(&mut lines.stream)?;
    let (metadata, stated) = (metadata_in(comments), comments.len());
    // Files of other programs need not state it.
    let head = lines.stream.bytes();
    let is_operation = |line: &[u8]| matches!(line.trim_ascii_start().first(), Some(b'O' | b'o' | b'T' | b't'));
    let has_operations =
        value_in(&head[..stated], OPERATIONS) == Some("true") || head.split(|&byte| byte == b'\n').any(is_operation);
    let decoder = TextDecoder { lines, asks_operations: decoding.columns.operations, shows_operations: has_operations };
    Ok(OpenedTrace { decoder: Box::new(decoder), metadata, references: None, notes: Vec::new() })
}

/// The whole lines of comments at the front; the last line of a file needs no line end.
fn leading_comments(stream: &mut Stream) -> Result<&[u8], TraceError> {
    let comments = |head: &[u8], at_end: bool| -> (usize, bool) {
        let mut length = 0;
        for line in head.split_inclusive(|&byte| byte == b'\n') {
            let is_whole = at_end || line.ends_with(b"\n");
            if !line.starts_with(b"#") || !is_whole {
                return (length, is_whole);
            }
            length += line.len();
        }
        (length, at_end)
    };
    let mut length = 0;
    for most in [METADATA_HEAD, BUFFER] {
        let head = stream.head(most)?;
        let (found, no_more) = comments(head, head.len() < most);
        length = found;
        if no_more {
            break;
        }
    }
    Ok(&stream.bytes()[..length])
}

/// The keys and values in comments.
fn values_in(comments: &[u8]) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    let comments = comments.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"#"));
    comments.filter_map(|comment| {
        let comment = std::str::from_utf8(comment).ok()?;
        let (key, value) = comment.trim().strip_prefix("ebbpool.")?.split_once('=')?;
        Some((key.trim(), value.trim()))
    })
}

fn value_in<'a>(comments: &'a [u8], wanted: &str) -> Option<&'a str> {
    values_in(comments).rfind(|(key, _)| *key == wanted).map(|(_, value)| value)
}

fn metadata_in(comments: &[u8]) -> Metadata {
    let mut metadata = Metadata::default();
    for (key, value) in values_in(comments) {
        match key {
            "name" => metadata.name = Some(name_of(value)),
            "page_size" => metadata.page_size = value.parse().ok(),
            "database_pages" => metadata.database_pages = value.parse().ok(),
            "below_cache" => metadata.below_cache = value == "true",
            "own_numbers" => metadata.own_numbers = value == "true",
            _ => {}
        }
    }
    metadata
}

/// The name in a comment; a text that is not a JSON string is the name itself.
fn name_of(value: &str) -> String {
    match value.starts_with('"') {
        true => serde_json::from_str(value).unwrap_or_else(|_| value.to_owned()),
        false => value.to_owned(),
    }
}

/// The spelling of a name in a comment from which [`name_of`] restores it: line breaks
/// would end the comment, and blanks around the name belong to the comment.
fn comment_of(name: &str) -> String {
    let is_plain = name.trim() == name && !name.starts_with('"') && !name.contains(char::is_control);
    match is_plain {
        true => name.to_owned(),
        false => serde_json::Value::from(name).to_string(),
    }
}

/// What a line without its line end says; `None` if it is blank or a comment.
fn reference(line: &[u8]) -> Result<Option<Line>, Expected> {
    const SHAPE: Expected = "`R 123` or `W 123` (read or write, a space, a page number; or `O 123`, `T 123 8`)";
    const BELOW: Expected = "a page number below 2^64";
    let code = line.split(|&byte| byte == b'#').next().unwrap_or(line);
    let code = code.trim_ascii();
    let Some((&letter, rest)) = code.split_first() else {
        return Ok(None);
    };
    if !rest.first().is_some_and(u8::is_ascii_whitespace) {
        return Err(SHAPE);
    }
    let mut numbers = words(rest).map(|digits| match digits.iter().all(u8::is_ascii_digit) {
        true => decimal(digits).ok_or(BELOW),
        false => Err(SHAPE),
    });
    let page = numbers.next().ok_or(SHAPE)??;
    let pages = numbers.next().transpose()?;
    let line = match letter {
        b'R' | b'r' => Line::Reference { page, write: false },
        b'W' | b'w' => Line::Reference { page, write: true },
        b'O' | b'o' => Line::Whole(page),
        b'T' | b't' => {
            let others = pages.unwrap_or(1).checked_sub(1).ok_or("at least one page behind T")?;
            Line::Trim(page, page.checked_add(others).ok_or(BELOW)?)
        }
        _ => return Err(SHAPE),
    };
    match numbers.next().is_some() || (pages.is_some() && !matches!(line, Line::Trim(..))) {
        true => Err(SHAPE),
        false => Ok(Some(line)),
    }
}

/// Reads `R 123\n` in its plainest spelling from the front of `bytes`: page, write, bytes
/// used. `None` for anything else, which [`reference`] reads.
#[inline]
fn plain(bytes: &[u8]) -> Option<(u64, bool, usize)> {
    let bytes: &[u8; FAST_LINE] = bytes.first_chunk()?;
    let write = match bytes[0] {
        b'R' => false,
        b'W' => true,
        _ => return None,
    };
    if bytes[1] != b' ' {
        return None;
    }
    let mut page = 0u64;
    let mut at = 2;
    while at < FAST_LINE - 2 {
        let digit = bytes[at].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        page = page * 10 + u64::from(digit);
        at += 1;
    }
    if at == 2 {
        return None;
    }
    match bytes[at] {
        b'\n' => Some((page, write, at + 1)),
        b'\r' if bytes[at + 1] == b'\n' => Some((page, write, at + 2)),
        _ => None,
    }
}

impl Decode for TextDecoder {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            let bytes = self.lines.stream.bytes();
            let mut at = 0;
            while batch.len() < max
                && let Some((page, write, used)) = plain(&bytes[at..])
            {
                batch.push(page, write);
                at += used;
                self.lines.taken += 1;
            }
            self.lines.stream.consume(at);
            if batch.len() == max {
                break;
            }
            match self.lines.take(reference)? {
                NextLine::Line(Some(Line::Reference { page, write })) => batch.push(page, write),
                NextLine::Line(Some(Line::Whole(page))) if self.asks_operations => batch.push_whole(page),
                NextLine::Line(Some(Line::Whole(page))) => batch.push(page, true),
                NextLine::Line(Some(Line::Trim(first, last))) if self.asks_operations => batch.trim(first, last, 0),
                NextLine::Line(Some(Line::Trim(..)) | None) => {}
                NextLine::End => break,
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.lines.stream.progress()
    }

    fn columns(&self) -> OptionalColumns {
        OptionalColumns { operations: self.asks_operations && self.shows_operations, ..OptionalColumns::default() }
    }
}

struct TextEncoder {
    sink: Sink,
    lines: Vec<u8>,
}

fn create(target: WriteTarget) -> Result<Box<dyn Encode>, TraceError> {
    let Metadata { name, page_size, database_pages, below_cache, own_numbers } = target.metadata;
    let mut lines = Vec::with_capacity(BUFFER);
    let mut comment = |key: &str, value: &str| {
        lines.extend_from_slice(format!("# ebbpool.{key}={value}\n").as_bytes());
    };
    if let Some(name) = name {
        comment("name", &comment_of(name));
    }
    if let Some(page_size) = page_size {
        comment("page_size", &page_size.to_string());
    }
    if let Some(database_pages) = database_pages {
        comment("database_pages", &database_pages.to_string());
    }
    if *below_cache {
        comment("below_cache", "true");
    }
    if *own_numbers {
        comment("own_numbers", "true");
    }
    if lines.len() > LONGEST_METADATA {
        return Err(TraceError::Metadata {
            file: target.sink.file().label().to_owned(),
            problem: format!(
                "it has {} bytes as comments, text holds at most {LONGEST_METADATA}; shorten the trace's name or write another format",
                lines.len()
            ),
        });
    }
    Ok(Box::new(TextEncoder { sink: target.sink, lines }))
}

impl TextEncoder {
    fn flush_if_full(&mut self) -> Result<(), TraceError> {
        match self.lines.len() > BUFFER - 4 * FAST_LINE {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let written = self.sink.write_all(&self.lines);
        self.lines.clear();
        written.map_err(|error| TraceError::io(self.sink.file().label(), "write", error))
    }
}

impl Encode for TextEncoder {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        let mut digits = itoa::Buffer::new();
        let mut trims = batch.trims.iter().peekable();
        for at in 0..=batch.len() {
            while let Some(trim) = trims.next_if(|trim| trim.before <= at) {
                // More pages than a number of 64 bits counts are two lines.
                let pages = (trim.last - trim.first).checked_add(1);
                let halves = [(trim.first, pages.unwrap_or(u64::MAX)), (u64::MAX, u64::from(pages.is_none()))];
                for (first, pages) in halves.into_iter().filter(|(_, pages)| *pages > 0) {
                    self.lines.extend_from_slice(format!("T {first} {pages}\n").as_bytes());
                }
                self.flush_if_full()?;
            }
            let (Some(&page), Some(&write)) = (batch.pages.get(at), batch.writes.get(at)) else {
                break;
            };
            self.lines.extend_from_slice(match (write, batch.is_whole(at)) {
                (true, true) => b"O ",
                (true, false) => b"W ",
                (false, _) => b"R ",
            });
            self.lines.extend_from_slice(digits.format(page).as_bytes());
            self.lines.push(b'\n');
            self.flush_if_full()?;
        }
        Ok(())
    }

    fn expect(&mut self, columns: OptionalColumns) {
        if columns.operations {
            self.lines.extend_from_slice(format!("# ebbpool.{OPERATIONS}=true\n").as_bytes());
        }
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TraceError> {
        self.flush()?;
        self.sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::quoted;

    #[test]
    fn lines() {
        let of = |page, write| Ok(Some(Line::Reference { page, write }));
        assert_eq!(reference(b"R 1"), of(1, false));
        assert_eq!(reference(b"  w \t 12 # hot\r"), of(12, true));
        assert_eq!(reference(b"O 7"), Ok(Some(Line::Whole(7))));
        assert_eq!(reference(b"T 7"), Ok(Some(Line::Trim(7, 7))));
        assert_eq!(reference(b"t 7 3"), Ok(Some(Line::Trim(7, 9))));
        assert_eq!(reference(b"# R 1"), Ok(None));
        assert_eq!(reference(b" \t\r"), Ok(None));
        assert_eq!(reference(b"R 18446744073709551615"), of(u64::MAX, false));
        for bad in [
            &b"R 18446744073709551616"[..],
            b"R 99999999999999999999999999",
            b"R",
            b"R ",
            b"R1",
            b"R -1",
            b"R +1",
            b"R 1 2",
            b"R 0x1",
            b"X 1",
            b"1",
            b"\xFF\x00",
            b"R # 1",
            b"O 1 2",
            b"T 1 0",
            b"T 1 2 3",
            b"T 18446744073709551615 2",
        ] {
            assert!(reference(bad).is_err(), "{}", quoted(bad));
        }
    }

    #[test]
    fn the_fast_parser_agrees_with_the_slow_one() {
        let padding = [b'\n'; FAST_LINE];
        for line in [
            &b"R 0"[..],
            b"W 9999999999999999999",
            b"R 007",
            b"W 5\r",
            b"R 12345678901234567890",
            b"R ",
            b"r 1",
            b"W 1x",
            b"",
            b"R  1",
        ] {
            let bytes = [line, &padding].concat();
            if let Some((page, write, used)) = plain(&bytes) {
                assert_eq!(reference(line), Ok(Some(Line::Reference { page, write })));
                assert_eq!(used, line.len() + 1);
            }
        }
        assert_eq!(plain(b"R 1\n"), None, "needs a whole line's room");
    }

    #[test]
    fn guesses() {
        assert!(resembles(b"# comment\n\nR 1\nxyz"));
        assert!(resembles(b"w 15\r\n"));
        assert!(!resembles(b"1,2,3\nR 1\n"));
        assert!(!resembles(b""));
        assert!(!resembles(b"# only a comment\n"));
        assert!(!resembles(&[0; 100]));
    }
}
