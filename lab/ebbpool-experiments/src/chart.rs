//! Figures arranged as in the paper: which points are in which panel, on which line and at which place.
//!
//! How a figure looks is decided in [`ebbpool_lab::report::chart`], for all charts.

use ebbpool_lab::report::chart::{Axis, DataPoint, DataSeries, LineStyle, Panel, Picture, PlotKind, Tick, Ticks};
use ebbpool_sim::Moment;

use super::format::contenders;
use super::format::{AxisScale, Experiment, Figure, POLICY, REFERENCES, WORKLOAD};
use super::metric::Metric;
use super::point::Point;
use super::ranking::times_worse;
use super::seeds::MeanEstimate;

/// Values of the x axis that each have a tick.
const MOST_TICKS: usize = 9;

/// What x values stand for.
enum Across {
    /// Numbers, and the texts of the experiment for them.
    Numbers(Vec<(f64, String)>),
    /// Texts at 0, 1, 2 and so on.
    Texts {
        all: Vec<String>,
        /// How all of them begin: the label of the axis says it once.
        begin: String,
    },
    /// The course over the trace.
    References,
}

/// A panel, and for each of its lines the policy whose colour it has: none for a line of several policies.
struct PanelPlan<'a> {
    panel: Panel,
    bases: Vec<&'a str>,
}

/// Gives the lines their marks: a line looks the same in each panel.
fn with_marks(planned: Vec<PanelPlan>) -> Vec<Panel> {
    let mut lines: Vec<(String, Option<LineStyle>)> = Vec::new();
    for PanelPlan { panel, bases } in &planned {
        for (series, base) in panel.series.iter().zip(bases) {
            if lines.iter().all(|(name, _)| *name != series.name) {
                lines.push((series.name.clone(), LineStyle::for_policy(base)));
            }
        }
    }
    let own: Vec<Option<LineStyle>> = lines.iter().map(|(_, mark)| *mark).collect();
    let marks = LineStyle::for_lines(&own);
    let of_line = |name: &str| lines.iter().position(|(line, _)| line == name);
    let mut panels: Vec<Panel> = planned.into_iter().map(|plan| plan.panel).collect();
    for series in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        if let Some(mark) = of_line(&series.name).and_then(|at| marks.get(at)) {
            series.mark = *mark;
        }
    }
    panels
}

/// The picture of a figure of an experiment; nothing where there are no points for it. `id` is the picture's name.
pub(crate) fn picture(experiment: &Experiment, figure: &Figure, points: &[Point], id: &str) -> Option<Picture> {
    let figure = &Figure { policies: contenders::expanded(experiment, &figure.policies), ..figure.clone() };
    let is_there = |point: &&Point| {
        let mut conditions = figure.at.0.iter();
        conditions.all(|(name, values)| point.get(name).is_some_and(|value| values.has(value)))
    };
    let points: Vec<Point> = points.iter().filter(is_there).cloned().collect();
    let points = points.as_slice();
    let across = across(figure, points);
    let panels = with_marks(panels(experiment, figure, points, &across));
    if panels.iter().all(|panel| panel.series.is_empty()) {
        return None;
    }
    // Where each bar has its name below it a legend says nothing more.
    let names_bars = figure.bars && figure.x == POLICY;
    let title = figure.title.as_deref().unwrap_or(&experiment.title);
    Some(Picture {
        id: id.into(),
        title: format!("{}: {title}", experiment.number),
        panels,
        kind: match (figure.bars, names_bars) {
            (false, _) => PlotKind::Lines,
            (true, false) => PlotKind::Bars,
            (true, true) => PlotKind::SingleBars,
        },
        has_legend: !names_bars,
    })
}

fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// A value such as `3.1%` or `32` as a number.
fn numeric(text: &str) -> Option<f64> {
    text.trim_end_matches('%').parse().ok()
}

