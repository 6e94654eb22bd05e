use super::super::picture::{Axis, DataPoint, Panel, Tick, Ticks};
use super::*;

fn axis(label: &str, range: std::ops::Range<f64>, ticks: Ticks) -> Axis {
    Axis { label: label.into(), range, is_log: false, ticks }
}

fn names(all: &[&str]) -> Ticks {
    let tick = |(at, text): (usize, &&str)| Tick { at: at as f64, text: text.to_string() };
    Ticks::Names(all.iter().enumerate().map(tick).collect())
}

fn series(name: &str, mark: LineStyle, points: usize) -> DataSeries {
    let point =
        |x: usize| DataPoint { x: x as f64, y: 2.0 * x as f64, interval: Some((2.0 * x as f64 - 0.5, 2.0 * x as f64 + 0.5)) };
    DataSeries { name: name.into(), mark, points: (0..points).map(point).collect() }
}

fn picture(kind: PlotKind, ticks: Ticks) -> Picture {
    let policy = |name: &str| series(name, LineStyle::for_policy(name).expect("a policy"), 3);
    let panel = Panel {
        title: "Panel <1>".into(),
        x: axis("a < b", -0.6..2.6, ticks),
        y: axis("a < b", -1.0..5.0, Ticks::Round("")),
        series: vec![policy("lru"), policy("cflru-c")],
    };
    Picture { id: "figure-1".into(), title: "A \"figure\"".into(), panels: vec![panel], kind, has_legend: true }
}

#[test]
fn every_value_is_drawn_with_its_numbers() {
    for (kind, element) in [(PlotKind::Lines, "<path d=\"M"), (PlotKind::Bars, "<rect x")] {
        let picture = svg(&picture(kind, Ticks::Round("")));
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>"));
        assert_eq!(picture.matches("<title>").count(), 6, "{element}");
        assert!(picture.contains("<title>cflru-c, 2: 4 ± 0.5</title>"));
        assert!(picture.contains("Panel &lt;1&gt;") && picture.contains("A &quot;figure&quot;"));
        assert!(picture.contains(element) && !picture.contains("NaN"));
    }
}

#[test]
fn series_and_their_entries_have_their_names() {
    let picture = picture(PlotKind::Lines, Ticks::Round(""));
    for markup in [svg(&picture), in_page(&picture, 372).into_string()] {
        assert!(markup.starts_with("<svg class=\"figure\""));
        assert_eq!(markup.matches("data-series=\"cflru-c\"").count(), 2);
    }
}

#[test]
fn bars_differ_without_colour_and_their_patterns_have_names_of_their_own() {
    let picture = picture(PlotKind::Bars, names(&["a", "b", "c"]));
    let file = svg(&picture);
    assert_eq!(file.matches("<pattern ").count(), 1);
    assert!(file.contains("url(#figure-1-blue-1)") && file.contains("<style>"));
    let in_page = in_page(&picture, 372).into_string();
    assert!(in_page.contains("id=\"figure-1-372-blue-1\""));
    assert!(in_page.contains("url(#figure-1-372-blue-1)") && !in_page.contains("<style>"));
}

/// The corners of a text's box, from left and top to right and bottom, and the text.
type TextBox = ([f64; 4], String);

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

fn number(tag: &str, name: &str) -> Option<f64> {
    attribute(tag, name)?.parse().ok()
}

/// What the groups around an element set.
#[derive(Clone, Copy)]
struct Group {
    place: (f64, f64),
    /// The share of a text that is before its place.
    anchor: f64,
    size: f64,
    /// How much wider a text is than a plain one.
    factor: f64,
}

impl Group {
    fn with(self, tag: &str) -> Self {
        let moved = attribute(tag, "transform").and_then(|it| it.strip_prefix("translate("));
        let moved = moved.and_then(|it| it.split(')').next()).unwrap_or("0 0");
        let (x, y) = moved.split_once(' ').expect("two coordinates");
        let coordinate = |text: &str| text.parse::<f64>().expect("a coordinate");
        let (left, top) = self.place;
        Group {
            place: (left + coordinate(x), top + coordinate(y)),
            anchor: match attribute(tag, "text-anchor") {
                Some("middle") => 0.5,
                Some("end") => 1.0,
                Some(_) => 0.0,
                None => self.anchor,
            },
            size: number(tag, "font-size").unwrap_or(self.size),
            factor: match attribute(tag, "font-weight") {
                Some(_) => 1.15,
                None => self.factor,
            },
        }
    }

