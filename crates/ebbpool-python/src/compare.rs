//! Comparisons of policies.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ebbpool_lab::best::Bills;
use ebbpool_lab::report::{self, ReportOptions};
use ebbpool_lab::several::{Summary, TraceGroup, TraceSet};
use ebbpool_lab::{CompareRequest, Lab, LabError, advice, dirty_end, schema};
use ebbpool_trace::Source;
use ebbpool_trace::output::OutputFile;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::errors::{Class, lab_error, raise};
use crate::requests::{Counting, policies, pricing, sizes};
use crate::store::Results;
use crate::table::Table;
use crate::trace::{Trace, sources};
use crate::watch::{Watch, Watched, watched_with};

/// The answers over one trace or several.
#[pyclass(frozen, module = "ebbpool._ebbpool")]
pub(crate) struct Comparison {
    // Python's threads share the object; the answer itself is for one thread.
    comparisons: Mutex<Vec<ebbpool_lab::Comparison>>,
    groups: Vec<TraceGroup>,
    #[pyo3(get)]
    notes: Vec<String>,
    /// True if Ctrl-C or a lost result has stopped the work.
    #[pyo3(get)]
    interrupted: bool,
    /// Finished results.
    #[pyo3(get)]
    done: usize,
    /// All results.
    #[pyo3(get)]
    all: usize,
}

impl Comparison {
    fn with<T>(&self, read: impl FnOnce(&[ebbpool_lab::Comparison]) -> T) -> T {
        let comparisons = self.comparisons.lock();
        read(&comparisons.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn new(
        comparisons: Vec<ebbpool_lab::Comparison>,
        groups: Vec<TraceGroup>,
        notes: Vec<String>,
    ) -> Self {
        let traces = groups.len();
        let done = comparisons.iter().map(|one| one.finished().count()).sum();
        let all = comparisons.first().map_or(0, |one| one.cells.len()) * traces;
        let interrupted = comparisons.last().is_none_or(|last| last.interrupted);
        Comparison {
            comparisons: Mutex::new(comparisons),
            groups,
            notes,
            interrupted,
            done,
            all,
        }
    }
}

/// A title, sentences, and memory sizes as they are spelled and in frames.
type TraceAnswer = (String, Vec<String>, Vec<(String, u64)>);

/// The policy to take, by its index, with its mean bill and its bills over the least of each cell: see `ebbpool_lab::best`.
/// `cells` has for each cell a bill for each policy, or none.
#[pyfunction]
pub(crate) fn best(
    online: Vec<bool>,
    cells: Vec<Vec<Option<f64>>>,
) -> PyResult<Option<(usize, f64, Vec<f64>)>> {
    if cells.iter().any(|cell| cell.len() != online.len()) {
        return Err(PyValueError::new_err("a cell has a bill for each policy"));
    }
    let bills = Bills {
        online: &online,
        cells: &cells,
    };
    let best = bills.best();
    Ok(best.map(|best| (best.policy, best.mean_bill, best.above_least)))
}

#[pymethods]
impl Comparison {
    /// One row for each result.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        self.with(|all| Table::of_rows(py, all.iter().flat_map(|one| one.finished())))
    }

    /// The results with the figures of a device, as the command's JSON.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        self.with(|all| {
            let detailed: Vec<_> = all.iter().flat_map(|one| one.detailed()).collect();
            let mut json = Vec::new();
            let written = schema::write_json(&mut json, &detailed);
            written.map_err(|error| raise(py, Class::Failure, &error.to_string()))?;
            Ok(String::from_utf8_lossy(&json).into_owned())
        })
    }

    /// For each trace its title, its sentences, and its memory sizes as they are spelled and in frames.
    fn answers(&self) -> Vec<TraceAnswer> {
        self.with(|all| {
            let answer = |one: &ebbpool_lab::Comparison| {
                let sentences = [
                    Some(advice::sentence(one)),
                    advice::advice(one),
                    dirty_end::of_comparison(one),
                ];
                let sizes = one.sizes.iter().cloned().zip(one.frames.iter().copied());
                let sentences = sentences.into_iter().flatten();
                (one.title.clone(), sentences.collect(), sizes.collect())
            };
            all.iter().map(answer).collect()
        })
    }

    /// The policies that know the future.
    fn offline(&self) -> Vec<String> {
        self.with(|all| {
            let first = all.iter().take(1);
            let named = first.flat_map(|one| one.policies.iter().zip(&one.online));
            let offline = named.filter(|(_, online)| !**online);
            offline.map(|(name, _)| name.clone()).collect()
        })
    }

    /// One row for each policy over all traces, the best first; none for a single trace.
    fn summary(&self, py: Python<'_>) -> PyResult<Table> {
        self.with(|all| {
            let summary = Summary::of(all, &self.groups);
            Table::of_rows(py, summary.iter().flat_map(|summary| &summary.rows))
        })
    }

    /// The table that the command prints.
    fn text(&self) -> String {
        self.with(|all| ebbpool_cli::comparison_text(all, &self.groups))
    }

    /// The report as a page of HTML.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        let page = self.with(|all| report::page(all, &self.groups, &options()));
        page.map_err(|error| raise(py, Class::Failure, &error.to_string()))
    }

    /// Writes the report.
    fn report(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let written = self.with(|all| {
            let file = OutputFile::create(path)?;
            report::write(file, all, &self.groups, &options())
        });
        written.map_err(|error| lab_error(py, error))
    }
}

