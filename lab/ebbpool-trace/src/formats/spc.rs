//! *spc*: the trace file format of the Storage Performance Council, in which UMass
//! publishes `Financial1` and others.
//!
//! A line `ASU,LBA,size,opcode,timestamp` per request: the application's storage
//! unit, a block of 512 bytes on it, a size in bytes, `R` or `W`, the time in seconds. More
//! fields may follow. Each unit has its own page numbers, which follow from its number, and is a
//! class.

use super::lines::{self, Lines, ParseLine, decimal, whole_lines};
use super::requests::{Expected, ForeignRequest, SECTOR, VolumeClasses, Volumes};
use super::times::TimeUnit;
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses};
use crate::error::TraceError;
use crate::reference::PageClasses;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "spc",
    description: "lines `ASU,LBA,size,R or W,seconds` (SPC, UMass); read only",
    extensions: &["spc"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

struct LineParser {
    volumes: Volumes,
    classes: VolumeClasses,
}

impl LineParser {
    fn new(volumes: Volumes) -> LineParser {
        LineParser { volumes, classes: VolumeClasses::default() }
    }
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let volumes = Volumes::new(&stream, decoding, "spc counts blocks of 512 bytes")?;
    let lines = Lines::new(stream, decoding)?;
    let page_size = Some(volumes.page_size);
    Ok(lines::opened(lines, LineParser::new(volumes), page_size, Vec::new()))
}

fn resembles(head: &[u8]) -> bool {
    let mut line = LineParser::new(Volumes { page_size: SECTOR });
    whole_lines(head).next().is_some_and(|first| line.request(first).is_ok())
}

impl ParseLine for LineParser {
    fn request(&mut self, line: &[u8]) -> Result<Option<ForeignRequest>, Expected> {
        const SHAPE: Expected = "`ASU,LBA,size,opcode,timestamp` (numbers, but for the opcode R or W)";
        let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let mut field = || fields.next().ok_or(SHAPE);
        let mut number = || decimal(field()?).ok_or(SHAPE);
        let (unit, block, bytes) = (number()?, number()?, number()?);
        let write = match field()? {
            b"R" | b"r" => false,
            b"W" | b"w" => true,
            _ => return Err(SHAPE),
        };
        let time_us =
            TimeUnit::Seconds.microseconds(field()?).ok_or("a time in seconds, such as 0.026214, in the fifth field")?;
        let request = self.volumes.request(unit, (block, SECTOR), bytes, write)?;
        let request = request.map(|request| request.at(time_us));
        Ok(self.classes.of(unit, request, || format!("unit {unit}")))
    }

    fn has_operations(&self) -> bool {
        true
    }

    fn has_times(&self) -> bool {
        true
    }

    fn classes(&self) -> Option<PageClasses> {
        Some(self.classes.classes())
    }
}
