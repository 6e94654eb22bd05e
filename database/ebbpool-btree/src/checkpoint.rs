//! Checkpoints, which let the log become shorter.

use std::sync::Arc;
use std::time::Duration;

use ebbpool::{Log, Lsn, Unit};

use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::log::{FIRST, LogCopy, Position, Record, RoomUse, TxnId};
use crate::recovery::{self, MICROS_PER_BYTE};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// How long the checkpoint thread pauses before it goes on with the work of ended transactions.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// After this many bytes of log the time that a recovery would take is estimated again.
const ESTIMATE_EVERY: u64 = 4096;

/// What reading and writing a page is assumed to take where the pool does not measure it, in µs.
const UNKNOWN_PAGE_MICROS: f64 = 100.0;

/// The most bytes that a checkpoint logs.
pub(crate) const OF_CHECKPOINT: u64 = 256;

/// When checkpoints are due, and their results.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Bytes of log after which one is due.
    every: u64,
    /// The longest time that a recovery is to take, if there is one.
    within: Option<Duration>,
    /// What a byte of log takes of it.
    micros_per_byte: f64,
    /// The log's end when that time was estimated last, and the estimate for what the next checkpoint saves, in µs.
    estimated_at: AtomicU64,
    estimate: AtomicU64,
    /// Pages that the pool had written after the latest one.
    written: AtomicU64,
    /// The log's end when the latest attempt began.
    tried_at: AtomicU64,
    /// The latest checkpoint. The thread that takes one holds the mutex, so that there is one at a time.
    turn: Mutex<Option<CompletedCheckpoint>>,
    taken: AtomicU64,
    /// All changes up to here are in the pages.
    covered: AtomicU64,
    /// The error of the latest attempt, if it failed.
    failure: Mutex<Option<String>>,
    /// Wakes the checkpoint thread, if there is one.
    signal: Option<Arc<CheckpointSignal>>,
}

/// A checkpoint that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompletedCheckpoint {
    /// All changes up to here are in the pages.
    pub(crate) covered: Lsn,
    /// Where the checkpoint's own record begins.
    pub(crate) position: Position,
    /// Where that record ends.
    pub(crate) end: Lsn,
}

impl CompletedCheckpoint {
    /// True if another checkpoint would have nothing to do when the log ends here.
    pub(crate) fn covers_all(self, log_end: Lsn) -> bool {
        self.end == log_end && self.covered == self.position
    }
}

#[derive(Debug, Default)]
struct CheckpointSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    due: bool,
    /// Ended transactions have work left.
    unfinished: bool,
    stop: bool,
}

/// The thread that takes checkpoints. Dropping this ends it.
pub(crate) struct Checkpointer {
    signal: Arc<CheckpointSignal>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// `latest` is the latest checkpoint in the log, if any.
    pub(crate) fn new(
        every: u64,
        (within, micros_per_byte): (Option<Duration>, f64),
        background: bool,
        log_end: Lsn,
        latest: Option<CompletedCheckpoint>,
    ) -> Self {
        Checkpoints {
            every,
            within,
            micros_per_byte,
            estimated_at: AtomicU64::new(log_end),
            estimate: AtomicU64::new(0),
            written: AtomicU64::new(0),
            tried_at: AtomicU64::new(log_end),
            turn: Mutex::new(latest),
            taken: AtomicU64::new(0),
            covered: AtomicU64::new(latest.map_or(log_end, |latest| latest.covered)),
            failure: Mutex::new(None),
            signal: background.then(Arc::default),
        }
    }

