//! `ebbpool replay`: runs a trace through the pool, on a real file.

pub(crate) mod args;
mod table;

use std::io::{self, Write};
use std::slice;

use ebbpool_lab::replay::{ReplayOutputs, ReplayResult};
use ebbpool_lab::schema;
use ebbpool_trace::Source;

use crate::failure::Failure;
use crate::progress::Console;
use crate::results;
use crate::shared_args::RunFormat;
use args::ReplayArgs;

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let source = args.reading.source(&args.traces)?;
    let outputs = [&args.file, &args.events, &args.record];
    let outputs = outputs.into_iter().flatten().cloned();
    Source::refuse_overwriting(slice::from_ref(&source), outputs)?;
    let console = Console::default();
    let lab = results::lab(&console, None, false);
    let mut outputs = ReplayOutputs::default();
    outputs.events = args.events.clone();
    outputs.references = args.record.clone();
    let study = lab.replay(&source, &args.request()?, &outputs)?;
    print(args, &study.results)?;
    study.into_result()?;
    Ok(())
}

fn print(args: &ReplayArgs, results: &[ReplayResult]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match (args.format, results) {
        (RunFormat::Json, [result]) if args.policies.is_empty() => schema::write_json(&mut out, result),
        (RunFormat::Json, results) => schema::write_json(&mut out, results),
        (RunFormat::Table, [result]) => out.write_all(table::of_replay(result).as_bytes()),
        (RunFormat::Table, results) => out.write_all(table::of_replays(results).as_bytes()),
    }
}
