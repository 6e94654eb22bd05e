//! How small the bill could be: a lower bound for the bills of all policies, and schedules close to
//! it.
//!
//! With write-backs, the least bill of a trace is hard to compute; a lower bound is not. If every
//! position has a price for a frame, and each page buys the frames that pay for it alone, no
//! schedule can be cheaper than the result (`docs/bounds.md`). [`solve`] searches for good prices
//! in floating point, and a check in integers that shares no code with the search computes the
//! bound that they prove.

mod certificate;
mod grid;
mod heuristics;
mod open;
mod problem;
mod relaxed;
mod scale;
mod search;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ebbpool_trace::{Ids, Source};
use rayon::prelude::*;

use crate::engine::AtEnd;
use crate::error::SimError;
use crate::store::{ResultStore, StoredResults, TraceExtent};
use crate::stream::{self, PassControl};
use heuristics::{Schedule, Schedules};
use problem::Problem;
use search::{Search, SearchResult};

/// The cost of a page read in the check's integer units.
const UNITS: u64 = 1 << 20;

/// The search stops when the bound is this close to a schedule's bill, as a share of it.
const CLOSE: f64 = 1e-6;

/// Factors by which the schedules' prices are also multiplied: where the savings of many pages
/// equal their price, a small change decides which of them are evicted together.
const FACTORS: [f64; 4] = [1.0, 1.03, 1.01, 0.99];

/// A schedule that costs no more than this times the bound is good enough.
const NEAR: f64 = 1.0002;

/// The share of the progress that the search accounts for.
const SEARCHING: f64 = 0.8;

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct RecordedTrace {
    /// Page << 1 | write, pages numbered densely.
    pub(crate) references: Vec<u32>,
    /// The page of each number.
    pub(crate) pages: Vec<u64>,
    /// True where a reference writes all of its page; references behind the end do not.
    pub(crate) whole: Vec<bool>,
    /// The numbers of the pages that end, each before the reference at a position, in order; a later reference is to a new page.
    pub(crate) ends: Vec<(usize, u32)>,
}

impl RecordedTrace {
    /// Reads a trace: 4 bytes per reference, 8 per page.
    ///
    /// # Errors
    ///
    /// The errors of reading it; [`SimError::Empty`] for a trace without references.
    pub fn read(source: &Source, progress: &PassControl) -> Result<Self, SimError> {
        stream::record(source, progress)
    }

    /// Stores the trace's size and the notes of its reader, as a sweep does.
    pub fn store_size(&self, source: &Source, store: &dyn ResultStore) {
        let extent = TraceExtent { references: self.references(), distinct_pages: self.distinct_pages() };
        StoredResults::new(store, None).put_extent(extent, source);
    }

    /// The distinct pages of a trace that a sweep or a search has read to its end, and the notes of its
    /// reader, if the store has them.
    pub fn stored_size(source: &Source, store: &dyn ResultStore) -> Option<(u64, Vec<String>)> {
        let stored = StoredResults::new(store, None);
        let pages = stored.extent()?.distinct_pages;
        Some((pages, stored.late_notes(source)))
    }

    /// The number of references.
    pub fn references(&self) -> u64 {
        self.references.len() as u64
    }

    /// Distinct pages.
    pub fn distinct_pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Appends references, with the pages that end before and after them.
    pub(crate) fn push(&mut self, references: &[u32], whole: &[bool], ends: &[(usize, u32)]) {
        if !whole.is_empty() {
            self.whole.resize(self.references.len(), false);
            self.whole.extend_from_slice(whole);
        }
        self.references.extend_from_slice(references);
        self.ends.extend_from_slice(ends);
    }

    /// The trace without its first references.
    fn after(&self, references: u64) -> Self {
        let skipped = usize::try_from(references).unwrap_or(usize::MAX);
        let later = |&(position, page): &(usize, u32)| Some((position.checked_sub(skipped)?, page));
        RecordedTrace {
            references: self.references.get(skipped..).unwrap_or(&[]).to_vec(),
            pages: self.pages.clone(),
            whole: self.whole.get(skipped..).unwrap_or(&[]).to_vec(),
            ends: self.ends.iter().filter_map(later).collect(),
        }
    }

    /// True if the reference at `position` writes all of its page.
    fn is_whole(&self, position: usize) -> bool {
        self.whole.get(position).is_some_and(|&whole| whole)
    }

    /// The positions before which a page ends, ascending, with the page: page by page.
    fn ends_by_page(&self) -> Vec<(u32, u32)> {
        let mut by_page: Vec<(u32, u32)> = self.ends.iter().map(|&(position, page)| (page, position as u32)).collect();
        by_page.sort_unstable();
        by_page
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
        RecordedTrace { references: references.collect(), pages, ..RecordedTrace::default() }
    }
}

