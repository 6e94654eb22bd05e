//! `-ebb`, the log of deltas: what each epoch changed, since the database was last brought up to date.
//!
//! All numbers are little-endian. The file begins with a header of 64 bytes:
//!
//! | offset | bytes | |
//! | ---: | ---: | --- |
//! | 0 | 7 | `ebbpool` |
//! | 7 | 1 | version, 2 |
//! | 8 | 4 | page size |
//! | 16 | 8 | number of the generation, which the mark in the database repeats |
//! | 24 | 8 | fingerprint of the database in place when the generation began |
//! | 32 | 8 | when that was, in milliseconds since 1970 |
//! | 40 | 8 | a random number, since a generation without records may begin twice |
//! | 56 | 8 | checksum of the bytes before |
//!
//! In version 1 the mark has no number, and the random number is 0.
//!
//! Records follow, one for each epoch. A record is a header of 32 bytes, a section for each changed page, and zeros up to
//! a multiple of 8 bytes:
//!
//! | offset | bytes | |
//! | ---: | ---: | --- |
//! | 0 | 4 | length of the record |
//! | 4 | 4 | number of sections; bit 31: a checkpoint before it has failed, and the state before it may be in place |
//! | 8 | 4 | size of the database in pages after it |
//! | 12 | 4 | number of the epoch in its generation, from 1 on |
//! | 16 | 8 | checksum of the record without this field, seeded with that of the record before |
//! | 24 | 8 | when it was written, in milliseconds since 1970 |
//!
//! A section is the page's number (4 bytes), the number of runs (4 bytes; bit 31: the page was all zeros before), and
//! the runs: offset and length in words of 8 bytes (2 bytes each), and the new content. A page beyond the size of a
//! record is all zeros from then on. As runs hold new content, applying them twice does no harm.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::code::Answer;

/// Bytes of the file's header, of a record's header, and of a section's.
pub(crate) const HEADER: usize = 64;
pub(crate) const RECORD: usize = 32;
const SECTION: usize = 8;

const MAGIC: &[u8; 7] = b"ebbpool";
const VERSION: u8 = 2;
/// The version of the first release, whose marks have no number.
const FIRST_VERSION: u8 = 1;
const FRESH: u32 = 1 << 31;
const FOLLOWS_CHECKPOINT: u32 = 1 << 31;
/// Bytes of a word; what changed is found in words.
const WORD: usize = 8;
/// A run goes on over this many unchanged words, because a new one costs half a word and a look at the words.
const JOINED: usize = 1;

/// The header of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) page_size: u32,
    /// The number of the generation.
    pub(crate) generation: u64,
    pub(crate) base: u64,
    pub(crate) began: u64,
    pub(crate) nonce: u64,
}

/// The number of the generation after another one.
pub(crate) fn next_generation(generation: u64) -> u64 {
    xxh3_64(&generation.to_le_bytes()).max(1)
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) length: u32,
    pub(crate) sections: u32,
    pub(crate) size: u32,
    pub(crate) epoch: u32,
    pub(crate) checksum: u64,
    pub(crate) time: u64,
    /// True if the state before the record may be in place, because a checkpoint of it has failed.
    pub(crate) follows_checkpoint: bool,
}

/// What a record says about one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) page: u32,
    /// True if the page was all zeros before.
    pub(crate) fresh: bool,
    /// Where the runs begin in the record, and their bytes.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
}

impl Section {
    /// The runs in the bytes of the section's record.
    pub(crate) fn runs<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        let at = self.at as usize;
        record.get(at..at + self.bytes as usize).unwrap_or(&[])
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 2)?;
    Some(usize::from(u16::from_le_bytes(bytes.try_into().ok()?)))
}

/// True for the sizes that SQLite's pages may have.
pub(crate) fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (512..=65536).contains(&bytes)
}

/// The version of a log's format, if the bytes are its header. A later version may have other fields, but has magic number,
/// version and checksum in the same places.
fn version_of(bytes: &[u8]) -> Option<u8> {
    let is_header = bytes.starts_with(MAGIC) && u64_at(bytes, 56)? == xxh3_64(bytes.get(..56)?);
    is_header.then(|| bytes[7])
}

/// The version of a log that a later release has written, and that this one does not read.
pub(crate) fn later_version(head: &[u8]) -> Option<u8> {
    version_of(head).filter(|version| *version > VERSION)
}

