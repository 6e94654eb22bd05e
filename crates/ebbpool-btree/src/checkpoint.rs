//! Checkpoints: the log becomes shorter.

use std::sync::Arc;

use ebbpool::{Log, Lsn};

use crate::database::Inner;
use crate::error::Error;
use crate::log::{Position, Record};
use crate::recovery;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// When checkpoints are due, and what came of them.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Bytes of log after which one is due.
    every: u64,
    /// How long the log was when the latest one was tried.
    tried_at: AtomicU64,
    /// One at a time; what the latest one said.
    turn: Mutex<Option<Taken>>,
    taken: AtomicU64,
    /// Of one that nobody asked for.
    failure: Mutex<Option<Error>>,
    /// Told when one is due, if there is a thread for it.
    signal: Option<Arc<Signal>>,
}

/// A checkpoint that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Everything up to here is in the pages.
    pub(crate) covered: Lsn,
    /// Where its own record begins.
    pub(crate) position: Position,
    /// And where it ends.
    pub(crate) end: Lsn,
}

impl Taken {
    /// True if there is nothing for another one to do, when the log ends here.
    fn is_all(self, log_end: Lsn) -> bool {
        self.end == log_end && self.covered == self.position
    }
}

#[derive(Debug, Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    due: bool,
    stop: bool,
}

/// The thread that takes checkpoints. Ends when dropped.
pub(crate) struct Checkpointer {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// `latest`: the one that the log ends with, if it does.
    pub(crate) fn new(every: u64, background: bool, log_end: Lsn, latest: Option<Taken>) -> Self {
        Checkpoints {
            every,
            tried_at: AtomicU64::new(log_end),
            turn: Mutex::new(latest),
            taken: AtomicU64::new(0),
            failure: Mutex::new(None),
            signal: background.then(Arc::default),
        }
    }

    /// No checkpoint is taken until what this answers is dropped: each changes the first page.
    pub(crate) fn hold_off(&self) -> impl Drop + '_ {
        self.turn.lock()
    }

    /// Checkpoints so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Inner {
    /// Takes one now.
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with, or failed with when nobody was there to be told.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        let outcome = self.take_checkpoint(&mut self.checkpoints.turn.lock());
        match self.checkpoints.failure.lock().take() {
            Some(earlier) => Err(earlier),
            None => outcome,
        }
    }

    /// Takes one, or has it taken, if the log has become long enough since the last one.
    pub(crate) fn checkpoint_if_due(&self) {
        let checkpoints = &self.checkpoints;
        let tried_at = checkpoints.tried_at.load(Ordering::Relaxed);
        if self.tree.wal.end_lsn().saturating_sub(tried_at) < checkpoints.every {
            return;
        }
        match &checkpoints.signal {
            Some(signal) => {
                signal.state.lock().due = true;
                signal.changed.notify_one();
            }
            None => self.checkpoint_unasked(),
        }
    }

    /// Takes one, unless somebody else does, and keeps its error.
    fn checkpoint_unasked(&self) {
        let Some(mut turn) = self.checkpoints.turn.try_lock() else {
            return;
        };
        if let Err(error) = self.take_checkpoint(&mut turn) {
            tracing::error!(%error, "a checkpoint failed");
            self.checkpoints.failure.lock().get_or_insert(error);
        }
    }

    fn take_checkpoint(&self, latest: &mut Option<Taken>) -> Result<(), Error> {
        // Pages may lack changes that the log has: it must not become shorter, or say that they do not.
        self.check_whole()?;
        let _broken = self.broken_by_panic();
        let (wal, pool) = (&*self.tree.wal, &self.tree.pool);
        let end = wal.end_lsn();
        self.checkpoints.tried_at.store(end, Ordering::Relaxed);
        if latest.is_some_and(|it| it.is_all(end)) {
            return Ok(());
        }
        recovery::renew_first_page(&self.tree)?;
        let begin = wal.end_lsn();
        let covered = pool.checkpoint()?.covered.min(begin);
        self.check_whole()?;
        // Those that have ended by now are in the log before the checkpoint's record, and durable with it.
        let first = self.live.first();
        // The record says so: what is missing before that is not the end of the log, but damage.
        wal.sync(covered)?;
        let appended = wal.append(&Record::Checkpoint { redo_from: covered })?;
        wal.sync(appended.lsn)?;
        wal.witness_in_both()?;
        *latest = Some(Taken {
            covered,
            position: appended.position,
            end: appended.lsn,
        });
        self.checkpoints.taken.fetch_add(1, Ordering::Relaxed);
        wal.truncate(first.map_or(covered, |first| first.min(covered)))
    }
}

impl Checkpointer {
    /// Starts the thread, if the database is to have one.
    ///
    /// # Errors
    ///
    /// If the system has no threads left.
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Option<Self>, Error> {
        let Some(signal) = inner.checkpoints.signal.clone() else {
            return Ok(None);
        };
        let (theirs, heard) = (Arc::clone(inner), Arc::clone(&signal));
        let named = thread::Builder::new().name("ebbpool-log".into());
        let thread = named.spawn(move || {
            while heard.wait() {
                theirs.checkpoint_unasked();
            }
        });
        let thread = thread.map_err(|source| ebbpool::Error::Storage {
            what: "the thread for checkpoints cannot be started",
            source,
        })?;
        Ok(Some(Checkpointer {
            signal,
            thread: Some(thread),
        }))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.signal.state.lock().stop = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing left to be waited for.
            let _ = thread.join();
        }
    }
}

impl Signal {
    /// Waits until a checkpoint is due; false when there will be none any more.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.due && !state.stop {
            self.changed.wait(&mut state);
        }
        state.due = false;
        !state.stop
    }
}
