//! What Ebbpool's module for PostgreSQL has seen of each page, as its function `ebbpool_requests` shows it.

use hashbrown::HashMap;
use serde::Serialize;

use super::catalog;
use crate::recorder::CaptureBuffer;

/// Bytes of a record: tablespace, database, relation and block, and of a byte each fork, kind, hits and flags, in the order of the machine
/// (`EbbRecord`).
pub const RECORD: usize = 20;

/// What a record says of its page.
mod kind {
    /// It came into a buffer.
    pub(super) const READ: u8 = 0;
    /// It was hit, as often as `hits` says.
    pub(super) const HIT: u8 = 1;
    /// It was written under a request that has a record already.
    pub(super) const WRITE: u8 = 2;
    /// A buffer had it when the capture began.
    pub(super) const RESIDENT: u8 = 4;
}

const WRITTEN: u8 = 1;
const BY_RING: u8 = 2;

/// What was captured, besides references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModuleCounts {
    /// Requests.
    pub requests: u64,
    /// Requests of pages that were in a buffer.
    pub hits: u64,
    /// Pages that came through rings.
    pub ring_requests: u64,
    /// Pages that were written under a request before the capture.
    pub unrequested: u64,
}

/// Makes references of records.
#[derive(Debug, Default)]
pub struct ModuleDecoder {
    /// What was captured so far.
    pub counts: ModuleCounts,
    /// Positions of the latest reference of each page, by object and page.
    latest: HashMap<(u32, u32), u32>,
}

impl ModuleDecoder {
    /// Takes a record; bytes that are none are ignored.
    pub fn record(&mut self, record: &[u8], recorder: &mut CaptureBuffer) {
        /// The most hits that a usage count shows (`BM_MAX_USAGE_COUNT`).
        const MOST_HITS: u8 = 5;
        /// Scans through rings, as a trace's column `bypass` has them: no record says which ring it was.
        const RING: u32 = 1 << 2 | 1;
        let Some(([tablespace, database, relation, page], [fork, kind, hits, flags])) = parts(record) else { return };
        let is_write = flags & WRITTEN != 0;
        if !catalog::is_fork(u32::from(fork)) {
            return;
        }
        let object = recorder.object([tablespace, database, relation, u32::from(fork)]);
        match kind {
            kind::RESIDENT => recorder.resident(object, page.into(), is_write),
            kind::WRITE => match self.latest.get(&(object, page)) {
                Some(&position) => recorder.mark_written(position as usize),
                None => self.counts.unrequested += 1,
            },
            kind::READ | kind::HIT => {
                let is_ring = flags & BY_RING != 0;
                let times = hits.clamp(1, MOST_HITS);
                for time in 1..=times {
                    let bypass = if is_ring { RING } else { 0 };
                    // Which of the hits was the write is not known: it came before the page was looked at.
                    let Some(position) = recorder.reference(object, page.into(), is_write && time == times, bypass) else {
                        return;
                    };
                    self.latest.insert((object, page), position as u32);
                }
                self.counts.requests += u64::from(times);
                self.counts.hits += if kind == kind::HIT { u64::from(times) } else { 0 };
                self.counts.ring_requests += u64::from(is_ring);
            }
            _ => {}
        }
    }
}

/// The numbers and the bytes of a record.
fn parts(record: &[u8]) -> Option<([u32; 4], [u8; 4])> {
    let (numbers, bytes) = record.split_last_chunk()?;
    let (numbers, []) = numbers.as_chunks::<4>() else { return None };
    let numbers: [[u8; 4]; 4] = numbers.try_into().ok()?;
    Some((numbers.map(u32::from_ne_bytes), *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(page: u32, [kind, hits, flags]: [u8; 3]) -> Vec<u8> {
        let numbers = [1663, 5, 16384, page].into_iter().flat_map(u32::to_ne_bytes);
        numbers.chain([0, kind, hits, flags]).collect()
    }

    #[test]
    fn hits_are_references_and_a_write_belongs_to_the_latest_of_its_page() {
        let (mut decoder, mut recorder) = (ModuleDecoder::default(), CaptureBuffer::default());
        let records = [
            record(7, [kind::RESIDENT, 1, WRITTEN]),
            record(7, [kind::WRITE, 0, WRITTEN]),
            record(7, [kind::HIT, 3, 0]),
            record(8, [kind::READ, 1, BY_RING]),
            record(7, [kind::WRITE, 0, WRITTEN]),
            record(7, [kind::HIT, 200, WRITTEN]),
            record(9, [9, 1, 0]),
            vec![0; RECORD - 1],
            vec![0xff; RECORD],
        ];
        records.iter().for_each(|record| decoder.record(record, &mut recorder));
        let references: Vec<(u64, bool, u32)> =
            recorder.references.iter().map(|it| (it.page(), it.is_write(), it.bypass)).collect();
        let of = |write| (7, write, 0);
        let expected = [of(false), of(false), of(true), (8, false, 5), of(false), of(false), of(false), of(false), of(true)];
        assert_eq!(references, expected);
        assert_eq!(recorder.resident_references(), 1);
        assert_eq!(decoder.counts, ModuleCounts { requests: 9, hits: 8, ring_requests: 1, unrequested: 1 });
        assert_eq!((recorder.objects()[0].key, recorder.objects().len()), ([1663, 5, 16384, 0], 1));
    }
}
