//! Threads that run the operations of a workload.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ebbpool_btree::{Database, DatabaseError, Transaction};
use ebbpool_trace::workload::{WorkloadOperation, fill_value};
use hdrhistogram::Histogram;

use super::loaded_records::LoadedRecords;
use super::operations::Operations;
use super::report::Latency;
use crate::db::error::DbError;
use crate::progress::{self, STOP};

/// The longest latency that the histogram resolves; longer operations count as this long.
const LONGEST: Duration = Duration::from_secs(600);

/// The time between two updates of the progress bar.
const BAR_INTERVAL: Duration = Duration::from_millis(200);

/// The parameters of a run of the workload.
pub(super) struct WorkloadRun<'a> {
    pub(super) threads: u16,
    pub(super) limit: Option<Duration>,
    pub(super) seed: u64,
    pub(super) loaded: &'a LoadedRecords,
}

/// The names of the kinds of operations in the report.
const KINDS: [&str; 6] = ["read", "update", "read-modify-write", "insert", "scan", "scan update"];

fn kind(operation: WorkloadOperation) -> usize {
    match operation {
        WorkloadOperation::Read { .. } => 0,
        WorkloadOperation::Update { .. } => 1,
        WorkloadOperation::ReadModifyWrite { .. } => 2,
        WorkloadOperation::Insert { .. } => 3,
        WorkloadOperation::Scan { .. } => 4,
        WorkloadOperation::UpdateScan { .. } => 5,
    }
}

/// The result of a run of the workload.
#[derive(Debug, Default)]
pub(super) struct WorkloadResult {
    /// The latencies in nanoseconds, for each kind of operation.
    latencies: [Option<Histogram<u64>>; KINDS.len()],
    /// Bytes of the changed keys and values.
    pub(super) bytes_changed: u64,
    /// Reads of records that did not exist, or not yet.
    pub(super) not_found: u64,
    /// Transactions that a thread repeated because another transaction had locked a key.
    pub(super) conflicts: u64,
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
}

impl WorkloadResult {
    pub(super) fn transactions(&self) -> u64 {
        self.latencies.iter().flatten().map(Histogram::len).sum()
    }

    pub(super) fn latencies(&self) -> Vec<Latency> {
        let kinds = KINDS.into_iter().zip(&self.latencies);
        let latency = |(kind, histogram): (_, &Option<Histogram<u64>>)| {
            let histogram = histogram.as_ref()?;
            let us = |ns: u64| ns as f64 / 1000.0;
            Some(Latency {
                kind,
                count: histogram.len(),
                p50_us: us(histogram.value_at_quantile(0.5)),
                p99_us: us(histogram.value_at_quantile(0.99)),
                max_us: us(histogram.max()),
            })
        };
        kinds.filter_map(latency).collect()
    }

    fn record(&mut self, operation: WorkloadOperation, elapsed: Duration) {
        let slot = &mut self.latencies[kind(operation)];
        let histogram = match slot {
            Some(histogram) => histogram,
            None => match Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3) {
                Ok(new) => slot.insert(new),
                Err(_) => return,
            },
        };
        let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        histogram.saturating_record(ns.max(1));
    }

    fn add(&mut self, other: WorkloadResult) {
        for (ours, theirs) in self.latencies.iter_mut().zip(other.latencies) {
            match (ours, theirs) {
                // Both histograms have the same bounds, so `add` cannot fail.
                (Some(ours), Some(theirs)) => ours.add(&theirs).unwrap_or_default(),
                (ours, theirs) => *ours = ours.take().or(theirs),
            }
        }
        self.bytes_changed += other.bytes_changed;
        self.not_found += other.not_found;
        self.conflicts += other.conflicts;
    }
}

/// Runs the operations on several threads, each operation as a transaction.
pub(super) fn run_workload(
    database: &Database,
    operations: Operations,
    run: &WorkloadRun<'_>,
) -> Result<WorkloadResult, DbError> {
    let start = Instant::now();
    let shared = SharedState {
        database,
        run,
        deadline: run.limit.and_then(|limit| start.checked_add(limit)),
        operations: Mutex::new(operations.iterator),
        begun: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    let count = operations.count;
    let mut result = std::thread::scope(|scope| {
        let shared = &shared;
        let threads = (0..run.threads).map(|thread| {
            scope.spawn(move || {
                let outcome = Worker::new(shared, thread).run();
                shared.failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                outcome
            })
        });
        let threads: Vec<_> = threads.collect();
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(move || shared.show_progress(count, start, &ended));
        let mut result = WorkloadResult::default();
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => result.add(part),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(end);
        failure.map_or(Ok(result), Err)
    })?;
    result.seconds = start.elapsed().as_secs_f64();
    result.interrupted = STOP.load(Ordering::Relaxed);
    Ok(result)
}

/// The state that all workers share.
struct SharedState<'a> {
    database: &'a Database,
    run: &'a WorkloadRun<'a>,
    deadline: Option<Instant>,
    operations: Mutex<Box<dyn Iterator<Item = WorkloadOperation> + Send>>,
    /// The number of operations begun.
    begun: AtomicU64,
    failed: AtomicBool,
}

