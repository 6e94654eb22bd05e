//! A storage that is watched: how long its calls take, and which pages are written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbpool::Memory;
use ebbpool::storage::{Read, Storage, Write};
use ebbpool_cost::{OperationCosts, Unit};

use super::ledger::Ledger;

/// Measures, whatever costs the pool is told.
pub(super) struct Watched {
    storage: Arc<dyn Storage>,
    /// Pages that the trace's database has; the file may be longer.
    pages: u64,
    ledger: Arc<Ledger>,
    meter: Arc<Meter>,
}

/// Time spent in calls of the storage, and the pages that they moved.
#[derive(Default)]
pub(super) struct Meter {
    pages_read: AtomicU64,
    read_ns: AtomicU64,
    pages_written: AtomicU64,
    write_ns: AtomicU64,
}

/// What a meter says at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pages_read: u64,
    read_ns: u64,
    pages_written: u64,
    write_ns: u64,
}

impl Meter {
    pub(super) fn reading(&self) -> Reading {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
            pages_read: get(&self.pages_read),
            read_ns: get(&self.read_ns),
            pages_written: get(&self.pages_written),
            write_ns: get(&self.write_ns),
        }
    }
}

impl Reading {
    /// What was added since.
    pub(super) fn since(self, before: Reading) -> Reading {
        Reading {
            pages_read: self.pages_read - before.pages_read,
            read_ns: self.read_ns - before.read_ns,
            pages_written: self.pages_written - before.pages_written,
            write_ns: self.write_ns - before.write_ns,
        }
    }

    /// Microseconds that a page read took on average; nothing where none was read.
    pub(super) fn read_us(self) -> Option<f64> {
        average(self.read_ns, self.pages_read)
    }

    /// Microseconds that a page write took on average; nothing where none was written.
    pub(super) fn write_us(self) -> Option<f64> {
        average(self.write_ns, self.pages_written)
    }

    /// The cost of a page write in page reads, where it can be told.
    pub(super) fn asymmetry(self) -> Option<f64> {
        let read = self.read_us().filter(|&us| us > 0.0)?;
        Some(self.write_us()? / read)
    }

    /// Microseconds spent in reads and writes.
    pub(super) fn total_us(self) -> f64 {
        (self.read_ns + self.write_ns) as f64 / 1e3
    }
}

fn average(ns: u64, pages: u64) -> Option<f64> {
    (pages > 0).then(|| ns as f64 / 1e3 / pages as f64)
}

fn add(pages: &AtomicU64, count: usize, time: &AtomicU64, took: Duration) {
    pages.fetch_add(count as u64, Ordering::Relaxed);
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    time.fetch_add(ns, Ordering::Relaxed);
}

impl Watched {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        pages: u64,
        ledger: Arc<Ledger>,
        meter: Arc<Meter>,
    ) -> Self {
        Watched {
            storage,
            pages,
            ledger,
            meter,
        }
    }
}

impl Storage for Watched {
    fn page_size(&self) -> usize {
        self.storage.page_size()
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(self.pages)
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        self.storage.grow(pages)
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        let start = Instant::now();
        let cost = self.storage.read(reads);
        let Meter {
            pages_read,
            read_ns,
            ..
        } = &*self.meter;
        add(pages_read, reads.len(), read_ns, start.elapsed());
        cost
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        self.ledger.stored(writes.iter().map(|write| write.page));
        let start = Instant::now();
        let cost = self.storage.write(writes);
        let Meter {
            pages_written,
            write_ns,
            ..
        } = &*self.meter;
        add(pages_written, writes.len(), write_ns, start.elapsed());
        cost
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }

    fn register(&self, memory: &Arc<Memory>) {
        self.storage.register(memory);
    }

    fn unit(&self) -> Unit {
        self.storage.unit()
    }

    fn assumed_costs(&self) -> OperationCosts {
        self.storage.assumed_costs()
    }

    fn erases_of(&self, page: u64) -> Option<u32> {
        self.storage.erases_of(page)
    }

    fn describe(&self) -> String {
        self.storage.describe()
    }
}
