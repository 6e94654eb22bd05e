//! A grid of policies, memory sizes and asymmetries.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::Arc;

use ebbpool_cost::{Asymmetry, ByteSize, Decimal};
use ebbpool_device::AnyDevice;
use ebbpool_policy::Foresight;
use ebbpool_trace::{Metadata, Source};

use crate::engine::Counts;
use crate::error::SimError;
use crate::guest::SimPolicy;
use crate::on_device::{DeviceAtStart, DeviceOutcome};
use crate::probabilities::check_policies;
use crate::store::{ResultStore, StoredCell, StoredResults, TraceExtent};
use crate::stream::{
    PassControl, SimCell, SimOptions, SimOutcome, TraceFacts, scan, simulate, simulate_on_device, simulate_with_time_lines,
};
use crate::time_line::TimeLine;

/// A number of frames, given as such, as a share or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSize {
    /// A number.
    Frames(u64),
    /// A share of the database's pages where the trace states them, else of its distinct pages;
    /// rounded down, at least 1.
    Share(Decimal),
    /// As many frames of the trace's page size as these bytes have room for; at least 1.
    Bytes(ByteSize),
}

impl BufferSize {
    /// The number of frames of the size where shares are of `pages` pages, and bytes are of pages as the metadata
    /// states; at least 1. `trace` names the trace in an error.
    ///
    /// # Errors
    ///
    /// [`SimError::NoPageSize`] for a size in bytes if the metadata state no page size.
    pub fn to_frames(self, pages: u64, metadata: &Metadata, trace: &str) -> Result<u64, SimError> {
        let frames = match self {
            BufferSize::Frames(frames) => frames,
            BufferSize::Share(share) => share.floor_times(pages),
            BufferSize::Bytes(size) => {
                let page_size = metadata.page_size.filter(|&bytes| bytes > 0);
                let page_size = page_size.ok_or_else(|| SimError::NoPageSize { trace: trace.into(), size })?;
                size.bytes() / page_size
            }
        };
        Ok(frames.max(1))
    }

    /// Checks, before a pass over the trace, that its metadata state all that the size needs.
    ///
    /// # Errors
    ///
    /// [`SimError::NoPageSize`] for a size in bytes if the metadata state no page size.
    pub fn check(self, metadata: &Metadata, trace: &str) -> Result<(), SimError> {
        self.to_frames(0, metadata, trace).map(drop)
    }
}

/// How many references at the start are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// A number.
    References(u64),
    /// A share of the trace, rounded down.
    Share(Decimal),
}

impl Warmup {
    /// The number of warm-up references in a trace of `references` references.
    pub fn to_references(self, references: u64) -> u64 {
        match self {
            Warmup::References(warmup) => warmup,
            Warmup::Share(share) => share.floor_times(references),
        }
    }
}

/// The error for a text that is not a warm-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a warm-up; give references, or 0% to 100% of them")]
pub struct WarmupError(String);

/// References, or a share of them such as `10%`.
impl FromStr for Warmup {
    type Err = WarmupError;

    fn from_str(text: &str) -> Result<Self, WarmupError> {
        let text = text.trim();
        let wrong = || WarmupError(text.into());
        if text.ends_with('%') {
            return match text.parse::<Decimal>() {
                Ok(share) if !share.exceeds_one() => Ok(Warmup::Share(share)),
                _ => Err(wrong()),
            };
        }
        text.parse().map(Warmup::References).map_err(|_| wrong())
    }
}

/// The grid to simulate.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The policies, one per row of a table.
    pub policies: Vec<SimPolicy>,
    /// The sizes, one per column.
    pub sizes: Vec<BufferSize>,
    /// The asymmetries, one table each.
    pub asymmetries: Vec<Asymmetry>,
    /// How much of the trace is warm-up.
    pub warmup: Warmup,
    /// The other options; their `warmup` is overruled.
    pub options: SimOptions,
    /// Whether each result has a time line.
    pub time_lines: bool,
    /// The device that serves each run; its costs overrule the asymmetries, of which there should
    /// be one.
    pub device: Option<DeviceAtStart>,
}

