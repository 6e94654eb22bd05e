//! The first bytes of a log's file: whose it is, and which part of the log it has.
//!
//! There are two places for it, each in a block of its own, and turns write them in turn: if the power
//! fails meanwhile, the header before is still there. Of the rest of each block one sector is the
//! [witness](super::witness)'s.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::file::LogFile;
use super::record::Position;
use super::{Identity, unreadable};
use crate::error::Error;

/// Records begin here, so that writing them never touches a header's block.
pub(super) const LENGTH: u64 = 2 * PLACE;

/// What devices write at once, or a multiple of it.
pub(super) const PLACE: u64 = 4096;

const MAGIC: [u8; 8] = *b"EBBPLOG\n";

/// The format that is written here. Magic, format and checksum stay where they are in all formats.
const FORMAT: u32 = 1;

pub(super) const BYTES: usize = 48;
pub(super) const SUMMED: usize = BYTES - 8;

/// What crashes leave together: a header that was never written whole is a multiple of it long.
pub(super) const SECTOR: u64 = 512;

/// No log comes so far. Below it no position overflows.
pub(super) const FAR: u64 = 1 << 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) identity: Identity,
    /// How many turns there were before this one, in both files together.
    pub(super) turn: u64,
    /// What the file's first record begins at.
    pub(super) start: Position,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[12..16].copy_from_slice(&self.identity.page_size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.turn.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.start.to_le_bytes());
        make_right(&mut bytes);
        bytes
    }

    /// Nothing if these bytes are no header.
    pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<Option<Self>, Error> {
        let (summed, sum) = bytes.split_at(SUMMED);
        if summed[..8] != MAGIC || xxh3_64(summed).to_le_bytes() != *sum {
            return Ok(None);
        }
        let found = u32_at(summed, 8);
        if found != FORMAT {
            return Err(Error::Newer {
                path: "the log".into(),
                found,
                known: FORMAT,
            });
        }
        let header = Header {
            identity: Identity {
                page_size: u32_at(summed, 12),
                number: u64_at(summed, 16),
            },
            turn: u64_at(summed, 24),
            start: u64_at(summed, 32),
        };
        Ok(Some(header).filter(|header| header.turn < FAR && header.start < FAR))
    }

    /// Where in its file it stands.
    pub(super) fn place(&self) -> u64 {
        (self.turn / 2 % 2) * PLACE
    }

    /// All that comes before the records, for a file that is new.
    pub(super) fn block(&self) -> Vec<u8> {
        let mut block = vec![0; LENGTH as usize];
        for place in [0, PLACE as usize] {
            block[place..place + BYTES].copy_from_slice(&self.encode());
        }
        block
    }

    /// The latest header of a file that can be read; nothing if there is none.
    pub(super) fn find(file: &dyn LogFile) -> Result<Option<Self>, Error> {
        let mut latest: Option<Header> = None;
        for place in [0, PLACE] {
            let mut bytes = [0; BYTES];
            let length = file.read_at(place, &mut bytes).map_err(unreadable)?;
            let header = match length == BYTES {
                true => Header::decode(&bytes)?,
                false => None,
            };
            if header.is_some_and(|header| latest.is_none_or(|latest| latest.turn < header.turn)) {
                latest = header;
            }
        }
        Ok(latest)
    }
}

/// Makes a header of bytes that say whose it is.
pub(super) fn make_right(bytes: &mut [u8; BYTES]) {
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    seal(bytes);
}

pub(super) fn seal(bytes: &mut [u8; BYTES]) {
    let sum = xxh3_64(&bytes[..SUMMED]);
    bytes[SUMMED..].copy_from_slice(&sum.to_le_bytes());
}

/// True if a file without a header may be what a crash left of one that was being made.
pub(super) fn may_be_unfinished(file: &dyn LogFile) -> io::Result<bool> {
    let length = file.len()?;
    Ok(length <= LENGTH && length.is_multiple_of(SECTOR))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b))
}
