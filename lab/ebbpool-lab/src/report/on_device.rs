//! What a report says of a device beside the results: how fast references arrive, its power, and its endurance.

use ebbpool_cost::Unit;
use ebbpool_sim::{DeviceOutcome, SweepRow};
use serde::Serialize;

use crate::compare::Comparison;
use crate::pricing::Pricing;

const MICROS_PER_SECOND: f64 = 1e6;

/// A device under a load that is known per reference: with references per second this gives bytes, years and watts.
#[derive(Debug, Serialize)]
pub(super) struct DeviceFacts {
    /// References per second, if they arrive at a rate.
    references_per_second: Option<f64>,
    /// The power of the device while it waits, in W.
    idle_watts: Option<f64>,
    endurance: Option<EnduranceFacts>,
    /// What the lifetimes of a simulated device assume of its wear, if anything.
    assumption: Option<String>,
}

#[derive(Debug, Serialize)]
struct EnduranceFacts {
    /// Bytes that the host may write in the device's life, and the lowest and highest number.
    host_bytes: f64,
    range: Option<[f64; 2]>,
    /// The number in words, with what it rests on.
    text: String,
}

impl DeviceFacts {
    /// `None` if no device has served the requests.
    pub(super) fn from_comparison(comparison: &Comparison) -> Option<Self> {
        let on_device = |pricing: &&Pricing| pricing.device_name.is_some();
        let pricing = comparison.pricings.iter().find(on_device)?;
        let devices = || comparison.rows().filter_map(|row| row.device.as_ref());
        let endurance = pricing.endurance.as_ref();
        Some(DeviceFacts {
            references_per_second: comparison.rate.map(|rate| rate.per_second()),
            idle_watts: devices().find_map(idle_watts),
            endurance: endurance.map(|endurance| EnduranceFacts {
                host_bytes: endurance.host_bytes,
                range: endurance.range,
                text: endurance.text(),
            }),
            assumption: devices().find_map(|device| device.flash.as_ref()?.lifetime_assumes.clone()),
        })
    }
}

/// The power of the device while it waits, in W.
fn idle_watts(device: &DeviceOutcome) -> Option<f64> {
    let bill = device.report.bill();
    let elapsed =
        (bill.unit == Unit::Microseconds).then(|| (bill.amount + device.idle_us.unwrap_or(0.0)) / MICROS_PER_SECOND)?;
    let energy = device.energy?;
    (elapsed > 0.0).then(|| energy.device_idle_j / elapsed)
}

/// The bytes that a device took from the host: whole pages of the device, where its page size is known.
pub(super) fn host_bytes(row: &SweepRow, device: &DeviceOutcome, pricing: &Pricing, page_size: Option<u64>) -> Option<f64> {
    if let Some(flash) = &device.flash {
        return Some(flash.host_bytes as f64);
    }
    let bytes = pricing.written_bytes.or(page_size)?;
    Some(row.counts.writes as f64 * bytes as f64)
}

/// The energy that requests add to that of a waiting device, in J per reference.
pub(super) fn busy_joules(device: &DeviceOutcome, references: u64) -> Option<f64> {
    let energy = device.energy?;
    (references > 0).then(|| energy.device_busy_j / references as f64)
}
