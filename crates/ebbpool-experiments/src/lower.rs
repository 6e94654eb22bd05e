//! The lower bound that no policy can undercut, as a pseudo-policy of experiments.

use std::collections::HashMap;

use ebbpool_sim::bound::{BoundQuestion, RecordedTrace, solve_all};
use ebbpool_sim::{AtEnd, PassControl, ResolvedSweep, ResultStore, SimError};
use serde::{Deserialize, Serialize};

use super::cell_group::CellGroup;
use super::metric::{Metric, Values};
use super::plan::{CellPolicy, ExperimentCell, PseudoPolicy};
use super::runner::{MeasuredCell, Runner, pricing_of};
use super::work::WorkKind;
use crate::error::ExperimentError;

/// The stored form of a bound: page reads per counted reference.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct StoredBound {
    cost: f64,
}

/// A bound that an experiment needs.
struct BoundQuery {
    cell: ExperimentCell,
    question: BoundQuestion,
    stored: Option<StoredBound>,
}

impl BoundQuery {
    fn key(&self) -> String {
        let BoundQuestion {
            frames,
            asymmetry,
            at_end,
            warmup,
        } = &self.question;
        let at_end = match at_end {
            AtEnd::Free => "free",
            AtEnd::Flush => "flush",
        };
        format!("lower bound frames={frames} asymmetry={asymmetry} end={at_end} warmup={warmup}")
    }
}

impl Runner<'_> {
    /// The bounds of a group of cells, with the results that the store has.
    fn bounds_of(
        &self,
        group: &CellGroup,
        resolved: &ResolvedSweep,
        store: &dyn ResultStore,
    ) -> Result<Vec<BoundQuery>, ExperimentError> {
        let config = &group.config;
        let at_end = *config.at_end.get();
        let mut queries = Vec::new();
        for (size, &frames) in group.frames.iter().zip(&resolved.frames) {
            for ratio in &group.asymmetries {
                let pricing = pricing_of(config, ratio.as_ref(), &resolved.metadata)?;
                let mut query = BoundQuery {
                    cell: ExperimentCell {
                        config: config.clone(),
                        policy: CellPolicy::Pseudo(PseudoPolicy::LowerBound),
                        frames: size.clone(),
                        asymmetry: ratio.clone(),
                    },
                    question: BoundQuestion {
                        frames,
                        asymmetry: pricing.asymmetry.ratio(),
                        at_end,
                        warmup: resolved.warmup,
                    },
                    stored: None,
                };
                let stored = store.get(&query.key());
                query.stored = stored.and_then(|json| serde_json::from_slice(&json).ok());
                queries.push(query);
            }
        }
        Ok(queries)
    }

    pub(crate) fn run_lower_bound(
        &self,
        group: &CellGroup,
        measured: &mut HashMap<ExperimentCell, MeasuredCell>,
    ) -> Result<(), ExperimentError> {
        let config = &group.config;
        if config.device.is_some() || config.changing.is_some() {
            return Err(ExperimentError::Invalid(format!(
                "the lower bound needs a constant asymmetry; omit '{}', or device and changing asymmetries",
                PseudoPolicy::LowerBound.name()
            )));
        }
        let source = self.traces.source(&config.trace)?;
        let store = self.store(&source);
        let resolved = self.resolved(group, &source)?;
        let queries = self.bounds_of(group, &resolved, &*store)?;
        let (stored, new): (Vec<BoundQuery>, Vec<BoundQuery>) = queries
            .into_iter()
            .partition(|query| query.stored.is_some());
        self.stored.set(self.stored.get() + stored.len() as u64);
        self.computed.set(self.computed.get() + new.len() as u64);
        for query in stored {
            put(&query, query.stored, measured);
        }
        if new.is_empty() {
            return Ok(());
        }
        let quiet = PassControl {
            report: &|_| {},
            stop: self.events.stop(),
        };
        let trace = RecordedTrace::read(&source, &quiet)?;
        let questions: Vec<BoundQuestion> =
            new.iter().map(|query| query.question.clone()).collect();
        let progress = PassControl {
            report: &|share| self.clock.advance(share),
            stop: self.events.stop(),
        };
        let work = trace.references() as f64 * questions.len() as f64;
        self.clock.begin(WorkKind::Bound, work);
        let bounds = solve_all(&trace, &questions, self.threads(), &progress)?;
        self.clock.end(0.0);
        let interrupted = bounds.iter().any(|bound| bound.interrupted);
        for (query, bound) in new.iter().zip(bounds) {
            if bound.interrupted {
                continue;
            }
            let stored = StoredBound {
                cost: bound.lower_bound / bound.references.max(1) as f64,
            };
            if let Ok(text) = serde_json::to_vec(&stored) {
                store.put(&query.key(), &text);
            }
            put(query, Some(stored), measured);
        }
        match interrupted {
            true => Err(SimError::Interrupted.into()),
            false => Ok(()),
        }
    }
}

fn put(
    query: &BoundQuery,
    bound: Option<StoredBound>,
    measured: &mut HashMap<ExperimentCell, MeasuredCell>,
) {
    let Some(StoredBound { cost }) = bound else {
        return;
    };
    let result = MeasuredCell {
        values: Values::from([(Metric::Cost, cost)]),
        spec: PseudoPolicy::LowerBound.name().into(),
        frames: query.question.frames,
        asymmetry: query.question.asymmetry,
        read_cost: 1.0,
        ..MeasuredCell::default()
    };
    measured.insert(query.cell.clone(), result);
}
