//! The threads of a pool: one that writes before it has to be waited for, one that reads ahead.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::frames::State;
use crate::stats::WriteCause;
use crate::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::sync::{AtomicBool, Condvar, Instant, Mutex, Ordering};

/// How long the writer sleeps where nobody calls it.
const NAP: Duration = Duration::from_millis(50);

/// How often statistics are handed to the `metrics` facade.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// After a failure it waits so long, lest it try the same in a circle.
const AFTER_A_FAILURE: Duration = Duration::from_millis(500);

/// How the writer is called.
#[derive(Default)]
pub(crate) struct Signal {
    wanted: Mutex<bool>,
    called: Condvar,
    stop: AtomicBool,
}

impl Signal {
    /// Pages had to be written by those who wanted frames, or too many are dirty.
    pub(crate) fn more_to_do(&self) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            *wanted = true;
            self.called.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        *self.wanted.lock() = true;
        self.called.notify_all();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sleeps whoever calls, unless told to stop.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut wanted = self.wanted.lock();
        while !self.stopped() && !self.called.wait_until(&mut wanted, until).timed_out() {}
    }

    fn sleep(&self, longest: Duration) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            self.called.wait_for(&mut wanted, longest);
        }
        *wanted = false;
    }
}

/// What the writer sees to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duties {
    /// Pages that have to make room next and are to be clean.
    pub(crate) reserve: usize,
    pub(crate) max_dirty_age: Option<Duration>,
}

/// Writes until it is told to stop.
pub(crate) fn write(core: &Arc<Core>, duties: Duties, publish: impl Fn()) {
    let Some(signal) = &core.signal else { return };
    let mut published = Instant::now();
    let nap = duties.max_dirty_age.map_or(NAP, |age| NAP.min(age / 4));
    while !signal.stopped() {
        signal.sleep(nap);
        if signal.stopped() {
            return;
        }
        if core.transfer.check_writable().is_ok() {
            let _span = tracing::debug_span!("background_write").entered();
            if let Err(error) = work(core, duties) {
                tracing::warn!(%error, "the background writer could not write");
                signal.pause(AFTER_A_FAILURE);
            }
        }
        if published.elapsed() >= PUBLISH_EVERY {
            published = Instant::now();
            publish();
        }
    }
}

fn work(core: &Core, duties: Duties) -> Result<(), crate::Error> {
    let over = core
        .frames
        .dirty()
        .count()
        .saturating_sub(core.limits.dirty_budget);
    if over > 0 {
        let dirty =
            core.policy()
                .next_dirty(over.min(core.frames.most_copies()), true, &core.frames);
        core.write_frames(dirty, WriteCause::Background)?;
    }
    if duties.reserve > 0 && core.policy().is_full(&core.frames) {
        let dirty = core
            .policy()
            .next_dirty(duties.reserve, false, &core.frames);
        core.write_frames(dirty, WriteCause::Background)?;
    }
    match duties.max_dirty_age {
        Some(age) => write_the_old(core, age),
        None => Ok(()),
    }
}

fn write_the_old(core: &Core, age: Duration) -> Result<(), crate::Error> {
    let age_ms = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
    // They are written a little early rather than late.
    let due = age_ms - age_ms / 4;
    let mut old = core.frames.dirty().frames();
    old.retain(|&frame| {
        core.frames.state(frame) == State::Dirty && core.frames.dirty_for_ms(frame) >= due
    });
    if old.is_empty() {
        return Ok(());
    }
    core.write_frames(old, WriteCause::Background)?;
    core.transfer.sync()
}

/// Reads ahead until it is told to stop.
pub(crate) fn read(core: &Arc<Core>, ranges: &Receiver<Range<u64>>) {
    loop {
        if core.signal.as_ref().is_some_and(Signal::stopped) {
            return;
        }
        match ranges.recv_timeout(NAP) {
            Ok(range) => {
                let pages = core.pages.load(Ordering::Relaxed);
                core.bring_in_ahead(range.start..range.end.min(pages));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
