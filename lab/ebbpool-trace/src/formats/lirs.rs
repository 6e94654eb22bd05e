//! *lirs*: the traces of the LIRS paper, a block number per line; a line `*` is a
//! separator. There are no writes.

use super::lines::{self, Lines, ParseLine, decimal, whole_lines};
use super::requests::{Expected, ForeignRequest};
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses, only_reads};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "lirs",
    description: "a block number per line, all read (the LIRS paper's traces); read only",
    extensions: &["lirs", "trc"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

struct LineParser;

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let notes = vec![only_reads(stream.label(), &ENTRY)];
    let lines = Lines::new(stream, decoding)?;
    Ok(lines::opened(lines, LineParser, None, notes))
}

/// All lines are well-formed, and at least two are numbers.
fn resembles(head: &[u8]) -> bool {
    let mut lines = whole_lines(head).map(|line| LineParser.request(line));
    let mut numbers = 0;
    lines.all(|line| {
        line.is_ok_and(|request| {
            numbers += usize::from(request.is_some());
            true
        })
    }) && numbers >= 2
}

impl ParseLine for LineParser {
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected> {
        if line == b"*" {
            return Ok(None);
        }
        let block = decimal(line).ok_or("a block number from 0 to 2^64-1, or `*`")?;
        Ok(Some(ForeignRequest::of_page(block, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses() {
        assert!(resembles(b"*\n1\r\n22\n*\n33"));
        assert!(!resembles(b"1\n2"));
        assert!(!resembles(b"*\n*\n*\n"));
        assert!(!resembles(b"1\n2\npage\n"));
        assert!(!resembles(b""));
    }
}
