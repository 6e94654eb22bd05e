//! Figures as vector graphics, arranged as in the paper.

use std::ops::Range;

use ebbpool_sim::Moment;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use plotters_backend::DrawingErrorKind;

use super::contenders;
use super::format::{AxisScale, Experiment, Figure, POLICY, REFERENCES, WORKLOAD};
use super::metric::Metric;
use super::point::Point;
use super::ranking::times_worse;
use super::seeds::Estimate;
use super::style::{self, Mark, Style};
use super::verdict::number;

/// Lines of one policy that dashes tell apart.
const MOST_VARIANTS: usize = 4;

/// Of a panel, in pixels.
const PANEL: (u32, u32) = (400, 300);
const LEGEND_ROW: u32 = 22;
const MOST_COLUMNS: usize = 3;
const MARK: i32 = 4;
/// Half of what ends a confidence interval, in pixels.
const CAP: i32 = 3;
const FONT: &str = "sans-serif";

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[error("cannot be drawn: {0}")]
pub(crate) struct NotDrawn(String);

/// One line, or one bar in each group.
struct Series {
    name: String,
    style: Style,
    /// Of lines that are the same policy with other parameters: the how-manieth.
    variant: usize,
    values: Vec<(f64, f64)>,
    /// Confidence intervals: where, from and to.
    intervals: Vec<(f64, f64, f64)>,
}

impl Series {
    /// All that has to be within the axes.
    fn heights(&self) -> impl Iterator<Item = f64> {
        let ends = self.intervals.iter().flat_map(|&(_, from, to)| [from, to]);
        self.values.iter().map(|&(_, y)| y).chain(ends)
    }
}

struct Panel {
    title: String,
    series: Vec<Series>,
}

/// What x values stand for.
enum Across {
    /// Numbers, and the texts that they were given as.
    Numbers(Vec<(f64, String)>),
    /// Texts at 0, 1, 2 and so on.
    Texts {
        all: Vec<String>,
        /// How all of them begin: what need not be said at each.
        begin: String,
    },
    /// The course over the trace.
    References,
}

/// Draws a figure of an experiment; nothing where there are no points for it.
pub(crate) fn draw(
    experiment: &Experiment,
    figure: &Figure,
    points: &[Point],
) -> Result<Option<String>, NotDrawn> {
    let figure = &Figure {
        policies: contenders::expanded(experiment, &figure.policies),
        ..figure.clone()
    };
    let is_there = |point: &&Point| {
        let mut wanted = figure.at.0.iter();
        wanted.all(|(name, wanted)| point.get(name).is_some_and(|value| wanted.has(value)))
    };
    let points: Vec<Point> = points.iter().filter(is_there).cloned().collect();
    let points = points.as_slice();
    let across = across(figure, points);
    let panels = panels(experiment, figure, points, &across);
    if panels.iter().all(|panel| panel.series.is_empty()) {
        return Ok(None);
    }
    let columns = panels.len().clamp(1, MOST_COLUMNS);
    let rows = panels.len().div_ceil(columns);
    let legend = legend(&panels);
    let width = PANEL.0 * columns as u32;
    let per_row = (width / 170).max(1) as usize;
    let legend_height = LEGEND_ROW * legend.len().div_ceil(per_row) as u32 + 6;
    let height = PANEL.1 * rows as u32 + legend_height;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (width, height)).into_drawing_area();
        let failed = |error: DrawingAreaErrorKind<_>| NotDrawn(error.to_string());
        root.fill(&WHITE).map_err(failed)?;
        let (above, below) = root.split_vertically(height - legend_height);
        let areas = above.split_evenly((rows, columns));
        for (panel, area) in panels.iter().zip(&areas) {
            draw_panel(experiment, figure, panel, &across, area).map_err(failed)?;
        }
        for (at, series) in legend.iter().enumerate() {
            let (row, column) = (at / per_row, at % per_row);
            let place = (
                12 + (width as usize / per_row * column) as i32,
                (LEGEND_ROW as usize * row) as i32 + 12,
            );
            draw_key(series, figure.bars, place, &below).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(Some(picture))
}

