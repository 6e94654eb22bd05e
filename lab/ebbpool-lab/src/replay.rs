//! Runs a trace through the pool, in memory or on a real file.

mod drive;
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
use ebbpool::{Pool, PoolOptions};
use ebbpool_cost::{OperationCosts, PAPERS_BASE};
use ebbpool_policy::{Capabilities, DynPolicy, PolicySpec, registry};
use ebbpool_sim::{AtEnd, Counts, SimPolicy, TraceFacts, check_guest, guest_policy};
use ebbpool_trace::output::OutputFile;
use ebbpool_trace::{Batch, Metadata, OptionalColumns, Source};

use crate::error::{LEAST_PAGE_SIZE, LabError};
use crate::lab::Lab;
use crate::numbers::Number;
use crate::pricing::DeviceFeatures;
use crate::run_result::{RunResult, TraceSummary};
use drive::{FeedEvent, FeedOptions, ReplayCounts, ReplayPool};
use ledger::Ledger;
use survey::TraceSurvey;
use target_file::{PageExtent, PageStore};
use watched::{Meter, MeterReading, MeteredStorage};

pub use crate::error::ReplayError;
pub use ebbpool::storage::{Engine, OpenError};
pub use ebbpool::{PoolError, Stats};
pub use ebbpool_trace::{PageClasses, WrittenTrace};
pub use recording::FixRecorder;
pub use request::{ReplayFile, ReplayRequest, ReplayStorage};
pub use result::{LatencyQuantiles, PoolActivity, ReplayResult, WaitCounts};

/// The page size for a trace that does not state one.
const DEFAULT_PAGE_SIZE: u64 = 4096;

/// The pool finds pages with numbers below this limit without hashing.
const MOST_DENSE_PAGES: u64 = 1 << 26;

/// The most pages that a replay verifies at the end.
const MOST_VERIFIED: usize = 1000;

/// The frames of the pool that verifies.
const FRAMES_TO_VERIFY: u32 = 16;

/// The time between two reports of the pool's statistics to the caller.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Additional files that a replay of one policy writes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplayOutputs {
    /// Write-backs and evictions, in order, a line each.
    pub events: Option<PathBuf>,
    /// The page references to the pool, in their order, as a trace in the native format.
    pub references: Option<PathBuf>,
}

/// The results of several policies, up to the first that failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplayStudy {
    /// The results, in the order of the policies.
    pub results: Vec<ReplayResult>,
    /// Why the next policy has no result.
    pub failure: Option<LabError>,
    references: u64,
    warmup: u64,
}

impl ReplayStudy {
    /// The results, if all policies have one and none was stopped.
    ///
    /// # Errors
    ///
    /// The reason why a policy has no result, or [`ReplayError::Interrupted`].
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
    /// If the request is invalid, the trace cannot be read, or the first policy has no result.
    pub fn replay(&self, source: &Source, request: &ReplayRequest, outputs: &ReplayOutputs) -> Result<ReplayStudy, LabError> {
        let policies = policies_of(request)?;
        let survey = survey::survey(self, request, source)?;
        for policy in &policies {
            check_policy(policy, &survey, source)?;
        }
        let page_size = page_size(request, &survey.metadata)?;
        let extent = PageExtent { page_size, pages: survey.pages };
        let events = outputs.events.as_ref().map(OutputFile::create).transpose()?;
        let metadata = Metadata { page_size: Some(page_size as u64), ..survey.metadata.clone() };
        if outputs.references.is_some() && survey.has_operations {
            let omitted = "the recorded references omit trims, and which writes replace whole pages";
            self.notes(&[format!("{}: {omitted}", source.label())]);
        }
        let recorder = outputs.references.as_ref();
        let recorder = recorder.map(|path| {
            let classes = source.open_with_classes()?.classes();
            FixRecorder::create(path, &metadata, classes.as_ref())
        });
        let mut replay = ReplaySession {
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
            match replay.replay_policy(policy) {
                Ok(result) => results.push(result),
                // The results of earlier policies are an answer even if a later policy fails.
                Err(error) if results.is_empty() => return Err(error),
                Err(error) => failure = Some(error),
            }
            let interrupted = results.last().is_some_and(|last| last.interrupted);
            if failure.is_some() || interrupted {
                break;
            }
        }
        self.notes(&source.late_notes());
        if request.asymmetry.is_none() {
            result::charge_alike(&mut results);
        }
        Ok(ReplayStudy { results, failure, references: survey.references, warmup: survey.warmup })
    }
}

