//! The result of one policy over one trace.

use ebbpool_cost::{Asymmetry, Unit};
use ebbpool_device::energy::Energy;
use ebbpool_sim::{AtEnd, Counts, DeviceOutcome, TraceFacts};
use ebbpool_trace::Metadata;
use schemars::JsonSchema;
use serde::Serialize;

use crate::checkpoints::CheckpointSchedule;
use crate::device_life::{self, LifeUnderLoad, OwedWrites};
use crate::dirty_end;
use crate::numbers::Number;
use crate::pricing::Pricing;
use crate::schema::result_row;

result_row! {
    /// One policy over one trace with one memory size and one asymmetry or device.
    pub struct RunResult {
        /// The name of the trace in the request.
        trace: String ["" key],
        /// The policy in canonical spelling.
        policy: String ["" key],
        /// Frames of the buffer.
        frames: u64 ["pages" key],
        /// Bytes of a page, if the trace states them.
        page_size: Option<u64> ["bytes"],
        /// R, the cost of a page write in page reads; the initial value if it changes.
        asymmetry: Number ["page reads" key],
        /// The device that served reads and writes, if there was one.
        device: Option<String> ["" key],
        /// Counted references, that is, without the warm-up.
        references: u64 ["references"],
        /// References at the start that are replayed but not counted.
        warmup: u64 ["references" key],
        /// Distinct pages of the trace, warm-up included.
        distinct_pages: u64 ["pages"],
        /// References that found their page in memory.
        hits: u64 ["references" restated],
        /// References that did not find their page in memory.
        misses: u64 ["references" restated],
        /// Page reads.
        reads: u64 ["pages"],
        /// Page writes; with `at_end` flush those that are owed at the end included.
        writes: u64 ["pages"],
        /// Bytes read, if the page size is known.
        bytes_read: Option<u64> ["bytes" restated],
        /// Bytes written, if the page size is known.
        bytes_written: Option<u64> ["bytes" restated],
        /// Pages that are dirty at the end and not written.
        dirty_left: u64 ["pages"],
        /// Hits over references.
        hit_ratio: f64 ["" restated],
        /// The bill per reference; it has the `padding_reads` too.
        cost: f64 ["page reads per reference"],
        /// The device's time per reference, if the device's costs are times.
        cost_us: Option<f64> ["µs per reference" restated],
        /// Page writes that go to another cluster of pages than the one before (PPE), also those of `dirty_before`.
        cluster_switches: u64 ["references"],
        /// `cluster_switches`, over the cluster switches of the references (PPE).
        cluster_switch_factor: f64 ["" restated],
        /// Wall time of the run.
        seconds: Option<f64> ["s" measured],
        /// References over wall time.
        references_per_second: Option<f64> ["references per s" measured],
        /// Pages read only because the policy writes whole blocks (BPLRU); not among `reads`.
        padding_reads: u64 ["pages"],
        /// Pages that the background writer of the policy's server cleaned and that stayed, also those of `dirty_before`.
        background_writes: u64 ["pages"],
        /// Pages that checkpoints wrote, or commits of the policy's server, also those of `dirty_before`.
        checkpoint_writes: u64 ["pages"],
        /// Energy of device and host as far as known; without a rate of references the device never waits.
        joules_per_reference: Option<f64> ["J per reference"],
        /// The bill that no policy can undercut, if the request asks for it.
        lower_bound: Option<f64> ["page reads per reference"],
        /// `flush` if the pages that are dirty at the end are written and counted, else `free`; null in results of earlier versions.
        at_end: Option<&'static str> ["" key],
        /// Pages that were dirty at the end and written then, also those of `dirty_before`.
        end_writes: u64 ["pages"],
        /// Pages that were dirty when the counting began, and that no trim has ended; with `at_end` flush as many writes are not counted.
        dirty_before: u64 ["pages"],
        /// When all dirty pages are written, as the request spells it: an interval of time, of references, or of references that write; null without checkpoints.
        checkpoints: Option<String> ["" key],
        /// Why the device failed during the run, so that the figures cover a part of the trace only; null of a whole run. Such a result is never the best.
        failed: Option<String> [""],
        /// Those of the misses that write all of their page, and read nothing: misses less `reads`.
        overwrites: u64 ["references"],
        /// Dirty pages that a trim has ended, and that are never written.
        trimmed: u64 ["pages"],
        /// How the asymmetry changes from `asymmetry` on, as the request spells it; null if it does not.
        asymmetry_changes: Option<String> ["" key],
    }
    also {
        /// The bill per reference with the other treatment of dirty pages at the end, if a device has served the run and did not
        /// fail.
        cost_otherwise_on_device: Option<f64>,
    }
}