/// Each line once, in the order in which they come first.
fn legend(panels: &[Panel]) -> Vec<&Series> {
    let mut all: Vec<&Series> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !all.iter().any(|known| known.name == series.name) {
            all.push(series);
        }
    }
    all
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
    let numbers: Option<Vec<(f64, String)>> = values
        .iter()
        .map(|text| Some((numeric(text)?, text.to_string())))
        .collect();
    let is_text = figure.bars || figure.x_scale == AxisScale::Even;
    let is_name = figure.x == WORKLOAD || figure.x == POLICY;
    match numbers.filter(|_| !is_text && !is_name) {
        Some(numbers) => Across::Numbers(numbers),
        None => Across::Texts {
            begin: beginning(&values).into(),
            all: values.iter().map(|text| text.to_string()).collect(),
        },
    }
}

/// What several texts have in common up to their last blank, as the members of a group have.
fn beginning<'a>(texts: &[&'a str]) -> &'a str {
    let ends = texts
        .iter()
        .map(|text| text.rfind(' ').map(|at| &text[..=at]));
    match ends.collect::<Option<Vec<&str>>>().as_deref() {
        Some([first, rest @ ..]) if !rest.is_empty() && rest.iter().all(|it| it == first) => first,
        _ => "",
    }
}

fn is_shown(figure: &Figure, point: &Point) -> bool {
    figure.policies.is_empty() || figure.policies.contains(&point.policy)
}

impl Across {
    fn place(&self, text: &str) -> Option<f64> {
        match self {
            Across::Numbers(_) => numeric(text),
            Across::Texts { all, .. } => Some(all.iter().position(|known| known == text)? as f64),
            Across::References => None,
        }
    }

    fn label(&self, at: f64) -> String {
        match self {
            Across::Numbers(all) => {
                let told = all.iter().find(|(number, _)| *number == at);
                told.map_or_else(|| number(at), |(_, text)| text.clone())
            }
            Across::Texts { all, begin } => {
                let is_whole = (at - at.round()).abs() < 1e-6 && at >= -0.5;
                let text = is_whole.then(|| all.get(at.round() as usize)).flatten();
                let text = text.map(|text| text.strip_prefix(begin.as_str()).unwrap_or(text));
                text.unwrap_or_default().to_string()
            }
            Across::References if at == 0.0 => "0".into(),
            Across::References if at >= 1e6 => format!("{} M", number(at / 1e6)),
            Across::References => format!("{} k", number(at / 1e3)),
        }
    }
}

