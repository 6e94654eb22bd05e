//! Compares policies over memory sizes and asymmetries.

mod curve;

use std::sync::Arc;

use ebbpool_cost::one_line;
use ebbpool_device::arrivals::Rate;
use ebbpool_policy::PolicySpec;
use ebbpool_sim::bound::BoundQuestion;
use ebbpool_sim::{
    GuestPolicy, PassControl, ResolvedSweep, ResultStore, SimError, SimPolicy, Sweep, SweepResult, SweepRow, TraceFacts,
};
use ebbpool_trace::stats::TraceStatistics;
use ebbpool_trace::{Metadata, Source};

use crate::bound::{LazyTrace, SolvedBound};
use crate::error::{LabError, RequestError};
use crate::events::Note;
use crate::lab::Lab;
use crate::memory_size::MemorySize;
use crate::numbers::{self, bytes, frames_and_bytes};
use crate::policy_selection::{BASELINE, PolicySelection};
use crate::pricing::{BillUnit, DeviceFeatures, Pricing, PricingRequest};
use crate::run::CountingRules;
use crate::run_result::{DetailedResult, RunResult, TraceSummary};

pub(crate) use curve::{CellErrors, Curve, Limit};

/// The size of [`Comparison::usual_size`], FD-Buffer's default.
const USUAL_SIZE: &str = "3%";

/// A request for a comparison: every policy with every size at every price.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompareRequest {
    /// The policies.
    pub policies: PolicySelection,
    /// Memory sizes.
    pub sizes: Vec<MemorySize>,
    /// Asymmetries, or one device.
    pub pricing: Vec<PricingRequest>,
    /// How references are counted.
    pub counting: CountingRules,
    /// Whether the lab also computes the lower bound of the bill.
    pub bound: bool,
    /// Whether the answer is for a report, which also describes the trace.
    pub for_report: bool,
    /// Whether each result has a time line. It takes no time, and with it a later report runs no policy again.
    pub time_lines: bool,
    /// Policies from outside the registry, which follow the others in the answer. With some, the selection of policies
    /// may be an empty list.
    pub guests: Vec<Arc<dyn GuestPolicy>>,
}

impl CompareRequest {
    /// A comparison of these policies with these sizes at these prices, without a warm-up and with time lines.
    pub fn new(policies: PolicySelection, sizes: Vec<MemorySize>, pricing: Vec<PricingRequest>) -> Self {
        CompareRequest {
            policies,
            sizes,
            pricing,
            counting: CountingRules::default(),
            bound: false,
            for_report: false,
            time_lines: true,
            guests: Vec::new(),
        }
    }

    /// The policies of the registry; none only if there are guests.
    fn registered(&self, capabilities: &DeviceFeatures) -> Result<Vec<PolicySpec>, RequestError> {
        self.policies.resolve_with(&self.guests, capabilities)
    }

    /// Checks everything that can be checked before the trace is read.
    ///
    /// # Errors
    ///
    /// [`RequestError::NoSize`], [`RequestError::NoPrice`], [`RequestError::RateWithoutDevice`],
    /// [`RequestError::BoundOnDevice`], [`RequestError::BoundOfChanges`], and, if there is no device, the errors of
    /// [`PolicySelection::resolve`].
    pub fn check(&self) -> Result<(), RequestError> {
        if self.sizes.is_empty() {
            return Err(RequestError::NoSize);
        }
        if self.pricing.is_empty() {
            return Err(RequestError::NoPrice);
        }
        self.counting.check(&self.pricing)?;
        let mut on_device = false;
        for pricing in &self.pricing {
            match pricing {
                PricingRequest::Device { .. } if self.bound => {
                    return Err(RequestError::BoundOnDevice);
                }
                PricingRequest::Device { .. } => on_device = true,
                PricingRequest::Asymmetry(spec) if self.bound && spec.constant().is_none() => {
                    return Err(RequestError::BoundOfChanges(spec.clone()));
                }
                PricingRequest::Asymmetry(_) => {}
            }
        }
        if !on_device {
            self.registered(&Default::default())?;
        }
        Ok(())
    }
}

