//! The data of an experiment as CSV, for programs.

use std::collections::BTreeSet;

use ebbpool_lab::report::chart::{Axis, DataPoint, Picture, Ticks};

use super::done::ExperimentResult;
use super::metric::Metric;
use super::point::Point;

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
        let place = dimensions.iter().map(|name| point.get(name).unwrap_or_default().to_string());
        let fixed = [
            point.policy.clone(),
            point.spec.clone(),
            point.frames.map(|frames| frames.to_string()).unwrap_or_default(),
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
    let head = dimensions.iter().copied().chain(["policy", "reference", "reads", "writes", "bill", "clean", "dirty", "target"]);
    csv.write_record(head)?;
    for point in &done.points {
        for moment in &point.moments {
            let place = dimensions.iter().map(|name| point.get(name).unwrap_or_default().to_string());
            let rest = [
                point.policy.clone(),
                moment.references.to_string(),
                moment.reads.to_string(),
                moment.writes.to_string(),
                moment.bill.map(|bill| bill.to_string()).unwrap_or_default(),
                moment.clean.to_string(),
                moment.dirty.to_string(),
                moment.target.map(|target| target.to_string()).unwrap_or_default(),
            ];
            csv.write_record(place.chain(rest))?;
        }
    }
    Ok(Some(csv.into_inner().map_err(|error| error.into_error())?))
}

/// A CSV with a row for each value that a picture shows.
pub(crate) fn picture_csv(picture: &Picture) -> Result<String, csv::Error> {
    let panels = &picture.panels;
    let has_titles = panels.iter().any(|panel| !panel.title.is_empty());
    let points = panels.iter().flat_map(|panel| &panel.series);
    let mut points = points.flat_map(|series| &series.points);
    let has_intervals = points.any(|point| point.interval.is_some());
    let label =
        |axis: fn(&ebbpool_lab::report::chart::Panel) -> &Axis| panels.first().map_or("", |panel| axis(panel).label.as_str());
    let panel_head = has_titles.then_some("panel");
    let ends = ["from", "to"].into_iter().filter(|_| has_intervals);
    let fixed = ["series", label(|panel| &panel.x), label(|panel| &panel.y)];
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(panel_head.into_iter().chain(fixed).chain(ends))?;
    for panel in panels {
        for series in &panel.series {
            for point in &series.points {
                let title = has_titles.then(|| panel.title.clone());
                let fixed = [series.name.clone(), x_text(&panel.x, point), point.y.to_string()];
                let ends = point.interval.map(|(from, to)| [from.to_string(), to.to_string()]);
                let ends = ends.unwrap_or_default().into_iter();
                let ends = ends.filter(|_| has_intervals);
                csv.write_record(title.into_iter().chain(fixed).chain(ends))?;
            }
        }
    }
    let bytes = csv.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The place of a point along the x axis: the text at it, or its number.
fn x_text(axis: &Axis, point: &DataPoint) -> String {
    let ticks = match &axis.ticks {
        Ticks::At(ticks) | Ticks::Names(ticks) => ticks.as_slice(),
        Ticks::Round(_) => &[],
    };
    let tick = ticks.iter().find(|tick| tick.at == point.x);
    tick.map_or_else(|| point.x.to_string(), |tick| tick.text.clone())
}
