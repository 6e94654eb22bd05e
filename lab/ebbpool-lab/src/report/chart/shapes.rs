//! What pictures are drawn of: coordinates, colours, marks and the fillings of bars.

use maud::{Markup, html};

use super::colours::{Colour, PAPER};
use super::layout::LAYOUT;
use super::marks::LineStyle;

/// A coordinate, to a tenth of a pixel.
pub(super) fn at(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

pub(super) fn translate((x, y): (f64, f64)) -> String {
    format!("translate({} {})", at(x), at(y))
}

/// What `content` draws in the current colour gets that colour, the dark one where the reader prefers dark.
pub(super) fn coloured(colour: Colour, content: Markup) -> Markup {
    html! { g class=(colour.name) color=(colour.light) { (content) } }
}

/// The mark of a point, with a text for readers that point at it.
pub(super) fn shape(mark: LineStyle, place: (f64, f64), title: Option<&str>) -> Markup {
    let size = f64::from(LAYOUT.mark);
    let transform = format!("{} scale({size})", translate(place));
    let fill = if mark.hollow { PAPER.light } else { "currentColor" };
    html! {
        path d=(mark.outline()) transform=(transform) fill=(fill) class=[mark.hollow.then_some("hollow")]
            stroke="currentColor" stroke-width=(1.5 / size) {
            @if let Some(title) = title { title { (title) } }
        }
    }
}

/// The filling of bars, whose patterns have names that begin with the picture's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling<'a> {
    pub(super) picture: &'a str,
}

impl Filling<'_> {
    /// The filling of a mark's bars.
    pub(super) fn of(self, mark: LineStyle) -> String {
        match mark.pattern() {
            0 => "currentColor".into(),
            _ => format!("url(#{})", self.pattern(mark)),
        }
    }

    /// The name of a mark's pattern.
    fn pattern(self, mark: LineStyle) -> String {
        format!("{}-{}-{}", self.picture, mark.hue.name(), mark.pattern())
    }

    /// The patterns of the marks that have dashes: such bars differ without colour, too.
    pub(super) fn patterns(self, marks: impl Iterator<Item = LineStyle>) -> Markup {
        let mut all: Vec<LineStyle> = Vec::new();
        for mark in marks.filter(|mark| mark.pattern() > 0) {
            if all.iter().all(|other| self.of(*other) != self.of(mark)) {
                all.push(mark);
            }
        }
        html! {
            @for mark in all {
                @let (turn, stripe, ground) = [(0, 0, 1.0), (45, 3, 0.2), (0, 0, 0.4), (-45, 2, 0.0)][mark.pattern()];
                pattern id=(self.pattern(mark)) class=(mark.hue.name()) color=(mark.hue.colour().light) width="6"
                    height="6" patternUnits="userSpaceOnUse" patternTransform={ "rotate(" (turn) ")" } {
                    rect width="6" height="6" fill="currentColor" opacity=(ground) {}
                    rect width=(stripe) height="6" fill="currentColor" {}
                }
            }
        }
    }
}
