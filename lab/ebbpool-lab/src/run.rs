//! Runs one policy over one trace.

use std::io::Write;
use std::time::Instant;

use ebbpool_device::AnyDevice;
use ebbpool_device::arrivals::Rate;
use ebbpool_policy::{Foresight, PolicySpec};
use ebbpool_sim::{
    AtEnd, BufferSize, Counts, DeviceAtStart, DeviceObserver, DeviceOutcome, EventLog as EventList, EventWriter, MissLog,
    NoObserver, Observer, PassControl, Series, SimCell, SimError, SimOptions, TraceFacts, TraceScan, Warmup, check_policies,
    scan, simulate_one,
};
use ebbpool_trace::{Metadata, Source};

use crate::checkpoints::CheckpointSchedule;
use crate::error::{LabError, RequestError};
use crate::lab::Lab;
use crate::memory_size::MemorySize;
use crate::pricing::{Pricing, PricingRequest};
use crate::run_result::{DetailedResult, RunResult, TraceSummary};

/// Pages per cluster when cluster switches are counted (PPE).
pub const CLUSTER_SIZE: u64 = 16;

/// How references are counted; the same for all requests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CountingRules {
    /// References at the start that are replayed but not counted.
    pub warmup: Warmup,
    /// Whether the pages that are dirty at the end are written and counted.
    pub at_end: AtEnd,
    /// Pages per cluster when cluster switches are counted.
    pub cluster_size: u64,
    /// References per second that arrive at a device; without a rate each arrives when the previous one is
    /// served.
    pub rate: Option<Rate>,
    /// When all dirty pages are written, except for policies with checkpoints of their own.
    pub checkpoints: Option<CheckpointSchedule>,
}

impl Default for CountingRules {
    fn default() -> Self {
        CountingRules {
            warmup: Warmup::References(0),
            at_end: AtEnd::default(),
            cluster_size: CLUSTER_SIZE,
            rate: None,
            checkpoints: None,
        }
    }
}

impl CountingRules {
    /// Refuses a rate where no device serves the references.
    pub(crate) fn check<'p>(&self, pricing: impl IntoIterator<Item = &'p PricingRequest>) -> Result<(), RequestError> {
        let is_device = |pricing: &PricingRequest| matches!(pricing, PricingRequest::Device { .. });
        match self.rate.is_some() && !pricing.into_iter().any(is_device) {
            true => Err(RequestError::RateWithoutDevice),
            false => Ok(()),
        }
    }

    /// The options of a simulation of the trace, without the warm-up.
    pub(crate) fn options(&self, threads: usize, source: &Source) -> Result<SimOptions, LabError> {
        let per_second = self.rate.map(|rate| rate.per_second());
        let checkpoints = self.checkpoints;
        let checkpoints = checkpoints.map(|schedule| schedule.intervals(source, per_second));
        Ok(SimOptions {
            warmup: 0,
            at_end: self.at_end,
            cluster_size: self.cluster_size,
            threads,
            rate: self.rate,
            checkpoints: checkpoints.transpose()?,
        })
    }
}

/// A request for a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunRequest {
    /// The policy.
    pub policy: PolicySpec,
    /// The memory size.
    pub size: MemorySize,
    /// The pricing of reads and writes.
    pub pricing: PricingRequest,
    /// How references are counted.
    pub counting: CountingRules,
}

impl RunRequest {
    /// A run of this policy with this memory at this price, without a warm-up.
    pub fn new(policy: PolicySpec, size: MemorySize, pricing: PricingRequest) -> Self {
        RunRequest { policy, size, pricing, counting: CountingRules::default() }
    }
}

/// The outputs for every event of a run, and for its state every 1,000 references.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunRecording<W> {
    /// Write-backs and evictions, in order, a line each.
    pub events: Option<W>,
    /// Pool sizes, target and estimates as CSV.
    pub series: Option<W>,
    /// Pages read and written back, in order, as a trace in text.
    pub misses: Option<W>,
}

/// The result of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The result.
    pub result: RunResult,
    /// The prices of the run.
    pub pricing: Pricing,
    /// The outcome of the device, if there was one.
    pub device: Option<DeviceOutcome>,
}

impl<W> Default for RunRecording<W> {
    /// No outputs.
    fn default() -> Self {
        RunRecording { events: None, series: None, misses: None }
    }
}

impl RunOutcome {
    /// The result with the figures of the device.
    pub fn detailed(&self) -> DetailedResult<'_> {
        DetailedResult::new(&self.result, &self.pricing, self.device.as_ref())
    }
}

