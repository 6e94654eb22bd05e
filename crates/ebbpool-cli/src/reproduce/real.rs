//! Experiments on a real file or block device, in the place of device models.

use std::path::Path;

use super::format::{Experiment, Scale};
use super::lab::Measured;
use super::metric::{Metric, Values};
use super::ordered::Text;
use super::plan::{Cell, Surroundings};
use crate::failure::Failure;
use crate::replay::told::Told;

/// How a device that is a file begins.
const PREFIX: &str = "file:";

/// What a quick run replays of a trace at most: a real device takes its time.
const QUICK_REFERENCES: u64 = 100_000;

/// Puts the file in the place of all devices of the experiment. Claims about one of them go; false
/// if there is none.
pub(super) fn put(experiment: &mut Experiment, file: &Path) -> bool {
    let device = Text(format!("{PREFIX}{}", file.display()));
    let mut had_one = experiment.setting.device.is_some();
    for setting in [&mut experiment.setting, &mut experiment.full.setting] {
        setting.device = setting.device.take().map(|_| device.clone());
    }
    for vary in [&mut experiment.vary, &mut experiment.full.vary] {
        for (_, values) in vary.0.iter_mut().filter(|(name, _)| name == "device") {
            *values.get_mut() = vec![device.clone()];
            had_one = true;
        }
    }
    let before = experiment.claim.len();
    experiment.claim.retain(|claim| {
        let claim = claim.get_ref();
        let check = claim.check();
        let along = check.as_ref().and_then(|check| check.along());
        claim.at.get("device").is_none() && along != Some("device")
    });
    let left_out = before - experiment.claim.len();
    let mut note = format!(
        "In the place of the devices: {}, its pages fixed by one thread through the pool; times are real, computing included. Why a result differs from the paper's is told of the device models.",
        file.display()
    );
    if left_out > 0 {
        note.push_str(&format!(
            " Claims about one device are left out: {left_out}."
        ));
    }
    experiment.note = Some(match experiment.note.take() {
        Some(told) => format!("{note}\n{told}"),
        None => note,
    });
    had_one
}

/// The file that is a device's place, if it is one.
pub(super) fn file_of(around: &Surroundings) -> Option<&str> {
    around.device.as_deref()?.strip_prefix(PREFIX)
}

/// Shortens the trace of a quick run.
pub(super) fn shorten(cell: &mut Cell, scale: Scale) {
    if scale == Scale::Quick {
        let limit = &mut cell.surroundings.trace.limit;
        *limit = Some(limit.map_or(QUICK_REFERENCES, |limit| limit.min(QUICK_REFERENCES)));
    }
}

/// Replays a cell.
///
/// # Errors
///
/// As `ebbpool replay`.
pub(super) fn measure(
    cell: &Cell,
    file: &str,
    source: &ebbpool_trace::Source,
) -> Result<Measured, Failure> {
    let around = &cell.surroundings;
    let words = [
        "the experiment's",
        "--file",
        file,
        "--create",
        "--policy",
        &cell.policy,
        "--frames",
        &cell.frames,
        "--warmup",
        &around.warmup,
        "--at-end",
        &around.at_end,
        "--cluster-size",
        &around.cluster_size,
    ];
    let told = crate::replay::measured(source, &words.map(str::to_string))?;
    let Some(told) = told.into_iter().next() else {
        return Ok(Measured::default());
    };
    Ok(Measured {
        values: values(&told),
        spec: told.record.policy.clone(),
        frames: told.record.frames,
        asymmetry: told.record.asymmetry.0,
        read_cost: 1.0,
        ..Measured::default()
    })
}

fn values(told: &Told) -> Values {
    let record = &told.record;
    let (reads, writes) = (record.reads as f64, record.writes as f64);
    let seconds = told.real_seconds;
    let references = record.references as f64;
    let all = [
        (Metric::Cost, Some(record.cost)),
        (Metric::CostUs, Some(1e6 * seconds / references)),
        (Metric::PerSecond, Some(references / seconds)),
        (Metric::Seconds, Some(seconds)),
        (Metric::UsPerWrite, told.write_us),
        (
            Metric::ReadInWrites,
            told.read_us.zip(told.write_us).map(|(r, w)| r / w),
        ),
        (Metric::Reads, Some(reads)),
        (Metric::Writes, Some(writes)),
        (Metric::Transfers, Some(reads + writes)),
        (Metric::HitRatio, Some(record.hit_ratio)),
        (
            Metric::ClusterSwitches,
            Some(record.cluster_switches as f64),
        ),
        (
            Metric::ClusterSwitchFactor,
            Some(record.cluster_switch_factor),
        ),
        (
            Metric::PagesPerSwitch,
            Some(writes / record.cluster_switches as f64),
        ),
    ];
    let known = all.into_iter().filter_map(|(metric, value)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((metric, value))
    });
    known.collect()
}
