//! Charts: the one place for what they look like, in the report and in the pictures of experiments.
//!
//! Two programs draw. A picture of an experiment never changes: [`svg`] draws it here, from a [`Picture`], as a file
//! that opens alone, and [`in_page`] for a page, as wide as the page has room for. A chart of the report follows the
//! width of the window, the policies that the reader hides and the memory size that the reader chooses, so its axes
//! are not known until then: `chart.js` draws it in the page. Neither can do the work of the other: the pictures are
//! made where there is no browser, and the report would have to carry a picture for every choice.
//!
//! They share what makes a chart:
//!
//! | what | where | how the script gets it |
//! | --- | --- | --- |
//! | colour, dash and shape of every policy | [`LineStyle`] | in the page's data, a mark for each policy |
//! | the colours themselves, light and dark | `colours.rs` | as properties of the style sheet |
//! | font, distances, sizes of marks | `layout.rs` | in the page's data |
//! | scales, ticks and their texts | `axes.rs` | `axes.js` ports it; `axes.json` has cases that both must compute |
//!
//! Both draw the same things: a grid at round numbers, lines with dashes and marks, texts that leave each other room.
//! Only pictures have bars, intervals and a legend; the report's legend is a list of the page.

mod axes;
mod colours;
mod labels;
mod layout;
mod marks;
mod panel;
mod picture;
mod shapes;
mod svg;
mod text;

pub use colours::figure_colours;
pub(super) use colours::properties;
pub(super) use layout::{LAYOUT, Layout};
pub use marks::LineStyle;
pub(super) use marks::marks_of;
pub use picture::{Axis, DataPoint, DataSeries, Panel, Picture, PlotKind, Tick, Ticks};
pub use svg::{in_page, svg};

/// Draws the charts of a page whose axes change with the reader's choices.
pub(super) const SCRIPT: &str =
    concat!(include_str!("chart/axes.js"), include_str!("chart/marks.js"), include_str!("chart/chart.js"),);
