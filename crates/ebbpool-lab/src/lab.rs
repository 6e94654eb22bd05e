//! The lab itself: its settings, and the services that all requests share.

use std::thread;

use ebbpool_sim::{NoStore, Progress, SimError, Store};
use ebbpool_trace::Source;

use crate::error::LabError;
use crate::events::{LabEvents, Note};
use crate::result_store::ResultDirectory;

/// Settings that apply to all requests.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Threads that simulate; `None` stands for one per core. Results do not depend on it.
    pub threads: Option<usize>,
    /// The directory that stores results; without one the lab stores nothing.
    pub results: Option<ResultDirectory>,
}

impl Settings {
    /// The same settings with this number of threads, at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// The same settings with this directory for results.
    #[must_use]
    pub fn results(mut self, directory: Option<ResultDirectory>) -> Self {
        self.results = directory;
        self
    }
}

/// Answers requests about traces. See the [crate](crate).
pub struct Lab<'e> {
    settings: Settings,
    pub(crate) events: &'e dyn LabEvents,
}

impl<'e> Lab<'e> {
    /// A lab with these settings, which reports its progress to `events`.
    pub fn new(settings: Settings, events: &'e dyn LabEvents) -> Self {
        Lab { settings, events }
    }

    /// The same lab, which reports to other events.
    pub(crate) fn with_events<'b>(&self, events: &'b dyn LabEvents) -> Lab<'b> {
        Lab::new(self.settings.clone(), events)
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        self.settings.threads.unwrap_or_else(cores)
    }

    /// The store for the results over a trace.
    pub(crate) fn store(&self, source: &Source) -> Box<dyn Store> {
        let directory = self.settings.results.as_ref();
        match directory.and_then(|directory| directory.of_trace(source)) {
            Some(results) => Box::new(results),
            None => Box::new(NoStore),
        }
    }

    pub(crate) fn notes(&self, notes: &[String]) {
        for note in notes {
            self.events.note(&Note::Remark(note.clone()));
        }
    }

    /// Does work that reports its progress to the caller.
    pub(crate) fn with_progress<T, E>(
        &self,
        name: &str,
        work: impl FnOnce(&Progress) -> Result<T, E>,
    ) -> Result<T, E> {
        let report = |share: f64| self.events.progress(name, share);
        let result = work(&Progress {
            report: &report,
            stop: self.events.stop(),
        });
        self.events.progress(name, 1.0);
        result
    }

    pub(crate) fn check_stopped(&self) -> Result<(), LabError> {
        match self
            .events
            .stop()
            .load(std::sync::atomic::Ordering::Relaxed)
        {
            true => Err(SimError::Interrupted.into()),
            false => Ok(()),
        }
    }
}
