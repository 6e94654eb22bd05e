//! The figures of a simulation as values of an experiment.

use std::collections::HashMap;

use ebbpool_cost::Unit;
use ebbpool_lab::{ComparedCell, Pricing, RunResult};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{DeviceOutcome, Moment};

use super::metric::{Metric, Values};
use super::plan::ExperimentCell;

/// What an experiment takes of the lab's answer for a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredCell {
    pub(crate) values: Values,
    pub(crate) moments: Vec<Moment>,
    /// The policy in canonical spelling, or the name of what takes its place.
    pub(crate) spec: String,
    /// The policy, if the simulator computed the result and the policy is one of the registry.
    pub(crate) simulated: Option<PolicySpec>,
    pub(crate) frames: u64,
    /// The initial cost of a write for the policies, in page reads.
    pub(crate) asymmetry: f64,
    /// The initial cost of a read, in the unit of the moments' bills.
    pub(crate) read_cost: f64,
}

/// The results of cells.
pub(crate) type MeasuredCells = HashMap<ExperimentCell, MeasuredCell>;

/// What an experiment takes of a cell of a comparison.
pub(crate) fn measured(cell: &ComparedCell, pricing: &Pricing) -> MeasuredCell {
    let ComparedCell { row, result } = cell;
    let moments: Vec<Moment> = match &row.time_line {
        Some(line) => line.moments().copied().collect(),
        None => Vec::new(),
    };
    let mut values = Values::new();
    let mut put = |metric, value| put(&mut values, metric, value);
    put_counts(result, &mut put);
    put_moments(&moments, row.frames as f64, &mut put);
    if let Some(device) = &row.device {
        put_device(device, result.writes as f64, &mut put);
    }
    MeasuredCell {
        values,
        moments,
        spec: result.policy.clone(),
        simulated: None,
        frames: row.frames,
        asymmetry: pricing.asymmetry.ratio(),
        read_cost: 1.0 / pricing.in_page_reads(1.0),
    }
}

/// Puts a metric that is known and finite among the values.
pub(crate) fn put(values: &mut Values, metric: Metric, value: Option<f64>) {
    if let Some(value) = value.filter(|value| value.is_finite()) {
        values.insert(metric, value);
    }
}

/// What a run has counted. Times are those of a device with a profile.
pub(crate) fn put_counts(result: &RunResult, put: &mut impl FnMut(Metric, Option<f64>)) {
    let (reads, writes) = (result.reads as f64, result.writes as f64);
    let switches = result.cluster_switches as f64;
    put(Metric::Cost, Some(result.cost));
    put(Metric::CostUs, result.cost_us);
    put(Metric::PerSecond, result.cost_us.map(|us| 1e6 / us));
    put(Metric::Reads, Some(reads));
    put(Metric::Writes, Some(writes));
    put(Metric::Transfers, Some(reads + writes));
    put(Metric::HitRatio, Some(result.hit_ratio));
    put(Metric::ClusterSwitches, Some(switches));
    let factor = result.cluster_switch_factor;
    put(Metric::ClusterSwitchFactor, Some(factor));
    put(Metric::PagesPerSwitch, Some(writes / switches));
}

fn put_moments(moments: &[Moment], frames: f64, put: &mut impl FnMut(Metric, Option<f64>)) {
    let clean = mean(moments.iter().map(|moment| Some(moment.clean)));
    put(Metric::Clean, clean);
    put(Metric::CleanShare, clean.map(|clean| clean / frames));
    let target = mean(moments.iter().map(|moment| moment.target));
    put(Metric::TargetShare, target.map(|target| target / frames));
    let spread = clean.map(|mean| spread(moments, mean) / frames);
    put(Metric::CleanSpread, spread);
}

fn put_device(device: &DeviceOutcome, writes: f64, put: &mut impl FnMut(Metric, Option<f64>)) {
    let report = &device.report;
    let bill = report.bill();
    let timed = bill.unit == Unit::Microseconds;
    let seconds = timed.then_some(bill.amount / 1e6);
    put(Metric::Seconds, seconds);
    let read = report.read_cost / report.reads as f64;
    let write = report.write_cost / report.writes as f64;
    put(Metric::UsPerWrite, timed.then_some(write));
    put(Metric::ReadInWrites, Some(read / write));
    let joules = device.energy.map(|energy| energy.total_j());
    put(Metric::Joules, joules);
    let elapsed = seconds.map(|seconds| seconds + device.idle_us.unwrap_or(0.0) / 1e6);
    put(Metric::Watts, joules.zip(elapsed).map(|(j, s)| j / s));
    let flash = device.flash.as_ref();
    let erases = flash.map(|flash| flash.erases as f64);
    put(Metric::Erases, erases);
    put(Metric::ErasesPerWrite, erases.map(|erases| erases / writes));
    let amplification = flash.and_then(|flash| flash.write_amplification);
    put(Metric::WriteAmplification, amplification);
}

/// The mean; `None` without values, or if one is missing.
fn mean(values: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    let values: Vec<u64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<u64>() as f64 / values.len() as f64)
}

/// The standard deviation of the clean pages over time.
fn spread(moments: &[Moment], mean: f64) -> f64 {
    let squares = moments.iter().map(|moment| (moment.clean as f64 - mean).powi(2));
    (squares.sum::<f64>() / moments.len().max(1) as f64).sqrt()
}
