//! The parts of the index: one file for each experiment with results in the directory of the report.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::done::{ExperimentResult, heading};
use crate::error::ExperimentError;
use crate::format::{Paper, Scale};
use crate::section::section;
use crate::shipped;
use crate::verdict::JudgedClaim;

/// The end of the name of a part's file.
const SUFFIX: &str = ".part.json";

/// What the index says about one experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IndexPart {
    pub(crate) id: String,
    pub(crate) paper: Paper,
    pub(crate) number: String,
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// The file or block device that replaced the device models.
    pub(crate) file: Option<String>,
    pub(crate) judged: Vec<JudgedClaim>,
    pub(crate) rankings: Vec<RankingPart>,
    /// The section of the page in HTML.
    pub(crate) section: String,
}

/// A ranking as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankingPart {
    pub(crate) heading: String,
    pub(crate) heads: Vec<String>,
    pub(crate) cells: Vec<Vec<String>>,
}

/// The parts of all experiments with results in a directory.
#[derive(Debug, Default)]
pub(crate) struct IndexParts {
    /// In the order of the shipped list, followed by the users' own experiments by name.
    pub(crate) parts: Vec<IndexPart>,
    /// The names of the files that are not parts of this version.
    pub(crate) unreadable: Vec<String>,
}

impl IndexPart {
    /// The part of a finished experiment, whose figures are written.
    pub(crate) fn new(done: &ExperimentResult) -> Self {
        let ranking = |ranked| RankingPart { heading: heading(done, ranked), heads: ranked.heads(), cells: ranked.cells() };
        IndexPart {
            id: done.id().into(),
            paper: done.experiment.paper,
            number: done.experiment.number.clone(),
            title: done.experiment.title.clone(),
            scale: done.scale,
            file: done.file.as_ref().map(|file| file.display().to_string()),
            judged: done.judged.clone(),
            rankings: done.rankings().map(ranking).collect(),
            section: section(done).into_string(),
        }
    }

    /// The name of the part's file.
    pub(crate) fn name(&self) -> String {
        format!("{}{SUFFIX}", self.id)
    }
}

impl IndexParts {
    /// Reads all parts in a directory.
    ///
    /// # Errors
    ///
    /// If the directory or a file in it cannot be read. A file with other content is listed as unreadable.
    pub(crate) fn read(directory: &Path) -> Result<Self, ExperimentError> {
        let failed = |path: &Path| {
            let file = path.display().to_string();
            move |error| ExperimentError::Read { file, error }
        };
        let mut all = IndexParts::default();
        for entry in fs::read_dir(directory).map_err(failed(directory))? {
            let path = entry.map_err(failed(directory))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| name.ends_with(SUFFIX)) else {
                continue;
            };
            let content = fs::read(&path).map_err(failed(&path))?;
            match serde_json::from_slice::<IndexPart>(&content) {
                Ok(part) => all.parts.push(part),
                Err(_) => all.unreadable.push(name.into()),
            }
        }
        let order = |part: &IndexPart| (shipped::position(&part.id), part.id.clone());
        all.parts.sort_by_cached_key(order);
        all.unreadable.sort();
        Ok(all)
    }
}
