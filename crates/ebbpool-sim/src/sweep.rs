//! A grid of policies, memory sizes and asymmetries.

use std::collections::VecDeque;
use std::sync::Arc;

use ebbpool_cost::{Asymmetry, Decimal};
use ebbpool_device::AnyDevice;
use ebbpool_policy::{Foresight, PolicySpec};
use ebbpool_trace::{Metadata, Source};

use crate::engine::Counts;
use crate::error::SimError;
use crate::on_device::{DeviceAtStart, DeviceOutcome};
use crate::store::{CellResult, Extent, Kept, Store};
use crate::stream::{
    Cell, Options, Outcome, Progress, TraceFacts, scan, simulate, simulate_on_device,
    simulate_with_time_lines,
};
use crate::time_line::TimeLine;

/// A number of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many.
    Frames(u64),
    /// A share of the database's pages where the trace states them, else of its distinct pages;
    /// rounded down, at least 1.
    Share(Decimal),
}

impl Size {
    /// The frames that the size comes to where shares are of so many pages; at least 1.
    pub fn frames_of(self, pages: u64) -> u64 {
        match self {
            Size::Frames(frames) => frames.max(1),
            Size::Share(share) => share.floor_of(pages).max(1),
        }
    }
}

/// How many references at the start count nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// This many.
    References(u64),
    /// A share of the trace, rounded down.
    Share(Decimal),
}

impl Warmup {
    /// The references that it comes to in a trace of so many.
    pub fn references_of(self, references: u64) -> u64 {
        match self {
            Warmup::References(warmup) => warmup,
            Warmup::Share(share) => share.floor_of(references),
        }
    }
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
    /// What serves each run; its costs overrule the asymmetries, of which there should be one.
    pub device: Option<DeviceAtStart>,
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
    /// What the device did, if there was one.
    pub device: Option<DeviceOutcome>,
}

/// What came of a sweep.
#[derive(Debug)]
pub struct Swept {
    /// The results: for each asymmetry, each policy, each size. Fewer than that if the sweep was
    /// interrupted.
    pub rows: Vec<Row>,
    /// What shares came to.
    pub resolved: Resolved,
    /// Of the trace.
    pub facts: TraceFacts,
    /// How many of the rows come from the store.
    pub from_store: usize,
    /// True if the caller asked to stop before all was done.
    pub interrupted: bool,
}

/// Simulated references after which the results so far are put aside: some 5 seconds' work.
pub(crate) const STEPS_PER_WAVE: u64 = 100_000_000;

/// The same on a simulated flash device, which takes most of the time.
const STEPS_ON_FLASH_PER_WAVE: u64 = STEPS_PER_WAVE / 10;

/// Cells per thread that are worth a pass of the trace.
pub(crate) const LEAST_CELLS_PER_THREAD: usize = 4;

/// Page table entries, 4 bytes each, of all cells of a wave together; those of their devices count.
pub(crate) const ENTRIES_PER_WAVE: u64 = 1 << 29;

/// What the flash model keeps of a page: its logical page, and of that the place and, with DFTL, the
/// table's.
const ENTRIES_PER_PHYSICAL_PAGE: u64 = 3;

/// A cell, and the rows that it stands for: a policy, a size, some asymmetries.
struct Planned {
    cell: Cell,
    policy: usize,
    size: usize,
    asymmetries: std::ops::Range<usize>,
}

/// What a cell's counts come with.
type Extras = (Option<TimeLine>, Option<DeviceOutcome>);

