//! `ebbpool replay`: a trace through the pool, on a real file.

pub(crate) mod args;
mod drive;
mod file;
mod ledger;
mod live;
mod page;
pub(crate) mod recording;
mod survey;
pub(crate) mod told;
mod watched;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use ebbpool::storage::{OpenError, Storage};
use ebbpool::{Pool, PoolOptions, Stats};
use ebbpool_cost::{OperationCosts, PAPERS_BASE};
use ebbpool_lab::numbers::Number;
use ebbpool_lab::{Capabilities, PolicySelection, RunResult, TraceSummary};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{AtEnd, Counts, TraceFacts};
use ebbpool_trace::output::OutputFile;
use ebbpool_trace::{Metadata, Source};

use crate::failure::Failure;
use crate::progress;
use crate::shared_args::RunFormat;
use args::PoolReplayArgs;
use drive::{Course, Played, Work};
use file::{Extent, Home};
use ledger::Ledger;
use live::Live;
use recording::Recording;
use survey::Survey;
use told::{Did, Latency, Told};
use watched::{Meter, Watched};

/// Pages of a trace that does not say how long its pages are.
const USUAL_PAGE_SIZE: u64 = 4096;

/// The smallest pages that a replay has use for.
const LEAST_PAGE_SIZE: usize = 512;

/// Pages with numbers below this are found without hashing.
const MOST_DENSE_PAGES: u64 = 1 << 26;

/// Pages that are verified at the end, at most.
const MOST_VERIFIED: usize = 1000;

/// Frames for that.
const FRAMES_TO_VERIFY: u32 = 16;

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Pool(ebbpool::Error),
    #[error("{path}: cannot {what}: {source}")]
    Io {
        path: PathBuf,
        what: &'static str,
        source: io::Error,
    },
    #[error("interrupted while {0} was made; it is of no use so far")]
    NotMade(PathBuf),
    #[error(
        "interrupted after {done} of {all} references, of which {warmup} are the warm-up; every page is whole"
    )]
    Interrupted { done: u64, all: u64, warmup: u64 },
    #[error(
        "{path}: page {page} was written {expected} times and holds what was written {found} times; the storage loses writes"
    )]
    Lost {
        path: String,
        page: u64,
        found: u64,
        expected: u32,
    },
}

impl ReplayError {
    /// True where the command line is wrong, and not the file.
    fn is_usage(&self) -> bool {
        matches!(
            self,
            ReplayError::Open(
                OpenError::PageSize(_) | OpenError::NotAFile(_) | OpenError::Uring(_)
            ) | ReplayError::Pool(ebbpool::Error::Options(_))
        )
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Failure::Command {
            usage: error.is_usage(),
            error: error.into(),
        }
    }
}

/// Replays, and prints what came of it.
pub(crate) fn replay(args: &PoolReplayArgs) -> Result<(), Failure> {
    let source = args.reading.source(&args.traces)?;
    let ran = run_all(args, &source)?;
    progress::report_notes(&source.late_notes());
    print(args, &ran.told)?;
    ran.into_result().map(drop)
}

/// Replays `source` with the policies of `words`, the arguments of `ebbpool replay`, and prints
/// nothing.
pub(crate) fn measured(source: &Source, words: &[String]) -> Result<Vec<Told>, Failure> {
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Words {
        #[command(flatten)]
        args: PoolReplayArgs,
    }
    let words = Words::try_parse_from(words)
        .map_err(|error| Failure::Usage(error.to_string().trim_start_matches("error: ").into()))?;
    run_all(&words.args, source)?.into_result()
}

/// What several policies did, up to the one that failed.
struct Ran {
    told: Vec<Told>,
    failure: Option<Failure>,
    references: u64,
    warmup: u64,
}

impl Ran {
    fn into_result(self) -> Result<Vec<Told>, Failure> {
        match (self.failure, self.told.last()) {
            (Some(failure), _) => Err(failure),
            (None, Some(told)) if told.interrupted => Err(ReplayError::Interrupted {
                done: told.record.warmup + told.record.references,
                all: self.references,
                warmup: self.warmup,
            }
            .into()),
            _ => Ok(self.told),
        }
    }
}

