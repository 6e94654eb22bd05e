//! Comparisons of policies.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ebbpool_cli::Markup;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::advice::Answer;
use ebbpool_lab::best::{BillCell, Bills, cells as compared_cells};
use ebbpool_lab::report::{self, ReportOptions};
use ebbpool_lab::several::Summary;
use ebbpool_lab::trace_set::{TraceGroup, TraceSet};
use ebbpool_lab::{CompareRequest, Lab, LabError, MemorySize, Pricing, schema};
use ebbpool_sim::BufferSize;
use ebbpool_trace::Source;
use ebbpool_trace::output::OutputFile;
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::errors::{Class, lab_error, raise};
use crate::requests::{Counting, parsed, policies, pricing, sizes};
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

    fn new(comparisons: Vec<ebbpool_lab::Comparison>, groups: Vec<TraceGroup>, notes: Vec<String>) -> Self {
        let traces = groups.len();
        let done = comparisons.iter().map(|one| one.finished().count()).sum();
        let all = comparisons.first().map_or(0, |one| one.cells.len()) * traces;
        let interrupted = comparisons.last().is_none_or(|last| last.interrupted);
        Comparison { comparisons: Mutex::new(comparisons), groups, notes, interrupted, done, all }
    }
}

/// A title, sentences, and memory sizes as they are spelled and in frames.
type TraceAnswer = (String, Vec<String>, Vec<(String, u64)>);

/// The answers over some traces as plain data, which other processes get too: the policies and whether each knows nothing of the
/// future, the traces, and the cells.
type ComparedCells = (Vec<(String, bool)>, Vec<ComparedTrace>, Vec<ComparedPlace>);

/// A trace's name, the earlier trace that it repeats, its memory sizes as they are spelled and in frames, and its prices: the
/// label, R, and whether R changes.
type ComparedTrace = (String, Option<usize>, Vec<(String, u64)>, Vec<(String, f64, bool)>);

/// The indices of a trace, a price and a size, and for each policy the bill and the number of the row in the table.
type ComparedPlace = ([usize; 3], Vec<(Option<f64>, Option<usize>)>);

/// The policy to take, with its mean bill, its largest bill over the least of the same cell, less 1, the number of cells and of
/// those whose least bill is 0, and for a single cell the number of its row.
type Best = (String, f64, f64, usize, usize, Option<usize>);

/// The cells that the arguments of `best()` name.
struct CellFilter<'a> {
    frames: Option<MemorySize>,
    asymmetry: Option<AsymmetrySpec>,
    trace: Option<&'a str>,
    trace_at: Option<usize>,
}

impl CellFilter<'_> {
    fn has(&self, traces: &[ComparedTrace], [trace, pricing, size]: [usize; 3]) -> bool {
        let (name, _, sizes, prices) = &traces[trace];
        let has_size = |wanted: &MemorySize| {
            let frames = sizes[size].1;
            // One of the spellings of this number of frames.
            let mut spelled = sizes.iter().filter(|(_, other)| *other == frames);
            let is_wanted = |text: &str| {
                let parsed: Result<MemorySize, _> = text.parse();
                parsed.is_ok_and(|other| other.size == wanted.size)
            };
            wanted.size == BufferSize::Frames(frames) || spelled.any(|(text, _)| is_wanted(text))
        };
        let (label, ratio, changes) = &prices[pricing];
        let has_price = |wanted: &AsymmetrySpec| match wanted.constant() {
            Some(wanted) => !changes && wanted.ratio() == *ratio,
            None => *changes && wanted.to_string() == *label,
        };
        self.frames.as_ref().is_none_or(has_size)
            && self.asymmetry.as_ref().is_none_or(has_price)
            && self.trace.is_none_or(|wanted| wanted == name)
            && self.trace_at.is_none_or(|wanted| wanted == trace)
    }
}

/// The policy to take of some of the cells, by the rule of `ebbpool_lab::best`. None if no policy has finished in all of them.
#[pyfunction]
#[pyo3(signature = (cells, frames, asymmetry, trace, trace_at))]
pub(crate) fn best(
    py: Python<'_>,
    cells: ComparedCells,
    frames: Option<&str>,
    asymmetry: Option<&str>,
    trace: Option<&str>,
    trace_at: Option<usize>,
) -> PyResult<Option<Best>> {
    let (policies, traces, cells) = cells;
    let wanted = CellFilter {
        frames: frames.map(|text| parsed(py, "frames", text)).transpose()?,
        asymmetry: asymmetry.map(|text| parsed(py, "asymmetry", text)).transpose()?,
        trace,
        trace_at,
    };
    let (chosen, rows): (Vec<BillCell>, Vec<Vec<Option<usize>>>) = cells
        .into_iter()
        .filter(|(place, _)| wanted.has(&traces, *place))
        .map(|(place, results)| {
            let (bills, rows) = results.into_iter().unzip();
            (BillCell::new(place, bills), rows)
        })
        .unzip();
    if chosen.is_empty() {
        return Err(raise(py, Class::Usage, "best(): there is no such result"));
    }
    let is_there = |trace: usize| chosen.iter().any(|cell| cell.trace == trace);
    let repeats = |cell: &BillCell| traces[cell.trace].1.is_some_and(is_there);
    let own = chosen.iter().zip(rows).filter(|(cell, _)| !repeats(cell));
    let (own, rows): (Vec<BillCell>, Vec<_>) = own.map(|(cell, rows)| (cell.clone(), rows)).unzip();
    let online: Vec<bool> = policies.iter().map(|(_, online)| *online).collect();
    let bills = Bills { online: &online, cells: &own };
    let best = bills.best().map(|best| {
        let row = match rows.as_slice() {
            [row] => row[best.policy],
            _ => None,
        };
        let name = policies[best.policy].0.clone();
        let above = best.worst() - 1.0;
        (name, best.mean_bill, above, own.len(), best.free, row)
    });
    Ok(best)
}