/// The result of a policy with a memory size at a price.
#[derive(Clone, Debug)]
pub struct ComparedCell {
    /// What the run has counted, and where the cell is: `asymmetry` is an index into the prices.
    pub row: SweepRow,
    /// The result, priced.
    pub result: RunResult,
}

/// The cells in their order: for each price, each policy, each size.
pub(crate) fn in_order(
    [pricings, policies, sizes]: [usize; 3],
    found: impl IntoIterator<Item = ComparedCell>,
) -> Vec<Option<ComparedCell>> {
    let mut cells = vec![None; pricings * policies * sizes];
    for cell in found {
        let row = &cell.row;
        let at = (row.asymmetry * policies + row.policy) * sizes + row.size;
        cells[at] = Some(cell);
    }
    cells
}

/// All results over one trace: for each price, each policy, each size.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The trace's name.
    pub name: String,
    /// A line that describes the trace and the device.
    pub title: String,
    /// What a memory size in per cent is a share of, in words.
    pub share_of: &'static str,
    /// The facts that a pass over the trace has counted.
    pub facts: TraceFacts,
    /// References at the start that are replayed but not counted.
    pub warmup: u64,
    /// Pages of the database, if the trace states them.
    pub database_pages: Option<u64>,
    /// Bytes of a page, if the trace states them.
    pub page_size: Option<u64>,
    /// The rate at which references arrive at a device, if the request has one.
    pub rate: Option<Rate>,
    /// The memory sizes as the request spells them.
    pub sizes: Vec<String>,
    /// The memory sizes in frames.
    pub frames: Vec<u64>,
    /// The policies in canonical spelling.
    pub policies: Vec<String>,
    /// For each policy, whether it knows nothing of the future.
    pub online: Vec<bool>,
    /// The prices.
    pub pricings: Vec<Pricing>,
    /// For each price, each policy, each size: the result, or `None` if an interruption has prevented it.
    pub cells: Vec<Option<ComparedCell>>,
    /// If the request asks for it, the bill per reference that no policy can undercut: for each price, each
    /// size.
    pub bounds: Option<Vec<f64>>,
    /// True if the caller stopped before all results were finished.
    pub interrupted: bool,
    /// For a report: the description of the references.
    pub info: Option<TraceStatistics>,
    /// For a report of curves: the additional data.
    pub(crate) curve: Option<Curve>,
}

