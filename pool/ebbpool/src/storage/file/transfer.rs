//! How a transfer goes on after the system has moved some of its bytes, or none.

use std::io;
use std::ops::Range;

use rustix::io::Errno;

use crate::storage::{Read, Write};

/// The number of calls in a row that may move nothing: a device that is out of a resource has about a second to get
/// it.
const MOST_FRUITLESS: u32 = 1000;

/// The number of fruitless calls after which the next one waits.
const AT_ONCE: u32 = 8;

/// The sizes of a file's transfers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes of a page.
    pub(crate) page: usize,
    /// Bytes that offsets and buffers are multiples of; 1 without direct I/O.
    pub(crate) block: usize,
}

/// One page to be read, or neighbouring pages to be written.
pub(crate) trait Pages: Send + Sized {
    /// The number of the first page.
    fn first(&self) -> u64;

    /// The number of pages.
    fn count(&self) -> usize;

    /// Sets the outcome of some of the pages.
    fn settle(&mut self, pages: Range<usize>, outcome: io::Result<()>);

    /// Splits the pages, so that each is transferred by itself.
    fn apart(self) -> Vec<Self>;

    /// The file ended `from` bytes after the beginning of the pages, of which `last` is the last one that it had.
    fn ended(&mut self, from: usize, last: u64) -> io::Result<()>;
}

impl Pages for &mut Read<'_> {
    fn first(&self) -> u64 {
        self.page
    }

    fn count(&self) -> usize {
        1
    }

    fn settle(&mut self, _pages: Range<usize>, outcome: io::Result<()>) {
        self.outcome = outcome;
    }

    fn apart(self) -> Vec<Self> {
        vec![self]
    }

    fn ended(&mut self, from: usize, last: u64) -> io::Result<()> {
        // Only of the last page a part may be missing: where the file was opened so, or is being made longer.
        if self.page < last || (self.page == last && from == 0) {
            let text = "the file ends before it, and did not when it was opened or written: another program has cut it off";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        if let Some(rest) = self.buffer.get_mut(from..) {
            rest.fill(0);
        }
        Ok(())
    }
}

impl Pages for &mut [Write<'_>] {
    fn first(&self) -> u64 {
        self.iter().map(|write| write.page).next().unwrap_or(0)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn settle(&mut self, pages: Range<usize>, outcome: io::Result<()>) {
        let writes = self.get_mut(pages).unwrap_or_default();
        match (writes, outcome) {
            (writes, Ok(())) => writes.iter_mut().for_each(|write| write.outcome = Ok(())),
            ([write], outcome) => write.outcome = outcome,
            (writes, Err(error)) => {
                for write in writes {
                    write.outcome = Err(alike(&error));
                }
            }
        }
    }

    fn apart(self) -> Vec<Self> {
        self.chunks_mut(1).collect()
    }

    fn ended(&mut self, _from: usize, _last: u64) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::WriteZero, "the system wrote nothing of it, and gave no reason"))
    }
}