impl Sweep {
    /// Runs the sweep over a trace.
    ///
    /// A policy that does not look at costs runs once per size, whatever the asymmetries. What the
    /// store has is not computed again. The cells run in waves, and each wave's results go to the
    /// store, so that little is lost when the caller asks to stop.
    ///
    /// # Errors
    ///
    /// [`SimError::Interrupted`] only if there is no result at all.
    pub fn run(
        &self,
        source: &Source,
        store: &dyn Store,
        progress: &Progress,
    ) -> Result<Swept, SimError> {
        let kept = Kept::new(store, self.device.as_ref());
        let mut resolved = self.resolve(source, &kept, progress)?;
        let options = Options {
            warmup: resolved.warmup,
            ..self.options.clone()
        };
        let mut facts = kept.facts(&options);
        let mut results = Vec::new();
        let mut todo = VecDeque::new();
        for planned in self.plan(&resolved.frames) {
            match kept.result(&planned.cell, &options, self.time_lines) {
                Some(result) => results.push((planned, result)),
                None => todo.push_back(planned),
            }
        }
        let from_store = results.iter().map(|(p, _)| p.asymmetries.len()).sum();
        let (mut done, all) = (0, todo.len());
        let mut interrupted = false;
        let mut device = None;
        while !todo.is_empty() || facts.is_none() {
            let wave: Vec<Planned> = todo.drain(..self.wave(&resolved).min(todo.len())).collect();
            let cells: Vec<Cell> = wave.iter().map(|planned| planned.cell.clone()).collect();
            let report = |share: f64| {
                let cells_done = done as f64 + share * cells.len() as f64;
                (progress.report)(cells_done / all.max(1) as f64);
            };
            let progress = Progress {
                report: &report,
                stop: progress.stop,
            };
            if let (Some(at_start), None) = (&self.device, &device) {
                device = Some(at_start.make()?);
            }
            let device = device.as_ref();
            let passed = self.simulate(source, &cells, device, &options, &progress);
            let (outcome, lines) = match passed {
                Err(SimError::Interrupted) if facts.is_some() && !results.is_empty() => {
                    interrupted = true;
                    break;
                }
                passed => passed?,
            };
            let extent = Extent {
                references: outcome.facts.references,
                distinct_pages: outcome.facts.distinct_pages,
            };
            kept.put_extent(extent, source);
            kept.put_facts(&options, &outcome.facts);
            resolved.extent = Some(extent);
            facts = Some(outcome.facts);
            done += cells.len();
            let found = outcome.counts.into_iter().zip(lines);
            for (planned, (counts, (time_line, device))) in wave.into_iter().zip(found) {
                let result = CellResult {
                    counts,
                    time_line,
                    device,
                };
                kept.put_result(&planned.cell, &options, &result);
                results.push((planned, result));
            }
        }
        // Only a trace that was read has something to say of its lines.
        resolved.notes.extend(match source.late_notes() {
            none if none.is_empty() => kept.late_notes(),
            notes => notes,
        });
        Ok(Swept {
            rows: rows(results),
            resolved,
            facts: facts.ok_or(SimError::Interrupted)?,
            from_store,
            interrupted,
        })
    }

    /// The cells that the sweep comes down to, policy by policy.
    fn plan(&self, frames: &[u64]) -> Vec<Planned> {
        let mut plan = Vec::new();
        for (policy, spec) in self.policies.iter().enumerate() {
            for (size, &frames) in frames.iter().enumerate() {
                let all = 0..self.asymmetries.len();
                let groups: Vec<_> = if spec.looks_at_costs() {
                    all.map(|at| at..at + 1).collect()
                } else {
                    vec![all]
                };
                plan.extend(groups.into_iter().map(|asymmetries| Planned {
                    cell: Cell {
                        policy: spec.clone(),
                        frames,
                        asymmetry: self.asymmetries[asymmetries.start].ratio(),
                    },
                    policy,
                    size,
                    asymmetries,
                }));
            }
        }
        plan
    }

    /// How many cells the next wave may have.
    fn wave(&self, resolved: &Resolved) -> usize {
        let least = LEAST_CELLS_PER_THREAD * self.options.threads.max(1);
        let references = match (resolved.references, resolved.extent) {
            (_, Some(extent)) => extent.references,
            (Some(references), None) => references,
            (None, None) => return least,
        };
        let pages = match (resolved.metadata.database_pages, resolved.extent) {
            (_, Some(extent)) => extent.distinct_pages,
            (Some(pages), None) => pages.min(references),
            (None, None) => references,
        };
        let physical = self
            .device
            .as_ref()
            .map_or(0, DeviceAtStart::physical_pages);
        let steps = match physical {
            0 => STEPS_PER_WAVE,
            _ => STEPS_ON_FLASH_PER_WAVE,
        };
        let entries = pages + ENTRIES_PER_PHYSICAL_PAGE * physical;
        let by_time = usize::try_from(steps / references.max(1)).unwrap_or(usize::MAX);
        let by_memory = usize::try_from(ENTRIES_PER_WAVE / entries.max(1)).unwrap_or(usize::MAX);
        by_time.max(least).min(by_memory).max(1)
    }

