//! `ebbpool curve`: reads, writes and bill against memory size, and the memory that a target needs.

pub(crate) mod args;
mod table;

use std::io::{self, Write};
use std::slice;

use ebbpool_lab::{CurveStudy, report, schema};
use ebbpool_trace::Source;

use crate::failure::Failure;
use crate::origin::report_options;
use crate::outputs;
use crate::progress::Console;
use crate::results;
use args::{CurveArgs, CurveFormat};

pub(crate) fn curve(args: &CurveArgs) -> Result<(), Failure> {
    let source = match args.traces.is_empty() {
        true => results::sample(&args.reading.options()),
        false => args.reading.source(&args.traces)?,
    };
    Source::refuse_overwriting(slice::from_ref(&source), args.report.clone())?;
    let console = Console::default();
    let lab = results::lab(&console, args.threads.count(), !args.no_cache);
    // The report file is created first: an unwritable path must not waste the simulations.
    let report_file = args.report.as_ref().map(outputs::create).transpose()?;
    let study = lab.curve(&source, &args.request())?;
    print(args.format, &study)?;
    if let (Some(path), Some(file)) = (&args.report, report_file) {
        report::write(file, &[study.into_comparison()], &[], &report_options())?;
        // The command does not fail because standard error takes no line.
        let _ = writeln!(io::stderr(), "report: {}", path.display());
    }
    Ok(())
}

fn print(format: CurveFormat, study: &CurveStudy) -> io::Result<()> {
    let mut out = io::BufWriter::new(outputs::results());
    match format {
        CurveFormat::Table => write!(out, "{}", table::of_study(study))?,
        CurveFormat::Json => schema::write_json(&mut out, &study.rows())?,
        CurveFormat::Csv => schema::write_csv(&mut out, &study.rows())?,
    }
    out.flush()
}
