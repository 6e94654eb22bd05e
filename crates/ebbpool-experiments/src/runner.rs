//! Runs simulations in as few passes as possible, and stores their results.

use std::cell::{Cell as Counter, RefCell};
use std::collections::HashMap;
#[cfg(unix)]
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{DeviceFeatures, Pricing, Settings, TraceSummary};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{
    Moment, NoObserver, NoStore, PassControl, ResolvedSweep, ResultStore, SimCell, SimError,
    SimOptions, SimPolicy, Sweep, SweepResult, SweepRow, simulate_one,
};
use ebbpool_trace::{Batch, Source};

use super::cell_group::{CellGroup, GroupPolicies, groups};
use super::cell_values;
use super::listener::Listener;
use super::metric::{Metric, Values};
use super::optimum;
use super::parsed::Parsed;
use super::plan::{CellPolicy, ExperimentCell, PseudoPolicy, RunConfig};
#[cfg(unix)]
use super::real;
use super::traces::Traces;
use super::work::{WorkAmount, WorkClock, WorkKind};
use crate::error::ExperimentError;

/// The result of one simulation.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredCell {
    pub(crate) values: Values,
    pub(crate) moments: Vec<Moment>,
    /// The policy in canonical spelling, or the name of what takes its place.
    pub(crate) spec: String,
    /// The policy, if the simulator computed the result and the policy is one of the registry.
    pub(crate) simulated: Option<PolicySpec>,
    pub(crate) frames: u64,
    /// The initial cost of a write for the policies, in page reads.
    pub(crate) asymmetry: f64,
    /// The initial cost of a read, in the unit of the moments' bills.
    pub(crate) read_cost: f64,
    /// Why the device failed, so that the figures cover a part of the trace only.
    pub(crate) failed: Option<String>,
}

/// Runs simulations and counts their results.
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