fn panels(
    experiment: &Experiment,
    figure: &Figure,
    points: &[Point],
    across: &Across,
) -> Vec<Panel> {
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
    let shown = |point: &&Point| is_shown(figure, point);
    let mut titles: Vec<String> = Vec::new();
    for point in points.iter().filter(shown) {
        let title = title_of(point);
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let of_title = |title: &String| {
        let of_panel: Vec<&Point> = points
            .iter()
            .filter(shown)
            .filter(|point| title_of(point) == *title)
            .collect();
        Panel {
            title: title.clone(),
            series: series(experiment, figure, &of_panel, points, across),
        }
    };
    titles.iter().map(of_title).collect()
}

fn series(
    experiment: &Experiment,
    figure: &Figure,
    of_panel: &[&Point],
    points: &[Point],
    across: &Across,
) -> Vec<Series> {
    let metric = figure.y.unwrap_or(experiment.metric);
    let lines = figure.lines.as_deref().unwrap_or(POLICY);
    // What tells points apart is the panel, the x axis, or the line: whatever else varies is one.
    let name_of = |point: &Point| -> String {
        let line = point.get(lines).unwrap_or_default();
        let line = match lines {
            POLICY | WORKLOAD => line.to_string(),
            lines => format!("{lines} {line}"),
        };
        let rest = experiment.dimensions().into_iter().filter(|name| {
            let told = *name == figure.x || *name == lines;
            !told && !figure.panels.iter().any(|panel| panel == name)
        });
        let several = rest
            .filter(|name| distinct(of_panel.iter().filter_map(|point| point.get(name))).len() > 1);
        let rest = several.filter_map(|name| Some(format!(", {name} {}", point.get(name)?)));
        format!("{line}{}", rest.collect::<String>())
    };
    let by_base = lines == POLICY;
    let mut all: Vec<Series> = Vec::new();
    let mut bases: Vec<&str> = Vec::new();
    for point in of_panel {
        let (values, interval) = match across {
            Across::References => (course(point, metric), None),
            _ => match value(figure, point, points, metric, across) {
                Some((x, y)) => (vec![(x, y.mean)], interval(x, y)),
                None => continue,
            },
        };
        if values.is_empty() {
            continue;
        }
        let name = name_of(point);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => {
                series.values.extend(values);
                series.intervals.extend(interval);
            }
            None => {
                let base = match by_base {
                    true => base(point, of_panel, name_of),
                    false => "",
                };
                let variant = bases.iter().filter(|known| **known == base).count();
                let style = style::of_policy(base).unwrap_or_else(|| style::of_index(all.len()));
                all.push(Series {
                    name,
                    style,
                    variant: if base.is_empty() { 0 } else { variant },
                    values,
                    intervals: interval.into_iter().collect(),
                });
                bases.push(base);
            }
        }
    }
    all
}

/// The policy by whose colour a line is known: none of a line of several policies, nor where one has
/// more lines than dashes tell apart.
fn base<'a>(point: &'a Point, of_panel: &[&Point], name_of: impl Fn(&Point) -> String) -> &'a str {
    fn of(point: &Point) -> &str {
        point.spec.split(':').next().unwrap_or_default()
    }
    let base = of(point);
    let mut same = of_panel.iter().filter(|other| other.policy == point.policy);
    let lines = of_panel.iter().filter(|other| of(other) == base);
    let names: Vec<String> = lines.map(|other| name_of(other)).collect();
    let lines = distinct(names.iter().map(String::as_str)).len();
    match same.all(|other| of(other) == base) && lines <= MOST_VARIANTS {
        true => base,
        false => "",
    }
}

/// What a point adds to its line.
fn value(
    figure: &Figure,
    point: &Point,
    points: &[Point],
    metric: Metric,
    across: &Across,
) -> Option<(f64, Estimate)> {
    let there = |policy: &String| {
        let mut of_policy = points.iter().filter(|other| other.policy == *policy);
        of_policy.find(|other| other.place == point.place)
    };
    let samples = match (&figure.improvement_of, &figure.ratio_to) {
        (Some(policy), _) => there(policy)?.compared(point, metric, |value, other| {
            metric.improvement(value, other)
        }),
        (None, Some(policy)) => point.compared(there(policy)?, metric, times_worse(metric)),
        (None, None) => point.samples(metric),
    };
    let x = across.place(point.get(&figure.x)?)?;
    Some((x, Estimate::of(&samples?)?))
}

fn interval(x: f64, y: Estimate) -> Option<(f64, f64, f64)> {
    let half = y.half_width?;
    Some((x, y.mean - half, y.mean + half))
}

/// The metric over the trace.
fn course(point: &Point, metric: Metric) -> Vec<(f64, f64)> {
    let frames = point.frames.unwrap_or(1) as f64;
    let paid = |moment: &Moment| {
        let plain = moment.reads as f64 + point.asymmetry * moment.writes as f64;
        moment.bill.map_or(plain, |bill| bill / point.read_cost)
    };
    match metric {
        Metric::Clean | Metric::CleanShare | Metric::TargetShare => {
            let of = |moment: &Moment| match metric {
                Metric::Clean => Some(moment.clean as f64),
                Metric::CleanShare => Some(moment.clean as f64 / frames),
                _ => moment.target.map(|target| target as f64 / frames),
            };
            let all = point.moments.iter();
            all.filter_map(|moment| Some((moment.references as f64, of(moment)?)))
                .collect()
        }
        _ => point
            .moments
            .windows(2)
            .map(|pair| {
                let [before, after] = [&pair[0], &pair[1]];
                let references = (after.references - before.references).max(1) as f64;
                (
                    after.references as f64,
                    (paid(after) - paid(before)) / references,
                )
            })
            .collect(),
    }
}

