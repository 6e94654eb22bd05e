//! The data of an experiment as CSV, for programs.

use std::collections::BTreeSet;

use super::metric::Metric;
use super::point::Point;
use super::study::ExperimentResult;

/// The metrics that at least one point has.
pub(crate) fn metrics(points: &[Point]) -> BTreeSet<Metric> {
    let all = points.iter().flat_map(|point| point.values.keys());
    all.copied().collect()
}

/// True if the points are means over seeds.
pub(crate) fn is_seeded(done: &ExperimentResult) -> bool {
    !done.experiment.seeds(done.scale).is_empty()
}

/// A CSV with a row for each point. If there are seeds, it has their number, and half of the confidence
/// interval of each mean.
pub(crate) fn points_csv(done: &ExperimentResult) -> Result<Vec<u8>, csv::Error> {
    let metrics = metrics(&done.points);
    let mut csv = csv::Writer::from_writer(Vec::new());
    let dimensions = done.experiment.dimensions();
    let head = dimensions.iter().map(|name| name.to_string());
    let fixed = ["policy", "spelled", "frames_used", "chosen"].map(str::to_string);
    let seeded = is_seeded(done);
    let measured = metrics.iter().flat_map(|metric| {
        let key = metric.key().replace('-', "_");
        let interval = seeded.then(|| format!("{key}_ci95"));
        std::iter::once(key).chain(interval)
    });
    let seeds = seeded.then(|| "seeds".to_string());
    csv.write_record(head.chain(fixed).chain(seeds).chain(measured))?;
    for point in &done.points {
        let place = dimensions
            .iter()
            .map(|name| point.get(name).unwrap_or_default().to_string());
        let fixed = [
            point.policy.clone(),
            point.spec.clone(),
            point
                .frames
                .map(|frames| frames.to_string())
                .unwrap_or_default(),
            point.chosen.clone().unwrap_or_default(),
        ];
        let measured = metrics.iter().flat_map(|metric| {
            let text = |value: Option<f64>| value.map(|it| it.to_string()).unwrap_or_default();
            let interval = seeded.then(|| text(point.half_width(*metric)));
            std::iter::once(text(point.value(*metric))).chain(interval)
        });
        let seeds = seeded.then(|| point.runs.len().to_string());
        csv.write_record(place.chain(fixed).chain(seeds).chain(measured))?;
    }
    csv.into_inner().map_err(|error| error.into_error().into())
}

/// A CSV with a row for each moment of each point; `None` if there are no moments.
pub(crate) fn moments_csv(done: &ExperimentResult) -> Result<Option<Vec<u8>>, csv::Error> {
    if done.points.iter().all(|point| point.moments.is_empty()) {
        return Ok(None);
    }
    let mut csv = csv::Writer::from_writer(Vec::new());
    let dimensions = done.experiment.dimensions();
    let head = dimensions.iter().copied().chain([
        "policy",
        "reference",
        "reads",
        "writes",
        "bill",
        "clean",
        "dirty",
        "target",
    ]);
    csv.write_record(head)?;
    for point in &done.points {
        for moment in &point.moments {
            let place = dimensions
                .iter()
                .map(|name| point.get(name).unwrap_or_default().to_string());
            let rest = [
                point.policy.clone(),
                moment.references.to_string(),
                moment.reads.to_string(),
                moment.writes.to_string(),
                moment.bill.map(|bill| bill.to_string()).unwrap_or_default(),
                moment.clean.to_string(),
                moment.dirty.to_string(),
                moment
                    .target
                    .map(|target| target.to_string())
                    .unwrap_or_default(),
            ];
            csv.write_record(place.chain(rest))?;
        }
    }
    Ok(Some(csv.into_inner().map_err(|error| error.into_error())?))
}
