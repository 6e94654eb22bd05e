//! A trace through the pool, on memory or on a real file.

mod drive;
mod error;
mod ledger;
mod page;
mod recording;
mod request;
mod result;
mod survey;
mod target_file;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use ebbpool::storage::Storage;
use ebbpool::{Pool, PoolOptions, Stats};
use ebbpool_cost::{OperationCosts, PAPERS_BASE};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{AtEnd, Counts, TraceFacts};
use ebbpool_trace::output::OutputFile;
use ebbpool_trace::{Metadata, Source};

use crate::error::LabError;
use crate::lab::Lab;
use crate::numbers::Number;
use crate::pricing::Capabilities;
use crate::run_result::{RunResult, TraceSummary};
use drive::{Course, Played, Work};
use error::LEAST_PAGE_SIZE;
use ledger::Ledger;
use survey::Survey;
use target_file::{Extent, PageStore};
use watched::{Meter, Watched};

pub use error::ReplayError;
pub use recording::FixRecorder;
pub use request::{ReplayFile, ReplayRequest, ReplayStorage};
pub use result::{LatencyQuantiles, PoolActivity, ReplayResult, Waits};

/// Pages of a trace that does not say how long its pages are.
const USUAL_PAGE_SIZE: u64 = 4096;

/// Pages with numbers below this are found without hashing.
const MOST_DENSE_PAGES: u64 = 1 << 26;

/// Pages that are verified at the end, at most.
const MOST_VERIFIED: usize = 1000;

/// Frames for that.
const FRAMES_TO_VERIFY: u32 = 16;

/// How often the caller is shown what the pool does.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Files that a replay of one policy writes besides.
#[derive(Clone, Debug, Default)]
pub struct ReplayOutputs {
    /// Write-backs and evictions, in order, a line each.
    pub events: Option<PathBuf>,
    /// The references as the pool was asked for them, in the native format.
    pub references: Option<PathBuf>,
}

/// The results of several policies, up to the one that failed.
#[derive(Debug)]
pub struct ReplayStudy {
    /// The results, in the order of the policies.
    pub results: Vec<ReplayResult>,
    /// Why the next policy has none.
    pub failure: Option<LabError>,
    references: u64,
    warmup: u64,
}

impl ReplayStudy {
    /// The results, if all policies have one and none was stopped.
    ///
    /// # Errors
    ///
    /// Why a policy has none, and [`ReplayError::Interrupted`].
    pub fn into_result(self) -> Result<Vec<ReplayResult>, LabError> {
        match (self.failure, self.results.last()) {
            (Some(failure), _) => Err(failure),
            (None, Some(last)) if last.interrupted => Err(ReplayError::Interrupted {
                done: last.result.warmup + last.result.references,
                all: self.references,
                warmup: self.warmup,
            }
            .into()),
            _ => Ok(self.results),
        }
    }
}

impl Lab<'_> {
    /// Runs a trace through the pool, with one policy after the other.
    ///
    /// # Errors
    ///
    /// If the request makes no sense, the trace cannot be read, or the first policy has no result.
    pub fn replay(
        &self,
        source: &Source,
        request: &ReplayRequest,
        outputs: &ReplayOutputs,
    ) -> Result<ReplayStudy, LabError> {
        let policies = policies_of(request)?;
        let survey = survey::survey(self, request, source)?;
        let page_size = page_size(request, &survey.metadata)?;
        let extent = Extent {
            page_size,
            pages: survey.pages,
        };
        let events = outputs
            .events
            .as_ref()
            .map(OutputFile::create)
            .transpose()?;
        let metadata = Metadata {
            page_size: Some(page_size as u64),
            ..survey.metadata.clone()
        };
        let recorder = outputs.references.as_ref();
        let recorder = recorder.map(|path| FixRecorder::create(path, &metadata));
        let mut replay = Replay {
            lab: self,
            request,
            source,
            survey: &survey,
            metadata,
            extent,
            recorder: recorder.transpose()?,
            events,
            store: PageStore::find(&request.storage, extent, self.events)?,
        };
        let mut results = Vec::new();
        let mut failure = None;
        for policy in &policies {
            match replay.with(policy) {
                Ok(result) => results.push(result),
                // What others have done is an answer all the same.
                Err(error) if results.is_empty() => return Err(error),
                Err(error) => failure = Some(error),
            }
            let interrupted = results.last().is_some_and(|last| last.interrupted);
            if failure.is_some() || interrupted {
                break;
            }
        }
        self.notes(&source.late_notes());
        Ok(ReplayStudy {
            results,
            failure,
            references: survey.references,
            warmup: survey.warmup,
        })
    }
}

