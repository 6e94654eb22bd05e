//! The data of an experiment, for machines.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Reproduced;
use super::metric::Metric;
use super::point::Point;

/// The metrics that some point has.
pub(crate) fn metrics(points: &[Point]) -> BTreeSet<Metric> {
    let all = points.iter().flat_map(|point| point.values.keys());
    all.copied().collect()
}

/// A row for each point.
pub(crate) fn points_csv(done: &Reproduced) -> Result<Vec<u8>, csv::Error> {
    let metrics = metrics(&done.points);
    let mut csv = csv::Writer::from_writer(Vec::new());
    let dimensions = done.experiment.dimensions();
    let head = dimensions.iter().map(|name| name.to_string());
    let fixed = ["policy", "spelled", "frames_used", "chosen"].map(str::to_string);
    let measured = metrics.iter().map(|metric| metric.key().replace('-', "_"));
    csv.write_record(head.chain(fixed).chain(measured))?;
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
        let measured = metrics.iter().map(|metric| {
            let value = point.value(*metric);
            value.map(|value| value.to_string()).unwrap_or_default()
        });
        csv.write_record(place.chain(fixed).chain(measured))?;
    }
    csv.into_inner().map_err(|error| error.into_error().into())
}

/// A row for each moment of each point; nothing where there are none.
pub(crate) fn moments_csv(done: &Reproduced) -> Result<Option<Vec<u8>>, csv::Error> {
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

/// An experiment's results as JSON.
pub(crate) fn as_json(done: &Reproduced) -> Value {
    let experiment = &done.experiment;
    let point = |point: &Point| {
        let mut object = Map::new();
        for name in experiment.dimensions() {
            object.insert(name.into(), json!(point.get(name)));
        }
        object.insert("policy".into(), json!(point.policy));
        object.insert("spelled".into(), json!(point.spec));
        object.insert("frames_used".into(), json!(point.frames));
        if let Some(chosen) = &point.chosen {
            object.insert("chosen".into(), json!(chosen));
        }
        for metric in point.values.keys() {
            let key = metric.key().replace('-', "_");
            object.insert(key, json!(point.value(*metric)));
        }
        Value::Object(object)
    };
    json!({
        "id": experiment.id(),
        "paper": experiment.paper,
        "number": experiment.number,
        "title": experiment.title,
        "scale": done.scale.name(),
        "basis": experiment.basis,
        "note": experiment.note,
        "metric": experiment.metric,
        "points": done.points.iter().map(point).collect::<Vec<_>>(),
        "claims": done.judged,
        "notes": done.notes,
        "seconds": done.seconds,
        "results_known": done.known,
        "results_computed": done.computed,
    })
}
