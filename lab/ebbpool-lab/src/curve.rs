//! Reads, writes and bill against memory size, and the memory that a target needs.

mod in_report;
mod rows;
mod sentence;
mod target;

use std::sync::Arc;

use ebbpool_cost::Asymmetry;
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{
    AtEnd, BufferSize, CleanPool, CurveOptions, Curves, Estimate, GuestPolicy, LruCurve, PassControl, SimError, SimPolicy,
    SmallestMemory, TraceFacts, Traffic, Warmup, check_policies,
};
use ebbpool_trace::stats::TraceStatistics;
use ebbpool_trace::{Metadata, Source};

use crate::checkpoints::CheckpointSchedule;
use crate::compare::Comparison;
use crate::error::{LabError, RequestError};
use crate::knee;
use crate::lab::Lab;
use crate::memory_size::MemorySize;
use crate::numbers::{self, share};
use crate::policy_selection::{BASELINE, PolicySelection};
use crate::pricing::DeviceFeatures;
use crate::run::CountingRules;

pub use rows::CurveRow;
pub use target::{Target, TargetError, TargetFigure};

/// The most sizes for a request without sizes; each size is half of the next.
const MOST_SIZES: usize = 16;

/// The smallest of these sizes.
const FEWEST_FRAMES: u64 = 4;

/// A request for curves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CurveRequest {
    /// The policies.
    pub policies: PolicySelection,
    /// Policies from outside the registry, which follow the others. If there are some, `policies` may be empty.
    pub guests: Vec<Arc<dyn GuestPolicy>>,
    /// Memory sizes; if empty, all referenced pages, half of them, a quarter, and so on.
    pub sizes: Vec<MemorySize>,
    /// R.
    pub asymmetry: Asymmetry,
    /// Share of the pages to sample at large sizes, above 0 and up to 1, which is exact. `None` stands for
    /// 1 %, or the share that gives 16,384 pages.
    pub sample: Option<f64>,
    /// The target whose smallest memory the lab finds.
    pub target: Option<Target>,
    /// The policy and its memory that a relative target refers to.
    pub baseline: (String, MemorySize),
    /// The memory of fd-static for which the lab varies the size of the clean pool.
    pub clean_pools: Option<MemorySize>,
    /// References at the start that are replayed but not counted.
    pub warmup: Warmup,
    /// Whether the pages that are dirty at the end are written and counted.
    pub at_end: AtEnd,
    /// When all dirty pages are written, except for policies with checkpoints of their own. An interval of time is one of the
    /// trace's times.
    pub checkpoints: Option<CheckpointSchedule>,
    /// Whether the answer is for a report, which also describes the trace.
    pub for_report: bool,
}

impl CurveRequest {
    /// A request for the curves of these policies at this asymmetry.
    pub fn new(policies: PolicySelection, asymmetry: Asymmetry) -> Self {
        CurveRequest {
            policies,
            guests: Vec::new(),
            sizes: Vec::new(),
            asymmetry,
            sample: None,
            target: None,
            baseline: (BASELINE.into(), MemorySize::frames(1)),
            clean_pools: None,
            warmup: Warmup::References(0),
            at_end: AtEnd::default(),
            checkpoints: None,
            for_report: false,
        }
    }

    /// Checks all that can be checked before a pass over the trace; returns the policies.
    fn check(&self, source: &Source, capabilities: &DeviceFeatures, baseline: &PolicySpec) -> Result<Vec<SimPolicy>, LabError> {
        let registered = self.policies.resolve_with(&self.guests, capabilities)?;
        check_policies(source, registered.iter().chain([baseline]))?;
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        if let Some(share) = self.sample.filter(|share| !is_share(*share)) {
            return Err(RequestError::Sample(share).into());
        }
        self.check_sizes(source)?;
        if self.checkpoints.is_some() && self.clean_pools.is_some() {
            return Err(SimError::CleanPoolsWithCheckpoints.into());
        }
        let guests = self.guests.iter().cloned().map(SimPolicy::Guest);
        Ok(registered.into_iter().map(Into::into).chain(guests).collect())
    }

