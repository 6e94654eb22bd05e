//! Sizes and distances in charts.

use serde::Serialize;

/// Sizes and distances in charts, in pixels.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Layout {
    /// The size of texts.
    pub font: u32,
    /// From one line of text to the next.
    pub line: u32,
    /// What the name of an axis takes.
    pub label: u32,
    /// Above what is drawn.
    pub top: u32,
    /// To the right of what is drawn.
    pub right: u32,
    /// The least distance of ticks along the x axis.
    pub tick_width: u32,
    /// The least distance of ticks along the y axis.
    pub tick_height: u32,
    /// The least number of ticks of a short axis.
    pub few_ticks: usize,
    /// Half the size of a mark.
    pub mark: u32,
    /// Points of a line that has a mark at each.
    pub marked_points: usize,
    /// Marks of a longer line.
    pub marks: usize,
    /// By how many points a line's first mark is after that of the line before.
    pub stagger: usize,
}

/// The layout of all charts.
pub(in crate::report) const LAYOUT: Layout = Layout {
    font: 12,
    line: 14,
    label: 20,
    top: 10,
    right: 16,
    tick_width: 64,
    tick_height: 38,
    few_ticks: 4,
    mark: 4,
    marked_points: 30,
    marks: 7,
    stagger: 3,
};

impl Layout {
    /// Which points of a line have a mark: `line` is its index among the lines.
    pub(super) fn marked(&self, line: usize, points: usize) -> impl Iterator<Item = usize> {
        let step = match points > self.marked_points {
            true => points.div_ceil(self.marks),
            false => 1,
        };
        (self.stagger * line % step..points).step_by(step)
    }
}
