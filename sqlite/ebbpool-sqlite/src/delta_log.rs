//! `-ebb`, the log of deltas: what each epoch changed, since the database was last brought up to date.
//!
//! All numbers are little-endian. The file begins with two slots, at the offsets 0 and 512, for a header of 64 bytes:
//!
//! | offset | bytes | |
//! | ---: | ---: | --- |
//! | 0 | 7 | `ebbpool` |
//! | 7 | 1 | version, 3 |
//! | 8 | 4 | page size |
//! | 16 | 8 | number of the generation, which the mark in the database repeats |
//! | 24 | 8 | fingerprint of the database in place when the generation began |
//! | 32 | 8 | when that was, in milliseconds since 1970 |
//! | 40 | 8 | a random number, since a generation without records may begin twice |
//! | 48 | 8 | turn, higher than that of each header before |
//! | 56 | 8 | checksum of the bytes before |
//!
//! A generation begins with its header in one slot: the first one if the turn is odd. The other slot has an earlier header until
//! the first record comes, and gets the same one with it: so a power cut damages one slot at most. Records begin at the
//! offset 1024, and the file is never shorter.
//!
//! A checkpoint gives the database a mark with another number, which the last record that is in place then makes. The next generation
//! has that number.
//!
//! In version 2 that number is made of the number of the generation alone. In version 1 the header is in the first slot alone, the
//! records begin at the offset 64, the mark has no number, and the random number and the turn are 0.
//!
//! Records follow, one for each epoch. A record is a header of 32 bytes, a section for each changed page, and zeros up to
//! a multiple of 8 bytes:
//!
//! | offset | bytes | |
//! | ---: | ---: | --- |
//! | 0 | 4 | length of the record |
//! | 4 | 4 | number of sections; bit 31: a checkpoint before it has failed, and the state before it may be in place |
//! | 8 | 4 | size of the database in pages after it |
//! | 12 | 4 | number of the epoch in its generation, from 1 on, plus the low half of the header's checksum of 64 bytes (version 1: plus 0) |
//! | 16 | 8 | checksum of the record without this field, seeded with that of the record before |
//! | 24 | 8 | when it was written, in milliseconds since 1970 |
//!
//! A section is the page's number (4 bytes), the number of runs (4 bytes; bit 31: the page was all zeros before), and
//! the runs: offset and length in words of 8 bytes (2 bytes each), and the new content. A page beyond the size of a
//! record is all zeros from then on. As runs hold new content, applying them twice does no harm.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::code::SqliteResult;

/// Bytes of the file's header, of a record's header, and of a section's.
pub(crate) const HEADER: usize = 64;
pub(crate) const RECORD: usize = 32;
const SECTION: usize = 8;
/// Where the header may be: in two sectors, of which a power cut damages the one that is being written.
pub(crate) const SLOTS: [u64; 2] = [0, 512];
/// Where the records begin.
pub(crate) const RECORDS: u64 = 1024;
/// A record is verified in pieces of this many bytes before memory is taken for all of it.
const PIECE: usize = 1 << 16;

const MAGIC: &[u8; 7] = b"ebbpool";
const VERSION: u8 = 3;
/// The version whose marks say the generation that a checkpoint has ended, and not at which record.
const WITHOUT_RECORD: u8 = 2;
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
    /// Higher than that of each header before.
    pub(crate) turn: u64,
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
pub(crate) struct PageDelta {
    pub(crate) page: u32,
    /// True if the page was all zeros before.
    pub(crate) fresh: bool,
    /// Where the runs begin in the record, and their bytes.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
}

impl PageDelta {
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

/// True if bytes begin as a header does.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The version of a log's format, if the bytes are its header. A later version may have other fields, but has magic number,
/// version and checksum in the same places.
fn version_of(bytes: &[u8]) -> Option<u8> {
    let is_header = has_magic(bytes) && u64_at(bytes, 56)? == xxh3_64(bytes.get(..56)?);
    is_header.then(|| bytes[7])
}

impl Header {
    /// The header of a generation that begins now, in the latest version.
    pub(crate) fn new(page_size: u32, generation: u64, base: u64, began: u64, nonce: u64, turn: u64) -> Header {
        Header { version: VERSION, page_size, generation, base, began, nonce, turn }
    }

