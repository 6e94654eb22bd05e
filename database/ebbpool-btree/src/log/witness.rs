//! Witnesses: they store, outside the records, how far the log was durable. The records of a log that lost
//! its end do not show that there were more.
//!
//! Each file has two places for a witness, in sectors of their own beside the headers. They are written
//! alternately, so that a write which a crash tears damages neither the previous witness nor a header. A
//! witness is in bytes that format 1 leaves free, which older programs ignore.
//!
//! A witness is written after a sync of the log and is not synced itself. It never names a position that
//! was not durable when it was written, so a crash cannot leave a witness against a log that is whole.
//! Witnesses guard against files that were cut or replaced, not against the crash itself.

use std::io;

use ebbpool::Lsn;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::file::LogFile;
use super::header::{BLOCK, LIMIT, SECTOR};

/// The offsets of the two places in a file.
pub(super) const OFFSETS: [u64; 2] = [SECTOR, BLOCK + SECTOR];

const MAGIC: [u8; 8] = *b"EBBPWIT\n";

/// Magic, how far the log was durable (u64), checksum of both seeded with the database's identity.
pub(super) const BYTES: usize = 24;
const SUMMED: usize = BYTES - 8;

/// The latest witness of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witness {
    durable: Lsn,
    /// The index of the place that the next one is written to.
    next: usize,
}

impl Witness {
    /// Reads the latest witness of a file; one that names 0 if there is none, as in logs of older programs.
    pub(super) fn find(file: &dyn LogFile, seed: u64) -> io::Result<Self> {
        let mut latest = Witness::default();
        for (at, &place) in OFFSETS.iter().enumerate() {
            let mut bytes = [0; BYTES];
            if file.read_at(place, &mut bytes)? == BYTES
                && let Some(durable) = decode(&bytes, seed)
                && durable > latest.durable
            {
                let next = 1 - at;
                latest = Witness { durable, next };
            }
        }
        Ok(latest)
    }

    /// How far the log was durable when the witness was written.
    pub(super) fn durable(&self) -> Lsn {
        self.durable
    }

    /// Writes how far the log is durable now, unless the file has that already. Returns the number of bytes
    /// written.
    pub(super) fn raise(&mut self, file: &dyn LogFile, durable: Lsn, seed: u64) -> io::Result<usize> {
        if durable <= self.durable {
            return Ok(0);
        }
        file.write_at(OFFSETS[self.next], &encode(durable, seed))?;
        *self = Witness { durable, next: 1 - self.next };
        Ok(BYTES)
    }
}

fn encode(durable: Lsn, seed: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..SUMMED].copy_from_slice(&durable.to_le_bytes());
    let sum = xxh3_64_with_seed(&bytes[..SUMMED], seed);
    bytes[SUMMED..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns nothing if these bytes are not a witness of this database.
fn decode(bytes: &[u8; BYTES], seed: u64) -> Option<Lsn> {
    let (summed, sum) = bytes.split_at(SUMMED);
    let durable = summed.strip_prefix(&MAGIC)?.first_chunk()?;
    let durable = u64::from_le_bytes(*durable);
    let right = xxh3_64_with_seed(summed, seed).to_le_bytes() == *sum && durable < LIMIT;
    right.then_some(durable)
}
