//! The data of a report, in as few characters as plain JSON allows.

use std::sync::Arc;

use ebbpool_sim::{DeviceOutcome, Moment, SweepRow, TimeLine};
use ebbpool_trace::stats::TraceStatistics;
use serde::Serialize;

use crate::advice::Answer;
use crate::compare::{Comparison, Curve};

use crate::lifetime;
use crate::numbers::Number;
use crate::policy_selection::BASELINE;
use crate::pricing::{BillUnit, Pricing};
use crate::report::chart::{LAYOUT, Layout, LineStyle, marks_of};
use crate::report::on_device::{DeviceFacts, busy_joules, host_bytes};
use crate::several::Summary;
use crate::trace_set::TraceGroup;

/// The data that the page's script reads.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    baseline: &'static str,
    layout: Layout,
    /// The marks of the policies of all traces.
    marks: Vec<LineStyle>,
    traces: Vec<Trace>,
    /// What holds for all traces together.
    summary: Option<SummaryTable>,
}

/// The policies over all traces.
#[derive(Debug, Serialize)]
struct SummaryTable {
    sentence: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl From<Summary> for SummaryTable {
    fn from(summary: Summary) -> Self {
        SummaryTable { sentence: summary.sentence(), heads: summary.heads(), rows: summary.cells(), notes: summary.notes() }
    }
}

#[derive(Debug, Serialize)]
struct Trace {
    name: String,
    /// All that the comparison says, what decides first.
    sentences: Vec<String>,
    /// True if the first sentence is a recommendation over all sizes and asymmetries, and the policy that it names.
    recommends: bool,
    recommended: Option<String>,
    /// What a memory size in per cent is a share of.
    share_of: &'static str,
    references: u64,
    warmup: u64,
    distinct_pages: u64,
    database_pages: Option<u64>,
    page_size: Option<u64>,
    policies: Vec<String>,
    /// The policies that know the future.
    offline: Vec<String>,
    /// Of each policy, the index of its mark.
    marks: Vec<usize>,
    sizes: Vec<ReportSize>,
    /// R, at the beginning where it changes.
    asymmetries: Vec<Number>,
    /// The asymmetries as the user spelled them.
    labels: Vec<String>,
    /// The unit of bills.
    bill_unit: BillUnit,
    /// The device that served the requests, by name.
    device: Option<String>,
    /// How the device bears the load, where there is one.
    on_device: Option<DeviceFacts>,
    /// The policy that lives of the device are compared with.
    compared_with: &'static str,
    results: Vec<ReportCell>,
    /// The least possible bills per reference, if they were computed: for each asymmetry, each size.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<Vec<f64>>,
    /// Statistics of the references, unless the run was interrupted before.
    statistics: Option<TraceStatistics>,
    /// The curves of `ebbpool curve`.
    curve: Option<Curve>,
    /// References served at each point of the time lines.
    times: Vec<u64>,
    time_lines: Vec<DeltaColumns>,
}

#[derive(Debug, Serialize)]
struct ReportSize {
    /// The size as the user spelled it.
    text: String,
    frames: u64,
}

/// Policy, size, asymmetry (as indices), reads, writes, dirty pages left, time line (as index), and
/// what a device measured, or an asymmetry that changes; and the misses that read nothing.
#[derive(Debug, Serialize)]
struct ReportCell(usize, usize, usize, u64, u64, u64, Option<usize>, Option<DeviceCell>, u64);

#[derive(Debug, Serialize)]
struct DeviceCell {
    /// References that were counted: fewer than for other policies if the device failed.
    references: u64,
    /// Page reads per reference, and the part of them that writes cost.
    bill: f64,
    write_bill: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    joules_per_reference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_joules_per_reference: Option<f64>,
    /// Bytes that the device took from the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wear: Option<Wear>,
}

/// What happened inside a simulated flash device.
#[derive(Debug, Serialize)]
struct Wear {
    programs: u64,
    erases: u64,
    write_amplification: Option<f64>,
    not_steady: Option<String>,
    /// References until the device is worn out, if all are as those counted.
    lifetime_references: Option<f64>,
    /// The device's life as a multiple of that under the policy compared with, by erases.
    life: Option<f64>,
}

impl DeviceCell {
    fn new(row: &SweepRow, did: &DeviceOutcome, pricing: &Pricing, page_size: Option<u64>, life: Option<f64>) -> Self {
        let references = row.counts.references;
        let per_reference = |cost: f64| pricing.in_page_reads(cost) / references as f64;
        DeviceCell {
            references,
            bill: per_reference(did.report.bill().amount),
            write_bill: per_reference(did.report.write_cost),
            joules_per_reference: did.energy.and_then(|energy| energy.joules_per_reference(references)),
            busy_joules_per_reference: busy_joules(did, references),
            host_bytes: host_bytes(row, did, pricing, page_size),
            failed: did.failed.clone(),
            wear: did.flash.as_ref().map(|flash| Wear {
                programs: flash.programs,
                erases: flash.erases,
                write_amplification: flash.write_amplification,
                not_steady: flash.not_steady.clone(),
                lifetime_references: flash
                    .lifetime_host_bytes
                    .filter(|_| flash.host_bytes > 0)
                    .map(|bytes| bytes / flash.host_bytes as f64 * references as f64),
                life,
            }),
        }
    }
}

/// A time line column by column, each value as its difference from the one before: small numbers
/// take few characters.
#[derive(Debug, Default, Serialize)]
struct DeltaColumns {
    reads: Vec<i64>,
    writes: Vec<i64>,
    clean: Vec<i64>,
    dirty: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    target: Vec<i64>,
    /// What a device charged, in thousandths of a page read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bill: Vec<i64>,
}

impl DeltaColumns {
    fn from_line(line: &TimeLine, pricing: &Pricing) -> Self {
        let moments: Vec<&Moment> = line.moments().collect();
        let column = |value: &dyn Fn(&Moment) -> u64| {
            let mut before = 0;
            let values = moments.iter().map(|moment| value(moment));
            let changes = values.map(|value| {
                let change = value.wrapping_sub(before) as i64;
                before = value;
                change
            });
            changes.collect()
        };
        DeltaColumns {
            reads: column(&|moment| moment.reads),
            writes: column(&|moment| moment.writes),
            clean: column(&|moment| moment.clean),
            dirty: column(&|moment| moment.dirty),
            target: if moments.iter().all(|moment| moment.target.is_some()) {
                column(&|moment| moment.target.unwrap_or(0))
            } else {
                Vec::new()
            },
            bill: if moments.iter().all(|moment| moment.bill.is_some()) {
                let page_reads = |cost: f64| 1e3 * pricing.in_page_reads(cost);
                column(&|moment| moment.bill.map_or(0, |bill| page_reads(bill).round() as u64))
            } else {
                Vec::new()
            },
        }
    }
}

impl Report {
    pub(crate) fn new(comparisons: &[Comparison], groups: &[TraceGroup]) -> Self {
        let mut policies: Vec<&str> = Vec::new();
        for policy in comparisons.iter().flat_map(|comparison| &comparison.policies) {
            if !policies.contains(&policy.as_str()) {
                policies.push(policy);
            }
        }
        let trace = |comparison| Trace::new(comparison, &policies);
        Report {
            version: env!("CARGO_PKG_VERSION"),
            baseline: BASELINE,
            layout: LAYOUT,
            marks: marks_of(&policies),
            traces: comparisons.iter().map(trace).collect(),
            summary: Summary::from_comparisons(comparisons, groups).map(Into::into),
        }
    }
}

/// The results, and the time lines that they refer to by index, each once.
fn cells(comparison: &Comparison) -> (Vec<ReportCell>, Vec<(&Arc<TimeLine>, &Pricing)>) {
    let mut lines: Vec<(&Arc<TimeLine>, &Pricing)> = Vec::new();
    let mut results = Vec::new();
    for (row, life) in comparison.rows().zip(lifetime::lifetimes(comparison)) {
        let pricing = &comparison.pricings[row.asymmetry];
        let did = row.device.as_ref();
        // After a failure a time line has other moments than those of the other results.
        let whole = did.is_none_or(|did| did.failed.is_none());
        let line = row.time_line.as_ref().filter(|_| whole).map(|line| {
            let earlier = lines.iter().position(|(other, _)| Arc::ptr_eq(other, line));
            earlier.unwrap_or_else(|| {
                lines.push((line, pricing));
                lines.len() - 1
            })
        });
        results.push(ReportCell(
            row.policy,
            row.size,
            row.asymmetry,
            row.counts.reads(),
            row.counts.writes,
            row.counts.dirty_left,
            line,
            did.map(|did| DeviceCell::new(row, did, pricing, comparison.page_size, life)),
            row.counts.overwrites,
        ));
    }
    (results, lines)
}

impl Trace {
    /// `policies` are those of all traces, in the order of their marks.
    fn new(comparison: &Comparison, policies: &[&str]) -> Self {
        let (results, lines) = cells(comparison);
        let answer = Answer::new(comparison);
        // All cells see the same references, so their moments are the same.
        let times = lines.first().map_or_else(Vec::new, |(line, _)| line.moments().map(|moment| moment.references).collect());
        let sizes = comparison.sizes.iter().zip(&comparison.frames);
        let pricings = comparison.pricings.iter();
        Trace {
            name: comparison.name.clone(),
            recommended: answer.recommendation.as_ref().and_then(|it| it.policy.clone()),
            recommends: answer.recommendation.is_some(),
            sentences: answer.sentences().map(String::from).collect(),
            share_of: comparison.share_of,
            references: comparison.facts.references,
            warmup: comparison.warmup,
            distinct_pages: comparison.facts.distinct_pages,
            database_pages: comparison.database_pages,
            page_size: comparison.page_size,
            policies: comparison.policies.clone(),
            offline: (comparison.policies.iter().zip(&comparison.online))
                .filter(|(_, online)| !**online)
                .map(|(name, _)| name.clone())
                .collect(),
            marks: comparison.policies.iter().filter_map(|policy| policies.iter().position(|other| other == policy)).collect(),
            sizes: sizes.map(|(text, &frames)| ReportSize { text: text.clone(), frames }).collect(),
            asymmetries: pricings.clone().map(|pricing| Number(pricing.asymmetry.ratio())).collect(),
            labels: pricings.clone().map(Pricing::label).collect(),
            bill_unit: comparison.bill_unit(),
            device: pricings.clone().find_map(|pricing| pricing.device_name.clone()),
            on_device: DeviceFacts::from_comparison(comparison),
            compared_with: lifetime::compared_with(comparison),
            results,
            bounds: comparison.bounds.clone(),
            statistics: comparison.info.clone(),
            curve: comparison.curve.clone(),
            times,
            time_lines: lines.iter().map(|(line, pricing)| DeltaColumns::from_line(line, pricing)).collect(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ebbpool_policy::Gauges;
    use ebbpool_sim::{AtEnd, Counts, Observer, Sample, TraceFacts};
    use ebbpool_trace::Metadata;

    use super::*;
    use crate::compare::{ComparedCell, in_order};
    use crate::run_result::{RunResult, TraceSummary};

    /// A comparison of one policy with one memory size, both called `name` where it matters.
    fn comparison(name: &str, pricings: Vec<Pricing>, rows: Vec<SweepRow>) -> Comparison {
        let trace = TraceSummary {
            label: name,
            metadata: &Metadata::default(),
            facts: TraceFacts::default(),
            warmup: 0,
            at_end: AtEnd::Flush,
            checkpoints: None,
        };
        let priced = |row: SweepRow| {
            let asymmetry = pricings[row.asymmetry].asymmetry;
            let result = RunResult::new(&trace, name.into(), row.frames, asymmetry, &row.counts);
            ComparedCell { row, result }
        };
        let found = rows.into_iter().map(priced);
        let cells = in_order([pricings.len(), 1, 1], found);
        Comparison {
            name: name.into(),
            title: name.into(),
            share_of: "the pages",
            facts: TraceFacts::default(),
            warmup: 0,
            database_pages: None,
            page_size: None,
            rate: None,
            sizes: vec!["8".into()],
            frames: vec![8],
            policies: vec![name.into()],
            online: vec![true],
            pricings,
            cells,
            bounds: None,
            interrupted: false,
            info: None,
            curve: None,
        }
    }

    /// A report on a trace and a policy of that name.
    pub(in crate::report) fn report_named(name: &str) -> Report {
        Report::new(&[comparison(name, Vec::new(), Vec::new())], &[])
    }

    fn plain() -> Pricing {
        Pricing::constant(ebbpool_cost::PAPERS_BASE)
    }

    fn line(target: impl Fn(u64) -> Option<f64>) -> Arc<TimeLine> {
        let mut line = TimeLine::default();
        line.counting();
        for at in 1..=3 {
            line.sample(&Sample {
                references: 1000 * at,
                reads: 10 * at * at,
                writes: 5 * at,
                bill: Some(2.5 * at as f64),
                clean: 8 - at,
                dirty: at,
                clean_hits: 0,
                asymmetry: 8.0,
                gauges: Gauges { target: target(at), ..Gauges::default() },
            });
        }
        Arc::new(line)
    }

    #[test]
    fn time_lines_are_differences() {
        let changes = DeltaColumns::from_line(&line(|at| Some(9.0 - at as f64)), &plain());
        assert_eq!(changes.reads, [10, 30, 50]);
        assert_eq!(changes.writes, [5, 5, 5]);
        assert_eq!(changes.clean, [7, -1, -1]);
        assert_eq!(changes.dirty, [1, 1, 1]);
        assert_eq!(changes.target, [8, -1, -1]);
        assert_eq!(changes.bill, [2500, 2500, 2500]);
        assert!(DeltaColumns::from_line(&line(|_| None), &plain()).target.is_empty());
    }

    #[test]
    fn a_shared_time_line_is_written_once() {
        let (shared, own) = (line(|_| None), line(|_| Some(1.0)));
        let lines = [Some(&shared), Some(&own), Some(&shared), None];
        let row = |(asymmetry, line): (usize, &Option<&Arc<TimeLine>>)| SweepRow {
            policy: 0,
            size: 0,
            asymmetry,
            frames: 8,
            counts: Counts::default(),
            time_line: line.cloned(),
            device: None,
        };
        let rows = lines.iter().enumerate().map(row).collect();
        let trace = Trace::new(&comparison("lru", vec![plain(); 4], rows), &["lru"]);
        let lines: Vec<_> = trace.results.iter().map(|result| result.6).collect();
        assert_eq!(lines, [Some(0), Some(1), Some(0), None]);
        assert_eq!(trace.time_lines.len(), 2);
        assert_eq!(trace.times, [1000, 2000, 3000]);
    }
}
