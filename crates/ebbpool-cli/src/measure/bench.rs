//! Reads and writes against the clock.

use std::io;
use std::time::{Duration, Instant};

use ebbpool::storage::{FileStorage, Read, Storage, Write};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::progress::STOP;

/// Frames are aligned so, and direct I/O asks for it.
const ALIGNMENT: usize = 4096;

/// So many rounds of a queue in one call: the queue runs empty at the end of each.
const MOST_ROUNDS: usize = 64;

/// A call is not made longer than this, so that slow devices are measured in time too.
const LONGEST_CALL: Duration = Duration::from_millis(50);

/// Nor does it need more memory than this, unless the queue is deeper.
const MOST_BYTES: usize = 64 << 20;

/// Figures of one latency are kept up to so many.
const MOST_TIMES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Random,
    Sequential,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Load {
    pub(crate) operation: Operation,
    pub(crate) order: Order,
    /// Operations under way at most.
    pub(crate) queue_depth: u32,
    /// Pages of a call, each of which is waited for; null where the queue is kept full.
    pub(crate) batch: Option<u32>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(crate) load: Load,
    /// Pages read or written.
    pub(crate) pages: u64,
    pub(crate) seconds: f64,
    pub(crate) pages_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// Time for a page: with one at a time, how long it took.
    pub(crate) us_per_page: f64,
    /// Of the calls of one page.
    pub(crate) median_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// Why a measurement did not end.
pub(super) enum Stopped {
    Interrupted,
    Failed(Operation, io::Error),
}

/// Memory for one call, and what pages it is about.
pub(super) struct Bench {
    bytes: Vec<u8>,
    start: usize,
    page_size: usize,
    /// Pages of what is measured.
    pages: u64,
    random: Xoshiro256PlusPlus,
    chosen: Vec<u64>,
    /// Where a sequence goes on.
    next: u64,
}

impl Bench {
    /// For pages 0 to `pages` - 1, which are not none.
    pub(super) fn new(page_size: usize, pages: u64, deepest: u32) -> Self {
        let most =
            (deepest as usize * MOST_ROUNDS).min((MOST_BYTES / page_size).max(deepest as usize));
        let bytes = vec![0; most * page_size + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Bench {
            bytes,
            start,
            page_size,
            pages,
            random: Xoshiro256PlusPlus::seed_from_u64(0xebb),
            chosen: Vec::new(),
            next: 0,
        }
    }

    /// Writes all pages once.
    pub(super) fn fill(
        &mut self,
        storage: &FileStorage,
        mut done: impl FnMut(f64),
    ) -> Result<(), Stopped> {
        let grow = storage.grow(self.pages);
        grow.map_err(|error| Stopped::Failed(Operation::Write, error))?;
        self.random.fill_bytes(&mut self.bytes);
        let most = self.most() as u64;
        let mut page = 0;
        while page < self.pages {
            let end = self.pages.min(page + most);
            self.chosen.clear();
            self.chosen.extend(page..end);
            self.call(storage, Operation::Write)?;
            page = end;
            done(page as f64 / self.pages as f64);
        }
        let synced = storage.sync();
        synced.map_err(|error| Stopped::Failed(Operation::Write, error))
    }

    /// Pages of a call at most.
    fn most(&self) -> usize {
        (self.bytes.len() - ALIGNMENT) / self.page_size
    }

    /// Measures for so many seconds. What is buffered counts once it is synced.
    pub(super) fn measure(
        &mut self,
        storage: &FileStorage,
        load: Load,
        seconds: f64,
    ) -> Result<Measured, Stopped> {
        let depth = load.queue_depth as usize;
        let most = self.most().min(depth * MOST_ROUNDS);
        let mut batch = load.batch.map_or(depth, |batch| batch as usize);
        let mut times = Vec::new();
        let (mut pages, mut elapsed) = (0, Duration::ZERO);
        self.next = 0;
        if load.operation == Operation::Write {
            // Not what was read: what can be compressed is written faster by some devices.
            self.random.fill_bytes(&mut self.bytes);
        }
        while elapsed.as_secs_f64() < seconds {
            self.choose(batch, load);
            let start = Instant::now();
            self.call(storage, load.operation)?;
            let took = start.elapsed();
            elapsed += took;
            pages += self.chosen.len() as u64;
            if batch == 1 && times.len() < MOST_TIMES {
                times.push(took);
            }
            if load.batch.is_none() && took < LONGEST_CALL {
                batch = (batch * 2).min(most);
            }
        }
        if load.operation == Operation::Write {
            let start = Instant::now();
            let synced = storage.sync();
            synced.map_err(|error| Stopped::Failed(load.operation, error))?;
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
        Ok(Measured {
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

    /// Chooses the pages of a call: each once, and those to be written in order.
    fn choose(&mut self, count: usize, load: Load) {
        let count = count.min(usize::try_from(self.pages).unwrap_or(usize::MAX));
        self.chosen.clear();
        match load.order {
            Order::Sequential => {
                if self.next + count as u64 > self.pages {
                    self.next = 0;
                }
                self.chosen.extend(self.next..self.next + count as u64);
                self.next += count as u64;
            }
            Order::Random => {
                for _ in 0..count {
                    let page = self.random.next_u64() % self.pages;
                    self.chosen.push(page);
                }
                if load.operation == Operation::Write {
                    self.chosen.sort_unstable();
                    self.chosen.dedup();
                }
            }
        }
    }

    fn call(&mut self, storage: &FileStorage, operation: Operation) -> Result<(), Stopped> {
        if STOP.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Stopped::Interrupted);
        }
        let memory = self.bytes.get_mut(self.start..).unwrap_or_default();
        let buffers = memory.chunks_exact_mut(self.page_size);
        let all = buffers.zip(&self.chosen);
        let outcome: io::Result<()> = match operation {
            Operation::Read => {
                let mut reads: Vec<Read<'_>> = all
                    .map(|(buffer, &page)| Read {
                        page,
                        buffer,
                        outcome: Ok(()),
                    })
                    .collect();
                storage.read(&mut reads);
                reads.into_iter().try_for_each(|read| read.outcome)
            }
            Operation::Write => {
                let mut writes: Vec<Write<'_>> = all
                    .map(|(buffer, &page)| Write {
                        page,
                        buffer,
                        outcome: Ok(()),
                    })
                    .collect();
                storage.write(&mut writes);
                writes.into_iter().try_for_each(|write| write.outcome)
            }
        };
        outcome.map_err(|error| Stopped::Failed(operation, error))
    }
}