/// An axis with its ticks where we want them.
struct Axis<'a> {
    range: Range<f64>,
    log: bool,
    ticks: Vec<f64>,
    label: Box<dyn Fn(f64) -> String + 'a>,
}

impl Axis<'_> {
    fn share(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        match self.log {
            true => (value.max(start) / start).ln() / (end / start).ln(),
            false => (value - start) / (end - start),
        }
    }
}

impl Ranged for Axis<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        pixels.0 + (f64::from(pixels.1 - pixels.0) * self.share(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis<'_> {
    fn format_ext(&self, value: &f64) -> String {
        (self.label)(*value)
    }
}

/// The least and the greatest; 0 to 1 of nothing.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    );
    match least <= most {
        true => (least, most),
        false => (0.0, 1.0),
    }
}

/// Multiples of 1, 2 or 5 times a power of ten, some six of them.
fn linear_ticks(from: f64, to: f64) -> Vec<f64> {
    let rough = (to - from) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = step
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

/// 1, 2 and 5 times powers of ten, or powers alone where these are many.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let powers = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
    let digits: &[f64] = match powers.clone().count() {
        0..=4 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    powers
        .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
        .filter(|tick| (from * 0.999..=to * 1.001).contains(tick))
        .collect()
}

fn x_axis<'a>(figure: &Figure, panel: &Panel, across: &'a Across) -> Axis<'a> {
    let label = Box::new(|at| across.label(at));
    let (range, log, ticks) = match across {
        Across::Numbers(all) => {
            let (least, most) = extent(all.iter().map(|(number, _)| *number));
            let log = figure.x_scale == AxisScale::Log && least > 0.0;
            let room = match (log, most > least) {
                (_, false) => (least - 0.5)..(most + 0.5),
                (true, _) => (least / 1.15)..(most * 1.15),
                (false, _) => (least - 0.04 * (most - least))..(most + 0.04 * (most - least)),
            };
            let mut ticks: Vec<f64> = all.iter().map(|(number, _)| *number).collect();
            if ticks.len() > 9 {
                ticks = match log {
                    true => log_ticks(least, most),
                    false => linear_ticks(least, most),
                };
            }
            (room, log && most > least, ticks)
        }
        Across::Texts { all, .. } => (
            -0.6..(all.len() as f64 - 0.4),
            false,
            (0..all.len()).map(|at| at as f64).collect(),
        ),
        Across::References => {
            let values = panel.series.iter().flat_map(|series| &series.values);
            let (_, most) = extent(values.map(|(x, _)| *x));
            (0.0..most, false, linear_ticks(0.0, most))
        }
    };
    Axis {
        range,
        log,
        ticks,
        label,
    }
}