impl Header {
    /// The header of a generation that begins now, in the latest version.
    pub(crate) fn new(
        page_size: u32,
        generation: u64,
        base: u64,
        began: u64,
        nonce: u64,
    ) -> Header {
        Header {
            version: VERSION,
            page_size,
            generation,
            base,
            began,
            nonce,
        }
    }

    /// True if the mark in the database has the number of the generation.
    pub(crate) fn is_numbered(&self) -> bool {
        self.version > FIRST_VERSION
    }

    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..7].copy_from_slice(MAGIC);
        bytes[7] = self.version;
        bytes[8..12].copy_from_slice(&self.page_size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.began.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.nonce.to_le_bytes());
        let sum = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header, if the bytes are one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Header> {
        let version = version_of(bytes)?;
        if !(FIRST_VERSION..=VERSION).contains(&version) {
            return None;
        }
        let header = Header {
            version,
            page_size: u32_at(bytes, 8)?,
            generation: u64_at(bytes, 16)?,
            base: u64_at(bytes, 24)?,
            began: u64_at(bytes, 32)?,
            nonce: u64_at(bytes, 40)?,
        };
        is_page_size(header.page_size as usize).then_some(header)
    }

    /// The seed of the first record's checksum.
    pub(crate) fn seed(&self) -> u64 {
        xxh3_64(&self.encode())
    }
}

impl Record {
    /// The header of a record, if its fields are possible for the next one.
    pub(crate) fn decode(bytes: &[u8], epoch: u32) -> Option<Record> {
        let sections = u32_at(bytes, 4)?;
        let record = Record {
            length: u32_at(bytes, 0)?,
            sections: sections & !FOLLOWS_CHECKPOINT,
            size: u32_at(bytes, 8)?,
            epoch: u32_at(bytes, 12)?,
            checksum: u64_at(bytes, 16)?,
            time: u64_at(bytes, 24)?,
            follows_checkpoint: sections & FOLLOWS_CHECKPOINT != 0,
        };
        let possible = record.length as usize >= RECORD
            && record.length.is_multiple_of(WORD as u32)
            && record.epoch == epoch
            && record.size > 0;
        possible.then_some(record)
    }

    /// The checksum of a whole record after another.
    pub(crate) fn sum(bytes: &[u8], before: u64) -> u64 {
        let mut hash = Xxh3::with_seed(before);
        hash.update(&bytes[..16]);
        hash.update(&bytes[24..]);
        hash.digest()
    }

    /// The sections of a whole record; `None` if they make no sense.
    pub(crate) fn sections(&self, bytes: &[u8], page_size: usize) -> Option<Vec<Section>> {
        let words = page_size / WORD;
        let mut sections = Vec::new();
        let mut at = RECORD;
        for _ in 0..self.sections {
            let (page, runs) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)?);
            at += SECTION;
            let begin = at;
            for _ in 0..runs & !FRESH {
                let (from, length) = (u16_at(bytes, at)?, u16_at(bytes, at + 2)?);
                at += 4 + length * WORD;
                if from + length > words || at > bytes.len() {
                    return None;
                }
            }
            if page == 0 || page > self.size {
                return None;
            }
            sections.push(Section {
                page,
                fresh: runs & FRESH != 0,
                at: begin as u32,
                bytes: (at - begin) as u32,
            });
        }
        Some(sections)
    }
}

/// Applies the runs of a section to a page.
pub(crate) fn apply(runs: &[u8], page: &mut [u8]) {
    let mut at = 0;
    while let (Some(from), Some(length)) = (u16_at(runs, at), u16_at(runs, at + 2)) {
        let (from, bytes) = (from * WORD, length * WORD);
        let source = runs.get(at + 4..at + 4 + bytes);
        if let (Some(source), Some(target)) = (source, page.get_mut(from..from + bytes)) {
            target.copy_from_slice(source);
        }
        at += 4 + bytes;
    }
}

/// A record that is being made.
pub(crate) struct Draft {
    bytes: Vec<u8>,
    sections: Vec<Section>,
    /// See [`Record::follows_checkpoint`].
    pub(crate) follows_checkpoint: bool,
}

impl Draft {
    pub(crate) fn new() -> Draft {
        Draft {
            bytes: vec![0; RECORD],
            sections: Vec::new(),
            follows_checkpoint: false,
        }
    }

