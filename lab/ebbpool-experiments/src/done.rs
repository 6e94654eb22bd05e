//! An experiment that was run, with its results and verdicts.

use std::path::PathBuf;

use ebbpool_lab::report::chart::Picture;

use crate::format::{Experiment, Scale};
use crate::point::Point;
use crate::ranking::RankingTable;
use crate::verdict::{self, JudgedClaim, Verdict};

/// A figure of a finished experiment.
#[derive(Debug)]
pub(crate) struct DrawnFigure {
    pub(crate) title: String,
    /// The name of its SVG file.
    pub(crate) file: String,
    pub(crate) picture: Picture,
    /// The values that it shows.
    pub(crate) csv: String,
}

/// An experiment that was run.
#[derive(Debug)]
pub struct ExperimentResult {
    pub(crate) experiment: Experiment,
    /// How to run the experiment again.
    pub(crate) rerun: String,
    pub(crate) scale: Scale,
    /// The file or block device that replaced the device models.
    pub(crate) file: Option<PathBuf>,
    pub(crate) points: Vec<Point>,
    pub(crate) judged: Vec<JudgedClaim>,
    pub(crate) ranked: Vec<RankingTable>,
    pub(crate) notes: Vec<String>,
    pub(crate) figures: Vec<DrawnFigure>,
    pub(crate) has_moments: bool,
    pub(crate) seconds: f64,
    pub(crate) stored: u64,
    pub(crate) computed: u64,
}

impl ExperimentResult {
    /// The experiment's name, such as `cikm-table2`.
    pub fn id(&self) -> &str {
        self.experiment.id()
    }

    /// The claims, judged by the results.
    pub fn judged(&self) -> &[JudgedClaim] {
        &self.judged
    }

    /// The number of claims with this verdict, without those that are counted apart.
    pub fn count(&self, verdict: Verdict) -> usize {
        let judged = self.judged.iter().filter(|judged| judged.is_counted());
        judged.filter(|judged| judged.verdict == verdict).count()
    }

    /// The numbers of the claims that are counted apart, such as circular ones, in words after a semicolon; empty if there
    /// are none.
    pub fn counted_apart(&self) -> String {
        verdict::counted_apart(self.judged.iter())
    }

    /// The numbers of computed results and of results from the store.
    pub fn results(&self) -> (u64, u64) {
        (self.computed, self.stored)
    }

    /// Wall time in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    pub(crate) fn rankings(&self) -> impl Iterator<Item = &RankingTable> {
        self.ranked.iter()
    }
}

/// All rankings, each with its experiment.
pub fn all_rankings(all: &[ExperimentResult]) -> impl Iterator<Item = (&ExperimentResult, &RankingTable)> {
    let rankings = |done| ExperimentResult::rankings(done).map(move |ranked| (done, ranked));
    all.iter().flat_map(rankings)
}

/// The heading of a ranking.
pub fn heading(done: &ExperimentResult, ranked: &RankingTable) -> String {
    let title = ranked.title.as_deref().unwrap_or(&done.experiment.title);
    format!("{}: {title}", done.experiment.id())
}

/// The file name of a ranking.
pub(crate) fn ranking_file(id: &str, at: usize, all: usize) -> String {
    match all {
        1 => format!("{id}-ranking.csv"),
        _ => format!("{id}-ranking-{}.csv", at + 1),
    }
}
