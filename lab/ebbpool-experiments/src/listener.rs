//! The interface through which a caller follows experiments.

use std::time::Duration;

use ebbpool_lab::LabEvents;

/// Ignores all events, and never stops the work.
pub use ebbpool_lab::Silent;

use crate::done::ExperimentResult;
use crate::error::ExperimentError;

/// The name of the work in [`LabEvents::progress`](ebbpool_lab::LabEvents::progress).
pub(crate) const WORK: &str = "reproduce";

/// The end of one of several experiments.
#[derive(Debug)]
pub struct ExperimentEnd<'a> {
    /// The experiment's name.
    pub id: &'a str,
    /// The number of the experiment, from 1.
    pub number: usize,
    /// The number of all experiments.
    pub all: usize,
    /// The result, or the error of an experiment that failed.
    pub result: Result<&'a ExperimentResult, &'a ExperimentError>,
    /// The estimated time of the remaining experiments; zero if there is no estimate yet.
    pub left: Duration,
}

/// How far a run of experiments has come.
#[derive(Clone, Copy, Debug)]
pub struct StudyProgress<'a> {
    /// The name of the experiment that runs.
    pub id: &'a str,
    /// The number of the experiment, from 1.
    pub number: usize,
    /// The number of all experiments.
    pub all: usize,
    /// The finished share of the work of all experiments, from 0 to 1.
    pub share: f64,
    /// The estimated time of the rest of that work; `None` until there is something to estimate it from.
    pub left: Option<Duration>,
}

/// Receives the events of experiments, in addition to those of the lab.
pub trait Listener: LabEvents {
    /// The run is still planned: the traces of `planned` of `all` experiments have been opened, to count the work.
    fn planning(&self, planned: usize, all: usize) {
        let _ = (planned, all);
    }

    /// The work has come this far. Without an implementation it goes on to [`LabEvents::progress`].
    fn progressed(&self, progress: &StudyProgress<'_>) {
        self.progress(WORK, progress.share);
    }

    /// An experiment has ended.
    fn ended(&self, end: &ExperimentEnd<'_>) {
        let _ = end;
    }
}

impl Listener for Silent {}
