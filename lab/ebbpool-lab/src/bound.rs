//! A certified lower bound of the bill, and the bill of a clairvoyant policy.

use std::time::Instant;

use ebbpool_cost::Asymmetry;
use ebbpool_policy::PolicySpec;
use ebbpool_sim::bound::{Bound, BoundQuestion, RecordedTrace, solve_all};
use ebbpool_sim::{AtEnd, PassControl, ResultStore, SimError, Warmup};
use ebbpool_trace::Source;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, RequestError};
use crate::events::Note;
use crate::lab::Lab;
use crate::memory_size::MemorySize;
use crate::numbers::Number;
use crate::schema::result_row;

/// A request for bounds, one for each asymmetry and size.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BoundRequest {
    /// Memory sizes.
    pub sizes: Vec<MemorySize>,
    /// Asymmetries.
    pub asymmetries: Vec<Asymmetry>,
    /// Whether the pages that are dirty at the end are written and counted.
    pub at_end: AtEnd,
    /// References at the start whose reads and writes are free.
    pub warmup: Warmup,
}

impl BoundRequest {
    /// A request for these sizes and asymmetries without a warm-up; dirty pages at the end are written and counted.
    pub fn new(sizes: Vec<MemorySize>, asymmetries: Vec<Asymmetry>) -> Self {
        BoundRequest { sizes, asymmetries, at_end: AtEnd::default(), warmup: Warmup::References(0) }
    }
}

result_row! {
    /// The lower bound of the bill with one memory size and one asymmetry.
    pub struct BoundResult {
        /// The name of the trace in the request.
        trace: String ["" key],
        /// Frames of the buffer.
        frames: u64 ["pages" key],
        /// R, the cost of a page write in page reads.
        asymmetry: Number ["page reads" key],
        /// `free` if dirty pages at the end cost nothing, `flush` if they are written and counted.
        at_end: &'static str ["" key],
        /// References of the trace.
        references: u64 ["references"],
        /// The bill that no policy can undercut.
        lower_bound: f64 ["page reads per reference"],
        /// The least bill of the clairvoyant policies.
        heuristic: Option<f64> ["page reads per reference"],
        /// The clairvoyant policy with this bill.
        heuristic_policy: Option<&'static str> [""],
        /// The distance of the heuristic from the bound, as a share of the bound.
        gap: Option<f64> [""],
        /// Wall time from opening the trace, of the run that computed the bound.
        seconds: f64 ["s" measured],
        /// Steps of the search.
        iterations: u64 ["steps"],
    }
    also {
        /// The caller stopped the search: the bound holds, but more time would tighten it.
        interrupted: bool,
        /// Bytes of a page, if the trace states them.
        page_size: Option<u64>,
    }
}

impl BoundResult {
    fn new(trace: &str, question: &BoundQuestion, bound: &SolvedBound) -> Self {
        BoundResult {
            trace: trace.into(),
            frames: question.frames,
            asymmetry: Number(question.asymmetry),
            at_end: question.at_end.name(),
            references: bound.references,
            lower_bound: bound.lower_bound(),
            heuristic: bound.heuristic.map(|bill| bound.per_reference(bill)),
            heuristic_policy: bound.policy(),
            gap: bound.gap,
            seconds: bound.seconds,
            iterations: bound.iterations,
            interrupted: bound.interrupted,
            page_size: None,
        }
    }
}

/// The answer to a question as a store has it. Bills are in page reads, for all references together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SolvedBound {
    references: u64,
    lower_bound: f64,
    heuristic: Option<f64>,
    heuristic_policy: Option<String>,
    gap: Option<f64>,
    iterations: u64,
    seconds: f64,
    /// The caller stopped the search; such answers are not stored.
    #[serde(skip)]
    pub(crate) interrupted: bool,
}

impl SolvedBound {
    /// `reading` is the time in seconds that reading the trace took.
    fn new(bound: &Bound, reading: f64) -> Self {
        SolvedBound {
            references: bound.references,
            lower_bound: bound.lower_bound,
            heuristic: bound.heuristic,
            heuristic_policy: bound.heuristic_policy.map(String::from),
            gap: bound.gap(),
            iterations: bound.iterations,
            seconds: reading + bound.seconds,
            interrupted: bound.interrupted,
        }
    }

    fn per_reference(&self, bill: f64) -> f64 {
        bill / self.references as f64
    }

    /// The lower bound for each reference.
    pub(crate) fn lower_bound(&self) -> f64 {
        self.per_reference(self.lower_bound)
    }

    fn policy(&self) -> Option<&'static str> {
        let spec: PolicySpec = self.heuristic_policy.as_ref()?.parse().ok()?;
        Some(spec.entry().name)
    }
}

/// A trace that the lab reads only if the store has not all that it needs.
pub(crate) struct LazyTrace<'a> {
    source: &'a Source,
    store: &'a dyn ResultStore,
    progress: &'a PassControl<'a>,
    recorded: Option<RecordedTrace>,
    /// The time in seconds that reading took.
    reading: f64,
}

impl<'a> LazyTrace<'a> {
    pub(crate) fn new(source: &'a Source, store: &'a dyn ResultStore, progress: &'a PassControl<'a>) -> Self {
        LazyTrace { source, store, progress, recorded: None, reading: 0.0 }
    }

