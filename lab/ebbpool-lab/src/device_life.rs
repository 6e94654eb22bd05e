//! How long a device with a profile lives under a load: its endurance over the bytes that the host writes.

use std::fmt;

use ebbpool_cost::Unit;
use ebbpool_device::profiles::Endurance;
use ebbpool_sim::DeviceOutcome;

use crate::pricing::Pricing;

const DAYS_PER_YEAR: f64 = 365.0;
const MICROS_PER_DAY: f64 = 86_400e6;

/// How long a device lives.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceLife {
    /// Years.
    pub years: f64,
    /// The lowest and the highest number of years, where the endurance has a range.
    pub range: Option<[f64; 2]>,
}

/// How long a device of this endurance lives if the host writes this number of bytes every day; `None` if the
/// number is not above 0. The bytes are those that reach the device, in whole pages of it.
pub(crate) fn on_profile(bytes_written_per_day: f64, endurance: &Endurance) -> Option<DeviceLife> {
    let years = |bytes: f64| bytes / bytes_written_per_day / DAYS_PER_YEAR;
    (bytes_written_per_day > 0.0)
        .then(|| DeviceLife { years: years(endurance.host_bytes), range: endurance.range.map(|range| range.map(years)) })
}

/// In years, in days below one year, in hours below one day.
impl fmt::Display for DeviceLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.years * DAYS_PER_YEAR;
        let (per_year, unit) = match days {
            days if days >= DAYS_PER_YEAR => (1.0, "years"),
            days if days >= 1.0 => (DAYS_PER_YEAR, "days"),
            _ => (24.0 * DAYS_PER_YEAR, "hours"),
        };
        let number = |years: f64| two_digits(per_year * years);
        write!(f, "{} {unit}", number(self.years))?;
        match self.range {
            Some([low, high]) => write!(f, " ({} to {})", number(low), number(high)),
            None => Ok(()),
        }
    }
}

/// The number with two significant digits, all of them before the point: `0.075`, `3.2`, `1234`. One that is very large or very
/// small has an exponent.
fn two_digits(number: f64) -> String {
    let places = 1.0 - number.abs().log10().floor();
    match number {
        number if !number.is_finite() || number <= 0.0 => number.to_string(),
        number if (1e-6..1e9).contains(&number) => {
            format!("{number:.*}", places.clamp(0.0, 9.0) as usize)
        }
        _ => format!("{number:.1e}"),
    }
}

/// The life of a device with a profile under the load of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LifeUnderLoad {
    /// What the host may write in the device's life.
    pub endurance: Endurance,
    /// How long that lasts at most if the run goes on forever, and nothing else writes; `None` where nothing was written, where most
    /// writes are still owed at the end, or where the run's length is not known.
    pub life: Option<DeviceLife>,
    /// True if references arrive at a rate; otherwise the device never pauses, and lives as short as it can with this load.
    pub paced: bool,
}

impl LifeUnderLoad {
    /// Whether the load has pauses, in words that follow a length of life.
    pub fn load(&self) -> &'static str {
        match self.paced {
            true => "at this rate",
            false => "without a pause",
        }
    }
}

/// The time after which such references come again, in µs: that in which they arrive, also if the device takes longer, or without
/// a rate that which it takes; `None` where costs are no times. What the end writes takes none of the time in which others arrive.
pub(crate) fn elapsed_us(device: &DeviceOutcome) -> Option<f64> {
    let bill = device.report.bill();
    (bill.unit == Unit::Microseconds).then(|| device.arrival_us.unwrap_or(bill.amount))
}

/// True if the device keeps up with the rate at which references arrive, one at a time.
pub(crate) fn is_paced(device: &DeviceOutcome) -> bool {
    device.arrival_us.is_some_and(|arrival_us| arrival_us > device.report.bill().amount)
}

/// What a run wrote until its end, and what it owed then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwedWrites {
    /// Pages written until the end.
    pub(crate) until_end: u64,
    /// More pages that are dirty at the end than were when the counting began.
    pub(crate) owed: u64,
}

impl OwedWrites {
    /// Of a run that has counted `writes` pages, among them `end_writes` of those that were dirty at the end, where `dirty_left` are
    /// not written. As many as `not_counted` were dirty when the counting began, and are not counted.
    pub(crate) fn new(writes: u64, end_writes: u64, dirty_left: u64, not_counted: u64) -> Self {
        OwedWrites {
            until_end: (writes + not_counted).saturating_sub(end_writes),
            owed: (end_writes + dirty_left).saturating_sub(not_counted),
        }
    }

    /// True if most writes were put off beyond the end of the trace, which does not show then what the device has to take.
    pub(crate) fn are_most(self) -> bool {
        self.owed > self.until_end
    }
}

/// How long the device lives if it serves such a run every `elapsed_us` µs.
pub(crate) fn life(pricing: &Pricing, endurance: &Endurance, device: &DeviceOutcome, elapsed_us: f64) -> Option<DeviceLife> {
    let bytes = device.report.writes as f64 * pricing.written_bytes? as f64;
    on_profile(bytes / elapsed_us * MICROS_PER_DAY, endurance)
}

/// The life of the device under the load of a run; `None` without a device whose endurance is known, and for
/// one that failed. A run that `owes` most of its writes does not say how long it lives.
pub(crate) fn under_load(pricing: &Pricing, device: &DeviceOutcome, owes: bool) -> Option<LifeUnderLoad> {
    let endurance = pricing.endurance.clone()?;
    if device.failed.is_some() {
        return None;
    }
    let elapsed_us = elapsed_us(device);
    Some(LifeUnderLoad {
        life: elapsed_us.filter(|_| !owes).and_then(|elapsed_us| life(pricing, &endurance, device, elapsed_us)),
        paced: device.arrival_us.is_some(),
        endurance,
    })
}

#[cfg(test)]
mod tests;
