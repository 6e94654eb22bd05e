//! A certified lower bound of the bill, and the bill of a clairvoyant policy.

use std::time::Instant;

use ebbpool_cost::Asymmetry;
use ebbpool_sim::AtEnd;
use ebbpool_sim::bound::{Bound, BoundQuestion, RecordedTrace, solve_all};
use ebbpool_trace::Source;

use crate::error::LabError;
use crate::lab::Lab;
use crate::memory_size::MemorySize;
use crate::numbers::Number;
use crate::schema::result_row;

/// A request for bounds, one for each asymmetry and size.
#[derive(Clone, Debug)]
pub struct BoundRequest {
    /// Memory sizes.
    pub sizes: Vec<MemorySize>,
    /// Asymmetries.
    pub asymmetries: Vec<Asymmetry>,
    /// Whether the pages that are dirty at the end are written and counted.
    pub at_end: AtEnd,
}

impl BoundRequest {
    /// A request for these sizes and asymmetries; dirty pages at the end cost nothing.
    pub fn new(sizes: Vec<MemorySize>, asymmetries: Vec<Asymmetry>) -> Self {
        BoundRequest {
            sizes,
            asymmetries,
            at_end: AtEnd::Free,
        }
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
        /// Wall time from opening the trace.
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
    fn new(trace: &str, reading: f64, question: &BoundQuestion, bound: &Bound) -> Self {
        let references = bound.references as f64;
        BoundResult {
            trace: trace.into(),
            frames: question.frames,
            asymmetry: Number(question.asymmetry),
            at_end: match question.at_end {
                AtEnd::Free => "free",
                AtEnd::Flush => "flush",
            },
            references: bound.references,
            lower_bound: bound.lower_bound / references,
            heuristic: bound.heuristic.map(|bill| bill / references),
            heuristic_policy: bound.heuristic_policy,
            gap: bound.gap(),
            seconds: reading + bound.seconds,
            iterations: bound.iterations,
            interrupted: bound.interrupted,
            page_size: None,
        }
    }
}

impl Lab<'_> {
    /// Computes lower bounds of the bill, for each asymmetry and each size.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, or the caller stops before the lab has read it.
    pub fn bound(
        &self,
        source: &Source,
        request: &BoundRequest,
    ) -> Result<Vec<BoundResult>, LabError> {
        let start = Instant::now();
        let reader = source.open()?;
        self.notes(reader.notes());
        let metadata = reader.metadata().clone();
        drop(reader);
        for size in &request.sizes {
            size.size.check(&metadata, source.label())?;
        }
        self.with_progress(source.label(), |progress| {
            let trace = RecordedTrace::read(source, progress)?;
            self.notes(&source.late_notes());
            let reading = start.elapsed().as_secs_f64();
            let pages = metadata.database_pages.unwrap_or(trace.distinct_pages());
            let frames = request.sizes.iter();
            let frames = frames.map(|size| size.size.frames_of(pages, &metadata, source.label()));
            let frames: Vec<u64> = frames.collect::<Result<_, _>>()?;
            let questions = request.asymmetries.iter().flat_map(|asymmetry| {
                frames.iter().map(|&frames| BoundQuestion {
                    frames,
                    asymmetry: asymmetry.ratio(),
                    at_end: request.at_end,
                    warmup: 0,
                })
            });
            let questions: Vec<BoundQuestion> = questions.collect();
            let bounds = solve_all(&trace, &questions, self.threads(), progress)?;
            let answers = questions.iter().zip(&bounds);
            let answer = |(question, bound)| BoundResult {
                page_size: metadata.page_size,
                ..BoundResult::new(source.label(), reading, question, bound)
            };
            Ok(answers.map(answer).collect())
        })
    }
}
