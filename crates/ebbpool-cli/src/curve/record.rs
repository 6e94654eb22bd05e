//! Curves for machines.

use ebbpool_sim::{Estimate, PageSample, Smallest, Traffic};
use ebbpool_trace::Source;
use serde::Serialize;

use super::Study;
use crate::results::Number;

/// One policy at one size: fields that `compare` has too are named as there.
#[derive(Debug, Serialize)]
pub(super) struct CurveRecord {
    trace: String,
    policy: String,
    frames: u64,
    page_size: Option<u64>,
    asymmetry: Number,
    references: u64,
    warmup: u64,
    distinct_pages: u64,
    hits: u64,
    misses: u64,
    reads: u64,
    writes: u64,
    bytes_read: Option<u64>,
    bytes_written: Option<u64>,
    dirty_left: u64,
    hit_ratio: f64,
    cost: f64,
    /// `exact`, `sampled`, or `two-stack`, whose errors are those against a run of fd-static.
    method: &'static str,
    /// The share of the pages that was sampled; 1 where the figures are exact.
    sampled: Number,
    /// How far off the cost may be, as a share of it; 0 where it is exact.
    error: Option<f64>,
    /// The same of the reads.
    error_reads: Option<f64>,
    /// The same of the writes.
    error_writes: Option<f64>,
    /// The target for which this is the smallest memory.
    target: Option<String>,
}

/// The policies at all sizes, then at the smallest memory that a target takes, then clean pools.
pub(super) fn of_study(study: &Study, source: &Source) -> Vec<CurveRecord> {
    let mut records = Vec::new();
    for (policy, estimates) in study.policies.iter().zip(&study.estimates) {
        let policy = policy.to_string();
        for (&frames, estimate) in study.sizes.iter().zip(estimates) {
            records.push(record(study, source, &policy, frames, estimate, None));
        }
    }
    if let Some(answer) = &study.answer {
        for (policy, smallest) in study.policies.iter().zip(&answer.smallest) {
            if let Some(Smallest {
                frames, estimate, ..
            }) = smallest
            {
                let target = Some(answer.target.to_string());
                let policy = policy.to_string();
                records.push(record(study, source, &policy, *frames, estimate, target));
            }
        }
    }
    let split = study.split.iter();
    let pools = split.flat_map(|split| split.pools.iter().map(|pool| (split.frames, pool)));
    for (frames, pool) in pools {
        let policy = format!("fd-static:clean={}", pool.clean);
        let off = |figure: &dyn Fn(Traffic) -> f64| {
            let run = figure(pool.run.traffic);
            (run > 0.0).then(|| (figure(pool.estimated) / run - 1.0).abs())
        };
        let estimate = Estimate {
            traffic: pool.estimated,
            sample: PageSample::ALL,
            errors: None,
        };
        records.push(CurveRecord {
            method: "two-stack",
            error: off(&|traffic| study.bill(traffic)),
            error_reads: off(&|traffic| traffic.reads as f64),
            error_writes: off(&|traffic| traffic.writes as f64),
            ..record(study, source, &policy, frames, &estimate, None)
        });
    }
    records
}

fn record(
    study: &Study,
    source: &Source,
    policy: &str,
    frames: u64,
    estimate: &Estimate,
    target: Option<String>,
) -> CurveRecord {
    let curves = &study.curves;
    let references = curves.lru().references();
    let page_size = curves.metadata().page_size;
    let bytes = |pages: u64| page_size.map(|size| pages.saturating_mul(size));
    let traffic = estimate.traffic;
    // Chance may make a sample say more misses than there are references.
    let hits = references.saturating_sub(traffic.reads);
    let errors = estimate.errors;
    CurveRecord {
        trace: source.label().into(),
        policy: policy.into(),
        frames,
        page_size,
        asymmetry: Number(study.asymmetry.ratio()),
        references,
        warmup: curves.warmup(),
        distinct_pages: curves.lru().distinct_pages(),
        hits,
        misses: traffic.reads,
        reads: traffic.reads,
        writes: traffic.writes,
        bytes_read: bytes(traffic.reads),
        bytes_written: bytes(traffic.writes),
        dirty_left: traffic.dirty_left,
        hit_ratio: hits as f64 / references as f64,
        cost: study.bill(traffic),
        method: match estimate.sample.is_all() {
            true => "exact",
            false => "sampled",
        },
        sampled: Number(estimate.sample.rate),
        error: errors.map_or(Some(0.0), |errors| errors.cost),
        error_reads: errors.map_or(Some(0.0), |errors| errors.reads),
        error_writes: errors.map_or(Some(0.0), |errors| errors.writes),
        target,
    }
}