/// The policies of the request; an error if a pool cannot run one of them.
fn policies_of(request: &ReplayRequest) -> Result<Vec<SimPolicy>, LabError> {
    let capabilities = DeviceFeatures::of_pool();
    let specs = request.policies.resolve_with(&request.guests, &capabilities)?;
    if let Some(spec) = specs.iter().find(|spec| !spec.online()) {
        return Err(ReplayError::Offline(spec.to_string()).into());
    }
    let guests = request.guests.iter().cloned().map(SimPolicy::Guest);
    Ok(specs.into_iter().map(Into::into).chain(guests).collect())
}

/// An error if a pool reads or writes other pages with the policy than a simulation, because it leaves out what a server does beside
/// replacement.
fn check_policy(policy: &SimPolicy, survey: &TraceSurvey, source: &Source) -> Result<(), LabError> {
    let made = match policy {
        SimPolicy::Registered(spec) => registry::boxed(spec, survey.pool_frames),
        SimPolicy::Guest(guest) => guest_policy(&**guest, survey.pool_frames)?,
    };
    let policy = policy.to_string();
    let asked = made.capabilities();
    if asked.contains(Capabilities::WRITES_UNTIMED) {
        return Err(ReplayError::WritesInBackground(policy).into());
    }
    if asked.contains(Capabilities::REQUESTS) && records_requests(source)? {
        let trace = source.label().into();
        return Err(ReplayError::AsksRequests { policy, trace }.into());
    }
    Ok(())
}

/// True if the trace has times or rings.
fn records_requests(source: &Source) -> Result<bool, LabError> {
    let mut reader = source.open_with(OptionalColumns { requests: true, ..OptionalColumns::default() })?;
    let mut batch = Batch::with_capacity(1);
    reader.next_batch(&mut batch, 1)?;
    Ok(!batch.requests.is_empty())
}

fn page_size(request: &ReplayRequest, metadata: &Metadata) -> Result<usize, ReplayError> {
    let given = request.page_size.or(metadata.page_size);
    let size = given.unwrap_or(DEFAULT_PAGE_SIZE);
    let usable = usize::try_from(size).ok();
    usable.filter(|size| size.is_power_of_two() && *size >= LEAST_PAGE_SIZE).ok_or(ReplayError::PageSize(size))
}

/// A number that distinguishes the writes of this replay from those of others.
fn run_number() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64).max(1)
}

struct ReplaySession<'a> {
    lab: &'a Lab<'a>,
    request: &'a ReplayRequest,
    source: &'a Source,
    survey: &'a TraceSurvey,
    metadata: Metadata,
    extent: PageExtent,
    recorder: Option<FixRecorder>,
    events: Option<OutputFile>,
    store: PageStore<'a>,
}

/// The policy for a pool.
enum MadePolicy<'p> {
    Registered(&'p PolicySpec),
    Guest(Box<dyn DynPolicy + Send>),
}

impl MadePolicy<'_> {
    fn asks_classes(&self) -> bool {
        let asked = match self {
            MadePolicy::Registered(spec) => spec.capabilities(),
            MadePolicy::Guest(policy) => policy.capabilities(),
        };
        asked.contains(Capabilities::CLASSES)
    }
}

/// What sending the trace through a pool needs besides the pool.
struct Play<'p> {
    /// The policy's name.
    policy: &'p str,
    asks_classes: bool,
    /// Distinguishes the writes of this run from earlier ones.
    run: u64,
}

/// The state when the counting begins.
struct CountingStart {
    stats: Stats,
    meter: MeterReading,
    at: Instant,
}

