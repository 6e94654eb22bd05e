//! A panel of a picture: two axes, what stands along them, and lines or bars between them.

use std::fmt::Write;

use maud::{Markup, html};

use super::axes::{Scale, linear_ticks, log_ticks, short, tick_texts};
use super::colours::{GRID, QUIET, RULE, TEXT};
use super::labels::{Keys, LabelLine, Labels};
use super::layout::LAYOUT;
use super::picture::{Axis, DataPoint, DataSeries, Panel, PlotKind, Tick, Ticks};
use super::shapes::{Filling, at, coloured, shape, translate};
use super::text::{bold_width, fitted, width};

/// The size of a panel's title, and from one of its lines to the next.
const TITLE_FONT: u32 = 14;
const TITLE_LINE: f64 = 18.0;
const MOST_TITLE_LINES: usize = 4;

/// Lines of the name of an axis.
const MOST_LABEL_LINES: usize = 2;

/// The share of a place that its bars take, and the share of a bar's room that the bar takes.
const BARS: f64 = 0.8;
const BAR: f64 = 0.92;
/// Half of what ends a confidence interval.
const CAP: f64 = 3.0;

/// What panels of a picture have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct PanelFrame<'a> {
    pub(super) kind: PlotKind,
    pub(super) filling: Filling<'a>,
    /// The width of a panel.
    pub(super) width: f64,
    /// From the lower end of the y axis to the upper one.
    pub(super) height: f64,
    /// The room of the titles.
    pub(super) title: f64,
}

/// A panel with its measures.
pub(super) struct Drawing<'a> {
    panel: &'a Panel,
    kind: PlotKind,
    filling: Filling<'a>,
    title: Vec<String>,
    x_label: Vec<String>,
    y_label: Vec<String>,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    labels: Labels,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

/// The lines of a panel's title.
fn title_lines(panel: &Panel, panel_width: f64) -> Vec<String> {
    let ratio = bold_width("0", TITLE_FONT) / width("0", TITLE_FONT);
    let room = (panel_width - 2.0 * f64::from(LAYOUT.right)) / ratio;
    fitted(&panel.title, TITLE_FONT, room, MOST_TITLE_LINES)
}

/// The room of the title of a panel with that width.
pub(super) fn title_height(panel: &Panel, panel_width: f64) -> f64 {
    match title_lines(panel, panel_width).len() {
        0 => 0.0,
        lines => TITLE_LINE * lines as f64 + 6.0,
    }
}

impl<'a> Drawing<'a> {
    /// Divides a panel between the axes and what stands along them.
    pub(super) fn new(panel: &'a Panel, frame: &PanelFrame<'a>, keys: &mut Keys) -> Self {
        let (x, y) = (&panel.x, &panel.y);
        let PanelFrame { width, height, .. } = *frame;
        let right = width - f64::from(LAYOUT.right);
        let y_ticks = y_ticks(y, height);
        let y_label = fitted(&y.label, LAYOUT.font, height, MOST_LABEL_LINES);
        let left = label_height(&y_label) + ticks_width(&y_ticks);
        let (x_ticks, labels) = along(x, left, right, keys);
        let top = f64::from(LAYOUT.top) + frame.title;
        Drawing {
            panel,
            kind: frame.kind,
            filling: frame.filling,
            title: title_lines(panel, width),
            x_label: fitted(&x.label, LAYOUT.font, right - left, MOST_LABEL_LINES),
            y_label,
            x_ticks,
            y_ticks,
            labels,
            left,
            top,
            width: right - left,
            height,
            x: Scale::new((x.range.start, x.range.end), x.is_log, (left, right)),
            y: Scale::new((y.range.start, y.range.end), y.is_log, (top + height, top)),
        }
    }

    /// Where the x axis is.
    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The lower end of the panel.
    pub(super) fn end(&self) -> f64 {
        self.bottom() + self.labels.height + label_height(&self.x_label) + 14.0
    }

    pub(super) fn markup(&self) -> Markup {
        let series = self.panel.series.iter().enumerate();
        html! {
            (coloured(GRID, html! { path d=(self.grid()) stroke="currentColor" fill="none" {} }))
            (coloured(RULE, html! { path d=(self.rules()) stroke="currentColor" fill="none" {} }))
            @for (index, series) in series {
                g data-series=(series.name) { (self.series(index, series)) }
            }
            (coloured(QUIET, html! { g fill="currentColor" {
                g text-anchor="end" {
                    @for tick in &self.y_ticks {
                        text x=(at(self.left - 8.0)) y=(at(self.y.at(tick.at) + 4.0)) { (tick.text) }
                    }
                }
                (self.labels_below())
                (self.axis_labels())
            } }))
            (self.title_above())
        }
    }

