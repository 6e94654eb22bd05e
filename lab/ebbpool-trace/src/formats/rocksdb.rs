//! *rocksdb*: the block cache trace of RocksDB 6.3 and later (`DB::StartBlockCacheTrace`), little-endian.
//!
//! A record is: time u64 in µs, type u8, length of the payload u32, payload. The first record is of type 1, and its
//! payload is a magic text and the version of RocksDB, major and minor u32. Accesses to blocks have types 7 to 11, and
//! their payload begins with the block's key, its size u64, the column family's number u64 and name, the level u32, the
//! number of the table file u64, and three bytes (caller, hit, not inserted). A text is its length as a varint, and its
//! bytes. Source: `trace_replay/trace_replay.h` and `trace_replay/block_cache_tracer.cc` of RocksDB 10.
//!
//! Blocks are pages whatever their size, numbered as they appear, in all parts of a trace. Lookups that hit and lookups that miss
//! are references.

use super::records::bytes;
use super::requests::Names;
use super::{Decode, Decoding, FormatEntry, OpenedTrace, StoredClasses, only_reads};
use crate::classes::ClassNumbers;
use crate::error::TraceError;
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses, RequestDetail};
use crate::stream::Stream;

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "rocksdb",
    description: "the block cache trace of RocksDB, all read; read only",
    extensions: &["rocksdb"],
    magic: |head| has_magic(head, &BLOCK_CACHE),
    resembles: |_| false,
    keeps_metadata: false,
    stored_classes: StoredClasses::None,
    open,
    create: None,
};

/// Bytes of a record before its payload.
const HEAD: usize = 13;
/// The payload of the first record, as far as it is the same in all traces.
const BLOCK_CACHE: [u8; 17] = *b"\x10feedcafedeadbeef";
/// The payload of the first record of the trace of queries (`DB::StartTrace`), as far as it is the same in all traces.
const QUERIES: [u8; 16] = *b"feedcafedeadbeef";
/// Types of the first and the last record.
const BEGIN: u8 = 1;
const END: u8 = 2;
/// The fields that are read are within this many bytes of a payload; a long key of a user may follow them.
const MOST_PAYLOAD: usize = 1 << 16;
/// Bytes of a column family's name in a class's name.
const LONGEST_NAME: usize = 200;

fn has_magic(head: &[u8], magic: &[u8]) -> bool {
    head.get(8) == Some(&BEGIN) && head.get(HEAD..).is_some_and(|payload| payload.starts_with(magic))
}

/// What a block of this type holds.
fn content_of(record_type: u8) -> Option<&'static str> {
    match record_type {
        7 => Some("index"),
        8 => Some("filter"),
        9 => Some("data"),
        10 => Some("compression dictionary"),
        11 => Some("range deletions"),
        _ => None,
    }
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let label = stream.label().to_owned();
    Ok(OpenedTrace {
        decoder: Box::new(BlockDecoder::new(stream, decoding)?),
        metadata: Metadata::default(),
        references: None,
        notes: vec![only_reads(&label, &ENTRY), format!("{label}: every block is one page, whatever its size")],
    })
}

/// A key of a block, behind its length: short ones as they are, longer ones as 16 bytes of their hash, so that the memory for a
/// block is bounded.
type BlockKey = [u8; 17];

fn block_key(key: &[u8]) -> BlockKey {
    let mut stored = [0; 17];
    let (length, bytes) = (key.len(), &mut stored[1..]);
    match bytes.get_mut(..length) {
        Some(whole) => {
            whole.copy_from_slice(key);
            stored[0] = length as u8;
        }
        None => {
            bytes.copy_from_slice(&blake3::hash(key).as_bytes()[..16]);
            stored[0] = u8::MAX;
        }
    }
    stored
}

struct BlockDecoder {
    stream: Stream,
    columns: OptionalColumns,
    /// Records decoded so far.
    decoded: u64,
    /// Bytes left in the payload of the last record.
    to_skip: usize,
    pages: Names,
    /// Classes by column family and record type.
    classes: ClassNumbers<(u64, u8)>,
    /// The time of the last reference, in µs.
    now: u64,
}

impl BlockDecoder {
    fn new(mut stream: Stream, decoding: &Decoding) -> Result<BlockDecoder, TraceError> {
        let head = stream.head(HEAD + BLOCK_CACHE.len())?;
        if !has_magic(head, &BLOCK_CACHE) {
            let detail = match has_magic(head, &QUERIES) {
                true => "it is a trace of queries (StartTrace); StartBlockCacheTrace makes a trace of blocks",
                false => "it does not begin with the header of a block cache trace",
            };
            return Err(TraceError::Damaged { file: stream.label().to_owned(), format: ENTRY.name, detail: detail.to_owned() });
        }
        Ok(BlockDecoder {
            stream,
            columns: decoding.columns,
            decoded: 0,
            to_skip: 0,
            pages: Names::of_reading(&decoding.keys),
            classes: ClassNumbers::default(),
            now: 0,
        })
    }

    fn wrong(&self, problem: impl Into<String>) -> TraceError {
        TraceError::Record { file: self.stream.label().to_owned(), record: self.decoded, problem: problem.into() }
    }