    /// Prevents checkpoints until the returned guard is dropped, since each of them changes the first page.
    pub(crate) fn hold_off(&self) -> impl Drop + '_ {
        self.turn.lock()
    }

    /// Announces to the checkpoint thread, if there is one, that ended transactions have work left.
    pub(crate) fn wake(&self) {
        if let Some(signal) = &self.signal {
            signal.state.lock().unfinished = true;
            signal.changed.notify_one();
        }
    }

    /// Why the latest one failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Whether the next one saves a recovery more than this part of the time that it may take: 1 of `parts`.
    fn saves(&self, parts: u32) -> bool {
        self.within.is_some_and(|within| Duration::from_micros(self.estimate.load(Ordering::Relaxed)) > within / parts)
    }

    /// The number of checkpoints so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl DatabaseInner {
    /// Takes a checkpoint now.
    ///
    /// # Errors
    ///
    /// Errors of the pool and the log.
    pub(crate) fn checkpoint(&self) -> Result<(), DatabaseError> {
        self.take_checkpoint(&mut self.checkpoints.turn.lock())
    }

    /// Takes a checkpoint, and calls `then` before another one is taken; with the checkpoint, if it covers all changes.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint), and those of `then`.
    pub(crate) fn checkpoint_and<R>(
        &self,
        then: impl FnOnce(Option<CompletedCheckpoint>) -> Result<R, DatabaseError>,
    ) -> Result<R, DatabaseError> {
        let mut turn = self.checkpoints.turn.lock();
        self.take_checkpoint(&mut turn)?;
        then(turn.filter(|checkpoint| checkpoint.covers_all(self.tree.wal.end_lsn())))
    }

    /// Takes a checkpoint, and has the log keep all records since then until [`live`](Self::live) ends `txn`. Returns from where on a
    /// recovery redoes the changes of pages as they are from now on.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub(crate) fn keep_log(&self, txn: TxnId) -> Result<Lsn, DatabaseError> {
        let mut turn = self.checkpoints.turn.lock();
        self.take_checkpoint(&mut turn)?;
        let covered = turn.map_or(FIRST, |checkpoint| checkpoint.covered);
        self.live.keep(txn, covered);
        Ok(covered)
    }

    /// Ends the log with a checkpoint from which a recovery redoes everything since `redo_from`, and hands over the bytes of both files.
    /// Returns how many these are.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`], and the errors of `write`.
    pub(crate) fn copy_log(&self, redo_from: Lsn, write: &mut LogCopy<'_>) -> Result<u64, DatabaseError> {
        // Only checkpoints have the log continue in the other file.
        let _none = self.checkpoints.hold_off();
        self.check_writable()?;
        let wal = &self.tree.wal;
        let _room = wal.promise_room(OF_CHECKPOINT, RoomUse::Checkpoint)?;
        let appended = wal.append(&Record::Checkpoint { redo_from })?;
        wal.sync(appended.lsn)?;
        wal.copy(write)
    }

    /// Called before an operation that adds to the log. Waits for a checkpoint, or takes one, if the log since the latest
    /// one is twice as long as that between two should be. The log that an open transaction keeps does not count, since
    /// the wait for it might have no end.
    ///
    /// # Errors
    ///
    /// Why that checkpoint failed.
    pub(crate) fn keep_log_short(&self) -> Result<(), DatabaseError> {
        let Checkpoints { every, covered, turn, within, estimated_at, estimate, .. } = &self.checkpoints;
        let end = self.tree.wal.end_lsn();
        if within.is_some() && end.saturating_sub(estimated_at.load(Ordering::Relaxed)) >= ESTIMATE_EVERY {
            estimated_at.store(end, Ordering::Relaxed);
            estimate.store(self.redo_time().as_micros() as u64, Ordering::Relaxed);
        }
        let is_long = || {
            let since = self.tree.wal.end_lsn().saturating_sub(covered.load(Ordering::Relaxed));
            since > every.saturating_mul(2) || self.checkpoints.saves(2)
        };
        if !is_long() {
            return Ok(());
        }
        let mut turn = turn.lock();
        match is_long() {
            true => self.take_checkpoint(&mut turn),
            false => Ok(()),
        }
    }

    /// Takes a checkpoint, or wakes the thread that does, if the log has grown enough since the last one.
    pub(crate) fn checkpoint_if_due(&self) {
        if !self.is_checkpoint_due() {
            return;
        }
        match &self.checkpoints.signal {
            Some(signal) => {
                signal.state.lock().due = true;
                signal.changed.notify_one();
            }
            None => self.checkpoint_automatically(),
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let Checkpoints { every, tried_at, .. } = &self.checkpoints;
        let since = self.tree.wal.end_lsn().saturating_sub(tried_at.load(Ordering::Relaxed));
        since >= *every || self.checkpoints.saves(4)
    }

    /// How long a recovery would take that has to read the log and bring the pages up to date which were changed since the latest
    /// checkpoint: these are dirty or were written since then.
    pub(crate) fn recovery_estimate(&self) -> Duration {
        let wal = &self.tree.wal;
        // What is before the latest checkpoint is only read, twice.
        let scans = wal.end_lsn().saturating_sub(wal.begin()) as f64 * MICROS_PER_BYTE / 2.0;
        self.redo_time() + Duration::from_micros(scans as u64)
    }

    /// The part of that time which the next checkpoint saves.
    fn redo_time(&self) -> Duration {
        let since = self.tree.wal.end_lsn().saturating_sub(self.checkpoints.covered.load(Ordering::Relaxed));
        let stats = self.tree.pool.stats();
        let written = stats.writes().saturating_sub(self.checkpoints.written.load(Ordering::Relaxed));
        let pages = self.tree.pool.pages().min(written + u64::from(stats.dirty));
        let of_page = match stats.costs.unit {
            Unit::Microseconds => stats.costs.read + stats.costs.write,
            _ => UNKNOWN_PAGE_MICROS,
        };
        let micros = since as f64 * self.checkpoints.micros_per_byte + pages as f64 * of_page;
        Duration::from_micros(micros as u64)
    }

    /// Takes a checkpoint that is still due, unless another thread is taking one. The statistics have its error.
    fn checkpoint_automatically(&self) {
        if let Some(mut turn) = self.checkpoints.turn.try_lock()
            && self.is_checkpoint_due()
        {
            let _ = self.take_checkpoint(&mut turn);
        }
    }

    /// Goes on with the work of ended transactions, unless another thread takes a checkpoint, or prevents them.
    fn finish_ended_automatically(&self) {
        if let Some(_turn) = self.checkpoints.turn.try_lock() {
            // What fails comes again after a pause.
            let _ = self.finish_ended();
        }
    }

    fn take_checkpoint(&self, latest: &mut Option<CompletedCheckpoint>) -> Result<(), DatabaseError> {
        let outcome = self.try_checkpoint(latest);
        let failure = outcome.as_ref().err().map(DatabaseError::to_string);
        if let Some(error) = &failure {
            tracing::error!(error, "a checkpoint failed");
        }
        *self.checkpoints.failure.lock() = failure;
        outcome
    }

    fn try_checkpoint(&self, latest: &mut Option<CompletedCheckpoint>) -> Result<(), DatabaseError> {
        // In a broken database pages may lack changes that the log has. Then the log must not become
        // shorter, and must not have a checkpoint that claims those changes.
        self.check_writable()?;
        // An error of theirs does not pass with a checkpoint, which goes on without them: the log keeps their records.
        let _ = self.finish_ended();
        let _broken = self.panic_guard();
        let (wal, pool) = (&*self.tree.wal, &self.tree.pool);
        let end = wal.end_lsn();
        self.checkpoints.tried_at.store(end, Ordering::Relaxed);
        if let Some(checkpoint) = latest.filter(|checkpoint| checkpoint.covers_all(end)) {
            // What kept the log from becoming shorter then may have ended.
            return wal.truncate(self.needed_from(checkpoint.covered));
        }
        let room = wal.promise_room(OF_CHECKPOINT, RoomUse::Checkpoint)?;
        recovery::renew_first_page(&self.tree)?;
        let begin = wal.end_lsn();
        let covered = pool.checkpoint()?.covered.min(begin);
        self.check_writable()?;
        // The records that end other transactions are in the log before the checkpoint's record, and become
        // durable with it.
        let needed_from = self.needed_from(covered);
        // The record claims that the log is durable up to there: records that are missing before it were
        // lost to damage, not to a crash.
        wal.sync(covered)?;
        let appended = wal.append(&Record::Checkpoint { redo_from: covered })?;
        wal.sync(appended.lsn)?;
        wal.witness_in_both()?;
        *latest = Some(CompletedCheckpoint { covered, position: appended.position, end: appended.lsn });
        self.checkpoints.covered.store(covered, Ordering::Relaxed);
        self.checkpoints.taken.fetch_add(1, Ordering::Relaxed);
        self.checkpoints.written.store(pool.stats().writes(), Ordering::Relaxed);
        self.checkpoints.estimate.store(0, Ordering::Relaxed);
        drop(room);
        wal.truncate(needed_from)
    }

    /// From where on records are needed, if all changes up to `covered` are in the pages.
    pub(crate) fn needed_from(&self, covered: Lsn) -> Position {
        self.live.oldest().map_or(covered, |(first, _)| first.min(covered))
    }
}