/// The tables of a price: the trace's index, R as a text, the unit of bills and a bill of one page read in it, and the first of its
/// rows and the one after the last.
type PriceTable = (usize, String, String, f64, usize, usize);

/// Of each trace's cells, the numbers of their rows in the table.
fn row_numbers(all: &[ebbpool_lab::Comparison]) -> Vec<Vec<Option<usize>>> {
    let mut rows = 0..;
    let of_one = |one: &ebbpool_lab::Comparison| {
        let cells = one.cells.iter();
        cells.map(|cell| cell.as_ref().and_then(|_| rows.next())).collect()
    };
    all.iter().map(of_one).collect()
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
                let sentences: Vec<String> = Answer::new(one).sentences().map(String::from).collect();
                let sizes = one.sizes.iter().cloned().zip(one.frames.iter().copied());
                (one.title.clone(), sentences, sizes.collect())
            };
            all.iter().map(answer).collect()
        })
    }

    /// The cells, for `best`.
    fn cells(&self) -> ComparedCells {
        self.with(|all| {
            let first = all.first();
            let policies = first.map_or_else(Vec::new, |first| {
                let online = first.online.iter().copied();
                first.policies.iter().cloned().zip(online).collect()
            });
            let traces = all.iter().zip(&self.groups).map(|(one, group)| {
                let sizes = one.sizes.iter().cloned().zip(one.frames.iter().copied());
                let price = |price: &Pricing| {
                    let changes = price.changing.is_some();
                    (price.label(), price.asymmetry.ratio(), changes)
                };
                let prices = one.pricings.iter().map(price);
                let name = group.name.clone();
                (name, group.repeats, sizes.collect(), prices.collect())
            });
            let rows = row_numbers(all);
            let cells = compared_cells(all, &self.groups).into_iter().map(|cell| {
                let (trace, pricing, size) = (cell.trace, cell.pricing, cell.size);
                let one = &all[trace];
                let row = |policy: usize| {
                    let at = (pricing * one.policies.len() + policy) * one.sizes.len() + size;
                    rows[trace][at]
                };
                let results = cell.bills.iter().enumerate();
                let results = results.map(|(policy, bill)| (*bill, row(policy)));
                ([trace, pricing, size], results.collect())
            });
            let cells = cells.collect();
            (policies, traces.collect(), cells)
        })
    }

    /// The tables, one for each trace and price.
    fn price_tables(&self) -> Vec<PriceTable> {
        self.with(|all| {
            let rows = row_numbers(all);
            let mut tables = Vec::new();
            for (trace, (one, rows)) in all.iter().zip(&rows).enumerate() {
                let unit = one.bill_unit();
                let in_unit = format!("{} {} in {}", unit.name, unit.per, unit.unit);
                let of_prices = rows.chunks(one.policies.len() * one.sizes.len());
                for (pricing, rows) in one.pricings.iter().zip(of_prices) {
                    let mut rows = rows.iter().flatten();
                    if let Some(&first) = rows.next() {
                        let end = 1 + rows.next_back().copied().unwrap_or(first);
                        let (label, unit) = (pricing.label(), in_unit.clone());
                        tables.push((trace, label, unit, one.bill_unit().factor, first, end));
                    }
                }
            }
            tables
        })
    }

    /// One row for each policy over all traces, the best first; none for a single trace.
    fn summary(&self, py: Python<'_>) -> PyResult<Table> {
        self.with(|all| {
            let summary = Summary::from_comparisons(all, &self.groups);
            Table::of_rows(py, summary.iter().flat_map(|summary| &summary.rows))
        })
    }

    /// The answer over all traces, if there are several.
    fn over_all(&self) -> Vec<String> {
        self.with(|all| Summary::from_comparisons(all, &self.groups).iter().map(Summary::sentence).collect())
    }

    /// The table that the command prints.
    fn text(&self) -> String {
        self.with(|all| ebbpool_cli::comparison_text(all, &self.groups))
    }

    /// Tables for a text: in LaTeX, or else in Markdown.
    fn for_text(&self, latex: bool) -> String {
        let markup = if latex { Markup::Latex } else { Markup::Markdown };
        self.with(|all| ebbpool_cli::comparison_for_text(markup, all, &self.groups))
    }

    /// The report as a page of HTML.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        let page = self.with(|all| report::page(all, &self.groups, &options()));
        page.map_err(|error| raise(py, Class::Failure, &error.to_string()))
    }

    /// The bills against memory size as a picture, in SVG; nothing if no run has finished.
    fn figure(&self) -> Option<String> {
        self.with(|all| report::picture(all, &self.groups).map(|picture| report::chart::svg(&picture)))
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
    let set = TraceSet::new(sources(&traces)).map_err(|error| lab_error(py, error.into()))?;
    let (sources, groups) = (set.sources, set.groups);
    let work = |watch: &Watch| {
        watch.stop_if(stored);
        let lab = Lab::new(settings, watch);
        compare_all(&lab, &sources, &request)
    };
    let Watched { answer, exception, notes } = watched_with(py, &calls, progress.as_ref(), work);
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
fn compare_all(lab: &Lab<'_>, sources: &[Source], request: &CompareRequest) -> Result<Vec<ebbpool_lab::Comparison>, LabError> {
    let mut comparisons: Vec<ebbpool_lab::Comparison> = Vec::new();
    for source in sources {
        comparisons.push(lab.compare(source, request)?);
        if comparisons.last().is_some_and(|last| last.interrupted) {
            break;
        }
    }
    Ok(comparisons)
}