    fn recorded(&mut self) -> Result<&RecordedTrace, SimError> {
        if self.recorded.is_none() {
            let start = Instant::now();
            // The search reports the progress: it takes nearly all of the time.
            let quiet = PassControl { report: &|_| {}, stop: self.progress.stop };
            let recorded = RecordedTrace::read(self.source, &quiet)?;
            recorded.store_size(self.source, self.store);
            self.reading = start.elapsed().as_secs_f64();
            self.recorded = Some(recorded);
        }
        // It was just read.
        self.recorded.as_ref().ok_or(SimError::Interrupted)
    }

    fn distinct_pages(&mut self) -> Result<u64, SimError> {
        match RecordedTrace::stored_size(self.source, self.store) {
            Some((pages, _)) => Ok(pages),
            None => Ok(self.recorded()?.distinct_pages()),
        }
    }

    /// Notes that a reader has only at the end of the trace.
    fn late_notes(&self) -> Vec<String> {
        match &self.recorded {
            Some(_) => self.source.late_notes(),
            None => RecordedTrace::stored_size(self.source, self.store).map_or_else(Vec::new, |(_, notes)| notes),
        }
    }

    fn stored(&self, question: &BoundQuestion) -> Option<SolvedBound> {
        serde_json::from_slice(&self.store.get(&key(question))?).ok()
    }

    fn put(&self, question: &BoundQuestion, bound: &SolvedBound) {
        if let Ok(value) = serde_json::to_vec(bound) {
            self.store.put(&key(question), &value);
        }
    }
}

fn key(question: &BoundQuestion) -> String {
    format!("bound {question:?}")
}

impl Lab<'_> {
    /// The answers to the questions, from the store or from searches. The store gets those of finished searches.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, or the caller stops before the lab has read it.
    pub(crate) fn bounds_of(&self, trace: &mut LazyTrace, questions: &[BoundQuestion]) -> Result<Vec<SolvedBound>, SimError> {
        let stored: Vec<Option<SolvedBound>> = questions.iter().map(|one| trace.stored(one)).collect();
        let pairs = questions.iter().zip(&stored);
        let open = pairs.filter(|(_, stored)| stored.is_none());
        let open: Vec<BoundQuestion> = open.map(|(question, _)| question.clone()).collect();
        let mut solved = Vec::new();
        if !open.is_empty() {
            let (threads, progress) = (self.threads(), trace.progress);
            let bounds = solve_all(trace.recorded()?, &open, threads, progress)?;
            let reading = trace.reading;
            solved.extend(bounds.iter().map(|bound| SolvedBound::new(bound, reading)));
        }
        for (question, bound) in open.iter().zip(&solved) {
            if !bound.interrupted {
                trace.put(question, bound);
            }
        }
        let mut solved = solved.into_iter();
        let answers = stored.into_iter().map(|stored| stored.or_else(|| solved.next()));
        Ok(answers.flatten().collect())
    }

    /// Computes lower bounds of the bill, for each asymmetry and each size. Those that the store has are not
    /// computed again.
    ///
    /// # Errors
    ///
    /// If no size or no asymmetry is named, the trace cannot be read, the warm-up leaves nothing of it to count, or the caller
    /// stops before the lab has read it.
    pub fn bound(&self, source: &Source, request: &BoundRequest) -> Result<Vec<BoundResult>, LabError> {
        if request.sizes.is_empty() {
            return Err(RequestError::NoSize.into());
        }
        if request.asymmetries.is_empty() {
            return Err(RequestError::NoPrice.into());
        }
        let reader = source.open()?;
        self.notes(reader.notes());
        let metadata = reader.metadata().clone();
        self.note_capture(source, &metadata);
        let stated = reader.references();
        drop(reader);
        for size in &request.sizes {
            size.size.check(&metadata, source.label())?;
        }
        let store = self.store(source);
        self.with_progress(source.label(), |progress| {
            let mut trace = LazyTrace::new(source, &*store, progress);
            let pages = match metadata.database_pages {
                Some(pages) => pages,
                None => trace.distinct_pages()?,
            };
            let frames = request.sizes.iter();
            let frames = frames.map(|size| size.size.to_frames(pages, &metadata, source.label()));
            let frames: Vec<u64> = frames.collect::<Result<_, _>>()?;
            let references = match (request.warmup, stated) {
                (Warmup::References(_), _) => 0,
                (Warmup::Share(_), Some(references)) => references,
                (Warmup::Share(_), None) => trace.recorded()?.references(),
            };
            let warmup = request.warmup.to_references(references);
            let questions = request.asymmetries.iter().flat_map(|asymmetry| {
                frames.iter().map(|&frames| BoundQuestion {
                    frames,
                    asymmetry: asymmetry.ratio(),
                    at_end: request.at_end,
                    warmup,
                })
            });
            let questions: Vec<BoundQuestion> = questions.collect();
            let from_store = questions.iter().filter(|one| trace.stored(one).is_some()).count();
            let bounds = self.bounds_of(&mut trace, &questions)?;
            if bounds.iter().any(|bound| bound.references == 0) {
                return Err(SimError::AllWarmup {
                    trace: source.label().into(),
                    references: trace.recorded()?.references(),
                    warmup,
                }
                .into());
            }
            self.notes(&trace.late_notes());
            if from_store > 0 {
                self.events.note(&Note::StoredResults {
                    trace: source.label().into(),
                    stored: from_store,
                    all: questions.len(),
                });
            }
            let answers = questions.iter().zip(&bounds);
            let answer = |(question, bound)| BoundResult {
                page_size: metadata.page_size,
                ..BoundResult::new(source.label(), question, bound)
            };
            Ok(answers.map(answer).collect())
        })
    }
}
