//! The interface through which a caller follows experiments.

use std::time::Duration;

use ebbpool_lab::LabEvents;

/// Ignores all events, and never stops the work.
pub use ebbpool_lab::Silent;

use crate::error::ExperimentError;
use crate::study::ExperimentResult;

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

/// Receives the events of experiments, in addition to those of the lab.
pub trait Listener: LabEvents {
    /// An experiment has ended.
    fn ended(&self, end: &ExperimentEnd<'_>) {
        let _ = end;
    }
}

impl Listener for Silent {}
