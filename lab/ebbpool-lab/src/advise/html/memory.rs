//! The chart of the memory curve: the bills and the writes at each size, with marks for the present and the recommended memory.

use ebbpool_cost::ByteSize;
use maud::{Markup, PreEscaped, html};

use crate::advise::paragraphs::setting;
use crate::advise::{Advice, MemoryPoint, SystemLoad};
use crate::numbers::grouped;
use crate::report::chart::{Axis, DataPoint, DataSeries, LineStyle, Panel, Picture, PlotKind, Tick, Ticks, in_page};

/// Widths of the picture in pixels: on a wide screen, and on one that has room for no more than a panel.
const BROAD: u32 = 880;
const NARROW: u32 = 330;

/// For each size of the curve whether it is the present or the recommended one.
pub(super) fn marks(advice: &Advice) -> Vec<Option<&'static str>> {
    let mark = |point: &MemoryPoint| match point.frames {
        frames if frames == advice.now.frames && frames == advice.then.frames => Some("now and then"),
        frames if frames == advice.then.frames => Some("then"),
        frames if frames == advice.now.frames => Some("now"),
        _ => None,
    };
    advice.curve.iter().map(mark).collect()
}

/// The chart, for wide and for narrow screens, and its numbers as CSV.
pub(super) fn figure(advice: &Advice) -> Markup {
    let picture = picture(advice);
    html! {
        figure {
            div.broad { (in_page(&picture, BROAD)) }
            div.narrow { (in_page(&picture, NARROW)) }
            script type="text/csv" { (PreEscaped(csv(advice))) }
        }
    }
}

fn csv(advice: &Advice) -> String {
    let mut text = String::from("frames,policy,cost,cost_now,writes_per_reference,bytes_written_per_day\n");
    for point in &advice.curve {
        let bytes = point.bytes_written_per_day;
        let cells = [
            point.frames.to_string(),
            format!("\"{}\"", point.policy),
            point.cost.to_string(),
            point.cost_now.to_string(),
            point.writes_per_reference.to_string(),
            bytes.map_or_else(String::new, |bytes| bytes.to_string()),
        ];
        text += &(cells.join(",") + "\n");
    }
    // No name of a policy may end the element.
    text.replace('<', " ")
}

/// The unit of the writes, its name, and the writes of a size and of a system in it.
struct WriteUnit {
    label: String,
    factor: f64,
    in_bytes: bool,
}

impl WriteUnit {
    fn for_advice(advice: &Advice) -> Self {
        let bytes = advice.curve.iter().filter_map(|it| it.bytes_written_per_day);
        let bytes = bytes.chain(advice.now.bytes_written_per_day);
        match bytes.reduce(f64::max) {
            Some(most) => {
                let (factor, unit) = match most {
                    most if most >= 1e12 => (1e-12, "TB"),
                    most if most >= 1e9 => (1e-9, "GB"),
                    _ => (1e-6, "MB"),
                };
                WriteUnit { label: format!("{unit} written a day"), factor, in_bytes: true }
            }
            None => WriteUnit { label: "page writes per reference".into(), factor: 1.0, in_bytes: false },
        }
    }

    fn value(&self, bytes: Option<f64>, per_reference: f64) -> f64 {
        self.factor * if self.in_bytes { bytes.unwrap_or(0.0) } else { per_reference }
    }
}

/// What the lines of both panels have in common.
struct Lines<'a> {
    advice: &'a Advice,
    marks: Vec<LineStyle>,
}

/// A value at each of some memory sizes in frames.
type Values = Vec<(f64, f64)>;

impl<'a> Lines<'a> {
    fn new(advice: &'a Advice) -> Self {
        // The best policy changes with the size: its line has the colour of Ebbpool's own policy, and no dashes.
        let best = LineStyle::for_policy("ebb");
        let present = LineStyle::for_policy(advice.now.policy.as_str());
        Lines { advice, marks: LineStyle::for_lines(&[best, present, None, None]) }
    }

    fn series(&self, at: usize, name: String, values: Values) -> Option<DataSeries> {
        let points = values.into_iter().map(|(x, y)| DataPoint { x, y, interval: None });
        Some(DataSeries { name, mark: *self.marks.get(at)?, points: points.collect() })
    }

    /// The value at each size of the curve.
    fn along(&self, value: impl Fn(&MemoryPoint) -> f64) -> Values {
        let points = self.advice.curve.iter();
        points.map(|it| (it.frames as f64, value(it))).collect()
    }

    fn best(&self, value: impl Fn(&MemoryPoint) -> f64) -> Option<DataSeries> {
        // A server keeps its policy, so that the line is the other one.
        let values = Some(self.along(value)).filter(|_| !self.advice.keeps_policy)?;
        self.series(0, "the best policy of each size".into(), values)
    }

