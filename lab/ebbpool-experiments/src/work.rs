//! How far the work of a run has come, and how long the rest of it takes.
//!
//! Work is counted in references times simulations, by kind, since a reference on a simulated flash device takes
//! several times as long as one that is only counted. The clock measures what each kind takes in this run; results
//! from the store count as no work.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::listener::{Listener, StudyProgress};

/// What takes the time of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// Counting reads and writes.
    Counting,
    /// A simulated flash device.
    Flash,
    /// A lower bound.
    Bound,
    /// The errors of estimates.
    Estimates,
    /// The computing time of policies, one after the other.
    Timing,
    /// A real file.
    File,
}

const KINDS: usize = 6;

impl WorkKind {
    /// The time of a reference in that of a counted one: what the clock assumes of a kind until it has measured it.
    const USUAL: [f64; KINDS] = [1.0, 5.0, 200.0, 5.0, 2.0, 1000.0];
}

/// References times simulations, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WorkAmount([f64; KINDS]);

impl WorkAmount {
    pub(crate) fn add(&mut self, kind: WorkKind, references: f64) {
        self.0[kind as usize] += references;
    }

    /// The references of all kinds.
    pub(crate) fn references(&self) -> f64 {
        self.0.iter().sum()
    }

    pub(crate) fn add_all(&mut self, other: &WorkAmount) {
        for (own, its) in self.0.iter_mut().zip(other.0) {
            *own += its;
        }
    }
}

/// The least time after which the clock estimates anything.
const LEAST_SECONDS: f64 = 0.5;

/// The share of a kind's work for which its usual time counts in the estimate: the first simulations need not be
/// like the rest.
const USUAL_SHARE: f64 = 0.1;

/// A part of the work that runs now.
#[derive(Clone, Copy, Debug)]
struct RunningWork {
    kind: WorkKind,
    references: f64,
    since: Instant,
    share: f64,
}

/// Work and time by kind.
#[derive(Debug, Default)]
struct WorkTotals {
    /// What is still to do, without what runs now.
    left: WorkAmount,
    planned: WorkAmount,
    computed: WorkAmount,
    seconds: [f64; KINDS],
}

impl WorkTotals {
    /// The seconds that a reference of each kind takes; `None` until something was measured.
    fn paces(&self) -> Option<[f64; KINDS]> {
        let usual = self.computed.0.iter().zip(WorkKind::USUAL);
        let usual: f64 = usual.map(|(references, usual)| references * usual).sum();
        let seconds: f64 = self.seconds.iter().sum();
        if seconds < LEAST_SECONDS || usual <= 0.0 {
            return None;
        }
        let mut paces = WorkKind::USUAL.map(|usual_of_kind| usual_of_kind * seconds / usual);
        for (at, pace) in paces.iter_mut().enumerate() {
            let as_usual = USUAL_SHARE * self.planned.0[at];
            let references = self.computed.0[at] + as_usual;
            if references > 0.0 {
                *pace = (self.seconds[at] + *pace * as_usual) / references;
            }
        }
        Some(paces)
    }

    /// The totals as they would be if what runs now ended here.
    fn with(&self, running: Option<&RunningWork>, now: Instant) -> WorkTotals {
        let mut totals = WorkTotals { ..*self };
        if let Some(work) = running {
            let kind = work.kind as usize;
            totals.computed.0[kind] += work.share * work.references;
            totals.left.0[kind] += (1.0 - work.share) * work.references;
            totals.seconds[kind] += now.duration_since(work.since).as_secs_f64();
        }
        totals
    }

    /// The seconds that the rest takes; `None` until something was measured.
    fn seconds_left(&self) -> Option<f64> {
        let paces = self.paces()?;
        let each = self.left.0.iter().zip(paces);
        Some(each.map(|(references, pace)| references * pace).sum())
    }

    /// The finished share, by the usual times, or by the measured ones once there are some.
    fn share(&self) -> f64 {
        let paces = self.paces().unwrap_or(WorkKind::USUAL);
        let time = |amount: &WorkAmount| -> f64 {
            let each = amount.0.iter().zip(paces);
            each.map(|(references, pace)| references * pace).sum()
        };
        let (done, left) = (time(&self.computed), time(&self.left));
        match done + left > 0.0 {
            true => done / (done + left),
            false => 0.0,
        }
    }
}

#[derive(Debug, Default)]
struct ClockState {
    totals: WorkTotals,
    running: Option<RunningWork>,
    /// What of the present experiment's planned work is still in [`WorkTotals::left`].
    planned: WorkAmount,
    experiment: String,
    number: usize,
    /// The share that was reported last: it never becomes smaller.
    shown: f64,
}

/// Measures the work of a run and reports its progress.
pub(crate) struct WorkClock<'a> {
    listener: &'a dyn Listener,
    experiments: usize,
    state: Mutex<ClockState>,
}

