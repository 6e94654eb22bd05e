//! `ebbpool device measure`: measures the costs of a real device's reads and writes.

pub(crate) mod args;
mod bench;
mod error;
pub(crate) mod report;
mod target_file;

use std::io::{self, Write};

use ebbpool::storage::{FileOptions, FileStorage, OpenError, Storage};
use ebbpool_cost::ByteSize;
use ebbpool_device::DeviceProfile;
use ebbpool_trace::output::OutputFile;

use crate::failure::Failure;
use crate::progress;
use args::MeasureArgs;
use bench::{DeviceBench, Load, MeasureStop, Operation, Order};
use error::MeasureError;
use report::MeasureReport;
use target_file::TargetFile;

/// The queue depths, and the numbers of pages of a batch.
const STEPS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The deepest queue that is measured.
const DEEPEST: u32 = 32;

/// The loads in the order of their measurement: reads come first, because writes leave a device busy.
fn loads(read_only: bool) -> Vec<Load> {
    let mut loads = Vec::new();
    for operation in [Operation::Read, Operation::Write] {
        if operation == Operation::Write && read_only {
            continue;
        }
        for order in [Order::Random, Order::Sequential] {
            loads.extend(STEPS.map(|queue_depth| Load {
                operation,
                order,
                queue_depth,
                batch: (queue_depth == 1).then_some(1),
            }));
        }
        loads.extend(STEPS.map(|batch| Load { operation, order: Order::Random, queue_depth: DEEPEST, batch: Some(batch) }));
    }
    loads
}

/// Measures a device and prints the result.
pub(crate) fn measure(args: &MeasureArgs) -> Result<(), Failure> {
    if !args.page_size.is_power_of_two() {
        return Err(MeasureError::Open(OpenError::PageSize(args.page_size)).into());
    }
    let profile_file = args.profile.as_ref().map(OutputFile::create).transpose()?;
    let target = TargetFile::find(args)?;
    progress::report_notes(&target.notes);
    let report = measure_all(args, &target)?;
    drop(target);
    if let (Some(path), Some(file)) = (&args.profile, profile_file) {
        write_profile(&report, path, file)?;
    }
    args.format.print(&report, |report| report.to_table())?;
    Ok(())
}

/// The failure of a run that stopped after `done` of `all` measurements.
fn failure_of(stop: MeasureStop, target: &TargetFile, done: usize, all: usize) -> Failure {
    match stop {
        MeasureStop::Interrupted => Failure::Interrupted {
            done,
            all,
            hint: match target.is_temporary() {
                true => "; the file is removed",
                false => "",
            },
        },
        MeasureStop::Failed(operation, source) => MeasureError::Io {
            path: target.path.clone(),
            what: match operation {
                Operation::Read => "read it",
                Operation::Write => "write to it",
            },
            source,
        }
        .into(),
    }
}

fn measure_all(args: &MeasureArgs, target: &TargetFile) -> Result<MeasureReport, Failure> {
    let open = |queue_depth| {
        let options = FileOptions::new()
            .page_size(args.page_size)
            .engine(args.engine.into())
            .direct(!args.buffered)
            .queue_depth(queue_depth)
            .read_only(args.read_only);
        FileStorage::open(&target.path, &options).map_err(MeasureError::Open)
    };
    let storage = open(DEEPEST)?;
    let pages = pages(args, target, &storage)?;
    let description = storage.describe();
    if !storage.is_direct() {
        progress::report_notes(&[format!(
            "{description}: reads come from the kernel's memory, and writes are synced at the end of each measurement"
        )]);
    }
    let direct = storage.is_direct();
    let loads = loads(args.read_only);
    let bar = progress::bar("measuring");
    let mut bench = DeviceBench::new(args.page_size, pages, DEEPEST);
    let failure = |stop, done| failure_of(stop, target, done, loads.len());
    if target.is_temporary() {
        bar.set_message("filling the file");
        let filled = bench.fill(&storage, |share| progress::set(&bar, share));
        filled.map_err(|stop| failure(stop, 0))?;
        bar.set_message("measuring");
    }
    drop(storage);
    let mut measurements = Vec::new();
    for &load in &loads {
        progress::set(&bar, measurements.len() as f64 / loads.len() as f64);
        let storage = open(load.queue_depth)?;
        let measured = bench.measure(&storage, load, args.seconds);
        let measured = measured.map_err(|stop| failure(stop, measurements.len()))?;
        measurements.push(measured);
    }
    bar.finish_and_clear();
    let (description, _) = description.rsplit_once(", queue depth").unwrap_or((&description, ""));
    let report = MeasureReport {
        path: args.path.display().to_string(),
        storage: description.into(),
        direct,
        page_size: args.page_size,
        bytes: pages * args.page_size as u64,
        seconds: args.seconds,
        measurements,
        ..MeasureReport::default()
    };
    Ok(report.conclude())
}

/// The number of pages to measure.
fn pages(args: &MeasureArgs, target: &TargetFile, storage: &FileStorage) -> Result<u64, Failure> {
    let page = args.page_size as u64;
    let requested = target.size.map(|bytes| bytes / page);
    let pages = match (requested, target.is_temporary()) {
        (Some(requested), true) => requested,
        (requested, _) => {
            let failed = |source| MeasureError::Io { path: target.path.clone(), what: "determine its length", source };
            let existing = storage.pages().map_err(failed)?;
            requested.map_or(existing, |requested| requested.min(existing))
        }
    };
    if pages == 0 {
        return Err(Failure::Usage(format!(
            "{}: there is no page of {} to measure; give a larger --size or file",
            args.path.display(),
            ByteSize::new(page)
        )));
    }
    Ok(pages)
}

fn write_profile(report: &MeasureReport, path: &std::path::Path, mut file: OutputFile) -> Result<(), Failure> {
    let failed = |source| Failure::File { path: path.display().to_string(), source };
    let profile = report.to_profile(path).ok_or_else(|| failed(io::Error::other("reads or writes were not measured")))?;
    let text = toml::to_string(&profile).map_err(|error| failed(io::Error::other(error)))?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let is_regular = file.is_regular();
    file.finish()?;
    if is_regular {
        // Reading the profile back checks that `--device` accepts it.
        DeviceProfile::from_file(path)?;
    }
    Ok(())
}
