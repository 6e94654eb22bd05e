//! `ebbpool trace`: describe and convert traces.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use ebbpool_sim::SimError;
use ebbpool_trace::stats::Info;
use ebbpool_trace::{Batch, Format, Source, Writer};

use crate::args::{ConvertArgs, RunFormat, TraceArgs, TraceCommand};
use crate::{Failure, progress, run};

const BATCH: usize = 1 << 16;

pub(crate) fn trace(args: &TraceArgs) -> Result<(), Failure> {
    match &args.command {
        TraceCommand::Info {
            trace,
            trace_format,
            format,
        } => info(trace, *trace_format, *format),
        TraceCommand::Convert(args) => convert(args),
    }
}

fn info(trace: &str, trace_format: Option<Format>, format: RunFormat) -> Result<(), Failure> {
    let source = Source::parse(trace, trace_format)?;
    let mut reader = source.open()?;
    run::report_notes(reader.notes());
    let metadata = reader.metadata().clone();
    let info = Info::of(&mut reader)?;
    let rows = [
        (
            "name",
            metadata
                .name
                .map_or("null".into(), |name| serde_json::json!(name)),
        ),
        ("page_size", serde_json::json!(metadata.page_size)),
        ("database_pages", serde_json::json!(metadata.database_pages)),
        ("references", serde_json::json!(info.references)),
        ("writes", serde_json::json!(info.writes)),
        ("write_ratio", serde_json::json!(info.write_ratio)),
        ("distinct_pages", serde_json::json!(info.distinct_pages)),
        ("lowest_page", serde_json::json!(info.lowest_page)),
        ("highest_page", serde_json::json!(info.highest_page)),
        (
            "immediate_repeats",
            serde_json::json!(info.immediate_repeats),
        ),
        ("pages_only_read", serde_json::json!(info.pages_only_read)),
        (
            "pages_only_written",
            serde_json::json!(info.pages_only_written),
        ),
        ("pages_both", serde_json::json!(info.pages_both)),
    ];
    let mut out = io::stdout().lock();
    match format {
        RunFormat::Json => {
            let object: serde_json::Map<_, _> = rows
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect();
            serde_json::to_writer_pretty(&mut out, &object).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        RunFormat::Table => {
            for (name, value) in rows {
                let value = match value {
                    serde_json::Value::Null => "unknown".to_string(),
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                };
                writeln!(out, "{:<20}{value}", name.replace('_', " "))?;
            }
        }
    }
    Ok(())
}

fn convert(args: &ConvertArgs) -> Result<(), Failure> {
    let format = args
        .to_format
        .or_else(|| Format::of_name(&args.to))
        .ok_or_else(|| {
            let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            Failure::Usage(format!(
                "the name {} does not tell a format; give --to-format, one of: {}",
                args.to.display(),
                known.join(" ")
            ))
        })?;
    let source = Source::parse(&args.from, args.trace_format)?;
    let mut reader = source.open()?;
    run::report_notes(reader.notes());
    let mut writer = Writer::create_with(&args.to, format, reader.metadata(), args.level)?;
    let bar = progress::bar(source.label());
    let mut batch = Batch::with_capacity(BATCH);
    let mut to_skip = args.skip;
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let most = if to_skip > 0 { to_skip } else { left };
        let most = usize::try_from(most).map_or(BATCH, |most| most.min(BATCH));
        if !reader.next_batch(&mut batch, most)? {
            break;
        }
        if progress::STOP.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted.into());
        }
        if to_skip > 0 {
            to_skip -= batch.len() as u64;
        } else {
            left -= batch.len() as u64;
            writer.write(&batch)?;
        }
        progress::set(&bar, reader.progress());
    }
    let written = writer.finish()?;
    bar.finish_and_clear();
    writeln!(
        io::stdout(),
        "{}: {} references, {} bytes",
        args.to.display(),
        written.references,
        written.bytes
    )?;
    Ok(())
}
