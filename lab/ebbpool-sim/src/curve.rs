//! Curves of a policy's page traffic against memory size.
//!
//! One pass yields LRU at every size ([`LruCurve`]). Every other policy is run in miniature at the
//! requested sizes: over a hashed sample of the pages, with a buffer scaled down alike
//! ([`PageSample`]); [`Errors`] estimate the deviation.

mod clean_pools;
mod errors;
mod lru;
mod miniature;
mod run;
mod shards;
mod target;

use ebbpool_policy::Capabilities;
use hashbrown::HashMap;

use ebbpool_trace::{Metadata, OptionalColumns, Source, StackDistances};

use crate::engine::Chunk;
use crate::error::SimError;
use crate::guest::SimPolicy;
use crate::store::{ResultStore, StoredResults, TraceExtent};
use crate::stream::{DistinctPages, PassControl, SimCell, SimOptions, TraceFacts, TraceScan, for_each_chunk, usable_frames};
use crate::sweep::{BufferSize, Sweep, Warmup};

pub use clean_pools::CleanPool;
pub use errors::Errors;
pub(crate) use errors::PartTraffic;
pub use lru::{LruCurve, Traffic};
pub use miniature::FEWEST_FRAMES;
pub use shards::PageSample;
pub use target::SmallestMemory;

use errors::scaled_up;
use lru::LruStack;
use run::{MiniatureJob, Wave};

/// The share of the pages that is sampled by default.
const USUAL_RATE: f64 = 0.01;

/// The least number of pages sampled by default: with fewer pages the errors are several per cent.
const USUAL_FEWEST_PAGES: f64 = 16_384.0;

/// LRU curves of more pages are not stored: they would take more room than all other results.
const MOST_PAGES_STORED: u64 = 1 << 20;

/// The options of curves besides policies and sizes.
#[derive(Clone, Debug)]
pub struct CurveOptions {
    /// How much of the trace is warm-up.
    pub warmup: Warmup,
    /// The other options; their `warmup` is overruled, and their `rate` is ignored.
    pub options: SimOptions,
    /// Cost of a page write in page reads, as reported to policies.
    pub asymmetry: f64,
    /// The share of the pages to sample; `None` for 1 %, but at least 16,384 pages.
    pub sample: Option<f64>,
}

/// The traffic of a policy at one size, exact or estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The traffic of the whole trace, scaled up from a sample.
    pub traffic: Traffic,
    /// The pages sampled; [`PageSample::ALL`] where the traffic is exact.
    pub sample: PageSample,
    /// The errors of the traffic; `None` where it is exact.
    pub errors: Option<Errors>,
}

impl Estimate {
    fn exact(traffic: Traffic) -> Self {
        Estimate { traffic, sample: PageSample::ALL, errors: None }
    }
}

/// The curves of one trace.
pub struct Curves<'a> {
    source: &'a Source,
    stored: StoredResults<'a>,
    options: SimOptions,
    asymmetry: f64,
    rate: f64,
    metadata: Metadata,
    notes: Vec<String>,
    facts: TraceFacts,
    lru: LruCurve,
    /// The estimates so far, by policy and frames.
    estimates: HashMap<(String, u64), Estimate>,
}