impl Comparison {
    /// The results of each price, policy by policy.
    pub fn blocks(&self) -> impl Iterator<Item = PriceBlock<'_>> {
        let cells = self.cells.chunks(self.policies.len() * self.sizes.len());
        let blocks = self.pricings.iter().zip(cells);
        blocks.map(|(pricing, cells)| PriceBlock { pricing, cells, sizes: self.sizes.len() })
    }

    /// The index of the size for a sentence: FD-Buffer's default if the comparison has it, otherwise the middle size.
    pub fn usual_size(&self) -> usize {
        let usual = self.sizes.iter().position(|size| size == USUAL_SIZE);
        usual.unwrap_or(self.sizes.len() / 2)
    }

    /// The memory size of that index in words: in frames, in bytes if the trace states its page size, and as a share if
    /// the request has one.
    pub fn memory(&self, size: usize) -> String {
        let (frames, page_size) = (self.frames[size], self.page_size);
        match self.sizes[size].strip_suffix('%') {
            Some(share) => format!("{share} % of {} ({})", self.share_of, frames_and_bytes(frames, page_size)),
            None => match bytes(frames, page_size) {
                Some(bytes) => format!("{} ({bytes})", numbers::frames(frames)),
                None => numbers::frames(frames),
            },
        }
    }

    /// The lower bound at the price and size of these indices.
    pub fn bound(&self, pricing: usize, size: usize) -> Option<f64> {
        let bounds = self.bounds.as_ref()?;
        bounds.get(pricing * self.sizes.len() + size).copied()
    }

    /// The cell at these indices of a price, a policy and a size; `None` if an interruption has prevented it.
    pub fn cell(&self, [pricing, policy, size]: [usize; 3]) -> Option<&ComparedCell> {
        let at = (pricing * self.policies.len() + policy) * self.sizes.len() + size;
        self.cells.get(at)?.as_ref()
    }

    /// The result at these indices.
    pub fn result(&self, indices: [usize; 3]) -> Option<&RunResult> {
        self.cell(indices).map(|cell| &cell.result)
    }

    /// The finished results in their order.
    pub fn finished(&self) -> impl Iterator<Item = &RunResult> {
        self.cells.iter().flatten().map(|cell| &cell.result)
    }

    /// What the finished runs have counted, in the same order.
    pub fn rows(&self) -> impl Iterator<Item = &SweepRow> {
        self.cells.iter().flatten().map(|cell| &cell.row)
    }

    /// The finished results with the figures of the device.
    pub fn detailed(&self) -> impl Iterator<Item = DetailedResult<'_>> {
        self.cells.iter().flatten().map(|ComparedCell { row, result }| {
            let pricing = &self.pricings[row.asymmetry];
            DetailedResult::new(result, pricing, row.device.as_ref())
        })
    }

    /// The unit of all bills. Several prices are always asymmetries, which have the same unit.
    pub fn bill_unit(&self) -> BillUnit {
        self.pricings.first().map_or(BillUnit::PAGE_READS, Pricing::bill_unit)
    }
}

/// The results of one price.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PriceBlock<'a> {
    /// The price.
    pub pricing: &'a Pricing,
    cells: &'a [Option<ComparedCell>],
    sizes: usize,
}

impl<'a> PriceBlock<'a> {
    /// Each policy's results, size by size.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Option<&'a RunResult>>> {
        let result = |cell: &'a Option<ComparedCell>| cell.as_ref().map(|cell| &cell.result);
        let rows = self.cells.chunks(self.sizes);
        rows.map(move |row| row.iter().map(result).collect())
    }

    /// All results at the size of that index, except for those whose device failed.
    pub fn column(&self, size: usize) -> impl Iterator<Item = &'a RunResult> {
        let column = self.cells.iter().skip(size).step_by(self.sizes).flatten();
        let results = column.map(|cell| &cell.result);
        results.filter(|result| result.failed.is_none())
    }

    /// The least bill with the memory size of that index.
    pub fn least_bill(&self, size: usize) -> f64 {
        let costs = self.column(size).map(|result| result.cost);
        costs.fold(f64::INFINITY, f64::min)
    }

    /// The result of [`BASELINE`] with the memory size of that index.
    pub fn baseline(&self, size: usize) -> Option<&'a RunResult> {
        self.column(size).find(|result| result.policy == BASELINE)
    }
}

