//! *fio*: the output of `fio --write_iolog`, versions 2 and 3.
//!
//! The first line has the version. Then there is a line `file action offset length`
//! per request, in version 3 with a time in µs in front; offsets and lengths are in bytes.
//! Each file has its own page numbers, and files are numbered in order of appearance;
//! each is a class.
//! Lines that open or close files or wait request no page; those that sync are counted.

use super::lines::{self, Lines, NextLine, ParseLine, decimal, words};
use super::requests::{Action, Expected, ForeignRequest, Names, VolumeClasses, Volumes};
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses};
use crate::error::{TraceError, quoted};
use crate::reference::PageClasses;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "fio",
    description: "lines `file read or write offset length` (fio's iolog); read only",
    extensions: &["iolog"],
    magic: |head| version(head.split(|&byte| byte == b'\n').next().unwrap_or(head)).is_some(),
    resembles: |_| false,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

/// The version, which determines the shape of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// Version 2.
    Plain,
    /// Version 3.
    Timed,
}

fn version(line: &[u8]) -> Option<Version> {
    match line.trim_ascii_end() {
        b"fio version 2 iolog" => Some(Version::Plain),
        b"fio version 3 iolog" => Some(Version::Timed),
        _ => None,
    }
}

struct LineParser {
    version: Version,
    volumes: Volumes,
    files: Names,
    classes: VolumeClasses,
    flushes: [(&'static str, u64); 1],
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let volumes = Volumes::new(&stream, decoding, "fio counts bytes")?;
    let mut lines = Lines::new(stream, decoding)?;
    let label = lines.stream.label().to_owned();
    let first = lines.take(|line| Ok(Some(version(line).ok_or_else(|| quoted(line)))))?;
    let version = match first {
        NextLine::Line(Some(Ok(version))) => version,
        NextLine::Line(Some(Err(found))) => {
            return Err(TraceError::Line {
                file: label,
                line: 1,
                expected: "`fio version 2 iolog` or `fio version 3 iolog`".into(),
                found,
            });
        }
        // A trace without lines may have any version.
        NextLine::Line(None) | NextLine::End => Version::Timed,
    };
    let parser = LineParser {
        version,
        volumes,
        files: Names::of_reading(&decoding.volumes),
        classes: VolumeClasses::default(),
        flushes: [("flushes", 0)],
    };
    Ok(lines::opened(lines, parser, Some(volumes.page_size), Vec::new()))
}

impl ParseLine for LineParser {
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected> {
        const TIME: Expected = "a time in whole microseconds, such as 1500, in front of the file";
        let shape = match self.version {
            Version::Plain => "`file action offset length` (bytes; an action such as read)",
            Version::Timed => "`time file action offset length` (bytes; an action such as read)",
        };
        let mut words = words(line);
        let mut word = || words.next().ok_or(shape);
        let time_us = match self.version {
            Version::Plain => None,
            Version::Timed => {
                let time = word()?;
                Some(decimal(time).ok_or(match time.first() {
                    Some(digit) if digit.is_ascii_digit() => TIME,
                    _ => shape,
                })?)
            }
        };
        let file = word()?;
        let action = match word()? {
            b"read" => Action::Read,
            b"write" => Action::Write,
            b"trim" => Action::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => {
                self.flushes[0].1 += 1;
                return Ok(None);
            }
            b"add" | b"open" | b"close" | b"unlink" | b"wait" => return Ok(None),
            _ => return Err(shape),
        };
        let mut number = || decimal(word()?).ok_or(shape);
        let (offset, bytes) = (number()?, number()?);
        let Some(volume) = self.files.number_for(file, action) else {
            return Ok(None);
        };
        let request = self.volumes.request(volume, (offset, 1), bytes, action)?;
        let request = request.map(|request| ForeignRequest { time_us, ..request });
        let name = || String::from_utf8_lossy(file).into_owned();
        Ok(self.classes.of(volume, request, name))
    }

    fn classes(&self) -> Option<PageClasses> {
        Some(self.classes.classes())
    }

    fn has_operations(&self) -> bool {
        true
    }

    fn has_times(&self) -> bool {
        self.version == Version::Timed
    }

    fn skipped(&self) -> &[(&'static str, u64)] {
        &self.flushes
    }

    fn without_requests(&self) -> Option<&'static str> {
        Some("holds no line with the action read or write; fio logs them under --write_iolog")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic() {
        assert!((ENTRY.magic)(b"fio version 2 iolog\na add\n"));
        assert!((ENTRY.magic)(b"fio version 3 iolog\r\n"));
        assert!(!(ENTRY.magic)(b"fio version 1 iolog\n"));
        assert!(!(ENTRY.magic)(b"fio version 33 iolog\n"));
        assert!(!(ENTRY.magic)(b""));
    }
}
