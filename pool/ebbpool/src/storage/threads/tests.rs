use std::io::Read as _;

use rustix::io::Errno;

use super::*;
use crate::storage::file::scripted::{Call, Scripted};

const PAGE: usize = 1024;
const SIZES: Sizes = Sizes { page: PAGE, block: 512 };

fn content(page: u64) -> Vec<u8> {
    (0..PAGE).map(|at| (page as usize * 31 + at % 255) as u8).collect()
}

fn pool() -> Threads {
    Threads::new(4).expect("threads")
}

/// Writes pages, with neighbours in one run; returns the pages that failed, and their errors.
fn write(pages: &[u64], raw: &Scripted) -> Vec<(u64, Errno)> {
    let contents: Vec<_> = pages.iter().map(|&page| content(page)).collect();
    let pairs = pages.iter().zip(&contents);
    let mut writes: Vec<_> =
        pairs.map(|(&page, buffer)| Write { page, buffer, outcome: Err(io::Error::other("not settled")) }).collect();
    let runs = writes.chunk_by_mut(|a, b| a.page + 1 == b.page);
    pool().carry_out(runs.map(FileTransfer::new).collect(), raw, SIZES);
    let failed = writes.into_iter().filter_map(|write| {
        let error = write.outcome.err()?;
        let errno = Errno::from_io_error(&error).unwrap_or_else(|| panic!("{error}"));
        Some((write.page, errno))
    });
    failed.collect()
}

fn read(pages: &[u64], raw: &Scripted) -> Vec<Vec<u8>> {
    let mut buffers = vec![vec![0xEE; PAGE]; pages.len()];
    let pairs = pages.iter().zip(&mut buffers);
    let mut reads: Vec<_> =
        pairs.map(|(&page, buffer)| Read { page, buffer, outcome: Err(io::Error::other("not settled")) }).collect();
    pool().carry_out(reads.iter_mut().map(FileTransfer::new).collect(), raw, SIZES);
    assert!(reads.iter().all(|read| read.outcome.is_ok()));
    buffers
}

#[test]
fn short_and_interrupted_calls_go_on_where_they_stopped() {
    let raw = Scripted::new(64 * PAGE);
    raw.is_short(Call::Write, 1, 512);
    raw.fails(Call::Write, 2, Errno::INTR);
    raw.is_short(Call::Write, 3, 2 * PAGE + 512);
    raw.fails(Call::Write, 4, Errno::AGAIN);
    let pages: Vec<u64> = (7..19).collect();
    assert_eq!(write(&pages, &raw), []);
    assert_eq!(raw.calls(Call::Write), 5);
    for byte in 7 * PAGE..19 * PAGE {
        assert_eq!(raw.times_written(byte), 1, "byte {byte}");
    }
    raw.is_short(Call::Read, 2, 512);
    raw.fails(Call::Read, 3, Errno::INTR);
    raw.fails(Call::Read, 5, Errno::AGAIN);
    let expected: Vec<_> = pages.iter().map(|&page| content(page)).collect();
    assert_eq!(read(&pages, &raw), expected);
    assert_eq!(raw.calls(Call::Read), 12 + 3);
}

#[test]
fn a_merged_write_that_fails_reports_the_pages_that_failed() {
    let raw = Scripted::new(64 * PAGE);
    raw.is_bad(12 * PAGE..13 * PAGE, Errno::NOSPC);
    raw.is_bad(18 * PAGE + 600..18 * PAGE + 601, Errno::IO);
    // The first call writes one page, and half of the next.
    raw.is_short(Call::Write, 1, PAGE + 512);
    let pages: Vec<u64> = (10..20).collect();
    assert_eq!(write(&pages, &raw), [(12, Errno::NOSPC), (18, Errno::IO)]);
    for page in (10..20).filter(|&page| ![12, 18].contains(&page)) {
        let at = page as usize * PAGE;
        assert_eq!(raw.bytes()[at..at + PAGE], content(page), "page {page}");
        assert_eq!(raw.times_written(at), 1, "page {page}");
        assert_eq!(raw.times_written(at + PAGE - 1), 1, "page {page}");
    }
}

#[test]
fn a_fault_at_the_nth_write_fails_no_other() {
    for nth in 1..=20 {
        let raw = Scripted::new(64 * PAGE);
        raw.fails(Call::Write, nth, Errno::NOSPC);
        let pages: Vec<u64> = (0..20).map(|at| at * 3).collect();
        let failed = write(&pages, &raw);
        assert_eq!(failed.len(), 1);
        for page in pages {
            let at = page as usize * PAGE;
            let written = !failed.iter().any(|&(bad, _)| bad == page);
            assert_eq!(raw.bytes()[at..at + PAGE] == content(page), written);
        }
    }
}

#[test]
fn pages_beyond_the_end_are_zeros_and_so_is_the_rest_of_the_last() {
    let raw = Scripted::new(PAGE + 100);
    let ones = [1; PAGE + 100];
    raw.write_at(&[IoSlice::new(&ones)], 0).expect("written");
    let pages = read(&[0, 1, 2], &raw);
    assert_eq!(pages[0], [1; PAGE]);
    let mut last = Vec::new();
    (&ones[..100]).chain(&[0; PAGE - 100][..]).read_to_end(&mut last).expect("read");
    assert_eq!(pages[1], last);
    assert_eq!(pages[2], [0; PAGE]);
}

#[test]
fn a_queue_of_one_has_no_helpers() {
    let raw = Scripted::new(64 * PAGE);
    let bytes = content(1);
    let mut writes: Vec<_> =
        [1, 3, 5].map(|page| Write { page, buffer: &bytes, outcome: Err(io::Error::other("not settled")) }).into();
    let threads = Threads::new(1).expect("no threads");
    assert!(threads.helpers.is_none());
    threads.carry_out(writes.chunks_mut(1).map(FileTransfer::new).collect(), &raw, SIZES);
    assert!(writes.iter().all(|write| write.outcome.is_ok()));
    assert_eq!(raw.calls(Call::Write), 3);
}