/// The policies asked for, which a pool can have.
fn policies_of(request: &ReplayRequest) -> Result<Vec<PolicySpec>, LabError> {
    let specs = request.policies.resolve(&Capabilities::default())?;
    match specs.iter().find(|spec| !spec.online()) {
        Some(spec) => Err(ReplayError::Offline(spec.to_string()).into()),
        None => Ok(specs),
    }
}

fn page_size(request: &ReplayRequest, metadata: &Metadata) -> Result<usize, ReplayError> {
    let given = request.page_size.or(metadata.page_size);
    let size = given.unwrap_or(USUAL_PAGE_SIZE);
    let usable = usize::try_from(size).ok();
    usable
        .filter(|size| size.is_power_of_two() && *size >= LEAST_PAGE_SIZE)
        .ok_or(ReplayError::PageSize(size))
}

/// Tells the writes of this replay from those of others.
fn this_run() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64).max(1)
}

struct Replay<'a> {
    lab: &'a Lab<'a>,
    request: &'a ReplayRequest,
    source: &'a Source,
    survey: &'a Survey,
    metadata: Metadata,
    extent: Extent,
    recorder: Option<FixRecorder>,
    events: Option<OutputFile>,
    store: PageStore<'a>,
}

/// What is known when the counting begins.
struct Start {
    stats: Stats,
    meter: watched::Reading,
    at: Instant,
}