fn run_all(args: &PoolReplayArgs, source: &Source) -> Result<Ran, Failure> {
    let policies = policies_of(args)?;
    let survey = survey::survey(args, source)?;
    let page_size = page_size(args, &survey.metadata)?;
    let extent = Extent {
        page_size,
        pages: survey.pages,
    };
    let events = args.events.as_ref().map(OutputFile::create).transpose()?;
    let metadata = Metadata {
        page_size: Some(page_size as u64),
        ..survey.metadata.clone()
    };
    let recording = args.record.as_ref();
    let recording = recording.map(|path| Recording::create(path, &metadata));
    let mut replay = Replay {
        args,
        source,
        survey: &survey,
        metadata,
        extent,
        recording: recording.transpose()?,
        events,
        home: Home::find(args, extent)?,
    };
    let mut all = Vec::new();
    let mut failure = None;
    for policy in &policies {
        match replay.with(policy) {
            Ok(told) => all.push(told),
            // What others have done is printed all the same.
            Err(error) if all.is_empty() => return Err(error),
            Err(error) => failure = Some(error),
        }
        let interrupted = all.last().is_some_and(|told| told.interrupted);
        if failure.is_some() || interrupted {
            break;
        }
    }
    Ok(Ran {
        told: all,
        failure,
        references: survey.references,
        warmup: survey.warmup,
    })
}

fn print(args: &PoolReplayArgs, all: &[Told]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match (args.format, all) {
        (RunFormat::Json, [told]) if args.policies.is_empty() => {
            serde_json::to_writer_pretty(&mut out, told).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        (RunFormat::Json, all) => {
            serde_json::to_writer_pretty(&mut out, all).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        (RunFormat::Table, [told]) => out.write_all(told.to_table().as_bytes())?,
        (RunFormat::Table, all) => out.write_all(told::comparison(all).as_bytes())?,
    }
    Ok(())
}

/// The policies asked for, which a pool can have.
fn policies_of(args: &PoolReplayArgs) -> Result<Vec<PolicySpec>, Failure> {
    let capabilities = Capabilities::default();
    let specs = match &args.policy {
        Some(policy) => vec![capabilities.policy(policy)?],
        None => PolicySelection::lists(&args.policies).resolve(&capabilities)?,
    };
    match specs.iter().find(|spec| !spec.online()) {
        Some(spec) => Err(Failure::Usage(format!(
            "{spec} needs to know the references to come, and a pool does not; ebbpool run simulates it"
        ))),
        None => Ok(specs),
    }
}

fn page_size(args: &PoolReplayArgs, metadata: &Metadata) -> Result<usize, Failure> {
    let given = args.reading.options().page_size;
    let given = given.map(u64::from).or(metadata.page_size);
    let size = given.unwrap_or(USUAL_PAGE_SIZE);
    let usable = usize::try_from(size).ok();
    usable
        .filter(|size| size.is_power_of_two() && *size >= LEAST_PAGE_SIZE)
        .ok_or_else(|| {
            Failure::Usage(format!(
                "pages of {size} bytes cannot be replayed; give --page-size, a power of two from {LEAST_PAGE_SIZE} up"
            ))
        })
}

/// Tells the writes of this replay from those of others.
fn this_run() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64).max(1)
}

struct Replay<'a> {
    args: &'a PoolReplayArgs,
    source: &'a Source,
    survey: &'a Survey,
    metadata: Metadata,
    extent: Extent,
    recording: Option<Recording>,
    events: Option<OutputFile>,
    home: Home<'a>,
}

/// What is known when the counting begins.
struct Start {
    stats: Stats,
    meter: watched::Reading,
    at: Instant,
}

