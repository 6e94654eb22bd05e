//! What a pool has done, counted by cause.

mod display;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ebbpool_cost::OperationCosts;
use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Why a page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadCause {
    /// A caller fixed it, and it was not resident.
    Miss,
    /// A caller will probably fix it soon.
    ReadAhead,
    /// Its block is written whole (BPLRU's page padding).
    Padding,
}

/// Why a page was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteCause {
    /// It was evicted.
    Eviction,
    /// Another page was evicted, and the policy asked for both to be written in one go.
    Cluster,
    /// A checkpoint.
    Checkpoint,
    /// It would soon have been evicted, it was dirty for too long, or too many pages were dirty.
    Background,
    /// The caller flushed it.
    Flush,
}

impl ReadCause {
    /// All causes.
    pub const ALL: &'static [ReadCause] = &[ReadCause::Miss, ReadCause::ReadAhead, ReadCause::Padding];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            ReadCause::Miss => "miss",
            ReadCause::ReadAhead => "read_ahead",
            ReadCause::Padding => "padding",
        }
    }
}

impl WriteCause {
    /// All causes.
    pub const ALL: &'static [WriteCause] =
        &[WriteCause::Eviction, WriteCause::Cluster, WriteCause::Checkpoint, WriteCause::Background, WriteCause::Flush];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            WriteCause::Eviction => "eviction",
            WriteCause::Cluster => "cluster",
            WriteCause::Checkpoint => "checkpoint",
            WriteCause::Background => "background",
            WriteCause::Flush => "flush",
        }
    }
}

/// A whole number that only grows, on a cache line of its own.
#[derive(Debug, Default)]
pub(crate) struct Counter(CachePadded<AtomicU64>);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything that is counted while the pool runs, except hits.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) misses: Counter,
    /// First fixes, for reading, of pages that were read ahead: they are not reported to the policy.
    pub(crate) hits_of_read_ahead: Counter,
    pub(crate) reads: [Counter; ReadCause::ALL.len()],
    pub(crate) writes: [Counter; WriteCause::ALL.len()],
    pub(crate) write_calls: Counter,
    pub(crate) failed_reads: Counter,
    pub(crate) failed_writes: Counter,
    pub(crate) syncs: Counter,
    pub(crate) log_forces: Counter,
    pub(crate) waits_for_latches: Counter,
    pub(crate) waits_for_writes: Counter,
    pub(crate) waits_for_frames: Counter,
    pub(crate) delays: Counter,
    pub(crate) delayed_us: Counter,
    pub(crate) read_latency: Latency,
    pub(crate) write_latency: Latency,
    pub(crate) sync_latency: Latency,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Counters {
            misses: Counter::default(),
            hits_of_read_ahead: Counter::default(),
            reads: Default::default(),
            writes: Default::default(),
            write_calls: Counter::default(),
            failed_reads: Counter::default(),
            failed_writes: Counter::default(),
            syncs: Counter::default(),
            log_forces: Counter::default(),
            waits_for_latches: Counter::default(),
            waits_for_writes: Counter::default(),
            waits_for_frames: Counter::default(),
            delays: Counter::default(),
            delayed_us: Counter::default(),
            read_latency: Latency::default(),
            write_latency: Latency::default(),
            sync_latency: Latency::default(),
        }
    }

    pub(crate) fn read(&self, cause: ReadCause) -> &Counter {
        &self.reads[cause as usize]
    }

    pub(crate) fn write(&self, cause: WriteCause) -> &Counter {
        &self.writes[cause as usize]
    }
}

/// How long calls of the storage took.
#[derive(Debug, Default)]
pub(crate) struct Latency(Mutex<Option<Histogram<u64>>>);

/// Calls that take longer are recorded as this long.
const LONGEST: Duration = Duration::from_secs(60);

impl Latency {
    pub(crate) fn record(&self, took: Duration) {
        let mut histogram = self.0.lock();
        let histogram = match &mut *histogram {
            Some(histogram) => histogram,
            none => match Histogram::new_with_bounds(1, LONGEST.as_micros() as u64, 2) {
                Ok(new) => none.insert(new),
                Err(_) => return,
            },
        };
        histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        let histogram = self.0.lock();
        let histogram = histogram.as_ref()?;
        let at = |quantile| Duration::from_micros(histogram.value_at_quantile(quantile));
        Some(Quantiles { median: at(0.5), p99: at(0.99), most: Duration::from_micros(histogram.max()) })
    }
}

/// The times of calls of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quantiles {
    /// Half of the calls took no longer.
    pub median: Duration,
    /// 99 of 100 calls took no longer.
    pub p99: Duration,
    /// The longest.
    pub most: Duration,
}

