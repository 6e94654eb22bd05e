//! Draws a picture as a file that opens alone: in a browser, light or dark, and in any program that shows SVG.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::axes::{Scale, linear_ticks, log_ticks, short, tick_texts};
use super::colours::{self, Colour, GRID, PAPER, QUIET, RULE, TEXT};
use super::layout::LAYOUT;
use super::marks::Mark;
use super::picture::{Axis, DataPoint, DataSeries, Panel, Picture, PlotKind, Tick, Ticks};
use super::text::{shortened, width, wrapped};

/// The width of a panel by the number of columns.
const PANEL_WIDTHS: [f64; 3] = [600.0, 470.0, 400.0];
/// From the lower end of the y axis to the upper one.
const HEIGHT: f64 = 250.0;
const TITLE: f64 = 24.0;
/// From a panel to the next one on the right, and from the last one to the edge of the picture.
const MARGIN: f64 = 8.0;

/// Between the texts of two ticks.
const GAP: f64 = 8.0;
/// Lines of a name below an axis; a name that needs more is slanted.
const MOST_LINES: usize = 3;
/// The greatest width of a slanted name's line.
const SLANTED: f64 = 200.0;
/// Of slanted names, in degrees.
const SLOPE: f64 = 35.0;

/// The share of a place that its bars take, and the share of a bar's room that the bar takes.
const BARS: f64 = 0.8;
const BAR: f64 = 0.92;
/// Half of what ends a confidence interval.
const CAP: f64 = 3.0;

const LEGEND_ROW: f64 = 20.0;
const SWATCH: f64 = 36.0;

/// A picture as an SVG file.
pub fn svg(picture: &Picture) -> String {
    let columns = match picture.panels.len() {
        4 => 2,
        panels => panels.clamp(1, PANEL_WIDTHS.len()),
    };
    let rows = picture.panels.len().div_ceil(columns);
    let panel_width = PANEL_WIDTHS[columns - 1];
    let width = panel_width * columns as f64 + MARGIN;
    let has_titles = picture.panels.iter().any(|panel| !panel.title.is_empty());
    let top = f64::from(LAYOUT.top) + if has_titles { TITLE } else { 0.0 };
    let panels = picture.panels.iter();
    let panels = panels.map(|panel| Drawing::new(panel, picture.kind, panel_width, top));
    let panels: Vec<Drawing> = panels.collect();
    let panel_height = panels.iter().map(Drawing::bottom).fold(0.0, f64::max);
    let (legend, legend_height) = legend(picture, width);
    let legend_top = panel_height * rows as f64;
    let height = (legend_top + legend_height).ceil();
    let places = (0..panels.len()).map(|at| {
        let (row, column) = (at / columns, at % columns);
        (panel_width * column as f64, panel_height * row as f64)
    });
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
            viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(picture.title)
            font-family="system-ui, sans-serif" font-size=(LAYOUT.font) {
            style { (PreEscaped(colours::dark_classes())) }
            (patterns(picture))
            (coloured(PAPER, html! { rect width=(width) height=(height) fill="currentColor" {} }))
            @for (place, panel) in places.zip(&panels) { g transform=(translate(place)) { (panel.markup()) } }
            g transform=(translate((0.0, legend_top))) { (legend) }
        }
    }
    .into_string()
}

/// What `content` draws in the current colour gets that colour, the dark one where the reader prefers dark.
fn coloured(colour: Colour, content: Markup) -> Markup {
    html! { g class=(colour.name) color=(colour.light) { (content) } }
}

