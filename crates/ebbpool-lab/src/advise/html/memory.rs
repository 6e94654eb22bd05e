//! The chart of the memory curve: the bills and the writes at each size, with marks for the present and the recommended memory.

use ebbpool_cost::ByteSize;
use maud::{Markup, PreEscaped, html};

use crate::advise::{Advice, MemoryPoint, SystemLoad};
use crate::numbers::grouped;
use crate::report::chart::{
    Axis, DataPoint, DataSeries, Mark, Panel, Picture, PlotKind, Tick, Ticks, in_page,
};

/// Widths of the picture in pixels: on a wide screen, and on one that has room for no more than a panel.
const BROAD: u32 = 880;
const NARROW: u32 = 330;

/// For each size of the curve whether it is the present or the recommended one.
pub(super) fn marks(advice: &Advice) -> Vec<Option<&'static str>> {
    let mark = |point: &MemoryPoint| match point.frames {
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
    let mut text =
        String::from("frames,policy,cost,cost_now,writes_per_reference,bytes_written_per_day\n");
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
    fn of(advice: &Advice) -> Self {
        let bytes = advice
            .curve
            .iter()
            .filter_map(|it| it.bytes_written_per_day);
        let bytes = bytes.chain(advice.now.bytes_written_per_day);
        match bytes.reduce(f64::max) {
            Some(most) => {
                let (factor, unit) = match most {
                    most if most >= 1e12 => (1e-12, "TB"),
                    most if most >= 1e9 => (1e-9, "GB"),
                    _ => (1e-6, "MB"),
                };
                WriteUnit {
                    label: format!("{unit} written a day"),
                    factor,
                    in_bytes: true,
                }
            }
            None => WriteUnit {
                label: "page writes per reference".into(),
                factor: 1.0,
                in_bytes: false,
            },
        }
    }

    fn value(&self, bytes: Option<f64>, per_reference: f64) -> f64 {
        self.factor
            * if self.in_bytes {
                bytes.unwrap_or(0.0)
            } else {
                per_reference
            }
    }
}

fn picture(advice: &Advice) -> Picture {
    let unit = WriteUnit::of(advice);
    let of_point =
        |point: &MemoryPoint| unit.value(point.bytes_written_per_day, point.writes_per_reference);
    let of_load =
        |load: &SystemLoad| unit.value(load.bytes_written_per_day, load.writes_per_reference);
    let present = match advice.uncached {
        true => "without a cache".to_string(),
        false => advice.now.policy.clone(),
    };
    let named = |when: &str, load: &SystemLoad| {
        let size = load.bytes.map(|bytes| ByteSize::new(bytes).to_string());
        let size = size.unwrap_or_else(|| format!("{} frames", grouped(load.frames)));
        format!("{when}: {}, {size}", load.policy)
    };
    let own = Mark::of_policy(advice.now.policy.as_str());
    // The best policy changes with the size: its line has the colour of Ebbpool's own policy, and no dashes.
    let best_mark = Mark::of_policy("ebb");
    let marks = Mark::of_lines(&[best_mark, own, None, None]);
    let series = |at: usize, name: String, points: Vec<(f64, f64)>| {
        let point = |(x, y)| DataPoint {
            x,
            y,
            interval: None,
        };
        let mark = *marks.get(at)?;
        let points = points.into_iter().map(point).collect();
        Some(DataSeries { name, mark, points })
    };
    let along = |value: &dyn Fn(&MemoryPoint) -> f64| {
        let points = advice.curve.iter();
        points
            .map(|it| (it.frames as f64, value(it)))
            .collect::<Vec<_>>()
    };
    // The bills of the curve and of runs on a simulated device differ: the marks lie on the lines.
    let bill_at = |load: &SystemLoad, value: fn(&MemoryPoint) -> f64| {
        let found = advice.curve.iter().find(|it| it.frames == load.frames);
        vec![(load.frames as f64, found.map_or(load.cost, value))]
    };
    let has_buffer = advice.now.frames > 0;
    let now = |points: Vec<(f64, f64)>| {
        let points = Some(points).filter(|_| has_buffer)?;
        series(2, named("now", &advice.now), points)
    };
    let then = |points| series(3, named("then", &advice.then), points);
    let best = "the best policy of each size";
    let bills = [
        series(0, best.into(), along(&|it| it.cost)),
        series(1, present.clone(), along(&|it| it.cost_now)),
        now(bill_at(&advice.now, |it| it.cost_now)),
        then(bill_at(&advice.then, |it| it.cost)),
    ];
    let without = of_load(&advice.now);
    let level = advice
        .uncached
        .then(|| series(1, present, along(&|_| without)))
        .flatten();
    let writes = [
        series(0, best.into(), along(&of_point)),
        level,
        now(vec![(advice.now.frames as f64, of_load(&advice.now))]),
        then(vec![(advice.then.frames as f64, of_load(&advice.then))]),
    ];
    Picture {
        id: "memory".into(),
        title: "The bill and the writes against memory".into(),
        panels: vec![
            panel(
                advice,
                "Bill",
                "page reads per reference".into(),
                bills.into_iter().flatten().collect(),
            ),
            panel(
                advice,
                "Writes",
                unit.label.clone(),
                writes.into_iter().flatten().collect(),
            ),
        ],
        kind: PlotKind::Lines,
        has_legend: true,
    }
}

fn panel(advice: &Advice, title: &str, label: String, series: Vec<DataSeries>) -> Panel {
    let sizes = advice.curve.iter().map(|it| it.frames as f64);
    let (least, most) = sizes.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), size| {
        (least.min(size), most.max(size))
    });
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
        y: Axis {
            label,
            range: 0.0..if top > 0.0 { 1.05 * top } else { 1.0 },
            is_log: false,
            ticks: Ticks::Round(""),
        },
        series,
    }
}
