//! *arc*: the traces of the ARC paper. A line `first blocks ignored number` per
//! request: first block, number of blocks, a meaningless number and the number of the
//! request. There are no writes.

use super::lines::{self, Lines, ParseLine, decimal, whole_lines, words};
use super::requests::{Action, Expected, Extent, ForeignRequest, LONGEST_REQUEST, SECTOR};
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses, only_reads};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "arc",
    description: "lines `first blocks 0 number`, all read (the ARC paper's traces); read only",
    extensions: &["arc", "lis"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

/// The most blocks of a request; in most of these traces blocks are sectors.
const MOST_BLOCKS: u64 = LONGEST_REQUEST / SECTOR;

struct LineParser;

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let notes = vec![only_reads(stream.label(), &ENTRY)];
    let lines = Lines::new(stream, decoding)?;
    Ok(lines::opened(lines, LineParser, None, notes))
}

/// All lines are well-formed, and their ignored number is 0.
fn resembles(head: &[u8]) -> bool {
    let mut lines = whole_lines(head).peekable();
    lines.peek().is_some() && lines.all(|line| LineParser.request(line).is_ok() && words(line).nth(2) == Some(b"0"))
}

impl ParseLine for LineParser {
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected> {
        const SHAPE: Expected = "`first blocks ignored number` (four numbers)";
        let mut words = words(line);
        let mut number = || words.next().and_then(decimal).ok_or(SHAPE);
        let (first, blocks) = (number()?, number()?);
        let (_ignored, _request) = (number()?, number()?);
        if words.next().is_some() {
            return Err(SHAPE);
        }
        if blocks > MOST_BLOCKS {
            return Err("at most 2^31 blocks");
        }
        let Some(behind_first) = blocks.checked_sub(1) else {
            return Ok(None);
        };
        let last = first.checked_add(behind_first).ok_or("blocks below 2^64")?;
        Ok(Some(ForeignRequest::new(Extent { pages: first..=last, whole: None }, Action::Read)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses() {
        assert!(resembles(b"64 512 0 0\r\n8 1 0 1\n9"));
        assert!(!resembles(b"64 512 1 0\n"));
        assert!(!resembles(b"64 512 0\n"));
        assert!(!resembles(b"64 512 0 0 0\n"));
        assert!(!resembles(b"64 512 0 0"));
        assert!(!resembles(b""));
    }
}
