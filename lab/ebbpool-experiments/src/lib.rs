//! Runs the experiments of five papers from files, and judges which claims of the papers hold.
//!
//! [`select`] finds experiments by name or path, [`run`] runs them and writes a report, and [`json`] returns
//! their results for programs. The crate prints nothing: it reports its progress to a [`Listener`].
//!
//! Its rooms, each of which knows only those before it: `format` reads an experiment, `plan` has its simulations, `runner` asks
//! the lab for them, `verdict` and `ranking` judge the points, `done` is what comes out, `page`, `json` and `files` show it.
//! `study` leads through them.

mod cell_group;
mod cell_values;
mod chart;
mod data;
mod done;
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
mod runner;
mod section;
mod seeds;
mod shipped;
mod study;
mod traces;
mod verdict;
mod words;
mod work;

pub use done::{ExperimentResult, all_rankings as rankings, heading};
pub use error::ExperimentError;
pub use format::{CHECKS, CheckExample, Experiment, FormatError, Scale};
pub use json::{ExperimentData, ListedExperiment, as_json as json};
pub use listener::{ExperimentEnd, Listener, Silent, StudyProgress};
pub use page::summary;
pub use ranking::RankingTable;
pub use study::with_a_device;
pub use study::{StudyOutcome, StudyRequest, draw_with_seed, run, select};
pub use verdict::{GuestFinding, JudgedClaim, Verdict};
pub use words::claimed;