fn across(figure: &Figure, points: &[Point]) -> Across {
    if figure.x == REFERENCES {
        return Across::References;
    }
    let shown = points.iter().filter(|point| is_shown(figure, point));
    let values = distinct(shown.filter_map(|point| point.get(&figure.x)));
    let numbers: Option<Vec<(f64, String)>> = values.iter().map(|text| Some((numeric(text)?, text.to_string()))).collect();
    let is_text = figure.bars || figure.x_scale == AxisScale::Even;
    let is_name = figure.x == WORKLOAD || figure.x == POLICY;
    match numbers.filter(|_| !is_text && !is_name) {
        Some(numbers) => Across::Numbers(numbers),
        None => Across::Texts { begin: beginning(&values).into(), all: values.iter().map(|text| text.to_string()).collect() },
    }
}

/// What several texts have in common up to their last blank, as the members of a group have.
fn beginning<'a>(texts: &[&'a str]) -> &'a str {
    let ends = texts.iter().map(|text| text.rfind(' ').map(|at| &text[..=at]));
    match ends.collect::<Option<Vec<&str>>>().as_deref() {
        Some([first, rest @ ..]) if !rest.is_empty() && rest.iter().all(|it| it == first) => first,
        _ => "",
    }
}

fn is_shown(figure: &Figure, point: &Point) -> bool {
    figure.policies.is_empty() || figure.policies.contains(&point.policy)
}

impl Across {
    /// Where a text of the x axis is.
    fn position(&self, text: &str) -> Option<f64> {
        match self {
            Across::Numbers(_) => numeric(text),
            Across::Texts { all, .. } => Some(all.iter().position(|other| other == text)? as f64),
            Across::References => None,
        }
    }

    /// What stands along the axis.
    fn ticks(&self) -> Ticks {
        match self {
            Across::Numbers(all) if all.len() <= MOST_TICKS => {
                let tick = |(at, text): &(f64, String)| Tick { at: *at, text: text.clone() };
                let mut ticks: Vec<Tick> = all.iter().map(tick).collect();
                ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
                Ticks::At(ticks)
            }
            Across::Numbers(all) => match all.iter().all(|(_, text)| text.ends_with('%')) {
                true => Ticks::Round("%"),
                false => Ticks::Round(""),
            },
            Across::Texts { all, begin } => {
                let tick = |(at, text): (usize, &String)| Tick {
                    at: at as f64,
                    text: text.strip_prefix(begin).unwrap_or(text).into(),
                };
                Ticks::Names(all.iter().enumerate().map(tick).collect())
            }
            Across::References => Ticks::Round(""),
        }
    }
}

