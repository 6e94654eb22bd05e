//! *vscsi*: SCSI commands of VMware's virtual disks, as CloudPhysics recorded and
//! libCacheSim reads them, versions 1 and 2.
//!
//! Little-endian records; the sector counts units of 512 bytes, the length is in
//! bytes.
//!
//! | version | record |
//! | --- | --- |
//! | 1, 32 bytes | number u32, length u32, segments u32, command u16, version u16, sector u64, time u64 |
//! | 2, 40 bytes | command u16, version u16, number u32, length u32, segments u32, sector u64, time u64, response time u64 |
//!
//! Times are in µs. The upper byte of the version field is the version. Commands that neither read nor
//! write data request no page.

use super::records::{self, ParseRecord, bytes};
use super::requests::{ForeignRequest, SECTOR, Volumes};
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses};
use crate::error::TraceError;
use crate::reference::OptionalColumns;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "vscsi",
    description: "records of SCSI commands (CloudPhysics, libCacheSim); read only",
    extensions: &["vscsi", "vscsitrace", "vscsi1", "vscsi2"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

/// Offsets of the fields in a version's records, in bytes.
#[derive(Debug)]
struct RecordLayout {
    version: u8,
    size: usize,
    command: usize,
    version_field: usize,
    length: usize,
    sector: usize,
    time: usize,
}

static LAYOUTS: [RecordLayout; 2] = [
    RecordLayout { version: 2, size: 40, command: 0, version_field: 2, length: 8, sector: 16, time: 24 },
    RecordLayout { version: 1, size: 32, command: 12, version_field: 14, length: 4, sector: 16, time: 24 },
];

impl RecordLayout {
    /// True if the record states this version.
    fn matches(&self, record: &[u8]) -> bool {
        u16::from_le_bytes(bytes(record, self.version_field)) >> 8 == u16::from(self.version)
    }

    /// Whether the record's command writes; `None` if it moves no data between host and
    /// disk.
    fn direction(&self, record: &[u8]) -> Option<bool> {
        match u16::from_le_bytes(bytes(record, self.command)) {
            // READ of 6, 10, 12 and 16 bytes.
            0x08 | 0x28 | 0xA8 | 0x88 => Some(false),
            // WRITE of 6, 10, 12 and 16 bytes, WRITE AND VERIFY of 10, 12 and 16.
            0x0A | 0x2A | 0xAA | 0x8A | 0x2E | 0xAE | 0x8E => Some(true),
            _ => None,
        }
    }
}

/// All records are of one version, and some command moves data.
fn resembles(head: &[u8]) -> bool {
    LAYOUTS.iter().any(|layout| {
        let mut records = head.chunks_exact(layout.size);
        records.len() >= 2
            && records.clone().all(|record| layout.matches(record))
            && records.any(|record| layout.direction(record).is_some())
    })
}

struct RecordParser {
    layout: &'static RecordLayout,
    volumes: Volumes,
    columns: OptionalColumns,
}

fn open(mut stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let what = "vscsi counts sectors of 512 bytes";
    let volumes = Volumes::new(&stream, decoding, what)?;
    let [second, first] = &LAYOUTS;
    let head = stream.head(2 * second.size)?;
    let is = |layout: &RecordLayout| {
        let mut records = head.chunks_exact(layout.size).take(2).peekable();
        records.peek().is_some() && records.all(|record| layout.matches(record))
    };
    let layout = match (is(second), is(first)) {
        (true, _) => second,
        (_, true) => first,
        // An empty trace may be of any version.
        _ if head.is_empty() => second,
        _ => {
            return Err(TraceError::Record {
                file: stream.label().to_owned(),
                record: 0,
                problem: "is of neither version 1 nor 2; the file is truncated or no vscsi trace".to_owned(),
            });
        }
    };
    let columns = OptionalColumns { classes: false, ..decoding.columns };
    let parser = RecordParser { layout, volumes, columns };
    records::opened(stream, parser, (0, 0), Some(volumes.page_size), Vec::new())
}

impl ParseRecord for RecordParser {
    fn size(&self) -> usize {
        self.layout.size
    }

    fn request(&mut self, record: &[u8]) -> Result<Option<ForeignRequest>, String> {
        if !self.layout.matches(record) {
            let version = self.layout.version;
            return Err(format!("expected version {version} as in the first record; the file is damaged"));
        }
        let Some(write) = self.layout.direction(record) else {
            return Ok(None);
        };
        let sector = u64::from_le_bytes(bytes(record, self.layout.sector));
        let length = u32::from_le_bytes(bytes(record, self.layout.length));
        let time_us = u64::from_le_bytes(bytes(record, self.layout.time));
        self.volumes
            .request(0, (sector, SECTOR), length.into(), write)
            .map(|request| Some(request?.at(time_us)))
            .map_err(|expected| format!("expected {expected}, found sector {sector}"))
    }

    fn columns(&self) -> OptionalColumns {
        self.columns
    }

    fn without_requests(&self) -> Option<&'static str> {
        Some("holds no SCSI command that reads or writes; is it a vscsi trace?")
    }
}
