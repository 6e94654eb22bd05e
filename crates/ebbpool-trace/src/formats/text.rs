//! *text*: a line `R 123` or `W 123` per reference; `#` starts a comment.
//!
//! Metadata travels in leading comments, `# ebbpool.page_size=8192`, which every
//! other reader of the format skips.

use std::io::Write;

use super::lines::{Lines, Taken};
use super::requests::Expected;
use super::{Decode, Decoding, Encode, Entry, Opened, Target};
use crate::compression::Sink;
use crate::error::TraceError;
use crate::reference::{Batch, Metadata};
use crate::stream::{BUFFER, Stream};

pub(super) static ENTRY: Entry = Entry {
    name: "text",
    description: "a line `R 123` or `W 123` per reference, `#` starts a comment",
    extensions: &["txt", "text"],
    magic: |_| false,
    resembles,
    keeps_metadata: true,
    open,
    create: Some(create),
};

/// How far into a file metadata comments are looked for, in bytes.
const METADATA_HEAD: usize = 1 << 13;
/// Longest line that is read without looking for its end first: a letter, a
/// space, 19 digits (which cannot overflow), `\r\n`.
const FAST_LINE: usize = 1 + 1 + 19 + 2;

struct TextDecoder {
    lines: Lines,
}

/// The first line that holds anything is a reference; it may be cut off.
fn resembles(head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n')
        .find_map(|line| reference(line).transpose())
        .is_some_and(|first| first.is_ok())
}

fn open(mut stream: Stream, decoding: &Decoding) -> Result<Opened, TraceError> {
    let head = stream.head(METADATA_HEAD)?;
    let metadata = metadata_in(head);
    let lines = Lines::new(stream, decoding)?;
    Ok(Opened {
        decoder: Box::new(TextDecoder { lines }),
        metadata,
        references: None,
        notes: Vec::new(),
    })
}

fn metadata_in(head: &[u8]) -> Metadata {
    let mut metadata = Metadata::default();
    let comments = head
        .split(|&byte| byte == b'\n')
        .map_while(|line| line.strip_prefix(b"#"));
    for comment in comments {
        let Ok(comment) = std::str::from_utf8(comment) else {
            continue;
        };
        let Some((key, value)) = comment
            .trim()
            .strip_prefix("ebbpool.")
            .and_then(|pair| pair.split_once('='))
        else {
            continue;
        };
        match key.trim() {
            "name" => metadata.name = Some(value.trim().to_owned()),
            "page_size" => metadata.page_size = value.trim().parse().ok(),
            "database_pages" => metadata.database_pages = value.trim().parse().ok(),
            _ => {}
        }
    }
    metadata
}

/// The reference in one line without its end, none if it is blank or a comment.
fn reference(line: &[u8]) -> Result<Option<(u64, bool)>, Expected> {
    const SHAPE: Expected = "`R 123` or `W 123` (read or write, a space, a page number)";
    let code = line.split(|&byte| byte == b'#').next().unwrap_or(line);
    let code = code.trim_ascii();
    let Some((&letter, rest)) = code.split_first() else {
        return Ok(None);
    };
    let write = match letter {
        b'R' | b'r' => false,
        b'W' | b'w' => true,
        _ => return Err(SHAPE),
    };
    let digits = rest.trim_ascii_start();
    if digits.len() == rest.len() || digits.is_empty() {
        return Err(SHAPE);
    }
    let mut page = 0u64;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return Err(SHAPE);
        }
        page = page
            .checked_mul(10)
            .and_then(|page| page.checked_add(u64::from(byte - b'0')))
            .ok_or("a page number below 2^64")?;
    }
    Ok(Some((page, write)))
}

/// Reads `R 123\n` in its plainest spelling from the front of `bytes`: page,
/// write, bytes used. Anything else is left to [`reference`].
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
                Taken::Line(Some((page, write))) => batch.push(page, write),
                Taken::Line(None) => {}
                Taken::End => break,
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.lines.stream.progress()
    }
}

struct TextEncoder {
    sink: Sink,
    lines: Vec<u8>,
}

fn create(target: Target) -> Result<Box<dyn Encode>, TraceError> {
    let Metadata {
        name,
        page_size,
        database_pages,
    } = target.metadata;
    let mut lines = Vec::with_capacity(BUFFER);
    let mut comment = |key: &str, value: &str| {
        // A line break in a name must not end the comment.
        let value: String = value
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        lines.extend_from_slice(format!("# ebbpool.{key}={value}\n").as_bytes());
    };
    if let Some(name) = name {
        comment("name", name);
    }
    if let Some(page_size) = page_size {
        comment("page_size", &page_size.to_string());
    }
    if let Some(database_pages) = database_pages {
        comment("database_pages", &database_pages.to_string());
    }
    Ok(Box::new(TextEncoder {
        sink: target.sink,
        lines,
    }))
}

impl TextEncoder {
    fn flush(&mut self) -> Result<(), TraceError> {
        let written = self.sink.write_all(&self.lines);
        self.lines.clear();
        written.map_err(|error| TraceError::io(self.sink.file().label(), "write", error))
    }
}

impl Encode for TextEncoder {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        let mut digits = itoa::Buffer::new();
        for (page, write) in batch.iter() {
            self.lines
                .extend_from_slice(if write { b"W " } else { b"R " });
            self.lines.extend_from_slice(digits.format(page).as_bytes());
            self.lines.push(b'\n');
            if self.lines.len() > BUFFER - 2 * FAST_LINE {
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
    use crate::error::quoted;

    #[test]
    fn lines() {
        assert_eq!(reference(b"R 1"), Ok(Some((1, false))));
        assert_eq!(reference(b"  w \t 12 # hot\r"), Ok(Some((12, true))));
        assert_eq!(reference(b"# R 1"), Ok(None));
        assert_eq!(reference(b" \t\r"), Ok(None));
        assert_eq!(
            reference(b"R 18446744073709551615"),
            Ok(Some((u64::MAX, false)))
        );
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
        ] {
            assert!(reference(bad).is_err(), "{}", quoted(bad));
        }
    }

    #[test]
    fn the_fast_way_agrees_with_the_slow_one() {
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
                assert_eq!(reference(line), Ok(Some((page, write))));
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
