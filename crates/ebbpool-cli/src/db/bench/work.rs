//! Threads that do what the workload says.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ebbpool_btree::{Database, Error, Transaction};
use ebbpool_trace::workload::{Operation, fill_value};
use hdrhistogram::Histogram;

use super::operations::Operations;
use super::subject::Subject;
use super::told::Latency;
use crate::db::error::DbError;
use crate::progress::{self, STOP};

/// The longest operation that is told from longer ones.
const LONGEST: Duration = Duration::from_secs(600);

/// How often the bar is moved.
const EVERY: Duration = Duration::from_millis(200);

/// How the workload is done.
pub(super) struct Course<'a> {
    pub(super) threads: u16,
    pub(super) limit: Option<Duration>,
    pub(super) seed: u64,
    pub(super) subject: &'a Subject,
}

/// Kinds of operations, as they are told.
const KINDS: [&str; 6] = [
    "read",
    "update",
    "read-modify-write",
    "insert",
    "scan",
    "scan update",
];

fn kind(operation: Operation) -> usize {
    match operation {
        Operation::Read { .. } => 0,
        Operation::Update { .. } => 1,
        Operation::ReadModifyWrite { .. } => 2,
        Operation::Insert { .. } => 3,
        Operation::Scan { .. } => 4,
        Operation::UpdateScan { .. } => 5,
    }
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Nanoseconds of each operation, of each kind.
    took: [Option<Histogram<u64>>; KINDS.len()],
    /// Bytes of keys and values that got another value.
    pub(super) bytes_changed: u64,
    /// Reads of records that were not there (yet).
    pub(super) not_found: u64,
    /// Transactions that were done anew, since another one had a key.
    pub(super) conflicts: u64,
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
}

impl Done {
    pub(super) fn transactions(&self) -> u64 {
        self.took.iter().flatten().map(Histogram::len).sum()
    }

    pub(super) fn latencies(&self) -> Vec<Latency> {
        let kinds = KINDS.into_iter().zip(&self.took);
        let latency = |(kind, took): (_, &Option<Histogram<u64>>)| {
            let took = took.as_ref()?;
            let us = |ns: u64| ns as f64 / 1000.0;
            Some(Latency {
                kind,
                count: took.len(),
                p50_us: us(took.value_at_quantile(0.5)),
                p99_us: us(took.value_at_quantile(0.99)),
                max_us: us(took.max()),
            })
        };
        kinds.filter_map(latency).collect()
    }

    fn note(&mut self, operation: Operation, took: Duration) {
        let slot = &mut self.took[kind(operation)];
        let histogram = match slot {
            Some(histogram) => histogram,
            None => match Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3) {
                Ok(new) => slot.insert(new),
                Err(_) => return,
            },
        };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        histogram.saturating_record(ns.max(1));
    }

    fn add(&mut self, other: Done) {
        for (ours, theirs) in self.took.iter_mut().zip(other.took) {
            match (ours, theirs) {
                // They have the same bounds, so that nothing is refused.
                (Some(ours), Some(theirs)) => ours.add(&theirs).unwrap_or_default(),
                (ours, theirs) => *ours = ours.take().or(theirs),
            }
        }
        self.bytes_changed += other.bytes_changed;
        self.not_found += other.not_found;
        self.conflicts += other.conflicts;
    }
}

/// Does the operations, each as a transaction.
pub(super) fn work(
    database: &Database,
    operations: Operations,
    course: &Course<'_>,
) -> Result<Done, DbError> {
    let start = Instant::now();
    let shared = Shared {
        database,
        course,
        until: course.limit.and_then(|limit| start.checked_add(limit)),
        operations: Mutex::new(operations.each),
        count: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    let all = operations.all;
    let mut done = std::thread::scope(|scope| {
        let shared = &shared;
        let threads = (0..course.threads).map(|thread| {
            scope.spawn(move || {
                let outcome = Worker::new(shared, thread).run();
                shared.failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                outcome
            })
        });
        let threads: Vec<_> = threads.collect();
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(move || shared.show(all, start, &ended));
        let mut done = Done::default();
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => done.add(part),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(end);
        failure.map_or(Ok(done), Err)
    })?;
    done.seconds = start.elapsed().as_secs_f64();
    done.interrupted = STOP.load(Ordering::Relaxed);
    Ok(done)
}

struct Shared<'a> {
    database: &'a Database,
    course: &'a Course<'a>,
    until: Option<Instant>,
    operations: Mutex<Box<dyn Iterator<Item = Operation> + Send>>,
    /// Operations begun.
    count: AtomicU64,
    failed: AtomicBool,
}

