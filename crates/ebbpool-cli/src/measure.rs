//! `ebbpool device measure`: what a real device's reads and writes cost.

pub(crate) mod args;
mod bench;
mod error;
mod steps;
mod subject;
mod told;

use std::io::{self, Write};

use bytesize::ByteSize;
use ebbpool::storage::{FileOptions, FileStorage, OpenError, Storage};
use ebbpool_device::DeviceProfile;
use ebbpool_trace::output::OutputFile;

use crate::failure::Failure;
use crate::progress;
use crate::shared_args::RunFormat;
use args::MeasureArgs;
use bench::{Bench, Load, Operation, Order, Stopped};
use error::MeasureError;
use steps::STEPS;
use subject::Subject;
use told::Told;

const DEEPEST: u32 = 32;

/// What is measured, in this order: reads before writes, which leave a device busy.
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
        loads.extend(STEPS.map(|batch| Load {
            operation,
            order: Order::Random,
            queue_depth: DEEPEST,
            batch: Some(batch),
        }));
    }
    loads
}

/// Measures, and prints what came of it.
pub(crate) fn measure(args: &MeasureArgs) -> Result<(), Failure> {
    if !args.page_size.is_power_of_two() {
        return Err(MeasureError::Open(OpenError::PageSize(args.page_size)).into());
    }
    let profile_file = args.profile.as_ref().map(OutputFile::create).transpose()?;
    let subject = Subject::find(args)?;
    progress::report_notes(&subject.notes);
    let told = measure_all(args, &subject)?;
    drop(subject);
    if let (Some(path), Some(file)) = (&args.profile, profile_file) {
        write_profile(&told, path, file)?;
    }
    let mut out = io::stdout().lock();
    match args.format {
        RunFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &told).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        RunFormat::Table => out.write_all(told.to_table().as_bytes())?,
    }
    Ok(())
}

/// Why a measurement ended early, after so many of all.
fn failure_of(stopped: Stopped, subject: &Subject, done: usize, all: usize) -> Failure {
    match stopped {
        Stopped::Interrupted => Failure::Interrupted {
            done,
            all,
            kept: match subject.is_temporary() {
                true => "; the file is removed",
                false => "",
            },
        },
        Stopped::Failed(operation, source) => MeasureError::Io {
            path: subject.path.clone(),
            what: match operation {
                Operation::Read => "read it",
                Operation::Write => "write to it",
            },
            source,
        }
        .into(),
    }
}

fn measure_all(args: &MeasureArgs, subject: &Subject) -> Result<Told, Failure> {
    let open = |queue_depth| {
        let options = FileOptions::new()
            .page_size(args.page_size)
            .engine(args.engine.into())
            .direct(!args.buffered)
            .queue_depth(queue_depth)
            .read_only(args.read_only);
        FileStorage::open(&subject.path, &options).map_err(MeasureError::Open)
    };
    let storage = open(DEEPEST)?;
    let pages = pages(args, subject, &storage)?;
    let described = storage.describe();
    if !storage.is_direct() {
        progress::report_notes(&[format!(
            "{described}: reads are of the kernel's memory, and writes are synced at the end of each measurement"
        )]);
    }
    let direct = storage.is_direct();
    let loads = loads(args.read_only);
    let bar = progress::bar("measuring");
    let mut bench = Bench::new(args.page_size, pages, DEEPEST);
    let stopped = |reason, done| failure_of(reason, subject, done, loads.len());
    if subject.is_temporary() {
        bar.set_message("filling the file");
        let filled = bench.fill(&storage, |share| progress::set(&bar, share));
        filled.map_err(|reason| stopped(reason, 0))?;
        bar.set_message("measuring");
    }
    drop(storage);
    let mut measurements = Vec::new();
    for &load in &loads {
        progress::set(&bar, measurements.len() as f64 / loads.len() as f64);
        let storage = open(load.queue_depth)?;
        let measured = bench.measure(&storage, load, args.seconds);
        let measured = measured.map_err(|reason| stopped(reason, measurements.len()))?;
        measurements.push(measured);
    }
    bar.finish_and_clear();
    let (described, _) = described
        .rsplit_once(", queue depth")
        .unwrap_or((&described, ""));
    let told = Told {
        path: args.path.display().to_string(),
        storage: described.into(),
        direct,
        page_size: args.page_size,
        bytes: pages * args.page_size as u64,
        seconds: args.seconds,
        read_us: None,
        write_us: None,
        alpha: None,
        k_r: None,
        k_w: None,
        read_iops: None,
        write_iops: None,
        measurements,
    };
    Ok(told.conclude())
}

/// How many pages are measured.
fn pages(args: &MeasureArgs, subject: &Subject, storage: &FileStorage) -> Result<u64, Failure> {
    let page = args.page_size as u64;
    let wanted = subject.size.map(|bytes| bytes / page);
    let pages = match (wanted, subject.is_temporary()) {
        (Some(wanted), true) => wanted,
        (wanted, _) => {
            let failed = |source| MeasureError::Io {
                path: subject.path.clone(),
                what: "find out its length",
                source,
            };
            let there = storage.pages().map_err(failed)?;
            wanted.map_or(there, |wanted| wanted.min(there))
        }
    };
    if pages == 0 {
        return Err(Failure::Usage(format!(
            "{}: there is not one page of {} to be measured; give a larger --size or file",
            args.path.display(),
            ByteSize(page)
        )));
    }
    Ok(pages)
}

fn write_profile(told: &Told, path: &std::path::Path, mut file: OutputFile) -> Result<(), Failure> {
    let failed = |source| Failure::File {
        path: path.display().to_string(),
        source,
    };
    let profile = told
        .to_profile(path)
        .ok_or_else(|| failed(io::Error::other("reads or writes were not measured")))?;
    let text = toml::to_string(&profile).map_err(|error| failed(io::Error::other(error)))?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let is_regular = file.is_regular();
    file.finish()?;
    if is_regular {
        // Who is to use it reads it so.
        DeviceProfile::from_file(path)?;
    }
    Ok(())
}