/// A result with the figures of the device, if there was one. Unknown fields are absent.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DetailedResult<'a> {
    /// The result.
    #[serde(flatten)]
    pub result: &'a RunResult,
    /// The energy in J, by its consumers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Time for which the device waited for references that arrive at a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_idle_seconds: Option<f64>,
    /// Dollars per reference, for a device with a price per request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_reference: Option<f64>,
    /// The internal figures of a simulated flash device.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashFigures>,
    /// How long a device with a profile lives under this load.
    #[serde(skip)]
    pub life: Option<LifeUnderLoad>,
}

/// The internal figures of a simulated flash device, in units of its own pages.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FlashFigures {
    /// Pages that the host wrote, also those of `dirty_before`.
    pub host_writes: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages programmed over pages that the host wrote, in a steady state.
    pub write_amplification: Option<f64>,
    /// Bytes programmed over bytes that the host wrote, in a steady state.
    pub byte_write_amplification: Option<f64>,
    /// Why there is no write amplification.
    pub not_steady: Option<String>,
    /// Bytes that the host can write until the device is worn out.
    pub lifetime_host_bytes: Option<f64>,
    /// What the lifetime assumes of the wear's spread, if the run is too short to measure it.
    pub lifetime_assumes: Option<String>,
}

impl<'a> DetailedResult<'a> {
    /// Combines a result with its pricing and the outcome of the device.
    pub(crate) fn new(result: &'a RunResult, pricing: &'a Pricing, device: Option<&DeviceOutcome>) -> Self {
        let bill = device.map(|device| device.report.bill());
        let dollars = bill.filter(|bill| bill.unit == Unit::Dollars);
        let flash = device.and_then(|device| device.flash.as_ref());
        DetailedResult {
            result,
            energy: device.and_then(|device| device.energy),
            device_idle_seconds: device.and_then(|device| Some(device.idle_us? / 1e6)),
            flash: flash.map(|report| FlashFigures {
                host_writes: report.host_writes,
                programs: report.programs,
                erases: report.erases,
                write_amplification: report.write_amplification,
                byte_write_amplification: report.byte_write_amplification,
                not_steady: report.not_steady.clone(),
                lifetime_host_bytes: report.lifetime_host_bytes,
                lifetime_assumes: report.lifetime_assumes.clone(),
            }),
            life: device.and_then(|device| device_life::under_load(pricing, device, result.owed_writes().are_most())),
            dollars_per_reference: dollars.map(|bill| bill.amount / result.references as f64),
        }
    }
}

/// The data that all results over a trace share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSummary<'a> {
    /// The name of the trace in the request.
    pub(crate) label: &'a str,
    /// Its metadata.
    pub(crate) metadata: &'a Metadata,
    /// The facts that a pass over the trace has counted.
    pub(crate) facts: TraceFacts,
    /// References at the start that are replayed but not counted.
    pub(crate) warmup: u64,
    /// The treatment of the pages that are dirty at the end.
    pub(crate) at_end: AtEnd,
    /// When all dirty pages are written.
    pub(crate) checkpoints: Option<CheckpointSchedule>,
}

