//! Converts curves for the report: into a comparison over many sizes with additional data.
//!
//! The least memory that the target needs under any policy is one of the sizes, with that policy's result, and that of
//! LRU, which is known at every size.

use ebbpool_sim::{Counts, Estimate, SimPolicy, SmallestMemory, SweepRow, Traffic};

use super::{CurveStudy, TargetAnswer, TargetFigure};
use crate::compare::{CellErrors, ComparedCell, Comparison, Curve, Limit, in_order, share_of};
use crate::policy_selection::BASELINE;
use crate::pricing::Pricing;
use crate::run_result::{RunResult, TraceSummary};

pub(super) fn comparison(study: CurveStudy) -> Comparison {
    let (facts, metadata) = (study.facts, &study.metadata);
    let references = study.lru.references();
    let mut curve = Curve::new(study.sentence(), &study.lru);
    let answer = study.answer.as_ref().and_then(least_memory);
    curve.at_end = study.sentence_on_end();
    let target = answer.map(|(_, smallest)| (smallest.frames, "target"));
    let knee = || study.knee().map(|frames| (frames, "knee"));
    curve.mark = match study.answer {
        Some(_) => target,
        None => knee(),
    };
    let mut sizes = study.sizes.clone();
    sizes.extend(curve.mark.map(|(frames, _)| frames));
    sizes.sort_unstable();
    sizes.dedup();
    let trace = TraceSummary {
        label: &study.label,
        metadata,
        facts,
        warmup: study.warmup,
        at_end: study.at_end,
        checkpoints: study.checkpoints,
    };
    let mut found = Vec::new();
    for (policy, spec) in study.policies.iter().enumerate() {
        for (size, &frames) in sizes.iter().enumerate() {
            let Some((traffic, estimate)) = result(&study, answer, (policy, spec), frames) else {
                continue;
            };
            let errors = estimate.and_then(|estimate| estimate.errors.as_ref());
            let errors = errors.map(|errors| CellErrors::new(policy, size, errors));
            curve.errors.extend(errors);
            let row = row((policy, size), frames, references, traffic);
            let result = RunResult::new(&trace, spec.to_string(), frames, study.asymmetry, &row.counts);
            found.push(ComparedCell { row, result });
        }
    }
    curve.limit = study.answer.as_ref().map(|answer| {
        let figure = answer.target.figure;
        let per_reference = match figure {
            TargetFigure::Bill => 1.0,
            TargetFigure::Reads | TargetFigure::Writes => references as f64,
        };
        Limit { figure: figure.name(), most: answer.limit / per_reference, text: answer.target.to_string() }
    });
    let name = metadata.name.as_deref().unwrap_or(&study.label);
    let cells = in_order([1, study.policies.len(), sizes.len()], found);
    Comparison {
        name: name.into(),
        title: study.title(),
        share_of: share_of(metadata),
        facts,
        warmup: study.warmup,
        database_pages: metadata.database_pages,
        page_size: metadata.page_size,
        rate: None,
        sizes: sizes.iter().map(u64::to_string).collect(),
        frames: sizes,
        policies: study.policies.iter().map(ToString::to_string).collect(),
        online: study.policies.iter().map(SimPolicy::online).collect(),
        pricings: vec![Pricing::constant(study.asymmetry)],
        cells,
        interrupted: false,
        bounds: None,
        info: study.info,
        curve: Some(curve),
    }
}

/// The policy, as an index, that reaches the target with the least memory, and that memory.
fn least_memory(answer: &TargetAnswer) -> Option<(usize, &SmallestMemory)> {
    let smallest = answer.smallest.iter().enumerate();
    let reached = smallest.filter_map(|(policy, smallest)| Some((policy, smallest.as_ref()?)));
    reached.min_by_key(|(_, smallest)| smallest.frames)
}

/// A policy's traffic with that number of frames, and the estimate that it is from, if it is one; `None` where the study
/// has not run the policy.
fn result<'a>(
    study: &'a CurveStudy,
    answer: Option<(usize, &'a SmallestMemory)>,
    (policy, spec): (usize, &SimPolicy),
    frames: u64,
) -> Option<(Traffic, Option<&'a Estimate>)> {
    if let Ok(size) = study.sizes.binary_search(&frames) {
        let estimate = &study.estimates[policy][size];
        return Some((estimate.traffic, Some(estimate)));
    }
    match answer {
        Some((best, smallest)) if best == policy && smallest.frames == frames => {
            Some((smallest.estimate.traffic, Some(&smallest.estimate)))
        }
        _ => {
            let is_lru = spec.registered().is_some_and(|spec| spec.to_string() == BASELINE);
            is_lru.then(|| (study.lru.traffic_at(frames), None))
        }
    }
}

fn row((policy, size): (usize, usize), frames: u64, references: u64, traffic: Traffic) -> SweepRow {
    SweepRow {
        policy,
        size,
        asymmetry: 0,
        frames,
        counts: Counts {
            references,
            misses: traffic.misses(),
            overwrites: traffic.overwrites,
            writes: traffic.writes,
            dirty_left: traffic.dirty_left,
            end_writes: traffic.end_writes,
            dirty_before: traffic.dirty_before,
            checkpoint_writes: traffic.checkpoint_writes,
            trimmed: traffic.trimmed,
            ..Counts::default()
        },
        time_line: None,
        device: None,
    }
}
