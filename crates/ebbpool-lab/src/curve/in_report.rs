//! Converts curves for the report: into a comparison over many sizes with additional data.

use ebbpool_sim::{Counts, SweepRow};

use super::{CurveStudy, TargetFigure};
use crate::compare::{Comparison, share_of};
use crate::pricing::Pricing;
use crate::report::{CellErrors, Curve, Limit};

pub(super) fn comparison(study: CurveStudy) -> Comparison {
    let (facts, metadata) = (study.facts, &study.metadata);
    let references = study.lru.references();
    let mut curve = Curve::new(study.sentence(), &study.lru);
    let mut rows = Vec::new();
    for (policy, estimates) in study.estimates.iter().enumerate() {
        for (size, (estimate, &frames)) in estimates.iter().zip(&study.sizes).enumerate() {
            let errors = estimate.errors.as_ref();
            curve
                .errors
                .extend(errors.map(|errors| CellErrors::of(policy, size, errors)));
            rows.push(SweepRow {
                policy,
                size,
                asymmetry: 0,
                frames,
                counts: Counts {
                    references,
                    misses: estimate.traffic.reads,
                    writes: estimate.traffic.writes,
                    dirty_left: estimate.traffic.dirty_left,
                    ..Counts::default()
                },
                time_line: None,
                device: None,
            });
        }
    }
    curve.limit = study.answer.as_ref().map(|answer| {
        let figure = answer.target.figure;
        let per_reference = match figure {
            TargetFigure::Bill => 1.0,
            TargetFigure::Reads | TargetFigure::Writes => references as f64,
        };
        Limit {
            figure: figure.name(),
            most: answer.limit / per_reference,
            text: answer.target.to_string(),
        }
    });
    let name = metadata.name.as_deref().unwrap_or(&study.label);
    Comparison {
        name: name.into(),
        title: study.title(),
        share_of: share_of(metadata),
        facts,
        warmup: study.warmup,
        database_pages: metadata.database_pages,
        page_size: metadata.page_size,
        sizes: study.sizes.iter().map(u64::to_string).collect(),
        frames: study.sizes.clone(),
        policies: study.policies.iter().map(ToString::to_string).collect(),
        pricings: vec![Pricing::constant(study.asymmetry)],
        rows,
        results: Vec::new(),
        interrupted: false,
        bounds: None,
        info: study.info,
        curve: Some(curve),
    }
}
