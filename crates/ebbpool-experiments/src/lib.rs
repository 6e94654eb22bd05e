//! Experiments as files: what the five papers ran, our runs of it, and which of their claims hold.
//!
//! [`select`] finds experiments by name or path, [`run`] runs them and writes a report, and [`json`] gives their
//! results to programs. The crate prints nothing: a [`Listener`] hears how far it has come.

mod chart;
mod contenders;
mod data;
mod error;
mod estimates;
mod files;
mod format;
mod listener;
mod lower;
mod metric;
mod optimum;
mod ordered;
mod page;
mod plan;
mod point;
mod ranking;
#[cfg(unix)]
mod real;
mod runner;
mod seeds;
mod shipped;
mod study;
mod style;
mod traces;
mod verdict;

pub use data::as_json as json;
pub use error::ExperimentError;
pub use format::{Experiment, FormatError, Scale};
pub use listener::{Ended, Listener, Silent};
pub use page::{claimed, summary};
pub use ranking::{Ranked, heading, of_all as rankings};
#[cfg(unix)]
pub use study::with_a_device;
pub use study::{ExperimentResult, Outcome, Request, run, select};
pub use verdict::{Judged, Verdict};
