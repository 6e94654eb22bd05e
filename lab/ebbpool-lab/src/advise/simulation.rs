//! Asks the lab the questions of an advice.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;

use ebbpool_sim::{DeviceOutcome, SimError, Traffic};
use ebbpool_trace::Source;

use super::question::{AdviceQuestion, QuestionKind};
use crate::compare::CompareRequest;
use crate::curve::{CurveRequest, CurveStudy};
use crate::error::LabError;
use crate::events::{LabEvents, Note};
use crate::lab::Lab;
use crate::policy_selection::PolicySelection;
use crate::run_result::RunResult;

/// The result of a run over the whole trace.
#[derive(Clone, Debug)]
pub(super) struct SimulatedCell {
    pub(super) result: RunResult,
    pub(super) device: Option<DeviceOutcome>,
}

impl SimulatedCell {
    /// Page reads and writes per reference.
    pub(super) fn per_reference(&self) -> [f64; 2] {
        [self.result.reads, self.result.writes].map(|pages| pages as f64 / self.result.references as f64)
    }
}

/// Asks questions about one trace.
pub(super) struct TraceQuestions<'a> {
    pub(super) lab: &'a Lab<'a>,
    pub(super) source: &'a Source,
    pub(super) events: &'a AdviceEvents<'a>,
    /// The share of the page reads that reach the device.
    pub(super) device_share: f64,
    /// The time of a page read of the device in µs.
    pub(super) read_us: Option<f64>,
}

impl TraceQuestions<'_> {
    /// The results of a question of kind [`QuestionKind::Compare`], for each price, each policy, each size.
    pub(super) fn compare(&self, question: &AdviceQuestion) -> Result<Vec<SimulatedCell>, LabError> {
        let QuestionKind::Compare(pricing) = &question.kind else {
            return Ok(Vec::new());
        };
        let request = CompareRequest {
            counting: question.counting.clone(),
            ..CompareRequest::new(PolicySelection::lists(&question.policies), question.sizes(), pricing.clone())
        };
        let comparison = self.lab.compare(self.source, &request)?;
        if comparison.interrupted {
            return Err(SimError::Interrupted.into());
        }
        self.events.add_results(comparison.finished().count());
        let cells = comparison.cells.into_iter().flatten();
        let cells = cells.map(|cell| SimulatedCell { result: self.without_cached(cell.result), device: cell.row.device });
        Ok(cells.collect())
    }

    /// A result whose bill and time have the reads that reach the device.
    fn without_cached(&self, mut result: RunResult) -> RunResult {
        let reads = (result.reads + result.padding_reads) as f64;
        let cached = (1.0 - self.device_share) * reads / result.references as f64;
        result.cost = (result.cost - cached).max(0.0);
        let time = result.cost_us.zip(self.read_us);
        result.cost_us = time.map(|(time, read_us)| (time - cached * read_us).max(0.0)).or(result.cost_us);
        result
    }

    /// The bill of an estimate, with the reads that reach the device, in page reads per reference.
    pub(super) fn bill(&self, study: &CurveStudy, traffic: Traffic) -> f64 {
        let cached = (1.0 - self.device_share) * traffic.all_reads() as f64 / study.lru.references() as f64;
        (study.bill(traffic) - cached).max(0.0)
    }

    /// The curves of a question of kind [`QuestionKind::Curve`].
    pub(super) fn curve(&self, question: &AdviceQuestion) -> Result<CurveStudy, LabError> {
        let (asymmetry, sample) = match &question.kind {
            QuestionKind::Curve(asymmetry, sample) => (*asymmetry, *sample),
            QuestionKind::Compare(_) => (ebbpool_cost::PAPERS_BASE, None),
        };
        let request = CurveRequest {
            sizes: question.sizes(),
            sample,
            warmup: question.counting.warmup,
            at_end: question.counting.at_end,
            checkpoints: question.counting.checkpoints,
            ..CurveRequest::new(PolicySelection::lists(&question.policies), asymmetry)
        };
        self.lab.curve(self.source, &request)
    }
}

/// The caller's events, with each note once, and the stored results of all questions added up: an advice asks several
/// questions, and its reader has asked one.
pub(super) struct AdviceEvents<'e> {
    events: &'e dyn LabEvents,
    notes: Mutex<Vec<Note>>,
    /// Results from the store, and all results.
    stored: Mutex<(usize, usize)>,
}

impl<'e> AdviceEvents<'e> {
    pub(super) fn new(events: &'e dyn LabEvents) -> Self {
        AdviceEvents { events, notes: Mutex::default(), stored: Mutex::default() }
    }

    fn add_results(&self, results: usize) {
        let mut sums = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        sums.1 += results;
    }

    /// Reports how many results of the comparisons came from the store.
    pub(super) fn report_stored(&self, trace: &str) {
        let (stored, all) = *self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if stored > 0 {
            self.events.note(&Note::StoredResults { trace: trace.into(), stored, all });
        }
    }
}

impl LabEvents for AdviceEvents<'_> {
    fn progress(&self, work: &str, share: f64) {
        self.events.progress(work, share);
    }

    fn note(&self, note: &Note) {
        if let Note::StoredResults { stored, .. } = note {
            let mut sums = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
            sums.0 += stored;
            return;
        }
        // The advice has it among its warnings.
        if let Note::BelowCache { .. } = note {
            return;
        }
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(note) {
            notes.push(note.clone());
            self.events.note(note);
        }
    }

    fn stop(&self) -> &AtomicBool {
        self.events.stop()
    }
}