/// A coordinate, to a tenth of a pixel.
fn at(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn translate((x, y): (f64, f64)) -> String {
    format!("translate({} {})", at(x), at(y))
}

/// What bars are filled with whose marks have dashes: such bars differ without colour, too.
fn patterns(picture: &Picture) -> Markup {
    let mut marks: Vec<Mark> = Vec::new();
    if picture.kind != PlotKind::Lines {
        for DataSeries { mark, .. } in picture.legend() {
            let is_new = !marks.iter().any(|other| pattern(*other) == pattern(*mark));
            if mark.pattern() > 0 && is_new {
                marks.push(*mark);
            }
        }
    }
    html! {
        @for mark in marks {
            @let (turn, stripe, ground) = [(0, 0, 1.0), (45, 3, 0.2), (0, 0, 0.4), (-45, 2, 0.0)][mark.pattern()];
            pattern id=(pattern(mark)) class=(mark.hue.name()) color=(mark.hue.colour().light) width="6" height="6"
                patternUnits="userSpaceOnUse" patternTransform={ "rotate(" (turn) ")" } {
                rect width="6" height="6" fill="currentColor" opacity=(ground) {}
                rect width=(stripe) height="6" fill="currentColor" {}
            }
        }
    }
}

/// The name of a bar's pattern.
fn pattern(mark: Mark) -> String {
    format!("{}-{}", mark.hue.name(), mark.pattern())
}

fn fill(mark: Mark) -> String {
    match mark.pattern() {
        0 => "currentColor".into(),
        _ => format!("url(#{})", pattern(mark)),
    }
}

/// The legend, and its height.
fn legend(picture: &Picture, picture_width: f64) -> (Markup, f64) {
    let all = match picture.has_legend {
        true => picture.legend(),
        false => Vec::new(),
    };
    let text_width = |series: &&DataSeries| width(&series.name, LAYOUT.font + 1);
    let widest = all.iter().map(text_width).fold(0.0, f64::max);
    let column = SWATCH + 8.0 + widest + 20.0;
    let left = 20.0;
    let columns = (((picture_width - left) / column) as usize).max(1);
    let height = match all.len() {
        0 => MARGIN,
        entries => LEGEND_ROW * entries.div_ceil(columns) as f64 + 14.0,
    };
    let entries = all.into_iter().enumerate().map(|(index, series)| {
        let (row, place) = (index / columns, index % columns);
        let place = (left + column * place as f64, LEGEND_ROW * row as f64 + 4.0);
        (
            place,
            swatch(series.mark, picture.kind),
            series.name.as_str(),
        )
    });
    let markup = html! {
        @for (place, swatch, name) in entries {
            g transform=(translate(place)) {
                (swatch)
                (coloured(TEXT, html! {
                    text x=(SWATCH + 8.0) y="11.5" fill="currentColor" font-size=(LAYOUT.font + 1) { (name) }
                }))
            }
        }
    };
    (markup, height)
}

fn swatch(mark: Mark, kind: PlotKind) -> Markup {
    let drawn = match kind {
        PlotKind::Lines => html! {
            path d={ "M1 7H" (SWATCH - 1.0) } stroke="currentColor" stroke-width="2" stroke-dasharray=[mark.dash()] {}
            (shape(mark, (SWATCH / 2.0, 7.0), None))
        },
        _ => html! {
            rect x=(SWATCH - 16.5) y="0.5" width="16" height="13" fill=(fill(mark)) stroke="currentColor" {}
        },
    };
    coloured(mark.hue.colour(), drawn)
}

/// The mark of a point, with a text for readers that point at it.
fn shape(mark: Mark, place: (f64, f64), title: Option<&str>) -> Markup {
    let size = f64::from(LAYOUT.mark);
    let transform = format!("{} scale({size})", translate(place));
    let fill = if mark.hollow {
        PAPER.light
    } else {
        "currentColor"
    };
    html! {
        path d=(mark.outline()) transform=(transform) fill=(fill) class=[mark.hollow.then_some("hollow")]
            stroke="currentColor" stroke-width=(1.5 / size) {
            @if let Some(title) = title { title { (title) } }
        }
    }
}

/// The texts along the x axis.
struct Names {
    texts: Vec<NameLine>,
    is_slanted: bool,
    height: f64,
}

/// A line of a name.
struct NameLine {
    /// Its middle, or its end if it is slanted.
    x: f64,
    row: usize,
    text: String,
}

/// A panel with its measures.
struct Drawing<'a> {
    panel: &'a Panel,
    kind: PlotKind,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    names: Names,
    left: f64,
    top: f64,
    width: f64,
    x: Scale,
    y: Scale,
}

impl<'a> Drawing<'a> {
    /// Divides a panel of that width between the axes and what stands along them.
    fn new(panel: &'a Panel, kind: PlotKind, width: f64, top: f64) -> Self {
        let (x, y) = (&panel.x, &panel.y);
        let right = width - f64::from(LAYOUT.right);
        let y_ticks = y_ticks(y);
        let mut left = left_of(y, &y_ticks);
        let (mut x_ticks, mut names) = along(x, left, right);
        if names.is_slanted && names.begin() < MARGIN {
            left += MARGIN - names.begin();
            (x_ticks, names) = along(x, left, right);
        }
        Drawing {
            panel,
            kind,
            x_ticks,
            y_ticks,
            names,
            left,
            top,
            width: right - left,
            x: Scale::new((x.range.start, x.range.end), x.is_log, (left, right)),
            y: Scale::new((y.range.start, y.range.end), y.is_log, (top + HEIGHT, top)),
        }
    }