impl Shared<'_> {
    fn next(&self) -> Option<Operation> {
        let over = self.until.is_some_and(|until| Instant::now() >= until);
        if over || STOP.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut operations = self
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.count.fetch_add(1, Ordering::Relaxed);
        operations.next()
    }

    /// Moves a bar until somebody drops the other end of the channel.
    fn show(&self, all: Option<u64>, start: Instant, end: &mpsc::Receiver<()>) {
        let bar = progress::bar("working");
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(EVERY) {
            let count = self.count.load(Ordering::Relaxed);
            let by_count = all.map_or(0.0, |all| count as f64 / all.max(1) as f64);
            let by_time = self.course.limit.map_or(0.0, |limit| {
                start.elapsed().as_secs_f64() / limit.as_secs_f64()
            });
            progress::set(&bar, by_count.max(by_time).min(1.0));
        }
        bar.finish_and_clear();
    }
}

/// One thread's part.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    /// Another one for each value that is written.
    seed: u64,
    value: Vec<u8>,
    done: Done,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, thread: u16) -> Self {
        let Course { subject, seed, .. } = shared.course;
        Worker {
            shared,
            seed: seed.rotate_left(32) ^ (u64::from(thread) << 48),
            value: vec![0; subject.value],
            done: Done::default(),
        }
    }

    fn run(mut self) -> Result<Done, Error> {
        while let Some(operation) = self.shared.next() {
            let start = Instant::now();
            // Whoever waits for a key that another one has tries again, as clients do.
            while let Err(error) = self.operate(operation) {
                if !matches!(error, Error::Conflict { .. }) {
                    return Err(error);
                }
                self.done.conflicts += 1;
                if STOP.load(Ordering::Relaxed) {
                    return Ok(self.done);
                }
            }
            self.done.note(operation, start.elapsed());
        }
        Ok(self.done)
    }

    fn operate(&mut self, operation: Operation) -> Result<(), Error> {
        let database = self.shared.database;
        match operation {
            Operation::Read { record } => {
                let found = database.get(&self.key(record))?.is_some();
                self.done.not_found += u64::from(!found);
            }
            Operation::Update { record } | Operation::Insert { record } => {
                let key = self.key(record);
                self.renew();
                database.put(&key, &self.value)?;
                self.changed(key.len(), 1);
            }
            Operation::ReadModifyWrite { record } => {
                let key = self.key(record);
                let mut transaction = database.begin();
                match transaction.get_for_update(&key)? {
                    Some(found) => {
                        self.value.resize(found.len(), 0);
                        self.renew();
                        transaction.put(&key, &self.value)?;
                        transaction.commit()?;
                        self.changed(key.len(), 1);
                    }
                    None => self.done.not_found += 1,
                }
            }
            Operation::Scan { first, records } => self.scan(first, records)?,
            Operation::UpdateScan { first, records } => {
                self.update_scan(database.begin(), first, records)?;
            }
        }
        Ok(())
    }

    fn scan(&self, first: u64, records: u64) -> Result<(), Error> {
        let count = usize::try_from(records).unwrap_or(usize::MAX);
        let from = (Bound::Included(self.key(first)), Bound::Unbounded);
        let range = self.shared.database.range(from).expecting(count);
        for record in range.take(count) {
            std::hint::black_box(record?);
        }
        Ok(())
    }

    fn update_scan(
        &mut self,
        mut transaction: Transaction<'_>,
        first: u64,
        records: u64,
    ) -> Result<(), Error> {
        let key = self.key(first);
        let seed = &mut self.seed;
        let updated = transaction.update_range(&key, records, |_, old| {
            let mut value = vec![0; old.len()];
            fill(&mut value, seed);
            Some(value)
        })?;
        transaction.commit()?;
        self.changed(key.len(), updated);
        Ok(())
    }

    fn key(&self, record: u64) -> Vec<u8> {
        self.shared.course.subject.keys.key(record)
    }

    /// Another value.
    fn renew(&mut self) {
        fill(&mut self.value, &mut self.seed);
    }

    fn changed(&mut self, key: usize, records: u64) {
        self.done.bytes_changed += (key + self.value.len()) as u64 * records;
    }
}

fn fill(value: &mut [u8], seed: &mut u64) {
    *seed = seed.wrapping_add(1);
    fill_value(value, *seed);
}