    /// Buffers `count` bytes, at most a buffer. False if there are none.
    fn buffer(&mut self, count: usize) -> Result<bool, TraceError> {
        let found = self.stream.head(count)?.len();
        if (1..count).contains(&found) {
            return Err(self.wrong(format!("cut off after {found} of {count} bytes; the file is truncated")));
        }
        Ok(found > 0)
    }

    /// Skips what is left of the last record.
    fn finish_record(&mut self) -> Result<(), TraceError> {
        while self.to_skip > 0 {
            let found = self.stream.bytes().len().min(self.to_skip);
            if found == 0 && !self.stream.fill()? {
                let left = self.to_skip;
                return Err(self.wrong(format!("cut off before its last {left} bytes; the file is truncated")));
            }
            self.stream.consume(found);
            self.to_skip -= found;
        }
        Ok(())
    }

    /// Decodes the next record. False at the end of the trace.
    fn next(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        self.finish_record()?;
        if !self.buffer(HEAD)? {
            return Ok(false);
        }
        let head = self.stream.bytes();
        let time = u64::from_le_bytes(bytes(head, 0));
        let [record_type] = bytes(head, 8);
        let length = u32::from_le_bytes(bytes(head, 9)) as usize;
        let content = content_of(record_type);
        if content.is_none() && record_type != BEGIN && record_type != END {
            return Err(self.wrong(format!("its type is {record_type}, and blocks have types 7 to 11; the file is damaged")));
        }
        let used = HEAD + length.min(MOST_PAYLOAD);
        self.buffer(used)?;
        if let Some(content) = content {
            self.now = self.now.max(time);
            self.access(batch, record_type, content, used)?;
        }
        self.stream.consume(used);
        self.to_skip = HEAD + length - used;
        self.decoded += 1;
        Ok(true)
    }

    /// Appends the reference of the record in the first `used` bytes.
    fn access(&mut self, batch: &mut Batch, record_type: u8, content: &str, used: usize) -> Result<(), TraceError> {
        let payload = self.stream.bytes().get(HEAD..used).unwrap_or_default();
        let Some(access) = BlockAccess::from_payload(payload) else {
            return Err(self.wrong("its fields are longer than the record; the file is damaged"));
        };
        batch.push(self.pages.number(&block_key(access.key)), false);
        if self.columns.classes {
            let name = || {
                let name = access.family_name;
                let name = String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]);
                format!("{name}, {content}")
            };
            let class = self.classes.number(&(access.family, record_type), name);
            batch.classes.push(class.unwrap_or(0));
        }
        if self.columns.requests {
            batch.requests.push(RequestDetail { time_us: self.now, bypass: 0 });
        }
        Ok(())
    }
}

/// The fields of an access that are read.
struct BlockAccess<'a> {
    key: &'a [u8],
    family: u64,
    family_name: &'a [u8],
}

impl BlockAccess<'_> {
    /// `None` if the payload is too short.
    fn from_payload(payload: &[u8]) -> Option<BlockAccess<'_>> {
        let (key, rest) = text(payload)?;
        let (_size, rest) = rest.split_first_chunk::<8>()?;
        let (family, rest) = rest.split_first_chunk::<8>()?;
        let (family_name, rest) = text(rest)?;
        // Level, table file, caller, hit, not inserted.
        rest.get(..4 + 8 + 3)?;
        Some(BlockAccess { key, family: u64::from_le_bytes(*family), family_name })
    }
}

/// A text and what follows it.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0u32;
    for (at, &byte) in bytes.iter().enumerate().take(5) {
        let bits = u32::from(byte & 127);
        length |= bits.checked_shl(7 * at as u32)?;
        if byte < 128 {
            return bytes.get(at + 1..)?.split_at_checked(length as usize);
        }
    }
    None
}

impl Decode for BlockDecoder {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max && self.next(batch)? {}
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.stream.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        self.columns.classes.then(|| self.classes.classes())
    }

    fn columns(&self) -> OptionalColumns {
        OptionalColumns { operations: false, ..self.columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_only_where_blocks_are() {
        let keys: [&[u8]; 6] =
            [b"", b"\0", b"0123456789abcdef", b"0123456789abcde", b"0123456789abcdef0", b"0123456789abcdef1"];
        for (at, key) in keys.iter().enumerate() {
            for (other_at, other) in keys.iter().enumerate() {
                assert_eq!(block_key(key) == block_key(other), at == other_at);
            }
        }
    }

    #[test]
    fn texts_have_a_varint_before_them() {
        assert_eq!(text(b"\x02abc"), Some((&b"ab"[..], &b"c"[..])));
        assert_eq!(text(b"\0"), Some((&b""[..], &b""[..])));
        let long = [&[0x80, 0x01][..], &[7; 128]].concat();
        assert_eq!(text(&long), Some((&[7; 128][..], &b""[..])));
        let endless = [0xff; 9];
        for short in [&b""[..], b"\x02a", b"\x80", &endless] {
            assert_eq!(text(short), None);
        }
    }
}
