//! The contents that a replay writes into pages: a mark that identifies its files, and a counter.

use std::ops::Range;

const MARK: Range<usize> = 0..8;
const PAGE_SIZE: Range<usize> = 8..16;
const RUN: Range<usize> = 16..24;
const WRITES: Range<usize> = 24..32;

const MARK_BYTES: [u8; 8] = *b"ebbreply";

/// The number of bytes of a page's payload that a replay uses.
pub(super) const BYTES: usize = 32;

/// Marks a page of zeros as a page of a replay.
pub(super) fn mark(payload: &mut [u8], page_size: usize) {
    payload[MARK].copy_from_slice(&MARK_BYTES);
    payload[PAGE_SIZE].copy_from_slice(&(page_size as u64).to_le_bytes());
}

/// The size of the file's pages, if a replay wrote this page.
pub(super) fn page_size(payload: &[u8]) -> Option<u64> {
    (payload.len() >= BYTES && payload[MARK] == MARK_BYTES).then(|| number(&payload[PAGE_SIZE]))
}

/// Changes a page: increments its counter of writes in this run.
pub(super) fn write(payload: &mut [u8], page_size: usize, run: u64) {
    let before = writes(payload, run);
    if before == 0 {
        mark(payload, page_size);
        payload[RUN].copy_from_slice(&run.to_le_bytes());
    }
    payload[WRITES].copy_from_slice(&(before + 1).to_le_bytes());
}

/// The number of writes of the page in this run so far.
pub(super) fn writes(payload: &[u8], run: u64) -> u64 {
    match page_size(payload).is_some() && number(&payload[RUN]) == run {
        true => number(&payload[WRITES]),
        false => 0,
    }
}

fn number(bytes: &[u8]) -> u64 {
    let shift = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    bytes.iter().rev().fold(0, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_run() {
        let mut payload = [0; 100];
        assert_eq!((page_size(&payload), writes(&payload, 7)), (None, 0));
        write(&mut payload, 512, 7);
        write(&mut payload, 512, 7);
        assert_eq!((page_size(&payload), writes(&payload, 7)), (Some(512), 2));
        assert_eq!(writes(&payload, 8), 0);
        write(&mut payload, 512, 8);
        assert_eq!((writes(&payload, 7), writes(&payload, 8)), (0, 1));
    }
}
