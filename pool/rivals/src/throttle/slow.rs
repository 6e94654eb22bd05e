//! Memory with the times of a slow flash medium.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ebbpool::storage::{MemoryStorage, Read, Storage, Write};

use crate::rivals::PAGE_SIZE;

/// Reads, and writes, that run at the same time. Writes queue behind writes only and reads behind reads, as in a medium
/// that suspends a write for a read.
const CHANNELS: usize = 8;

/// How long a channel reads a page.
const READ: Duration = Duration::from_micros(200);

/// How long a channel writes a page.
const WRITE: Duration = Duration::from_millis(2);

/// By channel, when it has done all operations so far.
type Channels = Mutex<[Instant; CHANNELS]>;

/// Each operation takes the channel that is free first.
pub struct SlowStorage {
    memory: MemoryStorage,
    reads: Channels,
    writes: Channels,
}

impl SlowStorage {
    /// No pages so far.
    pub fn new() -> Self {
        let free = || Mutex::new([Instant::now(); CHANNELS]);
        SlowStorage { memory: MemoryStorage::new(PAGE_SIZE), reads: free(), writes: free() }
    }
}

/// Waits until `pages` operations that each take `time` are done.
fn operate(channels: &Channels, pages: usize, time: Duration) {
    let now = Instant::now();
    let mut done = now;
    {
        let mut free_at = channels.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..pages {
            if let Some(first) = free_at.iter_mut().min() {
                *first = (*first).max(now) + time;
                done = done.max(*first);
            }
        }
    }
    thread::sleep(done.saturating_duration_since(Instant::now()));
}

impl Storage for SlowStorage {
    fn page_size(&self) -> usize {
        PAGE_SIZE
    }
    fn pages(&self) -> io::Result<u64> {
        self.memory.pages()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        self.memory.grow(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        operate(&self.reads, reads.len(), READ);
        self.memory.read(reads)
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        operate(&self.writes, writes.len(), WRITE);
        self.memory.write(writes)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "memory with the times of a slow flash medium".into()
    }
}
