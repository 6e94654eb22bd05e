//! The relative lifetimes of a simulated flash device under different policies.
//!
//! Every programmed page brings its block nearer to the next erase. Therefore, for the same work, a device
//! with half the number of programmed pages lives twice as long. In a steady state the programmed pages are
//! the host bytes times the write amplification, as in the model's own lifetime. The number of erased
//! blocks would be a wrong measure: it would favour policies under which a new device has only begun to
//! run out of erased blocks.

use std::cmp::Ordering;

use ebbpool_device::flash::FlashReport;
use ebbpool_sim::{DeviceOutcome, SweepRow};

use crate::compare::Comparison;
use crate::device_life::{self, elapsed_us, is_paced};
use crate::money::{MonthlyCost, MonthlyLoad, dollars};
use crate::policy_selection::BASELINE;

pub use crate::device_life::{DeviceLife, LifeUnderLoad};

/// The flash model's report in a result.
pub fn report(row: &SweepRow) -> Option<&FlashReport> {
    row.device.as_ref()?.flash.as_ref()
}

fn failed(row: &SweepRow) -> Option<&str> {
    row.device.as_ref()?.failed.as_deref()
}

/// Pages programmed per counted reference; `None` for a device that failed, because it refused its last
/// requests.
fn programs_per_reference(row: &SweepRow) -> Option<f64> {
    let programs = report(row).filter(|_| failed(row).is_none())?.programs;
    Some(programs as f64 / row.counts.references as f64)
}

fn by_programs(a: &&SweepRow, b: &&SweepRow) -> Ordering {
    let [a, b] = [a, b].map(|row| programs_per_reference(row).unwrap_or(f64::INFINITY));
    a.total_cmp(&b)
}

/// The results of a flash device with one memory size.
struct LifetimeComparison<'a> {
    rows: Vec<&'a SweepRow>,
    /// The result that the others are compared with: that of the baseline policy, or, if the request does
    /// not have this policy, the one with the most programmed pages. `None` if there is no such result
    /// yet.
    reference: Option<&'a SweepRow>,
}

impl<'a> LifetimeComparison<'a> {
    fn new(comparison: &'a Comparison, size: usize) -> Self {
        let rows: Vec<&SweepRow> = comparison.rows().filter(|row| row.size == size && report(row).is_some()).collect();
        let baseline = comparison.policies.iter().position(|name| name == BASELINE);
        let reference = match baseline {
            Some(baseline) => rows.iter().find(|row| row.policy == baseline),
            None => rows.iter().filter(|row| failed(row).is_none()).max_by(|a, b| by_programs(a, b)),
        };
        LifetimeComparison { reference: reference.copied(), rows }
    }

    /// The lifetime of a result's device in units of the reference's lifetime; `None` if one of the two
    /// devices failed or programmed no page.
    fn relative_lifetime(&self, row: &SweepRow) -> Option<f64> {
        let reference = programs_per_reference(self.reference?).filter(|programs| *programs > 0.0)?;
        let own = programs_per_reference(row).filter(|programs| *programs > 0.0)?;
        Some(reference / own)
    }
}

/// The lifetime of each result's device in units of the lifetime under the baseline policy with the same
/// memory, or under the policy that wears the device most if the baseline was not run. The order is that of
/// the rows.
pub fn lifetimes(comparison: &Comparison) -> Vec<Option<f64>> {
    let by_size: Vec<LifetimeComparison> =
        (0..comparison.sizes.len()).map(|size| LifetimeComparison::new(comparison, size)).collect();
    let rows = comparison.rows();
    rows.map(|row| by_size[row.size].relative_lifetime(row)).collect()
}

/// The policy whose device lifetimes are compared with, in words.
pub fn compared_with(comparison: &Comparison) -> &'static str {
    match comparison.policies.iter().any(|name| name == BASELINE) {
        true => BASELINE,
        false => "the worst",
    }
}

/// A sentence on the device's life, with the usual memory size: on a simulated flash device the policy under which it lives
/// longest, on one with a profile how long it lives. `None` if there is no such device.
pub(crate) fn sentence(comparison: &Comparison) -> Option<String> {
    let size = comparison.usual_size();
    let memory = comparison.memory(size);
    sentence_on_flash(comparison, size, &memory).or_else(|| sentence_on_profile(comparison, size, &memory))
}

/// A sentence on the policy under which a simulated flash device lives longest, with the memory size of that index. The
/// text calls this size `memory`. `None` if there is no flash device.
fn sentence_on_flash(comparison: &Comparison, size: usize, memory: &str) -> Option<String> {
    let lifetimes = LifetimeComparison::new(comparison, size);
    let name = |row: &SweepRow| comparison.policies[row.policy].as_str();
    // If every device failed, the first result explains why.
    let first = lifetimes.reference.or(lifetimes.rows.first().copied())?;
    if let Some(failed) = failed(first) {
        return Some(format!("at {memory} lifetimes cannot be compared: under {} {failed}", name(first)));
    }
    let reference = lifetimes.reference?;
    let base = name(reference);
    let rows = lifetimes.rows.iter();
    let others = rows.filter(|row| row.policy != reference.policy);
    let others = others.filter(|row| failed(row).is_none());
    let best = *others.min_by(|a, b| by_programs(a, b))?;
    let best_name = name(best);
    let answer = match lifetimes.relative_lifetime(best) {
        None => format!("at {memory} {best_name} wrote nothing to this device"),
        // A smaller ratio would print as 1.0 times.
        Some(times) if times < 1.05 => {
            format!("at {memory} no policy makes this device live longer than {base}")
        }
        Some(times) => format!("at {memory} {best_name} makes this device live {times:.1} times as long as {base}"),
    };
    let unsteady = [reference, best].into_iter().find_map(|row| Some((name(row), report(row)?.not_steady.as_ref()?)));
    Some(match unsteady {
        None => answer,
        Some((policy, reason)) => {
            format!("{answer}, going by the pages programmed so far: {policy} has not reached a steady state ({reason})")
        }
    })
}

