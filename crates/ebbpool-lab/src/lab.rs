//! The lab: what all requests share.

use std::thread;

use ebbpool_sim::{NoStore, Progress, SimError, Store};
use ebbpool_trace::Source;

use crate::error::LabError;
use crate::events::{Events, Note};
use crate::result_store::ResultDirectory;

/// What holds for all requests.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Threads that simulate; all cores where none are stated. Results do not depend on it.
    pub threads: Option<usize>,
    /// Where results are kept; nothing is kept without it.
    pub results: Option<ResultDirectory>,
}

impl Settings {
    /// The same with so many threads, at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// The same with results kept there.
    #[must_use]
    pub fn results(mut self, directory: Option<ResultDirectory>) -> Self {
        self.results = directory;
        self
    }
}

/// Answers requests about traces. See the [crate](crate).
pub struct Lab<'e> {
    settings: Settings,
    pub(crate) events: &'e dyn Events,
}

impl<'e> Lab<'e> {
    /// A lab with these settings that tells its caller how far it has come.
    pub fn new(settings: Settings, events: &'e dyn Events) -> Self {
        Lab { settings, events }
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        self.settings.threads.unwrap_or_else(cores)
    }

    /// Where results over a trace are kept.
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

    /// Does work that tells how far it has come.
    pub(crate) fn watched<T, E>(
        &self,
        what: &str,
        work: impl FnOnce(&Progress) -> Result<T, E>,
    ) -> Result<T, E> {
        let report = |share: f64| self.events.progress(what, share);
        let done = work(&Progress {
            report: &report,
            stop: self.events.stop(),
        });
        self.events.progress(what, 1.0);
        done
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
