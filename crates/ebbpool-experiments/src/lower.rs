//! What no policy can undercut, in the place of a policy.

use std::collections::HashMap;

use ebbpool_sim::bound::{Question, RecordedTrace, solve_all};
use ebbpool_sim::{AtEnd, Progress, Resolved, SimError, Store};
use serde::{Deserialize, Serialize};

use super::metric::{Metric, Values};
use super::plan::Cell;
use super::runner::{Group, Measured, Runner, pricing_of};
use crate::error::ExperimentError;

/// In the place of a policy: the lower bound of `ebbpool bound`.
pub(crate) const LOWER_BOUND: &str = "lower-bound";

/// The time that a bound takes, in simulations of one policy, roughly.
pub(crate) const PASSES: f64 = 200.0;

/// As it is kept: page reads per counted reference.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Kept {
    cost: f64,
}

/// A bound that is asked for.
struct Asked {
    cell: Cell,
    question: Question,
    known: Option<Kept>,
}

impl Asked {
    fn key(&self) -> String {
        let Question {
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
    /// The lower bounds of a group of cells.
    /// The bounds of a group, as far as the store knows them.
    fn bounds_of(
        &self,
        group: &Group,
        resolved: &Resolved,
        store: &dyn Store,
    ) -> Result<Vec<Asked>, ExperimentError> {
        let around = &group.surroundings;
        let at_end = self.options(around)?.at_end;
        let mut asked = Vec::new();
        for (size, &frames) in group.frames.iter().zip(&resolved.frames) {
            for ratio in &group.asymmetries {
                let pricing = pricing_of(around, ratio.as_deref(), &resolved.metadata)?;
                let mut one = Asked {
                    cell: Cell {
                        surroundings: around.clone(),
                        policy: LOWER_BOUND.into(),
                        frames: size.clone(),
                        asymmetry: ratio.clone(),
                    },
                    question: Question {
                        frames,
                        asymmetry: pricing.asymmetry.ratio(),
                        at_end,
                        warmup: resolved.warmup,
                    },
                    known: None,
                };
                let kept = store.get(&one.key());
                one.known = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
                asked.push(one);
            }
        }
        Ok(asked)
    }

    pub(crate) fn run_lower_bound(
        &self,
        group: &Group,
        measured: &mut HashMap<Cell, Measured>,
    ) -> Result<(), ExperimentError> {
        let around = &group.surroundings;
        if around.device.is_some() || around.changing.is_some() {
            return Err(ExperimentError::Invalid(format!(
                "the lower bound is that of an asymmetry that stays the same; leave '{LOWER_BOUND}' out, or device and changing asymmetries"
            )));
        }
        let source = self.traces.source(&around.trace)?;
        let store = self.store(&source);
        let resolved = self.resolved(group, &source)?;
        let asked = self.bounds_of(group, &resolved, &*store)?;
        let (known, new): (Vec<Asked>, Vec<Asked>) =
            asked.into_iter().partition(|one| one.known.is_some());
        self.known.set(self.known.get() + known.len() as u64);
        self.computed.set(self.computed.get() + new.len() as u64);
        for one in known {
            put(&one, one.known, measured);
        }
        if new.is_empty() {
            return Ok(());
        }
        let quiet = Progress {
            report: &|_| {},
            stop: self.events.stop(),
        };
        let trace = RecordedTrace::read(&source, &quiet)?;
        let questions: Vec<Question> = new.iter().map(|one| one.question.clone()).collect();
        let work = trace.references() as f64 * questions.len() as f64 * PASSES;
        let told = self.telling(work);
        let progress = Progress {
            report: &told,
            stop: self.events.stop(),
        };
        let bounds = solve_all(&trace, &questions, self.threads(), &progress)?;
        let interrupted = bounds.iter().any(|bound| bound.interrupted);
        for (one, bound) in new.iter().zip(bounds) {
            if bound.interrupted {
                continue;
            }
            let kept = Kept {
                cost: bound.lower_bound / bound.references.max(1) as f64,
            };
            if let Ok(text) = serde_json::to_vec(&kept) {
                store.put(&one.key(), &text);
            }
            put(one, Some(kept), measured);
        }
        match interrupted {
            true => Err(SimError::Interrupted.into()),
            false => Ok(()),
        }
    }
}

fn put(one: &Asked, found: Option<Kept>, measured: &mut HashMap<Cell, Measured>) {
    let Some(Kept { cost }) = found else { return };
    let result = Measured {
        values: Values::from([(Metric::Cost, cost)]),
        spec: LOWER_BOUND.into(),
        frames: one.question.frames,
        asymmetry: one.question.asymmetry,
        read_cost: 1.0,
        ..Measured::default()
    };
    measured.insert(one.cell.clone(), result);
}
