//! *blkparse*: the output of blkparse for a blktrace, in its default form.
//!
//! A line `major,minor cpu sequence seconds pid action kind sector + sectors
//! [process]` per event. The requests are the events with the action `Q`: the
//! requests of programs and file systems, before merging and splitting. Every other
//! action is a later event of one of these. Discards, flushes and commands to the
//! device request no page. Each device has its own page numbers, and devices are
//! numbered in order of appearance; each is a class. A summary may follow.

use super::lines::{self, Lines, ParseLine, decimal, whole_lines, words};
use super::requests::{Action, Expected, ForeignRequest, Names, SECTOR, VolumeClasses, Volumes};
use super::times::TimeUnit;
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses};
use crate::error::TraceError;
use crate::reference::PageClasses;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "blkparse",
    description: "what blkparse prints of a blktrace, the requests of action Q; read only",
    extensions: &["blkparse"],
    magic: |_| false,
    resembles: |head| whole_lines(head).next().is_some_and(|first| event(first).is_ok()),
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

/// Where the parser counts what requests no page.
const FLUSHES: usize = 0;
const RESETS: usize = 1;

const SHAPE: Expected = "`major,minor cpu sequence seconds pid action kind …`";
const TIME: Expected = "a time in seconds, such as 0.000001200, in the fourth field";

struct LineParser {
    volumes: Volumes,
    devices: Names,
    classes: VolumeClasses,
    skipped: [(&'static str, u64); 2],
    /// The events have ended.
    in_summary: bool,
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let what = "blkparse counts sectors of 512 bytes";
    let volumes = Volumes::new(&stream, decoding, what)?;
    let lines = Lines::new(stream, decoding)?;
    let parser = LineParser {
        volumes,
        devices: Names::of_reading(&decoding.volumes),
        classes: VolumeClasses::default(),
        skipped: [("flushes", 0), ("resets of zones without a length, which end no page here", 0)],
        in_summary: false,
    };
    Ok(lines::opened(lines, parser, Some(volumes.page_size), Vec::new()))
}

/// The fields of a line that has the shape of an event.
struct Event<'a, Rest> {
    device: &'a [u8],
    time_us: u64,
    action: &'a [u8],
    kind: &'a [u8],
    rest: Rest,
}

fn event(line: &[u8]) -> Result<Event<'_, impl Iterator<Item = &[u8]>>, Expected> {
    let mut words = words(line);
    let mut word = || words.next().ok_or(SHAPE);
    let device = word()?;
    let comma = device.iter().position(|&byte| byte == b',').ok_or(SHAPE)?;
    let (major, minor) = device.split_at(comma);
    for number in [major, &minor[1..], word()?, word()?] {
        decimal(number).ok_or(SHAPE)?;
    }
    let time = word()?;
    if !time.contains(&b'.') || !time.first().is_some_and(u8::is_ascii_digit) {
        return Err(SHAPE);
    }
    let time_us = TimeUnit::Seconds.microseconds(time).ok_or(TIME)?;
    decimal(word()?).ok_or(SHAPE)?;
    let (action, kind) = (word()?, word()?);
    Ok(Event { device, time_us, action, kind, rest: words })
}

impl ParseLine for LineParser {
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected> {
        const SECTORS: Expected = "`sector + sectors` behind the kind of a request";
        let Event { device, time_us, action, kind, mut rest } = match event(line) {
            Ok(event) => event,
            Err(expected) => {
                self.in_summary |=
                    [&b"CPU"[..], b"Total", b"Throughput", b"Events"].iter().any(|start| line.starts_with(start));
                return if self.in_summary { Ok(None) } else { Err(expected) };
            }
        };
        if action != b"Q" {
            return Ok(None);
        }
        let action = match (kind.contains(&b'R'), kind.contains(&b'W')) {
            // Zoned devices: a reset ends the pages of a zone, an append writes, and others change no page.
            _ if kind.starts_with(b"ZR") => Action::Trim,
            _ if kind.starts_with(b"ZA") => Action::Write,
            _ if kind.starts_with(b"Z") => return Ok(None),
            _ if kind.contains(&b'D') => Action::Trim,
            (true, false) => Action::Read,
            (false, true) => Action::Write,
            _ => {
                self.skipped[FLUSHES].1 += u64::from(kind.starts_with(b"F"));
                return Ok(None);
            }
        };
        let without_pages = match kind {
            [b'Z', b'R', ..] => Some(RESETS),
            [b'F', ..] => Some(FLUSHES),
            _ => None,
        };
        let mut without_pages = |is_event: bool| {
            if let Some(at) = without_pages.filter(|_| is_event) {
                self.skipped[at].1 += 1;
            }
        };
        let sector = rest.next().ok_or(SECTORS)?;
        // A flush without data has the process here; a command to the device has its length and bytes.
        if sector.starts_with(b"[") {
            without_pages(true);
            return Ok(None);
        }
        let sector = decimal(sector).ok_or(SECTORS)?;
        match rest.next() {
            Some(b"+") => {}
            Some(word) if word.starts_with(b"[") || word.starts_with(b"(") => return Ok(None),
            _ => return Err(SECTORS),
        }
        let sectors = rest.next().and_then(decimal).ok_or(SECTORS)?;
        without_pages(sectors == 0);
        let Some(volume) = self.devices.number_for(device, action) else {
            return Ok(None);
        };
        let bytes = sectors.saturating_mul(SECTOR);
        let request = self.volumes.request(volume, (sector, SECTOR), bytes, action)?;
        let request = request.map(|request| request.at(time_us));
        let name = || String::from_utf8_lossy(device).into_owned();
        Ok(self.classes.of(volume, request, name))
    }

    fn classes(&self) -> Option<PageClasses> {
        Some(self.classes.classes())
    }

    fn has_operations(&self) -> bool {
        true
    }

    fn has_times(&self) -> bool {
        true
    }

    fn skipped(&self) -> &[(&'static str, u64)] {
        &self.skipped
    }

    fn without_requests(&self) -> Option<&'static str> {
        Some("holds no read or write with the action Q; record with blktrace -a queue, or without -a")
    }
}
