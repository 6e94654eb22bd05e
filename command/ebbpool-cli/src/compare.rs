//! `ebbpool compare`: compares policies over memory sizes and asymmetries.

pub(crate) mod args;
pub(crate) mod publication;
mod several;
pub(crate) mod table;

use std::io::{self, IsTerminal, Write};

use ebbpool_lab::several::Summary;
use ebbpool_lab::trace_set::{TraceGroup, TraceSet};
use ebbpool_lab::{CompareRequest, Comparison, DetailedResult, Lab, LabError, RunResult, report, schema};
use ebbpool_trace::Source;

use crate::failure::Failure;
use crate::origin::report_options;
use crate::outputs;
use crate::progress::Console;
use crate::results;
use args::{CompareArgs, CompareFormat};
use publication::Markup;

pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let request = args.request()?;
    if args.format == CompareFormat::Parquet && io::stdout().is_terminal() {
        return Err(Failure::Usage("--format parquet is binary; send it to a file, as in > results.parquet".into()));
    }
    let traces = traces(args)?;
    let sources = &traces.sources;
    Source::refuse_overwriting(sources, args.report.iter().chain(&args.figure).cloned())?;
    let console = Console::default();
    let lab = results::lab(&console, args.common.threads.count(), !args.no_cache);
    // The report file is created first: an unwritable path must not waste the simulations.
    let report_file = args.report.as_ref().map(outputs::create).transpose()?;
    let figure_file = args.figure.as_ref().map(outputs::create).transpose()?;
    let (comparisons, error) = compare_each(&lab, sources, &request);
    let error = match error {
        Some(error) if comparisons.is_empty() => return Err(error.into()),
        error => error,
    };
    if let Some(file) = report_file {
        report::write(file, &comparisons, &traces.groups, &report_options())?;
    }
    let picture = figure_file.and_then(|file| Some((file, report::picture(&comparisons, &traces.groups)?)));
    if let Some((mut file, picture)) = picture {
        file.write_all(report::chart::svg(&picture).as_bytes())?;
        file.finish()?;
    }
    print(args.format, &comparisons, &traces)?;
    print_report_hint(args);
    let finished = || comparisons.iter().flat_map(Comparison::finished);
    let interrupted =
        error.as_ref().is_some_and(LabError::is_interrupted) || comparisons.last().is_some_and(|last| last.interrupted);
    match error {
        _ if interrupted => Err(Failure::Interrupted {
            done: finished().count(),
            all: sources.len() * comparisons.last().map_or(0, |last| last.cells.len()),
            hint: match args.no_cache {
                true => "",
                false => "; the same command goes on from there",
            },
        }),
        Some(error) => Err(error.into()),
        None if finished().all(|result| result.failed.is_some()) => Err(Failure::AllFailed),
        None => Ok(()),
    }
}

/// The comparisons on the traces up to the first that has none, and why that has none; an interruption ends with the results
/// finished by then.
fn compare_each(lab: &Lab<'_>, sources: &[Source], request: &CompareRequest) -> (Vec<Comparison>, Option<LabError>) {
    let mut comparisons = Vec::new();
    for source in sources {
        match lab.compare(source, request) {
            Ok(comparison) => comparisons.push(comparison),
            Err(error) => return (comparisons, Some(error)),
        }
        if comparisons.last().is_some_and(|last| last.interrupted) {
            break;
        }
    }
    (comparisons, None)
}

/// The traces that the arguments name.
fn traces(args: &CompareArgs) -> Result<TraceSet, Failure> {
    let reading = &args.common.reading;
    if args.seeds == 1 {
        return Ok(TraceSet::new(match args.traces.is_empty() {
            true => vec![results::sample(&reading.options())],
            false => reading.sources(&args.traces)?,
        })?);
    }
    let set = TraceSet::with_seeds(&args.traces, &reading.options(), args.seeds)?;
    match set.is_of_single_traces() {
        true => Err(Failure::Usage(
            "--seeds makes other traces of the same kind with a generator, and no trace here is one; name some, such as zipf:pages=10000,refs=1000000".into(),
        )),
        false => Ok(set),
    }
}

fn print(format: CompareFormat, comparisons: &[Comparison], traces: &TraceSet) -> io::Result<()> {
    let mut out = io::BufWriter::new(outputs::results());
    let results = || comparisons.iter().flat_map(Comparison::finished);
    match format {
        CompareFormat::Table => write!(out, "{}", text(comparisons, &traces.groups))?,
        CompareFormat::Markdown | CompareFormat::Latex => {
            let markup = match format {
                CompareFormat::Latex => Markup::Latex,
                _ => Markup::Markdown,
            };
            let text = publication::of_comparisons(markup, comparisons, &traces.groups);
            write!(out, "{text}")?;
        }
        CompareFormat::Json => {
            let detailed = comparisons.iter().flat_map(Comparison::detailed);
            let detailed: Vec<DetailedResult> = detailed.collect();
            schema::write_json(&mut out, &detailed)?;
        }
        CompareFormat::Csv => schema::write_csv(&mut out, results())?,
        CompareFormat::Parquet => {
            let results: Vec<&RunResult> = results().collect();
            out.write_all(&schema::parquet(results)?)?;
        }
    }
    out.flush()
}

/// The tables of each trace, or of the seeds of each generator, and those of all together.
pub(crate) fn text(comparisons: &[Comparison], groups: &[TraceGroup]) -> String {
    let mut text = String::new();
    for group in groups {
        let end = group.members.end.min(comparisons.len());
        let members = comparisons.get(group.members.start..end);
        if !text.is_empty() && members.is_some_and(|members| !members.is_empty()) {
            text.push('\n');
        }
        match members {
            None | Some([]) => {}
            Some([one]) => text += &table::of_comparison(one),
            Some(seeds) => text += &several::of_seeds(group, seeds),
        }
    }
    let summary = Summary::from_comparisons(comparisons, groups);
    text.extend(summary.map(|summary| several::of_summary(&summary)));
    text
}

fn print_report_hint(args: &CompareArgs) {
    let hint = match &args.report {
        Some(path) => format!("report: {}", path.display()),
        None if args.format == CompareFormat::Table && io::stdout().is_terminal() => {
            "charts: the same command with --report FILE.html".into()
        }
        None => return,
    };
    // The command does not fail because standard error takes no line.
    let _ = writeln!(io::stderr(), "{hint}");
}
