//! Tracks the writes of a replay in order: it records events in a file and counts cluster switches.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebbpool::ReplacementEvent;
use ebbpool_sim::SimError;
use ebbpool_trace::output::OutputFile;

use crate::error::LabError;

/// Receives write-backs from the pool when it decides on them, and from the storage when it performs them.
///
/// With one thread and no background work both sequences have the same writes, and the order of the
/// decisions is that of the simulator. Otherwise only the storage sees all writes.
pub(super) struct Ledger {
    decisions_count: bool,
    state: Mutex<LedgerState>,
}

struct LedgerState {
    events: Option<OutputFile>,
    failure: Option<io::Error>,
    cluster_size: u64,
    last_cluster: Option<u64>,
    cluster_switches: u64,
    phase: LedgerPhase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LedgerPhase {
    Running,
    /// The final checkpoint writes the dirty pages; these writes are not decisions of the policy.
    Flushing,
    Closed,
}

impl Ledger {
    pub(super) fn new(events: Option<OutputFile>, cluster_size: u64, decisions_count: bool) -> Self {
        Ledger {
            decisions_count,
            state: Mutex::new(LedgerState {
                events,
                failure: None,
                cluster_size,
                last_cluster: None,
                cluster_switches: 0,
                phase: LedgerPhase::Running,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the pool has to report its decisions.
    pub(super) fn needs_decisions(&self) -> bool {
        self.decisions_count || self.state().events.is_some()
    }

    /// Starts the counting, at the end of the warm-up.
    pub(super) fn start_counting(&self) {
        let mut state = self.state();
        state.last_cluster = None;
        state.cluster_switches = 0;
        state.event(format_args!("# counted from here"));
    }

    /// Takes a decision of the pool.
    pub(super) fn record_decision(&self, event: ReplacementEvent) {
        let mut state = self.state();
        match event {
            ReplacementEvent::Write(page) => {
                state.event(format_args!("write {page}"));
                if self.decisions_count {
                    state.count_write(page);
                }
            }
            ReplacementEvent::Evict(page) => state.event(format_args!("evict {page}")),
            _ => {}
        }
    }

    /// Takes pages that the trace ends, the last one included.
    pub(super) fn record_trim(&self, first: u64, last: u64) {
        self.state().event(format_args!("trim {first} {}", (last - first).saturating_add(1)));
    }

    /// Takes the pages that the storage is about to write.
    pub(super) fn storage_writes(&self, pages: impl Iterator<Item = u64>) {
        let mut state = self.state();
        match state.phase {
            LedgerPhase::Running if self.decisions_count => {}
            LedgerPhase::Running => pages.for_each(|page| state.count_write(page)),
            LedgerPhase::Flushing => pages.for_each(|page| {
                state.event(format_args!("write {page}"));
                state.count_write(page);
            }),
            LedgerPhase::Closed => {}
        }
    }

    /// Starts the final checkpoint, which writes the dirty pages.
    pub(super) fn start_flush(&self) {
        self.state().phase = LedgerPhase::Flushing;
    }

    /// Ends the recording and returns the number of cluster switches.
    ///
    /// # Errors
    ///
    /// If the events could not be written.
    pub(super) fn close(&self) -> Result<u64, LabError> {
        let mut state = self.state();
        state.phase = LedgerPhase::Closed;
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

impl LedgerState {
    fn event(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failure.is_none()
            && let Some(events) = &mut self.events
            && let Err(error) = writeln!(events, "{text}")
        {
            self.failure = Some(error);
        }
    }

    fn count_write(&mut self, page: u64) {
        let cluster = page / self.cluster_size;
        let switches = self.last_cluster.replace(cluster) != Some(cluster);
        self.cluster_switches += u64::from(switches);
    }
}
