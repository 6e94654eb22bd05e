//! `ebbpool run`: runs one policy over one trace.

pub(crate) mod args;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::slice;

use ebbpool_lab::{RunRecording, schema};
use ebbpool_trace::{Format, Source};

use crate::failure::Failure;
use crate::outputs;
use crate::progress::Console;
use crate::results;
use crate::shared_args::RunFormat;
use args::RunArgs;

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let request = args.request()?;
    let source = args.common.reading.source(&args.traces)?;
    let outputs = [&args.events, &args.series, &args.misses].into_iter().flatten();
    Source::refuse_overwriting(slice::from_ref(&source), outputs.cloned())?;
    let is_other = |path: &&PathBuf| {
        let packed = path.extension().is_some_and(|extension| extension == "gz" || extension == "zst");
        packed || Format::of_name(path).is_some_and(|format| format != Format::Text)
    };
    if let Some(path) = args.misses.as_ref().filter(is_other) {
        let problem = format!("--misses writes text, which {} would not be read as; name a .txt", path.display());
        return Err(Failure::Usage(problem));
    }
    let console = Console::default();
    let lab = results::lab(&console, args.common.threads.count(), false);
    let mut recording = RunRecording::default();
    recording.events = args.events.as_ref().map(outputs::create).transpose()?;
    recording.series = args.series.as_ref().map(outputs::create).transpose()?;
    recording.misses = args.misses.as_ref().map(outputs::create).transpose()?;
    let (outcome, recording) = lab.run_recorded(&source, &request, recording)?;
    for file in [recording.events, recording.series, recording.misses].into_iter().flatten() {
        file.finish()?;
    }
    let detailed = outcome.detailed();
    let mut out = outputs::results();
    match args.format {
        RunFormat::Json => schema::write_json(&mut out, &detailed)?,
        RunFormat::Table => write!(out, "{}", table::of_run(&detailed))?,
    }
    match outcome.device.and_then(|device| device.failed) {
        // The text says already that the device failed.
        Some(failed) => Err(Failure::Command { error: failed.into(), usage: false }),
        None => Ok(()),
    }
}
