//! Timed reads and writes.

use std::io;
use std::time::{Duration, Instant};

use ebbpool::storage::{FileStorage, Read, Storage, Write};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::Serialize;

use crate::progress::STOP;

/// The alignment of the pool's frames, which direct I/O requires.
const ALIGNMENT: usize = 4096;

/// The most rounds of a queue in one call. The queue runs empty at the end of each call, so a call has
/// many rounds.
const MOST_ROUNDS: usize = 64;

/// Calls are not extended beyond this time, so that a measurement of a slow device ends in time.
const LONGEST_CALL: Duration = Duration::from_millis(50);

/// The most memory of a call, unless the queue is deeper.
const MOST_BYTES: usize = 64 << 20;

/// The most latencies that one measurement stores.
const MOST_TIMES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Random,
    Sequential,
}

/// The load of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Load {
    #[schemars(extend("x-role" = "key"))]
    pub(crate) operation: Operation,
    #[schemars(extend("x-role" = "key"))]
    pub(crate) order: Order,
    /// The most operations in flight.
    #[schemars(extend("x-role" = "key"))]
    pub(crate) queue_depth: u32,
    /// Pages of a call, if each call waits for all its pages; null if the queue stays full.
    #[schemars(extend("x-role" = "key"))]
    pub(crate) batch: Option<u32>,
}

/// The result of one measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Measurement {
    #[serde(flatten)]
    pub(crate) load: Load,
    /// Pages read or written.
    pub(crate) pages: u64,
    pub(crate) seconds: f64,
    pub(crate) pages_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// Time per page; with one page at a time this is the latency.
    pub(crate) us_per_page: f64,
    /// The median latency of calls of one page.
    pub(crate) median_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// Why a measurement stopped before its end.
pub(super) enum MeasureStop {
    Interrupted,
    Failed(Operation, io::Error),
}

/// Runs measurements: the memory for one call, and the pages of the call.
pub(super) struct DeviceBench {
    bytes: Vec<u8>,
    start: usize,
    page_size: usize,
    /// The number of pages of the file or device.
    pages: u64,
    random: Xoshiro256PlusPlus,
    /// The pages of the current call.
    call_pages: Vec<u64>,
    /// The next page of a sequence.
    next: u64,
}

impl DeviceBench {
    /// A bench for the pages 0 to `pages` - 1; there is at least one.
    pub(super) fn new(page_size: usize, pages: u64, deepest: u32) -> Self {
        let most = (deepest as usize * MOST_ROUNDS).min((MOST_BYTES / page_size).max(deepest as usize));
        let bytes = vec![0; most * page_size + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        DeviceBench {
            bytes,
            start,
            page_size,
            pages,
            random: Xoshiro256PlusPlus::seed_from_u64(0xebb),
            call_pages: Vec::new(),
            next: 0,
        }
    }

    /// Writes all pages once.
    pub(super) fn fill(&mut self, storage: &FileStorage, mut report: impl FnMut(f64)) -> Result<(), MeasureStop> {
        let grow = storage.grow(self.pages);
        grow.map_err(|error| MeasureStop::Failed(Operation::Write, error))?;
        self.random.fill_bytes(&mut self.bytes);
        let most = self.most() as u64;
        let mut page = 0;
        while page < self.pages {
            let end = self.pages.min(page + most);
            self.call_pages.clear();
            self.call_pages.extend(page..end);
            self.call(storage, Operation::Write)?;
            page = end;
            report(page as f64 / self.pages as f64);
        }
        let synced = storage.sync();
        synced.map_err(|error| MeasureStop::Failed(Operation::Write, error))
    }

    /// The most pages of a call.
    fn most(&self) -> usize {
        (self.bytes.len() - ALIGNMENT) / self.page_size
    }

    /// Measures for this many seconds. The time of buffered writes includes the sync at the end.
    pub(super) fn measure(&mut self, storage: &FileStorage, load: Load, seconds: f64) -> Result<Measurement, MeasureStop> {
        let depth = load.queue_depth as usize;
        let most = self.most().min(depth * MOST_ROUNDS);
        let mut batch = load.batch.map_or(depth, |batch| batch as usize);
        let mut times = Vec::new();
        let (mut pages, mut elapsed) = (0, Duration::ZERO);
        self.next = 0;
        if load.operation == Operation::Write {
            // New random bytes: some devices write compressible data faster.
            self.random.fill_bytes(&mut self.bytes);
        }
        while elapsed.as_secs_f64() < seconds {
            self.select_pages(batch, load);
            let start = Instant::now();
            self.call(storage, load.operation)?;
            let latency = start.elapsed();
            elapsed += latency;
            pages += self.call_pages.len() as u64;
            if batch == 1 && times.len() < MOST_TIMES {
                times.push(latency);
            }
            if load.batch.is_none() && latency < LONGEST_CALL {
                batch = (batch * 2).min(most);
            }
        }
        if load.operation == Operation::Write {
            let start = Instant::now();
            let synced = storage.sync();
            synced.map_err(|error| MeasureStop::Failed(load.operation, error))?;
            if !storage.is_direct() {
                elapsed += start.elapsed();
            }
        }
        times.sort_unstable();
        let at = |share: f64| {
            let time = times.get((times.len() as f64 * share) as usize)?;
            Some(time.as_secs_f64() * 1e6)
        };
        let seconds = elapsed.as_secs_f64();
        let alone = load.batch == Some(1);
        Ok(Measurement {
            load,
            pages,
            seconds,
            pages_per_second: pages as f64 / seconds,
            bytes_per_second: pages as f64 * self.page_size as f64 / seconds,
            us_per_page: seconds * 1e6 / pages as f64,
            median_us: at(0.5).filter(|_| alone),
            p99_us: at(0.99).filter(|_| alone),
        })
    }

    /// Selects the pages of a call. Pages to write are in order, and each occurs once.
    fn select_pages(&mut self, count: usize, load: Load) {
        let count = count.min(usize::try_from(self.pages).unwrap_or(usize::MAX));
        self.call_pages.clear();
        match load.order {
            Order::Sequential => {
                if self.next + count as u64 > self.pages {
                    self.next = 0;
                }
                self.call_pages.extend(self.next..self.next + count as u64);
                self.next += count as u64;
            }
            Order::Random => {
                for _ in 0..count {
                    let page = self.random.next_u64() % self.pages;
                    self.call_pages.push(page);
                }
                if load.operation == Operation::Write {
                    self.call_pages.sort_unstable();
                    self.call_pages.dedup();
                }
            }
        }
    }

    fn call(&mut self, storage: &FileStorage, operation: Operation) -> Result<(), MeasureStop> {
        if STOP.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(MeasureStop::Interrupted);
        }
        let memory = self.bytes.get_mut(self.start..).unwrap_or_default();
        let buffers = memory.chunks_exact_mut(self.page_size);
        let all = buffers.zip(&self.call_pages);
        let outcome: io::Result<()> = match operation {
            Operation::Read => {
                let mut reads: Vec<Read<'_>> = all.map(|(buffer, &page)| Read::new(page, buffer)).collect();
                storage.read(&mut reads);
                reads.into_iter().try_for_each(|read| read.outcome)
            }
            Operation::Write => {
                let mut writes: Vec<Write<'_>> = all.map(|(buffer, &page)| Write::new(page, buffer)).collect();
                storage.write(&mut writes);
                writes.into_iter().try_for_each(|write| write.outcome)
            }
        };
        outcome.map_err(|error| MeasureStop::Failed(operation, error))
    }
}