    /// The lower end of the panel.
    fn bottom(&self) -> f64 {
        self.top + HEIGHT + self.names.height + label_height(&self.panel.x) + 12.0
    }

    fn markup(&self) -> Markup {
        let bottom = self.top + HEIGHT;
        let middle = self.left + self.width / 2.0;
        let series = self.panel.series.iter().enumerate();
        html! {
            (coloured(GRID, html! { path d=(self.grid()) stroke="currentColor" fill="none" {} }))
            (coloured(RULE, html! { path d=(self.rules()) stroke="currentColor" fill="none" {} }))
            @for (index, series) in series { (self.series(index, series)) }
            (coloured(QUIET, html! { g fill="currentColor" {
                g text-anchor="end" {
                    @for tick in &self.y_ticks {
                        text x=(at(self.left - 8.0)) y=(at(self.y.at(tick.at) + 4.0)) { (tick.text) }
                    }
                }
                (self.names_below(bottom))
                g text-anchor="middle" {
                    text x=(at(middle)) y=(at(bottom + self.names.height + f64::from(LAYOUT.label) + 2.0)) {
                        (self.panel.x.label)
                    }
                    text transform={ "translate(14 " (at(self.top + HEIGHT / 2.0)) ") rotate(-90)" }
                        font-size=[smaller(&self.panel.y.label)] { (self.panel.y.label) }
                }
            } }))
            @if !self.panel.title.is_empty() {
                (coloured(TEXT, html! {
                    text x=(at(middle)) y=(self.top - 12.0) fill="currentColor" text-anchor="middle" font-size="14"
                        font-weight="600" { (self.panel.title) }
                }))
            }
        }
    }

    /// Lines at the ticks; names have none.
    fn grid(&self) -> String {
        let mut path = String::new();
        for tick in &self.y_ticks {
            let _ = write!(
                path,
                "M{} {}h{}",
                at(self.left),
                at(self.y.at(tick.at)),
                at(self.width)
            );
        }
        if !matches!(self.panel.x.ticks, Ticks::Names(_)) {
            for tick in &self.x_ticks {
                let _ = write!(
                    path,
                    "M{} {}v{}",
                    at(self.x.at(tick.at)),
                    at(self.top),
                    HEIGHT
                );
            }
        }
        path
    }

    /// The axes, and zero where values lie on both sides.
    fn rules(&self) -> String {
        let (left, right) = (at(self.left), at(self.left + self.width));
        let mut path = format!("M{left} {}V{}H{right}", at(self.top), at(self.top + HEIGHT));
        let heights = &self.panel.y.range;
        if heights.start < 0.0 && heights.end > 0.0 {
            let _ = write!(path, "M{left} {}H{right}", at(self.y.at(0.0)));
        }
        path
    }

