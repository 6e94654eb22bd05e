//! Advice for an operator.

use ebbpool_cost::{ByteSize, BytesPerDay, parse_duration};
use ebbpool_lab::advise::{AdviceClock, AdvicePageParts, DailyWrites, MeasuredWrites, ServerKind, report_page};
use ebbpool_lab::{AdviseRequest, Lab, MemorySize};
use pyo3::prelude::*;

use crate::curve::json_of;
use crate::errors::{Class, lab_error, raise, wrong};
use crate::requests::{Counting, parsed, pricing};
use crate::store::Results;
use crate::trace::Trace;
use crate::watch::{Watch, watched};

/// The answer to an operator.
#[pyclass(frozen, module = "ebbpool._ebbpool")]
pub(crate) struct Advice {
    advice: ebbpool_lab::Advice,
    #[pyo3(get)]
    notes: Vec<String>,
}

/// A table of texts: the names of the columns, and the rows.
type TextTable = (Vec<String>, Vec<Vec<String>>);

#[pymethods]
impl Advice {
    /// The answer as JSON.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        json_of(py, &self.advice)
    }

    /// The answer in sections: a title, sentences, and a table.
    fn paragraphs(&self) -> Vec<(&'static str, Vec<String>, Option<TextTable>)> {
        let paragraphs = self.advice.paragraphs().into_iter();
        let section = |one: ebbpool_lab::advise::AdviceParagraph| {
            let table = one.table.map(|table| (table.header, table.rows));
            (one.title, one.sentences, table)
        };
        paragraphs.map(section).collect()
    }

    /// The answer as a page of HTML.
    fn page(&self) -> String {
        report_page(&self.advice, &AdvicePageParts::default())
    }
}

/// What the advice is about, besides the trace.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct AdviseArguments {
    asymmetry: Vec<String>,
    device: Option<String>,
    server: Option<String>,
    now: Option<String>,
    frames: Option<String>,
    budget: Option<String>,
    memory_price: Option<f64>,
    duration: Option<String>,
    writes_per_day: Option<String>,
    life: Option<String>,
    facts: Option<String>,
    counting: Counting,
}

impl AdviseArguments {
    fn request(&self, py: Python<'_>) -> PyResult<AdviseRequest> {
        let pricing = match (self.asymmetry.is_empty(), &self.device) {
            (true, None) => None,
            (_, device) => pricing(py, &self.asymmetry, device.as_deref())?.pop(),
        };
        let duration = |name: &str, text: &Option<String>| {
            let text = text.as_deref();
            let parsed = text.map(|text| parse_duration(text).map_err(|error| wrong(py, name, error)));
            parsed.transpose()
        };
        let counting = self.counting.rules(py)?;
        let clock = [
            counting.rate.map(AdviceClock::Rate),
            duration("duration", &self.duration)?.map(AdviceClock::Duration),
            self.daily_writes(py)?.map(AdviceClock::DailyWrites),
        ];
        let mut clocks = clock.into_iter().flatten();
        let clock = clocks.next();
        if clocks.next().is_some() {
            let text = "rate=, duration=, writes_per_day=: give one of them";
            return Err(raise(py, Class::Usage, text));
        }
        let facts = self.facts.as_deref().map(MeasuredWrites::from_facts);
        let measured = facts.transpose().map_err(|error| wrong(py, "facts", error))?;
        let frames = self.frames.as_deref();
        let budget = self.budget.as_deref();
        let mut request = AdviseRequest::default();
        request.pricing = pricing;
        request.server = self.server.as_deref().map(|name| server(py, name)).transpose()?;
        let now = self.now.as_deref();
        request.now = now.map(|text| parsed(py, "now", text)).transpose()?;
        request.frames = frames.map(|text| parsed::<MemorySize>(py, "frames", text)).transpose()?;
        request.budget = budget.map(|text| parsed::<ByteSize>(py, "budget", text)).transpose()?;
        request.memory_price = self.memory_price;
        request.clock = clock;
        request.life = duration("life", &self.life)?;
        request.counting = counting;
        request.counting.rate = None;
        request.measured = measured;
        let checked = request.check();
        checked.map_err(|error| lab_error(py, error.into()))?;
        Ok(request)
    }

    fn daily_writes(&self, py: Python<'_>) -> PyResult<Option<DailyWrites>> {
        let Some(text) = self.writes_per_day.as_deref() else {
            return Ok(None);
        };
        Ok(Some(match text.parse::<f64>() {
            Ok(pages) => DailyWrites::Pages(pages),
            Err(_) => DailyWrites::Bytes(parsed::<BytesPerDay>(py, "writes_per_day", text)?),
        }))
    }
}

fn server(py: Python<'_>, name: &str) -> PyResult<ServerKind> {
    Ok(match name {
        "postgresql" => ServerKind::Postgresql,
        "innodb" => ServerKind::Innodb,
        "sqlite" => ServerKind::Sqlite,
        "other" => ServerKind::Other,
        _ => {
            let text = format!("'{name}' is not one of postgresql, innodb, sqlite and other");
            return Err(wrong(py, "server", text));
        }
    })
}

/// Advises an operator.
#[pyfunction]
#[pyo3(signature = (trace, request, results, *, threads, progress))]
pub(crate) fn advise(
    py: Python<'_>,
    trace: &Trace,
    request: AdviseArguments,
    results: &Results,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Advice> {
    let request = request.request(py)?;
    let settings = results.settings(threads);
    let work = |watch: &Watch| Lab::new(settings, watch).advise(&trace.source, &request);
    let (advice, notes) = watched(py, progress.as_ref(), work).finish(py)?;
    Ok(Advice { advice, notes })
}