impl ReplaySession<'_> {
    /// Replays one policy, in a pool of its own.
    fn replay_policy(&mut self, policy: &SimPolicy) -> Result<ReplayResult, LabError> {
        let request = self.request;
        let alone = request.threads == 1 && !request.background && request.read_ahead == 0;
        let ledger = Arc::new(Ledger::new(self.events.take(), request.cluster_size, alone));
        let meter = Arc::new(Meter::default());
        let storage = self.store.open()?;
        let made = self.made_policy(policy)?;
        let asks_classes = made.asks_classes();
        let pool = self.pool(made, Arc::clone(&storage), &ledger, &meter)?;
        let run = run_number();
        let opened = Instant::now();
        let play = Play { policy: &policy.to_string(), asks_classes, run };
        let (counts, start) = self.play(&play, &pool, &ledger, &meter)?;
        if let SimPolicy::Guest(guest) = policy {
            check_guest(&**guest)?;
        }
        let dirty_at_end = pool.stats().dirty;
        if request.at_end == AtEnd::Flush {
            ledger.start_flush();
            pool.checkpoint().map_err(ReplayError::Pool)?;
        }
        let ended = Instant::now();
        let stats = pool.stats();
        let measured = meter.reading();
        let cluster_switches = ledger.close()?;
        pool.close().map_err(|error| ReplayError::Pool(error.into()))?;
        let description = self.describe(&*storage);
        drop(storage);
        if let Some(recorder) = &self.recorder {
            recorder.finish()?;
        }
        let verified_pages = match request.verify {
            true => Some(self.verify(&counts, run)?),
            false => None,
        };
        let Some(start) = start else {
            return Err(ReplayError::Interrupted {
                done: counts.references,
                all: self.survey.references,
                warmup: self.survey.warmup,
            }
            .into());
        };
        let measurements = PolicyMeasurements {
            activity: PoolActivity::between(&start.stats, &stats),
            measured: measured.since(start.meter),
            dirty_at_end: dirty_at_end.into(),
            dirty_before: start.stats.dirty.into(),
            cluster_switches,
            seconds: (ended - opened).as_secs_f64(),
            real_seconds: (ended - start.at).as_secs_f64(),
        };
        let result = self.result(policy, &counts, &measurements);
        let interrupted = counts.interrupted;
        Ok(measurements.into_result(result, description, request, &stats, verified_pages, interrupted))
    }

    /// Sends the trace through the pool. The start of the counting is `None` if the caller stops during the
    /// warm-up.
    fn play(
        &self,
        play: &Play<'_>,
        pool: &Pool,
        ledger: &Ledger,
        meter: &Meter,
    ) -> Result<(ReplayCounts, Option<CountingStart>), LabError> {
        let replay = ReplayPool { pool, page_size: self.extent.page_size, run: play.run };
        let options = FeedOptions {
            stop: self.lab.events.stop(),
            threads: self.request.threads,
            warmup: self.survey.warmup,
            cluster_size: self.request.cluster_size,
            pages: self.extent.pages,
            verify: self.request.verify,
        };
        let classes = play.asks_classes || self.recorder.is_some();
        let mut reader = self.source.open_with(OptionalColumns { classes, ..OptionalColumns::OPERATIONS })?;
        let mut start = None;
        let counts = std::thread::scope(|scope| {
            let (end, ended) = mpsc::channel::<()>();
            scope.spawn(|| {
                let ended = ended;
                self.report_activity(play.policy, pool, &ended);
            });
            let counts = drive::drive(replay, &options, &mut reader, |event| match event {
                FeedEvent::Counting => {
                    ledger.start_counting();
                    start = Some(CountingStart { stats: pool.stats(), meter: meter.reading(), at: Instant::now() });
                }
                FeedEvent::Trim { first, last } => ledger.record_trim(first, last),
            });
            drop(end);
            counts
        })?;
        if let (Some(recorder), Some(classes)) = (&self.recorder, reader.classes()) {
            recorder.name_classes(classes.names());
        }
        Ok((counts, start))
    }

    /// Reports the pool's statistics to the caller until `play` drops the other end of the channel.
    fn report_activity(&self, policy: &str, pool: &Pool, end: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(REPORT_INTERVAL) {
            let all = self.survey.references;
            self.lab.events.replaying(policy, all, &pool.stats());
        }
        self.lab.events.progress(policy, 1.0);
    }

    fn describe(&self, storage: &dyn Storage) -> String {
        match &self.store {
            PageStore::Memory(_) => storage.describe(),
            PageStore::File(_) => format!("{}: {}", self.store.label(), storage.describe()),
        }
    }

    /// The policy for the pool's frames.
    fn made_policy<'p>(&self, policy: &'p SimPolicy) -> Result<MadePolicy<'p>, LabError> {
        Ok(match policy {
            SimPolicy::Registered(spec) => MadePolicy::Registered(spec),
            SimPolicy::Guest(guest) => MadePolicy::Guest(guest_policy(&**guest, self.survey.pool_frames)?),
        })
    }

    fn pool(
        &self,
        policy: MadePolicy<'_>,
        storage: Arc<dyn Storage>,
        ledger: &Arc<Ledger>,
        meter: &Arc<Meter>,
    ) -> Result<Pool, ReplayError> {
        let request = self.request;
        let pages = self.extent.pages;
        let storage = MeteredStorage::new(storage, pages, Arc::clone(ledger), Arc::clone(meter));
        let options = PoolOptions::new(self.survey.pool_frames);
        let options = match policy {
            MadePolicy::Registered(spec) => options.policy(&spec.to_string()),
            MadePolicy::Guest(policy) => Ok(options.own_boxed_policy(policy)),
        };
        let mut options = options
            .map_err(ReplayError::Pool)?
            .background(request.background || request.read_ahead > 0)
            .read_ahead(request.read_ahead)
            // With exact hits the counts are those of `Lab::run`.
            .exact_hits(true)
            // A replay overwrites what is there, and restores nothing after a crash.
            .padding_at_risk(true)
            .dense_pages(self.extent.pages.min(MOST_DENSE_PAGES) as usize);
        if !request.background {
            options = options.clean_reserve(0).dirty_budget(1.0, Duration::ZERO);
        }
        if let Some(asymmetry) = request.asymmetry {
            options = options.fixed_costs(OperationCosts::from(asymmetry));
        }
        if ledger.needs_decisions() {
            let ledger = Arc::clone(ledger);
            options = options.on_event(move |event| ledger.record_decision(event));
        }
        if let Some(recorder) = &self.recorder {
            options = options.on_classed_fix(recorder.sink());
        }
        options.open(storage).map_err(ReplayError::Pool)
    }

    /// Verifies a sample of the written pages: reads them from the storage with a new pool.
    fn verify(&self, counts: &ReplayCounts, run: u64) -> Result<u64, ReplayError> {
        let written = counts.writes.iter().filter(|&&writes| writes > 0).count();
        let every = written.div_ceil(MOST_VERIFIED).max(1);
        let pool = PoolOptions::new(FRAMES_TO_VERIFY).background(false).open(self.store.open()?).map_err(ReplayError::Pool)?;
        let pages = counts.writes.iter().zip(0u64..);
        let pages = pages.filter(|&(&writes, _)| writes > 0).step_by(every);
        let mut verified = 0;
        for (&expected, page) in pages {
            let fixed = pool.fix_read(page).map_err(ReplayError::Pool)?;
            let found = page::writes(&fixed, run);
            if found as u32 != expected {
                let path = self.store.label();
                return Err(ReplayError::Lost { path, page, found, expected });
            }
            verified += 1;
        }
        Ok(verified)
    }

    fn result(&self, policy: &SimPolicy, replayed: &ReplayCounts, measurements: &PolicyMeasurements) -> RunResult {
        let PolicyMeasurements { activity, measured, .. } = measurements;
        let of_trace = TraceSummary {
            label: self.source.label(),
            metadata: &self.metadata,
            facts: TraceFacts {
                references: replayed.references,
                distinct_pages: replayed.distinct_pages,
                cluster_switches: replayed.cluster_switches,
            },
            warmup: self.survey.warmup,
            at_end: self.request.at_end,
            checkpoints: None,
        };
        let (dirty_left, end_writes, not_counted) = match self.request.at_end {
            AtEnd::Free => (measurements.dirty_at_end, 0, 0),
            AtEnd::Flush => (0, measurements.dirty_at_end, measurements.dirty_before),
        };
        let counts = Counts {
            references: replayed.references - self.survey.warmup,
            misses: activity.misses,
            overwrites: activity.misses.saturating_sub(activity.reads()),
            trimmed: replayed.trimmed,
            padding_reads: activity.padding_reads(),
            writes: activity.writes().saturating_sub(not_counted),
            dirty_left,
            end_writes,
            dirty_before: measurements.dirty_before,
            cluster_switches: measurements.cluster_switches,
            // The pool has a background writer and checkpoints of its own.
            background_writes: 0,
            checkpoint_writes: 0,
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
            let reads = (result.reads + result.padding_reads) as f64;
            result.cost = (reads + writes) / result.references as f64;
        } else {
            let cost = asymmetry.bill(result.reads + result.padding_reads, result.writes);
            result.cost = cost / result.references as f64;
        }
        let micros = measured.total_us() - not_counted as f64 * measured.write_us().unwrap_or(0.0);
        result.cost_us = Some(micros.max(0.0) / result.references as f64);
        result.seconds = Some(measurements.seconds);
        result.references_per_second = Some(replayed.references as f64 / measurements.seconds);
        result
    }
}

/// The measurements of one policy.
struct PolicyMeasurements {
    activity: PoolActivity,
    measured: MeterReading,
    dirty_at_end: u64,
    dirty_before: u64,
    cluster_switches: u64,
    seconds: f64,
    real_seconds: f64,
}

impl PolicyMeasurements {
    /// The result for the caller.
    fn into_result(
        self,
        result: RunResult,
        storage: String,
        request: &ReplayRequest,
        stats: &Stats,
        verified_pages: Option<u64>,
        interrupted: bool,
    ) -> ReplayResult {
        let PolicyMeasurements { activity, measured, .. } = self;
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
            read_latency_us: LatencyQuantiles::from_quantiles(stats.read_latency),
            write_latency_us: LatencyQuantiles::from_quantiles(stats.write_latency),
            sync_latency_us: LatencyQuantiles::from_quantiles(stats.sync_latency),
            waits: activity.waits,
            delays: activity.delays,
            delayed_seconds: activity.delayed.as_secs_f64(),
            verified_pages,
            interrupted,
        }
    }
}
