//! Runs the experiments of five papers from files, and judges which claims of the papers hold.
//!
//! [`select`] finds experiments by name or path, [`run`] runs them and writes a report, and [`json`] returns
//! their results for programs. The crate prints nothing: it reports its progress to a [`Listener`].

mod cell_group;
mod cell_values;
mod chart;
mod contenders;
mod data;
mod draw;
mod error;
mod estimates;
mod files;
mod format;
mod json;
mod listener;
mod metric;
mod optimum;
mod ordered;
mod page;
mod parsed;
mod parts;
mod plan;
mod point;
mod ranking;
mod real;
mod runner;
mod section;
mod seeds;
mod shipped;
mod study;
mod traces;
mod verdict;
mod work;

pub use error::ExperimentError;
pub use format::{CHECKS, CheckExample, Experiment, FormatError, Scale};
pub use json::{ExperimentData, ListedExperiment, as_json as json};
pub use listener::{ExperimentEnd, Listener, Silent, StudyProgress};
pub use page::{claimed, summary};
pub use ranking::{RankingTable, all_rankings as rankings, heading};
pub use study::with_a_device;
pub use study::{ExperimentResult, StudyOutcome, StudyRequest, draw_with_seed, run, select};
pub use verdict::{GuestFinding, JudgedClaim, Verdict};