    fn text_box(self, tag: &str, text: &str) -> TextBox {
        let own = self.with(tag);
        let length = own.factor * width(text, own.size as u32);
        let before = own.anchor * length;
        let x = own.place.0 + number(tag, "x").unwrap_or(0.0);
        let y = own.place.1 + number(tag, "y").unwrap_or(0.0);
        // Letters reach three quarters of the size above the line and a fifth below.
        let (above, below) = (0.75 * own.size, 0.2 * own.size);
        let corners = match tag.contains("rotate(-90)") {
            true => [x - above, y + before - length, x + below, y + before],
            false => [x - before, y - above, x - before + length, y + below],
        };
        (corners, text.into())
    }
}

/// The boxes of all texts of a picture.
fn text_boxes(svg: &str) -> Vec<TextBox> {
    let first = Group { place: (0.0, 0.0), anchor: 0.0, size: f64::from(LAYOUT.font), factor: 1.0 };
    let mut groups = vec![first];
    let mut all = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag");
        let group = *groups.last().expect("a group");
        match tag.split(' ').next() {
            Some("g") => groups.push(group.with(tag)),
            Some("/g") => drop(groups.pop()),
            Some("text") => all.push(group.text_box(tag, text)),
            _ => {}
        }
    }
    all
}

fn assert_texts_have_room(svg: &str) {
    let all = text_boxes(svg);
    let (width, height) = (number(svg, "width"), number(svg, "height"));
    let (width, height) = (width.expect("a width"), height.expect("a height"));
    for (at, (one, text)) in all.iter().enumerate() {
        let inside = one[0] >= 0.0 && one[1] >= 0.0 && one[2] <= width && one[3] <= height;
        assert!(inside, "{text:?} at {one:?} goes beyond {width} x {height}");
        for (other, its) in &all[..at] {
            let apart = one[0] >= other[2] || other[0] >= one[2] || one[1] >= other[3] || other[1] >= one[3];
            assert!(apart, "{text:?} at {one:?} lies over {its:?} at {other:?}");
        }
    }
}

/// Texts as experiments have them, short and long.
const TEXTS: [&str; 9] = [
    "TPC-C",
    "LRU-WSR",
    "two words",
    "flash:mlc-hp2014,blocks=4500,rho=0.94,ftl=fast,log_blocks=64,precondition=full",
    "no counts of pages evicted long ago",
    "Zipf 10 M / 1 M",
    "",
    "time of a page read in page writes, of the device and its translation layer (page writes)",
    "AnUnbrokenNameOfMoreThanFortyLettersWithoutASign",
];

/// Draws numbers, the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        // Knuth's linear congruential generator.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn text(&mut self) -> String {
        TEXTS[self.below(TEXTS.len())].into()
    }

    fn ticks(&mut self, count: usize, text: impl Fn(&mut Self, usize) -> String) -> Vec<Tick> {
        let tick = |at: usize| Tick { at: at as f64, text: text(self, at) };
        (0..count).map(tick).collect()
    }

    fn picture(&mut self) -> Picture {
        let places = 1 + self.below(15);
        let (kind, ticks) = match self.below(3) {
            0 => (PlotKind::Lines, Ticks::Round("%")),
            1 => {
                let ticks = self.ticks(places, |_, at| (at * 12_345).to_string());
                (PlotKind::Lines, Ticks::At(ticks))
            }
            _ => {
                let ticks = self.ticks(places, |draw, _| draw.text());
                (PlotKind::Bars, Ticks::Names(ticks))
            }
        };
        let highest = 10f64.powi(self.below(7) as i32);
        let marks = LineStyle::for_lines(&[None; 2]);
        let panel = Panel {
            title: self.text(),
            x: axis(&self.text(), -0.6..places as f64 - 0.4, ticks),
            y: axis(&self.text(), -1.0..highest, Ticks::Round("")),
            series: marks.iter().map(|mark| series(&self.text(), *mark, places)).collect(),
        };
        Picture { id: "random".into(), title: "random".into(), panels: vec![panel; 1 + self.below(6)], kind, has_legend: true }
    }
}

#[test]
fn no_text_of_a_picture_lies_over_another_or_goes_beyond_it() {
    let mut draw = Draw(7);
    for _ in 0..300 {
        let picture = draw.picture();
        assert_texts_have_room(&svg(&picture));
        for width in [372, 600, 760] {
            assert_texts_have_room(&in_page(&picture, width).into_string());
        }
    }
}
