//! Runs experiments on a real file or block device, which replaces the device models.

use std::path::Path;
use std::sync::Arc;

use ebbpool_lab::PolicySelection;
use ebbpool_lab::replay::{ReplayFile, ReplayOutputs, ReplayRequest, ReplayResult, ReplayStorage};

use super::{Runner, references};
use crate::cell_values::MeasuredCell;
use crate::cell_values::{put, put_counts};
use crate::error::ExperimentError;
use crate::format::{Experiment, Scale};
use crate::metric::{Metric, Values};
use crate::ordered::Text;
use crate::plan::{CellPolicy, ExperimentCell, FILE_PREFIX};
use crate::work::WorkKind;

/// The most references that a quick run replays, because a real device takes real time.
const QUICK_REFERENCES: u64 = 100_000;

/// Replaces all devices of the experiment by the file, and removes the claims about single devices.
/// Returns false if the experiment has no device.
pub(crate) fn replace_devices(experiment: &mut Experiment, file: &Path) -> bool {
    let device = Text(format!("{FILE_PREFIX}{}", file.display()));
    let mut has_device = experiment.setting.device.is_some();
    for setting in [&mut experiment.setting, &mut experiment.full.setting] {
        setting.device = setting.device.take().map(|_| device.clone());
    }
    for vary in [&mut experiment.vary, &mut experiment.full.vary] {
        for (_, values) in vary.0.iter_mut().filter(|(name, _)| name == "device") {
            *values.get_mut() = vec![device.clone()];
            has_device = true;
        }
    }
    let before = experiment.claim.len();
    experiment.claim.retain(|claim| {
        let claim = claim.get_ref();
        let check = claim.check();
        let along = check.as_ref().and_then(|check| check.along());
        claim.at.get("device").is_none() && along != Some("device")
    });
    let removed = before - experiment.claim.len();
    let mut note = format!(
        "The devices are replaced by {}, whose pages one thread fixes through the pool; times are real and include computing. Explanations of differences from the paper refer to the device models.",
        file.display()
    );
    if removed > 0 {
        note.push_str(&format!(" Claims about single devices are omitted: {removed}."));
    }
    experiment.note = Some(match experiment.note.take() {
        Some(original) => format!("{note}\n{original}"),
        None => note,
    });
    has_device
}

/// Shortens the trace of a quick run.
pub(crate) fn shorten(cell: &mut ExperimentCell, scale: Scale) {
    if scale == Scale::Quick {
        let limit = &mut cell.config.trace.limit;
        *limit = Some(limit.map_or(QUICK_REFERENCES, |limit| limit.min(QUICK_REFERENCES)));
    }
}

/// Replays a cell.
///
/// # Errors
///
/// The errors of a replay, and [`ExperimentError::Invalid`] for a pseudo-policy.
pub(crate) fn measure(
    runner: &Runner,
    cell: &ExperimentCell,
    file: &Path,
    source: &ebbpool_trace::Source,
) -> Result<MeasuredCell, ExperimentError> {
    let (spec, guest) = match &cell.policy {
        CellPolicy::Policy(policy) => (Some(policy.get().clone()), None),
        CellPolicy::Guest(guest) => (None, Some(Arc::clone(&guest.0))),
        CellPolicy::Pseudo(pseudo) => {
            return Err(ExperimentError::Invalid(format!(
                "'{}' is no policy, so it cannot run on {}; omit it",
                pseudo.name(),
                file.display()
            )));
        }
    };
    let mut file = ReplayFile::existing(file);
    file.create = true;
    let policies = PolicySelection::specs(spec);
    let counting = cell.config.counting();
    let mut request = ReplayRequest::new(policies, cell.frames.get().clone());
    request.storage = ReplayStorage::File(file);
    request.warmup = counting.warmup;
    request.at_end = counting.at_end;
    request.cluster_size = counting.cluster_size;
    request.guests = guest.into_iter().collect();
    let work = (WorkKind::File, references(source)?);
    let replayed = runner.ask(work, Vec::len, |lab| {
        let study = lab.replay(source, &request, &ReplayOutputs::default())?;
        study.into_result()
    })?;
    let Some(replayed) = replayed.into_iter().next() else {
        return Ok(MeasuredCell::default());
    };
    Ok(MeasuredCell {
        values: values(&replayed),
        spec: replayed.result.policy.clone(),
        frames: replayed.result.frames,
        asymmetry: replayed.result.asymmetry.0,
        read_cost: 1.0,
        ..MeasuredCell::default()
    })
}

fn values(replayed: &ReplayResult) -> Values {
    let seconds = replayed.real_seconds;
    let references = replayed.result.references as f64;
    let (read, write) = (replayed.read_us, replayed.write_us);
    let times = [
        (Metric::CostUs, Some(1e6 * seconds / references)),
        (Metric::PerSecond, Some(references / seconds)),
        (Metric::Seconds, Some(seconds)),
        (Metric::UsPerWrite, write),
        (Metric::ReadInWrites, read.zip(write).map(|(r, w)| r / w)),
    ];
    let mut values = Values::new();
    let mut put = |metric, value| put(&mut values, metric, value);
    put_counts(&replayed.result, &mut put);
    times.into_iter().for_each(|(metric, time)| put(metric, time));
    values
}
