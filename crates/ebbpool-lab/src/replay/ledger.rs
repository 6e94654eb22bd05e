//! What is written, in order: events in a file, and cluster switches.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebbpool::Event;
use ebbpool_sim::SimError;
use ebbpool_trace::output::OutputFile;

use crate::error::LabError;

/// Hears of write-backs from the pool as they are decided, and from the storage as they happen.
///
/// With one thread and nothing in the background both are the same writes, and the order of the
/// decisions is the simulator's. Otherwise only the storage hears of all.
pub(super) struct Ledger {
    decisions_count: bool,
    state: Mutex<State>,
}

struct State {
    events: Option<OutputFile>,
    failure: Option<io::Error>,
    cluster_size: u64,
    last_cluster: Option<u64>,
    cluster_switches: u64,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// What is dirty at the end is written, which nobody decides.
    Flushing,
    Closed,
}

impl Ledger {
    pub(super) fn new(
        events: Option<OutputFile>,
        cluster_size: u64,
        decisions_count: bool,
    ) -> Self {
        Ledger {
            decisions_count,
            state: Mutex::new(State {
                events,
                failure: None,
                cluster_size,
                last_cluster: None,
                cluster_switches: 0,
                phase: Phase::Running,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the pool need tell its decisions.
    pub(super) fn wants_decisions(&self) -> bool {
        self.decisions_count || self.state().events.is_some()
    }

    /// The warm-up is over.
    pub(super) fn counting(&self) {
        let mut state = self.state();
        state.last_cluster = None;
        state.cluster_switches = 0;
        state.event(format_args!("# counted from here"));
    }

    /// The pool has decided something.
    pub(super) fn decided(&self, event: Event) {
        let mut state = self.state();
        match event {
            Event::Write(page) => {
                state.event(format_args!("write {page}"));
                if self.decisions_count {
                    state.written(page);
                }
            }
            Event::Evict(page) => state.event(format_args!("evict {page}")),
            _ => {}
        }
    }

    /// The storage is to write pages.
    pub(super) fn stored(&self, pages: impl Iterator<Item = u64>) {
        let mut state = self.state();
        match state.phase {
            Phase::Running if self.decisions_count => {}
            Phase::Running => pages.for_each(|page| state.written(page)),
            Phase::Flushing => pages.for_each(|page| {
                state.event(format_args!("write {page}"));
                state.written(page);
            }),
            Phase::Closed => {}
        }
    }

    /// From now on what is dirty is written.
    pub(super) fn flushing(&self) {
        self.state().phase = Phase::Flushing;
    }

    /// Hears of nothing any more, and answers the cluster switches.
    ///
    /// # Errors
    ///
    /// If the events could not be written.
    pub(super) fn close(&self) -> Result<u64, LabError> {
        let mut state = self.state();
        state.phase = Phase::Closed;
        if let Some(source) = state.failure.take() {
            let what = "the events";
            return Err(SimError::Output { what, source }.into());
        }
        if let Some(events) = state.events.take() {
            events.finish()?;
        }
        Ok(state.cluster_switches)
    }
}

impl State {
    fn event(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failure.is_none()
            && let Some(events) = &mut self.events
            && let Err(error) = writeln!(events, "{text}")
        {
            self.failure = Some(error);
        }
    }

    fn written(&mut self, page: u64) {
        let cluster = page / self.cluster_size;
        let switches = self.last_cluster.replace(cluster) != Some(cluster);
        self.cluster_switches += u64::from(switches);
    }
}
