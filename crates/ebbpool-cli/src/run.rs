//! `ebbpool run`: one policy over one trace.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use ebbpool_device::{AnyDevice, DeviceFailed};
use ebbpool_policy::Foresight;
use ebbpool_sim::{
    Cell, Counts, DeviceAtStart, DeviceOutcome, Events, NoObserver, Observer, OnDevice, Options,
    Progress, Recorder, Series, SimError, Size, TraceFacts, Warmup, scan, simulate_one,
};
use ebbpool_trace::Source;
use ebbpool_trace::output::OutputFile;

use crate::args::{RunArgs, RunFormat, parse};
use crate::charge::Charge;
use crate::results::{OfTrace, Record, WithDevice};
use crate::{Failure, progress, table};

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    // Nonsense is better known before a long trace is read than after.
    parse(&args.policy)?;
    let start = Instant::now();
    let source = args.common.reading.source(&args.traces)?;
    let reader = source.open()?;
    report_notes(reader.notes());
    let metadata = reader.metadata().clone();
    let charge = Charge::new(args.asymmetry.as_ref(), args.device.as_deref(), &metadata)?;
    let spec = charge.abilities.policy(&args.policy)?;
    let stated = reader.references();
    drop(reader);
    let bar = progress::bar(&spec.to_string());
    let report = |share| progress::set(&bar, share);
    let progress = Progress {
        report: &report,
        stop: &progress::STOP,
    };
    let needs_pages =
        matches!(args.frames.size, Size::Share(_)) && metadata.database_pages.is_none();
    let needs_length = matches!(args.common.warmup.0, Warmup::Share(_)) && stated.is_none();
    let scanned = if needs_pages || needs_length {
        scan(&source, Foresight::Nothing, &progress)?
    } else {
        Default::default()
    };
    let pages = metadata.database_pages.unwrap_or(scanned.distinct_pages);
    let frames = match args.frames.size {
        Size::Frames(frames) => frames,
        Size::Share(share) => share.floor_of(pages).max(1),
    };
    let warmup = match args.common.warmup.0 {
        Warmup::References(warmup) => warmup,
        Warmup::Share(share) => share.floor_of(stated.unwrap_or(scanned.references)),
    };
    let cell = Cell {
        policy: spec,
        frames,
        asymmetry: charge.asymmetry.ratio(),
    };
    let options = Options {
        warmup,
        ..args.common.options()
    };
    let device = charge
        .device
        .as_ref()
        .map(DeviceAtStart::make)
        .transpose()?;
    let run = Run {
        source: &source,
        cell: &cell,
        options: &options,
        progress: &progress,
        device: device.as_ref(),
    };
    let (counts, facts, device) = if args.events.is_none() && args.series.is_none() {
        let (counts, facts, NoObserver, device) = run.observed(NoObserver)?;
        (counts, facts, device)
    } else {
        recorded(args, &run)?
    };
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    report_notes(&source.late_notes());
    let of_trace = OfTrace {
        label: source.label(),
        metadata: &metadata,
        facts,
        warmup,
    };
    let policy = cell.policy.to_string();
    let mut record = Record::new(&of_trace, policy, frames, charge.asymmetry, &counts);
    if let Some(did) = &device {
        record.charge(&charge, did);
    }
    record.seconds = Some(seconds);
    record.references_per_second = Some(facts.references as f64 / seconds);
    let result = WithDevice::new(&record, &charge, device.as_ref());
    let mut out = io::stdout().lock();
    match args.format {
        RunFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &result).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        RunFormat::Table => write!(out, "{}", table::of_run(&result))?,
    }
    match device.and_then(|device| device.failed) {
        Some(failed) => Err(DeviceFailed(failed.into()).into()),
        None => Ok(()),
    }
}

/// Prints what the reader of a trace had to guess.
pub(crate) fn report_notes(notes: &[String]) {
    for note in notes {
        // A note that cannot be shown is no reason to fail.
        let _ = writeln!(io::stderr(), "ebbpool: note: {note}");
    }
}

/// All that a run takes but who listens.
struct Run<'a> {
    source: &'a Source,
    cell: &'a Cell,
    options: &'a Options,
    progress: &'a Progress<'a>,
    device: Option<&'a AnyDevice>,
}

impl Run<'_> {
    fn observed<O: Observer + 'static>(
        &self,
        observer: O,
    ) -> Result<(Counts, TraceFacts, O, Option<DeviceOutcome>), SimError> {
        let Run {
            source,
            cell,
            options,
            progress,
            device,
        } = self;
        match device {
            Some(device) => {
                let served = OnDevice::new((*device).clone(), options.rate, observer);
                let (counts, facts, served) =
                    simulate_one(source, cell, options, progress, served)?;
                let (outcome, observer) = served.finish();
                Ok((counts, facts, observer, Some(outcome)))
            }
            None => {
                let (counts, facts, observer) =
                    simulate_one(source, cell, options, progress, observer)?;
                Ok((counts, facts, observer, None))
            }
        }
    }
}

fn recorded(
    args: &RunArgs,
    run: &Run,
) -> Result<(Counts, TraceFacts, Option<DeviceOutcome>), Failure> {
    let create = |path: &Option<PathBuf>| path.as_ref().map(OutputFile::create).transpose();
    let series = create(&args.series)?.map(Series::new).transpose();
    let recorder = Recorder {
        events: create(&args.events)?.map(Events),
        series: series.map_err(|source| SimError::Output {
            what: "the series",
            source,
        })?,
        failure: None,
    };
    let (counts, facts, recorder, device) = run.observed(recorder)?;
    if let Some((what, source)) = recorder.failure {
        return Err(SimError::Output { what, source }.into());
    }
    if let Some(Events(out)) = recorder.events {
        out.finish()?;
    }
    if let Some(series) = recorder.series {
        series.into_inner().finish()?;
    }
    Ok((counts, facts, device))
}
