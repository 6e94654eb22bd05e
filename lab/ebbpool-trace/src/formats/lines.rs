//! Traces of lines: finding line ends, leaving out bad lines, decoding the others.

use super::requests::{Expected, ForeignRequest, PendingRequest};
use super::{Decode, Decoding, OpenedTrace};
use crate::bad_lines::{BadLines, WordsForWrites};
use crate::error::{TraceError, quoted};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::stream::Stream;

/// The lines of a stream, with their count.
pub(super) struct Lines {
    pub(super) stream: Stream,
    /// Lines taken so far.
    pub(super) taken: u64,
    bad_lines: BadLines,
    /// The columns that the reader asks for.
    columns: OptionalColumns,
    /// True if other parts come between its requests.
    are_merged: bool,
}

impl Lines {
    /// From the first byte on, without a byte order mark.
    pub(super) fn new(mut stream: Stream, decoding: &Decoding) -> Result<Lines, TraceError> {
        const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
        if stream.head(BYTE_ORDER_MARK.len())?.starts_with(BYTE_ORDER_MARK) {
            stream.consume(BYTE_ORDER_MARK.len());
        }
        let (bad_lines, are_merged) = (decoding.bad_lines.clone(), decoding.volumes.are_mixed());
        Ok(Lines { stream, taken: 0, bad_lines, columns: decoding.columns, are_merged })
    }

    /// Takes the next line and passes it to `read` without its line end. A line that
    /// `read` refuses is left out, if one more bad line is allowed.
    pub(super) fn take<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<Option<T>, Expected>,
    ) -> Result<NextLine<T>, TraceError> {
        let length = loop {
            if let Some(end) = memchr::memchr(b'\n', self.stream.bytes()) {
                break end;
            } else if self.stream.is_full() {
                return Err(TraceError::Line {
                    file: self.stream.label().to_owned(),
                    line: self.taken + 1,
                    expected: "lines shorter than 256 KiB".into(),
                    found: quoted(self.stream.bytes()),
                });
            } else if !self.stream.fill()? {
                match self.stream.bytes().len() {
                    0 => return Ok(NextLine::End),
                    rest => break rest,
                }
            }
        };
        self.taken += 1;
        let line = &self.stream.bytes()[..length];
        let result = match read(line) {
            Ok(result) => result,
            Err(expected) => {
                self.bad_lines.leave_out(TraceError::Line {
                    file: self.stream.label().to_owned(),
                    line: self.taken,
                    expected: expected.into(),
                    found: quoted(line.trim_ascii()),
                })?;
                None
            }
        };
        // The line end too, where there is one.
        self.stream.consume(length + 1);
        Ok(NextLine::Line(result))
    }
}

/// The result of [`Lines::take`].
pub(super) enum NextLine<T> {
    /// A line, with the result of reading it.
    Line(Option<T>),
    End,
}

/// Parses the lines of a format.
pub(super) trait ParseLine: Send + 'static {
    /// The request in a line, which is not blank and is trimmed; `None` if the line is
    /// well-formed and requests no page.
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected>;

    /// The classes of the requests so far; `None` if the format has none.
    fn classes(&self) -> Option<PageClasses> {
        None
    }

    /// True if the requests have times.
    fn has_times(&self) -> bool {
        false
    }

    /// True if the requests say which pages they replace or end.
    fn has_operations(&self) -> bool {
        false
    }

    /// Lines so far that neither read nor write and end no pages, though a reader may expect it: what they are, and how many.
    fn skipped(&self) -> &[(&'static str, u64)] {
        &[]
    }

    /// The message for a trace that has lines but no request; `None` if that is not an
    /// error.
    fn without_requests(&self) -> Option<&'static str> {
        None
    }
}

/// Decodes lines into references.
struct LineDecoder<P> {
    lines: Lines,
    parser: P,
    pending: PendingRequest,
    /// The columns of the batches.
    columns: OptionalColumns,
    requested: bool,
}

/// A trace of lines, ready to be decoded.
pub(super) fn opened(lines: Lines, parser: impl ParseLine, page_size: Option<u64>, notes: Vec<String>) -> OpenedTrace {
    let columns = OptionalColumns {
        classes: lines.columns.classes && parser.classes().is_some(),
        requests: lines.columns.requests && parser.has_times(),
        operations: lines.columns.operations && parser.has_operations(),
    };
    OpenedTrace {
        metadata: Metadata { page_size, ..Metadata::default() },
        references: None,
        notes,
        decoder: Box::new(LineDecoder {
            pending: PendingRequest::new(columns).merged(lines.are_merged),
            lines,
            parser,
            columns,
            requested: false,
        }),
    }
}

impl<P: ParseLine> Decode for LineDecoder<P> {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            if self.pending.continue_into(batch, max) {
                continue;
            }
            let parser = &mut self.parser;
            let next = self.lines.take(|line| match line.trim_ascii() {
                b"" => Ok(None),
                line => parser.request(line),
            })?;
            match next {
                NextLine::Line(request) => {
                    self.requested |= request.is_some();
                    self.pending.begin(request);
                }
                NextLine::End => {
                    if !self.requested
                        && self.lines.taken > 0
                        && let Some(problem) = self.parser.without_requests()
                    {
                        return Err(TraceError::NoRequests { file: self.lines.stream.label().to_owned(), problem });
                    }
                    break;
                }
            }
        }
        let skipped = self.parser.skipped().iter().filter(|(_, count)| *count > 0);
        let skipped: Vec<(String, u64)> = skipped.map(|(what, count)| ((*what).to_owned(), *count)).collect();
        let unordered = self.pending.unordered();
        if !skipped.is_empty() || unordered > 0 {
            self.lines.bad_lines.found_words(WordsForWrites { skipped, unordered, ..WordsForWrites::default() });
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.lines.stream.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        match self.columns.classes {
            true => self.parser.classes(),
            false => None,
        }
    }

    fn columns(&self) -> OptionalColumns {
        self.columns
    }
}

/// The whole lines at a file's beginning that are not blank, trimmed.
pub(super) fn whole_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    head.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
}

/// The words of a line.
#[inline]
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A number of decimal digits and nothing else, below 2^64.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1 ", b"1a", b"1.0"] {
            assert_eq!(decimal(bad), None);
        }
    }

    #[test]
    fn words_and_whole_lines() {
        let found: Vec<&[u8]> = words(b" a\t bc  d").collect();
        assert_eq!(found, [&b"a"[..], b"bc", b"d"]);
        let found: Vec<&[u8]> = whole_lines(b"\xEF\xBB\xBF a\r\n\n \nb\ncut").collect();
        assert_eq!(found, [&b"a"[..], b"b"]);
    }
}
