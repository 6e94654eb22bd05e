//! Asks the lab for the results of an experiment's cells, in as few questions as possible.

pub(crate) mod real;

use std::cell::{Cell as Counter, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{
    Asymmetry, BoundResult, Comparison, Lab, LabError, LabEvents, MemorySize, Note, Pricing, PricingRequest, RequestError,
    RunRequest, Settings, SimError,
};
use ebbpool_sim::AtEnd;
use ebbpool_trace::{Batch, Metadata, Source};

use super::cell_group::{CellGroup, GroupPolicies, groups};
use super::cell_values::{self, MeasuredCell, MeasuredCells};
use super::format::contenders::PseudoPolicy;
use super::listener::Listener;
use super::metric::{Metric, Values};
use super::optimum;
use super::parsed::Parsed;
use super::plan::{CellPolicy, ExperimentCell, RunConfig};
use super::traces::Traces;
use super::work::{WorkAmount, WorkClock, WorkKind};
use crate::error::ExperimentError;

/// Refuses a trace of which a warm-up leaves nothing to count.
pub(crate) fn counted_of(source: &Source, references: u64, warmup: u64) -> Result<(), SimError> {
    let trace = source.label().to_owned();
    match references {
        0 => Err(SimError::Empty { trace }),
        references if warmup >= references => Err(SimError::AllWarmup { trace, references, warmup }),
        _ => Ok(()),
    }
}

/// Asks the lab, and counts its results.
pub(crate) struct Runner<'a> {
    pub(crate) traces: Traces,
    pub(crate) settings: &'a Settings,
    pub(crate) events: &'a dyn Listener,
    pub(crate) clock: &'a WorkClock<'a>,
    /// The number of results from the store.
    pub(crate) stored: Counter<u64>,
    pub(crate) computed: Counter<u64>,
    notes: RefCell<Vec<String>>,
}

/// The lab's events while it answers a question, whose progress is that of a part of the experiments.
struct QuestionEvents<'a> {
    events: &'a dyn Listener,
    clock: &'a WorkClock<'a>,
    /// Whether the caller's user gets the notes. The report has what matters of those on simulations, of which each experiment
    /// would repeat the others.
    forwards_notes: bool,
    /// Results from the store.
    stored: AtomicU64,
}

impl LabEvents for QuestionEvents<'_> {
    fn progress(&self, _work: &str, share: f64) {
        self.clock.advance(share);
    }

    fn note(&self, note: &Note) {
        match note {
            Note::StoredResults { stored, .. } => {
                self.stored.fetch_add(*stored as u64, Ordering::Relaxed);
            }
            note if self.forwards_notes => self.events.note(note),
            _ => {}
        }
    }

    fn may_overwrite(&self, path: &Path) -> bool {
        self.events.may_overwrite(path)
    }

    fn stop(&self) -> &AtomicBool {
        self.events.stop()
    }
}

impl<'a> Runner<'a> {
    pub(crate) fn new(settings: &'a Settings, events: &'a dyn Listener, clock: &'a WorkClock<'a>, traces: Traces) -> Self {
        Runner {
            traces,
            settings,
            events,
            clock,
            stored: Counter::new(0),
            computed: Counter::new(0),
            notes: RefCell::default(),
        }
    }