/// One result.
#[derive(Clone, Debug)]
pub struct SweepRow {
    /// Index into the sweep's policies.
    pub policy: usize,
    /// Index into the sweep's sizes.
    pub size: usize,
    /// Index into the sweep's asymmetries.
    pub asymmetry: usize,
    /// The number of frames of the size.
    pub frames: u64,
    /// The counts.
    pub counts: Counts,
    /// The time line, if requested; one for all asymmetries of a policy that ran once.
    pub time_line: Option<Arc<TimeLine>>,
    /// The device's results, if there is a device.
    pub device: Option<DeviceOutcome>,
}

/// The result of a sweep.
#[derive(Debug)]
pub struct SweepResult {
    /// The results: for each asymmetry, each policy, each size. Fewer than that if the sweep was
    /// interrupted.
    pub rows: Vec<SweepRow>,
    /// The shares, turned into numbers.
    pub resolved: ResolvedSweep,
    /// The facts of the trace.
    pub facts: TraceFacts,
    /// How many of the rows come from the store.
    pub from_store: usize,
    /// True if the caller asked to stop before all was done.
    pub interrupted: bool,
}

/// Simulated references after which the results so far are stored: some 5 seconds' work.
pub(crate) const STEPS_PER_WAVE: u64 = 100_000_000;

/// Simulated references after which results are stored where a flash device is simulated, which takes most of the time.
const STEPS_ON_FLASH_PER_WAVE: u64 = STEPS_PER_WAVE / 10;

/// Cells per thread that justify a pass of the trace.
pub(crate) const LEAST_CELLS_PER_THREAD: usize = 4;

/// The most page table entries, 4 bytes each, of all cells of a wave together, those of their
/// devices included.
pub(crate) const ENTRIES_PER_WAVE: u64 = 1 << 29;

/// The entries of the flash model per physical page: its logical page, and the location of that
/// and, with DFTL, of the table's page.
const ENTRIES_PER_PHYSICAL_PAGE: u64 = 3;

/// A cell, and the rows that it yields: of a policy, a size, and some asymmetries.
struct PlannedCell {
    cell: SimCell,
    policy: usize,
    size: usize,
    asymmetries: std::ops::Range<usize>,
}

/// A cell's results besides its counts.
type Extras = (Option<TimeLine>, Option<DeviceOutcome>);

/// A cell and its result.
type CellWithResult = (PlannedCell, StoredCell);

impl Sweep {
    /// Runs the sweep over a trace.
    ///
    /// A policy that does not look at costs runs once per size, whatever the asymmetries. Results
    /// in the store are not computed again. The cells run in waves, and each wave's results go to
    /// the store, so that little is lost when the caller asks to stop.
    ///
    /// # Errors
    ///
    /// [`SimError::Interrupted`] only if there is no result at all; the errors of [`check_policies`].
    pub fn run(&self, source: &Source, store: &dyn ResultStore, progress: &PassControl) -> Result<SweepResult, SimError> {
        let registered = self.policies.iter().filter_map(SimPolicy::registered);
        check_policies(source, registered)?;
        let stored = StoredResults::new(store, self.device.as_ref());
        let mut resolved = self.resolve(source, &stored, progress)?;
        let options = SimOptions { warmup: resolved.warmup, ..self.options.clone() };
        let mut facts = stored.facts(&options);
        let (mut results, mut todo) = self.divide(self.plan(&resolved.frames), &stored, &options);
        let from_store = results.iter().map(|(p, _)| p.asymmetries.len()).sum();
        let (mut done, all) = (0, todo.len());
        let mut interrupted = false;
        let mut device = None;
        while !todo.is_empty() || facts.is_none() {
            let count = alike(&todo).min(self.wave(&resolved));
            let wave: Vec<PlannedCell> = todo.drain(..count).collect();
            let report = |share: f64| {
                let cells_done = done as f64 + share * count as f64;
                (progress.report)(cells_done / all.max(1) as f64);
            };
            let progress = PassControl { report: &report, stop: progress.stop };
            if let (Some(at_start), None) = (&self.device, &device) {
                device = Some(at_start.make()?);
            }
            let device = device.as_ref();
            let passed = self.run_wave(wave, source, device, &options, &stored, &progress);
            let (wave_facts, wave_results) = match passed {
                Err(SimError::Interrupted) if facts.is_some() && !results.is_empty() => {
                    interrupted = true;
                    break;
                }
                passed => passed?,
            };
            resolved.extent = Some(TraceExtent::from_facts(&wave_facts));
            facts = Some(wave_facts);
            done += count;
            results.extend(wave_results);
        }
        // Only a trace that was read has notes on its lines.
        resolved.notes.extend(match source.late_notes() {
            none if none.is_empty() => stored.late_notes(source),
            notes => notes,
        });
        Ok(SweepResult { rows: rows(results), resolved, facts: facts.ok_or(SimError::Interrupted)?, from_store, interrupted })
    }

