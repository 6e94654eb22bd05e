//! The lab itself: its settings, and the services that all requests share.

use std::thread;

use ebbpool_sim::{NoStore, PassControl, ResultStore, SimError};
use ebbpool_trace::{Metadata, Source};

use crate::error::LabError;
use crate::events::{LabEvents, Note};
use crate::result_store::{ResultDirectory, ResultStorage};

/// Settings that apply to all requests.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Threads that simulate; `None` stands for one per core. Results do not depend on it.
    pub threads: Option<usize>,
    /// Where results are stored; without a place the lab stores nothing.
    pub results: Option<ResultStorage>,
    /// The [content key](Source::content_key) of the trace, if the caller has computed it. All requests with these
    /// settings must be about that trace.
    pub trace_key: Option<[u8; 32]>,
}

impl Settings {
    /// Sets the number of threads that simulate, at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Sets the directory in which the lab stores results; with `None` it stores nothing.
    #[must_use]
    pub fn results(mut self, directory: Option<ResultDirectory>) -> Self {
        self.results = directory.map(ResultStorage::Directory);
        self
    }

    /// Sets the place in which the lab stores results; with `None` it stores nothing.
    #[must_use]
    pub fn storage(mut self, storage: Option<ResultStorage>) -> Self {
        self.results = storage;
        self
    }

    /// Sets the content key of the one trace that requests with these settings are about.
    #[must_use]
    pub fn trace_key(mut self, key: [u8; 32]) -> Self {
        self.trace_key = Some(key);
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

    /// A lab with these settings, which reports its progress to other events.
    pub(crate) fn with_events<'b>(&self, events: &'b dyn LabEvents) -> Lab<'b> {
        Lab::new(self.settings.clone(), events)
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        self.settings.threads.unwrap_or_else(cores)
    }

    /// The store for the results over a trace.
    pub(crate) fn store(&self, source: &Source) -> Box<dyn ResultStore> {
        let results = self.settings.results.as_ref();
        let results = results.and_then(|results| match &self.settings.trace_key {
            Some(key) => Some(results.of_key(key)),
            None => results.for_trace(source),
        });
        match results {
            Some(results) => Box::new(results),
            None => Box::new(NoStore),
        }
    }

    pub(crate) fn notes(&self, notes: &[String]) {
        for note in notes {
            self.events.note(&Note::Remark(note.clone()));
        }
    }

    /// Says what the results over a trace do not say if it was captured below a cache.
    pub(crate) fn note_capture(&self, source: &Source, metadata: &Metadata) {
        if metadata.below_cache {
            self.events.note(&Note::BelowCache { trace: source.label().into() });
        }
    }

    /// Does work that reports its progress to the caller.
    pub(crate) fn with_progress<T, E>(&self, name: &str, work: impl FnOnce(&PassControl) -> Result<T, E>) -> Result<T, E> {
        let report = |share: f64| self.events.progress(name, share);
        let result = work(&PassControl { report: &report, stop: self.events.stop() });
        self.events.progress(name, 1.0);
        result
    }

    pub(crate) fn check_stopped(&self) -> Result<(), LabError> {
        match self.events.stop().load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(SimError::Interrupted.into()),
            false => Ok(()),
        }
    }
}