fn y_axis<'a>(figure: &Figure, panel: &Panel) -> Axis<'a> {
    let (least, most) = extent(panel.series.iter().flat_map(Series::heights));
    let log = figure.y_scale == AxisScale::Log && least > 0.0;
    let label = Box::new(|at: f64| match at.abs() {
        size if size >= 1e6 => format!("{} M", number(at / 1e6)),
        size if size >= 1e4 => format!("{} k", number(at / 1e3)),
        _ => number(at),
    });
    let range = match log {
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
    let ticks = match log {
        true => log_ticks(range.start, range.end),
        false => linear_ticks(range.start, range.end),
    };
    Axis {
        range,
        log,
        ticks,
        label,
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Bars that stand at the same place. Across policies each has a place of its own, and stands in its middle.
fn side_by_side(figure: &Figure, panel: &Panel) -> usize {
    match figure.x.as_str() {
        POLICY => 1,
        _ => panel.series.len(),
    }
}

/// What stands along the axes.
fn labels<'a>(
    experiment: &Experiment,
    figure: &'a Figure,
    across: &'a Across,
) -> (&'a str, String) {
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
    (x_label, y_label)
}

fn draw_panel<'a>(
    experiment: &Experiment,
    figure: &Figure,
    panel: &Panel,
    across: &Across,
    area: &Area<'a>,
) -> Drawn<'a> {
    let (x_label, y_label) = labels(experiment, figure, across);
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(10)
        .margin_right(16)
        .x_label_area_size(44)
        .y_label_area_size(64);
    if !panel.title.is_empty() {
        builder.caption(&panel.title, (FONT, 15));
    }
    let mut chart =
        builder.build_cartesian_2d(x_axis(figure, panel, across), y_axis(figure, panel))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(RGBColor(225, 225, 225))
        .light_line_style(TRANSPARENT)
        .axis_style(RGBColor(90, 90, 90))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .x_desc(x_label)
        .y_desc(y_label)
        .draw()?;
    let together = side_by_side(figure, panel);
    for (at, series) in panel.series.iter().enumerate() {
        let colour = series.style.colour;
        if figure.bars {
            let width = 0.8 / together as f64;
            let left = -0.4 + width * (at % together) as f64;
            chart.draw_series(series.values.iter().map(|&(x, y)| {
                let corners = [(x + left, 0.0), (x + left + width * 0.92, y)];
                Rectangle::new(corners, shade(series).filled())
            }))?;
            let middle = left + width * 0.46;
            chart.draw_series(series.intervals.iter().map(|&(x, from, to)| Interval {
                ends: [(x + middle, from), (x + middle, to)],
                colour: BLACK,
            }))?;
            continue;
        }
        let line = colour.stroke_width(2);
        match series.variant {
            0 => chart.draw_series(LineSeries::new(series.values.iter().copied(), line))?,
            variant => {
                let size = [9, 3, 14][(variant - 1) % 3];
                let points = series.values.iter().copied();
                chart.draw_series(DashedLineSeries::new(points, size, 4, line))?
            }
        };
        if let Across::References = across {
            continue;
        }
        chart.draw_series(series.intervals.iter().map(|&(x, from, to)| Interval {
            ends: [(x, from), (x, to)],
            colour,
        }))?;
        let style = series.style;
        let marks = series.values.iter().map(|&place| Marked { place, style });
        chart.draw_series(marks)?;
    }
    Ok(())
}

/// The colour of a bar: variants of a policy are paler.
fn shade(series: &Series) -> RGBAColor {
    series
        .style
        .colour
        .mix(1.0 / (1.0 + 0.8 * series.variant as f64))
}

/// A mark at a place.
struct Marked<C> {
    place: C,
    style: Style,
}

impl<'a, C: 'a> PointCollection<'a, C> for &'a Marked<C> {
    type Point = &'a C;
    type IntoIter = std::iter::Once<&'a C>;

    fn point_iter(self) -> Self::IntoIter {
        std::iter::once(&self.place)
    }
}

impl<C, DB: DrawingBackend> Drawable<DB> for Marked<C> {
    fn draw<I: Iterator<Item = (i32, i32)>>(
        &self,
        mut places: I,
        backend: &mut DB,
        _size: (u32, u32),
    ) -> Result<(), DrawingErrorKind<DB::ErrorType>> {
        let Some((x, y)) = places.next() else {
            return Ok(());
        };
        let full = self.style.colour.filled();
        let line = self.style.colour.stroke_width(2);
        let at = |dx: i32, dy: i32| (x + dx, y + dy);
        let size = MARK;
        match self.style.mark {
            Mark::Circle => backend.draw_circle((x, y), size as u32, &full, true),
            Mark::Square => backend.draw_rect(at(1 - size, 1 - size), at(size, size), &full, true),
            Mark::Triangle => backend.fill_polygon(
                [at(-size, size - 1), at(size, size - 1), at(0, -size)],
                &full,
            ),
            Mark::Down => backend.fill_polygon(
                [at(-size, 1 - size), at(size, 1 - size), at(0, size)],
                &full,
            ),
            Mark::Diamond => {
                let size = size + 1;
                backend.fill_polygon(
                    [at(0, -size), at(size, 0), at(0, size), at(-size, 0)],
                    &full,
                )
            }
            Mark::Cross => {
                backend.draw_line(at(-size, -size), at(size, size), &line)?;
                backend.draw_line(at(-size, size), at(size, -size), &line)
            }
            Mark::Plus => {
                backend.draw_line(at(-size, 0), at(size, 0), &line)?;
                backend.draw_line(at(0, -size), at(0, size), &line)
            }
        }
    }
}

