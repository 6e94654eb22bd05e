//! `ebbpool compare`: compares policies over memory sizes and asymmetries.

pub(crate) mod args;
pub(crate) mod table;

use std::io::{self, IsTerminal, Write};

use ebbpool_lab::{Comparison, DetailedResult, RunResult, report, schema};
use ebbpool_trace::Source;
use ebbpool_trace::output::OutputFile;

use crate::failure::Failure;
use crate::origin::report_options;
use crate::progress::Console;
use crate::results;
use args::{CompareArgs, CompareFormat};

pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let request = args.request()?;
    if args.format == CompareFormat::Parquet && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "--format parquet is binary; send it to a file, as in > results.parquet".into(),
        ));
    }
    let sources = match args.traces.is_empty() {
        true => vec![results::sample(&args.common.reading.options())],
        false => args.common.reading.sources(&args.traces)?,
    };
    Source::refuse_overwriting(&sources, args.report.clone())?;
    let console = Console::default();
    let lab = results::lab(&console, args.common.threads.count(), !args.no_cache);
    // The report file is created first: an unwritable path must not waste the simulations.
    let report_file = args.report.as_ref().map(OutputFile::create).transpose()?;
    let mut comparisons = Vec::new();
    for source in &sources {
        comparisons.push(lab.compare(source, &request)?);
        if comparisons.last().is_some_and(|last| last.interrupted) {
            break;
        }
    }
    if let Some(file) = report_file {
        report::write(file, &comparisons, &report_options())?;
    }
    print(args.format, &comparisons)?;
    print_report_hint(args);
    match comparisons.last() {
        Some(last) if last.interrupted => Err(Failure::Interrupted {
            done: comparisons.iter().flat_map(Comparison::finished).count(),
            all: sources.len() * last.results.len(),
            hint: match args.no_cache {
                true => "",
                false => "; the same command goes on from there",
            },
        }),
        _ if comparisons
            .iter()
            .flat_map(Comparison::finished)
            .all(|result| result.failed) =>
        {
            Err(Failure::AllFailed)
        }
        _ => Ok(()),
    }
}

fn print(format: CompareFormat, comparisons: &[Comparison]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let results = || comparisons.iter().flat_map(Comparison::finished);
    match format {
        CompareFormat::Table => {
            for comparison in comparisons {
                write!(out, "{}", table::of_comparison(comparison))?;
            }
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