    /// Turns the shares of the sweep into numbers without a run. This reads the trace only if neither its metadata nor the
    /// store has the totals that the shares refer to.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, it states no page size for sizes in bytes, or the caller stops.
    pub fn resolved(
        &self,
        source: &Source,
        store: &dyn ResultStore,
        progress: &PassControl,
    ) -> Result<ResolvedSweep, SimError> {
        let stored = StoredResults::new(store, self.device.as_ref());
        self.resolve(source, &stored, progress)
    }

    /// Divides the cells into those whose results are in the store, and those that have to run.
    fn divide(
        &self,
        plan: Vec<PlannedCell>,
        stored: &StoredResults,
        options: &SimOptions,
    ) -> (Vec<CellWithResult>, VecDeque<PlannedCell>) {
        let mut results = Vec::new();
        let mut todo = VecDeque::new();
        for planned in plan {
            match stored.result(&planned.cell, options, self.time_lines) {
                Some(result) => results.push((planned, result)),
                None => todo.push_back(planned),
            }
        }
        (results, todo)
    }

    /// Runs the cells of a wave and stores their results.
    fn run_wave(
        &self,
        wave: Vec<PlannedCell>,
        source: &Source,
        device: Option<&AnyDevice>,
        options: &SimOptions,
        stored: &StoredResults,
        progress: &PassControl,
    ) -> Result<(TraceFacts, Vec<CellWithResult>), SimError> {
        let cells: Vec<SimCell> = wave.iter().map(|planned| planned.cell.clone()).collect();
        let (outcome, extras) = self.simulate(source, &cells, device, options, progress)?;
        stored.put_extent(TraceExtent::from_facts(&outcome.facts), source);
        stored.put_facts(options, &outcome.facts);
        let found = outcome.counts.into_iter().zip(extras);
        let mut results = Vec::with_capacity(wave.len());
        for (planned, (counts, (time_line, device))) in wave.into_iter().zip(found) {
            let result = StoredCell { counts, time_line, device };
            stored.put_result(&planned.cell, options, &result);
            results.push((planned, result));
        }
        Ok((outcome.facts, results))
    }

    /// The cells of the sweep, policy by policy.
    fn plan(&self, frames: &[u64]) -> Vec<PlannedCell> {
        let mut plan = Vec::new();
        for (policy, spec) in self.policies.iter().enumerate() {
            for (size, &frames) in frames.iter().enumerate() {
                let all = 0..self.asymmetries.len();
                // Of a single asymmetry there is nothing to ask; a guest may have to make a policy to answer.
                let groups: Vec<_> = match all.len() > 1 && spec.looks_at_costs() {
                    true => all.map(|at| at..at + 1).collect(),
                    false => vec![all],
                };
                plan.extend(groups.into_iter().map(|asymmetries| PlannedCell {
                    cell: SimCell { policy: spec.clone(), frames, asymmetry: self.asymmetries[asymmetries.start].ratio() },
                    policy,
                    size,
                    asymmetries,
                }));
            }
        }
        plan
    }

