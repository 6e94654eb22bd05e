//! What a picture shows, without how it looks.

use std::ops::Range;

use super::marks::LineStyle;

/// A picture: panels side by side, and under them a legend of all lines.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its name, with letters, digits and hyphens only: no two pictures of a page share one.
    pub id: String,
    /// What the picture shows, for readers that cannot see it.
    pub title: String,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// What stands for a value.
    pub kind: PlotKind,
    /// Whether there is a legend.
    pub has_legend: bool,
}

/// What stands for the values of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotKind {
    /// A line, with marks at its points.
    Lines,
    /// A bar for each value; the bars of all series at one place stand side by side.
    Bars,
    /// A bar for each value, in the middle of its place: no two series share one.
    SingleBars,
}

/// DataSeries between two axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What stands above.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left side.
    pub y: Axis,
    /// The lines, or the bars of one colour.
    pub series: Vec<DataSeries>,
}

/// One axis of a chart: its label, range, and whether it is linear or logarithmic.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What the numbers along it are.
    pub label: String,
    /// Its ends.
    pub range: Range<f64>,
    /// Whether it is logarithmic.
    pub is_log: bool,
    /// What stands along it.
    pub ticks: Ticks,
}

/// What stands along an axis.
#[derive(Clone, Debug)]
pub enum Ticks {
    /// Round numbers, and what goes behind each.
    Round(&'static str),
    /// These values; where texts have no room some are left out.
    At(Vec<Tick>),
    /// Names, all of which must be there: in several lines or slanted where they have no room.
    Names(Vec<Tick>),
}

/// A tick of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Its value.
    pub at: f64,
    /// What stands at it.
    pub text: String,
}

/// A line, or the bars of one colour.
#[derive(Clone, Debug)]
pub struct DataSeries {
    /// What the legend calls it.
    pub name: String,
    /// How it looks.
    pub mark: LineStyle,
    /// Its points, from left to right.
    pub points: Vec<DataPoint>,
}

/// A value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataPoint {
    /// Along the x axis.
    pub x: f64,
    /// Along the y axis.
    pub y: f64,
    /// The ends of its confidence interval along the y axis.
    pub interval: Option<(f64, f64)>,
}

impl Picture {
    /// Each series of all panels once, by its name, in the order in which they come first.
    pub(super) fn legend(&self) -> Vec<&DataSeries> {
        let mut all: Vec<&DataSeries> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !all.iter().any(|other| other.name == series.name) {
                all.push(series);
            }
        }
        all
    }
}
