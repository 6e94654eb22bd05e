//! Curves as the report shows them: a comparison over many sizes, and what is known besides.

use ebbpool_sim::{Counts, Row};
use ebbpool_trace::Source;
use ebbpool_trace::stats::Info;

use super::{Study, table};
use crate::charge::{Abilities, Charge};
use crate::compare::{Comparison, share_of, title};
use crate::report::{CellErrors, Curve, Limit};
use crate::target::Figure;

pub(super) fn comparison(study: &Study, source: &Source, nature: Option<Info>) -> Comparison {
    let curves = &study.curves;
    let (facts, metadata) = (curves.facts(), curves.metadata());
    let references = curves.lru().references();
    let mut curve = Curve::new(table::sentence(study), curves.lru());
    let mut rows = Vec::new();
    for (policy, estimates) in study.estimates.iter().enumerate() {
        for (size, (estimate, &frames)) in estimates.iter().zip(&study.sizes).enumerate() {
            let errors = estimate.errors.as_ref();
            curve
                .errors
                .extend(errors.map(|errors| CellErrors::of(policy, size, errors)));
            rows.push(Row {
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
            Figure::Bill => 1.0,
            Figure::Reads | Figure::Writes => references as f64,
        };
        Limit {
            figure: figure.name(),
            most: answer.limit / per_reference,
            text: answer.target.to_string(),
        }
    });
    let charge = Charge {
        abilities: Abilities::default(),
        name: None,
        changing: None,
        asymmetry: study.asymmetry,
        device: None,
    };
    let name = metadata.name.as_deref().unwrap_or(source.label());
    Comparison {
        name: name.into(),
        title: title(name, facts, metadata),
        share_of: share_of(metadata),
        facts,
        warmup: curves.warmup(),
        database_pages: metadata.database_pages,
        page_size: metadata.page_size,
        sizes: study.sizes.iter().map(u64::to_string).collect(),
        frames: study.sizes.clone(),
        policies: study.policies.iter().map(ToString::to_string).collect(),
        charges: vec![charge],
        rows,
        records: Vec::new(),
        interrupted: false,
        bounds: None,
        nature,
        curve: Some(curve),
    }
}