    /// The number of cells that the next wave may have.
    fn wave(&self, resolved: &ResolvedSweep) -> usize {
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
        let physical = self.device.as_ref().map_or(0, DeviceAtStart::physical_pages);
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
        cells: &[SimCell],
        device: Option<&AnyDevice>,
        options: &SimOptions,
        progress: &PassControl,
    ) -> Result<(SimOutcome, Vec<Extras>), SimError> {
        if let Some(device) = device {
            let (outcome, results) = simulate_on_device(source, cells, device, options, progress)?;
            let line_if_requested = |line| self.time_lines.then_some(line);
            let extras = results.into_iter().map(|(line, did)| (line_if_requested(line), Some(did)));
            Ok((outcome, extras.collect()))
        } else if self.time_lines {
            let (outcome, lines) = simulate_with_time_lines(source, cells, options, progress)?;
            Ok((outcome, lines.into_iter().map(|line| (Some(line), None)).collect()))
        } else {
            let outcome = simulate(source, cells, options, progress)?;
            Ok((outcome, vec![(None, None); cells.len()]))
        }
    }

    /// Turns shares into numbers; reads the trace once if neither its metadata nor the store has
    /// the totals that they refer to.
    pub(crate) fn resolve(
        &self,
        source: &Source,
        stored: &StoredResults,
        progress: &PassControl,
    ) -> Result<ResolvedSweep, SimError> {
        let reader = source.open()?;
        let metadata = reader.metadata().clone();
        let notes = reader.notes().to_vec();
        let mut references = reader.references();
        drop(reader);
        let check = |size: &BufferSize| size.check(&metadata, source.label());
        self.sizes.iter().try_for_each(check)?;
        let mut extent = stored.extent();
        let shares = self.sizes.iter().any(|s| matches!(s, BufferSize::Share(_)));
        let warm_share = matches!(self.warmup, Warmup::Share(_));
        let unknown = (shares && metadata.database_pages.is_none()) || (warm_share && references.is_none());
        if unknown && extent.is_none() {
            let scan = scan(source, Foresight::Nothing, progress)?;
            let found = TraceExtent { references: scan.references, distinct_pages: scan.distinct_pages };
            stored.put_extent(found, source);
            extent = Some(found);
        }
        if let Some(extent) = extent {
            references = Some(extent.references);
        }
        let pages = metadata.database_pages.or(extent.map(|extent| extent.distinct_pages));
        let pages = pages.unwrap_or(0);
        let frames = self.sizes.iter();
        let frames = frames.map(|size| size.to_frames(pages, &metadata, source.label()));
        Ok(ResolvedSweep {
            frames: frames.collect::<Result<_, _>>()?,
            warmup: self.warmup.to_references(references.unwrap_or(0)),
            metadata,
            notes,
            references,
            extent,
        })
    }
}

/// How many cells at the front may share a pass. Policies from outside the registry follow in passes of their own, so that one
/// that fails leaves the results of the others in the store.
fn alike(todo: &VecDeque<PlannedCell>) -> usize {
    let is_registered = |planned: &PlannedCell| planned.cell.policy.registered().is_some();
    let first = todo.front().map(is_registered);
    let differs = |planned: &PlannedCell| Some(is_registered(planned)) != first;
    todo.iter().position(differs).unwrap_or(todo.len())
}

fn rows(results: Vec<CellWithResult>) -> Vec<SweepRow> {
    let mut rows: Vec<SweepRow> = Vec::new();
    for (planned, result) in results {
        let time_line = result.time_line.map(Arc::new);
        rows.extend(planned.asymmetries.map(|asymmetry| SweepRow {
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

/// A sweep's shares turned into numbers, and the trace's metadata.
#[derive(Clone, Debug)]
pub struct ResolvedSweep {
    /// Frames of each size.
    pub frames: Vec<u64>,
    /// References of warm-up.
    pub warmup: u64,
    /// The trace's metadata.
    pub metadata: Metadata,
    /// The reader's notes on what it had to guess or to leave out.
    pub notes: Vec<String>,
    /// References of the trace, where known beforehand.
    references: Option<u64>,
    /// The size of the trace, where it has been read already.
    extent: Option<TraceExtent>,
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
            options: SimOptions::default(),
            time_lines: false,
            device: device.map(flash),
        }
    }

    #[test]
    fn waves_are_shorter_where_a_device_takes_time_and_memory() {
        let extent = TraceExtent { references: 1_000_000, distinct_pages: 1000 };
        let resolved = ResolvedSweep {
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