/// The parameters of a bound.
#[derive(Clone, Debug)]
pub struct BoundQuestion {
    /// Frames, at least 1.
    pub frames: u64,
    /// Cost of a page write in page reads.
    pub asymmetry: f64,
    /// The treatment of dirty pages at the end.
    pub at_end: AtEnd,
    /// References at the start that are not counted.
    pub warmup: u64,
}

impl BoundQuestion {
    /// The frames, but at most as many as there are pages.
    fn frames_of(&self, trace: &RecordedTrace) -> u32 {
        self.frames.clamp(1, trace.distinct_pages().max(1)) as u32
    }
}

/// A lower bound and the best schedule found. Bills are in page reads, for all counted references
/// together.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Counted references.
    pub references: u64,
    /// No policy has a smaller bill, not even one that knows the future; proved in integers.
    pub lower_bound: f64,
    /// The bill of the best offline policy found, if it begins with an empty buffer where counting
    /// begins; `None` if the search was stopped before it found one.
    pub heuristic: Option<f64>,
    /// The name of that policy.
    pub heuristic_policy: Option<&'static str>,
    /// `prices[u]` is the price of a frame at all positions before u, in page reads; empty in the results of
    /// [`solve_all`], which would take 8 bytes per reference for each question.
    pub prices: Arc<[f64]>,
    /// The number of passes of the search over the trace.
    pub iterations: u64,
    /// Wall time.
    pub seconds: f64,
    /// True if the caller stopped the search; the bound is valid nevertheless.
    pub interrupted: bool,
}

impl Bound {
    /// By how much the schedule's bill exceeds the lower bound, as a share of the bound; `None`
    /// without a schedule, or where the bound is 0.
    pub fn gap(&self) -> Option<f64> {
        let heuristic = self.heuristic.filter(|_| self.lower_bound > 0.0)?;
        Some(heuristic / self.lower_bound - 1.0)
    }
}

/// Computes a lower bound and a schedule close to it.
///
/// With a warm-up, it computes the bound of the rest of the trace from an empty buffer, and
/// subtracts a read per frame: the pages that the warm-up left in the buffer cannot save more. With
/// [`AtEnd::Flush`] a page that it left dirty saves a write as well, because writes of such pages are not counted. When
/// the caller stops the search, the result is the best so far.
pub fn solve(trace: &RecordedTrace, question: &BoundQuestion, progress: &PassControl) -> Bound {
    let start = Instant::now();
    let warm = saved_by_warmup(trace, question);
    let rest;
    let trace = match question.warmup {
        0 => trace,
        warmup => {
            rest = trace.after(warmup);
            &rest
        }
    };
    let stopped = || progress.stopped();
    let mut best = BestSchedules { schedules: Schedules::new(trace, question, &stopped), cheapest: None, guided: None };
    let found = search_prices(trace, question, &mut best, progress);
    let lower_bound = certified_bound(trace, question, &found.prices, warm);
    best.follow_scaled(&found.prices, lower_bound, progress);
    Bound {
        references: trace.references(),
        lower_bound,
        heuristic: best.bill(),
        heuristic_policy: best.cheapest.map(|schedule| schedule.policy),
        prices: match best.guided {
            Some((_, prices)) => prices,
            None => found.prices.into(),
        },
        iterations: found.iterations,
        seconds: start.elapsed().as_secs_f64(),
        interrupted: progress.stopped(),
    }
}

/// Searches for prices; runs the first schedules on the way.
fn search_prices(
    trace: &RecordedTrace,
    question: &BoundQuestion,
    best: &mut BestSchedules,
    progress: &PassControl,
) -> SearchResult {
    let problem = Problem::new(trace, u64::from(question.frames_of(trace)), question.asymmetry, question.at_end);
    let target = |one_price: &dyn Fn() -> Vec<f64>| {
        best.follow(Schedules::COST_BELADY, None);
        // One price guides as well as many on short traces only.
        if problem.length <= search::SHORT {
            best.follow(Schedules::PRICE_GUIDED, Some(one_price().into()));
        }
        best.bill().unwrap_or(problem.dearest())
    };
    let stop = |share: f64| {
        (progress.report)(SEARCHING * share);
        progress.stopped()
    };
    Search::run(&problem, target, CLOSE, &stop)
}