impl<'a> Runner<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        events: &'a dyn Listener,
        clock: &'a WorkClock<'a>,
        traces: Traces,
    ) -> Self {
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

    pub(crate) fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.settings.threads.unwrap_or_else(cores)
    }

    /// The store for the results over a trace.
    pub(crate) fn store(&self, source: &Source) -> Box<dyn ResultStore> {
        let directory = self.settings.results.as_ref();
        match directory.and_then(|directory| directory.of_trace(source)) {
            Some(results) => Box::new(results),
            None => Box::new(NoStore),
        }
    }

    /// Runs the cells whose results are not stored, and returns the results of all.
    pub(crate) fn run(
        &self,
        cells: &[ExperimentCell],
        time_lines: bool,
    ) -> Result<HashMap<ExperimentCell, MeasuredCell>, ExperimentError> {
        let mut measured = HashMap::new();
        for group in groups(cells) {
            #[cfg(unix)]
            if let Some(file) = group.config.file() {
                self.run_on_file(&group, file, &mut measured)?;
                continue;
            }
            match &group.policies {
                GroupPolicies::Simulated(policies) => {
                    self.run_group(&group, policies, time_lines, &mut measured)?;
                }
                GroupPolicies::Pseudo(PseudoPolicy::Optimum) => {
                    self.run_optimum(&group, &mut measured)?;
                }
                GroupPolicies::Pseudo(PseudoPolicy::LowerBound) => {
                    self.run_lower_bound(&group, &mut measured)?;
                }
            }
        }
        Ok(measured)
    }

    fn run_group(
        &self,
        group: &CellGroup,
        policies: &[CellPolicy],
        time_lines: bool,
        measured: &mut HashMap<ExperimentCell, MeasuredCell>,
    ) -> Result<(), ExperimentError> {
        let config = &group.config;
        let source = self.traces.source(&config.trace)?;
        let pricings = group.pricings(&source)?;
        let Some(first) = pricings.first() else {
            return Ok(());
        };
        let simulated = policies
            .iter()
            .map(|policy| policy.supported(&first.capabilities))
            .collect::<Result<Vec<SimPolicy>, _>>()?;
        let sweep = Sweep {
            policies: simulated.clone(),
            sizes: group.sizes(),
            asymmetries: pricings.iter().map(|pricing| pricing.asymmetry).collect(),
            warmup: *config.warmup.get(),
            options: self.options(config),
            time_lines,
            device: first.device.clone(),
        };
        let work = (group.kind(), group.work(references(&source)?));
        let swept = self.sweep(&sweep, &source, work)?;
        let SweepResult {
            rows,
            resolved,
            facts,
            ..
        } = swept;
        for row in rows {
            let pricing = &pricings[row.asymmetry];
            let mut of_trace = TraceSummary::new(source.label(), &resolved.metadata, facts);
            of_trace.warmup = resolved.warmup;
            of_trace.at_end = *config.at_end.get();
            let policy = &simulated[row.policy];
            let result = MeasuredCell {
                simulated: policy.registered().cloned(),
                ..self.measured(&of_trace, policy.to_string(), pricing, &row)
            };
            let cell = ExperimentCell {
                config: config.clone(),
                policy: policies[row.policy].clone(),
                frames: group.frames[row.size].clone(),
                asymmetry: group.asymmetries[row.asymmetry].clone(),
            };
            measured.insert(cell, result);
        }
        Ok(())
    }

    /// The result of a cell from a row of the sweep, without the policy.
    pub(crate) fn measured(
        &self,
        trace: &TraceSummary,
        spec: String,
        pricing: &Pricing,
        row: &SweepRow,
    ) -> MeasuredCell {
        let result = cell_values::measured(trace, spec, pricing, row);
        if let Some(failed) = &result.failed {
            self.note(format!(
                "{} with {} frames: {failed}; its figures end there",
                result.spec, row.frames
            ));
        }
        result
    }

    /// Runs the cells one after the other on a real file. Such measurements are not stored.
    #[cfg(unix)]
    fn run_on_file(
        &self,
        group: &CellGroup,
        file: &Path,
        measured: &mut HashMap<ExperimentCell, MeasuredCell>,
    ) -> Result<(), ExperimentError> {
        let source = self.traces.source(&group.config.trace)?;
        for cell in group.all() {
            self.clock.begin(WorkKind::File, references(&source)?);
            let result = real::measure(self, &cell, file, &source)?;
            measured.insert(cell, result);
            self.computed.set(self.computed.get() + 1);
            self.clock.end(0.0);
        }
        Ok(())
    }

    fn sweep(
        &self,
        sweep: &Sweep,
        source: &Source,
        work: (WorkKind, f64),
    ) -> Result<SweepResult, ExperimentError> {
        let store = self.store(source);
        let report = |share: f64| self.clock.advance(share);
        let progress = PassControl {
            report: &report,
            stop: self.events.stop(),
        };
        self.clock.begin(work.0, work.1);
        let swept = sweep.run(source, store.as_ref(), &progress)?;
        if swept.interrupted {
            return Err(SimError::Interrupted.into());
        }
        let rows = swept.rows.len();
        self.clock.end(swept.from_store as f64 / rows.max(1) as f64);
        self.stored.set(self.stored.get() + swept.from_store as u64);
        let computed = rows - swept.from_store.min(rows);
        self.computed.set(self.computed.get() + computed as u64);
        Ok(swept)
    }

    pub(crate) fn options(&self, config: &RunConfig) -> SimOptions {
        SimOptions {
            at_end: *config.at_end.get(),
            cluster_size: *config.cluster_size.get(),
            threads: self.threads(),
            ..SimOptions::default()
        }
    }

    /// Runs each simulated cell once more, alone and on one thread, and adds its computing time to the results.
    /// The time on a real file already includes computing.
    pub(crate) fn time(
        &self,
        measured: &mut HashMap<ExperimentCell, MeasuredCell>,
    ) -> Result<(), ExperimentError> {
        let progress = PassControl {
            report: &|share| self.clock.advance(share),
            stop: self.events.stop(),
        };
        for (cell, result) in measured {
            let Some(policy) = result.simulated.clone() else {
                continue;
            };
            let config = &cell.config;
            let source = self.traces.source(&config.trace)?;
            let sim_cell = SimCell {
                policy: policy.into(),
                frames: result.frames,
                asymmetry: result.asymmetry,
            };
            let options = SimOptions {
                threads: 1,
                ..self.options(config)
            };
            self.clock.begin(WorkKind::Timing, references(&source)?);
            let start = Instant::now();
            let (_, facts, NoObserver) =
                simulate_one(&source, &sim_cell, &options, &progress, NoObserver)?;
            self.clock.end(0.0);
            let ns = start.elapsed().as_secs_f64() * 1e9 / facts.references as f64;
            result.values.insert(Metric::ComputingNs, ns);
            if let Some(us) = result.values.get(&Metric::CostUs) {
                let share = ns / (ns + 1e3 * us);
                result.values.insert(Metric::ComputingShare, share);
            }
        }
        Ok(())
    }

    /// Finds the cheapest schedules by trying all.
    fn run_optimum(
        &self,
        group: &CellGroup,
        measured: &mut HashMap<ExperimentCell, MeasuredCell>,
    ) -> Result<(), ExperimentError> {
        let config = &group.config;
        let source = self.traces.source(&config.trace)?;
        let references = references_of(&source)?;
        let resolved = self.resolved(group, &source)?;
        for (size, &frames) in group.frames.iter().zip(&resolved.frames) {
            for request in &group.asymmetries {
                let asymmetry = pricing_of(config, request.as_ref(), &resolved.metadata)?.asymmetry;
                let skipped = usize::try_from(resolved.warmup).unwrap_or(usize::MAX);
                let bill = optimum::cheapest(
                    &references,
                    usize::try_from(frames).unwrap_or(usize::MAX),
                    asymmetry.ratio(),
                    skipped,
                );
                let Some(bill) = bill else {
                    return Err(ExperimentError::Invalid(format!(
                        "the optimum needs a trial of all schedules, and {} has too many; omit 'optimum', or use a trace of at most {} references",
                        source.label(),
                        optimum::MOST_REFERENCES
                    )));
                };
                let counted = references.len().saturating_sub(skipped).max(1) as f64;
                let values = Values::from([
                    (Metric::Reads, bill.reads as f64),
                    (Metric::Writes, bill.writes as f64),
                    (Metric::Transfers, (bill.reads + bill.writes) as f64),
                    (Metric::HitRatio, 1.0 - bill.reads as f64 / counted),
                    (
                        Metric::Cost,
                        asymmetry.bill(bill.reads, bill.writes) / counted,
                    ),
                ]);
                let cell = ExperimentCell {
                    config: config.clone(),
                    policy: CellPolicy::Pseudo(PseudoPolicy::Optimum),
                    frames: size.clone(),
                    asymmetry: request.clone(),
                };
                let result = MeasuredCell {
                    values,
                    spec: PseudoPolicy::Optimum.name().into(),
                    frames,
                    asymmetry: asymmetry.ratio(),
                    read_cost: 1.0,
                    ..MeasuredCell::default()
                };
                measured.insert(cell, result);
            }
        }
        Ok(())
    }

    /// The frames and the warm-up of a group as numbers, and the trace's metadata.
    pub(crate) fn resolved(
        &self,
        group: &CellGroup,
        source: &Source,
    ) -> Result<ResolvedSweep, ExperimentError> {
        let config = &group.config;
        let sweep = Sweep {
            policies: Vec::new(),
            sizes: group.sizes(),
            asymmetries: Vec::new(),
            warmup: *config.warmup.get(),
            options: self.options(config),
            time_lines: false,
            device: None,
        };
        Ok(self.sweep(&sweep, source, (group.kind(), 0.0))?.resolved)
    }
}

/// The number of references of a trace, or a guess if the trace does not state it.
pub(crate) fn references(source: &Source) -> Result<f64, ExperimentError> {
    const GUESS: u64 = 1_000_000;
    Ok(source.open()?.references().unwrap_or(GUESS) as f64)
}

/// The work of simulations, approximately.
pub(crate) fn work_of(
    cells: &[ExperimentCell],
    traces: &Traces,
    stop: &AtomicBool,
) -> Result<WorkAmount, ExperimentError> {
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
    trace: &ebbpool_trace::Metadata,
) -> Result<Pricing, ExperimentError> {
    Ok(Pricing::new(&config.pricing(asymmetry)?, trace)?)
}

/// The policy on a device with these capabilities, or an error if the device lacks information that the policy
/// needs.
pub(crate) fn supported(
    policy: &PolicySpec,
    capabilities: &DeviceFeatures,
) -> Result<PolicySpec, ExperimentError> {
    Ok(capabilities.policy(&policy.to_string())?)
}