impl SharedState<'_> {
    fn next(&self) -> Option<WorkloadOperation> {
        let expired = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if expired || STOP.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        self.begun.fetch_add(1, Ordering::Relaxed);
        operations.next()
    }

    /// Updates the progress bar until the caller drops the other end of the channel.
    fn show_progress(&self, count: Option<u64>, start: Instant, end: &mpsc::Receiver<()>) {
        let bar = progress::bar("working");
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(BAR_INTERVAL) {
            let begun = self.begun.load(Ordering::Relaxed);
            let by_count = count.map_or(0.0, |count| begun as f64 / count.max(1) as f64);
            let by_time = self.run.limit.map_or(0.0, |limit| start.elapsed().as_secs_f64() / limit.as_secs_f64());
            progress::set(&bar, by_count.max(by_time).min(1.0));
        }
        bar.finish_and_clear();
    }
}

/// The state of one thread.
struct Worker<'a> {
    shared: &'a SharedState<'a>,
    /// The seed of the next value to write; each value has its own.
    seed: u64,
    value: Vec<u8>,
    result: WorkloadResult,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a SharedState<'a>, thread: u16) -> Self {
        let WorkloadRun { loaded, seed, .. } = shared.run;
        Worker {
            shared,
            seed: seed.rotate_left(32) ^ (u64::from(thread) << 48),
            value: vec![0; loaded.value_bytes],
            result: WorkloadResult::default(),
        }
    }

    fn run(mut self) -> Result<WorkloadResult, DatabaseError> {
        while let Some(operation) = self.shared.next() {
            let start = Instant::now();
            // If another transaction holds a key, the thread repeats its own, as clients do.
            while let Err(error) = self.operate(operation) {
                if !matches!(error, DatabaseError::Conflict { .. }) {
                    return Err(error);
                }
                self.result.conflicts += 1;
                if STOP.load(Ordering::Relaxed) {
                    return Ok(self.result);
                }
            }
            self.result.record(operation, start.elapsed());
        }
        Ok(self.result)
    }

    fn operate(&mut self, operation: WorkloadOperation) -> Result<(), DatabaseError> {
        let database = self.shared.database;
        match operation {
            WorkloadOperation::Read { record } => {
                let found = database.get(&self.key(record))?.is_some();
                self.result.not_found += u64::from(!found);
            }
            WorkloadOperation::Update { record } | WorkloadOperation::Insert { record } => {
                let key = self.key(record);
                self.next_value();
                database.put(&key, &self.value)?;
                self.count_changed(key.len(), 1);
            }
            WorkloadOperation::ReadModifyWrite { record } => {
                let key = self.key(record);
                let mut transaction = database.begin();
                match transaction.get_for_update(&key)? {
                    Some(found) => {
                        self.value.resize(found.len(), 0);
                        self.next_value();
                        transaction.put(&key, &self.value)?;
                        transaction.commit()?;
                        self.count_changed(key.len(), 1);
                    }
                    None => self.result.not_found += 1,
                }
            }
            WorkloadOperation::Scan { first, records } => self.scan(first, records)?,
            WorkloadOperation::UpdateScan { first, records } => {
                self.update_scan(database.begin(), first, records)?;
            }
        }
        Ok(())
    }

    fn scan(&self, first: u64, records: u64) -> Result<(), DatabaseError> {
        let count = usize::try_from(records).unwrap_or(usize::MAX);
        let from = (Bound::Included(self.key(first)), Bound::Unbounded);
        let range = self.shared.database.range(from).expecting(count);
        for record in range.take(count) {
            std::hint::black_box(record?);
        }
        Ok(())
    }

    fn update_scan(&mut self, mut transaction: Transaction<'_>, first: u64, records: u64) -> Result<(), DatabaseError> {
        let key = self.key(first);
        let seed = &mut self.seed;
        let updated = transaction.update_range(&key, records, |_, old| {
            let mut value = vec![0; old.len()];
            fill(&mut value, seed);
            Some(value)
        })?;
        transaction.commit()?;
        self.count_changed(key.len(), updated);
        Ok(())
    }

    fn key(&self, record: u64) -> Vec<u8> {
        self.shared.run.loaded.keys.key(record)
    }

    /// Fills the buffer with the next value.
    fn next_value(&mut self) {
        fill(&mut self.value, &mut self.seed);
    }

    fn count_changed(&mut self, key: usize, records: u64) {
        self.result.bytes_changed += (key + self.value.len()) as u64 * records;
    }
}

fn fill(value: &mut [u8], seed: &mut u64) {
    *seed = seed.wrapping_add(1);
    fill_value(value, *seed);
}