impl<'a> Curves<'a> {
    /// Computes the LRU curve in one pass, or reads it from the store.
    ///
    /// # Errors
    ///
    /// The errors of reading the trace; [`SimError::TooLarge`] beyond 2^30 pages.
    pub fn new(
        source: &'a Source,
        store: &'a dyn ResultStore,
        curve_options: &CurveOptions,
        progress: &PassControl,
    ) -> Result<Self, SimError> {
        let stored = StoredResults::new(store, None);
        let resolved = Sweep {
            policies: Vec::new(),
            sizes: Vec::new(),
            asymmetries: Vec::new(),
            warmup: curve_options.warmup,
            options: curve_options.options.clone(),
            time_lines: false,
            device: None,
        }
        .resolve(source, &stored, progress)?;
        let options = SimOptions { warmup: resolved.warmup, ..curve_options.options.clone() };
        let (facts, lru) = match (stored.facts(&options), stored.lru_curve(&options)) {
            (Some(facts), Some(lru)) => (facts, lru),
            _ => {
                let (facts, lru) = lru_curve(source, &options, progress)?;
                stored.put_extent(TraceExtent::from_facts(&facts), source);
                stored.put_facts(&options, &facts);
                if facts.distinct_pages <= MOST_PAGES_STORED {
                    stored.put_lru_curve(&options, &lru);
                }
                (facts, lru)
            }
        };
        let usual = USUAL_RATE.max(USUAL_FEWEST_PAGES / facts.distinct_pages as f64);
        let mut notes = resolved.notes;
        notes.extend(match source.late_notes() {
            none if none.is_empty() => stored.late_notes(source),
            notes => notes,
        });
        Ok(Curves {
            source,
            stored,
            options,
            asymmetry: curve_options.asymmetry,
            rate: curve_options.sample.unwrap_or(usual),
            metadata: resolved.metadata,
            notes,
            facts,
            lru,
            estimates: HashMap::new(),
        })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The reader's notes on what it had to guess or to leave out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The facts of the trace.
    pub fn facts(&self) -> TraceFacts {
        self.facts
    }

    /// References of warm-up.
    pub fn warmup(&self) -> u64 {
        self.options.warmup
    }

    /// LRU at every size.
    pub fn lru(&self) -> &LruCurve {
        &self.lru
    }

    /// The share of the pages that is sampled at sizes large enough.
    pub fn rate(&self) -> f64 {
        self.rate.min(1.0)
    }

    /// The pages that memory sizes are shares of: the database's where the trace states them, else
    /// the distinct ones.
    pub fn pages(&self) -> u64 {
        let stated = self.metadata.database_pages;
        stated.unwrap_or(self.facts.distinct_pages)
    }

    /// The number of frames of a size, at least 1.
    ///
    /// # Errors
    ///
    /// [`SimError::NoPageSize`].
    pub fn frames(&self, size: BufferSize) -> Result<u64, SimError> {
        size.to_frames(self.pages(), &self.metadata, self.source.label())
    }

    /// The estimates for policies, each with a number of frames, in the order given.
    ///
    /// # Errors
    ///
    /// The errors of reading the trace, and [`SimError::Interrupted`]; the store then has the
    /// results finished so far.
    pub fn estimates_at(&mut self, requests: &[(&SimPolicy, u64)], progress: &PassControl) -> Result<Vec<Estimate>, SimError> {
        let mut todo: Vec<MiniatureJob> = Vec::new();
        for &(policy, frames) in requests {
            let key = (key_of(policy), frames);
            if self.estimates.contains_key(&key) {
                continue;
            }
            // Where no page has to be evicted, all policies do the same, except those of servers.
            let fits = frames >= self.lru.distinct_pages() && !plays_server(policy);
            if key.0 == "lru" || fits {
                let exact = Estimate::exact(self.lru.traffic_at(frames));
                self.estimates.insert(key, exact);
                continue;
            }
            let job = self.job(policy, frames);
            match self.stored.part_traffic(&job.cell, &self.options, &job.sample) {
                Some(parts) => {
                    let estimate = self.estimate(&job, &parts);
                    self.estimates.insert(key, estimate);
                }
                None if todo.iter().any(|other| other.stands_for == key) => {}
                None => todo.push(job),
            }
        }
        self.run(todo, progress)?;
        let find_estimate = |&(policy, frames): &(&SimPolicy, u64)| {
            let estimates = self.estimates.get(&(key_of(policy), frames));
            estimates.copied().ok_or(SimError::Interrupted)
        };
        requests.iter().map(find_estimate).collect()
    }

    /// An estimate of the policy with a number of frames from a sample, also where [`at`](Self::at) would run it on all
    /// pages because it has no miniature: it shows how far such an estimate is off.
    ///
    /// # Errors
    ///
    /// The errors of reading the trace, and [`SimError::Interrupted`].
    pub fn sample(&self, requests: &[(&SimPolicy, u64)], progress: &PassControl) -> Result<Vec<Estimate>, SimError> {
        let jobs = requests.iter().map(|&(policy, frames)| self.job_over(policy, frames, miniature::forced_sample));
        let mut todo: Vec<MiniatureJob> = jobs.collect();
        let mut estimates = Vec::with_capacity(todo.len());
        while !todo.is_empty() {
            let wave = Wave::first_of(&mut todo, &self.facts, self.options.threads);
            let found = wave.run(self.source, &self.options, &self.metadata, progress)?;
            let jobs = wave.jobs.iter().zip(found);
            estimates.extend(jobs.map(|(job, parts)| self.estimate(job, &parts)));
        }
        Ok(estimates)
    }

    fn job(&self, policy: &SimPolicy, frames: u64) -> MiniatureJob {
        self.job_over(policy, frames, miniature::sample)
    }

    fn job_over(&self, policy: &SimPolicy, frames: u64, sample: impl Fn(&SimPolicy, u64, f64) -> PageSample) -> MiniatureJob {
        let stands_for = (key_of(policy), frames);
        let frames = frames.min(usable_frames(plays_server(policy), self.lru.distinct_pages()));
        // A part of a sample may have more pages than its share of so large a memory.
        let sample = match frames >= self.lru.distinct_pages() {
            true => PageSample::ALL,
            false => sample(policy, frames, self.rate),
        };
        let in_miniature = miniature::frames(sample, frames);
        MiniatureJob {
            stands_for,
            cell: SimCell { policy: miniature::policy(policy, sample), frames: in_miniature, asymmetry: self.asymmetry },
            sample,
        }
    }

    fn run(&mut self, mut todo: Vec<MiniatureJob>, progress: &PassControl) -> Result<(), SimError> {
        let all = work(&todo);
        while !todo.is_empty() {
            let wave = Wave::first_of(&mut todo, &self.facts, self.options.threads);
            let (of_wave, remaining) = (work(&wave.jobs), work(&todo));
            let report = |share: f64| {
                (progress.report)(((all - remaining - (1.0 - share) * of_wave) / all).max(0.0));
            };
            let progress = PassControl { report: &report, stop: progress.stop };
            let found = wave.run(self.source, &self.options, &self.metadata, &progress)?;
            for (job, parts) in wave.jobs.into_iter().zip(found) {
                let stored = &self.stored;
                stored.put_part_traffic(&job.cell, &self.options, &job.sample, &parts);
                let estimate = self.estimate(&job, &parts);
                self.estimates.insert(job.stands_for, estimate);
            }
        }
        Ok(())
    }

    fn estimate(&self, job: &MiniatureJob, parts: &[PartTraffic]) -> Estimate {
        let sample = job.sample;
        let traffic = scaled_up(parts, &sample);
        if sample.is_all() {
            return Estimate::exact(traffic);
        }
        let lru = self.lru.traffic_at(job.stands_for.1);
        Estimate { traffic, sample, errors: Some(Errors::new(parts, &sample, lru, self.asymmetry)) }
    }
}

/// The work of jobs, in passes of one policy over all pages.
fn work(jobs: &[MiniatureJob]) -> f64 {
    jobs.iter().map(|job| job.sample.rate).sum()
}

/// The policy in the keys of estimates. A guest may have the name of a policy of the registry.
fn key_of(policy: &SimPolicy) -> String {
    match policy {
        SimPolicy::Registered(policy) => policy.to_string(),
        SimPolicy::Guest(guest) => format!("guest {}", guest.name()),
    }
}

/// True if the policy is that of a server, which may write in the background, or evict pages although frames are empty.
fn plays_server(policy: &SimPolicy) -> bool {
    policy.registered().is_some_and(|spec| spec.capabilities().contains(Capabilities::BACKGROUND_WRITES))
}

/// The part of a chunk that is warm-up, and the part that is not.
fn split<'a>(chunk: &Chunk<'a>, warm: usize) -> (Chunk<'a>, Chunk<'a>) {
    let (references, counted) = chunk.references.split_at(warm);
    let (requests, counted_requests) = chunk.requests.split_at(warm.min(chunk.requests.len()));
    let end = chunk.start + warm;
    let checkpoints = chunk.checkpoints.partition_point(|&it| it < end);
    let (checkpoints, counted_checkpoints) = chunk.checkpoints.split_at(checkpoints);
    let (whole, counted_whole) = chunk.whole.split_at(warm.min(chunk.whole.len()));
    let (ends, counted_ends) = chunk.ends.split_at(chunk.ends.partition_point(|it| it.0 < end));
    let (trims, counted_trims) = chunk.trims.split_at(chunk.trims.partition_point(|it| it.0 < end));
    let first = Chunk { references, requests, checkpoints, whole, ends, trims, ..*chunk };
    let second = Chunk {
        references: counted,
        start: end,
        requests: counted_requests,
        checkpoints: counted_checkpoints,
        whole: counted_whole,
        ends: counted_ends,
        trims: counted_trims,
        ..*chunk
    };
    (first, second)
}