/// A confidence interval.
struct Interval {
    ends: [(f64, f64); 2],
    colour: RGBColor,
}

impl<'a> PointCollection<'a, (f64, f64)> for &'a Interval {
    type Point = &'a (f64, f64);
    type IntoIter = std::slice::Iter<'a, (f64, f64)>;

    fn point_iter(self) -> Self::IntoIter {
        self.ends.iter()
    }
}

impl<DB: DrawingBackend> Drawable<DB> for Interval {
    fn draw<I: Iterator<Item = (i32, i32)>>(
        &self,
        mut places: I,
        backend: &mut DB,
        _size: (u32, u32),
    ) -> Result<(), DrawingErrorKind<DB::ErrorType>> {
        let (Some(from), Some(to)) = (places.next(), places.next()) else {
            return Ok(());
        };
        backend.draw_line(from, to, &self.colour)?;
        for (x, y) in [from, to] {
            backend.draw_line((x - CAP, y), (x + CAP, y), &self.colour)?;
        }
        Ok(())
    }
}

/// A line of the legend.
fn draw_key<'a>(series: &Series, bars: bool, place: (i32, i32), area: &Area<'a>) -> Drawn<'a> {
    let (x, y) = place;
    let colour = series.style.colour;
    if bars {
        area.draw(&Rectangle::new(
            [(x + 6, y - 5), (x + 20, y + 6)],
            shade(series).filled(),
        ))?;
    } else {
        let ends = vec![(x, y), (x + 26, y)];
        match series.variant {
            0 => area.draw(&PathElement::new(ends, colour.stroke_width(2)))?,
            variant => {
                let size = [9, 3, 14][(variant - 1) % 3];
                for start in (0..26).step_by(size + 4) {
                    let end = (start + size).min(26);
                    let dash = vec![(x + start as i32, y), (x + end as i32, y)];
                    area.draw(&PathElement::new(dash, colour.stroke_width(2)))?;
                }
            }
        }
        area.draw(&Marked {
            place: (x + 13, y),
            style: series.style,
        })?;
    }
    area.draw(&Text::new(series.name.clone(), (x + 34, y - 7), (FONT, 13)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(linear_ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(-3.0, 47.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(
            log_ticks(1.0, 100.0),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        );
        assert_eq!(log_ticks(1e-4, 1e3).len(), 8);
    }

    #[test]
    fn members_of_a_group_are_told_apart_by_their_ends() {
        assert_eq!(beginning(&["pool 1", "pool 16"]), "pool ");
        assert_eq!(beginning(&["pool 1", "looks 1"]), "");
        assert_eq!(beginning(&["pool 1"]), "");
        assert_eq!(beginning(&["lru", "arc"]), "");
    }

    #[test]
    fn axes_map_ends_to_ends() {
        let axis = |log| Axis {
            range: 1.0..100.0,
            log,
            ticks: Vec::new(),
            label: Box::new(|_| String::new()),
        };
        for log in [false, true] {
            assert_eq!(axis(log).map(&1.0, (10, 210)), 10);
            assert_eq!(axis(log).map(&100.0, (10, 210)), 210);
        }
        assert_eq!(axis(true).map(&10.0, (10, 210)), 110);
    }
}