/// The most that the buffer which the warm-up leaves can save, in 1 / [`UNITS`] page reads: a read for each of its frames, and
/// a write for each page that it has left dirty and that the rest writes again.
///
/// A policy that begins with an empty buffer can follow any other one, and reads what the other has from the warm-up. It
/// writes no page that the rest does not write, and the other policy is not charged for one write of each page that the warm-up
/// left dirty.
fn saved_by_warmup(trace: &RecordedTrace, question: &BoundQuestion) -> i128 {
    let warmup = usize::try_from(question.warmup).unwrap_or(usize::MAX);
    if warmup == 0 {
        return 0;
    }
    let frames = i128::from(question.frames_of(trace));
    let saved_reads = frames * i128::from(UNITS);
    if question.at_end == AtEnd::Free {
        return saved_reads;
    }
    let (before, rest) = trace.references.split_at(warmup.min(trace.references.len()));
    let written = |references: &[u32]| {
        let mut written = vec![false; trace.pages.len()];
        for reference in references.iter().filter(|&reference| reference & 1 == 1) {
            written[(reference >> 1) as usize] = true;
        }
        written
    };
    let both = written(before).into_iter().zip(written(rest));
    let both = both.filter(|&(before, after)| before && after).count() as i128;
    saved_reads + both.min(frames) * certificate::write_units(question.asymmetry)
}

/// The lower bound that the prices prove, in page reads. `trace` begins where the question's warm-up
/// ends, which can save `warm`.
fn certified_bound(trace: &RecordedTrace, question: &BoundQuestion, prices: &[f64], warm: i128) -> f64 {
    let certified =
        certificate::certify(trace, u64::from(question.frames_of(trace)), question.asymmetry, question.at_end, &fixed(prices));
    // Prices that prove nothing would leave the bound 0, which needs no proof.
    let certified = (certified.unwrap_or(0) - warm).max(0);
    certified as f64 / UNITS as f64
}

/// [`solve`] for several questions on `threads` threads; the results are in the same order, without prices.
///
/// # Errors
///
/// [`SimError::Output`] if the threads cannot be started.
pub fn solve_all(
    trace: &RecordedTrace,
    questions: &[BoundQuestion],
    threads: usize,
    progress: &PassControl,
) -> Result<Vec<Bound>, SimError> {
    /// Shares are stored as whole numbers, which threads can share.
    const WHOLE: f64 = 1e6;
    let shares: Vec<AtomicU64> = questions.iter().map(|_| AtomicU64::new(0)).collect();
    let solve_one = |(question, own): (&BoundQuestion, &AtomicU64)| {
        let report = |share: f64| {
            own.store((WHOLE * share) as u64, Ordering::Relaxed);
            let done: u64 = shares.iter().map(|share| share.load(Ordering::Relaxed)).sum();
            (progress.report)(done as f64 / WHOLE / shares.len() as f64);
        };
        let progress = PassControl { report: &report, stop: progress.stop };
        let bound = Bound { prices: Arc::new([]), ..solve(trace, question, &progress) };
        report(1.0);
        bound
    };
    let workers = stream::workers(threads)?;
    Ok(workers.install(|| {
        let questions = questions.par_iter().with_max_len(1);
        questions.zip(&shares).map(solve_one).collect()
    }))
}

/// The cheapest schedules found so far.
struct BestSchedules<'a> {
    schedules: Schedules<'a>,
    cheapest: Option<Schedule>,
    /// The least bill of a schedule guided by prices, and the prices.
    guided: Option<(f64, Arc<[f64]>)>,
}

impl BestSchedules<'_> {
    fn bill(&self) -> Option<f64> {
        self.cheapest.map(|schedule| schedule.bill)
    }

    /// Runs schedules with the prices multiplied by [`FACTORS`], until one is [`NEAR`] the bound.
    fn follow_scaled(&mut self, prices: &[f64], lower_bound: f64, progress: &PassControl) {
        for (done, factor) in FACTORS.iter().enumerate() {
            if self.bill().is_some_and(|bill| bill <= lower_bound * NEAR) || progress.stopped() {
                break;
            }
            (progress.report)(SEARCHING + (1.0 - SEARCHING) * done as f64 / FACTORS.len() as f64);
            let scaled = prices.iter().map(|price| factor * price).collect();
            self.follow(Schedules::PRICE_GUIDED, Some(scaled));
        }
    }

    fn follow(&mut self, policy: &str, prices: Option<Arc<[f64]>>) {
        let Some(schedule) = self.schedules.run(policy, prices.clone()) else {
            return;
        };
        if self.cheapest.is_none_or(|cheapest| schedule.bill < cheapest.bill) {
            self.cheapest = Some(schedule);
        }
        let guided = self.guided.as_ref();
        if let Some(prices) = prices
            && guided.is_none_or(|(bill, _)| schedule.bill < *bill)
        {
            self.guided = Some((schedule.bill, prices));
        }
    }
}

/// Prices in [`UNITS`], never decreasing.
fn fixed(prices: &[f64]) -> Vec<u64> {
    let mut least = 0;
    let units = prices.iter().map(|price| {
        least = least.max((price * UNITS as f64).round() as u64);
        least
    });
    units.collect()
}