impl Lab<'_> {
    /// Compares policies on one trace. A caller that stops the work gets the results finished by then.
    ///
    /// # Errors
    ///
    /// If the request is invalid, the trace cannot be read, or the caller stops before the first result.
    pub fn compare(&self, source: &Source, request: &CompareRequest) -> Result<Comparison, LabError> {
        request.check()?;
        let metadata = source.open()?.metadata().clone();
        self.note_capture(source, &metadata);
        let pricings = request.pricing.iter();
        let pricings = pricings.map(|pricing| self.pricing(pricing, source, &metadata));
        let pricings: Vec<Pricing> = pricings.collect::<Result<_, _>>()?;
        pricings.iter().for_each(|pricing| self.notes(&pricing.notes));
        let capabilities = pricings.first().map(|pricing| &pricing.capabilities);
        let policies = request.registered(capabilities.unwrap_or(&Default::default()))?;
        let registered = policies.into_iter().map(SimPolicy::from);
        let guests = request.guests.iter().cloned().map(SimPolicy::Guest);
        let sweep = Sweep {
            policies: registered.chain(guests).collect(),
            sizes: request.sizes.iter().map(|size| size.size).collect(),
            asymmetries: Vec::new(),
            warmup: request.counting.warmup,
            options: request.counting.options(self.threads(), source)?,
            time_lines: request.time_lines,
            device: None,
        };
        let store = self.store(source);
        let swept = self.sweep_all(&sweep, &pricings, source, &*store)?;
        let bounds = match request.bound && !swept.interrupted {
            true => self.lower_bounds(request, &pricings, &swept.resolved, source, &*store)?,
            false => None,
        };
        self.notes(&swept.resolved.notes);
        if swept.from_store > 0 {
            self.events.note(&Note::StoredResults {
                trace: source.label().into(),
                stored: swept.from_store,
                all: swept.rows.len(),
            });
        }
        let info = match request.for_report {
            true => self.stored_info(source, &*store)?,
            false => None,
        };
        let policies = &sweep.policies;
        Ok(self.comparison(request, policies, pricings, source, swept, bounds, info))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one comparison")]
    fn comparison(
        &self,
        request: &CompareRequest,
        policies: &[SimPolicy],
        pricings: Vec<Pricing>,
        source: &Source,
        swept: SweepResult,
        bounds: Option<Vec<f64>>,
        info: Option<TraceStatistics>,
    ) -> Comparison {
        let SweepResult { rows, resolved, facts, interrupted, .. } = swept;
        let trace = TraceSummary {
            label: source.label(),
            metadata: &resolved.metadata,
            facts,
            warmup: resolved.warmup,
            at_end: request.counting.at_end,
            checkpoints: request.counting.checkpoints,
        };
        let sizes = request.sizes.len();
        let priced = |row: SweepRow| {
            let pricing = &pricings[row.asymmetry];
            let policy = policies[row.policy].to_string();
            let asymmetry = pricing.asymmetry;
            let mut result = RunResult::new(&trace, policy, row.frames, asymmetry, &row.counts);
            if let Some(device) = &row.device {
                result.charge_device(pricing, device);
            }
            if let Some(failure) = result.failure() {
                self.notes(&[failure]);
            }
            let bound = bounds.as_ref();
            result.lower_bound = bound.and_then(|bounds| bounds.get(row.asymmetry * sizes + row.size).copied());
            ComparedCell { row, result }
        };
        let cells = in_order([pricings.len(), policies.len(), sizes], rows.into_iter().map(priced));
        let name = resolved.metadata.name.as_deref().unwrap_or(source.label());
        let device = pricings.first().and_then(|pricing| pricing.device_name.as_ref());
        let on_device = device.map_or(String::new(), |device| format!("; on {device}"));
        Comparison {
            name: name.into(),
            title: format!("{}{on_device}", title(name, facts, &resolved.metadata)),
            share_of: share_of(&resolved.metadata),
            facts,
            warmup: resolved.warmup,
            database_pages: resolved.metadata.database_pages,
            page_size: resolved.metadata.page_size,
            rate: request.counting.rate,
            sizes: request.sizes.iter().map(ToString::to_string).collect(),
            policies: policies.iter().map(ToString::to_string).collect(),
            online: policies.iter().map(SimPolicy::online).collect(),
            pricings,
            cells,
            interrupted: interrupted || request.bound && bounds.is_none(),
            bounds,
            info,
            curve: None,
            frames: resolved.frames,
        }
    }

    /// The lower bounds of the bill per reference, for each price and each size. The prices are constant
    /// asymmetries. `None` if the caller stops.
    fn lower_bounds(
        &self,
        request: &CompareRequest,
        pricings: &[Pricing],
        resolved: &ResolvedSweep,
        source: &Source,
        store: &dyn ResultStore,
    ) -> Result<Option<Vec<f64>>, LabError> {
        let questions = pricings.iter().flat_map(|pricing| {
            resolved.frames.iter().map(|&frames| BoundQuestion {
                frames,
                asymmetry: pricing.asymmetry.ratio(),
                at_end: request.counting.at_end,
                warmup: resolved.warmup,
            })
        });
        let questions: Vec<BoundQuestion> = questions.collect();
        let solved = self.with_progress(source.label(), |progress| {
            let mut trace = LazyTrace::new(source, store, progress);
            self.bounds_of(&mut trace, &questions)
        });
        let solved = match solved {
            Err(SimError::Interrupted) => return Ok(None),
            solved => solved?,
        };
        let bill = |bound: &SolvedBound| (!bound.interrupted).then(|| bound.lower_bound());
        Ok(solved.iter().map(bill).collect())
    }

    /// Runs the sweep once for each group of prices. If the caller stops, the rows lack the unfinished
    /// results.
    fn sweep_all(
        &self,
        sweep: &Sweep,
        pricings: &[Pricing],
        source: &Source,
        store: &dyn ResultStore,
    ) -> Result<SweepResult, SimError> {
        let parts = parts(pricings);
        let mut all: Option<SweepResult> = None;
        for (done, part) in parts.iter().enumerate() {
            let report = |share: f64| {
                let share = (done as f64 + share) / parts.len() as f64;
                self.events.progress(source.label(), share);
            };
            let progress = PassControl { report: &report, stop: self.events.stop() };
            let sweep = Sweep {
                asymmetries: part.iter().map(|&at| pricings[at].asymmetry).collect(),
                device: part.first().and_then(|&at| pricings[at].device.clone()),
                ..sweep.clone()
            };
            let swept = match (sweep.run(source, store, &progress), &mut all) {
                (Err(SimError::Interrupted), Some(all)) => {
                    all.interrupted = true;
                    break;
                }
                (swept, _) => swept?,
            };
            let interrupted = swept.interrupted;
            add_part(&mut all, swept, part);
            if interrupted {
                break;
            }
        }
        self.events.progress(source.label(), 1.0);
        let mut all = all.ok_or(SimError::Interrupted)?;
        all.rows.sort_by_key(|row| (row.asymmetry, row.policy, row.size));
        Ok(all)
    }
}