    /// Checks that the trace states what the sizes of the request need.
    fn check_sizes(&self, source: &Source) -> Result<(), LabError> {
        let baseline = self.target.map(|_| &self.baseline.1);
        let sizes = self.sizes.iter().chain(baseline).chain(&self.clean_pools);
        let in_bytes: Vec<BufferSize> =
            sizes.map(|size| size.size).filter(|size| matches!(size, BufferSize::Bytes(_))).collect();
        if in_bytes.is_empty() {
            return Ok(());
        }
        let metadata = source.open()?.metadata().clone();
        for size in in_bytes {
            size.check(&metadata, source.label())?;
        }
        Ok(())
    }
}

/// Curves of policies over one trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CurveStudy {
    /// The name of the trace in the request.
    pub label: String,
    /// Its metadata.
    pub metadata: Metadata,
    /// The facts that a pass over the trace has counted.
    pub facts: TraceFacts,
    /// References at the start that are replayed but not counted.
    pub warmup: u64,
    /// The treatment of the pages that are dirty at the end.
    pub at_end: AtEnd,
    /// When all dirty pages are written.
    pub checkpoints: Option<CheckpointSchedule>,
    /// LRU at every size.
    pub lru: LruCurve,
    /// The share of the pages that is sampled at large sizes.
    pub rate: f64,
    /// The pages that memory sizes are shares of.
    pub pages: u64,
    /// R.
    pub asymmetry: Asymmetry,
    /// The policies.
    pub policies: Vec<SimPolicy>,
    /// Memory sizes in frames, ascending.
    pub sizes: Vec<u64>,
    /// The estimates of each policy, size by size.
    pub estimates: Vec<Vec<Estimate>>,
    /// The memory that the target needs, if the request has one.
    pub answer: Option<TargetAnswer>,
    /// fd-static by its clean pool, if the request asks for it.
    pub clean_pools: Option<CleanPoolCurve>,
    /// For a report: the description of the references.
    pub info: Option<TraceStatistics>,
}

/// The memory that a target needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TargetAnswer {
    /// The target.
    pub target: Target,
    /// The policy that the target refers to.
    pub baseline: PolicySpec,
    /// That policy's memory, in frames.
    pub baseline_frames: u64,
    /// The largest allowed value of the target's figure.
    pub limit: f64,
    /// The smallest memory of each policy; `None` if no memory is enough.
    pub smallest: Vec<Option<SmallestMemory>>,
}

/// fd-static with a number of frames, by its clean pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CleanPoolCurve {
    /// Frames.
    pub frames: u64,
    /// The results by the size of the clean pool, ascending.
    pub pools: Vec<SplitPool>,
}

/// fd-static with one size of its clean pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SplitPool {
    /// Clean pages.
    pub clean: u64,
    /// The traffic that Two-Stack estimates.
    pub estimated: Traffic,
    /// The traffic of a run.
    pub run: Estimate,
}

impl CurveStudy {
    /// A bill in page reads per reference.
    pub fn bill(&self, traffic: Traffic) -> f64 {
        self.asymmetry.bill(traffic.all_reads(), traffic.writes) / self.lru.references() as f64
    }

    /// A memory size as a share of the database.
    pub fn share(&self, frames: u64) -> String {
        share(frames, self.pages)
    }

    /// A memory size in words: in frames, in bytes if the trace states its page size, and as a share.
    pub fn memory(&self, frames: u64) -> String {
        let share = self.share(frames);
        let shares = match numbers::bytes(frames, self.metadata.page_size) {
            Some(bytes) => format!("{bytes}, {share}"),
            None => share,
        };
        format!("{} ({shares})", numbers::frames(frames))
    }