    fn simulate(
        &self,
        source: &Source,
        cells: &[Cell],
        device: Option<&AnyDevice>,
        options: &Options,
        progress: &Progress,
    ) -> Result<(Outcome, Vec<Extras>), SimError> {
        if let Some(device) = device {
            let (outcome, results) = simulate_on_device(source, cells, device, options, progress)?;
            let keep = |line| self.time_lines.then_some(line);
            let extras = results
                .into_iter()
                .map(|(line, did)| (keep(line), Some(did)));
            Ok((outcome, extras.collect()))
        } else if self.time_lines {
            let (outcome, lines) = simulate_with_time_lines(source, cells, options, progress)?;
            Ok((
                outcome,
                lines.into_iter().map(|line| (Some(line), None)).collect(),
            ))
        } else {
            let outcome = simulate(source, cells, options, progress)?;
            Ok((outcome, vec![(None, None); cells.len()]))
        }
    }

    /// Turns shares into numbers; reads the trace once if neither it nor the store states what
    /// they are of.
    pub(crate) fn resolve(
        &self,
        source: &Source,
        kept: &Kept,
        progress: &Progress,
    ) -> Result<Resolved, SimError> {
        let reader = source.open()?;
        let metadata = reader.metadata().clone();
        let notes = reader.notes().to_vec();
        let mut references = reader.references();
        drop(reader);
        let mut extent = kept.extent();
        let shares = self.sizes.iter().any(|s| matches!(s, Size::Share(_)));
        let warm_share = matches!(self.warmup, Warmup::Share(_));
        let unknown =
            (shares && metadata.database_pages.is_none()) || (warm_share && references.is_none());
        if unknown && extent.is_none() {
            let scan = scan(source, Foresight::Nothing, progress)?;
            let found = Extent {
                references: scan.references,
                distinct_pages: scan.distinct_pages,
            };
            kept.put_extent(found, source);
            extent = Some(found);
        }
        if let Some(extent) = extent {
            references = Some(extent.references);
        }
        let pages = metadata
            .database_pages
            .or(extent.map(|extent| extent.distinct_pages));
        let frames = self.sizes.iter();
        Ok(Resolved {
            frames: frames
                .map(|size| size.frames_of(pages.unwrap_or(0)))
                .collect(),
            warmup: self.warmup.references_of(references.unwrap_or(0)),
            metadata,
            notes,
            references,
            extent,
        })
    }
}

fn rows(results: Vec<(Planned, CellResult)>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (planned, result) in results {
        let time_line = result.time_line.map(Arc::new);
        rows.extend(planned.asymmetries.map(|asymmetry| Row {
            policy: planned.policy,
            size: planned.size,
            asymmetry,
            frames: planned.cell.frames,
            counts: result.counts,
            time_line: time_line.clone(),
            device: result.device.clone(),
        }));
    }
    rows.sort_by_key(|row| (row.asymmetry, row.policy, row.size));
    rows
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
    /// What the reader had to guess or to leave out.
    pub notes: Vec<String>,
    /// References of the trace, where known beforehand.
    references: Option<u64>,
    /// The size of the trace, where it has been read already.
    extent: Option<Extent>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(device: Option<&str>) -> Sweep {
        let flash = |name: &str| {
            let config = name.parse().expect("a flash device");
            DeviceAtStart::flash(config, None, None).expect("it can be made")
        };
        Sweep {
            policies: Vec::new(),
            sizes: Vec::new(),
            asymmetries: Vec::new(),
            warmup: Warmup::References(0),
            options: Options::default(),
            time_lines: false,
            device: device.map(flash),
        }
    }

    #[test]
    fn waves_are_shorter_where_a_device_takes_time_and_memory() {
        let extent = Extent {
            references: 1_000_000,
            distinct_pages: 1000,
        };
        let resolved = Resolved {
            frames: Vec::new(),
            warmup: 0,
            metadata: Metadata::default(),
            notes: Vec::new(),
            references: None,
            extent: Some(extent),
        };
        assert_eq!(sweep(None).wave(&resolved), 100);
        let small = sweep(Some("flash:slc-mt29f4g08aaa,blocks=64"));
        assert_eq!(small.wave(&resolved), 10);
        // 2^28 pages with 3 entries each are more than a wave may have.
        let large = "flash:slc-mt29f4g08aaa,blocks=4194304,pages_per_block=64";
        assert_eq!(sweep(Some(large)).wave(&resolved), 1);
    }
}
