//! How small the bill could be: a lower bound that holds for every policy, and schedules that come
//! near it.
//!
//! With write-backs, the least bill of a trace is hard to compute; a bound is not. Give every
//! position a price for a frame, let each page buy what pays for it alone, and no schedule can be
//! cheaper than what comes out (`docs/bounds.md`). [`solve`] searches for good prices in floating
//! point, and a check in integers that shares no code with the search says what they prove.

mod certificate;
mod grid;
mod heuristics;
mod problem;
mod relaxed;
mod search;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ebbpool_trace::Source;
use rayon::prelude::*;

use crate::engine::AtEnd;
use crate::error::SimError;
use crate::ids::Ids;
use crate::stream::{self, Progress};
use heuristics::{Schedule, Schedules};
use problem::Problem;
use search::Search;

/// A page read in the units that the check counts in.
const UNITS: u64 = 1 << 20;

/// A bound this close to a schedule's bill, as a share of it, is not improved on.
const CLOSE: f64 = 1e-6;

/// Prices are also tried by these factors for the schedule: where many pages are worth just their
/// price, a little more or less decides which of them share a fate.
const FACTORS: [f64; 4] = [1.0, 1.03, 1.01, 0.99];

/// A schedule that costs no more than this times the bound is good enough.
const NEAR: f64 = 1.0002;

/// The share of the time that the search takes.
const SEARCHING: f64 = 0.8;

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct RecordedTrace {
    /// Page << 1 | write, pages numbered densely.
    pub(crate) references: Vec<u32>,
    /// The page of each number.
    pub(crate) pages: Vec<u64>,
}

impl RecordedTrace {
    /// Reads a trace: 4 bytes a reference, 8 a page.
    ///
    /// # Errors
    ///
    /// What reading it comes to; [`SimError::Empty`] for a trace without references.
    pub fn read(source: &Source, progress: &Progress) -> Result<Self, SimError> {
        stream::record(source, progress)
    }

    /// References.
    pub fn references(&self) -> u64 {
        self.references.len() as u64
    }

    /// Distinct pages.
    pub fn distinct_pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// What follows the first references.
    fn after(&self, references: u64) -> Self {
        let skipped = usize::try_from(references).unwrap_or(usize::MAX);
        RecordedTrace {
            references: self.references.get(skipped..).unwrap_or(&[]).to_vec(),
            pages: self.pages.clone(),
        }
    }
}

impl FromIterator<(u64, bool)> for RecordedTrace {
    /// From pages, and whether they are written.
    fn from_iter<I: IntoIterator<Item = (u64, bool)>>(references: I) -> Self {
        let mut ids = Ids::default();
        let mut pages = Vec::new();
        let references = references.into_iter().map(|(page, write)| {
            let id = ids.id(page, |page| pages.push(page));
            id << 1 | u32::from(write)
        });
        RecordedTrace {
            references: references.collect(),
            pages,
        }
    }
}

/// What a bound is wanted for.
#[derive(Clone, Debug)]
pub struct Question {
    /// Frames, at least 1.
    pub frames: u64,
    /// Cost of a page write in page reads.
    pub asymmetry: f64,
    /// What becomes of dirty pages at the end.
    pub at_end: AtEnd,
    /// References at the start that count nothing.
    pub warmup: u64,
}

impl Question {
    /// Frames, but no more than there are pages.
    fn frames_of(&self, trace: &RecordedTrace) -> u32 {
        self.frames.clamp(1, trace.distinct_pages().max(1)) as u32
    }
}

/// An answer. Bills are in page reads, for all counted references together.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Counted references.
    pub references: u64,
    /// No policy pays less, not even one that knows the future; proved in integers.
    pub lower_bound: f64,
    /// What the best offline policy found pays that begins where counting begins with an empty
    /// buffer; nothing if the search was stopped before it knew of one.
    pub heuristic: Option<f64>,
    /// Its name.
    pub heuristic_policy: Option<&'static str>,
    /// `prices[u]` is the price of a frame at all positions before u, in page reads.
    pub prices: Arc<[f64]>,
    /// How often the search went through the trace.
    pub iterations: u64,
    /// Wall time.
    pub seconds: f64,
    /// True if the caller asked to stop; the bound holds all the same.
    pub interrupted: bool,
}

impl Bound {
    /// By how much the schedule's bill is above the lower bound, as a share of the bound; nothing
    /// without a schedule, or where the bound is nothing.
    pub fn gap(&self) -> Option<f64> {
        let heuristic = self.heuristic.filter(|_| self.lower_bound > 0.0)?;
        Some(heuristic / self.lower_bound - 1.0)
    }
}