fn panels<'a>(experiment: &Experiment, figure: &Figure, points: &'a [Point], across: &Across) -> Vec<PanelPlan<'a>> {
    let title_of = |point: &Point| -> String {
        let parts = figure.panels.iter().filter_map(|name| {
            let value = point.get(name)?;
            Some(match name.as_str() {
                WORKLOAD | POLICY => value.to_string(),
                name => format!("{name} {value}"),
            })
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let has_policy_panels = figure.panels.iter().any(|name| name == POLICY);
    // A panel of a policy beside itself shows nothing.
    let is_beside_itself = |point: &Point| has_policy_panels && figure.improvement_of.as_deref() == Some(point.policy.as_str());
    let shown: Vec<&Point> = points.iter().filter(|point| is_shown(figure, point) && !is_beside_itself(point)).collect();
    let mut titles: Vec<String> = Vec::new();
    for point in &shown {
        let title = title_of(point);
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let of_title = |title: String| {
        let of_panel = shown.iter().filter(|point| title_of(point) == title);
        let of_panel: Vec<&Point> = of_panel.copied().collect();
        let (series, bases) = series(experiment, figure, &of_panel, points, across);
        let (x_label, y_label) = labels(experiment, figure, across);
        let panel = Panel { title, x: x_axis(figure, &series, across, x_label), y: y_axis(figure, &series, y_label), series };
        PanelPlan { panel, bases }
    };
    titles.into_iter().map(of_title).collect()
}

/// The lines of a panel and their policies; `points` are those of all panels.
fn series<'a>(
    experiment: &Experiment,
    figure: &Figure,
    of_panel: &[&'a Point],
    points: &[Point],
    across: &Across,
) -> (Vec<DataSeries>, Vec<&'a str>) {
    let metric = figure.y.unwrap_or(experiment.metric);
    let name_of = |point: &Point| name(experiment, figure, of_panel, point);
    let by_base = lines_of(figure) == POLICY;
    let mut all: Vec<DataSeries> = Vec::new();
    let mut bases = Vec::new();
    for point in of_panel {
        let drawn = match across {
            Across::References => course(point, metric),
            _ => value(figure, point, points, metric, across).into_iter().collect(),
        };
        if drawn.is_empty() {
            continue;
        }
        let name = name_of(point);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.extend(drawn),
            None => {
                bases.push(match by_base {
                    true => base(point, of_panel),
                    false => "",
                });
                all.push(DataSeries { mark: LineStyle::default(), name, points: drawn });
            }
        }
    }
    (all, bases)
}

/// What a line stands for.
fn lines_of(figure: &Figure) -> &str {
    figure.lines.as_deref().unwrap_or(POLICY)
}

/// The name of a point's line. The panel, the x axis and the line distinguish points; whatever else varies is in the
/// name as well.
fn name(experiment: &Experiment, figure: &Figure, of_panel: &[&Point], point: &Point) -> String {
    let lines = lines_of(figure);
    let line = point.get(lines).unwrap_or_default();
    let line = match lines {
        POLICY | WORKLOAD => line.to_string(),
        lines => format!("{lines} {line}"),
    };
    let rest = experiment.dimensions().into_iter().filter(|name| {
        let is_axis = *name == figure.x || *name == lines;
        !is_axis && !figure.panels.iter().any(|panel| panel == name)
    });
    let several = rest.filter(|name| distinct(of_panel.iter().filter_map(|point| point.get(name))).len() > 1);
    let rest = several.filter_map(|name| Some(format!(", {name} {}", point.get(name)?)));
    format!("{line}{}", rest.collect::<String>())
}

/// The policy whose colour a line has: none of a line of several policies.
fn base<'a>(point: &'a Point, of_panel: &[&Point]) -> &'a str {
    fn of(point: &Point) -> &str {
        point.spec.split(':').next().unwrap_or_default()
    }
    let base = of(point);
    let mut same = of_panel.iter().filter(|other| other.policy == point.policy);
    match same.all(|other| of(other) == base) {
        true => base,
        false => "",
    }
}

/// What a point adds to its line.
fn value(figure: &Figure, point: &Point, points: &[Point], metric: Metric, across: &Across) -> Option<DataPoint> {
    let there = |policy: &String| {
        let mut of_policy = points.iter().filter(|other| other.policy == *policy);
        of_policy.find(|other| other.place == point.place)
    };
    let samples = match (&figure.improvement_of, &figure.ratio_to) {
        (Some(policy), _) => there(policy)?.compared(point, metric, |value, other| metric.improvement(value, other)),
        (None, Some(policy)) => point.compared(there(policy)?, metric, times_worse(metric)),
        (None, None) => point.samples(metric),
    };
    let x = across.position(point.get(&figure.x)?)?;
    let MeanEstimate { mean, half_width } = MeanEstimate::from_samples(&samples?)?;
    Some(DataPoint { x, y: mean, interval: half_width.map(|half| (mean - half, mean + half)) })
}

