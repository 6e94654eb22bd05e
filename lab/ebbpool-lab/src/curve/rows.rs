//! Curves as rows of results.

use ebbpool_sim::{Estimate, PageSample, SmallestMemory, Traffic};

use super::CurveStudy;
use crate::numbers::Number;
use crate::schema::result_row;

result_row! {
    /// One policy with one memory size on a curve; fields that a comparison also has mean the same.
    pub struct CurveRow {
        /// The name of the trace in the request.
        trace: String ["" key],
        /// The policy in canonical spelling.
        policy: String ["" key],
        /// Frames of the buffer.
        frames: u64 ["pages" key],
        /// Bytes of a page, if the trace states them.
        page_size: Option<u64> ["bytes"],
        /// R, the cost of a page write in page reads.
        asymmetry: Number ["page reads" key],
        /// Counted references, that is, without the warm-up.
        references: u64 ["references"],
        /// References at the start that are replayed but not counted.
        warmup: u64 ["references" key],
        /// Distinct pages of the trace, warm-up included.
        distinct_pages: u64 ["pages"],
        /// References that found their page in memory.
        hits: u64 ["references" restated],
        /// References that did not find their page in memory.
        misses: u64 ["references" restated],
        /// Page reads.
        reads: u64 ["pages"],
        /// Page writes.
        writes: u64 ["pages"],
        /// Bytes read, if the page size is known.
        bytes_read: Option<u64> ["bytes" restated],
        /// Bytes written, if the page size is known.
        bytes_written: Option<u64> ["bytes" restated],
        /// Pages that are dirty at the end and not written.
        dirty_left: u64 ["pages"],
        /// Hits over references.
        hit_ratio: f64 ["" restated],
        /// The bill per reference.
        cost: f64 ["page reads per reference"],
        /// `exact`, `sampled`, or `two-stack`; the errors of `two-stack` are relative to a run of fd-static.
        method: &'static str [""],
        /// The share of the pages that was sampled; 1 if the figures are exact.
        sampled: Number [""],
        /// The error of the cost, as a share of it; 0 if the cost is exact.
        error: Option<f64> [""],
        /// The error of the reads, as a share of them.
        error_reads: Option<f64> [""],
        /// The error of the writes, as a share of them.
        error_writes: Option<f64> [""],
        /// The target for which `frames` is the smallest memory.
        target: Option<String> ["" key],
        /// `flush` if the pages that are dirty at the end are written and counted, else `free`; null in results of earlier versions.
        at_end: Option<&'static str> ["" key],
        /// Pages that were dirty at the end and written then, also those of `dirty_before`.
        end_writes: u64 ["pages"],
        /// Pages that were dirty when the counting began; with `at_end` flush as many writes are not counted.
        dirty_before: u64 ["pages"],
        /// Pages that checkpoints wrote, or commits of the policy's server, also those of `dirty_before`.
        checkpoint_writes: u64 ["pages"],
        /// When all dirty pages are written, as the request spells it; null without checkpoints.
        checkpoints: Option<String> ["" key],
        /// Those of the misses that write all of their page, and read nothing: misses less `reads`.
        overwrites: u64 ["references"],
        /// Dirty pages that a trim has ended, and that are never written.
        trimmed: u64 ["pages"],
    }
}

/// The rows of the policies at all sizes, then at the smallest memory for a target, then of clean pools.
pub(super) fn of_study(study: &CurveStudy) -> Vec<CurveRow> {
    let mut rows = Vec::new();
    for (policy, estimates) in study.policies.iter().zip(&study.estimates) {
        let policy = policy.to_string();
        for (&frames, estimate) in study.sizes.iter().zip(estimates) {
            rows.push(row(study, &policy, frames, estimate, None));
        }
    }
    if let Some(answer) = &study.answer {
        for (policy, smallest) in study.policies.iter().zip(&answer.smallest) {
            if let Some(SmallestMemory { frames, estimate, .. }) = smallest {
                let target = Some(answer.target.to_string());
                let policy = policy.to_string();
                rows.push(row(study, &policy, *frames, estimate, target));
            }
        }
    }
    let split = study.clean_pools.iter();
    let pools = split.flat_map(|split| split.pools.iter().map(|pool| (split.frames, pool)));
    for (frames, pool) in pools {
        let policy = format!("fd-static:clean={}", pool.clean);
        let error = |figure: &dyn Fn(Traffic) -> f64| {
            let run = figure(pool.run.traffic);
            (run > 0.0).then(|| (figure(pool.estimated) / run - 1.0).abs())
        };
        let estimate = Estimate { traffic: pool.estimated, sample: PageSample::ALL, errors: None };
        rows.push(CurveRow {
            method: "two-stack",
            error: error(&|traffic| study.bill(traffic)),
            error_reads: error(&|traffic| traffic.reads as f64),
            error_writes: error(&|traffic| traffic.writes as f64),
            ..row(study, &policy, frames, &estimate, None)
        });
    }
    rows
}

fn row(study: &CurveStudy, policy: &str, frames: u64, estimate: &Estimate, target: Option<String>) -> CurveRow {
    let references = study.lru.references();
    let page_size = study.metadata.page_size;
    let bytes = |pages: u64| page_size.map(|size| pages.saturating_mul(size));
    let traffic = estimate.traffic;
    // A sample may by chance estimate more misses than references.
    let hits = references.saturating_sub(traffic.misses());
    let errors = estimate.errors;
    CurveRow {
        trace: study.label.clone(),
        policy: policy.into(),
        frames,
        page_size,
        asymmetry: Number(study.asymmetry.ratio()),
        references,
        warmup: study.warmup,
        distinct_pages: study.lru.distinct_pages(),
        hits,
        misses: traffic.misses(),
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
        at_end: Some(study.at_end.name()),
        end_writes: traffic.end_writes,
        dirty_before: traffic.dirty_before,
        checkpoint_writes: traffic.checkpoint_writes,
        checkpoints: study.checkpoints.map(|schedule| schedule.to_string()),
        overwrites: traffic.overwrites,
        trimmed: traffic.trimmed,
    }
}