    /// The number of the next generation, if it begins on the state after the record with this checksum, or, with that of the
    /// header, on one that no record has made. A checkpoint gives the database the mark with this number.
    pub(crate) fn generation_after(&self, checksum: u64) -> u64 {
        let generation = self.generation.to_le_bytes();
        let number = match self.says_record() {
            true => xxh3_64_with_seed(&generation, checksum),
            false => xxh3_64(&generation),
        };
        number.max(1)
    }

    /// True if a log without records may be that of a database whose mark has this number: the number of the generation, or, where
    /// an epoch has gone to `-wal`, of the next one.
    pub(crate) fn may_begin(&self, generation: u64) -> bool {
        generation == self.generation || generation == self.generation_after(self.seed())
    }

    /// True if the mark in the database has the number of the generation.
    pub(crate) fn is_numbered(&self) -> bool {
        self.version > FIRST_VERSION
    }

    /// True if the number in the mark that a checkpoint leaves says which record is in place.
    pub(crate) fn says_record(&self) -> bool {
        self.version > WITHOUT_RECORD
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
        bytes[48..56].copy_from_slice(&self.turn.to_le_bytes());
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
            turn: u64_at(bytes, 48)?,
        };
        is_page_size(header.page_size as usize).then_some(header)
    }

    /// The seed of the first record's checksum.
    pub(crate) fn seed(&self) -> u64 {
        xxh3_64(&self.encode())
    }

    /// Where the first record begins.
    pub(crate) fn records(&self) -> u64 {
        match self.is_numbered() {
            true => RECORDS,
            false => HEADER as u64,
        }
    }

    /// What the records' numbers are counted from, so that those of other generations are none of this one's.
    pub(crate) fn zero(&self) -> u32 {
        match self.is_numbered() {
            true => self.seed() as u32,
            false => 0,
        }
    }
}

/// The slot that gets the header of a turn first.
pub(crate) fn slot_of(turn: u64) -> usize {
    usize::from(turn.is_multiple_of(2))
}

/// The headers that a file begins with.
pub(crate) struct Heads {
    /// The valid ones.
    pub(crate) slots: [Option<Header>; 2],
    /// The version of a later release, which has written the file, and which this one does not read.
    pub(crate) later: Option<u8>,
    /// True if the file may be a log: it begins with the magic number, or with as many zeros as a power cut leaves.
    pub(crate) is_log: bool,
}

impl Heads {
    /// Reads the headers of a file of `length` bytes.
    pub(crate) fn read(length: u64, mut read: impl FnMut(u64, &mut [u8]) -> SqliteResult<()>) -> SqliteResult<Heads> {
        let mut bytes = [0; RECORDS as usize];
        read(0, &mut bytes[..length.min(RECORDS) as usize])?;
        let at = |slot: usize| &bytes[SLOTS[slot] as usize..][..HEADER];
        let first = Header::decode(at(0));
        let has_second = first.is_none_or(|header| header.is_numbered());
        // A file that is shorter was cut off.
        let is_whole = |header: &Header| !header.is_numbered() || length >= RECORDS;
        let second = Header::decode(at(1)).filter(|header| has_second && header.is_numbered());
        let mut later = None;
        for slot in 0..=usize::from(has_second) {
            later = later.or(version_of(at(slot)).filter(|version| *version > VERSION));
        }
        Ok(Heads {
            slots: [first.filter(is_whole), second.filter(is_whole)],
            later,
            is_log: has_magic(&bytes) || bytes.iter().all(|byte| *byte == 0),
        })
    }

    /// The header whose generation a mark names, or else the latest one.
    pub(crate) fn of_mark(&self, generation: u64) -> Option<Header> {
        let headers = self.slots.iter().flatten();
        let latest = headers.max_by_key(|header| (header.generation == generation, header.turn));
        latest.copied()
    }

    /// The slot that does not have a header, or not for sure: the next one is written there first.
    pub(crate) fn slot_left(&self, header: &Header) -> usize {
        match self.slots.map(|slot| slot.as_ref() == Some(header)) {
            // The second one to get it may have it from a process that was killed before its sync.
            [true, true] => 1 - slot_of(header.turn),
            [false, true] => 0,
            _ => 1,
        }
    }
}

