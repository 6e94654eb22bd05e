//! The result of a replay: the fields of a run, and additional measurements.

use std::collections::BTreeMap;
use std::time::Duration;

use ebbpool::{Quantiles, ReadCause, Stats, WriteCause};
use schemars::JsonSchema;
use serde::Serialize;

use crate::numbers::Number;
use crate::run_result::RunResult;

/// The replay of one policy: the fields of a run, and additional measurements.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReplayResult {
    /// The fields of a run.
    #[serde(flatten)]
    pub result: RunResult,
    /// The storage of the pages.
    #[schemars(extend("x-role" = "key"))]
    pub storage: String,
    /// Threads that fixed pages.
    #[schemars(extend("x-role" = "key"))]
    pub threads: u16,
    /// Time from the first counted reference to the last, or to the end of the flush if there is one.
    #[schemars(extend("x-role" = "measured"))]
    pub real_seconds: f64,
    /// Pages read for each cause, read-ahead and padding included.
    pub pages_read: BTreeMap<&'static str, u64>,
    /// Pages written for each cause, also those of `dirty_before`, which `writes` and `cost_us` leave out.
    pub pages_written: BTreeMap<&'static str, u64>,
    /// Write calls to the storage.
    #[schemars(extend("x-role" = "measured"))]
    pub write_calls: u64,
    /// Syncs of the storage.
    #[schemars(extend("x-role" = "measured"))]
    pub syncs: u64,
    /// Average time of a page read, in µs.
    #[schemars(extend("x-role" = "measured"))]
    pub read_us: Option<f64>,
    /// Average time of a page write, in µs.
    #[schemars(extend("x-role" = "measured"))]
    pub write_us: Option<f64>,
    /// `write_us` over `read_us`.
    #[schemars(extend("x-role" = "measured"))]
    pub measured_asymmetry: Option<f64>,
    /// Latencies of read calls, of one page or several, since the pool was opened.
    #[schemars(extend("x-role" = "measured"))]
    pub read_latency_us: Option<LatencyQuantiles>,
    /// Latencies of write calls.
    #[schemars(extend("x-role" = "measured"))]
    pub write_latency_us: Option<LatencyQuantiles>,
    /// Latencies of syncs.
    #[schemars(extend("x-role" = "measured"))]
    pub sync_latency_us: Option<LatencyQuantiles>,
    /// The number of waits of fixes.
    #[schemars(extend("x-role" = "measured"))]
    pub waits: WaitCounts,
    /// Fixes for writing that the pool throttled because too many pages were dirty.
    #[schemars(extend("x-role" = "measured"))]
    pub delays: u64,
    /// The total time of throttling.
    #[schemars(extend("x-role" = "measured"))]
    pub delayed_seconds: f64,
    /// Pages that the verification at the end has read and found correct; null without verification.
    pub verified_pages: Option<u64>,
    /// True if only a part of the trace was replayed.
    pub interrupted: bool,
}

/// Charges all results at one R, the geometric mean of the measured ones, so that their bills can be compared: each row's own R
/// would make a policy dear that happened to run while the device wrote slowly.
pub(super) fn charge_alike(results: &mut [ReplayResult]) {
    let ratios = results.iter().filter_map(|it| it.measured_asymmetry);
    let ratios: Vec<f64> = ratios.filter(|ratio| *ratio > 0.0).collect();
    if results.len() < 2 || ratios.is_empty() {
        return;
    }
    let mean_log = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    let ratio = mean_log.exp();
    for ReplayResult { result, .. } in results {
        result.asymmetry = Number(ratio);
        let reads = (result.reads + result.padding_reads) as f64;
        let bill = reads + ratio * result.writes as f64;
        result.cost = bill / result.references as f64;
    }
}

/// Quantiles of the latency of calls, in µs.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LatencyQuantiles {
    /// Half of the calls took at most this long.
    pub median: u64,
    /// 99 % of the calls took at most this long.
    pub p99: u64,
    /// The longest.
    pub most: u64,
}

/// The number of waits of fixes, by their reason.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WaitCounts {
    /// For a latch.
    pub latch: u64,
    /// For a page that the pool was writing.
    pub write: u64,
    /// For a frame.
    pub frame: u64,
}

impl LatencyQuantiles {
    /// The pool's quantiles, if it has any.
    pub(crate) fn from_quantiles(quantiles: Option<Quantiles>) -> Option<Self> {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        quantiles.map(|quantiles| LatencyQuantiles {
            median: us(quantiles.median),
            p99: us(quantiles.p99),
            most: us(quantiles.most),
        })
    }
}

/// The activity of a pool between two moments.
#[derive(Debug)]
#[non_exhaustive]
pub struct PoolActivity {
    /// Fixes that had to read their page, or had to wait for it.
    pub misses: u64,
    pages_read: [u64; ReadCause::ALL.len()],
    pages_written: [u64; WriteCause::ALL.len()],
    /// Write calls to the storage.
    pub write_calls: u64,
    /// Syncs of the storage.
    pub syncs: u64,
    /// The number of waits of fixes.
    pub waits: WaitCounts,
    /// Fixes for writing that the pool throttled because too many pages were dirty.
    pub delays: u64,
    /// The total time of throttling.
    pub delayed: Duration,
}

impl PoolActivity {
    /// The difference of two readings of a pool's statistics.
    pub fn between(before: &Stats, after: &Stats) -> Self {
        let mut pages_read = [0; ReadCause::ALL.len()];
        for (count, &cause) in pages_read.iter_mut().zip(ReadCause::ALL) {
            *count = after.read_for(cause) - before.read_for(cause);
        }
        let mut pages_written = [0; WriteCause::ALL.len()];
        for (count, &cause) in pages_written.iter_mut().zip(WriteCause::ALL) {
            *count = after.written_for(cause) - before.written_for(cause);
        }
        PoolActivity {
            misses: after.misses - before.misses,
            pages_read,
            pages_written,
            write_calls: after.write_calls - before.write_calls,
            syncs: after.syncs - before.syncs,
            waits: WaitCounts {
                latch: after.waits_for_latches - before.waits_for_latches,
                write: after.waits_for_writes - before.waits_for_writes,
                frame: after.waits_for_frames - before.waits_for_frames,
            },
            delays: after.delays - before.delays,
            delayed: after.delayed.saturating_sub(before.delayed),
        }
    }

    /// Pages read, without padding, which `Lab::run` counts separately.
    pub fn reads(&self) -> u64 {
        self.pages_read.iter().sum::<u64>() - self.padding_reads()
    }

    /// Pages read only because the policy writes whole blocks.
    pub fn padding_reads(&self) -> u64 {
        self.pages_read[ReadCause::Padding as usize]
    }

    /// Pages written.
    pub fn writes(&self) -> u64 {
        self.pages_written.iter().sum()
    }

    /// Pages read for each cause.
    pub fn pages_read(&self) -> BTreeMap<&'static str, u64> {
        let counts = ReadCause::ALL.iter().zip(self.pages_read);
        counts.map(|(cause, pages)| (cause.name(), pages)).collect()
    }

    /// Pages written for each cause.
    pub fn pages_written(&self) -> BTreeMap<&'static str, u64> {
        let counts = WriteCause::ALL.iter().zip(self.pages_written);
        counts.map(|(cause, pages)| (cause.name(), pages)).collect()
    }
}