pub(crate) fn options() -> ReportOptions {
    let mut options = ReportOptions::default();
    options.date = Some(SystemTime::now());
    options
}

/// What a comparison is about, besides the traces.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CompareArguments<'py> {
    policies: Option<Vec<Bound<'py, PyAny>>>,
    frames: Vec<String>,
    asymmetry: Vec<String>,
    device: Option<String>,
    counting: Counting,
    bound: bool,
    report: bool,
}

impl CompareArguments<'_> {
    fn request(self, py: Python<'_>, calls: &Arc<Calls>) -> PyResult<CompareRequest> {
        let (selection, guests) = policies(py, calls, self.policies)?;
        let selection = selection.with_recommended();
        let pricing = pricing(py, &self.asymmetry, self.device.as_deref())?;
        let mut request = CompareRequest::new(selection, sizes(py, &self.frames)?, pricing);
        request.counting = self.counting.rules(py)?;
        request.bound = self.bound;
        request.for_report = self.report;
        request.guests = guests;
        let checked = request.check();
        checked.map_err(|error| lab_error(py, error.into()))?;
        Ok(request)
    }
}

/// Compares policies. With `stored` only results that are stored are taken, and nothing is computed.
#[pyfunction]
#[pyo3(signature = (traces, request, results, *, threads, progress, stored = false))]
pub(crate) fn compare(
    py: Python<'_>,
    traces: Vec<PyRef<'_, Trace>>,
    request: CompareArguments<'_>,
    results: &Results,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    stored: bool,
) -> PyResult<Comparison> {
    let calls = Calls::new();
    let request = request.request(py, &calls)?;
    let settings = results.settings(threads);
    let set = TraceSet::of(sources(&traces)).map_err(|error| lab_error(py, error.into()))?;
    let (sources, groups) = (set.sources, set.groups);
    let work = |watch: &Watch| {
        watch.stop_if(stored);
        let lab = Lab::new(settings, watch);
        compare_all(&lab, &sources, &request)
    };
    let Watched {
        answer,
        exception,
        notes,
    } = watched_with(py, &calls, progress.as_ref(), work);
    if let Some(exception) = exception {
        if let Ok(found) = &answer {
            let partial: usize = found.iter().map(|one| one.finished().count()).sum();
            let note = format!("{partial} results are done; with a cache the same call continues");
            let _ = exception.value(py).call_method1("add_note", (note,));
        }
        return Err(exception);
    }
    let comparisons = match answer {
        // Nothing is stored.
        Err(error) if stored && error.is_interrupted() => Vec::new(),
        answer => answer.map_err(|error| lab_error(py, error))?,
    };
    Ok(Comparison::new(comparisons, groups, notes))
}

/// The comparisons of the traces, up to one that is interrupted.
fn compare_all(
    lab: &Lab<'_>,
    sources: &[Source],
    request: &CompareRequest,
) -> Result<Vec<ebbpool_lab::Comparison>, LabError> {
    let mut comparisons: Vec<ebbpool_lab::Comparison> = Vec::new();
    for source in sources {
        comparisons.push(lab.compare(source, request)?);
        if comparisons.last().is_some_and(|last| last.interrupted) {
            break;
        }
    }
    Ok(comparisons)
}
