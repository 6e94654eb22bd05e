//! Draws a picture, as a file that opens alone, light or dark and in any program that shows SVG, or for a page.

use maud::{Markup, PreEscaped, html};

use super::colours::{self, PAPER, TEXT};
use super::labels::Keys;
use super::layout::LAYOUT;
use super::marks::LineStyle;
use super::panel::{Drawing, PanelFrame, title_height};
use super::picture::{DataSeries, Picture, PlotKind};
use super::shapes::{Filling, coloured, shape, translate};
use super::text::{fitted, width};

/// The width of a file's panel by the number of columns.
const PANEL_WIDTHS: [f64; 3] = [600.0, 470.0, 400.0];
/// The least width of a panel beside others.
const LEAST_WIDTH: f64 = 360.0;
/// From the lower end of the y axis to the upper one.
const HEIGHT: f64 = 250.0;
/// From the lower end of the y axis to the upper one in a panel that is narrow.
const NARROW_HEIGHT: f64 = 220.0;
/// From a panel to the next one on the right, and from the last one to the edge of the picture.
const MARGIN: f64 = 8.0;

/// From the left edge to the legend, and between its columns.
const LEGEND_LEFT: f64 = 16.0;
const LEGEND_GAP: f64 = 20.0;
const LEGEND_LINE: f64 = 16.0;
const LEGEND_LINES: usize = 4;
const SWATCH: f64 = 36.0;
const BAR_SWATCH: f64 = 16.0;

/// How panels are arranged.
#[derive(Clone, Copy, Debug)]
struct Arrangement {
    columns: usize,
    panel_width: f64,
    height: f64,
}

impl Arrangement {
    /// In a file.
    fn of_file(panels: usize) -> Self {
        let columns = columns_of(panels, PANEL_WIDTHS.len());
        Arrangement { columns, panel_width: PANEL_WIDTHS[columns - 1], height: HEIGHT }
    }

    /// In that width.
    fn of_width(panels: usize, width: f64) -> Self {
        let columns = columns_of(panels, (width / LEAST_WIDTH) as usize);
        let panel_width = (width - MARGIN) / columns as f64;
        Arrangement {
            columns,
            panel_width,
            height: match panel_width > LEAST_WIDTH + 40.0 {
                true => HEIGHT,
                false => NARROW_HEIGHT,
            },
        }
    }
}

/// The number of columns of that many panels, at most `most`; four panels are a square.
fn columns_of(panels: usize, most: usize) -> usize {
    let columns = if panels == 4 { 2 } else { panels };
    columns.clamp(1, most.max(1))
}

/// A picture as an SVG file.
pub fn svg(picture: &Picture) -> String {
    let arrangement = Arrangement::of_file(picture.panels.len());
    let style = html! { style { (PreEscaped(colours::dark_classes())) } };
    let filling = Filling { picture: &picture.id };
    drawn(picture, &arrangement, filling, Some(&style)).into_string()
}

/// A picture of that width in pixels for a page with the rules of [`figure_colours`](super::figure_colours). A page
/// may have several of a picture if their widths differ.
pub fn in_page(picture: &Picture, width: u32) -> Markup {
    let arrangement = Arrangement::of_width(picture.panels.len(), width.into());
    let name = format!("{}-{width}", picture.id);
    drawn(picture, &arrangement, Filling { picture: &name }, None)
}

fn drawn(picture: &Picture, arrangement: &Arrangement, filling: Filling, style: Option<&Markup>) -> Markup {
    let Arrangement { columns, panel_width, height } = *arrangement;
    let titles = picture.panels.iter();
    let titles = titles.map(|panel| title_height(panel, panel_width));
    let frame = PanelFrame { kind: picture.kind, filling, width: panel_width, height, title: titles.fold(0.0, f64::max) };
    let mut keys = Keys::default();
    let panels = picture.panels.iter();
    let panels: Vec<Drawing> = panels.map(|panel| Drawing::new(panel, &frame, &mut keys)).collect();
    let rows = panels.len().div_ceil(columns);
    let panel_height = panels.iter().map(Drawing::end).fold(0.0, f64::max);
    let width = panel_width * columns as f64 + MARGIN;
    let below = Below::new(picture, &keys, filling, width);
    let below_top = panel_height * rows as f64;
    let height = (below_top + below.height).ceil();
    let places = (0..panels.len()).map(|at| {
        let (row, column) = (at / columns, at % columns);
        (panel_width * column as f64, panel_height * row as f64)
    });
    let marks = picture.legend().into_iter().map(|series| series.mark);
    // In a page the entries of the legend can be chosen, which the parts of an image cannot be.
    let role = if style.is_some() { "img" } else { "group" };
    html! {
        svg.figure xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
            viewBox={ "0 0 " (width) " " (height) } role=(role) aria-label=(picture.title)
            font-family="system-ui, sans-serif" font-size=(LAYOUT.font) {
            @if let Some(style) = style { (style) }
            @if picture.kind != PlotKind::Lines { (filling.patterns(marks)) }
            (coloured(PAPER, html! { rect width=(width) height=(height) fill="currentColor" {} }))
            @for (place, panel) in places.zip(&panels) { g transform=(translate(place)) { (panel.markup()) } }
            g transform=(translate((0.0, below_top))) { (below.markup) }
        }
    }
}

