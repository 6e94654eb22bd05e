//! How far the log was durable once, kept outside its records: a log that lost its end cannot tell by
//! its records that there were more.
//!
//! Each file has two places for it, in sectors of their own beside the headers, which are written in
//! turn: a write that a crash tears hurts neither the witness before it nor a header. Like a header
//! that older programs ignore, it stands in bytes that format 1 leaves free.
//!
//! A witness is written after a sync of the log and is not synced itself. It never names more than
//! what was durable when it was written, so whatever a crash leaves of it accuses no log that is whole.
//! It guards against files that were cut or replaced, not against the crash itself.

use std::io;

use ebbpool::Lsn;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::file::LogFile;
use super::header::{FAR, PLACE, SECTOR};

/// Where it stands in a file.
pub(super) const PLACES: [u64; 2] = [SECTOR, PLACE + SECTOR];

const MAGIC: [u8; 8] = *b"EBBPWIT\n";

/// Magic, how far the log was durable (u64), checksum of both seeded with the database's identity.
pub(super) const BYTES: usize = 24;
const SUMMED: usize = BYTES - 8;

/// The latest witness of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witness {
    durable: Lsn,
    /// Which of the places the next one goes to.
    next: usize,
}

impl Witness {
    /// Looks for the latest one of a file; 0 if there is none, as in logs of older programs.
    pub(super) fn find(file: &dyn LogFile, seed: u64) -> io::Result<Self> {
        let mut latest = Witness::default();
        for (at, &place) in PLACES.iter().enumerate() {
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

    /// How far the log was durable when it was written.
    pub(super) fn durable(&self) -> Lsn {
        self.durable
    }

    /// Writes how far the log is durable now, unless the file has that; answers how many bytes were
    /// written.
    pub(super) fn raise(
        &mut self,
        file: &dyn LogFile,
        durable: Lsn,
        seed: u64,
    ) -> io::Result<usize> {
        if durable <= self.durable {
            return Ok(0);
        }
        file.write_at(PLACES[self.next], &encode(durable, seed))?;
        *self = Witness {
            durable,
            next: 1 - self.next,
        };
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

/// Nothing if these bytes are no witness of this database.
fn decode(bytes: &[u8; BYTES], seed: u64) -> Option<Lsn> {
    let (summed, sum) = bytes.split_at(SUMMED);
    let durable = summed.strip_prefix(&MAGIC)?.first_chunk()?;
    let durable = u64::from_le_bytes(*durable);
    let right = xxh3_64_with_seed(summed, seed).to_le_bytes() == *sum && durable < FAR;
    right.then_some(durable)
}
