//! Curves against memory size, and lower bounds.

use std::sync::{Arc, Mutex, PoisonError};

use ebbpool_cost::Asymmetry;
use ebbpool_lab::report;
use ebbpool_lab::{BoundRequest, BoundResult, CurveRequest, CurveStudy, Lab, MemorySize, Target, schema};
use ebbpool_policy::PolicySpec;
use ebbpool_trace::output::OutputFile;
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::compare::options;
use crate::errors::{Class, lab_error, raise, wrong};
use crate::requests::{all_parsed, at_end, checkpoints, parsed, policies, sizes};
use crate::store::Results;
use crate::table::Table;
use crate::trace::Trace;
use crate::watch::{Watch, watched, watched_with};

/// The answer of a study of curves.
#[pyclass(frozen, module = "ebbpool._ebbpool")]
pub(crate) struct Curve {
    // Python's threads share the object; the study itself is for one thread.
    study: Mutex<CurveStudy>,
    rows: Vec<ebbpool_lab::CurveRow>,
    #[pyo3(get)]
    sentence: String,
    #[pyo3(get)]
    title: String,
    #[pyo3(get)]
    notes: Vec<String>,
}

impl Curve {
    fn comparison(&self) -> ebbpool_lab::Comparison {
        let study = self.study.lock();
        let study = study.unwrap_or_else(PoisonError::into_inner).clone();
        study.into_comparison()
    }
}

#[pymethods]
impl Curve {
    /// One row for each policy and size.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        Table::of_rows(py, &self.rows)
    }

    /// The rows as the command's JSON.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        json_of(py, &self.rows)
    }

    /// The report as a page of HTML.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        let page = report::page(&[self.comparison()], &[], &options());
        page.map_err(|error| raise(py, Class::Failure, &error.to_string()))
    }

    /// Writes the report.
    fn report(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let written = OutputFile::create(path)
            .map_err(Into::into)
            .and_then(|file| report::write(file, &[self.comparison()], &[], &options()));
        written.map_err(|error| lab_error(py, error))
    }
}

/// Results as the command's JSON.
pub(crate) fn json_of<T: serde::Serialize + ?Sized>(py: Python<'_>, results: &T) -> PyResult<String> {
    let mut json = Vec::new();
    let written = schema::write_json(&mut json, results);
    written.map_err(|error| raise(py, Class::Failure, &error.to_string()))?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

/// What curves are about, besides the trace.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CurveArguments<'py> {
    policies: Option<Vec<Bound<'py, PyAny>>>,
    frames: Vec<String>,
    asymmetry: String,
    sample: Option<f64>,
    target: Option<String>,
    baseline: (String, String),
    clean_pools: Option<String>,
    warmup: String,
    at_end: String,
    checkpoints: Option<String>,
    report: bool,
}

impl CurveArguments<'_> {
    fn request(self, py: Python<'_>, calls: &Arc<Calls>) -> PyResult<CurveRequest> {
        let (selection, guests) = policies(py, calls, self.policies)?;
        let asymmetry: Asymmetry = parsed(py, "asymmetry", &self.asymmetry)?;
        let target = self.target.as_deref();
        let target = target.map(|text| parsed::<Target>(py, "target", text));
        let clean_pools = self.clean_pools.as_deref();
        let clean_pools = clean_pools.map(|text| parsed::<MemorySize>(py, "clean_pools", text));
        let (policy, size) = &self.baseline;
        let mut request = CurveRequest::new(selection, asymmetry);
        request.sizes = sizes(py, &self.frames)?;
        request.sample = self.sample;
        request.target = target.transpose()?;
        if let Err(error) = policy.parse::<PolicySpec>() {
            let text = format!("{error}; a baseline is a policy by name, never one of the caller");
            return Err(wrong(py, "baseline", text));
        }
        request.baseline = (policy.clone(), parsed(py, "baseline", size)?);
        request.clean_pools = clean_pools.transpose()?;
        request.warmup = self.warmup.parse().map_err(|error| wrong(py, "warmup", error))?;
        request.at_end = at_end(py, &self.at_end)?;
        request.checkpoints = checkpoints(py, self.checkpoints.as_deref())?;
        request.for_report = self.report;
        request.guests = guests;
        Ok(request)
    }
}

/// Computes curves. With `stored` only results that are stored are taken; the answer is `None` if one is missing.
#[pyfunction]
#[pyo3(signature = (trace, request, results, *, threads, progress, stored = false))]
pub(crate) fn curve(
    py: Python<'_>,
    trace: &Trace,
    request: CurveArguments<'_>,
    results: &Results,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    stored: bool,
) -> PyResult<Option<Curve>> {
    let calls = Calls::new();
    let request = request.request(py, &calls)?;
    let settings = results.settings(threads);
    let work = |watch: &Watch| {
        watch.stop_if(stored);
        Lab::new(settings, watch).curve(&trace.source, &request)
    };
    let watched = watched_with(py, &calls, progress.as_ref(), work);
    if stored && watched.lacks_results() {
        return Ok(None);
    }
    let (study, notes) = watched.finish(py)?;
    let sentences: Vec<String> = std::iter::once(study.sentence()).chain(study.sentence_on_end()).collect();
    Ok(Some(Curve {
        rows: study.rows(),
        sentence: sentences.join("\n"),
        title: study.title(),
        notes,
        study: Mutex::new(study),
    }))
}

/// The table of bounds, the command's JSON and notes.
type BoundAnswer = (Table, String, Vec<String>);

/// Computes lower bounds. With `stored` only results that are stored are taken; the answer is `None` if one is missing.
#[pyfunction]
#[pyo3(signature = (trace, frames, asymmetry, at_end, results, *, threads, progress, stored = false))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn bound(
    py: Python<'_>,
    trace: &Trace,
    frames: Vec<String>,
    asymmetry: Vec<String>,
    at_end: &str,
    results: &Results,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    stored: bool,
) -> PyResult<Option<BoundAnswer>> {
    let asymmetries: Vec<Asymmetry> = all_parsed(py, "asymmetry", &asymmetry)?;
    let mut request = BoundRequest::new(sizes(py, &frames)?, asymmetries);
    request.at_end = crate::requests::at_end(py, at_end)?;
    let settings = results.settings(threads);
    let work = |watch: &Watch| {
        watch.stop_if(stored);
        Lab::new(settings, watch).bound(&trace.source, &request)
    };
    let watched = watched(py, progress.as_ref(), work);
    if stored && watched.lacks_results() {
        return Ok(None);
    }
    let (bounds, notes) = watched.finish(py)?;
    let table = Table::of_rows::<BoundResult>(py, &bounds)?;
    let json = match bounds.as_slice() {
        [bound] => json_of(py, bound)?,
        bounds => json_of(py, bounds)?,
    };
    Ok(Some((table, json, notes)))
}
