//! *lirs*: the traces of the LIRS paper, a block number per line; a line `*`
//! separates. No writes.

use super::lines::{self, Lines, ParseLine, decimal, whole_lines};
use super::requests::{Expected, Request};
use super::{Decoding, Entry, Opened, only_reads};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) static ENTRY: Entry = Entry {
    name: "lirs",
    description: "a block number per line, all read (the LIRS paper's traces); read only",
    extensions: &["lirs", "trc"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    open,
    create: None,
};

struct Line;

fn open(stream: Stream, decoding: &Decoding) -> Result<Opened, TraceError> {
    let notes = vec![only_reads(stream.label(), &ENTRY)];
    let lines = Lines::new(stream, decoding)?;
    Ok(lines::opened(lines, Line, None, notes))
}

/// All lines are right, and there are some numbers.
fn resembles(head: &[u8]) -> bool {
    let mut lines = whole_lines(head).map(|line| Line.request(line));
    let mut numbers = 0;
    lines.all(|line| {
        line.is_ok_and(|request| {
            numbers += usize::from(request.is_some());
            true
        })
    }) && numbers >= 2
}

impl ParseLine for Line {
    fn request(&mut self, line: &[u8]) -> Result<Option<Request>, Expected> {
        if line == b"*" {
            return Ok(None);
        }
        let block = decimal(line).ok_or("a block number from 0 to 2^64-1, or `*`")?;
        Ok(Some(Request::of_page(block, false)))
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
