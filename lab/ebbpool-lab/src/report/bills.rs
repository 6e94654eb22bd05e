//! The bills of comparisons against memory size, as a picture for a text.

use crate::compare::Comparison;
use crate::numbers::digits;
use crate::report::chart::{Axis, DataPoint, DataSeries, LineStyle, Panel, Picture, PlotKind, Tick, Ticks};
use crate::several::SeedMeans;
use crate::trace_set::TraceGroup;

/// Room between the outermost points and the frame, as a share of the range.
const ROOM: f64 = 0.06;

/// A picture with a panel for each trace and price. The seeds of a generator have one panel, with means and their intervals.
/// Nothing where no run has finished. [`svg`](crate::report::chart::svg) draws it.
pub fn picture(comparisons: &[Comparison], groups: &[TraceGroup]) -> Option<Picture> {
    let mut panels = Vec::new();
    for group in groups {
        let end = group.members.end.min(comparisons.len());
        let members = comparisons.get(group.members.start..end).unwrap_or_default();
        if let Some(first) = members.first() {
            let name = match (members.len(), groups.len()) {
                (_, 1) => String::new(),
                (1, _) => format!("{}, ", first.name),
                _ => format!("{}, ", group.name),
            };
            panels.extend((0..first.pricings.len()).filter_map(|pricing| panel(&name, members, first, pricing)));
        }
    }
    let what = comparisons.first()?.bill_unit().name;
    (!panels.is_empty()).then(|| Picture {
        id: "bills".into(),
        title: format!("The {what} against memory size"),
        panels,
        kind: PlotKind::Lines,
        has_legend: true,
    })
}

fn panel(name: &str, members: &[Comparison], first: &Comparison, pricing: usize) -> Option<Panel> {
    let (unit, means) = (first.bill_unit(), SeedMeans::new(members));
    let mut sizes: Vec<usize> = (0..first.sizes.len()).collect();
    sizes.sort_by_key(|&size| first.frames[size]);
    let own: Vec<Option<LineStyle>> = first.policies.iter().map(|policy| style(policy)).collect();
    let lines = first.policies.iter().zip(LineStyle::for_lines(&own)).enumerate();
    let series = lines.map(|(policy, (name, mark))| {
        let point = |&size: &usize| {
            let bill = means.bill((pricing, policy, size))?;
            let y = unit.factor * bill.mean;
            let half = bill.half_width.filter(|_| members.len() > 1).map(|half| unit.factor * half);
            Some(DataPoint { x: first.frames[size] as f64, y, interval: half.map(|half| (y - half, y + half)) })
        };
        DataSeries { name: name.clone(), mark, points: sizes.iter().filter_map(point).collect() }
    });
    let series: Vec<DataSeries> = series.filter(|series| !series.points.is_empty()).collect();
    let highest = |point: &DataPoint| point.interval.map_or(point.y, |(_, high)| high);
    let most = series.iter().flat_map(|series| &series.points).map(highest).max_by(f64::total_cmp)?;
    let price = &first.pricings[pricing];
    let (least, largest) = (first.frames[*sizes.first()?] as f64, first.frames[*sizes.last()?] as f64);
    let room = (largest / least).powf(ROOM).max(1.05);
    let text = |size: usize| match first.sizes[size].ends_with('%') {
        true => first.sizes[size].clone(),
        false => digits(first.frames[size] as f64),
    };
    Some(Panel {
        title: match &price.device_name {
            Some(device) => format!("{name}on {device}"),
            None => format!("{name}R\u{a0}=\u{a0}{}", price.label()),
        },
        x: Axis {
            label: match first.sizes.iter().all(|size| size.ends_with('%')) {
                true => format!("memory, as a share of {}", first.share_of),
                false => "memory in frames".into(),
            },
            range: least / room..largest * room,
            is_log: true,
            ticks: Ticks::At(sizes.iter().map(|&size| Tick { at: first.frames[size] as f64, text: text(size) }).collect()),
        },
        y: Axis {
            label: format!("{} {}, in {}", unit.name, unit.per, unit.unit),
            range: 0.0..if most > 0.0 { most * (1.0 + ROOM) } else { 1.0 },
            is_log: false,
            ticks: Ticks::Round(""),
        },
        series,
    })
}

/// The mark of a policy, whatever its parameters are.
fn style(policy: &str) -> Option<LineStyle> {
    LineStyle::for_policy(policy.split(':').next().unwrap_or(policy))
}
