//! `ebbpool device`: sends a trace to a simulated device without a buffer, or measures a real one.

pub(crate) mod args;
pub(crate) mod replay_result;
mod table;

use ebbpool_device::arrivals::Arrivals;
use ebbpool_device::{Device, DeviceFailed, FlashDevice};
use ebbpool_lab::LabError;
use ebbpool_trace::{OptionalColumns, Source};

use crate::failure::Failure;
use crate::progress;
use crate::trace;
use args::{DeviceArgs, DeviceCommand, DeviceReplayArgs};
use replay_result::DeviceReplayResult;

pub(crate) fn device(args: &DeviceArgs) -> Result<(), Failure> {
    match &args.command {
        DeviceCommand::Replay(args) => replay(args),
        DeviceCommand::Measure(args) => crate::measure::measure(args),
    }
}

/// Refuses a trace with a page beyond the device's end before anything is simulated.
fn check_numbers(args: &DeviceReplayArgs, source: &Source, page_size: Option<u64>) -> Result<(), Failure> {
    let mut highest = 0;
    let mut reader = source.open()?;
    trace::for_each_batch(&mut reader, source.label(), |batch| {
        highest = batch.pages.iter().copied().fold(highest, u64::max);
        Ok::<(), DeviceFailed>(())
    })?;
    FlashDevice::check_numbers(&args.device, page_size, highest)?;
    Ok(())
}

fn replay(args: &DeviceReplayArgs) -> Result<(), Failure> {
    let source = args.reading.source(&args.traces)?;
    let mut reader = source.open_with(OptionalColumns::OPERATIONS)?;
    progress::report_notes(reader.notes());
    progress::report_notes(&args.device.notes());
    let metadata = reader.metadata();
    check_numbers(args, &source, metadata.page_size)?;
    let mut device = FlashDevice::new(&args.device, metadata.page_size, metadata.database_pages)?;
    let mut arrivals = args.rate.map(Arrivals::with_rate);
    let mut references = 0;
    let outcome = trace::for_each_batch(&mut reader, source.label(), |batch| {
        let mut trims = batch.trims.iter().peekable();
        batch.iter().enumerate().try_for_each(|(at, (page, write))| {
            while let Some(trim) = trims.next_if(|trim| trim.before <= at) {
                device.trim(trim.first, trim.last)?;
            }
            if let Some(arrivals) = &mut arrivals {
                device.idle(arrivals.wait_for(references));
            }
            let micros = match write {
                true => device.write(page)?,
                false => device.read(page)?,
            };
            if let Some(arrivals) = &mut arrivals {
                arrivals.serve(micros);
            }
            references += 1;
            Ok::<(), DeviceFailed>(())
        })?;
        trims.try_for_each(|trim| device.trim(trim.first, trim.last))
    });
    let failed = match outcome {
        Err(Failure::Lab(LabError::DeviceFailed(failed))) => Some(failed),
        outcome => {
            outcome?;
            None
        }
    };
    progress::report_notes(&source.late_notes());
    let report = device.flash_report();
    let result = DeviceReplayResult {
        joules_per_reference: report.energy.filter(|_| references > 0).map(|energy| energy.total_j / references as f64),
        lifetime_days: args.bytes_per_day.and_then(|rate| report.lifetime_days(rate.bytes())),
        report,
        failed: failed.as_ref().map(ToString::to_string),
    };
    args.format.print(&result, table::of_replay)?;
    match failed {
        Some(failed) => Err(failed.into()),
        None => Ok(()),
    }
}