    fn present(&self, value: impl Fn(&MemoryPoint) -> f64) -> Option<DataSeries> {
        let name = match self.advice.uncached {
            true => "without a cache".to_string(),
            false => self.advice.now.policy.clone(),
        };
        self.series(1, name, self.along(value))
    }

    /// The marks of the present system, if it has a buffer, and of the recommended one.
    fn now_and_then(&self, now: f64, then: f64) -> [Option<DataSeries>; 2] {
        let named = |when: &str, load: &SystemLoad| {
            let size = load.bytes.map(|bytes| ByteSize::new(bytes).to_string());
            let size = size.unwrap_or_else(|| format!("{} frames", grouped(load.frames)));
            match self.advice.keeps_policy {
                true => format!("{when}: {} = {}", self.advice.server.size_setting(), setting(self.advice, load.frames)),
                false => format!("{when}: {}, {size}", load.policy),
            }
        };
        let mark = |at, when, load: &SystemLoad, value| {
            let values = Some(vec![(load.frames as f64, value)]);
            let values = values.filter(|_| load.frames > 0)?;
            self.series(at, named(when, load), values)
        };
        [mark(2, "now", &self.advice.now, now), mark(3, "then", &self.advice.then, then)]
    }

    /// The bills. Those of the curve and of runs on a simulated device differ: the marks lie on the lines.
    fn bills(&self) -> Vec<DataSeries> {
        let bill_at = |load: &SystemLoad, value: fn(&MemoryPoint) -> f64| {
            let mut points = self.advice.curve.iter();
            let point = points.find(|it| it.frames == load.frames);
            point.map_or(load.cost, value)
        };
        let marks = self.now_and_then(bill_at(&self.advice.now, |it| it.cost_now), bill_at(&self.advice.then, |it| it.cost));
        let lines = [self.best(|it| it.cost), self.present(|it| it.cost_now)];
        lines.into_iter().chain(marks).flatten().collect()
    }

    fn writes(&self, unit: &WriteUnit) -> Vec<DataSeries> {
        let of_load = |load: &SystemLoad| unit.value(load.bytes_written_per_day, load.writes_per_reference);
        let (now, then) = (of_load(&self.advice.now), of_load(&self.advice.then));
        // The curve has the writes of the best policies only; those of a device without a cache are the same at each size.
        let level = Some(now).filter(|_| self.advice.uncached);
        let of_point = |it: &MemoryPoint| unit.value(it.bytes_written_per_day, it.writes_per_reference);
        let present = match self.advice.keeps_policy {
            true => self.present(of_point),
            false => level.and_then(|level| self.present(|_| level)),
        };
        let lines = [self.best(of_point), present];
        let marks = self.now_and_then(now, then);
        lines.into_iter().chain(marks).flatten().collect()
    }
}

fn picture(advice: &Advice) -> Picture {
    let unit = WriteUnit::for_advice(advice);
    let lines = Lines::new(advice);
    let writes = lines.writes(&unit);
    let bill = "page reads per reference".to_string();
    Picture {
        id: "memory".into(),
        title: "The bill and the writes against memory".into(),
        panels: vec![panel(advice, "Bill", bill, lines.bills()), panel(advice, "Writes", unit.label, writes)],
        kind: PlotKind::Lines,
        has_legend: true,
    }
}

fn panel(advice: &Advice, title: &str, label: String, series: Vec<DataSeries>) -> Panel {
    let sizes = advice.curve.iter().map(|it| it.frames as f64);
    let (least, most) = sizes.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), size| (least.min(size), most.max(size)));
    // A single size has an axis around it.
    let range = match least < most {
        true => least..most,
        false => most.max(1.0) / 2.0..most.max(1.0) * 2.0,
    };
    let values = series.iter().flat_map(|it| &it.points).map(|point| point.y);
    let top = values.fold(0.0, f64::max);
    let tick = |point: &MemoryPoint| Tick {
        at: point.frames as f64,
        text: match point.bytes {
            Some(bytes) => ByteSize::new(bytes).to_string(),
            None => grouped(point.frames),
        },
    };
    Panel {
        title: title.into(),
        x: Axis {
            label: match advice.page_size {
                Some(_) => "memory".into(),
                None => "frames".into(),
            },
            range,
            is_log: true,
            ticks: Ticks::At(advice.curve.iter().map(tick).collect()),
        },
        y: Axis { label, range: 0.0..if top > 0.0 { 1.05 * top } else { 1.0 }, is_log: false, ticks: Ticks::Round("") },
        series,
    }
}