impl Replay<'_> {
    /// One policy, in a pool of its own.
    fn with(&mut self, policy: &PolicySpec) -> Result<Told, Failure> {
        let args = self.args;
        let alone = args.threads == 1 && !args.background && args.read_ahead == 0;
        let ledger = Arc::new(Ledger::new(self.events.take(), args.cluster_size, alone));
        let meter = Arc::new(Meter::default());
        let storage = self.home.open()?;
        let pool = self.pool(policy, Arc::clone(&storage), &ledger, &meter)?;
        let run = this_run();
        let work = Work {
            pool: &pool,
            page_size: self.extent.page_size,
            run,
        };
        let course = Course {
            threads: args.threads,
            warmup: self.survey.warmup,
            cluster_size: args.cluster_size,
            pages: self.extent.pages,
            verify: !args.no_verify,
        };
        let opened = Instant::now();
        let mut reader = self.source.open()?;
        let mut start = None;
        let live = Live::new(&policy.to_string(), self.survey.references);
        let played = std::thread::scope(|scope| {
            let (end, ended) = mpsc::channel::<()>();
            scope.spawn(|| {
                let ended = ended;
                live.show(&pool, &ended);
            });
            let played = drive::drive(work, &course, &mut reader, || {
                ledger.counting();
                start = Some(Start {
                    stats: pool.stats(),
                    meter: meter.reading(),
                    at: Instant::now(),
                });
            });
            drop(end);
            played
        })?;
        let dirty_left = match args.ending.at_end() {
            AtEnd::Free => pool.stats().dirty,
            AtEnd::Flush => {
                ledger.flushing();
                pool.checkpoint().map_err(ReplayError::Pool)?;
                0
            }
        };
        let ended = Instant::now();
        let stats = pool.stats();
        let measured = meter.reading();
        let cluster_switches = ledger.close()?;
        pool.close()
            .map_err(|(_, error)| ReplayError::Pool(error))?;
        let described = self.describe(&*storage);
        drop(storage);
        if let Some(recording) = &self.recording {
            recording.finish()?;
        }
        let verified_pages = match args.no_verify {
            true => None,
            false => Some(self.verify(&played, run)?),
        };
        let Some(start) = start else {
            return Err(ReplayError::Interrupted {
                done: played.references,
                all: self.survey.references,
                warmup: self.survey.warmup,
            }
            .into());
        };
        let outcome = Outcome {
            did: Did::between(&start.stats, &stats),
            measured: measured.since(start.meter),
            dirty_left: dirty_left.into(),
            cluster_switches,
            seconds: (ended - opened).as_secs_f64(),
            real_seconds: (ended - start.at).as_secs_f64(),
        };
        let record = self.record(policy, &played, &outcome);
        let Outcome {
            did,
            measured,
            real_seconds,
            ..
        } = outcome;
        Ok(Told {
            record,
            storage: described,
            threads: args.threads,
            real_seconds,
            pages_read: did.pages_read(),
            pages_written: did.pages_written(),
            write_calls: did.write_calls,
            syncs: did.syncs,
            read_us: measured.read_us(),
            write_us: measured.write_us(),
            measured_asymmetry: measured.asymmetry(),
            read_latency_us: Latency::of(stats.read_latency),
            write_latency_us: Latency::of(stats.write_latency),
            sync_latency_us: Latency::of(stats.sync_latency),
            waits: did.waits,
            delays: did.delays,
            delayed_seconds: did.delayed.as_secs_f64(),
            verified_pages,
            interrupted: played.interrupted,
        })
    }

    fn describe(&self, storage: &dyn Storage) -> String {
        match &self.home {
            Home::Memory(_) => storage.describe(),
            Home::File(_) => format!("{}: {}", self.home.label(), storage.describe()),
        }
    }

    fn pool(
        &self,
        policy: &PolicySpec,
        storage: Arc<dyn Storage>,
        ledger: &Arc<Ledger>,
        meter: &Arc<Meter>,
    ) -> Result<Pool, Failure> {
        let args = self.args;
        let pages = self.extent.pages;
        let storage = Watched::new(storage, pages, Arc::clone(ledger), Arc::clone(meter));
        let mut options = PoolOptions::new(self.survey.pool_frames)
            .policy(&policy.to_string())
            .map_err(ReplayError::Pool)?
            .background(args.background || args.read_ahead > 0)
            .read_ahead(args.read_ahead)
            // The counts are those of `run`.
            .exact_hits(true)
            .dense_pages(self.extent.pages.min(MOST_DENSE_PAGES) as usize);
        if !args.background {
            options = options.clean_reserve(0).dirty_budget(1.0, Duration::ZERO);
        }
        if let Some(asymmetry) = args.asymmetry {
            options = options.fixed_costs(OperationCosts::from(asymmetry));
        }
        if ledger.wants_decisions() {
            let ledger = Arc::clone(ledger);
            options = options.on_event(move |event| ledger.decided(event));
        }
        if let Some(recording) = &self.recording {
            options = options.on_fix(recording.sink());
        }
        Ok(options.open(storage).map_err(ReplayError::Pool)?)
    }

    /// Reads a sample of the pages that were written, as a new pool finds them in storage.
    fn verify(&self, played: &Played, run: u64) -> Result<u64, Failure> {
        let written = played.writes.iter().filter(|&&writes| writes > 0).count();
        let every = written.div_ceil(MOST_VERIFIED).max(1);
        let pool = PoolOptions::new(FRAMES_TO_VERIFY)
            .background(false)
            .open(self.home.open()?)
            .map_err(ReplayError::Pool)?;
        let pages = played.writes.iter().zip(0u64..);
        let pages = pages.filter(|&(&writes, _)| writes > 0).step_by(every);
        let mut verified = 0;
        for (&expected, page) in pages {
            let fixed = pool.fix_read(page).map_err(ReplayError::Pool)?;
            let found = page::writes(&fixed, run);
            if found as u32 != expected {
                let path = self.home.label();
                return Err(ReplayError::Lost {
                    path,
                    page,
                    found,
                    expected,
                }
                .into());
            }
            verified += 1;
        }
        Ok(verified)
    }

    fn record(&self, policy: &PolicySpec, played: &Played, outcome: &Outcome) -> RunResult {
        let Outcome { did, measured, .. } = outcome;
        let of_trace = TraceSummary {
            label: self.source.label(),
            metadata: &self.metadata,
            facts: TraceFacts {
                references: played.references,
                distinct_pages: played.distinct_pages,
                cluster_switches: played.cluster_switches,
            },
            warmup: self.survey.warmup,
        };
        let counts = Counts {
            references: played.references - self.survey.warmup,
            misses: did.misses,
            padding_reads: did.padding_reads(),
            writes: did.writes(),
            dirty_left: outcome.dirty_left,
            cluster_switches: outcome.cluster_switches,
        };
        let frames = self.survey.frames;
        let asymmetry = self.args.asymmetry.unwrap_or(PAPERS_BASE);
        let mut record = RunResult::new(&of_trace, policy.to_string(), frames, asymmetry, &counts);
        record.reads = did.reads();
        record.bytes_read = Some(record.reads.saturating_mul(self.extent.page_size as u64));
        if self.args.asymmetry.is_none() {
            let ratio = measured.asymmetry();
            record.asymmetry = Number(ratio.unwrap_or(f64::NAN));
            let writes = record.writes as f64 * ratio.unwrap_or(0.0);
            record.cost = (record.reads as f64 + writes) / record.references as f64;
        } else {
            let cost = asymmetry.bill(record.reads, record.writes);
            record.cost = cost / record.references as f64;
        }
        record.cost_us = Some(measured.total_us() / record.references as f64);
        record.seconds = Some(outcome.seconds);
        record.references_per_second = Some(played.references as f64 / outcome.seconds);
        record
    }
}

/// What was measured of one policy.
struct Outcome {
    did: Did,
    measured: watched::Reading,
    dirty_left: u64,
    cluster_switches: u64,
    seconds: f64,
    real_seconds: f64,
}
