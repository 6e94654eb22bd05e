//! Schedules of offline policies, and their bills.

use std::sync::Arc;

use ebbpool_policy::{PolicySpec, registry};

use super::{BoundQuestion, RecordedTrace};
use crate::engine::{Chunk, RunParameters};
use crate::future::Future;
use crate::stream::EngineVisitor;

/// The ends from position `start` up to `end`, `end` not included.
fn between(ends: &[(usize, u32)], start: usize, end: usize) -> &[(usize, u32)] {
    let at = |position| ends.partition_point(|(it, _)| *it < position);
    &ends[at(start)..at(end)]
}

/// References served between two checks whether to stop.
const CHUNK: usize = 1 << 18;

/// Runs offline policies over a trace in memory.
pub(super) struct Schedules<'a> {
    trace: &'a RecordedTrace,
    question: &'a BoundQuestion,
    future: Future,
    stop: &'a dyn Fn() -> bool,
}

/// An offline policy's bill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) policy: &'static str,
    pub(super) bill: f64,
}

impl<'a> Schedules<'a> {
    /// Names of the policies to run.
    pub(super) const COST_BELADY: &'static str = "cost-belady";
    pub(super) const PRICE_GUIDED: &'static str = "price-guided";

    /// `trace` begins where the warm-up of `question` ends.
    pub(super) fn new(trace: &'a RecordedTrace, question: &'a BoundQuestion, stop: &'a dyn Fn() -> bool) -> Self {
        let mut future = Future::default();
        future.extend(&trace.references, &trace.ends);
        future.look_for_writes(&trace.references);
        Schedules { trace, question, future, stop }
    }

    /// The policy's schedule; `None` if the run was stopped.
    pub(super) fn run(&self, policy: &str, prices: Option<Arc<[f64]>>) -> Option<Schedule> {
        let spec: PolicySpec = policy.parse().ok()?;
        let frames = self.question.frames_of(self.trace);
        let setup = RunParameters {
            frames,
            asymmetry: self.question.asymmetry,
            warmup: 0,
            cluster_size: 1,
            at_end: self.question.at_end,
            // Only padding uses it, and no offline policy pads.
            pages: u64::MAX,
            prices,
            // No schedule of these policies is one of a policy that knows them.
            probabilities: None,
        };
        let mut engine = registry::visit(&spec, frames, EngineVisitor(setup));
        for (index, references) in self.trace.references.chunks(CHUNK).enumerate() {
            if (self.stop)() {
                return None;
            }
            let start = index * CHUNK;
            // Pages that end behind the last reference are of the last chunk.
            let end = if start + references.len() == self.trace.references.len() { usize::MAX } else { start + CHUNK };
            engine.advance(&Chunk {
                references,
                start,
                future: Some(&self.future),
                pages: &self.trace.pages,
                classes: &[],
                requests: &[],
                checkpoints: &[],
                whole: self.trace.whole.get(start..).unwrap_or_default(),
                ends: between(&self.trace.ends, start, end),
                trims: &[],
            });
        }
        let counts = engine.finish(&self.trace.pages);
        Some(Schedule {
            policy: spec.entry().name,
            bill: counts.reads() as f64 + self.question.asymmetry * counts.writes as f64,
        })
    }
}