    /// The size from which on every doubling of the memory saves less than a tenth of the least bill; `None` if the largest
    /// size still saves more.
    pub fn knee(&self) -> Option<u64> {
        let sizes = self.sizes.iter().enumerate();
        let bills: Vec<(u64, f64)> = sizes.map(|(size, &frames)| (frames, self.least_bill(size).1)).collect();
        knee::knee(&bills, None, self.lru.distinct_pages()).map(|knee| knee.frames)
    }

    /// The policy with the least bill at one of the sizes.
    fn best_policy(&self, frames: u64) -> Option<&SimPolicy> {
        let size = self.sizes.binary_search(&frames).ok()?;
        self.policies.get(self.least_bill(size).0)
    }

    /// The policy with the least bill at a size, the first of equals, and that bill.
    fn least_bill(&self, size: usize) -> (usize, f64) {
        let estimates = self.estimates.iter().enumerate();
        let bills = estimates.filter_map(|(policy, it)| Some((policy, self.bill(it.get(size)?.traffic))));
        let least = bills.min_by(|(_, one), (_, other)| one.total_cmp(other));
        least.unwrap_or((0, f64::INFINITY))
    }

    /// A line that describes the trace.
    pub fn title(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or(&self.label);
        crate::compare::title(name, self.facts, &self.metadata)
    }

    /// The results as rows: one for each policy and size, then one for each policy at the smallest memory for
    /// the target, then one for each clean pool.
    pub fn rows(&self) -> Vec<CurveRow> {
        rows::of_study(self)
    }

    /// The policies that ran on all pages at every size although the study samples pages, because they have no miniature.
    pub fn without_miniature(&self) -> Vec<String> {
        let policies = self.policies.iter();
        let without = policies.filter(|policy| self.rate < 1.0 && !policy.has_miniature());
        without.map(ToString::to_string).collect()
    }

    /// The answer in a sentence.
    pub fn sentence(&self) -> String {
        sentence::of_study(self)
    }

    /// The study in the form for a report: a comparison over many sizes, with additional data.
    pub fn into_comparison(self) -> Comparison {
        in_report::comparison(self)
    }
}

impl Lab<'_> {
    /// Computes curves over one trace.
    ///
    /// # Errors
    ///
    /// If the request is invalid, the trace cannot be read, or the caller stops. Finished results remain in
    /// the store.
    pub fn curve(&self, source: &Source, request: &CurveRequest) -> Result<CurveStudy, LabError> {
        let capabilities = DeviceFeatures::default();
        let baseline: PolicySpec = request.baseline.0.parse().map_err(RequestError::from)?;
        let baseline = capabilities.supported(baseline)?;
        let policies = request.check(source, &capabilities, &baseline)?;
        let store = self.store(source);
        let counting = CountingRules { at_end: request.at_end, checkpoints: request.checkpoints, ..CountingRules::default() };
        let options = CurveOptions {
            warmup: request.warmup,
            options: counting.options(self.threads(), source)?,
            asymmetry: request.asymmetry.ratio(),
            sample: request.sample,
        };
        let work = |what: &str| format!("{}: {what}", source.label());
        let mut curves =
            self.with_progress(&work("lru at every size"), |progress| Curves::new(source, &*store, &options, progress))?;
        self.notes(curves.notes());
        self.note_capture(source, curves.metadata());
        let sizes = sizes(request, &curves)?;
        let estimates = self.with_progress(&work("sizes"), |progress| {
            let cells = policies.iter().flat_map(|policy| sizes.iter().map(move |&frames| (policy, frames)));
            let cells: Vec<(&SimPolicy, u64)> = cells.collect();
            curves.estimates_at(&cells, progress)
        })?;
        let estimates = estimates.chunks(sizes.len()).map(<[Estimate]>::to_vec);
        let mut study = CurveStudy {
            label: source.label().into(),
            metadata: curves.metadata().clone(),
            facts: curves.facts(),
            warmup: curves.warmup(),
            at_end: request.at_end,
            checkpoints: request.checkpoints,
            lru: curves.lru().clone(),
            rate: curves.rate(),
            pages: curves.pages(),
            asymmetry: request.asymmetry,
            estimates: estimates.collect(),
            policies,
            sizes,
            answer: None,
            clean_pools: None,
            info: None,
        };
        if let Some(target) = request.target {
            let frames = curves.frames(request.baseline.1.size)?;
            study.answer =
                Some(self.with_progress(&work("target"), |progress| {
                    answer(&study, &mut curves, target, baseline, frames, progress)
                })?);
        }
        if let Some(size) = &request.clean_pools {
            let frames = curves.frames(size.size)?;
            study.clean_pools =
                Some(self.with_progress(&work("clean pools"), |progress| clean_pools(&study, &mut curves, frames, progress))?);
        }
        if request.for_report {
            study.info = self.stored_info(source, &*store)?;
        }
        Ok(study)
    }
}

