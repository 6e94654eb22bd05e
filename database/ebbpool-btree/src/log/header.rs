//! The header of a log's file: the identity of the database, and which part of the log the file has.
//!
//! A file has two places for its header, each in a block of its own. The file writes them alternately, so
//! that the previous header survives a power failure during the write. In each block one further sector
//! belongs to the [witness](super::witness).

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::file::LogFile;
use super::record::Position;
use super::{LogIdentity, unreadable};
use crate::error::DatabaseError;

/// Records begin here, so that writing them never touches a header's block.
pub(super) const LENGTH: u64 = 2 * BLOCK;

/// The size of the block of a header: the unit in which devices write, or a multiple of it.
pub(super) const BLOCK: u64 = 4096;

const MAGIC: [u8; 8] = *b"EBBPLOG\n";

/// The format of the logs that this program writes. Magic, format and checksum have the same position in
/// all formats.
const FORMAT: u32 = 1;

pub(super) const BYTES: usize = 48;
pub(super) const SUMMED: usize = BYTES - 8;

/// The unit that a crash leaves old or new as a whole: a header that was only partly written has a multiple
/// of it as its length.
pub(super) const SECTOR: u64 = 512;

/// A bound that no position or turn of a log reaches. Below it no position overflows.
pub(super) const LIMIT: u64 = 1 << 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) identity: LogIdentity,
    /// The number of turns before this one, counted over both files.
    pub(super) turn: u64,
    /// The position of the file's first record.
    pub(super) start: Position,
}

impl LogHeader {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[12..16].copy_from_slice(&self.identity.page_size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.turn.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.start.to_le_bytes());
        complete(&mut bytes);
        bytes
    }

    /// Returns nothing if these bytes are not a header.
    pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<Option<Self>, DatabaseError> {
        let (summed, sum) = bytes.split_at(SUMMED);
        if summed[..8] != MAGIC || xxh3_64(summed).to_le_bytes() != *sum {
            return Ok(None);
        }
        let found = u32_at(summed, 8);
        if found != FORMAT {
            return Err(DatabaseError::Newer { path: "the log".into(), found, supported: FORMAT });
        }
        let header = LogHeader {
            identity: LogIdentity { page_size: u32_at(summed, 12), number: u64_at(summed, 16) },
            turn: u64_at(summed, 24),
            start: u64_at(summed, 32),
        };
        Ok(Some(header).filter(|header| header.turn < LIMIT && header.start < LIMIT))
    }

    /// The offset of this header in its file.
    pub(super) fn offset(&self) -> u64 {
        (self.turn / 2 % 2) * BLOCK
    }

    /// All bytes before the records, for a new file.
    pub(super) fn block(&self) -> Vec<u8> {
        let mut block = vec![0; LENGTH as usize];
        for offset in [0, BLOCK as usize] {
            block[offset..offset + BYTES].copy_from_slice(&self.encode());
        }
        block
    }

    /// The latest readable header of a file; nothing if there is none.
    pub(super) fn find(file: &dyn LogFile) -> Result<Option<Self>, DatabaseError> {
        let mut latest: Option<LogHeader> = None;
        for offset in [0, BLOCK] {
            let mut bytes = [0; BYTES];
            let length = file.read_at(offset, &mut bytes).map_err(unreadable)?;
            let header = match length == BYTES {
                true => LogHeader::decode(&bytes)?,
                false => None,
            };
            if header.is_some_and(|header| latest.is_none_or(|latest| latest.turn < header.turn)) {
                latest = header;
            }
        }
        Ok(latest)
    }
}

/// Adds magic, format and checksum to the bytes of a header.
pub(super) fn complete(bytes: &mut [u8; BYTES]) {
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    seal(bytes);
}

pub(super) fn seal(bytes: &mut [u8; BYTES]) {
    let sum = xxh3_64(&bytes[..SUMMED]);
    bytes[SUMMED..].copy_from_slice(&sum.to_le_bytes());
}

/// True if a file without a header may be the result of a crash during the file's creation.
pub(super) fn may_be_unfinished(file: &dyn LogFile) -> io::Result<bool> {
    let length = file.len()?;
    Ok(length <= LENGTH && length.is_multiple_of(SECTOR))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}