/// Adds the rows of a sweep over one group of prices.
fn add_part(all: &mut Option<SweepResult>, swept: SweepResult, part: &[usize]) {
    let rows = swept.rows.into_iter().map(|row| SweepRow { asymmetry: part[row.asymmetry], ..row });
    match all {
        None => {
            let rows = rows.collect();
            *all = Some(SweepResult { rows, ..swept });
        }
        Some(all) => {
            all.rows.extend(rows);
            all.from_store += swept.from_store;
            all.interrupted = swept.interrupted;
        }
    }
}

/// Groups of prices, as indices, that one sweep serves. The constant asymmetries form one group, because a
/// policy that ignores costs runs once for all of them. Each other price is a group of its own.
fn parts(pricings: &[Pricing]) -> Vec<Vec<usize>> {
    let (plain, served): (Vec<usize>, Vec<usize>) = (0..pricings.len()).partition(|&at| pricings[at].device.is_none());
    let mut parts = vec![plain];
    parts.extend(served.into_iter().map(|at| vec![at]));
    parts.retain(|part| !part.is_empty());
    parts
}

/// What a memory size in per cent is a share of.
pub(crate) fn share_of(metadata: &Metadata) -> &'static str {
    match metadata.database_pages {
        Some(_) => "the database",
        None => "the pages",
    }
}

/// A line that describes a trace.
pub(crate) fn title(name: &str, facts: TraceFacts, metadata: &Metadata) -> String {
    format!(
        "{}: {} references, {} distinct pages{}",
        one_line(name),
        facts.references,
        facts.distinct_pages,
        match metadata.database_pages {
            Some(pages) => format!(" of a database of {pages}"),
            None => String::new(),
        }
    )
}