    fn title_above(&self) -> Markup {
        let middle = self.left + self.width / 2.0;
        let half = self.title.iter().map(|line| bold_width(line, TITLE_FONT) / 2.0);
        let half = half.fold(0.0, f64::max);
        // A title in the middle of the axis, or of the panel if it is too wide for that.
        let most = self.left + self.width + f64::from(LAYOUT.right) - half;
        let middle = middle.min(most).max(half);
        let first = self.top - 12.0 - TITLE_LINE * (self.title.len().max(1) - 1) as f64;
        html! {
            @if !self.title.is_empty() {
                (coloured(TEXT, html! {
                    g fill="currentColor" text-anchor="middle" font-size=(TITLE_FONT) font-weight="600" {
                        @for (row, line) in self.title.iter().enumerate() {
                            text x=(at(middle)) y=(at(first + TITLE_LINE * row as f64)) { (line) }
                        }
                    }
                }))
            }
        }
    }

    fn axis_labels(&self) -> Markup {
        let line = f64::from(LAYOUT.line);
        let below = self.bottom() + self.labels.height + f64::from(LAYOUT.label) + 4.0;
        html! {
            g text-anchor="middle" {
                @for (row, text) in self.x_label.iter().enumerate() {
                    text x=(at(self.left + self.width / 2.0)) y=(at(below + line * row as f64)) { (text) }
                }
                @for (row, text) in self.y_label.iter().enumerate() {
                    @let place = (14.0 + line * row as f64, self.top + self.height / 2.0);
                    text transform={ (translate(place)) " rotate(-90)" } { (text) }
                }
            }
        }
    }

    /// Lines at the ticks; names have none.
    fn grid(&self) -> String {
        let mut path = String::new();
        for tick in &self.y_ticks {
            let _ = write!(path, "M{} {}h{}", at(self.left), at(self.y.at(tick.at)), at(self.width));
        }
        if !matches!(self.panel.x.ticks, Ticks::Names(_)) {
            for tick in &self.x_ticks {
                let _ = write!(path, "M{} {}v{}", at(self.x.at(tick.at)), at(self.top), self.height);
            }
        }
        path
    }

    /// The axes, and zero where values lie on both sides.
    fn rules(&self) -> String {
        let (left, right) = (at(self.left), at(self.left + self.width));
        let mut path = format!("M{left} {}V{}H{right}", at(self.top), at(self.bottom()));
        let heights = &self.panel.y.range;
        if heights.start < 0.0 && heights.end > 0.0 {
            let _ = write!(path, "M{left} {}H{right}", at(self.y.at(0.0)));
        }
        path
    }

    fn labels_below(&self) -> Markup {
        let line = f64::from(LAYOUT.line);
        let bottom = self.bottom();
        html! {
            g text-anchor=(if self.labels.turned { "end" } else { "middle" }) {
                @for LabelLine { x, row, text } in &self.labels.lines {
                    @if self.labels.turned {
                        // The middle of a line is 4 pixels above the one on which its letters stand.
                        text transform={ (translate((*x + 4.0, bottom + 6.0))) " rotate(-90)" } { (text) }
                    } @else {
                        text x=(at(*x)) y=(at(bottom + 5.0 + line * (row + 1) as f64)) { (text) }
                    }
                }
            }
        }
    }

    fn series(&self, index: usize, series: &DataSeries) -> Markup {
        let mark = series.mark;
        let drawn = match self.kind {
            PlotKind::Lines => self.line(index, series),
            kind => self.bars(index, series, kind),
        };
        coloured(mark.hue.colour(), drawn)
    }

    /// What a reader learns who points at a mark or a bar.
    fn title(&self, series: &DataSeries, point: &DataPoint) -> String {
        let x = match &self.panel.x.ticks {
            Ticks::Round(unit) => format!("{}{unit}", short(point.x)),
            Ticks::At(ticks) | Ticks::Names(ticks) => {
                let tick = ticks.iter().find(|tick| tick.at == point.x);
                tick.map_or_else(|| short(point.x), |tick| tick.text.clone())
            }
        };
        let half = point.interval.map(|(from, to)| format!(" ± {}", short((to - from) / 2.0)));
        format!("{}, {x}: {}{}", series.name, short(point.y), half.unwrap_or_default())
    }

    fn line(&self, index: usize, series: &DataSeries) -> Markup {
        let mark = series.mark;
        let place = |point: &DataPoint| (self.x.at(point.x), self.y.at(point.y));
        let mut path = String::new();
        let mut pen = 'M';
        for (x, y) in series.points.iter().map(place) {
            let _ = write!(path, "{pen}{} {}", at(x), at(y));
            pen = 'L';
        }
        let marked = LAYOUT.marked(index, series.points.len());
        let marked: Vec<&DataPoint> = marked.filter_map(|at| series.points.get(at)).collect();
        html! {
            path d=(path) fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"
                stroke-dasharray=[mark.dash()] {}
            @for point in &series.points { (self.interval(self.x.at(point.x), point)) }
            @for point in marked { (shape(mark, place(point), Some(&self.title(series, point)))) }
        }
    }

