//! Syncs of a storage, one at a time, and what a failed one ends.
//!
//! A kernel reports that it could not write once for each open file: of two syncs that are under way
//! at the same time one fails and the other may succeed, and so may every later one, although the
//! same writes are lost (`fsync(2)`; Rebello et al., Can applications recover from fsync failures?,
//! ATC 2020). A sync that succeeds therefore proves something only if no sync has failed before it
//! ended:
//!
//! 1. One sync is under way at a time.
//! 2. A sync that fails, or panics, poisons before its turn ends, and so before the next one begins.
//! 3. Nothing is acknowledged but by a sync that began after the caller came, succeeded, and found
//!    the storage unpoisoned when its turn ended.
//!
//! By 1 and 2 a sync that began after a failed one has ended meets the poison, and by 1 none is under
//! way beside it; so 3 acknowledges nothing that a failed sync may have lost.

use std::io;
use std::sync::OnceLock;

use crate::sync::{Condvar, Mutex};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    /// Why nothing is written any more.
    poisoned: OnceLock<String>,
    turns: Mutex<Turns>,
    turn_ended: Condvar,
}

/// Syncs are numbered from 1 in the order in which they begin.
#[derive(Debug, Default)]
struct Turns {
    begun: u64,
    ended: u64,
}

/// Why a sync acknowledges nothing.
#[derive(Debug)]
pub(crate) enum NotSynced {
    /// The caller's own sync failed.
    Failed(io::Error),
    /// Another one failed before; the cause.
    Poisoned(String),
}

impl From<NotSynced> for io::Error {
    fn from(why: NotSynced) -> Self {
        match why {
            NotSynced::Failed(error) => error,
            NotSynced::Poisoned(cause) => {
                io::Error::other(format!("a sync has failed before: {cause}"))
            }
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

    fn check(&self) -> Result<(), NotSynced> {
        match self.poisoned() {
            None => Ok(()),
            Some(cause) => Err(NotSynced::Poisoned(cause.into())),
        }
    }

    /// Has everything synced that was written before the call, by `sync` in this thread or in that of
    /// another caller: callers who come while a sync is under way share the next one.
    pub(crate) fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), NotSynced> {
        let mut turns = self.turns.lock();
        // One that is under way may have begun before the caller's writes.
        let first_that_will_do = turns.begun + 1;
        loop {
            self.check()?;
            if turns.ended >= first_that_will_do {
                return Ok(());
            }
            if turns.begun == turns.ended {
                break;
            }
            self.turn_ended.wait(&mut turns);
        }
        turns.begun += 1;
        drop(turns);
        let mut turn = Turn {
            syncs: self,
            failed: Some("a sync panicked".into()),
        };
        let outcome = sync();
        turn.failed = outcome.as_ref().err().map(io::Error::to_string);
        drop(turn);
        outcome.map_err(NotSynced::Failed)?;
        self.check()
    }
}

/// Held by the thread that syncs for all.
struct Turn<'s> {
    syncs: &'s GroupSync,
    failed: Option<String>,
}

impl Drop for Turn<'_> {
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

    /// A sync that is under way until something is sent.
    fn held_up<'s>(
        syncs: &'s GroupSync,
        scope: &'s Scope<'s, '_>,
        outcome: io::Result<()>,
    ) -> (Sender<()>, ScopedJoinHandle<'s, Result<(), NotSynced>>) {
        let (go_on, held_up) = channel();
        let (begun, has_begun) = channel();
        let thread = scope.spawn(move || {
            syncs.sync(|| {
                let _ = begun.send(());
                let _ = held_up.recv();
                outcome
            })
        });
        has_begun.recv().expect("the sync began");
        (go_on, thread)
    }

    #[test]
    fn callers_who_come_while_one_is_under_way_share_the_next() {
        let syncs = GroupSync::default();
        let (count, come) = (AtomicU32::new(0), AtomicU32::new(0));
        scope(|scope| {
            let (go_on, first) = held_up(&syncs, scope, Ok(()));
            let (syncs, count, come) = (&syncs, &count, &come);
            scope.spawn(move || {
                while come.load(Ordering::SeqCst) < 5 {
                    yield_now();
                }
                let _ = go_on.send(());
            });
            for _ in 0..5 {
                scope.spawn(move || {
                    come.fetch_add(1, Ordering::SeqCst);
                    let counted = || {
                        count.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    syncs.sync(counted).expect("it is synced");
                });
            }
            first.join().expect("no panic").expect("it is synced");
        });
        // One that had come and not yet asked when the first ended may have had its own.
        assert!((1..=5).contains(&count.into_inner()));
        let turns = syncs.turns.lock();
        assert_eq!(turns.begun, turns.ended);
    }

    #[test]
    fn a_failure_is_everyones_who_waited_and_everyones_after() {
        let syncs = GroupSync::default();
        scope(|scope| {
            let (go_on, first) = held_up(&syncs, scope, Err(failed()));
            let syncs = &syncs;
            let others = [(); 3].map(|()| scope.spawn(|| syncs.sync(|| Ok(()))));
            let _ = go_on.send(());
            let first = first.join().expect("no panic");
            assert!(matches!(first, Err(NotSynced::Failed(_))), "{first:?}");
            for other in others {
                let other = other.join().expect("no panic");
                assert!(matches!(other, Err(NotSynced::Poisoned(_))), "{other:?}");
            }
        });
        let never = || panic!("synced after a failure");
        assert!(matches!(syncs.sync(never), Err(NotSynced::Poisoned(_))));
    }

    #[test]
    fn a_sync_that_panics_ends_its_turn_and_poisons() {
        let syncs = GroupSync::default();
        let panics = AssertUnwindSafe(|| syncs.sync(|| panic!("on purpose")));
        assert!(catch_unwind(panics).is_err());
        assert!(matches!(syncs.sync(|| Ok(())), Err(NotSynced::Poisoned(_))));
    }

    #[test]
    fn what_was_poisoned_while_it_was_synced_is_not_acknowledged() {
        let syncs = GroupSync::default();
        let outcome = syncs.sync(|| {
            syncs.poison("the area could not be synced".into());
            Ok(())
        });
        assert!(matches!(outcome, Err(NotSynced::Poisoned(_))));
    }
}
