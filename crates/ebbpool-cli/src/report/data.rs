//! What a report knows: the results, as small as plain JSON makes them.

use std::sync::Arc;

use ebbpool_sim::{Moment, TimeLine};
use ebbpool_trace::stats::Info;
use serde::Serialize;

use crate::compare::Comparison;
use crate::results::Number;
use crate::table::{BASELINE, sentence};

/// All that the page's script is given.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    baseline: &'static str,
    traces: Vec<Trace>,
}

#[derive(Debug, Serialize)]
struct Trace {
    name: String,
    /// The answer in a sentence.
    sentence: String,
    /// What a memory size in per cent is a share of.
    share_of: &'static str,
    references: u64,
    warmup: u64,
    distinct_pages: u64,
    database_pages: Option<u64>,
    page_size: Option<u64>,
    policies: Vec<String>,
    sizes: Vec<MemorySize>,
    asymmetries: Vec<Number>,
    results: Vec<Cell>,
    /// If known, what no policy can undercut, per reference: for each asymmetry, each size.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<Vec<f64>>,
    /// What the references are like, if they were looked at.
    nature: Option<Info>,
    /// References served at each point of the time lines.
    times: Vec<u64>,
    time_lines: Vec<Changes>,
}

#[derive(Debug, Serialize)]
struct MemorySize {
    /// As it was asked for.
    text: String,
    frames: u64,
}

/// Policy, size, asymmetry (as indices), reads, writes, dirty pages left, time line (as index).
#[derive(Debug, Serialize)]
struct Cell(usize, usize, usize, u64, u64, u64, Option<usize>);

/// A time line column by column, each value as its difference from the one before: small numbers
/// take few characters.
#[derive(Debug, Default, Serialize)]
struct Changes {
    reads: Vec<i64>,
    writes: Vec<i64>,
    clean: Vec<i64>,
    dirty: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    target: Vec<i64>,
}

impl Changes {
    fn of(line: &TimeLine) -> Self {
        let moments: Vec<&Moment> = line.moments().collect();
        let column = |value: fn(&Moment) -> u64| {
            let mut before = 0;
            let values = moments.iter().map(|moment| value(moment));
            let changes = values.map(|value| {
                let change = value.wrapping_sub(before) as i64;
                before = value;
                change
            });
            changes.collect()
        };
        Changes {
            reads: column(|moment| moment.reads),
            writes: column(|moment| moment.writes),
            clean: column(|moment| moment.clean),
            dirty: column(|moment| moment.dirty),
            target: if moments.iter().all(|moment| moment.target.is_some()) {
                column(|moment| moment.target.unwrap_or(0))
            } else {
                Vec::new()
            },
        }
    }
}

impl Report {
    pub(crate) fn of(comparisons: &[Comparison]) -> Self {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            baseline: BASELINE,
            traces: comparisons.iter().map(Trace::of).collect(),
        }
    }
}

impl Trace {
    fn of(comparison: &Comparison) -> Self {
        let mut kept: Vec<&Arc<TimeLine>> = Vec::new();
        let mut results = Vec::new();
        for row in &comparison.rows {
            let line = row.time_line.as_ref().map(|line| {
                let known = kept.iter().position(|other| Arc::ptr_eq(other, line));
                known.unwrap_or_else(|| {
                    kept.push(line);
                    kept.len() - 1
                })
            });
            results.push(Cell(
                row.policy,
                row.size,
                row.asymmetry,
                row.counts.misses,
                row.counts.writes,
                row.counts.dirty_left,
                line,
            ));
        }
        // All cells see the same references, so their moments are the same.
        let times = kept.first().map_or_else(Vec::new, |line| {
            line.moments().map(|moment| moment.references).collect()
        });
        let sizes = comparison.sizes.iter().zip(&comparison.frames);
        Trace {
            name: comparison.name.clone(),
            sentence: sentence(comparison),
            share_of: comparison.share_of,
            references: comparison.facts.references,
            warmup: comparison.warmup,
            distinct_pages: comparison.facts.distinct_pages,
            database_pages: comparison.database_pages,
            page_size: comparison.page_size,
            policies: comparison.policies.clone(),
            sizes: sizes
                .map(|(text, &frames)| MemorySize {
                    text: text.clone(),
                    frames,
                })
                .collect(),
            asymmetries: comparison.asymmetries.clone(),
            results,
            bounds: comparison.bounds.clone(),
            nature: comparison.nature.clone(),
            times,
            time_lines: kept.iter().map(|line| Changes::of(line)).collect(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ebbpool_policy::Gauges;
    use ebbpool_sim::{Counts, Observer, Row, Sample, TraceFacts};

    use super::*;

    /// A report on a trace and a policy of that name.
    pub(in crate::report) fn report_named(name: &str) -> Report {
        Report::of(&[Comparison {
            name: name.into(),
            title: name.into(),
            share_of: "the pages",
            facts: TraceFacts::default(),
            warmup: 0,
            database_pages: None,
            page_size: None,
            sizes: vec!["8".into()],
            frames: vec![8],
            policies: vec![name.into()],
            asymmetries: Vec::new(),
            rows: Vec::new(),
            records: Vec::new(),
            bounds: None,
            interrupted: false,
            nature: None,
        }])
    }

    fn line(target: impl Fn(u64) -> Option<f64>) -> Arc<TimeLine> {
        let mut line = TimeLine::default();
        line.counting();
        for at in 1..=3 {
            line.sample(&Sample {
                references: 1000 * at,
                reads: 10 * at * at,
                writes: 5 * at,
                clean: 8 - at,
                dirty: at,
                asymmetry: 8.0,
                gauges: Gauges {
                    target: target(at),
                    ..Gauges::default()
                },
            });
        }
        Arc::new(line)
    }

    #[test]
    fn time_lines_are_differences() {
        let changes = Changes::of(&line(|at| Some(9.0 - at as f64)));
        assert_eq!(changes.reads, [10, 30, 50]);
        assert_eq!(changes.writes, [5, 5, 5]);
        assert_eq!(changes.clean, [7, -1, -1]);
        assert_eq!(changes.dirty, [1, 1, 1]);
        assert_eq!(changes.target, [8, -1, -1]);
        assert!(Changes::of(&line(|_| None)).target.is_empty());
    }

    #[test]
    fn a_shared_time_line_is_kept_once() {
        let (shared, own) = (line(|_| None), line(|_| Some(1.0)));
        let lines = [Some(&shared), Some(&own), Some(&shared), None];
        let row = |(asymmetry, line): (usize, &Option<&Arc<TimeLine>>)| Row {
            policy: 0,
            size: 0,
            asymmetry,
            frames: 8,
            counts: Counts::default(),
            time_line: line.cloned(),
            device: None,
        };
        let rows = lines.iter().enumerate().map(row).collect();
        let trace = Trace::of(&Comparison {
            name: "t".into(),
            title: "t".into(),
            share_of: "the pages",
            facts: TraceFacts::default(),
            warmup: 0,
            database_pages: None,
            page_size: None,
            sizes: vec!["8".into()],
            frames: vec![8],
            policies: vec!["lru".into()],
            asymmetries: vec![Number(1.0); 4],
            rows,
            records: Vec::new(),
            bounds: None,
            interrupted: false,
            nature: None,
        });
        let lines: Vec<_> = trace.results.iter().map(|result| result.6).collect();
        assert_eq!(lines, [Some(0), Some(1), Some(0), None]);
        assert_eq!(trace.time_lines.len(), 2);
        assert_eq!(trace.times, [1000, 2000, 3000]);
    }
}