/// What stands below the panels: the names that letters stand for, and the legend.
struct Below {
    markup: Markup,
    height: f64,
}

/// An entry of the legend or of the letters.
struct LegendEntry<'a> {
    /// What stands at its left.
    sign: Markup,
    sign_width: f64,
    name: &'a str,
    /// Whether it is the entry of a series.
    is_series: bool,
}

impl Below {
    fn new(picture: &Picture, keys: &Keys, filling: Filling, width: f64) -> Self {
        let letters: Vec<(String, &str)> = keys.all().collect();
        let letters = letters.iter().map(|(letter, name)| LegendEntry {
            sign: coloured(
                TEXT,
                html! {
                    text x="0" y="11.5" fill="currentColor" font-size=(LAYOUT.font + 1) font-weight="600" { (letter) }
                },
            ),
            sign_width: 26.0,
            name,
            is_series: false,
        });
        let series = match picture.has_legend {
            true => picture.legend(),
            false => Vec::new(),
        };
        let series = series.into_iter().map(|series: &DataSeries| LegendEntry {
            sign: swatch(series.mark, picture.kind, filling),
            sign_width: match picture.kind {
                PlotKind::Lines => SWATCH + 8.0,
                PlotKind::Bars | PlotKind::SingleBars => BAR_SWATCH + 10.0,
            },
            name: &series.name,
            is_series: true,
        });
        let (letters, letters_height) = entries(letters.collect(), width);
        let (legend, legend_height) = entries(series.collect(), width);
        Below {
            markup: html! { (letters) g transform=(translate((0.0, letters_height))) { (legend) } },
            height: (letters_height + legend_height).max(MARGIN),
        }
    }
}

/// Entries in as many columns as there is room for, and their height.
fn entries(all: Vec<LegendEntry>, picture_width: f64) -> (Markup, f64) {
    let room = picture_width - LEGEND_LEFT - MARGIN;
    let lines_of = |entry: &LegendEntry| fitted(entry.name, LAYOUT.font + 1, room - entry.sign_width, LEGEND_LINES);
    let all: Vec<(Vec<String>, LegendEntry)> = all.into_iter().map(|entry| (lines_of(&entry), entry)).collect();
    let widths = all.iter().map(|(lines, entry)| {
        let widths = lines.iter().map(|line| width(line, LAYOUT.font + 1));
        entry.sign_width + widths.fold(0.0, f64::max)
    });
    let column = widths.fold(0.0, f64::max) + LEGEND_GAP;
    let columns = (((room + LEGEND_GAP) / column) as usize).max(1);
    let mut top = 4.0;
    let mut markup = Vec::new();
    for row in all.chunks(columns) {
        for (index, (lines, entry)) in row.iter().enumerate() {
            let place = (LEGEND_LEFT + column * index as f64, top);
            markup.push(entry.markup(place, lines));
        }
        let lines = row.iter().map(|(lines, _)| lines.len()).max().unwrap_or(1);
        top += LEGEND_LINE * lines.max(1) as f64 + 4.0;
    }
    let height = if all.is_empty() { 0.0 } else { top + 6.0 };
    (html! { @for entry in markup { (entry) } }, height)
}

impl LegendEntry<'_> {
    fn markup(&self, place: (f64, f64), lines: &[String]) -> Markup {
        let series = self.is_series.then_some(self.name);
        html! {
            g transform=(translate(place)) data-series=[series] {
                (self.sign)
                (coloured(TEXT, html! { g fill="currentColor" font-size=(LAYOUT.font + 1) {
                    @for (row, line) in lines.iter().enumerate() {
                        text x=(self.sign_width) y=(11.5 + LEGEND_LINE * row as f64) { (line) }
                    }
                } }))
            }
        }
    }
}

fn swatch(mark: LineStyle, kind: PlotKind, filling: Filling) -> Markup {
    let drawn = match kind {
        PlotKind::Lines => html! {
            path d={ "M1 7H" (SWATCH - 1.0) } stroke="currentColor" stroke-width="2" stroke-dasharray=[mark.dash()] {}
            (shape(mark, (SWATCH / 2.0, 7.0), None))
        },
        _ => html! {
            rect x="0.5" y="0.5" width=(BAR_SWATCH) height="13" fill=(filling.of(mark)) stroke="currentColor" {}
        },
    };
    coloured(mark.hue.colour(), drawn)
}

#[cfg(test)]
mod tests;
