//! What a policy does against memory size.
//!
//! LRU is known at every size from one pass ([`LruCurve`]). Every other policy is run in miniature
//! at the sizes asked for: over a hashed sample of the pages, with as much smaller a buffer
//! ([`PageSample`]); [`Errors`] say how far off that may be.

mod clean_pools;
mod errors;
mod lru;
mod miniature;
mod run;
mod shards;
mod target;

use hashbrown::HashMap;

use ebbpool_policy::PolicySpec;
use ebbpool_trace::{Metadata, Source, StackDistances};

use crate::engine::Chunk;
use crate::error::SimError;
use crate::store::{Extent, Kept, Store};
use crate::stream::{Cell, Options, Progress, Scan, TraceFacts, for_each_chunk};
use crate::sweep::{Size, Sweep, Warmup};

pub use clean_pools::CleanPool;
pub use errors::Errors;
pub(crate) use errors::OfPart;
pub use lru::{LruCurve, Traffic};
pub use miniature::FEWEST_FRAMES;
pub use shards::PageSample;
pub use target::Smallest;

use errors::scaled_up;
use lru::LruStack;
use run::{Job, Wave};

/// The share of the pages that is sampled where nothing else is said.
const USUAL_RATE: f64 = 0.01;

/// Sampled at least, where nothing else is said: with fewer pages the errors are several per cent.
const USUAL_FEWEST_PAGES: f64 = 16_384.0;

/// LRU curves of more pages are not kept: they would take more room than all other results.
const MOST_PAGES_KEPT: u64 = 1 << 20;

/// What is asked of curves besides policies and sizes.
#[derive(Clone, Debug)]
pub struct CurveOptions {
    /// How much of the trace is warm-up.
    pub warmup: Warmup,
    /// What else holds; its `warmup` is overruled, and its `rate` is not looked at.
    pub options: Options,
    /// Cost of a page write in page reads, as policies are told.
    pub asymmetry: f64,
    /// The share of the pages to sample; nothing for 1 %, or what comes to 16,384 pages.
    pub sample: Option<f64>,
}

/// What is known of a policy at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Of all the trace; of a sample, scaled up.
    pub traffic: Traffic,
    /// The pages looked at; [`PageSample::ALL`] where the traffic is exact.
    pub sample: PageSample,
    /// How far off the traffic may be; nothing where it is exact.
    pub errors: Option<Errors>,
}

impl Estimate {
    fn exact(traffic: Traffic) -> Self {
        Estimate {
            traffic,
            sample: PageSample::ALL,
            errors: None,
        }
    }
}

/// The curves of one trace.
pub struct Curves<'a> {
    source: &'a Source,
    kept: Kept<'a>,
    options: Options,
    asymmetry: f64,
    rate: f64,
    metadata: Metadata,
    notes: Vec<String>,
    facts: TraceFacts,
    lru: LruCurve,
    /// What was found so far, by policy and frames.
    known: HashMap<(String, u64), Estimate>,
}