/// The metric over the trace.
fn course(point: &Point, metric: Metric) -> Vec<DataPoint> {
    let frames = point.frames.unwrap_or(1) as f64;
    let paid = |moment: &Moment| {
        let plain = moment.reads as f64 + point.asymmetry * moment.writes as f64;
        moment.bill.map_or(plain, |bill| bill / point.read_cost)
    };
    let at = |moment: &Moment, y: f64| DataPoint { x: moment.references as f64, y, interval: None };
    match metric {
        Metric::Clean | Metric::CleanShare | Metric::TargetShare => {
            let of = |moment: &Moment| match metric {
                Metric::Clean => Some(moment.clean as f64),
                Metric::CleanShare => Some(moment.clean as f64 / frames),
                _ => moment.target.map(|target| target as f64 / frames),
            };
            let all = point.moments.iter();
            all.filter_map(|moment| Some(at(moment, of(moment)?))).collect()
        }
        _ => point
            .moments
            .windows(2)
            .map(|pair| {
                let [before, after] = [&pair[0], &pair[1]];
                let references = (after.references - before.references).max(1) as f64;
                at(after, (paid(after) - paid(before)) / references)
            })
            .collect(),
    }
}

/// The least and the greatest; 0 to 1 of nothing.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
    match least <= most {
        true => (least, most),
        false => (0.0, 1.0),
    }
}

fn x_axis(figure: &Figure, series: &[DataSeries], across: &Across, label: String) -> Axis {
    let (range, is_log) = match across {
        Across::Numbers(all) => {
            let (least, most) = extent(all.iter().map(|(number, _)| *number));
            let is_log = figure.x_scale == AxisScale::Log && least > 0.0;
            let range = match (is_log, most > least) {
                (_, false) => (least - 0.5)..(most + 0.5),
                (true, _) => {
                    let room = (most / least).powf(0.04);
                    (least / room)..(most * room)
                }
                (false, _) => (least - 0.04 * (most - least))..(most + 0.04 * (most - least)),
            };
            (range, is_log && most > least)
        }
        Across::Texts { all, .. } => (-0.6..(all.len() as f64 - 0.4), false),
        Across::References => {
            let points = series.iter().flat_map(|series| &series.points);
            let (_, most) = extent(points.map(|point| point.x));
            (0.0..most, false)
        }
    };
    Axis { label, range, is_log, ticks: across.ticks() }
}

fn y_axis(figure: &Figure, series: &[DataSeries], label: String) -> Axis {
    let points = series.iter().flat_map(|series| &series.points);
    // Intervals have to be within the axes as well.
    let heights = points.flat_map(|point| {
        let (from, to) = point.interval.unwrap_or((point.y, point.y));
        [from, point.y, to]
    });
    let (least, most) = extent(heights);
    let is_log = figure.y_scale == AxisScale::Log && least > 0.0;
    let range = match is_log {
        true => (least / 1.2)..(most * 1.2),
        // What counts of a ratio is how far it is from 1.
        false if figure.ratio_to.is_some() && !figure.bars => {
            let (least, most) = (least.min(1.0), most.max(1.0));
            let room = 0.06 * (most - least).max(0.01);
            (least - room)..(most + room)
        }
        false => {
            let (least, most) = match (least.min(0.0), most.max(0.0)) {
                (0.0, 0.0) => (0.0, 1.0),
                ends => ends,
            };
            let room = 0.06 * (most - least).max(1e-9);
            let below = if least < 0.0 { room } else { 0.0 };
            let above = if most > 0.0 { room } else { 0.0 };
            (least - below)..(most + above)
        }
    };
    Axis { label, range, is_log, ticks: Ticks::Round("") }
}

/// What the axes are called.
fn labels(experiment: &Experiment, figure: &Figure, across: &Across) -> (String, String) {
    let metric = figure.y.unwrap_or(experiment.metric);
    let y_label = match (&figure.improvement_of, &figure.ratio_to) {
        (Some(policy), _) => format!("{policy} better by (%)"),
        (None, Some(policy)) => format!("{} over {policy}'s", metric.key()),
        (None, None) => metric.label().to_string(),
    };
    let x_label = match across {
        Across::Texts { begin, .. } if !begin.is_empty() => begin.trim_end(),
        _ => figure.x.as_str(),
    };
    (x_label.into(), y_label)
}

#[cfg(test)]
mod tests;
