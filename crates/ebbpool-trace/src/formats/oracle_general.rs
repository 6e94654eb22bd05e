//! *oracleGeneral*: libCacheSim's records of 24 bytes, little-endian: time u32,
//! object u64, size u32, next access i64.
//!
//! The last one is the number of the request that asks for the object next, or a
//! mark that none does. Objects are pages, whatever their size: their numbers are
//! often hashes, so that there are no pages between them. An object of no bytes
//! is not referenced.

use super::records::{self, ParseRecord, bytes};
use super::requests::Request;
use super::{Decoding, Entry, Opened, objects_are_pages, only_reads};
use crate::error::TraceError;
use crate::stream::Stream;

pub(super) static ENTRY: Entry = Entry {
    name: "oracleGeneral",
    description: "records of objects, all read (libCacheSim); read only",
    extensions: &["oraclegeneral"],
    magic: |_| false,
    resembles,
    keeps_metadata: false,
    open,
    create: None,
};

const SIZE: usize = 24;

struct Record;

fn open(stream: Stream, _decoding: &Decoding) -> Result<Opened, TraceError> {
    let notes = vec![
        only_reads(stream.label(), &ENTRY),
        objects_are_pages(stream.label()),
    ];
    records::opened(stream, Record, (0, 0), None, notes)
}

/// Time goes on, and each next access lies ahead.
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

impl ParseRecord for Record {
    fn size(&self) -> usize {
        SIZE
    }

    fn request(&mut self, record: &[u8]) -> Result<Option<Request>, String> {
        let object = u64::from_le_bytes(bytes(record, 4));
        let size = u32::from_le_bytes(bytes(record, 12));
        Ok((size > 0).then(|| Request::of_page(object, false)))
    }
}