impl Record {
    /// The header of a record of a generation, if its fields are possible.
    pub(crate) fn decode(bytes: &[u8], header: &Header) -> Option<Record> {
        let sections = u32_at(bytes, 4)?;
        let record = Record {
            length: u32_at(bytes, 0)?,
            sections: sections & !FOLLOWS_CHECKPOINT,
            size: u32_at(bytes, 8)?,
            epoch: u32_at(bytes, 12)?.wrapping_sub(header.zero()),
            checksum: u64_at(bytes, 16)?,
            time: u64_at(bytes, 24)?,
            follows_checkpoint: sections & FOLLOWS_CHECKPOINT != 0,
        };
        let possible = record.length as usize >= RECORD && record.length.is_multiple_of(WORD as u32) && record.size > 0;
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
    pub(crate) fn sections(&self, bytes: &[u8], page_size: usize) -> Option<Vec<PageDelta>> {
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
            sections.push(PageDelta { page, fresh: runs & FRESH != 0, at: begin as u32, bytes: (at - begin) as u32 });
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
pub(crate) struct EpochDraft {
    bytes: Vec<u8>,
    sections: Vec<PageDelta>,
    /// True if the state before the record may be in place, because a checkpoint of it has failed.
    pub(crate) follows_checkpoint: bool,
}

impl EpochDraft {
    pub(crate) fn new() -> EpochDraft {
        EpochDraft { bytes: vec![0; RECORD], sections: Vec::new(), follows_checkpoint: false }
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
            self.bytes.extend_from_slice(&((end - from) as u16).to_le_bytes());
            self.bytes.extend_from_slice(&new[from * WORD..end * WORD]);
            runs += 1;
        }
        if runs == 0 && old.is_some() {
            self.bytes.truncate(begin);
            return;
        }
        let fresh = if old.is_none() { FRESH } else { 0 };
        self.bytes[begin + 4..begin + 8].copy_from_slice(&(runs | fresh).to_le_bytes());
        self.sections.push(PageDelta {
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

    /// The whole record, its sections, and its checksum; `number` is that of the epoch and what the header adds.
    pub(crate) fn finish(mut self, size: u32, number: u32, time: u64, before: u64) -> (Vec<u8>, Vec<PageDelta>, u64) {
        self.bytes.resize(self.bytes.len().next_multiple_of(WORD), 0);
        let length = self.bytes.len() as u32;
        let flag = if self.follows_checkpoint { FOLLOWS_CHECKPOINT } else { 0 };
        let fields = [length, self.sections.len() as u32 | flag, size, number];
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
pub(crate) struct ScannedLog {
    /// The end of the last whole record, and its checksum.
    pub(crate) end: u64,
    pub(crate) checksum: u64,
    pub(crate) epochs: u32,
    /// When the last record was written, in milliseconds since 1970.
    pub(crate) time: u64,
}

/// The checksum of a record in a file after another one.
fn sum_at(
    at: u64,
    record: &Record,
    before: u64,
    read: &mut impl FnMut(u64, &mut [u8]) -> SqliteResult<()>,
) -> SqliteResult<u64> {
    let mut hash = Xxh3::with_seed(before);
    let length = record.length as usize;
    let mut piece = vec![0; length.min(PIECE)];
    for from in (0..length).step_by(PIECE) {
        let part = &mut piece[..PIECE.min(length - from)];
        read(at + from as u64, part)?;
        match from {
            0 => {
                hash.update(&part[..16]);
                hash.update(&part[24..]);
            }
            _ => hash.update(part),
        }
    }
    Ok(hash.digest())
}

/// The header of the record at an offset, if it is possible, and the record no longer than the rest of the file.
fn record_at(
    at: u64,
    length: u64,
    header: &Header,
    read: &mut impl FnMut(u64, &mut [u8]) -> SqliteResult<()>,
) -> SqliteResult<Option<Record>> {
    let mut bytes = [0; RECORD];
    if at + RECORD as u64 > length {
        return Ok(None);
    }
    read(at, &mut bytes)?;
    let record = Record::decode(&bytes, header);
    Ok(record.filter(|record| at + u64::from(record.length) <= length))
}

/// Reads the records of a file of `length` bytes up to the last whole one, and calls `each` with every record, where it begins,
/// and its sections.
pub(crate) fn scan(
    length: u64,
    header: &Header,
    mut read: impl FnMut(u64, &mut [u8]) -> SqliteResult<()>,
    mut each: impl FnMut(&Record, u64, &[PageDelta], &[u8]),
) -> SqliteResult<ScannedLog> {
    let mut scanned = ScannedLog { end: header.records(), checksum: header.seed(), epochs: 0, time: header.began };
    loop {
        let at = scanned.end;
        let next = record_at(at, length, header, &mut read)?;
        let Some(record) = next.filter(|record| record.epoch == scanned.epochs + 1) else {
            return Ok(scanned);
        };
        // Before memory is taken: any bytes may say that they are a record of 4 GiB.
        if sum_at(at, &record, scanned.checksum, &mut read)? != record.checksum {
            return Ok(scanned);
        }
        let mut bytes = vec![0; record.length as usize];
        read(at, &mut bytes)?;
        let Some(sections) = record.sections(&bytes, header.page_size as usize) else {
            return Ok(scanned);
        };
        each(&record, at, &sections, &bytes);
        scanned.end += u64::from(record.length);
        scanned.checksum = record.checksum;
        scanned.epochs = record.epoch;
        scanned.time = record.time;
    }
}

/// The number of an epoch that is behind the end of a log, which damage has ended then. A power cut leaves none, because a record is
/// durable before the next one is written.
pub(crate) fn epoch_behind(
    length: u64,
    header: &Header,
    scanned: &ScannedLog,
    mut read: impl FnMut(u64, &mut [u8]) -> SqliteResult<()>,
) -> SqliteResult<Option<u32>> {
    /// Bytes of which checksums are computed, as a multiple of the file: what looks like more records is an attack.
    const MOST: u64 = 4;
    if !header.is_numbered() {
        // Those of older generations look the same.
        return Ok(None);
    }
    let end = scanned.end;
    // The checksum of the record that is damaged: what it says, and what its bytes give.
    let mut seeds = Vec::new();
    if end + RECORD as u64 <= length {
        let mut said = [0; 8];
        read(end + 16, &mut said)?;
        seeds.push(u64::from_le_bytes(said));
    }
    if let Some(damaged) = record_at(end, length, header, &mut read)? {
        seeds.push(sum_at(end, &damaged, scanned.checksum, &mut read)?);
    }
    let first = u64::from(scanned.epochs) + 2;
    let most = first + length.saturating_sub(end) / RECORD as u64;
    let zero = header.zero();
    let mut left = MOST * length;
    let mut block = vec![0; PIECE];
    for begin in (end..length).step_by(PIECE) {
        let part = &mut block[..(length - begin).min(PIECE as u64) as usize];
        read(begin, part)?;
        for (index, word) in part.chunks_exact(WORD).enumerate() {
            // The word with a record's size and number is its second one.
            let number = u32_at(word, 4).unwrap_or(0).wrapping_sub(zero);
            let at = (begin + (index * WORD) as u64).saturating_sub(WORD as u64);
            if !(first..most).contains(&u64::from(number)) || at <= end {
                continue;
            }
            let Some(record) = record_at(at, length, header, &mut read)? else {
                continue;
            };
            left = left.saturating_sub(u64::from(record.length));
            if left == 0 {
                return Ok(None);
            }
            if u64::from(number) == first {
                for seed in &seeds {
                    if sum_at(at, &record, *seed, &mut read)? == record.checksum {
                        return Ok(Some(number));
                    }
                }
            }
            let behind = at + u64::from(record.length);
            let next = record_at(behind, length, header, &mut read)?;
            if let Some(next) = next.filter(|next| next.epoch == number.wrapping_add(1))
                && sum_at(behind, &next, record.checksum, &mut read)? == next.checksum
            {
                return Ok(Some(number));
            }
        }
    }
    Ok(None)
}
