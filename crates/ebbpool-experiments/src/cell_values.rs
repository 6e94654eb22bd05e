//! The figures of a simulation as values of an experiment.

use ebbpool_cost::Unit;
use ebbpool_lab::{Pricing, RunResult, TraceSummary};
use ebbpool_sim::{DeviceOutcome, Moment, SweepRow};

use super::metric::{Metric, Values};
use super::runner::CellResult;

/// The result of a cell from a row of the sweep.
pub(crate) fn measured(
    trace: &TraceSummary,
    spec: String,
    pricing: &Pricing,
    row: &SweepRow,
) -> CellResult {
    let asymmetry = pricing.asymmetry;
    let mut result = RunResult::new(trace, spec.clone(), row.frames, asymmetry, &row.counts);
    if let Some(device) = &row.device {
        result.charge_device(pricing, device);
    }
    let moments: Vec<Moment> = match &row.time_line {
        Some(line) => line.moments().copied().collect(),
        None => Vec::new(),
    };
    let mut values = Values::new();
    let mut put = |metric: Metric, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            values.insert(metric, value);
        }
    };
    put_counts(&result, &mut put);
    put_moments(&moments, row.frames as f64, &mut put);
    put(
        Metric::CleanFollowsReads,
        follows_reads(&moments, asymmetry.ratio()),
    );
    if let Some(device) = &row.device {
        put_device(device, result.writes as f64, &mut put);
    }
    CellResult {
        values,
        moments,
        spec,
        simulated: None,
        frames: row.frames,
        asymmetry: asymmetry.ratio(),
        read_cost: 1.0 / pricing.in_page_reads(1.0),
        failed: row.device.as_ref().and_then(|device| device.failed.clone()),
    }
}

fn put_counts(result: &RunResult, put: &mut impl FnMut(Metric, Option<f64>)) {
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
    let squares = moments
        .iter()
        .map(|moment| (moment.clean as f64 - mean).powi(2));
    (squares.sum::<f64>() / moments.len().max(1) as f64).sqrt()
}

/// The correlation of the clean pages at each moment with the reads' share of the cost since the moment before. `None` if one of
/// them is always the same, or R changes.
fn follows_reads(moments: &[Moment], asymmetry: f64) -> Option<f64> {
    if moments.iter().any(|moment| moment.bill.is_some()) {
        return None;
    }
    let both = moments.windows(2).filter_map(|pair| {
        let reads = (pair[1].reads - pair[0].reads) as f64;
        let writes = (pair[1].writes - pair[0].writes) as f64 * asymmetry;
        (reads + writes > 0.0).then(|| (pair[1].clean as f64, reads / (reads + writes)))
    });
    let both: Vec<(f64, f64)> = both.collect();
    let count = both.len() as f64;
    let (clean, share) = both
        .iter()
        .fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
    let (clean, share) = (clean / count, share / count);
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        let products = both.iter().map(|one| of(one.0 - clean, one.1 - share));
        products.sum()
    };
    let together = sum(|clean, share| clean * share);
    let apart = sum(|clean, _| clean * clean) * sum(|_, share| share * share);
    (apart > 0.0).then(|| together / apart.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(clean: [u64; 4]) -> Vec<Moment> {
        // Between the moments 10 reads and 1, 0 and 1 writes.
        let counted = [(0, 0), (10, 1), (20, 1), (30, 2)].into_iter().zip(clean);
        let moment = |((reads, writes), clean)| Moment {
            references: 0,
            reads,
            writes,
            bill: None,
            clean,
            dirty: 0,
            target: None,
        };
        counted.map(moment).collect()
    }

    #[test]
    fn clean_pages_may_follow_the_reads_share() {
        let near = |ours: Option<f64>, expected: f64| {
            let ours = ours.expect("a correlation");
            assert!((ours - expected).abs() < 1e-12, "{ours}");
        };
        near(follows_reads(&moments([0, 5, 9, 5]), 2.0), 1.0);
        near(follows_reads(&moments([0, 5, 1, 5]), 2.0), -1.0);
        near(follows_reads(&moments([0, 1, 2, 3]), 2.0), 0.0);
        assert_eq!(follows_reads(&moments([0, 5, 5, 5]), 2.0), None);
        assert_eq!(follows_reads(&[], 2.0), None);
    }
}
