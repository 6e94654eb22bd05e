//! Positioned reads and writes by the caller and a few helper threads.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

use super::file::raw::Raw;
use super::file::transfer::{FileTransfer, NextStep, Pages, Sizes};
use super::{Read, Write};

/// The most threads: with more of them they only wait for each other.
const MOST_THREADS: usize = 64;

/// Threads that help callers with batches.
#[derive(Debug)]
pub(super) struct Threads {
    /// `None` if the caller carries out all transfers itself.
    helpers: Option<ThreadPool>,
}

impl Threads {
    /// Threads for `queue_depth` calls at a time, including the caller's.
    pub(super) fn new(queue_depth: usize) -> io::Result<Self> {
        let count = queue_depth.min(MOST_THREADS).saturating_sub(1);
        if count == 0 {
            return Ok(Threads { helpers: None });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .stack_size(256 << 10)
            .thread_name(|number| format!("ebbpool-io-{number}"));
        let helpers = Some(pool.build().map_err(io::Error::other)?);
        Ok(Threads { helpers })
    }

    /// Carries out all transfers.
    pub(super) fn carry_out<P: Positioned>(&self, transfers: Vec<FileTransfer<P>>, raw: &impl Raw, sizes: Sizes) {
        let others = transfers.len().saturating_sub(1);
        // A lock for each transfer, so that no thread ever waits for one: a thread that lost its processor while it
        // held a common lock would stop all others.
        let waiting: Vec<_> = transfers.into_iter().map(|transfer| Mutex::new(Some(transfer))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(transfer) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(transfer) = transfer.lock().take() {
                    carry_out(transfer, raw, sizes);
                }
            }
        };
        match &self.helpers {
            Some(helpers) if others > 0 => helpers.in_place_scope(|scope| {
                for _ in 0..others.min(helpers.current_num_threads()) {
                    scope.spawn(|_| work());
                }
                work();
            }),
            _ => work(),
        }
    }
}

/// Pages that a positioned call moves.
pub(super) trait Positioned: Pages {
    /// Makes one call for the bytes after the first `done` bytes.
    fn call(&mut self, raw: &impl Raw, done: usize, offset: u64) -> io::Result<usize>;
}

impl Positioned for &mut Read<'_> {
    fn call(&mut self, raw: &impl Raw, done: usize, offset: u64) -> io::Result<usize> {
        let rest = self.buffer.get_mut(done..).unwrap_or_default();
        raw.read_at(rest, offset)
    }
}

impl Positioned for &mut [Write<'_>] {
    fn call(&mut self, raw: &impl Raw, done: usize, offset: u64) -> io::Result<usize> {
        if let [write] = self {
            let rest = write.buffer.get(done..).unwrap_or_default();
            return raw.write_at(&[IoSlice::new(rest)], offset);
        }
        raw.write_at(&rest_of(self, done), offset)
    }
}

/// The bytes of the pages after the first `done` bytes.
fn rest_of<'a>(writes: &[Write<'a>], mut done: usize) -> Vec<IoSlice<'a>> {
    let mut rest = Vec::with_capacity(writes.len());
    for write in writes {
        match write.buffer.get(done..) {
            Some(bytes) if !bytes.is_empty() => {
                rest.push(IoSlice::new(bytes));
                done = 0;
            }
            _ => done -= write.buffer.len(),
        }
    }
    rest
}

/// Carries out one transfer, in this thread.
pub(super) fn carry_out<P: Positioned>(first: FileTransfer<P>, raw: &impl Raw, sizes: Sizes) {
    let mut waiting = vec![first];
    while let Some(mut transfer) = waiting.pop() {
        if transfer.should_wait() {
            thread::sleep(Duration::from_millis(1));
        }
        let (done, offset) = (transfer.done(), transfer.offset(sizes));
        let moved = transfer.pages.call(raw, done, offset);
        match transfer.advance(moved, sizes, || raw.length()) {
            NextStep::Again(transfer) => waiting.push(transfer),
            NextStep::Apart(transfers) => waiting.extend(transfers),
            NextStep::Settled => {}
        }
    }
}

#[cfg(test)]
mod tests;