/// A copy of an error.
pub(crate) fn alike(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Pages that are being transferred, and how many of their bytes have been.
#[derive(Debug)]
pub(crate) struct FileTransfer<P> {
    pub(crate) pages: P,
    /// Bytes that have been moved.
    done: usize,
    /// The number of calls since then that moved none.
    fruitless: u32,
    /// The last page that the file had when the transfer began; 0 for writes.
    last: u64,
}

/// How a transfer goes on.
#[derive(Debug)]
pub(crate) enum NextStep<P> {
    /// With another call.
    Again(FileTransfer<P>),
    /// Page by page, because one of them cannot be written and it is not known which.
    Apart(Vec<FileTransfer<P>>),
    /// Not at all: each page has its outcome.
    Settled,
}

impl<P: Pages> FileTransfer<P> {
    pub(crate) fn new(pages: P) -> Self {
        FileTransfer { pages, done: 0, fruitless: 0, last: 0 }
    }

    /// The same of a file that has these pages.
    pub(crate) fn of_file(pages: P, in_file: u64) -> Self {
        FileTransfer { last: in_file.saturating_sub(1), ..FileTransfer::new(pages) }
    }

    /// Bytes that have been moved.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The offset in the file at which the transfer goes on.
    pub(crate) fn offset(&self, sizes: Sizes) -> u64 {
        self.pages.first() * sizes.page as u64 + self.done as u64
    }

    /// True if the next call should wait for a millisecond.
    pub(crate) fn should_wait(&self) -> bool {
        self.fruitless > AT_ONCE
    }

    /// Takes the result of a call: the number of bytes moved, or an error. `length` returns the length of the file.
    pub(crate) fn advance(
        self,
        moved: io::Result<usize>,
        sizes: Sizes,
        length: impl FnOnce() -> io::Result<u64>,
    ) -> NextStep<P> {
        match moved {
            Ok(0) => self.ended(),
            Ok(moved) => self.moved(moved, sizes, length),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => NextStep::Again(self),
                // The kernel reports `CANCELED` if it gave an operation up, although no thread cancelled it.
                Some(Errno::AGAIN | Errno::CANCELED) => self.fruitless(error, sizes),
                _ => self.failed(error, sizes),
            },
        }
    }

    fn moved(mut self, moved: usize, sizes: Sizes, length: impl FnOnce() -> io::Result<u64>) -> NextStep<P> {
        let all = self.pages.count() * sizes.page;
        let done = self.done + moved;
        if done >= all {
            self.pages.settle(0..self.pages.count(), Ok(()));
            return NextStep::Settled;
        }
        // Direct I/O cannot go on in the middle of a block. It stops there only where a file ends.
        let whole = done - done % sizes.block;
        if whole != done {
            let end = length();
            if end.is_ok_and(|end| self.pages.first() * sizes.page as u64 + done as u64 >= end) {
                self.done = done;
                return self.ended();
            }
        }
        if whole == self.done {
            let error = io::Error::other("the system moves less than a block at a time");
            return self.fruitless(error, sizes);
        }
        self.done = whole;
        self.fruitless = 0;
        NextStep::Again(self)
    }

    fn ended(mut self) -> NextStep<P> {
        let outcome = self.pages.ended(self.done, self.last);
        self.pages.settle(0..self.pages.count(), outcome);
        NextStep::Settled
    }

    fn fruitless(mut self, error: io::Error, sizes: Sizes) -> NextStep<P> {
        self.fruitless += 1;
        match self.fruitless < MOST_FRUITLESS {
            true => NextStep::Again(self),
            false => self.failed(error, sizes),
        }
    }

    fn failed(mut self, error: io::Error, sizes: Sizes) -> NextStep<P> {
        let count = self.pages.count();
        if count == 1 {
            self.pages.settle(0..1, Err(error));
            return NextStep::Settled;
        }
        let written = self.done / sizes.page;
        self.pages.settle(0..written, Ok(()));
        let mut begun = self.done % sizes.page;
        let rest = self.pages.apart().into_iter().skip(written);
        let rest = rest.map(|pages| FileTransfer { done: std::mem::take(&mut begun), ..FileTransfer::new(pages) });
        NextStep::Apart(rest.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { page: 4096, block: 512 };

    fn pending(page: u64, buffer: &[u8]) -> Write<'_> {
        Write { page, buffer, outcome: Err(io::ErrorKind::Other.into()) }
    }

    fn again<P: std::fmt::Debug>(next: NextStep<P>) -> FileTransfer<P> {
        match next {
            NextStep::Again(transfer) => transfer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn direct_io_goes_on_at_a_block() {
        let bytes = [1; 4096];
        let mut writes = [pending(3, &bytes)];
        let transfer = FileTransfer::new(&mut writes[..]);
        let transfer = again(transfer.advance(Ok(1000), SIZES, || Ok(1 << 20)));
        assert_eq!(transfer.done(), 512);
        assert_eq!(transfer.offset(SIZES), 3 * 4096 + 512);
        let next = transfer.advance(Ok(3584), SIZES, || Ok(1 << 20));
        assert!(matches!(next, NextStep::Settled));
        assert!(writes[0].outcome.is_ok());
    }

    #[test]
    fn a_read_that_stops_within_a_block_at_the_end_of_the_file_is_done() {
        let mut bytes = [7; 4096];
        let mut read = Read { page: 1, buffer: &mut bytes, outcome: Err(io::ErrorKind::Other.into()) };
        let next = FileTransfer::new(&mut read).advance(Ok(1000), SIZES, || Ok(5096));
        assert!(matches!(next, NextStep::Settled));
        assert!(read.outcome.is_ok());
        assert!(bytes[..1000].iter().all(|&byte| byte == 7));
        assert!(bytes[1000..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_transfer_that_never_moves_fails_in_the_end() {
        for moved in [Ok(100), Err(Errno::AGAIN), Err(Errno::CANCELED)] {
            let bytes = [1; 4096];
            let mut writes = [pending(0, &bytes)];
            let mut transfer = FileTransfer::new(&mut writes[..]);
            let mut calls = 1;
            while let NextStep::Again(next) = transfer.advance(moved.map_err(Into::into), SIZES, || Ok(1 << 20)) {
                transfer = next;
                calls += 1;
            }
            assert_eq!(calls, MOST_FRUITLESS);
            assert!(writes[0].outcome.is_err());
        }
    }

    #[test]
    fn interruptions_are_no_failures_however_many() {
        let bytes = [1; 4096];
        let mut writes = [pending(0, &bytes)];
        let mut transfer = FileTransfer::new(&mut writes[..]);
        for _ in 0..5 * MOST_FRUITLESS {
            transfer = again(transfer.advance(Err(Errno::INTR.into()), SIZES, || Ok(0)));
        }
        assert!(!transfer.should_wait());
    }

    #[test]
    fn a_merged_write_that_fails_goes_on_page_by_page_after_what_was_written() {
        let bytes = [1; 4096];
        let mut writes = [5, 6, 7, 8].map(|page| pending(page, &bytes));
        let transfer = FileTransfer::new(&mut writes[..]);
        let transfer = again(transfer.advance(Ok(4096 + 1024), SIZES, || Ok(1 << 20)));
        let next = transfer.advance(Err(Errno::IO.into()), SIZES, || Ok(1 << 20));
        let NextStep::Apart(rest) = next else { panic!("{next:?}") };
        let firsts: Vec<_> = rest.iter().map(|t| (t.pages.first(), t.done())).collect();
        assert_eq!(firsts, [(6, 1024), (7, 0), (8, 0)]);
        assert!(writes[0].outcome.is_ok());
        assert!(writes[1].outcome.is_err());
    }

    #[test]
    fn writing_nothing_is_an_error_and_reading_nothing_is_the_end() {
        let bytes = [1; 4096];
        let mut writes = [pending(0, &bytes), pending(1, &bytes)];
        FileTransfer::new(&mut writes[..]).advance(Ok(0), SIZES, || Ok(0));
        for write in &writes {
            let error = write.outcome.as_ref().expect_err("nothing was written");
            assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        }
    }
}