    /// The notes since the last call.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.borrow_mut())
    }

    fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// The lab's answer to a question, which is this work, in references times simulations. `results` counts the results in the
    /// answer.
    pub(crate) fn ask<T>(
        &self,
        (kind, references): (WorkKind, f64),
        results: impl FnOnce(&T) -> usize,
        question: impl FnOnce(&Lab) -> Result<T, LabError>,
    ) -> Result<T, ExperimentError> {
        let events = QuestionEvents {
            events: self.events,
            clock: self.clock,
            forwards_notes: kind == WorkKind::File,
            stored: AtomicU64::new(0),
        };
        self.clock.begin(kind, references);
        let answer = question(&Lab::new(self.settings.clone(), &events))?;
        let (stored, results) = (events.stored.into_inner(), results(&answer) as u64);
        self.clock.end(stored as f64 / results.max(1) as f64);
        self.count(stored, results.saturating_sub(stored));
        Ok(answer)
    }

    pub(crate) fn count(&self, stored: u64, computed: u64) {
        self.stored.set(self.stored.get() + stored);
        self.computed.set(self.computed.get() + computed);
    }

    /// The results of the cells.
    pub(crate) fn run(&self, cells: &[ExperimentCell], time_lines: bool) -> Result<MeasuredCells, ExperimentError> {
        let mut measured = HashMap::new();
        for group in groups(cells) {
            let source = self.traces.source(&group.config.trace)?;
            if let Some(file) = group.config.file() {
                self.run_on_file(&group, file, &source, &mut measured)?;
                continue;
            }
            match &group.policies {
                GroupPolicies::Simulated(policies) => {
                    self.compare(&group, policies, &source, time_lines, &mut measured)?;
                }
                GroupPolicies::Pseudo(PseudoPolicy::Optimum) => {
                    self.find_optimum(&group, &source, &mut measured)?;
                }
                GroupPolicies::Pseudo(PseudoPolicy::LowerBound) => {
                    self.bound(&group, &source, &mut measured)?;
                }
            }
        }
        Ok(measured)
    }

    fn compare(
        &self,
        group: &CellGroup,
        policies: &[CellPolicy],
        source: &Source,
        time_lines: bool,
        measured: &mut MeasuredCells,
    ) -> Result<(), ExperimentError> {
        let mut request = group.comparison(policies)?;
        request.time_lines = time_lines;
        let work = (group.kind(), group.work(references(source)?));
        let results = |comparison: &Comparison| comparison.cells.len();
        let comparison = self.ask(work, results, |lab| lab.compare(source, &request))?;
        if comparison.interrupted {
            return Err(SimError::Interrupted.into());
        }
        for (price, pricing) in comparison.pricings.iter().enumerate() {
            for policy in policies {
                let simulated = policy.supported(&pricing.capabilities)?;
                // Two texts of an experiment may name the same policy, which the comparison has once.
                let name = simulated.to_string();
                let at = comparison.policies.iter().position(|other| *other == name);
                for size in 0..group.frames.len() {
                    let cell = at.and_then(|policy| comparison.cell([price, policy, size]));
                    let Some(cell) = cell else { continue };
                    cell.result.failure().into_iter().for_each(|it| self.note(it));
                    let result =
                        MeasuredCell { simulated: simulated.registered().cloned(), ..cell_values::measured(cell, pricing) };
                    measured.insert(group.cell(policy.clone(), size, price), result);
                }
            }
        }
        Ok(())
    }

    /// Runs the cells one after the other on a real file. Such measurements are not stored.
    fn run_on_file(
        &self,
        group: &CellGroup,
        file: &Path,
        source: &Source,
        measured: &mut MeasuredCells,
    ) -> Result<(), ExperimentError> {
        for cell in group.all() {
            let result = real::measure(self, &cell, file, source)?;
            measured.insert(cell, result);
        }
        Ok(())
    }

    /// Runs each simulated cell once more, alone and on one thread, and adds its computing time to the results: no device
    /// serves it, whose model takes time of its own. The time on a real file already includes computing.
    pub(crate) fn time(&self, measured: &mut MeasuredCells) -> Result<(), ExperimentError> {
        for (cell, result) in measured {
            // What a policy does that gets erase counts it does on their device only.
            let simulated = result.simulated.clone();
            let Some(policy) = simulated.filter(|policy| !policy.asks_erase_counts()) else {
                continue;
            };
            let config = &cell.config;
            let source = self.traces.source(&config.trace)?;
            let size = MemorySize::frames(result.frames);
            let mut request = RunRequest::new(policy, size, constant(result.asymmetry)?);
            request.counting.at_end = *config.at_end.get();
            request.counting.cluster_size = *config.cluster_size.get();
            let work = (WorkKind::Timing, references(&source)?);
            let timed = self.ask(work, |_| 0, |lab| lab.run(&source, &request))?;
            let Some(per_second) = timed.result.references_per_second else {
                continue;
            };
            let ns = 1e9 / per_second;
            result.values.insert(Metric::ComputingNs, ns);
            if let Some(us) = result.values.get(&Metric::CostUs) {
                let share = ns / (ns + 1e3 * us);
                result.values.insert(Metric::ComputingShare, share);
            }
        }
        Ok(())
    }

    /// Finds the cheapest schedules by trying all.
    fn find_optimum(&self, group: &CellGroup, source: &Source, measured: &mut MeasuredCells) -> Result<(), ExperimentError> {
        let config = &group.config;
        let metadata = source.open()?.metadata().clone();
        let references = references_of(source)?;
        let pages: HashSet<u64> = references.iter().map(|(page, _)| *page).collect();
        let pages = metadata.database_pages.unwrap_or(pages.len() as u64);
        let skipped = config.warmup.get().to_references(references.len() as u64);
        counted_of(source, references.len() as u64, skipped)?;
        if *config.at_end.get() == AtEnd::Flush {
            return Err(ExperimentError::Invalid(
                "the optimum leaves dirty pages at the end; say at-end = \"free\", or omit 'optimum'".into(),
            ));
        }
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        for (size, memory) in group.frames.iter().enumerate() {
            let memory = memory.get().size;
            let frames = memory.to_frames(pages, &metadata, source.label())?;
            for (price, request) in group.asymmetries.iter().enumerate() {
                let asymmetry = pricing_of(config, request.as_ref(), &metadata)?.asymmetry;
                let bill =
                    optimum::cheapest(&references, usize::try_from(frames).unwrap_or(usize::MAX), asymmetry.ratio(), skipped);
                let Some(bill) = bill else {
                    return Err(ExperimentError::Invalid(format!(
                        "the optimum needs a trial of all schedules, and {} has too many; omit 'optimum', or use a trace of at most {} references",
                        source.label(),
                        optimum::MOST_REFERENCES
                    )));
                };
                let counted = (references.len() - skipped) as f64;
                let values = Values::from([
                    (Metric::Reads, bill.reads as f64),
                    (Metric::Writes, bill.writes as f64),
                    (Metric::Transfers, (bill.reads + bill.writes) as f64),
                    (Metric::HitRatio, 1.0 - bill.reads as f64 / counted),
                    (Metric::Cost, asymmetry.bill(bill.reads, bill.writes) / counted),
                ]);
                let pseudo = PseudoPolicy::Optimum;
                let result = pseudo.measured(values, frames, asymmetry.ratio());
                measured.insert(group.cell(CellPolicy::Pseudo(pseudo), size, price), result);
            }
        }
        Ok(())
    }

    /// The bounds that no policy can undercut.
    fn bound(&self, group: &CellGroup, source: &Source, measured: &mut MeasuredCells) -> Result<(), ExperimentError> {
        let pseudo = PseudoPolicy::LowerBound;
        let Some(request) = group.bounds() else {
            return Err(ExperimentError::Invalid(format!(
                "the lower bound needs a constant asymmetry; omit '{}', or device and changing asymmetries",
                pseudo.name()
            )));
        };
        let work = (group.kind(), group.work(references(source)?));
        let bounds = self.ask(work, Vec::len, |lab| lab.bound(source, &request))?;
        if bounds.iter().any(|bound| bound.interrupted) {
            return Err(SimError::Interrupted.into());
        }
        for (at, bound) in bounds.iter().enumerate() {
            let BoundResult { lower_bound, frames, asymmetry, .. } = bound;
            let values = Values::from([(Metric::Cost, *lower_bound)]);
            let result = pseudo.measured(values, *frames, asymmetry.0);
            let (price, size) = (at / group.frames.len(), at % group.frames.len());
            measured.insert(group.cell(CellPolicy::Pseudo(pseudo), size, price), result);
        }
        Ok(())
    }
}

