//! Experiments on a real file or block device, in the place of device models.

use std::path::Path;

use ebbpool_lab::replay::{ReplayFile, ReplayOutputs, ReplayRequest, ReplayResult, ReplayStorage};
use ebbpool_lab::{Lab, MemorySize, PolicySelection, Settings};

use super::format::{Experiment, Scale};
use super::metric::{Metric, Values};
use super::ordered::Text;
use super::plan::{Cell, Surroundings};
use super::runner::{self, Measured, Runner};
use crate::error::ExperimentError;

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
    runner: &Runner,
    cell: &Cell,
    file: &str,
    source: &ebbpool_trace::Source,
) -> Result<Measured, ExperimentError> {
    let around = &cell.surroundings;
    let size = cell.frames.parse::<MemorySize>();
    let size = size.map_err(|error| ExperimentError::Invalid(error.to_string()))?;
    let request = ReplayRequest {
        storage: ReplayStorage::File(ReplayFile {
            create: true,
            ..ReplayFile::existing(file)
        }),
        warmup: runner::warmup(&around.warmup)?,
        at_end: runner::at_end(&around.at_end)?,
        cluster_size: runner::cluster_size(&around.cluster_size)?,
        ..ReplayRequest::new(PolicySelection::one(&cell.policy), size)
    };
    let lab = Lab::new(Settings::default(), runner.events);
    let study = lab.replay(source, &request, &ReplayOutputs::default())?;
    let Some(replayed) = study.into_result()?.into_iter().next() else {
        return Ok(Measured::default());
    };
    Ok(Measured {
        values: values(&replayed),
        spec: replayed.result.policy.clone(),
        frames: replayed.result.frames,
        asymmetry: replayed.result.asymmetry.0,
        read_cost: 1.0,
        ..Measured::default()
    })
}

fn values(replayed: &ReplayResult) -> Values {
    let record = &replayed.result;
    let (reads, writes) = (record.reads as f64, record.writes as f64);
    let seconds = replayed.real_seconds;
    let references = record.references as f64;
    let all = [
        (Metric::Cost, Some(record.cost)),
        (Metric::CostUs, Some(1e6 * seconds / references)),
        (Metric::PerSecond, Some(references / seconds)),
        (Metric::Seconds, Some(seconds)),
        (Metric::UsPerWrite, replayed.write_us),
        (
            Metric::ReadInWrites,
            replayed.read_us.zip(replayed.write_us).map(|(r, w)| r / w),
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
