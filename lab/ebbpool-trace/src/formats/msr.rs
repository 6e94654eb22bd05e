//! *msr*: block requests of servers at Microsoft Research Cambridge.
//!
//! A line `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` per
//! request, without a line of column names: the time in units of 100 ns (Windows'
//! file time), `Read` or `Write`, offset and size in bytes. Each disk of each host has its own page numbers: hosts are numbered in order
//! of appearance, and disk 0 of the first host begins at page 0. Each disk is a class.

use super::lines::{self, Lines, ParseLine, decimal, whole_lines};
use super::requests::{Expected, ForeignRequest, Names, SECTOR, VolumeClasses, Volumes};
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses};
use crate::error::TraceError;
use crate::reference::PageClasses;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "msr",
    description: "lines `time,host,disk,Read or Write,offset,size,response` (MSR Cambridge); read only",
    extensions: &["msr"],
    // The files are called .csv, so the name must not decide.
    magic,
    resembles: |_| false,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

/// Units of a timestamp in a µs.
const TICKS: u64 = 10;
/// Disks that a host can have.
const DISKS: u64 = 256;

struct LineParser {
    volumes: Volumes,
    hosts: Names,
    classes: VolumeClasses,
}

impl LineParser {
    fn new(volumes: Volumes, hosts: Names) -> LineParser {
        LineParser { volumes, hosts, classes: VolumeClasses::default() }
    }
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let volumes = Volumes::new(&stream, decoding, "msr counts bytes")?;
    let lines = Lines::new(stream, decoding)?;
    Ok(lines::opened(
        lines,
        LineParser::new(volumes, Names::of_reading(&decoding.volumes)),
        Some(volumes.page_size),
        Vec::new(),
    ))
}

fn magic(head: &[u8]) -> bool {
    let mut line = LineParser::new(Volumes { page_size: SECTOR }, Names::default());
    let mut lines = whole_lines(head);
    let Some(first) = lines.next() else {
        return false;
    };
    if line.request(first).is_ok() {
        return is_dated(first);
    }
    // A damaged first line does not make the file a CSV, unlike a line of column names.
    let next: Vec<&[u8]> = lines.take(3).collect();
    let requests = next.iter().all(|next| line.request(next).is_ok());
    next.len() > 1 && requests && !names_columns(first) && next.iter().all(|line| is_dated(line))
}

/// True if the first field is a file time after 1632: other programs' lines have the same shape, and smaller numbers.
fn is_dated(line: &[u8]) -> bool {
    const IN_1632: u64 = 10_000_000_000_000_000;
    let time = line.split(|&byte| byte == b',').next().unwrap_or_default();
    decimal(time.trim_ascii()).is_some_and(|time| time > IN_1632)
}

/// True if every field of a line begins as a name does.
fn names_columns(line: &[u8]) -> bool {
    line.split(|&byte| byte == b',').all(|field| {
        let field = field.trim_ascii();
        field.first().is_some_and(u8::is_ascii_alphabetic)
    })
}

impl ParseLine for LineParser {
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected> {
        const SHAPE: Expected = "`Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` (numbers, but for the host and the type Read or Write)";
        const TIME: Expected = "a time in units of 100 ns, such as 128166372003061629, in the first field";
        let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let mut field = || fields.next().ok_or(SHAPE);
        let time = field()?;
        let time = decimal(time).ok_or(match time.first() {
            Some(digit) if digit.is_ascii_digit() => TIME,
            _ => SHAPE,
        })?;
        let host = field()?;
        let disk = decimal(field()?).ok_or(SHAPE)?;
        let write = match field()? {
            kind if kind.eq_ignore_ascii_case(b"Read") => false,
            kind if kind.eq_ignore_ascii_case(b"Write") => true,
            _ => return Err(SHAPE),
        };
        let mut number = || decimal(field()?).ok_or(SHAPE);
        let (offset, bytes, _response) = (number()?, number()?, number()?);
        if fields.next().is_some() {
            return Err(SHAPE);
        }
        if disk >= DISKS {
            return Err("a disk number below 256");
        }
        let volume = self.hosts.number(host) * DISKS + disk;
        let request = self.volumes.request(volume, (offset, 1), bytes, write)?;
        let request = request.map(|request| request.at(time / TICKS));
        let name = || format!("{} {disk}", String::from_utf8_lossy(host));
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
}
