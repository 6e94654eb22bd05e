//! `ebbpool advise`: the answer to an operator on one page.

pub(crate) mod args;
pub(crate) mod commands;
mod page;

use std::io::{self, Write};
use std::slice;

use ebbpool_lab::advise::{Advice, AdvicePageParts, report_page};
use ebbpool_lab::{AdviseRequest, Lab, schema};
use ebbpool_trace::Source;
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::origin::report_options;
use crate::outputs;
use crate::progress::Console;
use crate::results;
use crate::shared_args::RunFormat;
use args::AdviseArgs;
use commands::{CommandLine, TraceWords, file_word};

/// The trace that stands for standard input.
const STANDARD_INPUT: &str = "-";

pub(crate) fn advise(args: &AdviseArgs) -> Result<(), Failure> {
    let mut request = args.request()?;
    request.measured = args.measured()?;
    let source = match args.traces.is_empty() {
        true => results::sample(&args.reading.options()),
        false => args.reading.source(&args.traces)?,
    };
    Source::refuse_overwriting(slice::from_ref(&source), args.report.clone())?;
    let console = Console::default();
    let lab = results::lab(&console, args.threads.count(), !args.no_cache);
    // The report file is created first: an unwritable path must not waste the simulations.
    let report_file = args.report.as_ref().map(outputs::create).transpose()?;
    let word = |trace: &String| match trace.as_str() {
        STANDARD_INPUT => trace.clone(),
        path => file_word(path),
    };
    let trace = TraceWords {
        traces: args.traces.iter().map(word).collect(),
        warmup: args.warmup.text.clone(),
        reading: args.reading.words(),
    };
    let (advice, commands) = answer(&lab, &source, &request, &trace, args.format)?;
    if let (Some(path), Some(mut file)) = (&args.report, report_file) {
        let mut parts = AdvicePageParts::default();
        parts.commands = commands.iter().map(|line| (line.about.to_string(), line.command.clone())).collect();
        parts.hints = advice.warnings.iter().map(page::hint).map(String::from).collect();
        parts.origin = report_options();
        let written = file.write_all(report_page(&advice, &parts).as_bytes());
        written.map_err(|source| Failure::File { path: path.display().to_string(), source })?;
        file.finish()?;
        // The command does not fail because standard error takes no line.
        let _ = writeln!(io::stderr(), "report: {}", path.display());
    }
    Ok(())
}

/// Prints the lab's advice, with the commands that have its figures, and returns both.
pub(crate) fn answer(
    lab: &Lab,
    source: &Source,
    request: &AdviseRequest,
    trace: &TraceWords,
    format: RunFormat,
) -> Result<(Advice, Vec<CommandLine>), Failure> {
    let advice = lab.advise(source, request)?;
    let commands = commands::of_advice(&advice, trace);
    print(format, &advice, &commands)?;
    Ok((advice, commands))
}

/// An advice with the commands that have its figures.
#[derive(JsonSchema, Serialize)]
pub(crate) struct AdviceDocument<'a> {
    #[serde(flatten)]
    advice: &'a Advice,
    commands: &'a [CommandLine],
}

fn print(format: RunFormat, advice: &Advice, commands: &[CommandLine]) -> io::Result<()> {
    let mut out = io::BufWriter::new(outputs::results());
    match format {
        RunFormat::Table => write!(out, "{}", page::of_advice(advice, commands))?,
        RunFormat::Json => schema::write_json(&mut out, &AdviceDocument { advice, commands })?,
    }
    out.flush()
}