impl Checkpointer {
    /// Starts the thread, if the options ask for one.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(crate) fn start(inner: &Arc<DatabaseInner>) -> Result<Option<Self>, DatabaseError> {
        let Some(signal) = inner.checkpoints.signal.clone() else {
            return Ok(None);
        };
        let (thread_inner, thread_signal) = (Arc::clone(inner), Arc::clone(&signal));
        let named = thread::Builder::new().name("ebbpool-log".into());
        let thread = named.spawn(move || {
            while let Some(due) = thread_signal.wait() {
                match due {
                    true => thread_inner.checkpoint_automatically(),
                    false => thread_inner.finish_ended_automatically(),
                }
            }
        });
        let thread = thread
            .map_err(|source| ebbpool::PoolError::Storage { what: "the thread for checkpoints cannot be started", source })?;
        Ok(Some(Checkpointer { signal, thread: Some(thread) }))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.signal.state.lock().stop = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl CheckpointSignal {
    /// Waits until there is something to do. Returns whether a checkpoint is due, nothing if the thread is to end.
    fn wait(&self) -> Option<bool> {
        let mut state = self.state.lock();
        while !state.due && !state.stop {
            if !state.unfinished {
                self.changed.wait(&mut state);
            } else if self.changed.wait_for(&mut state, BETWEEN_TRIES).timed_out() {
                break;
            }
        }
        let due = std::mem::take(&mut state.due);
        state.unfinished = false;
        (!state.stop).then_some(due)
    }
}