impl RunResult {
    /// A result from the counts of a run, priced by an asymmetry.
    pub(crate) fn new(trace: &TraceSummary, policy: String, frames: u64, asymmetry: Asymmetry, counts: &Counts) -> Self {
        let references = counts.references as f64;
        let page_size = trace.metadata.page_size;
        let bytes = |pages: u64| page_size.map(|size| pages.saturating_mul(size));
        RunResult {
            trace: trace.label.into(),
            policy,
            frames,
            page_size,
            asymmetry: Number(asymmetry.ratio()),
            device: None,
            references: counts.references,
            warmup: trace.warmup,
            distinct_pages: trace.facts.distinct_pages,
            hits: counts.hits(),
            misses: counts.misses,
            reads: counts.reads(),
            writes: counts.writes,
            bytes_read: bytes(counts.reads()),
            bytes_written: bytes(counts.writes),
            dirty_left: counts.dirty_left,
            hit_ratio: counts.hits() as f64 / references,
            cost: asymmetry.bill(counts.reads() + counts.padding_reads, counts.writes) / references,
            cost_us: None,
            cluster_switches: counts.cluster_switches,
            cluster_switch_factor: counts.cluster_switches as f64 / trace.facts.cluster_switches as f64,
            seconds: None,
            references_per_second: None,
            padding_reads: counts.padding_reads,
            cost_otherwise_on_device: None,
            joules_per_reference: None,
            lower_bound: None,
            background_writes: counts.background_writes,
            checkpoint_writes: counts.checkpoint_writes,
            at_end: Some(trace.at_end.name()),
            end_writes: counts.end_writes,
            dirty_before: counts.dirty_before,
            checkpoints: trace.checkpoints.map(|schedule| schedule.to_string()),
            failed: None,
            overwrites: counts.overwrites,
            trimmed: counts.trimmed,
            asymmetry_changes: None,
        }
    }

    /// The bill per reference if the pages that are dirty at the end were treated the other way; that of a run whose device failed
    /// does not change. It is an estimate if [`otherwise_is_estimated`](Self::otherwise_is_estimated).
    pub(crate) fn cost_otherwise(&self) -> f64 {
        if let Some(cost) = self.cost_otherwise_on_device {
            return cost;
        }
        if self.failed.is_some() {
            return self.cost;
        }
        let owed = dirty_end::owed(self.at_end, self.end_writes, self.dirty_left, self.dirty_before);
        self.cost + owed * self.asymmetry.0 / self.references as f64
    }

    /// Pages that were dirty when the counting began, and whose first write is not counted.
    pub(crate) fn not_counted(&self) -> u64 {
        if self.at_end == Some(AtEnd::Flush.name()) { self.dirty_before } else { 0 }
    }

    pub(crate) fn owed_writes(&self) -> OwedWrites {
        OwedWrites::new(self.writes, self.end_writes, self.dirty_left, self.not_counted())
    }

    /// True if `cost_otherwise` has writes that the device has not served, whose cost may depend on earlier writes.
    pub(crate) fn otherwise_is_estimated(&self) -> bool {
        self.device.is_some() && self.at_end == Some(AtEnd::Free.name())
    }

    /// Replaces the costs of the asymmetry by those of the device.
    pub(crate) fn charge_device(&mut self, pricing: &Pricing, device: &DeviceOutcome) {
        let bill = device.report.bill();
        let references = self.references as f64;
        self.device.clone_from(&pricing.device_name);
        self.asymmetry_changes.clone_from(&pricing.changing);
        self.failed.clone_from(&device.failed);
        self.cost = pricing.in_page_reads(bill.amount) / references;
        let otherwise = device.cost_otherwise;
        self.cost_otherwise_on_device = otherwise.map(|amount| pricing.in_page_reads(amount) / references);
        if bill.unit == Unit::Microseconds {
            self.cost_us = Some(bill.amount / references);
        }
        // A failed device has served a part of the references only.
        self.joules_per_reference =
            device.energy.filter(|_| device.failed.is_none()).and_then(|energy| energy.joules_per_reference(self.references));
    }

    /// Which run a failed device ended, in words; `None` of a whole run.
    pub fn failure(&self) -> Option<String> {
        let failed = self.failed.as_ref()?;
        let RunResult { policy, frames, .. } = self;
        Some(format!("{policy} with {frames} frames: {failed}; its figures end there"))
    }

    /// How far the bill is above the lower bound, as a share of the bound; `None` if the bound is unknown.
    pub fn above_bound(&self) -> Option<f64> {
        let bound = self.lower_bound.filter(|bound| *bound > 0.0)?;
        Some(self.cost / bound - 1.0)
    }

    /// What the other treatment would change in the bill of a single run, in a sentence. `None` where the bill would not change by
    /// more than 2 %.
    pub fn sentence_on_end(&self) -> Option<String> {
        let bill = dirty_end::BillEitherWay {
            policy: &self.policy,
            // A single run is compared with no other policy.
            online: true,
            at: format!("{} frames", self.frames),
            cost: self.cost,
            otherwise: self.cost_otherwise(),
            estimated: self.otherwise_is_estimated(),
        };
        dirty_end::sentence(self.at_end?, &[bill])
    }
}
