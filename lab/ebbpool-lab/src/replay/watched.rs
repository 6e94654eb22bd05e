//! A storage that measures its calls and reports written pages to the ledger.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbpool::FrameMemory;
use ebbpool::storage::{Read, Storage, Write};
use ebbpool_cost::{OperationCosts, Unit};

use super::ledger::Ledger;

/// Wraps a storage. It measures the calls, independently of the costs that the pool assumes.
pub(super) struct MeteredStorage {
    storage: Arc<dyn Storage>,
    /// The number of pages of the trace's database; the file may be longer.
    pages: u64,
    ledger: Arc<Ledger>,
    meter: Arc<Meter>,
}

/// The time spent in calls of the storage, and the pages that they transferred.
#[derive(Default)]
pub(super) struct Meter {
    pages_read: AtomicU64,
    read_ns: AtomicU64,
    pages_written: AtomicU64,
    write_ns: AtomicU64,
}

/// The values of a meter at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeterReading {
    pages_read: u64,
    read_ns: u64,
    pages_written: u64,
    write_ns: u64,
}

impl Meter {
    pub(super) fn reading(&self) -> MeterReading {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MeterReading {
            pages_read: get(&self.pages_read),
            read_ns: get(&self.read_ns),
            pages_written: get(&self.pages_written),
            write_ns: get(&self.write_ns),
        }
    }
}

impl MeterReading {
    /// The difference to an earlier reading.
    pub(super) fn since(self, earlier: MeterReading) -> MeterReading {
        MeterReading {
            pages_read: self.pages_read - earlier.pages_read,
            read_ns: self.read_ns - earlier.read_ns,
            pages_written: self.pages_written - earlier.pages_written,
            write_ns: self.write_ns - earlier.write_ns,
        }
    }

    /// The average time of a page read in µs; `None` if no page was read.
    pub(super) fn read_us(self) -> Option<f64> {
        average(self.read_ns, self.pages_read)
    }

    /// The average time of a page write in µs; `None` if no page was written.
    pub(super) fn write_us(self) -> Option<f64> {
        average(self.write_ns, self.pages_written)
    }

    /// The cost of a page write in page reads; `None` if one of the two was not measured.
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

fn add(pages: &AtomicU64, count: usize, time: &AtomicU64, elapsed: Duration) {
    pages.fetch_add(count as u64, Ordering::Relaxed);
    let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    time.fetch_add(ns, Ordering::Relaxed);
}

impl MeteredStorage {
    pub(super) fn new(storage: Arc<dyn Storage>, pages: u64, ledger: Arc<Ledger>, meter: Arc<Meter>) -> Self {
        MeteredStorage { storage, pages, ledger, meter }
    }
}

impl Storage for MeteredStorage {
    fn page_size(&self) -> usize {
        self.storage.page_size()
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(self.pages)
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        self.storage.grow(pages)
    }

    fn writable(&self) -> bool {
        self.storage.writable()
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        let start = Instant::now();
        let cost = self.storage.read(reads);
        let Meter { pages_read, read_ns, .. } = &*self.meter;
        add(pages_read, reads.len(), read_ns, start.elapsed());
        cost
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        self.ledger.storage_writes(writes.iter().map(|write| write.page));
        let start = Instant::now();
        let cost = self.storage.write(writes);
        let Meter { pages_written, write_ns, .. } = &*self.meter;
        add(pages_written, writes.len(), write_ns, start.elapsed());
        cost
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }

    fn register(&self, memory: &Arc<FrameMemory>) {
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
