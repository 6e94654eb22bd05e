//! Syncs of a storage, one at a time, and the consequences of a failed one.
//!
//! A kernel reports a failed write only once for each open file. Of two syncs that are under way at the same time one
//! fails and the other may succeed, and so may every later one, although the same writes are lost (`fsync(2)`;
//! Rebello et al., Can applications recover from fsync failures?, ATC 2020). A sync that succeeds therefore proves
//! something only if no sync has failed before it ended:
//!
//! 1. One sync is under way at a time.
//! 2. A sync that fails, or panics, poisons before its turn ends, and so before the next one begins.
//! 3. A caller is acknowledged only by a sync that began after its call, succeeded, and found the storage unpoisoned
//!    when its turn ended.
//!
//! By 1 and 2 a sync that begins after a failed one has ended finds the storage poisoned, and by 1 none is under way
//! beside it; so by 3 no write is acknowledged that a failed sync may have lost.

use std::io;
use std::sync::OnceLock;

use crate::sync::{Condvar, Mutex};

/// Syncs a storage for all its callers, one sync at a time, and not at all after a failed one.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    /// Why nothing is written any more.
    poisoned: OnceLock<String>,
    turns: Mutex<SyncTurns>,
    turn_ended: Condvar,
}

/// Syncs are numbered from 1 in the order in which they begin.
#[derive(Debug, Default)]
struct SyncTurns {
    begun: u64,
    ended: u64,
}

/// Why a sync does not acknowledge the caller's writes.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// The caller's own sync failed.
    Failed(io::Error),
    /// Another sync failed before; its cause.
    Poisoned(String),
}

impl From<SyncError> for io::Error {
    fn from(why: SyncError) -> Self {
        match why {
            SyncError::Failed(error) => error,
            SyncError::Poisoned(cause) => io::Error::other(format!("a sync has failed before: {cause}")),
        }
    }
}

impl GroupSync {
    /// Why nothing is written any more, if so.
    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.get().map(String::as_str)
    }

    /// Nothing is acknowledged from now on.
    pub(crate) fn poison(&self, cause: String) {
        if self.poisoned.set(cause).is_ok() {
            let cause = self.poisoned();
            tracing::error!(cause, "a sync failed; the pool no longer writes");
        }
    }

    fn check(&self) -> Result<(), SyncError> {
        match self.poisoned() {
            None => Ok(()),
            Some(cause) => Err(SyncError::Poisoned(cause.into())),
        }
    }

    /// Syncs everything that was written before the call, by `sync` in this thread or in another caller's: callers
    /// that arrive while a sync is under way share the next one.
    pub(crate) fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), SyncError> {
        let mut turns = self.turns.lock();
        // A sync that is under way may have begun before the caller's writes.
        let first_sufficient = turns.begun + 1;
        loop {
            self.check()?;
            if turns.ended >= first_sufficient {
                return Ok(());
            }
            if turns.begun == turns.ended {
                break;
            }
            self.turn_ended.wait(&mut turns);
        }
        turns.begun += 1;
        drop(turns);
        let mut turn = SyncTurn { syncs: self, failed: Some("a sync panicked".into()) };
        let outcome = sync();
        turn.failed = outcome.as_ref().err().map(io::Error::to_string);
        drop(turn);
        outcome.map_err(SyncError::Failed)?;
        self.check()
    }
}

/// The turn of the thread that syncs for all callers.
struct SyncTurn<'s> {
    syncs: &'s GroupSync,
    failed: Option<String>,
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        if let Some(cause) = self.failed.take() {
            self.syncs.poison(cause);
        }
        let mut turns = self.syncs.turns.lock();
        turns.ended = turns.begun;
        self.syncs.turn_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{Scope, ScopedJoinHandle, scope, yield_now};

    use super::*;

    fn failed() -> io::Error {
        io::Error::from_raw_os_error(5)
    }

    /// A sync that is under way until the test sends a message.
    fn blocked_sync<'s>(
        syncs: &'s GroupSync,
        scope: &'s Scope<'s, '_>,
        outcome: io::Result<()>,
    ) -> (Sender<()>, ScopedJoinHandle<'s, Result<(), SyncError>>) {
        let (go_on, blocked) = channel();
        let (begun, has_begun) = channel();
        let thread = scope.spawn(move || {
            syncs.sync(|| {
                let _ = begun.send(());
                let _ = blocked.recv();
                outcome
            })
        });
        has_begun.recv().expect("the sync began");
        (go_on, thread)
    }

    #[test]
    fn callers_that_arrive_while_a_sync_is_under_way_share_the_next() {
        let syncs = GroupSync::default();
        let (count, started) = (AtomicU32::new(0), AtomicU32::new(0));
        scope(|scope| {
            let (go_on, first) = blocked_sync(&syncs, scope, Ok(()));
            let (syncs, count, started) = (&syncs, &count, &started);
            scope.spawn(move || {
                while started.load(Ordering::SeqCst) < 5 {
                    yield_now();
                }
                let _ = go_on.send(());
            });
            for _ in 0..5 {
                scope.spawn(move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    let counted = || {
                        count.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    syncs.sync(counted).expect("it is synced");
                });
            }
            first.join().expect("no panic").expect("it is synced");
        });
        // A thread that had started and not yet called when the first sync ended may have had its own.
        assert!((1..=5).contains(&count.into_inner()));
        let turns = syncs.turns.lock();
        assert_eq!(turns.begun, turns.ended);
    }

    #[test]
    fn a_failure_reaches_all_that_wait_and_all_later_callers() {
        let syncs = GroupSync::default();
        scope(|scope| {
            let (go_on, first) = blocked_sync(&syncs, scope, Err(failed()));
            let syncs = &syncs;
            let others = [(); 3].map(|()| scope.spawn(|| syncs.sync(|| Ok(()))));
            let _ = go_on.send(());
            let first = first.join().expect("no panic");
            assert!(matches!(first, Err(SyncError::Failed(_))), "{first:?}");
            for other in others {
                let other = other.join().expect("no panic");
                assert!(matches!(other, Err(SyncError::Poisoned(_))), "{other:?}");
            }
        });
        let never = || panic!("synced after a failure");
        assert!(matches!(syncs.sync(never), Err(SyncError::Poisoned(_))));
    }

    #[test]
    fn a_sync_that_panics_ends_its_turn_and_poisons() {
        let syncs = GroupSync::default();
        let panics = AssertUnwindSafe(|| syncs.sync(|| panic!("on purpose")));
        assert!(catch_unwind(panics).is_err());
        assert!(matches!(syncs.sync(|| Ok(())), Err(SyncError::Poisoned(_))));
    }

    #[test]
    fn a_sync_during_which_the_storage_is_poisoned_does_not_acknowledge() {
        let syncs = GroupSync::default();
        let outcome = syncs.sync(|| {
            syncs.poison("the area could not be synced".into());
            Ok(())
        });
        assert!(matches!(outcome, Err(SyncError::Poisoned(_))));
    }
}