impl<'a> Curves<'a> {
    /// Learns all about LRU, in one pass or from the store.
    ///
    /// # Errors
    ///
    /// What reading the trace may fail with; [`SimError::TooLarge`] beyond 2^30 pages.
    pub fn new(
        source: &'a Source,
        store: &'a dyn Store,
        asked: &CurveOptions,
        progress: &Progress,
    ) -> Result<Self, SimError> {
        let kept = Kept::new(store, None);
        let resolved = Sweep {
            policies: Vec::new(),
            sizes: Vec::new(),
            asymmetries: Vec::new(),
            warmup: asked.warmup,
            options: asked.options.clone(),
            time_lines: false,
            device: None,
        }
        .resolve(source, &kept, progress)?;
        let options = Options {
            warmup: resolved.warmup,
            ..asked.options.clone()
        };
        let (facts, lru) = match (kept.facts(&options), kept.lru_curve(&options)) {
            (Some(facts), Some(lru)) => (facts, lru),
            _ => {
                let (facts, lru) = lru_curve(source, &options, progress)?;
                let extent = Extent {
                    references: facts.references,
                    distinct_pages: facts.distinct_pages,
                };
                kept.put_extent(extent, source);
                kept.put_facts(&options, &facts);
                if facts.distinct_pages <= MOST_PAGES_KEPT {
                    kept.put_lru_curve(&options, &lru);
                }
                (facts, lru)
            }
        };
        let usual = USUAL_RATE.max(USUAL_FEWEST_PAGES / facts.distinct_pages as f64);
        let mut notes = resolved.notes;
        notes.extend(match source.late_notes() {
            none if none.is_empty() => kept.late_notes(),
            notes => notes,
        });
        Ok(Curves {
            source,
            kept,
            options,
            asymmetry: asked.asymmetry,
            rate: asked.sample.unwrap_or(usual),
            metadata: resolved.metadata,
            notes,
            facts,
            lru,
            known: HashMap::new(),
        })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What the reader had to guess or to leave out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Of the trace.
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

    /// The frames that a size comes to, at least 1.
    pub fn frames(&self, size: Size) -> u64 {
        size.frames_of(self.pages())
    }

    /// What the policies do with so many frames each, in the order given.
    ///
    /// # Errors
    ///
    /// What reading the trace may fail with, and [`SimError::Interrupted`]; the store then has what
    /// was finished.
    pub fn at(
        &mut self,
        wanted: &[(&PolicySpec, u64)],
        progress: &Progress,
    ) -> Result<Vec<Estimate>, SimError> {
        let mut todo: Vec<Job> = Vec::new();
        for &(policy, frames) in wanted {
            let key = (policy.to_string(), frames);
            if self.known.contains_key(&key) {
                continue;
            }
            // Where nothing has to leave, all policies do the same.
            if key.0 == "lru" || frames >= self.lru.distinct_pages() {
                let exact = Estimate::exact(self.lru.at(frames));
                self.known.insert(key, exact);
                continue;
            }
            let job = self.job(policy, frames);
            match self.kept.of_parts(&job.cell, &self.options, &job.sample) {
                Some(parts) => {
                    let estimate = self.estimate(&job, &parts);
                    self.known.insert(key, estimate);
                }
                None if todo.iter().any(|other| other.stands_for == key) => {}
                None => todo.push(job),
            }
        }
        self.run(todo, progress)?;
        let find = |&(policy, frames): &(&PolicySpec, u64)| {
            let known = self.known.get(&(policy.to_string(), frames));
            known.copied().ok_or(SimError::Interrupted)
        };
        wanted.iter().map(find).collect()
    }

    fn job(&self, policy: &PolicySpec, frames: u64) -> Job {
        let sample = miniature::sample(policy, frames, self.rate);
        Job {
            stands_for: (policy.to_string(), frames),
            cell: Cell {
                policy: miniature::policy(policy, sample),
                frames: miniature::frames(sample, frames),
                asymmetry: self.asymmetry,
            },
            sample,
        }
    }

    fn run(&mut self, mut todo: Vec<Job>, progress: &Progress) -> Result<(), SimError> {
        let all = todo.len();
        while !todo.is_empty() {
            let wave = Wave::first_of(&mut todo, &self.facts, self.options.threads);
            let done = all - todo.len() - wave.jobs.len();
            let report = |share: f64| {
                let jobs_done = done as f64 + share * wave.jobs.len() as f64;
                (progress.report)(jobs_done / all as f64);
            };
            let progress = Progress {
                report: &report,
                stop: progress.stop,
            };
            let found = wave.run(self.source, &self.options, &self.metadata, &progress)?;
            for (job, parts) in wave.jobs.into_iter().zip(found) {
                let kept = &self.kept;
                kept.put_of_parts(&job.cell, &self.options, &job.sample, &parts);
                let estimate = self.estimate(&job, &parts);
                self.known.insert(job.stands_for, estimate);
            }
        }
        Ok(())
    }

    fn estimate(&self, job: &Job, parts: &[OfPart]) -> Estimate {
        let sample = job.sample;
        let traffic = scaled_up(parts, &sample);
        if sample.is_all() {
            return Estimate::exact(traffic);
        }
        let lru = self.lru.at(job.stands_for.1);
        Estimate {
            traffic,
            sample,
            errors: Some(Errors::of(parts, &sample, lru, self.asymmetry)),
        }
    }
}

/// The part of a chunk that is warm-up, and the part that is not.
fn split<'a>(chunk: &Chunk<'a>, warm: usize) -> (Chunk<'a>, Chunk<'a>) {
    let (references, counted) = chunk.references.split_at(warm);
    let part = |references, start| Chunk {
        references,
        start,
        ..*chunk
    };
    (
        part(references, chunk.start),
        part(counted, chunk.start + warm),
    )
}

/// Calls `advance` with the chunks of a trace, cut where the warm-up ends, and `start_counting`
/// there.
fn for_each_part(
    source: &Source,
    options: &Options,
    progress: &Progress,
    mut step: impl FnMut(Step),
) -> Result<TraceFacts, SimError> {
    let mut left = options.warmup;
    let mut pages = Vec::new();
    for_each_chunk(
        source,
        options,
        &Scan::default(),
        progress,
        &mut pages,
        |chunk| {
            let length = chunk.references.len();
            let warm = usize::try_from(left).map_or(length, |left| left.min(length));
            let (first, second) = split(chunk, warm);
            if warm > 0 {
                step(Step::Serve(&first));
                left -= warm as u64;
                if left == 0 {
                    step(Step::StartCounting);
                }
            }
            step(Step::Serve(&second));
        },
    )
}

/// What comes next of a trace.
enum Step<'a> {
    Serve(&'a Chunk<'a>),
    StartCounting,
}

fn lru_curve(
    source: &Source,
    options: &Options,
    progress: &Progress,
) -> Result<(TraceFacts, LruCurve), SimError> {
    let mut stack = LruStack::new();
    let mut too_many = false;
    let facts = for_each_part(source, options, progress, |step| match step {
        Step::Serve(chunk) => {
            too_many |= chunk.pages.len() as u64 > StackDistances::MOST_PAGES;
            if !too_many {
                stack.advance(chunk);
            }
        }
        Step::StartCounting => stack.start_counting(),
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
