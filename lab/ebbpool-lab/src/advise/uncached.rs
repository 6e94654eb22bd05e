//! The present system of a trace that was recorded below a cache: the device, which serves the references themselves.
//!
//! The caches above have answered their hits already, so that no other buffer is there. Each read of the trace is a page read of
//! the device and each write a page write, whatever the policy of a further cache.

use ebbpool_cost::Unit;
use ebbpool_sim::{Counts, DeviceAtStart};
use ebbpool_trace::Metadata;

use super::assumptions::assumed_asymmetry;
use super::life::WritesByCause;
use super::load::{LoadTerms, SystemLoad};
use super::notes::{AdviceNote, NoteKind};
use super::request::AdviseRequest;
use super::server::ServerKind;
use super::simulation::{SimulatedCell, TraceQuestions};
use crate::curve::CurveStudy;
use crate::error::LabError;
use crate::pricing::Pricing;
use crate::run_result::{RunResult, TraceSummary};

/// The policy of the present system, in its figures.
pub(super) const NONE: &str = "none";

/// The share of the trace's pages, as one over it, that a further cache has if the request names no size: 3 %.
const PAGES_PER_FRAME: u64 = 33;

/// True if the trace was recorded below a cache, and the request names no buffer that is there now.
pub(super) fn is_uncached(request: &AdviseRequest, metadata: &Metadata) -> bool {
    let server = matches!(request.server, None | Some(ServerKind::Other));
    metadata.below_cache && request.now.is_none() && server
}

/// The frames of a further cache from which the curve starts, if no buffer is there and the request names no size. A share of
/// the device would be far more than the pages that the trace has.
pub(super) fn usual_frames(request: &AdviseRequest, metadata: &Metadata, facts: &CurveStudy) -> Option<u64> {
    let is_open = request.frames.is_none() && request.budget.is_none();
    let is_chosen = is_open && is_uncached(request, metadata);
    is_chosen.then(|| (facts.facts.distinct_pages / PAGES_PER_FRAME).max(1))
}

/// The device without a further cache: the counts of the trace after the warm-up.
///
/// # Errors
///
/// If the trace cannot be read, or the caller stops.
pub(super) fn cell(
    questioner: &TraceQuestions,
    facts: &CurveStudy,
    pricing: &Pricing,
    metadata: &Metadata,
) -> Result<SimulatedCell, LabError> {
    let (mut reads, mut writes, mut before) = (0u64, 0u64, facts.warmup);
    let mut reader = questioner.source.open()?;
    let label = questioner.source.label();
    questioner.lab.for_each_batch(&mut reader, label, |batch| {
        let skipped = before.min(batch.len() as u64);
        before -= skipped;
        let counted = batch.writes.iter().skip(skipped as usize);
        let all = counted.len() as u64;
        let written = counted.filter(|write| **write).count() as u64;
        writes += written;
        reads += all - written;
        Ok::<(), LabError>(())
    })?;
    let counts = Counts { references: reads + writes, misses: reads, writes, ..Counts::default() };
    let trace =
        TraceSummary { label, metadata, facts: facts.facts, warmup: facts.warmup, at_end: facts.at_end, checkpoints: None };
    let mut result = RunResult::new(&trace, NONE.into(), 0, pricing.asymmetry, &counts);
    (result.hits, result.misses, result.hit_ratio) = (0, counts.references, 0.0);
    result.overwrites = result.misses - result.reads;
    // A simulated device takes longer for cleaning, which only a run shows.
    let is_simulated = |name: &String| name.starts_with("flash:");
    let costs = pricing.device.as_ref().map(DeviceAtStart::costs);
    let costs = costs.filter(|costs| costs.unit == Unit::Microseconds);
    result.cost_us = costs
        .filter(|_| !pricing.device_name.as_ref().is_some_and(is_simulated))
        .map(|costs| costs.bill(reads, writes).amount / counts.references as f64);
    Ok(SimulatedCell { result, device: None })
}

/// What a request leaves open, and what stands in its place.
pub(super) fn assumed(request: &AdviseRequest) -> Vec<AdviceNote> {
    let size = "the size of the cache is the knee of the bills, or 3 % of the trace's pages without one";
    let is_open = request.frames.is_none() && request.budget.is_none();
    let size = is_open.then(|| AdviceNote::new(NoteKind::Frames, size));
    size.into_iter().chain(assumed_asymmetry(request)).collect()
}

/// The writes that the device takes now.
pub(super) fn causes(terms: &LoadTerms, now: &SystemLoad) -> Vec<WritesByCause> {
    vec![WritesByCause {
        cause: "the writes of the trace".into(),
        writes_per_reference: now.writes_per_reference,
        bytes_per_day: terms.bytes_per_day(now.writes_per_reference),
        included: true,
    }]
}