/// Computes a lower bound and a schedule near it.
///
/// A warm-up is dealt with by bounding the rest of the trace from an empty buffer, and taking off a
/// read per frame: whatever the warm-up left in the buffer cannot save more. When the caller asks
/// to stop, the answer is the best so far.
pub fn solve(trace: &RecordedTrace, question: &Question, progress: &Progress) -> Bound {
    let start = Instant::now();
    let rest;
    let trace = match question.warmup {
        0 => trace,
        warmup => {
            rest = trace.after(warmup);
            &rest
        }
    };
    let frames = u64::from(question.frames_of(trace));
    let pages = trace.pages.len();
    let problem = Problem::new(
        &trace.references,
        pages,
        frames,
        question.asymmetry,
        question.at_end,
    );
    let stopped = || progress.stopped();
    let mut best = Best {
        schedules: Schedules::new(trace, question, &stopped),
        known: None,
        guided: None,
    };
    let target = |prices: &[f64]| {
        best.follow(Schedules::COST_BELADY, None);
        best.follow(Schedules::PRICE_GUIDED, Some(prices.into()));
        best.bill().unwrap_or(problem.dearest())
    };
    let stop = |share: f64| {
        (progress.report)(SEARCHING * share);
        progress.stopped()
    };
    let found = Search::run(&problem, target, CLOSE, &stop);
    let certified = certificate::certify(
        &trace.references,
        pages,
        frames,
        question.asymmetry,
        question.at_end,
        &fixed(&found.prices),
    );
    let warm = match question.warmup {
        0 => 0,
        _ => i128::from(frames) * i128::from(UNITS),
    };
    // Prices that prove nothing would leave the bound that needs no proof.
    let certified = (certified.unwrap_or(0) - warm).max(0);
    let lower_bound = certified as f64 / UNITS as f64;
    for (done, factor) in FACTORS.iter().enumerate() {
        if best.bill().is_some_and(|bill| bill <= lower_bound * NEAR) || progress.stopped() {
            break;
        }
        (progress.report)(SEARCHING + (1.0 - SEARCHING) * done as f64 / FACTORS.len() as f64);
        let scaled = found.prices.iter().map(|price| factor * price).collect();
        best.follow(Schedules::PRICE_GUIDED, Some(scaled));
    }
    Bound {
        references: trace.references(),
        lower_bound,
        heuristic: best.bill(),
        heuristic_policy: best.known.map(|schedule| schedule.policy),
        prices: match best.guided {
            Some((_, prices)) => prices,
            None => found.prices.into(),
        },
        iterations: found.iterations,
        seconds: start.elapsed().as_secs_f64(),
        interrupted: progress.stopped(),
    }
}

/// [`solve`] for several questions, on that many threads; the answers in the same order.
///
/// # Errors
///
/// [`SimError::Output`] if there are no threads to be had.
pub fn solve_all(
    trace: &RecordedTrace,
    questions: &[Question],
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Bound>, SimError> {
    /// Shares are kept as whole numbers, which threads can share.
    const WHOLE: f64 = 1e6;
    let shares: Vec<AtomicU64> = questions.iter().map(|_| AtomicU64::new(0)).collect();
    let answer = |(question, own): (&Question, &AtomicU64)| {
        let report = |share: f64| {
            own.store((WHOLE * share) as u64, Ordering::Relaxed);
            let done: u64 = shares
                .iter()
                .map(|share| share.load(Ordering::Relaxed))
                .sum();
            (progress.report)(done as f64 / WHOLE / shares.len() as f64);
        };
        let progress = Progress {
            report: &report,
            stop: progress.stop,
        };
        let bound = solve(trace, question, &progress);
        report(1.0);
        bound
    };
    let workers = stream::workers(threads)?;
    Ok(workers.install(|| {
        let questions = questions.par_iter().with_max_len(1);
        questions.zip(&shares).map(answer).collect()
    }))
}

/// The cheapest schedules known.
struct Best<'a> {
    schedules: Schedules<'a>,
    known: Option<Schedule>,
    /// The least bill of those guided by prices, and the prices.
    guided: Option<(f64, Arc<[f64]>)>,
}

impl Best<'_> {
    fn bill(&self) -> Option<f64> {
        self.known.map(|schedule| schedule.bill)
    }

    fn follow(&mut self, policy: &str, prices: Option<Arc<[f64]>>) {
        let Some(schedule) = self.schedules.run(policy, prices.clone()) else {
            return;
        };
        if self.known.is_none_or(|known| schedule.bill < known.bill) {
            self.known = Some(schedule);
        }
        let guided = self.guided.as_ref();
        if let Some(prices) = prices
            && guided.is_none_or(|(bill, _)| schedule.bill < *bill)
        {
            self.guided = Some((schedule.bill, prices));
        }
    }
}

/// Prices in [`UNITS`], never falling.
fn fixed(prices: &[f64]) -> Vec<u64> {
    let mut least = 0;
    let units = prices.iter().map(|price| {
        least = least.max((price * UNITS as f64).round() as u64);
        least
    });
    units.collect()
}