impl Replay<'_> {
    /// One policy, in a pool of its own.
    fn with(&mut self, policy: &PolicySpec) -> Result<ReplayResult, LabError> {
        let request = self.request;
        let alone = request.threads == 1 && !request.background && request.read_ahead == 0;
        let ledger = Arc::new(Ledger::new(self.events.take(), request.cluster_size, alone));
        let meter = Arc::new(Meter::default());
        let storage = self.store.open()?;
        let pool = self.pool(policy, Arc::clone(&storage), &ledger, &meter)?;
        let run = this_run();
        let opened = Instant::now();
        let (played, start) = self.play(policy, &pool, run, &ledger, &meter)?;
        let dirty_left = match request.at_end {
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
        if let Some(recorder) = &self.recorder {
            recorder.finish()?;
        }
        let verified_pages = match request.verify {
            true => Some(self.verify(&played, run)?),
            false => None,
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
            activity: PoolActivity::between(&start.stats, &stats),
            measured: measured.since(start.meter),
            dirty_left: dirty_left.into(),
            cluster_switches,
            seconds: (ended - opened).as_secs_f64(),
            real_seconds: (ended - start.at).as_secs_f64(),
        };
        let result = self.result(policy, &played, &outcome);
        let interrupted = played.interrupted;
        Ok(outcome.into_result(
            result,
            described,
            request,
            &stats,
            verified_pages,
            interrupted,
        ))
    }

    /// Sends the trace through the pool; nothing is known of the start of the counting if the caller stops
    /// during the warm-up.
    fn play(
        &self,
        policy: &PolicySpec,
        pool: &Pool,
        run: u64,
        ledger: &Ledger,
        meter: &Meter,
    ) -> Result<(Played, Option<Start>), LabError> {
        let work = Work {
            pool,
            page_size: self.extent.page_size,
            run,
        };
        let course = Course {
            stop: self.lab.events.stop(),
            threads: self.request.threads,
            warmup: self.survey.warmup,
            cluster_size: self.request.cluster_size,
            pages: self.extent.pages,
            verify: self.request.verify,
        };
        let mut reader = self.source.open()?;
        let mut start = None;
        let played = std::thread::scope(|scope| {
            let (end, ended) = mpsc::channel::<()>();
            scope.spawn(|| {
                let ended = ended;
                self.show(policy, pool, &ended);
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
        Ok((played, start))
    }

    /// Shows the caller what the pool does, until the other end of the channel is dropped.
    fn show(&self, policy: &PolicySpec, pool: &Pool, end: &Receiver<()>) {
        let policy = policy.to_string();
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(SHOWN_EVERY) {
            let all = self.survey.references;
            self.lab.events.replaying(&policy, all, &pool.stats());
        }
        self.lab.events.progress(&policy, 1.0);
    }

    fn describe(&self, storage: &dyn Storage) -> String {
        match &self.store {
            PageStore::Memory(_) => storage.describe(),
            PageStore::File(_) => format!("{}: {}", self.store.label(), storage.describe()),
        }
    }

    fn pool(
        &self,
        policy: &PolicySpec,
        storage: Arc<dyn Storage>,
        ledger: &Arc<Ledger>,
        meter: &Arc<Meter>,
    ) -> Result<Pool, ReplayError> {
        let request = self.request;
        let pages = self.extent.pages;
        let storage = Watched::new(storage, pages, Arc::clone(ledger), Arc::clone(meter));
        let mut options = PoolOptions::new(self.survey.pool_frames)
            .policy(&policy.to_string())
            .map_err(ReplayError::Pool)?
            .background(request.background || request.read_ahead > 0)
            .read_ahead(request.read_ahead)
            // The counts are those of `run`.
            .exact_hits(true)
            .dense_pages(self.extent.pages.min(MOST_DENSE_PAGES) as usize);
        if !request.background {
            options = options.clean_reserve(0).dirty_budget(1.0, Duration::ZERO);
        }
        if let Some(asymmetry) = request.asymmetry {
            options = options.fixed_costs(OperationCosts::from(asymmetry));
        }
        if ledger.wants_decisions() {
            let ledger = Arc::clone(ledger);
            options = options.on_event(move |event| ledger.decided(event));
        }
        if let Some(recorder) = &self.recorder {
            options = options.on_fix(recorder.sink());
        }
        options.open(storage).map_err(ReplayError::Pool)
    }

    /// Reads a sample of the pages that were written, as a new pool finds them in storage.
    fn verify(&self, played: &Played, run: u64) -> Result<u64, ReplayError> {
        let written = played.writes.iter().filter(|&&writes| writes > 0).count();
        let every = written.div_ceil(MOST_VERIFIED).max(1);
        let pool = PoolOptions::new(FRAMES_TO_VERIFY)
            .background(false)
            .open(self.store.open()?)
            .map_err(ReplayError::Pool)?;
        let pages = played.writes.iter().zip(0u64..);
        let pages = pages.filter(|&(&writes, _)| writes > 0).step_by(every);
        let mut verified = 0;
        for (&expected, page) in pages {
            let fixed = pool.fix_read(page).map_err(ReplayError::Pool)?;
            let found = page::writes(&fixed, run);
            if found as u32 != expected {
                let path = self.store.label();
                return Err(ReplayError::Lost {
                    path,
                    page,
                    found,
                    expected,
                });
            }
            verified += 1;
        }
        Ok(verified)
    }

    fn result(&self, policy: &PolicySpec, played: &Played, outcome: &Outcome) -> RunResult {
        let Outcome {
            activity, measured, ..
        } = outcome;
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
            misses: activity.misses,
            padding_reads: activity.padding_reads(),
            writes: activity.writes(),
            dirty_left: outcome.dirty_left,
            cluster_switches: outcome.cluster_switches,
        };
        let frames = self.survey.frames;
        let asymmetry = self.request.asymmetry.unwrap_or(PAPERS_BASE);
        let mut result = RunResult::new(&of_trace, policy.to_string(), frames, asymmetry, &counts);
        result.reads = activity.reads();
        result.bytes_read = Some(result.reads.saturating_mul(self.extent.page_size as u64));
        if self.request.asymmetry.is_none() {
            let ratio = measured.asymmetry();
            result.asymmetry = Number(ratio.unwrap_or(f64::NAN));
            let writes = result.writes as f64 * ratio.unwrap_or(0.0);
            result.cost = (result.reads as f64 + writes) / result.references as f64;
        } else {
            let cost = asymmetry.bill(result.reads, result.writes);
            result.cost = cost / result.references as f64;
        }
        result.cost_us = Some(measured.total_us() / result.references as f64);
        result.seconds = Some(outcome.seconds);
        result.references_per_second = Some(played.references as f64 / outcome.seconds);
        result
    }
}

/// What was measured of one policy.
struct Outcome {
    activity: PoolActivity,
    measured: watched::Reading,
    dirty_left: u64,
    cluster_switches: u64,
    seconds: f64,
    real_seconds: f64,
}

impl Outcome {
    /// All that a caller is given.
    fn into_result(
        self,
        result: RunResult,
        storage: String,
        request: &ReplayRequest,
        stats: &Stats,
        verified_pages: Option<u64>,
        interrupted: bool,
    ) -> ReplayResult {
        let Outcome {
            activity, measured, ..
        } = self;
        ReplayResult {
            result,
            storage,
            threads: request.threads,
            real_seconds: self.real_seconds,
            pages_read: activity.pages_read(),
            pages_written: activity.pages_written(),
            write_calls: activity.write_calls,
            syncs: activity.syncs,
            read_us: measured.read_us(),
            write_us: measured.write_us(),
            measured_asymmetry: measured.asymmetry(),
            read_latency_us: LatencyQuantiles::of(stats.read_latency),
            write_latency_us: LatencyQuantiles::of(stats.write_latency),
            sync_latency_us: LatencyQuantiles::of(stats.sync_latency),
            waits: activity.waits,
            delays: activity.delays,
            delayed_seconds: activity.delayed.as_secs_f64(),
            verified_pages,
            interrupted,
        }
    }
}