    fn bars(&self, index: usize, series: &DataSeries, kind: PlotKind) -> Markup {
        let beside = match kind {
            PlotKind::SingleBars => 1,
            _ => self.panel.series.len().max(1),
        };
        let room = BARS / beside as f64;
        let from = -BARS / 2.0 + room * (index % beside) as f64;
        let Axis { range, .. } = &self.panel.y;
        let floor = self.y.at(0f64.clamp(range.start, range.end));
        let bars = series.points.iter().map(|point| {
            let (left, right) = (self.x.at(point.x + from), self.x.at(point.x + from + room * BAR));
            (point, left, right, self.y.at(point.y))
        });
        html! {
            @for (point, left, right, end) in bars {
                rect x=(at(left)) y=(at(end.min(floor))) width=(at(right - left)) height=(at((end - floor).abs()))
                    fill=(self.filling.of(series.mark)) stroke="currentColor" stroke-width="0.8" {
                    title { (self.title(series, point)) }
                }
                @if point.interval.is_some() {
                    (coloured(TEXT, self.interval((left + right) / 2.0, point)))
                }
            }
        }
    }

    /// The confidence interval of a point.
    fn interval(&self, x: f64, point: &DataPoint) -> Markup {
        let ends = point.interval.map(|(from, to)| (at(self.y.at(from)), at(self.y.at(to))));
        let (left, right) = (at(x - CAP), at(x + CAP));
        html! {
            @if let Some((from, to)) = ends {
                path stroke="currentColor" fill="none" d={
                    "M" (at(x)) " " (from) "V" (to) "M" (left) " " (from) "H" (right) "M" (left) " " (to) "H" (right)
                } {}
            }
        }
    }
}

/// The room of an axis' name.
fn label_height(lines: &[String]) -> f64 {
    match lines.len() {
        0 => 0.0,
        lines => f64::from(LAYOUT.label) + f64::from(LAYOUT.line) * (lines - 1) as f64,
    }
}

/// The room of the y axis' numbers.
fn ticks_width(ticks: &[Tick]) -> f64 {
    let widths = ticks.iter().map(|tick| width(&tick.text, LAYOUT.font));
    widths.fold(16.0, f64::max).ceil() + 12.0
}

/// Round ticks, at most that many.
fn round_ticks(axis: &Axis, most: usize, unit: &str) -> Vec<Tick> {
    let (low, high) = (axis.range.start, axis.range.end);
    let (ticks, texts) = match axis.is_log {
        true => {
            let ticks = log_ticks(low, high, most);
            let texts = ticks.iter().map(|tick| short(*tick)).collect();
            (ticks, texts)
        }
        false => {
            let ticks = linear_ticks(low, high, most);
            let texts = tick_texts(&ticks);
            (ticks, texts)
        }
    };
    let with_unit = |(at, text): (f64, String)| Tick { at, text: format!("{text}{unit}") };
    ticks.into_iter().zip(texts).map(with_unit).collect()
}

fn y_ticks(axis: &Axis, height: f64) -> Vec<Tick> {
    match &axis.ticks {
        Ticks::Round(unit) => {
            let most = (height / f64::from(LAYOUT.tick_height)) as usize;
            round_ticks(axis, most.max(LAYOUT.few_ticks), unit)
        }
        Ticks::At(ticks) | Ticks::Names(ticks) => ticks.clone(),
    }
}

/// The ticks of an x axis from one position to another, and their texts.
fn along(axis: &Axis, left: f64, right: f64, keys: &mut Keys) -> (Vec<Tick>, Labels) {
    let (low, high) = (axis.range.start, axis.range.end);
    let scale = Scale::new((low, high), axis.is_log, (left, right));
    let edge = right + f64::from(LAYOUT.right);
    match &axis.ticks {
        Ticks::Names(ticks) => {
            let room = (right - left) / (high - low);
            (ticks.clone(), Labels::of_names(ticks, &scale, room, keys))
        }
        Ticks::At(ticks) => (ticks.clone(), Labels::of_numbers(ticks, &scale, edge)),
        Ticks::Round(unit) => {
            let most = ((right - left) / f64::from(LAYOUT.tick_width)) as usize;
            let ticks = round_ticks(axis, most.max(LAYOUT.few_ticks), unit);
            let labels = Labels::of_numbers(&ticks, &scale, edge);
            (ticks, labels)
        }
    }
}