/// The sizes of the request, ascending; if it has none, all pages, half of them, a quarter, and so on.
fn sizes(request: &CurveRequest, curves: &Curves) -> Result<Vec<u64>, SimError> {
    let sizes = request.sizes.iter().map(|size| curves.frames(size.size));
    let mut sizes: Vec<u64> = sizes.collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        let all = curves.lru().distinct_pages();
        sizes.extend(
            std::iter::successors(Some(all), |frames| Some(frames / 2))
                .take_while(|&frames| frames >= FEWEST_FRAMES || frames == all)
                .take(MOST_SIZES),
        );
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn answer(
    study: &CurveStudy,
    curves: &mut Curves,
    target: Target,
    baseline: PolicySpec,
    frames: u64,
    progress: &PassControl,
) -> Result<TargetAnswer, SimError> {
    let estimate = curves.estimates_at(&[(&baseline.clone().into(), frames)], progress)?;
    let estimate = estimate.first().copied().ok_or(SimError::Interrupted)?;
    let references = study.lru.references();
    let figure = |traffic| target.figure.value(traffic, references, study.asymmetry);
    let limit = target.limit(figure(estimate.traffic));
    let is_enough = |traffic| figure(traffic) <= limit;
    let smallest = curves.smallest(&study.policies, &study.sizes, is_enough, progress)?;
    Ok(TargetAnswer { target, baseline, baseline_frames: frames, limit, smallest })
}

/// The clean pools to show, in per cent of the frames, beside the one with the least bill.
const CLEAN_POOLS: [u64; 10] = [1, 2, 5, 10, 25, 50, 75, 90, 95, 99];

/// The clean pools to show: their estimates by Two-Stack, and runs of fd-static.
fn clean_pools(
    study: &CurveStudy,
    curves: &mut Curves,
    frames: u64,
    progress: &PassControl,
) -> Result<CleanPoolCurve, SimError> {
    let all = curves.clean_pools(frames, progress)?;
    let bill = |pool: &CleanPool| study.bill(pool.traffic);
    let best = all.iter().min_by(|a, b| bill(a).total_cmp(&bill(b)));
    let mut shown: Vec<u64> = CLEAN_POOLS
        .iter()
        .map(|percent| (u128::from(frames) * u128::from(*percent) / 100) as u64)
        .chain(best.map(|best| best.clean))
        .collect();
    shown.sort_unstable();
    shown.dedup();
    let shown = all.iter().filter(|pool| shown.contains(&pool.clean));
    let pools: Vec<(&CleanPool, SimPolicy)> = shown
        .filter_map(|pool| {
            let policy = format!("fd-static:clean={}", pool.clean);
            let policy: PolicySpec = policy.parse().ok()?;
            Some((pool, policy.into()))
        })
        .collect();
    let cells: Vec<_> = pools.iter().map(|(_, policy)| (policy, frames)).collect();
    let runs = curves.estimates_at(&cells, progress)?;
    let pools = pools.iter().zip(runs).map(|((pool, _), run)| SplitPool { clean: pool.clean, estimated: pool.traffic, run });
    Ok(CleanPoolCurve { frames, pools: pools.collect() })
}
