//! A grid of policies, memory sizes and asymmetries.

use std::sync::Arc;

use ebbpool_device::Asymmetry;
use ebbpool_policy::{Fraction, PolicySpec};
use ebbpool_trace::{Metadata, Source};

use crate::engine::Counts;
use crate::error::SimError;
use crate::stream::{
    Cell, Options, Progress, TraceFacts, scan, simulate, simulate_with_time_lines,
};
use crate::time_line::TimeLine;

/// A number of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many.
    Frames(u64),
    /// A share of the database's pages where the trace states them, else of its distinct pages;
    /// rounded down, at least 1.
    Share(Fraction),
}

/// How many references at the start count nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// This many.
    References(u64),
    /// A share of the trace, rounded down.
    Share(Fraction),
}

/// What to span.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The policies, down.
    pub policies: Vec<PolicySpec>,
    /// The sizes, across.
    pub sizes: Vec<Size>,
    /// The asymmetries, a block each.
    pub asymmetries: Vec<Asymmetry>,
    /// How much of the trace is warm-up.
    pub warmup: Warmup,
    /// What else holds; its `warmup` is overruled.
    pub options: Options,
    /// Whether each result comes with its time line.
    pub time_lines: bool,
}

/// One result.
#[derive(Clone, Debug)]
pub struct Row {
    /// Index into the sweep's policies.
    pub policy: usize,
    /// Index into the sweep's sizes.
    pub size: usize,
    /// Index into the sweep's asymmetries.
    pub asymmetry: usize,
    /// The frames that the size came to.
    pub frames: u64,
    /// What was counted.
    pub counts: Counts,
    /// How it came about, if asked for; one for all the asymmetries of a policy that ran once.
    pub time_line: Option<Arc<TimeLine>>,
}

impl Sweep {
    /// Runs the sweep over a trace: for each asymmetry, each policy, each size.
    ///
    /// A policy that does not look at costs runs once per size, whatever the asymmetries.
    pub fn run(
        &self,
        source: &Source,
        progress: &Progress,
    ) -> Result<(Vec<Row>, Resolved, TraceFacts), SimError> {
        let resolved = self.resolve(source, progress)?;
        let mut cells = Vec::new();
        let mut places = Vec::new();
        for (policy, spec) in self.policies.iter().enumerate() {
            for (size, &frames) in resolved.frames.iter().enumerate() {
                let all = 0..self.asymmetries.len();
                let groups: Vec<_> = if spec.entry().looks_at_costs {
                    all.map(|at| at..at + 1).collect()
                } else {
                    vec![all]
                };
                for group in groups {
                    cells.push(Cell {
                        policy: spec.clone(),
                        frames,
                        asymmetry: self.asymmetries[group.start].ratio(),
                    });
                    places.push((policy, size, group));
                }
            }
        }
        let options = Options {
            warmup: resolved.warmup,
            ..self.options.clone()
        };
        let (outcome, time_lines) = if self.time_lines {
            let (outcome, lines) = simulate_with_time_lines(source, &cells, &options, progress)?;
            let kept = lines.into_iter().map(|line| Some(Arc::new(line)));
            (outcome, kept.collect())
        } else {
            let outcome = simulate(source, &cells, &options, progress)?;
            (outcome, vec![None; cells.len()])
        };
        let mut rows: Vec<Row> = Vec::new();
        let results = outcome.counts.into_iter().zip(time_lines);
        for ((policy, size, group), (counts, time_line)) in places.into_iter().zip(results) {
            rows.extend(group.map(|asymmetry| Row {
                policy,
                size,
                asymmetry,
                frames: resolved.frames[size],
                counts,
                time_line: time_line.clone(),
            }));
        }
        rows.sort_by_key(|row| (row.asymmetry, row.policy, row.size));
        Ok((rows, resolved, outcome.facts))
    }

    /// Turns shares into numbers; reads the trace once if it does not state what they are of.
    fn resolve(&self, source: &Source, progress: &Progress) -> Result<Resolved, SimError> {
        let reader = source.open()?;
        let metadata = reader.metadata().clone();
        let notes = reader.notes().to_vec();
        let mut references = reader.references();
        drop(reader);
        let mut pages = metadata.database_pages;
        let shares = self.sizes.iter().any(|s| matches!(s, Size::Share(_)));
        let warm_share = matches!(self.warmup, Warmup::Share(_));
        if (shares && pages.is_none()) || (warm_share && references.is_none()) {
            let scan = scan(source, false, progress)?;
            references = Some(scan.references);
            pages = pages.or(Some(scan.distinct_pages));
        }
        let frames = self.sizes.iter().map(|size| match size {
            Size::Frames(frames) => *frames,
            Size::Share(share) => share.floor_of(pages.unwrap_or(0)),
        });
        Ok(Resolved {
            frames: frames.map(|frames| frames.max(1)).collect(),
            warmup: match self.warmup {
                Warmup::References(warmup) => warmup,
                Warmup::Share(share) => share.floor_of(references.unwrap_or(0)),
            },
            metadata,
            notes,
        })
    }
}

/// Shares turned into numbers, and what the trace says of itself.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Frames of each size.
    pub frames: Vec<u64>,
    /// References of warm-up.
    pub warmup: u64,
    /// The trace's metadata.
    pub metadata: Metadata,
    /// What the reader had to guess.
    pub notes: Vec<String>,
}