    /// Adds what changed in a page; `None` for `old` stands for zeros, of which the page then is made anew. Does nothing
    /// if nothing changed.
    pub(crate) fn add(&mut self, page: u32, old: Option<&[u8]>, new: &[u8]) {
        let zeros = [0u8; WORD];
        let word = |index: usize| match old {
            Some(old) => &old[index * WORD..(index + 1) * WORD],
            None => &zeros[..],
        };
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&page.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        let mut runs = 0u32;
        let words = new.len() / WORD;
        let mut index = 0;
        while index < words {
            if word(index) == &new[index * WORD..(index + 1) * WORD] {
                index += 1;
                continue;
            }
            let from = index;
            let mut end = index + 1;
            while index < words && index <= end + JOINED {
                if word(index) != &new[index * WORD..(index + 1) * WORD] {
                    end = index + 1;
                }
                index += 1;
            }
            self.bytes.extend_from_slice(&(from as u16).to_le_bytes());
            self.bytes
                .extend_from_slice(&((end - from) as u16).to_le_bytes());
            self.bytes.extend_from_slice(&new[from * WORD..end * WORD]);
            runs += 1;
        }
        if runs == 0 && old.is_some() {
            self.bytes.truncate(begin);
            return;
        }
        let fresh = if old.is_none() { FRESH } else { 0 };
        self.bytes[begin + 4..begin + 8].copy_from_slice(&(runs | fresh).to_le_bytes());
        self.sections.push(Section {
            page,
            fresh: old.is_none(),
            at: (begin + SECTION) as u32,
            bytes: (self.bytes.len() - begin - SECTION) as u32,
        });
    }

    /// True if no page changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// The whole record, its sections, and its checksum.
    pub(crate) fn finish(
        mut self,
        size: u32,
        epoch: u32,
        time: u64,
        before: u64,
    ) -> (Vec<u8>, Vec<Section>, u64) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(WORD), 0);
        let length = self.bytes.len() as u32;
        let flag = if self.follows_checkpoint {
            FOLLOWS_CHECKPOINT
        } else {
            0
        };
        let fields = [length, self.sections.len() as u32 | flag, size, epoch];
        for (slot, field) in self.bytes.chunks_exact_mut(4).zip(fields) {
            slot.copy_from_slice(&field.to_le_bytes());
        }
        self.bytes[24..32].copy_from_slice(&time.to_le_bytes());
        let sum = Record::sum(&self.bytes, before);
        self.bytes[16..24].copy_from_slice(&sum.to_le_bytes());
        (self.bytes, self.sections, sum)
    }
}

/// What a file of deltas holds.
pub(crate) struct Scanned {
    pub(crate) header: Header,
    /// The end of the last whole record, and its checksum.
    pub(crate) end: u64,
    pub(crate) checksum: u64,
    pub(crate) epochs: u32,
    /// When the last record was written, in milliseconds since 1970.
    pub(crate) time: u64,
}

/// Reads a file of `length` bytes up to the last whole record, and calls `each` with every record, where it begins, and
/// its sections. `None` if the file does not begin with a header.
pub(crate) fn scan(
    length: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Answer<()>,
    mut each: impl FnMut(&Record, u64, &[Section], &[u8]),
) -> Answer<Option<Scanned>> {
    let mut head = [0; HEADER];
    if length < HEADER as u64 {
        return Ok(None);
    }
    read(0, &mut head)?;
    let Some(header) = Header::decode(&head) else {
        return Ok(None);
    };
    let mut scanned = Scanned {
        header,
        end: HEADER as u64,
        checksum: header.seed(),
        epochs: 0,
        time: header.began,
    };
    loop {
        let mut bytes = vec![0; RECORD];
        if scanned.end + RECORD as u64 > length {
            return Ok(Some(scanned));
        }
        read(scanned.end, &mut bytes)?;
        let Some(record) = Record::decode(&bytes, scanned.epochs + 1) else {
            return Ok(Some(scanned));
        };
        if scanned.end + u64::from(record.length) > length {
            return Ok(Some(scanned));
        }
        bytes.resize(record.length as usize, 0);
        read(scanned.end, &mut bytes)?;
        let sections = record.sections(&bytes, header.page_size as usize);
        let (Some(sections), true) = (
            sections,
            Record::sum(&bytes, scanned.checksum) == record.checksum,
        ) else {
            return Ok(Some(scanned));
        };
        each(&record, scanned.end, &sections, &bytes);
        scanned.end += u64::from(record.length);
        scanned.checksum = record.checksum;
        scanned.epochs = record.epoch;
        scanned.time = record.time;
    }
}
