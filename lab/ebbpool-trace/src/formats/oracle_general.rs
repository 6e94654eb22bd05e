//! *oracleGeneral*: libCacheSim's records of 24 bytes, little-endian: time u32,
//! object u64, size u32, next access i64.
//!
//! The next access is the number of the next request for the object, or a mark that
//! there is none. Objects are pages, whatever their size: their numbers are often
//! hashes, so that there are no pages between them. A request for an object of 0 bytes
//! is not a reference.

use super::records::{self, ParseRecord, bytes};
use super::requests::ForeignRequest;
use super::{Decoding, FormatEntry, OpenedTrace, StoredClasses, objects_are_pages, only_reads};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "oracleGeneral",
    description: "records of objects, all read (libCacheSim); read only",
    extensions: &["oraclegeneral"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

const SIZE: usize = 24;

struct RecordParser;

fn open(stream: Stream, _decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let notes = vec![only_reads(stream.label(), &ENTRY), objects_are_pages(stream.label())];
    records::opened(stream, RecordParser, (0, 0), None, notes)
}

/// Times never decrease, and each next access lies ahead.
fn resembles(head: &[u8]) -> bool {
    let records = head.chunks_exact(SIZE);
    let mut time = 0;
    records.len() >= 4
        && records.enumerate().all(|(number, record)| {
            let before = std::mem::replace(&mut time, u32::from_le_bytes(bytes(record, 0)));
            let next = i64::from_le_bytes(bytes(record, 16));
            let ahead = (number as i64..1 << 40).contains(&next);
            time >= before && (ahead || next == -1 || next == i64::MAX)
        })
}

impl ParseRecord for RecordParser {
    fn size(&self) -> usize {
        SIZE
    }

    fn request(&mut self, record: &[u8]) -> Result<Option<ForeignRequest>, String> {
        let object = u64::from_le_bytes(bytes(record, 4));
        let size = u32::from_le_bytes(bytes(record, 12));
        Ok((size > 0).then(|| ForeignRequest::of_page(object, false)))
    }
}
