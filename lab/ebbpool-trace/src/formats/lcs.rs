//! *lcs*: libCacheSim's format with a header, little-endian.
//!
//! The header has 8192 bytes, or 1024 in files of early programs. It begins and
//! ends with a magic number; the first is followed by the version and statistics
//! (each 64 bits): their own version, requests, objects, bytes requested, bytes
//! of objects, first and last time, reads, writes, deletions.
//!
//! | version | record |
//! | --- | --- |
//! | 1, 24 bytes | time u32, object u64, size u32, next access i64 |
//! | 2, 28 bytes | time u32, object u64, size u32, operation u8, tenant u24, next access i64 |
//! | 3, 36 bytes | time u32, object u64, size i64, operation u8, tenant u24, lifetime u32, next access i64 |
//! | 4 to 8 | as 3, followed by 1, 2, 4, 8 or 16 words of 32 bits |
//!
//! Objects are pages as in *oracleGeneral*. The operations of memcached that store, as
//! well as write and update, are writes; deletions request no page.

use super::records::{self, ParseRecord, bytes};
use super::requests::ForeignRequest;
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses, objects_are_pages, only_reads};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "lcs",
    description: "a header and records of objects, versions 1 to 8 (libCacheSim); read only",
    extensions: &["lcs"],
    magic: |head| head.starts_with(&MAGIC),
    resembles: |_| false,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

const MAGIC: [u8; 8] = 0x1234_5678_9ABC_DEF0_u64.to_le_bytes();
/// Bytes of a header.
const HEADER: usize = 8192;
const EARLY_HEADER: usize = 1024;

/// Offsets of the relevant fields in a version's records, in bytes.
struct RecordLayout {
    size: usize,
    /// True if the object's size has 64 bits rather than 32.
    wide: bool,
    operation: Option<usize>,
}

fn layout(version: u64) -> Option<RecordLayout> {
    let (size, wide, operation) = match version {
        1 => (24, false, None),
        2 => (28, false, Some(16)),
        3 => (36, true, Some(20)),
        4 => (40, true, Some(20)),
        5 => (44, true, Some(20)),
        6 => (52, true, Some(20)),
        7 => (68, true, Some(20)),
        8 => (100, true, Some(20)),
        _ => return None,
    };
    Some(RecordLayout { size, wide, operation })
}

fn open(mut stream: Stream, _decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let label = stream.label().to_owned();
    let damaged = |detail: String| TraceError::Damaged { file: label.clone(), format: "lcs", detail };
    let head = stream.head(HEADER)?;
    let ends_at =
        |length: usize| head.get(..length).is_some_and(|header| header.starts_with(&MAGIC) && header.ends_with(&MAGIC));
    let header = match (ends_at(HEADER), ends_at(EARLY_HEADER)) {
        (true, _) => HEADER,
        (_, true) => EARLY_HEADER,
        _ => {
            return Err(damaged("it does not begin with a header of 8192 or 1024 bytes between magic numbers".to_owned()));
        }
    };
    let field = |at: usize| u64::from_le_bytes(bytes(head, at));
    let version = field(8);
    let (requests, reads, writes) = (field(24), field(72), field(80));
    let record = layout(version).ok_or_else(|| damaged(format!("its version is {version}, and there are 1 to 8")))?;
    let mut notes = Vec::new();
    if record.operation.is_none() {
        notes.push(only_reads(&label, &ENTRY));
    } else if (reads, writes) == (0, 0) {
        notes.push(format!("{label}: its header counts no reads and no writes; records without an operation are reads"));
    }
    notes.push(objects_are_pages(&label));
    stream.consume(header);
    records::opened(stream, record, (header as u64, requests), None, notes)
}

/// Whether libCacheSim's operation with this number writes; `None` for deletions.
fn direction(operation: u8) -> Result<Option<bool>, String> {
    match operation {
        // None, get, gets, read; 255 is invalid, for sources that record no operation.
        0..=2 | 12 | 255 => Ok(Some(false)),
        // Set, add, cas, replace, append, prepend, incr, decr, write, update.
        3..=8 | 10 | 11 | 13 | 14 => Ok(Some(true)),
        9 => Ok(None),
        _ => Err(format!("expected an operation from 0 to 14 or 255, found {operation}; the file is damaged")),
    }
}

impl ParseRecord for RecordLayout {
    fn size(&self) -> usize {
        self.size
    }

    fn request(&mut self, record: &[u8]) -> Result<Option<ForeignRequest>, String> {
        let object = u64::from_le_bytes(bytes(record, 4));
        let size = match self.wide {
            true => i64::from_le_bytes(bytes(record, 12)),
            false => u32::from_le_bytes(bytes(record, 12)).into(),
        };
        let write = match self.operation {
            Some(at) => {
                let [operation] = bytes(record, at);
                direction(operation)?
            }
            None => Some(false),
        };
        match size {
            ..0 => Err(format!("its size is {size}; the file is damaged")),
            0 => Ok(None),
            _ => Ok(write.map(|write| ForeignRequest::of_page(object, write))),
        }
    }
}
