//! Replays in the pool.

use std::path::PathBuf;
use std::sync::Arc;

use ebbpool::storage::Engine;
use ebbpool_cost::Asymmetry;
use ebbpool_lab::replay::{ReplayFile, ReplayOutputs, ReplayRequest, ReplayStorage};
use ebbpool_lab::{Lab, MemorySize, Settings};
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::curve::json_of;
use crate::errors::wrong;
use crate::requests::{Counting, parsed, policies};
use crate::trace::Trace;
use crate::watch::{Watch, watched_with};

/// What a replay is about, besides the trace.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReplayArguments<'py> {
    policies: Option<Vec<Bound<'py, PyAny>>>,
    frames: String,
    file: Option<String>,
    create: bool,
    overwrite: bool,
    engine: String,
    direct: bool,
    page_size: Option<u64>,
    asymmetry: Option<String>,
    threads: u16,
    background: bool,
    read_ahead: u32,
    counting: Counting,
    verify: bool,
    events: Option<String>,
    record: Option<String>,
}

impl ReplayArguments<'_> {
    fn request(&mut self, py: Python<'_>, calls: &Arc<Calls>) -> PyResult<ReplayRequest> {
        let (selection, guests) = policies(py, calls, self.policies.take())?;
        let engine = match self.engine.as_str() {
            "auto" => Engine::Auto,
            "uring" => Engine::Uring,
            "threads" => Engine::Threads,
            other => {
                let text = format!("'{other}' is not one of auto, uring and threads");
                return Err(wrong(py, "engine", text));
            }
        };
        let counting = self.counting.rules(py)?;
        let size: MemorySize = parsed(py, "frames", &self.frames)?;
        let asymmetry = self.asymmetry.as_deref();
        let asymmetry = asymmetry.map(|text| parsed::<Asymmetry>(py, "asymmetry", text));
        let storage = match &self.file {
            None => ReplayStorage::Memory,
            Some(path) => {
                let mut file = ReplayFile::existing(path);
                file.create = self.create;
                file.overwrite = self.overwrite;
                file.engine = engine;
                file.direct = self.direct;
                ReplayStorage::File(file)
            }
        };
        let mut request = ReplayRequest::new(selection, size);
        request.storage = storage;
        request.page_size = self.page_size;
        request.asymmetry = asymmetry.transpose()?;
        request.threads = self.threads;
        request.background = self.background;
        request.read_ahead = self.read_ahead;
        request.warmup = counting.warmup;
        request.at_end = counting.at_end;
        request.cluster_size = counting.cluster_size;
        request.verify = self.verify;
        request.guests = guests;
        Ok(request)
    }
}

/// Replays a trace in the pool; returns the results as JSON, and notes.
#[pyfunction]
pub(crate) fn replay(
    py: Python<'_>,
    trace: &Trace,
    mut request: ReplayArguments<'_>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let calls = Calls::new();
    let lab_request = request.request(py, &calls)?;
    let mut outputs = ReplayOutputs::default();
    outputs.events = request.events.map(PathBuf::from);
    outputs.references = request.record.map(PathBuf::from);
    let work = |watch: &Watch| {
        let lab = Lab::new(Settings::default(), watch);
        let study = lab.replay(&trace.source, &lab_request, &outputs)?;
        study.into_result()
    };
    let (results, notes) = watched_with(py, &calls, progress.as_ref(), work).finish(py)?;
    Ok((json_of(py, &results)?, notes))
}
