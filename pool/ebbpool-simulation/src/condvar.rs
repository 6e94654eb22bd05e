//! Waiting for a condition.

use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::mutex::{MutexGuard, WaiterCount};
use crate::time::Instant;
use crate::world::{self, BlockedOn, WakeReason, step};

/// A condition that threads wait for, used as `parking_lot::Condvar` is.
#[derive(Debug, Default)]
pub struct Condvar {
    waiting: AtomicUsize,
    plain: parking_lot::Condvar,
}

/// How a wait with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the deadline passed before another thread notified this one.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable for which no thread waits.
    pub const fn new() -> Self {
        Condvar { waiting: AtomicUsize::new(0), plain: parking_lot::Condvar::new() }
    }

    fn on(&self) -> BlockedOn {
        BlockedOn::Condvar((&raw const self.waiting).addr())
    }

    /// Waits until another thread notifies this one, or a spurious wakeup. The lock is released meanwhile.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        if world::is_simulated() {
            self.wait_until_in_run(guard, None, Location::caller());
        } else if let Some(guard) = guard.plain() {
            self.plain.wait(guard);
        }
    }

    /// Waits until another thread notifies this one, a spurious wakeup, or the deadline. The lock is released meanwhile.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> WaitTimeoutResult {
        let at = Location::caller();
        match world::is_simulated() {
            true => self.wait_until_in_run(guard, Some(deadline), at),
            false => self.wait_plainly(guard, deadline.saturating_duration_since(Instant::now())),
        }
    }

    /// Waits until another thread notifies this one, or a spurious wakeup, for a time at most. The lock is released meanwhile.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, longest: Duration) -> WaitTimeoutResult {
        let at = Location::caller();
        match world::is_simulated() {
            true => self.wait_until_in_run(guard, Instant::now().checked_add(longest), at),
            false => self.wait_plainly(guard, longest),
        }
    }

    /// Waits for as long as the condition is true. The lock is released while the thread waits.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    fn wait_plainly<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, longest: Duration) -> WaitTimeoutResult {
        let waited = guard.plain().map(|guard| self.plain.wait_for(guard, longest));
        WaitTimeoutResult(waited.is_some_and(|waited| waited.timed_out()))
    }

    fn wait_until_in_run<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
        at: &'static Location<'static>,
    ) -> WaitTimeoutResult {
        let Some(thread) = world::blocking() else {
            return WaitTimeoutResult(true);
        };
        guard.release();
        let woken = {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _waits = WaiterCount(&self.waiting);
            thread.block(self.on(), deadline.map(Instant::since_begin), at)
        };
        guard.reacquire(at);
        WaitTimeoutResult(woken == WakeReason::TimedOut)
    }

    /// Wakes one of the threads that wait.
    pub fn notify_one(&self) -> bool {
        step();
        self.plain.notify_one();
        let waits = self.waiting.load(Ordering::Relaxed) > 0;
        if waits && let Some(thread) = world::blocking() {
            thread.wake_one(self.on());
        }
        waits
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) -> usize {
        step();
        self.plain.notify_all();
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0
            && let Some(thread) = world::blocking()
        {
            thread.wake_all(self.on());
        }
        waiting
    }
}