/// What a pool has done since it was opened, at one moment. It prints as a table with a line for each figure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Fixes of resident pages.
    pub hits: u64,
    /// Fixes of pages that were not resident.
    pub misses: u64,
    /// In the order of [`ReadCause::ALL`].
    pub(crate) pages_read: [u64; ReadCause::ALL.len()],
    /// In the order of [`WriteCause::ALL`].
    pub(crate) pages_written: [u64; WriteCause::ALL.len()],
    /// Pages written to the double-write area, its lists included.
    pub double_write_pages: u64,
    /// Calls of the storage that wrote pages, each with one or more pages.
    pub write_calls: u64,
    /// Bytes of a page.
    pub page_size: usize,
    /// Reads that failed or found a damaged page.
    pub failed_reads: u64,
    /// Page writes that failed.
    pub failed_writes: u64,
    /// Syncs of the storage.
    pub syncs: u64,
    /// The number of times that the log was forced because a page had to be written.
    pub log_forces: u64,
    /// The number of times that a fix waited for a latch.
    pub waits_for_latches: u64,
    /// Misses that waited for a dirty page to be written.
    pub waits_for_writes: u64,
    /// Misses that waited because all frames were pinned.
    pub waits_for_frames: u64,
    /// Fixes for writing that waited because too many pages were dirty.
    pub delays: u64,
    /// The total time of these delays.
    pub delayed: Duration,
    /// Frames of the pool.
    pub frames: u32,
    /// Frames that hold a page.
    pub resident: u32,
    /// Frames whose page is dirty.
    pub dirty: u32,
    /// The number of clean pages that the policy aims at, if it says (Mc of FD-Buffer, tau of CASA).
    pub clean_target: Option<f64>,
    /// The policy that chooses victims now, of several that compete: `ebb` or `lru` in the duel of ebb.
    pub leader: Option<&'static str>,
    /// What a read and a write of a page cost, as reported to the policy.
    pub costs: OperationCosts,
    /// How long calls that read took; a call may be of several pages.
    pub read_latency: Option<Quantiles>,
    /// How long calls that write took.
    pub write_latency: Option<Quantiles>,
    /// How long syncs took.
    pub sync_latency: Option<Quantiles>,
    /// Why the pool no longer writes, if it does not.
    pub poisoned: Option<String>,
}

impl Stats {
    /// Hits as a share of fixes; 0 if nothing was fixed.
    pub fn hit_ratio(&self) -> f64 {
        let fixes = self.hits + self.misses;
        self.hits as f64 / fixes.max(1) as f64
    }

    /// Pages read, for all causes.
    pub fn reads(&self) -> u64 {
        self.pages_read.iter().sum()
    }

    /// Pages written, for all causes.
    pub fn writes(&self) -> u64 {
        self.pages_written.iter().sum()
    }

    /// Pages read for this cause.
    pub fn read_for(&self, cause: ReadCause) -> u64 {
        self.pages_read[cause as usize]
    }

    /// Pages written for this cause.
    pub fn written_for(&self, cause: WriteCause) -> u64 {
        self.pages_written[cause as usize]
    }

    /// R, the cost of a page write in page reads.
    pub fn asymmetry(&self) -> f64 {
        self.costs.ratio()
    }

    /// Passes all figures to the recorder of the `metrics` facade, as `ebbpool_…`.
    pub fn publish(&self) {
        use metrics::{counter, gauge};
        counter!("ebbpool_hits_total").absolute(self.hits);
        counter!("ebbpool_misses_total").absolute(self.misses);
        for (cause, &pages) in ReadCause::ALL.iter().zip(&self.pages_read) {
            let bytes = pages * self.page_size as u64;
            counter!("ebbpool_read_bytes_total", "cause" => cause.name()).absolute(bytes);
        }
        for (cause, &pages) in WriteCause::ALL.iter().zip(&self.pages_written) {
            let bytes = pages * self.page_size as u64;
            counter!("ebbpool_written_bytes_total", "cause" => cause.name()).absolute(bytes);
        }
        let images = self.double_write_pages * self.page_size as u64;
        counter!("ebbpool_double_write_bytes_total").absolute(images);
        counter!("ebbpool_write_calls_total").absolute(self.write_calls);
        counter!("ebbpool_failures_total", "of" => "read").absolute(self.failed_reads);
        counter!("ebbpool_failures_total", "of" => "write").absolute(self.failed_writes);
        counter!("ebbpool_syncs_total").absolute(self.syncs);
        counter!("ebbpool_log_forces_total").absolute(self.log_forces);
        counter!("ebbpool_waits_total", "for" => "latch").absolute(self.waits_for_latches);
        counter!("ebbpool_waits_total", "for" => "write").absolute(self.waits_for_writes);
        counter!("ebbpool_waits_total", "for" => "frame").absolute(self.waits_for_frames);
        counter!("ebbpool_delays_total").absolute(self.delays);
        counter!("ebbpool_delayed_us_total").absolute(self.delayed.as_micros() as u64);
        gauge!("ebbpool_hit_ratio").set(self.hit_ratio());
        gauge!("ebbpool_frames").set(f64::from(self.frames));
        gauge!("ebbpool_resident_pages").set(f64::from(self.resident));
        gauge!("ebbpool_dirty_pages").set(f64::from(self.dirty));
        gauge!("ebbpool_asymmetry").set(self.asymmetry());
        gauge!("ebbpool_poisoned").set(f64::from(u8::from(self.poisoned.is_some())));
        if let Some(target) = self.clean_target {
            gauge!("ebbpool_clean_target_pages").set(target);
        }
        let latencies = [("read", &self.read_latency), ("write", &self.write_latency), ("sync", &self.sync_latency)];
        for (of, latency) in latencies {
            if let Some(latency) = latency {
                let quantiles = [("0.5", latency.median), ("0.99", latency.p99), ("1", latency.most)];
                for (quantile, took) in quantiles {
                    gauge!("ebbpool_latency_us", "of" => of, "quantile" => quantile).set(took.as_micros() as f64);
                }
            }
        }
    }
}
