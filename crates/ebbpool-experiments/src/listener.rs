//! What a caller hears of experiments.

use std::time::Duration;

use ebbpool_lab::Events;

/// Hears nothing, and never stops.
pub use ebbpool_lab::Silent;

use crate::error::ExperimentError;
use crate::study::ExperimentResult;

/// How one of several experiments ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// The experiment's name.
    pub id: &'a str,
    /// Its number, from 1.
    pub number: usize,
    /// Of how many.
    pub all: usize,
    /// Its result, or why there is none.
    pub result: Result<&'a ExperimentResult, &'a ExperimentError>,
    /// How long the rest will take, as far as the beginning says; zero where nothing is known.
    pub left: Duration,
}

/// What the runner tells its caller while it works, besides what the lab does.
pub trait Listener: Events {
    /// An experiment has ended.
    fn ended(&self, ended: &Ended<'_>) {
        let _ = ended;
    }
}

impl Listener for Silent {}
