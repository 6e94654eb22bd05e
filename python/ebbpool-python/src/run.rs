//! Runs of one policy, and the command.

use std::ffi::OsString;

use ebbpool_lab::{Lab, MemorySize, RunRecording, RunRequest, Settings};
use pyo3::prelude::*;

use crate::curve::json_of;
use crate::requests::{Counting, parsed, pricing};
use crate::table::Table;
use crate::trace::Trace;
use crate::watch::{Watch, watched};

/// What a run is about, besides the trace.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunArguments {
    policy: String,
    frames: String,
    asymmetry: Vec<String>,
    device: Option<String>,
    counting: Counting,
    events: bool,
    series: bool,
}

/// The table of one row, the command's JSON, the recorded events and series, and notes.
type RunAnswer = (Table, String, Option<String>, Option<String>, Vec<String>);

/// Runs one policy.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, trace: &Trace, request: RunArguments, progress: Option<Py<PyAny>>) -> PyResult<RunAnswer> {
    let size: MemorySize = parsed(py, "frames", &request.frames)?;
    let pricing = pricing(py, &request.asymmetry, request.device.as_deref())?;
    let mut lab_request =
        RunRequest::new(parsed(py, "policies", &request.policy)?, size, pricing.into_iter().next().unwrap_or_default());
    lab_request.counting = request.counting.rules(py)?;
    let mut recording = RunRecording::default();
    recording.events = request.events.then(Vec::new);
    recording.series = request.series.then(Vec::new);
    let work = |watch: &Watch| {
        let lab = Lab::new(Settings::default(), watch);
        lab.run_recorded(&trace.source, &lab_request, recording)
    };
    let ((outcome, recording), notes) = watched(py, progress.as_ref(), work).finish(py)?;
    let table = Table::of_rows(py, [&outcome.result])?;
    let json = json_of(py, &outcome.detailed())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (events, series) = (recording.events.map(text), recording.series.map(text));
    Ok((table, json, events, series, notes))
}

/// The identity of the code: two builds with the same one compute the same results.
#[pyfunction]
pub(crate) fn build_identity() -> String {
    ebbpool_lab::build_identity()
}

/// Runs the command with these arguments, the program's name first, and returns its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| ebbpool_cli::main_from(arguments))
}