/// A sentence on how long a device with a profile lives under the policy that writes least and under the
/// baseline policy, with the memory size of that index, which the text calls `memory`. `None` if the
/// device's endurance is not known, or nothing was written.
///
/// All policies serve the same references in a day: as many as the slowest one can, unless they arrive at a
/// rate. With a day of its own speed each, a policy would be blamed for being fast.
fn sentence_on_profile(comparison: &Comparison, size: usize, memory: &str) -> Option<String> {
    let pricing = comparison.pricings.first()?;
    let endurance = pricing.endurance.as_ref()?;
    let device_name = pricing.device_name.as_deref()?;
    let rows = comparison.rows();
    // The rows of other asymmetries are on a device of another speed.
    let rows = rows.filter(|row| row.size == size && row.asymmetry == 0);
    let served: Vec<(&SweepRow, &DeviceOutcome)> =
        rows.filter_map(|row| Some((row, row.device.as_ref()?))).filter(|(_, device)| device.failed.is_none()).collect();
    let slowest = served.iter().filter_map(|(_, device)| elapsed_us(device)).max_by(f64::total_cmp)?;
    let life = |device: &DeviceOutcome| device_life::life(pricing, endurance, device, slowest);
    let name = |row: &SweepRow| comparison.policies[row.policy].as_str();
    let under = |(row, device): &(&SweepRow, &DeviceOutcome)| Some(format!("{} under {}", life(device)?, name(row)));
    let mut of_size =
        comparison.finished().filter(|result| result.frames == comparison.frames[size] && result.failed.is_none());
    if let Some(result) = of_size.find(|result| result.owed_writes().are_most()) {
        return Some(format!(
            "at {memory} most pages that are written under {} are still dirty at the end: the trace is too short to say how long \
             {device_name} lives",
            result.policy
        ));
    }
    // One that can be built, if there is one.
    let online = |(row, _): &&(&SweepRow, &DeviceOutcome)| comparison.online[row.policy];
    let of_online = served.iter().filter(online).min_by_key(|(_, device)| device.report.writes);
    let least = of_online.or_else(|| served.iter().min_by_key(|(_, device)| device.report.writes))?;
    let baseline = served.iter().find(|(row, _)| name(row) == BASELINE);
    let baseline = baseline.filter(|(row, _)| row.policy != least.0.policy);
    let has_rate = comparison.rate.is_some();
    let pace = match served.iter().all(|(_, device)| is_paced(device)) {
        true => "at this rate",
        false if has_rate => "at this rate, with which it does not keep up if it serves one request at a time",
        false => "with the references a day that the slowest policy serves without a pause",
    };
    let other = baseline.and_then(under);
    Some(format!(
        "at {memory}, {pace}, {device_name} lives at most {}{}; it takes {} of writes",
        under(least)?,
        other.map_or(String::new(), |other| format!(" and {other}")),
        endurance.text()
    ))
}

/// What the device costs in a month under the cheapest policy and under the baseline, at the rate of the request; `None` without a
/// rate, or if the device has no prices.
pub(crate) fn sentence_in_money(comparison: &Comparison) -> Option<String> {
    let size = comparison.usual_size();
    let memory = comparison.memory(size);
    let pricing = comparison.pricings.first()?;
    let tariff = pricing.tariff.as_ref()?;
    let bytes = comparison.page_size;
    let cost = |row: &SweepRow| {
        let device = row.device.as_ref().filter(|device| device.failed.is_none())?;
        let seconds = row.counts.references as f64 / comparison.rate?.per_second();
        let stored_bytes = comparison.database_pages.zip(bytes).map(|(pages, bytes)| pages.saturating_mul(bytes));
        let load = MonthlyLoad {
            reads_per_second: device.report.reads as f64 / seconds,
            writes_per_second: device.report.writes as f64 / seconds,
            stored_bytes,
            memory: None,
        };
        Some((comparison.policies[row.policy].as_str(), tariff.monthly(&load)))
    };
    let rows = comparison.rows().filter(|row| row.size == size && row.asymmetry == 0);
    let any_online = comparison.online.contains(&true);
    let rows = rows.filter(|row| !any_online || comparison.online[row.policy]);
    let costs: Vec<(&str, MonthlyCost)> = rows.filter_map(cost).collect();
    let least = costs.iter().min_by(|(_, a), (_, b)| a.total.total_cmp(&b.total))?;
    let baseline = costs.iter().find(|(policy, _)| *policy == BASELINE && *policy != least.0);
    let under =
        |(policy, cost): &(&str, MonthlyCost)| match costs.iter().all(|(_, it)| dollars(it.total) == dollars(least.1.total)) {
            true if costs.len() > 1 => format!("{} a month under every policy", dollars(cost.total)),
            true => format!("{} a month under {policy}", dollars(cost.total)),
            false => format!("{} a month under {policy}", dollars(cost.total)),
        };
    let baseline = baseline.filter(|it| dollars(it.1.total) != dollars(least.1.total));
    Some(format!(
        "at {memory}, at this rate, {} costs {}{}, without {}",
        pricing.device_name.as_deref()?,
        under(least),
        baseline.map_or_else(String::new, |it| format!(" and {}", under(it))),
        least.1.without.join(", ")
    ))
}