impl PseudoPolicy {
    /// The result of a bound, whose costs are in page reads.
    fn measured(self, values: Values, frames: u64, asymmetry: f64) -> MeasuredCell {
        MeasuredCell { values, spec: self.name().into(), frames, asymmetry, read_cost: 1.0, ..MeasuredCell::default() }
    }
}

/// The prices of a constant asymmetry.
pub(crate) fn constant(asymmetry: f64) -> Result<PricingRequest, ExperimentError> {
    let asymmetry = Asymmetry::new(asymmetry).map_err(RequestError::from)?;
    Ok(PricingRequest::Asymmetry(asymmetry.into()))
}

/// The number of references of a trace, or a guess if the trace does not state it.
pub(crate) fn references(source: &Source) -> Result<f64, ExperimentError> {
    const GUESS: u64 = 1_000_000;
    Ok(source.open()?.references().unwrap_or(GUESS) as f64)
}

/// The work of simulations, approximately.
pub(crate) fn work_of(cells: &[ExperimentCell], traces: &Traces, stop: &AtomicBool) -> Result<WorkAmount, ExperimentError> {
    let mut work = WorkAmount::default();
    for group in groups(cells) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let source = traces.source(&group.config.trace)?;
        work.add(group.kind(), group.work(references(&source)?));
    }
    Ok(work)
}

/// All references of a short trace.
fn references_of(source: &Source) -> Result<Vec<(u64, bool)>, ExperimentError> {
    let mut reader = source.open()?;
    let mut batch = Batch::new();
    let mut references = Vec::new();
    while reader.next_batch(&mut batch, optimum::MOST_REFERENCES)? {
        references.extend(batch.iter());
        if references.len() > optimum::MOST_REFERENCES {
            break;
        }
    }
    Ok(references)
}

/// The pricing of the cells with this config and asymmetry.
pub(crate) fn pricing_of(
    config: &RunConfig,
    asymmetry: Option<&Parsed<AsymmetrySpec>>,
    trace: &Metadata,
) -> Result<Pricing, ExperimentError> {
    Ok(Pricing::new(&config.pricing(asymmetry)?, trace)?)
}