/// Calls `step` with the chunks of a trace, cut where the warm-up ends, and there. The chunks have the columns that some
/// policy asks for.
fn for_each_part(
    source: &Source,
    options: &SimOptions,
    progress: &PassControl,
    columns: OptionalColumns,
    mut step: impl FnMut(TraceStep) -> Result<(), SimError>,
) -> Result<TraceFacts, SimError> {
    let mut remaining = options.warmup;
    let mut pages = DistinctPages::new(columns);
    for_each_chunk(source, options, &TraceScan::default(), progress, &mut pages, |chunk| {
        let length = chunk.references.len();
        let warm = usize::try_from(remaining).map_or(length, |remaining| remaining.min(length));
        let (first, second) = split(chunk, warm);
        if warm > 0 {
            step(TraceStep::Serve(&first))?;
            remaining -= warm as u64;
            if remaining == 0 {
                step(TraceStep::StartCounting)?;
            }
        }
        step(TraceStep::Serve(&second))
    })
}

/// The next step of a pass over a trace.
enum TraceStep<'a> {
    Serve(&'a Chunk<'a>),
    StartCounting,
}

fn lru_curve(source: &Source, options: &SimOptions, progress: &PassControl) -> Result<(TraceFacts, LruCurve), SimError> {
    let mut stack = LruStack::new();
    let mut too_many = false;
    let facts = for_each_part(source, options, progress, OptionalColumns::default(), |step| {
        match step {
            TraceStep::Serve(chunk) => {
                too_many |= chunk.pages.len() as u64 > StackDistances::MOST_PAGES;
                if !too_many {
                    stack.advance(chunk);
                }
            }
            TraceStep::StartCounting => stack.start_counting(),
        }
        Ok(())
    })?;
    if too_many {
        return Err(SimError::TooLarge {
            trace: source.label().into(),
            what: "distinct pages for a curve",
            limit: StackDistances::MOST_PAGES,
        });
    }
    Ok((facts, stack.finish(options.at_end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_all_pages_is_more_work_than_one_on_a_sample() {
        let job = |sample: PageSample| MiniatureJob {
            stands_for: ("lru".into(), 1000),
            cell: SimCell { policy: "lru".parse().expect("a policy"), frames: 10, asymmetry: 1.0 },
            sample,
        };
        let quarter = PageSample { rate: 0.25, grain: 1 };
        assert_eq!(work(&[job(PageSample::ALL), job(quarter)]), 1.25);
    }
}