    fn names_below(&self, bottom: f64) -> Markup {
        let line = f64::from(LAYOUT.line);
        html! {
            g text-anchor=(if self.names.is_slanted { "end" } else { "middle" }) {
                @for NameLine { x, row, text } in &self.names.texts {
                    @if self.names.is_slanted {
                        text transform={ (translate((*x, bottom + 13.0))) " rotate(-" (SLOPE) ")" } { (text) }
                    } @else {
                        text x=(at(*x)) y=(at(bottom + 4.0 + line * (row + 1) as f64)) { (text) }
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
        let half = point
            .interval
            .map(|(from, to)| format!(" ± {}", short((to - from) / 2.0)));
        format!(
            "{}, {x}: {}{}",
            series.name,
            short(point.y),
            half.unwrap_or_default()
        )
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
            let (left, right) = (
                self.x.at(point.x + from),
                self.x.at(point.x + from + room * BAR),
            );
            (point, left, right, self.y.at(point.y))
        });
        html! {
            @for (point, left, right, end) in bars {
                rect x=(at(left)) y=(at(end.min(floor))) width=(at(right - left)) height=(at((end - floor).abs()))
                    fill=(fill(series.mark)) stroke="currentColor" stroke-width="0.8" {
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
        let ends = point
            .interval
            .map(|(from, to)| (at(self.y.at(from)), at(self.y.at(to))));
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

impl Names {
    /// Names below each other, or nothing if they leave each other no room.
    fn straight(ticks: &[Tick], scale: &Scale, room: f64) -> Option<Names> {
        let mut texts = Vec::new();
        let mut rows = 1;
        for tick in ticks {
            let lines = wrapped(&tick.text, LAYOUT.font, room - GAP)?;
            if lines.len() > MOST_LINES {
                return None;
            }
            rows = rows.max(lines.len());
            let x = scale.at(tick.at);
            let lines = lines.into_iter().enumerate();
            texts.extend(lines.map(|(row, text)| NameLine { x, row, text }));
        }
        Some(Names {
            texts,
            is_slanted: false,
            height: f64::from(LAYOUT.line) * rows as f64,
        })
    }

    /// Slanted names, which end below their ticks; several lines of one stand beside each other.
    fn slanted(ticks: &[Tick], scale: &Scale, room: f64) -> Names {
        // Closer than lines elsewhere, so that names stay apart.
        let beside = f64::from(LAYOUT.font) / SLOPE.to_radians().sin();
        let most = ((room / beside) as usize).clamp(1, MOST_LINES);
        let mut texts = Vec::new();
        for tick in ticks {
            let lines = wrapped(&tick.text, LAYOUT.font, SLANTED);
            let mut lines = lines.unwrap_or_else(|| vec![tick.text.clone()]);
            if lines.len() > most {
                let rest = lines.split_off(most - 1).join(" ");
                lines.push(rest);
            }
            let first = scale.at(tick.at) + 4.0 - beside * (lines.len() - 1) as f64 / 2.0;
            let lines = lines.into_iter().enumerate();
            texts.extend(lines.map(|(index, text)| NameLine {
                x: first + beside * index as f64,
                row: 0,
                text: shortened(&text, LAYOUT.font, SLANTED),
            }));
        }
        let widths = texts.iter().map(|line| width(&line.text, LAYOUT.font));
        let height = widths.fold(0.0, f64::max) * SLOPE.to_radians().sin() + f64::from(LAYOUT.line);
        Names {
            texts,
            is_slanted: true,
            height,
        }
    }

    /// The texts of ticks without those for which the ones before leave no room.
    fn that_fit(ticks: &[Tick], scale: &Scale, edge: f64) -> Names {
        let mut free = 0.0;
        let mut texts = Vec::new();
        for tick in ticks {
            let half = width(&tick.text, LAYOUT.font) / 2.0;
            let x = scale.at(tick.at).min(edge - half);
            if x - half >= free {
                free = x + half + GAP;
                let text = tick.text.clone();
                texts.push(NameLine { x, row: 0, text });
            }
        }
        Names {
            texts,
            is_slanted: false,
            height: f64::from(LAYOUT.line),
        }
    }

    /// Where the leftmost of slanted names begins.
    fn begin(&self) -> f64 {
        let begin =
            |line: &NameLine| line.x - width(&line.text, LAYOUT.font) * SLOPE.to_radians().cos();
        self.texts.iter().map(begin).fold(f64::INFINITY, f64::min)
    }
}

/// The size of a y axis' label that would be longer than the axis.
fn smaller(label: &str) -> Option<f64> {
    let share = HEIGHT / width(label, LAYOUT.font);
    (share < 1.0).then(|| at(f64::from(LAYOUT.font) * share.max(0.6)))
}

fn label_height(axis: &Axis) -> f64 {
    match axis.label.is_empty() {
        true => 0.0,
        false => f64::from(LAYOUT.label),
    }
}

/// Where the axis at the left is.
fn left_of(axis: &Axis, ticks: &[Tick]) -> f64 {
    let widths = ticks.iter().map(|tick| width(&tick.text, LAYOUT.font));
    label_height(axis) + widths.fold(16.0, f64::max).ceil() + 12.0
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
    let with_unit = |(at, text): (f64, String)| Tick {
        at,
        text: format!("{text}{unit}"),
    };
    ticks.into_iter().zip(texts).map(with_unit).collect()
}

fn y_ticks(axis: &Axis) -> Vec<Tick> {
    match &axis.ticks {
        Ticks::Round(unit) => {
            let most = (HEIGHT / f64::from(LAYOUT.tick_height)) as usize;
            round_ticks(axis, most.max(LAYOUT.few_ticks), unit)
        }
        Ticks::At(ticks) | Ticks::Names(ticks) => ticks.clone(),
    }
}

/// The ticks of an x axis from one position to another, and their texts.
fn along(axis: &Axis, left: f64, right: f64) -> (Vec<Tick>, Names) {
    let (low, high) = (axis.range.start, axis.range.end);
    let scale = Scale::new((low, high), axis.is_log, (left, right));
    let edge = right + f64::from(LAYOUT.right);
    match &axis.ticks {
        Ticks::Names(ticks) => {
            let room = (right - left) / (high - low);
            let straight = Names::straight(ticks, &scale, room);
            let names = straight.unwrap_or_else(|| Names::slanted(ticks, &scale, room));
            (ticks.clone(), names)
        }
        Ticks::At(ticks) => (ticks.clone(), Names::that_fit(ticks, &scale, edge)),
        Ticks::Round(unit) => {
            let most = ((right - left) / f64::from(LAYOUT.tick_width)) as usize;
            let ticks = round_ticks(axis, most.max(LAYOUT.few_ticks), unit);
            let names = Names::that_fit(&ticks, &scale, edge);
            (ticks, names)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(range: std::ops::Range<f64>, ticks: Ticks) -> Axis {
        Axis {
            label: "a < b".into(),
            range,
            is_log: false,
            ticks,
        }
    }

    fn names(all: &[&str]) -> Ticks {
        let tick = |(at, text): (usize, &&str)| Tick {
            at: at as f64,
            text: text.to_string(),
        };
        Ticks::Names(all.iter().enumerate().map(tick).collect())
    }

    fn picture(kind: PlotKind, ticks: Ticks) -> Picture {
        let point = |x: usize| DataPoint {
            x: x as f64,
            y: 2.0 * x as f64,
            interval: Some((2.0 * x as f64 - 0.5, 2.0 * x as f64 + 0.5)),
        };
        let series = |name: &str| DataSeries {
            name: name.into(),
            mark: Mark::of_policy(name).expect("a policy"),
            points: (0..3).map(point).collect(),
        };
        let panel = Panel {
            title: "Panel <1>".into(),
            x: axis(-0.6..2.6, ticks),
            y: axis(-1.0..5.0, Ticks::Round("")),
            series: vec![series("lru"), series("cflru-c")],
        };
        Picture {
            title: "A \"figure\"".into(),
            panels: vec![panel],
            kind,
            has_legend: true,
        }
    }

    #[test]
    fn every_value_is_drawn_with_its_numbers() {
        for (kind, element) in [
            (PlotKind::Lines, "<path d=\"M"),
            (PlotKind::Bars, "<rect x"),
        ] {
            let picture = svg(&picture(kind, Ticks::Round("")));
            assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>"));
            assert_eq!(picture.matches("<title>").count(), 6, "{element}");
            assert!(picture.contains("<title>cflru-c, 2: 4 ± 0.5</title>"));
            assert!(
                picture.contains("Panel &lt;1&gt;") && picture.contains("A &quot;figure&quot;")
            );
            assert!(picture.contains(element) && !picture.contains("NaN"));
        }
    }

    #[test]
    fn bars_differ_without_colour() {
        let picture = svg(&picture(PlotKind::Bars, names(&["a", "b", "c"])));
        assert_eq!(picture.matches("<pattern ").count(), 1);
        assert!(picture.contains("url(#blue-1)"));
    }

    #[test]
    fn names_without_room_are_slanted() {
        let (_, straight) = along(
            &axis(-0.6..2.6, names(&["one", "two words", "three"])),
            60.0,
            300.0,
        );
        assert!(!straight.is_slanted);
        let long = ["no counts of pages evicted long ago", "one", "ages"];
        let (_, names) = along(&axis(-0.6..20.6, names(&long)), 60.0, 300.0);
        assert!(names.is_slanted && names.begin() < 0.0);
        assert!(names.height > straight.height);
    }

    #[test]
    fn texts_of_ticks_leave_each_other_room() {
        let ticks = (0..40).map(|at| Tick {
            at: f64::from(at),
            text: "1,000".into(),
        });
        let (ticks, names) = along(&axis(0.0..40.0, Ticks::At(ticks.collect())), 60.0, 400.0);
        assert_eq!(ticks.len(), 40);
        for pair in names.texts.windows(2) {
            assert!(pair[1].x - pair[0].x > width("1,000", LAYOUT.font));
        }
    }
}
