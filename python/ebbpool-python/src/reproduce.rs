//! The experiments of the papers.

use std::path::Path;

use ebbpool_experiments::{
    self as experiments, ExperimentEnd, ExperimentError, ListedExperiment, Listener, Scale, StudyRequest,
};
use ebbpool_lab::{ErrorKind, LabError, LabEvents, Note};
use ebbpool_policy::{PolicySpec, split_list};
use ebbpool_sim::SimError;
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::curve::json_of;
use crate::errors::{Class, lab_error, raise};
use crate::policy::guest;
use crate::requests::all_parsed;
use crate::store::Results;
use crate::watch::{Watch, watched_with};

impl Listener for Watch {
    fn ended(&self, end: &ExperimentEnd<'_>) {
        let Err(error) = end.result else { return };
        if let ExperimentError::Lab(LabError::Sim(SimError::Guest { source, .. })) = error
            && let Some(exception) = source.downcast_ref::<PyErr>()
        {
            // The policy of the caller has raised it, and would raise it in the other experiments as well.
            self.stop_with(Python::attach(|py| exception.clone_ref(py)));
        }
        self.note(&Note::Remark(format!("{} failed: {error}", end.id)));
    }
}

fn experiment_error(py: Python<'_>, error: ExperimentError) -> PyErr {
    match error {
        ExperimentError::Lab(error) => lab_error(py, error),
        error if error.kind() == ErrorKind::Request => raise(py, Class::Usage, &error.to_string()),
        error => raise(py, Class::Failure, &error.to_string()),
    }
}

/// The call that runs an experiment again.
fn call(experiment: &str, scale: Scale, _file: Option<&Path>) -> String {
    let full = match scale {
        Scale::Full => ", full=True",
        Scale::Quick => "",
    };
    format!("ebbpool.reproduce('{experiment}'{full})")
}

/// The experiments with these names, or all, with their claims, as JSON.
#[pyfunction]
pub(crate) fn experiments_json(py: Python<'_>, names: Vec<String>) -> PyResult<String> {
    let selected = experiments::select(&names, true);
    let selected = selected.map_err(|error| experiment_error(py, error))?;
    let listed = selected.iter();
    let listed = listed.map(|(_, experiment)| ListedExperiment::from(experiment));
    json_of(py, &listed.collect::<Vec<_>>())
}

/// What to run: names, whether at the scale of the papers, additional policies, and the directory of the report.
type Reproducing<'py> = (Vec<String>, bool, Vec<Bound<'py, PyAny>>, String);

/// Runs experiments; returns their results as JSON, the number of those that failed, and notes.
#[pyfunction]
#[pyo3(signature = (request, results, *, threads, progress))]
pub(crate) fn reproduce(
    py: Python<'_>,
    request: Reproducing<'_>,
    results: &Results,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, usize, Vec<String>)> {
    let (names, full, policies, out) = request;
    let selected = experiments::select(&names, false);
    let selected = selected.map_err(|error| experiment_error(py, error))?;
    let scale = match full {
        true => Scale::Full,
        false => Scale::Quick,
    };
    let calls = Calls::new();
    let (mut names, mut guests) = (Vec::new(), Vec::new());
    for policy in policies {
        match policy.extract::<String>() {
            Ok(list) => names.extend(split_list(&list)),
            Err(_) => guests.push(guest(py, &calls, &policy)?),
        }
    }
    let request = StudyRequest {
        policies: all_parsed::<PolicySpec>(py, "policies", &names)?,
        guests,
        rerun: call,
        ..StudyRequest::new(selected, scale, out)
    };
    let settings = results.settings(threads);
    let work = |watch: &Watch| {
        let outcome = experiments::run(&settings, watch, &request);
        let outcome = outcome.map_err(|error| match error {
            ExperimentError::Lab(error) => error,
            error => LabError::Output { what: "the reproduction".into(), source: std::io::Error::other(error) },
        })?;
        match outcome.interrupted {
            true => Err(SimError::Interrupted.into()),
            false => Ok(outcome),
        }
    };
    let (outcome, notes) = watched_with(py, &calls, progress.as_ref(), work).finish(py)?;
    let results: Vec<_> = outcome.results.iter().map(experiments::json).collect();
    Ok((json_of(py, &results)?, outcome.failed, notes))
}