impl Lab<'_> {
    /// Runs one policy over one trace.
    ///
    /// # Errors
    ///
    /// If the request is invalid, the trace cannot be read, or the caller stops.
    pub fn run(&self, source: &Source, request: &RunRequest) -> Result<RunOutcome, LabError> {
        let (outcome, NoObserver) = self.run_observed(source, request, NoObserver)?;
        Ok(outcome)
    }

    /// Runs one policy and records events and state. Returns the outputs, which the caller finishes.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`SimError::Output`] if the recording cannot be written.
    pub fn run_recorded<W: Write + Send + 'static>(
        &self,
        source: &Source,
        request: &RunRequest,
        recording: RunRecording<W>,
    ) -> Result<(RunOutcome, RunRecording<W>), LabError> {
        if recording.events.is_none() && recording.series.is_none() && recording.misses.is_none() {
            return Ok((self.run(source, request)?, recording));
        }
        let series = recording.series.map(Series::new).transpose();
        let page_size = source.open()?.metadata().page_size;
        let misses = recording.misses.map(|out| MissLog::new(out, page_size)).transpose();
        let writer = EventWriter {
            events: recording.events.map(EventList),
            series: series.map_err(|source| SimError::Output { what: "the series", source })?,
            misses: misses.map_err(|source| SimError::Output { what: "the misses", source })?,
            failure: None,
        };
        let (outcome, writer) = self.run_observed(source, request, writer)?;
        if let Some((what, source)) = writer.failure {
            return Err(SimError::Output { what, source }.into());
        }
        let recording = RunRecording {
            events: writer.events.map(|EventList(out)| out),
            series: writer.series.map(Series::into_inner),
            misses: writer.misses.map(MissLog::into_inner),
        };
        Ok((outcome, recording))
    }

    /// Runs one policy with an observer of its reads, writes and state, and returns the observer.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_observed<O: Observer + 'static>(
        &self,
        source: &Source,
        request: &RunRequest,
        observer: O,
    ) -> Result<(RunOutcome, O), LabError> {
        request.counting.check([&request.pricing])?;
        let start = Instant::now();
        let reader = source.open()?;
        self.notes(reader.notes());
        let metadata = reader.metadata().clone();
        self.note_capture(source, &metadata);
        let pricing = self.pricing(&request.pricing, source, &metadata)?;
        self.notes(&pricing.notes);
        let policy = pricing.capabilities.supported(request.policy.clone())?;
        check_policies(source, [&policy])?;
        let stated = reader.references();
        drop(reader);
        let options = request.counting.options(1, source)?;
        let device = pricing.device.as_ref().map(DeviceAtStart::make);
        let device = device.transpose()?;
        let done = self.with_progress(&policy.to_string(), |progress| {
            let (frames, warmup) = extent(source, request, &metadata, stated, progress)?;
            let cell = SimCell { policy: policy.into(), frames, asymmetry: pricing.asymmetry.ratio() };
            let options = SimOptions { warmup, ..options };
            let run = RunParameters { source, cell: &cell, options: &options, progress, device: device.as_ref() };
            let (counts, facts, observer, served) = run.observed(observer)?;
            Ok::<_, LabError>((cell, warmup, counts, facts, observer, served))
        });
        let (cell, warmup, counts, facts, observer, device) = done?;
        let seconds = start.elapsed().as_secs_f64();
        self.notes(&source.late_notes());
        let trace = TraceSummary {
            label: source.label(),
            metadata: &metadata,
            facts,
            warmup,
            at_end: request.counting.at_end,
            checkpoints: request.counting.checkpoints,
        };
        let policy = cell.policy.to_string();
        let asymmetry = pricing.asymmetry;
        let mut result = RunResult::new(&trace, policy, cell.frames, asymmetry, &counts);
        if let Some(device) = &device {
            result.charge_device(&pricing, device);
        }
        result.seconds = Some(seconds);
        result.references_per_second = Some(facts.references as f64 / seconds);
        let outcome = RunOutcome { result, pricing, device };
        Ok((outcome, observer))
    }
}

/// The frames and the warm-up as numbers. For shares this reads the trace, if its metadata does not state
/// the totals.
fn extent(
    source: &Source,
    request: &RunRequest,
    metadata: &Metadata,
    stated: Option<u64>,
    progress: &PassControl,
) -> Result<(u64, u64), SimError> {
    let size = request.size.size;
    let warmup = request.counting.warmup;
    size.check(metadata, source.label())?;
    let needs_pages = matches!(size, BufferSize::Share(_)) && metadata.database_pages.is_none();
    let needs_length = matches!(warmup, Warmup::Share(_)) && stated.is_none();
    let scanned = match needs_pages || needs_length {
        true => scan(source, Foresight::Nothing, progress)?,
        false => TraceScan::default(),
    };
    let pages = metadata.database_pages.unwrap_or(scanned.distinct_pages);
    let references = stated.unwrap_or(scanned.references);
    let frames = size.to_frames(pages, metadata, source.label())?;
    Ok((frames, warmup.to_references(references)))
}

/// The parameters of a run, except for the observer.
struct RunParameters<'a> {
    source: &'a Source,
    cell: &'a SimCell,
    options: &'a SimOptions,
    progress: &'a PassControl<'a>,
    device: Option<&'a AnyDevice>,
}

/// The counts of a run, what its pass found of the trace, its observer, and the outcome of its device.
type Observed<O> = (Counts, TraceFacts, O, Option<DeviceOutcome>);

impl RunParameters<'_> {
    fn observed<O: Observer + 'static>(&self, observer: O) -> Result<Observed<O>, SimError> {
        let RunParameters { source, cell, options, progress, device } = self;
        match device {
            Some(device) => {
                let served = DeviceObserver::new((*device).clone(), options.rate, observer);
                let (counts, facts, served) = simulate_one(source, cell, options, progress, served)?;
                let (outcome, observer) = served.finish(&counts, options.at_end);
                Ok((counts, facts, observer, Some(outcome)))
            }
            None => {
                let (counts, facts, observer) = simulate_one(source, cell, options, progress, observer)?;
                Ok((counts, facts, observer, None))
            }
        }
    }
}
