//! The threads of a pool: one writes dirty pages before other threads have to wait for that, and one reads ahead.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::core::{HeldPages, PoolShared};
use crate::frames::FrameState;
use crate::stats::WriteCause;
use crate::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::sync::{AtomicBool, Condvar, Instant, Mutex, Ordering};

/// The longest time that the writer sleeps, and that the reader waits for ranges.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// The least that the writer sleeps: the age of changes is measured in milliseconds.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// How often statistics are passed to the `metrics` facade.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// How long the writer leaves pages alone that it could not write, so that it does not repeat the same attempt without end.
const AFTER_A_FAILURE: Duration = Duration::from_millis(500);

/// Wakes and stops the background threads.
#[derive(Default)]
pub(crate) struct Signal {
    requested: Mutex<bool>,
    woken: Condvar,
    stop: AtomicBool,
}

impl Signal {
    /// Wakes the writer: a thread had to write a victim itself, or too many pages are dirty.
    pub(crate) fn more_to_do(&self) {
        let mut requested = self.requested.lock();
        if !*requested {
            *requested = true;
            self.woken.notify_one();
        }
    }

    /// True if a thread has woken the writer since it last looked.
    pub(crate) fn is_requested(&self) -> bool {
        *self.requested.lock()
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        *self.requested.lock() = true;
        self.woken.notify_all();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sleeps until a thread wakes the writer, or for this time; true if a thread did.
    fn sleep(&self, longest: Duration) -> bool {
        let mut requested = self.requested.lock();
        if !*requested {
            self.woken.wait_for(&mut requested, longest);
        }
        std::mem::take(&mut *requested)
    }
}

/// The settings of the background writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterSettings {
    /// The number of next victims that it keeps clean, if the caller has set one.
    pub(crate) reserve: Option<u32>,
    pub(crate) max_dirty_age: Option<Duration>,
}

impl WriterSettings {
    /// The number of next victims that it keeps clean in a pool of that many frames.
    fn reserve(self, frames: u32) -> usize {
        self.reserve.unwrap_or((frames / 64).clamp(1, 64)) as usize
    }
}

/// How long the writer sleeps if no thread wakes it.
fn nap(max_dirty_age: Option<Duration>) -> Duration {
    max_dirty_age.map_or(LONGEST_NAP, |age| (age / 4).clamp(SHORTEST_NAP, LONGEST_NAP))
}

/// Writes until the pool stops.
pub(crate) fn write(core: &Arc<PoolShared>, settings: WriterSettings, publish: impl Fn()) {
    let Some(signal) = &core.signal else { return };
    let mut published = Instant::now();
    let nap = nap(settings.max_dirty_age);
    let mut failed: Option<Instant> = None;
    let mut held = HeldPages::new();
    while !signal.stopped() {
        let requested = signal.sleep(nap);
        if signal.stopped() {
            return;
        }
        if core.transfer.check_writable().is_ok() {
            let _span = tracing::debug_span!("background_write").entered();
            if failed.is_some_and(|at| at.elapsed() < AFTER_A_FAILURE) {
                // Pages that cannot be written do not delay the others.
                if let Some(age) = settings.max_dirty_age {
                    let _ = write_aged(core, age, Aged::WritableLately, &mut held);
                }
            } else if let Err(error) = write_due_pages(core, settings, requested, &mut held) {
                tracing::warn!(%error, "the background writer could not write");
                failed = Some(Instant::now());
            }
        }
        if published.elapsed() >= PUBLISH_EVERY {
            published = Instant::now();
            publish();
        }
    }
}

/// `requested` says that a thread has woken the writer.
fn write_due_pages(
    core: &PoolShared,
    settings: WriterSettings,
    requested: bool,
    held: &mut HeldPages,
) -> Result<(), crate::PoolError> {
    let over = core.frames.dirty().count().saturating_sub(core.limits.dirty_budget());
    let mut outcome = Ok(());
    if over > 0 && !(requested && core.throttle.writes_are_instant()) {
        // A little below the budget, because a batch of a few pages takes nearly as long as a larger one.
        let count = over.max(core.limits.room(&core.frames) / 4);
        let most = core.frames.most_copies().min(core.throttle.batch());
        let count = count.min(most);
        let dirty = core.policy().next_dirty(count, true, &core.frames);
        core.throttle.batch_begins(dirty.len());
        let written = core.write_frames(dirty, WriteCause::Background);
        core.throttle.batch_ends(written.as_ref().map_or(0, |pages| *pages));
        outcome = written.map(drop);
    }
    let reserve = settings.reserve(core.frames.count());
    if reserve > 0 && core.policy().is_full(&core.frames) {
        let dirty = core.policy().next_dirty(reserve, false, &core.frames);
        let written = core.write_frames(dirty, WriteCause::Background);
        outcome = outcome.and(written.map(drop));
    }
    // Pages that cannot be written do not delay the others.
    match settings.max_dirty_age {
        Some(age) => outcome.and(write_aged(core, age, Aged::All, held)),
        None => outcome,
    }
}

/// Which of the pages that have been dirty for long are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aged {
    All,
    /// All but those whose last write failed.
    WritableLately,
}

/// Writes the pages that have been dirty for nearly this long, and syncs if any change that no sync covers is that old:
/// its page may have been evicted, or cleaned, since.
fn write_aged(core: &PoolShared, age: Duration, which: Aged, held: &mut HeldPages) -> Result<(), crate::PoolError> {
    let age_ms = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
    // They are written a little early rather than late.
    let due = age_ms - age_ms / 4;
    let mut aged = core.frames.dirty().frames();
    aged.retain(|&frame| core.frames.state(frame) == FrameState::Dirty && core.frames.dirty_for_ms(frame) >= due);
    if which == Aged::WritableLately {
        core.policy().retain_writable(&mut aged);
    }
    let written = match aged.is_empty() {
        true => Ok(0),
        false => core.write_in_turn(aged, held),
    };
    let due = Duration::from_millis(due.into());
    if core.transfer.unsynced_for().is_some_and(|age| age >= due) {
        core.transfer.sync()?;
    }
    written.map(drop)
}

/// Reads ahead until the pool stops.
pub(crate) fn read(core: &Arc<PoolShared>, ranges: &Receiver<Range<u64>>) {
    loop {
        if core.signal.as_ref().is_some_and(Signal::stopped) {
            return;
        }
        match ranges.recv_timeout(LONGEST_NAP) {
            Ok(range) => {
                let stored = core.transfer.spaces.of(range.start).stored();
                core.fetch_ahead(range.start..range.end.min(stored));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_sleeps_whatever_the_loss_window() {
        let nap_of = |age: Duration| nap(Some(age));
        assert_eq!(nap_of(Duration::ZERO), SHORTEST_NAP);
        assert_eq!(nap_of(Duration::from_micros(1)), SHORTEST_NAP);
        assert_eq!(nap_of(Duration::from_millis(40)), Duration::from_millis(10));
        assert_eq!(nap_of(Duration::MAX), LONGEST_NAP);
        assert_eq!(nap(None), LONGEST_NAP);
    }
}