impl<'a> WorkClock<'a> {
    /// The clock of a run with that many experiments, and all of its work.
    pub(crate) fn new(listener: &'a dyn Listener, experiments: usize, all: WorkAmount) -> Self {
        let totals = WorkTotals { left: all, planned: all, ..WorkTotals::default() };
        WorkClock { listener, experiments, state: Mutex::new(ClockState { totals, ..ClockState::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An experiment begins, with that part of the work.
    pub(crate) fn begin_experiment(&self, id: &str, number: usize, planned: WorkAmount) {
        let mut state = self.state();
        state.experiment = id.into();
        state.number = number;
        state.planned = planned;
        drop(state);
        self.report();
    }

    /// The experiment has ended. What it planned and did not compute is done, too: it came from the store.
    pub(crate) fn end_experiment(&self) {
        let mut state = self.state();
        let planned = std::mem::take(&mut state.planned);
        for (left, planned) in state.totals.left.0.iter_mut().zip(planned.0) {
            *left = (*left - planned).max(0.0);
        }
    }

    /// A part of the experiment's work begins, in references times simulations.
    pub(crate) fn begin(&self, kind: WorkKind, references: f64) {
        let mut state = self.state();
        let planned = &mut state.planned.0[kind as usize];
        // Work that was not planned, since an earlier experiment has it as well, is not taken from the rest.
        let taken = references.min(*planned);
        *planned -= taken;
        let left = &mut state.totals.left.0[kind as usize];
        *left = (*left - taken).max(0.0);
        state.running = Some(RunningWork { kind, references, since: Instant::now(), share: 0.0 });
    }

    /// That share of the running part is done.
    pub(crate) fn advance(&self, share: f64) {
        let mut state = self.state();
        if let Some(running) = &mut state.running {
            running.share = share.clamp(running.share, 1.0);
        }
        drop(state);
        self.report();
    }

    /// The running part has ended. `stored` is the share of its results that came from the store.
    pub(crate) fn end(&self, stored: f64) {
        let mut state = self.state();
        let Some(running) = state.running.take() else {
            return;
        };
        let ended = RunningWork { share: 1.0, references: running.references * (1.0 - stored), ..running };
        // Without a result to compute, the time is that of the store.
        if stored < 1.0 {
            state.totals = state.totals.with(Some(&ended), Instant::now());
        }
        drop(state);
        self.report();
    }

    /// The time that the rest takes; `None` until something was measured.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let state = self.state();
        let totals = state.totals.with(state.running.as_ref(), Instant::now());
        Duration::try_from_secs_f64(totals.seconds_left()?).ok()
    }

    fn report(&self) {
        let mut state = self.state();
        let totals = state.totals.with(state.running.as_ref(), Instant::now());
        // The run is done when all files are written.
        state.shown = totals.share().clamp(state.shown, 0.999);
        let left = totals.seconds_left();
        self.listener.progressed(&StudyProgress {
            id: &state.experiment,
            number: state.number,
            all: self.experiments,
            share: state.shown,
            left: left.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Silent;

    fn amount(counting: f64, flash: f64) -> WorkAmount {
        let mut amount = WorkAmount::default();
        amount.add(WorkKind::Counting, counting);
        amount.add(WorkKind::Flash, flash);
        amount
    }

    #[test]
    fn the_rest_takes_what_each_kind_takes() {
        let mut totals = WorkTotals { left: amount(3e6, 2e6), ..WorkTotals::default() };
        assert_eq!(totals.seconds_left(), None);
        assert_eq!(totals.share(), 0.0);
        totals.computed = amount(1e6, 0.0);
        totals.seconds[WorkKind::Counting as usize] = 2.0;
        // Flash was not measured yet: five times as long.
        assert_eq!(totals.seconds_left(), Some(6.0 + 20.0));
        totals.computed = amount(1e6, 1e6);
        totals.seconds[WorkKind::Flash as usize] = 5.0;
        assert_eq!(totals.seconds_left(), Some(6.0 + 10.0));
        assert_eq!(totals.share(), 7.0 / 23.0);
    }

    #[test]
    fn the_first_simulations_of_a_kind_do_not_stand_for_all() {
        let mut totals = WorkTotals {
            left: amount(0.0, 9e6),
            planned: amount(1e6, 10e6),
            computed: amount(1e6, 1e4),
            ..WorkTotals::default()
        };
        totals.seconds[WorkKind::Counting as usize] = 1.0;
        totals.seconds[WorkKind::Flash as usize] = 1.0;
        // A hundred microseconds a reference measured, some ten as usual.
        let left = totals.seconds_left().expect("an estimate");
        assert!((80.0..120.0).contains(&left), "{left}");
    }

    #[test]
    fn stored_results_are_no_work_and_say_nothing_of_the_pace() {
        let all = amount(10e6, 0.0);
        let clock = WorkClock::new(&Silent, 2, all);
        clock.begin_experiment("stored", 1, amount(9e6, 0.0));
        clock.begin(WorkKind::Counting, 9e6);
        clock.end(1.0);
        clock.end_experiment();
        assert_eq!(clock.time_left(), None);
        assert_eq!(clock.state().totals.left, amount(1e6, 0.0));
        assert_eq!(clock.state().totals.computed, WorkAmount::default());
        clock.begin_experiment("computed", 2, amount(1e6, 0.0));
        clock.begin(WorkKind::Counting, 1e6);
        clock.end(0.5);
        clock.end_experiment();
        assert_eq!(clock.state().totals.left, WorkAmount::default());
        assert_eq!(clock.state().totals.computed, amount(5e5, 0.0));
    }

    #[test]
    fn work_that_ends_early_or_twice_leaves_nothing() {
        let clock = WorkClock::new(&Silent, 1, amount(1e6, 1e6));
        clock.begin_experiment("fails", 1, amount(1e6, 1e6));
        clock.begin(WorkKind::Counting, 5e6);
        clock.advance(0.5);
        clock.end_experiment();
        clock.end_experiment();
        assert_eq!(clock.state().totals.left, WorkAmount::default());
        clock.end(0.0);
        clock.end(0.0);
    }
}
