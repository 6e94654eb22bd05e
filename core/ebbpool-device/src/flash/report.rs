//! The reports of a device.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::ftl::Merges;
use super::nand::CountsByCause;
use super::wear::WearLevelling;
use crate::energy::{ChipEnergy, DieSeconds};

/// Counts since the last `Flash::reset_counters`; wear is since the device was new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlashReport {
    /// The device's name in canonical spelling.
    pub device: String,
    /// Logical pages offered.
    pub logical_pages: u64,
    /// Logical pages that hold data.
    pub mapped_pages: u64,
    /// Logical over physical pages in rotation, as configured.
    pub rho: f64,
    /// Pages that hold data over physical pages in rotation now, without bad blocks.
    pub rho_eff: f64,
    /// Pages read by the host, including pages that were never written.
    pub host_reads: u64,
    /// Pages written by the host.
    pub host_writes: u64,
    /// Pages trimmed by the host.
    pub host_trims: u64,
    /// Bytes written by the host: its own pages, also where they are smaller than the device's.
    pub host_bytes: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Pages programmed, by cause.
    pub programs_by_cause: CountsByCause,
    /// Pages read from the chip, including reads for copies.
    pub reads: u64,
    /// Pages read from the chip, by cause.
    pub reads_by_cause: CountsByCause,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks erased, by cause.
    pub erases_by_cause: CountsByCause,
    /// Merges of log and replacement blocks, by kind.
    pub merges: Merges,
    /// Pages programmed per page that the host writes, in steady state; `None` before it.
    pub write_amplification: Option<f64>,
    /// Bytes programmed per byte that the host writes, in steady state; more than `write_amplification` where the
    /// host's pages are smaller than the device's.
    pub byte_write_amplification: Option<f64>,
    /// Why there is no write amplification.
    pub not_steady: Option<String>,
    /// What theory predicts for uniformly random overwrites at `rho_eff`; `None` where there is no
    /// closed form.
    pub predicted_write_amplification: Option<f64>,
    /// Closed blocks by valid pages: entry j is the number of blocks with j (page-mapped layers).
    pub occupancy: Vec<u64>,
    /// Wear of all blocks.
    pub wear: WearReport,
    /// Bytes the host can write in a lifetime: blocks x pages x bytes x endurance x evenness / bytes programmed per
    /// host byte; `None` before steady state. The evenness is that of [`WearReport`] where the run is long enough to
    /// measure it, else 1.
    pub lifetime_host_bytes: Option<f64>,
    /// What the lifetime assumes of the wear's spread; `None` where the run measured it, or without a lifetime.
    pub lifetime_assumes: Option<String>,
    /// Time that requests took, in seconds.
    pub device_seconds: f64,
    /// Time without a request, in seconds: 0 unless the caller reports idle time with `Flash::idle`.
    pub idle_seconds: f64,
    /// How long the dies worked.
    pub die_seconds: DieSeconds,
    /// The energy of the dies; `None` where the chip's power is not known.
    pub energy: Option<ChipEnergy>,
    /// Times of host reads.
    pub read_time: RequestTimes,
    /// Times of host writes.
    pub write_time: RequestTimes,
}

impl FlashReport {
    /// Days until the device is worn out if the host writes `host_bytes_per_day`.
    pub fn lifetime_days(&self, host_bytes_per_day: f64) -> Option<f64> {
        let bytes = self.lifetime_host_bytes?;
        (host_bytes_per_day > 0.0).then(|| bytes / host_bytes_per_day)
    }
}

/// The mean number of erases per block from which on the spread of the wear says something about the device. With
/// fewer, the most erased block is ahead by chance: with a mean of 5 the evenness of even wear is about 0.6.
const ERASES_TO_MEASURE_SPREAD: f64 = 100.0;

/// Erases per block since the device was new or preconditioned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WearReport {
    /// The least erased block.
    pub min: u32,
    /// Mean over all blocks.
    pub mean: f64,
    /// The most erased block.
    pub max: u32,
    /// Standard deviation over all blocks.
    pub sd: f64,
    /// Mean over maximum; 1 is perfectly even, and a device without erases is even.
    pub evenness: f64,
    /// Blocks that are worn out.
    pub bad_blocks: u32,
    /// Each number of erases that occurs, with the number of blocks that have it, ascending.
    pub histogram: Vec<(u32, u32)>,
}

impl WearReport {
    fn spread_is_measured(&self) -> bool {
        self.mean >= ERASES_TO_MEASURE_SPREAD
    }

    /// The evenness by which a lifetime is shortened: the measured one, or 1 where the run is too short to measure it.
    pub(super) fn lifetime_evenness(&self) -> f64 {
        match self.spread_is_measured() {
            true => self.evenness,
            false => 1.0,
        }
    }

    /// What a lifetime assumes where the run is too short to measure the spread.
    pub(super) fn lifetime_assumption(&self, levelling: WearLevelling) -> Option<String> {
        let device = match levelling {
            WearLevelling::None => "although this device has no wear levelling",
            WearLevelling::Dynamic => "which dynamic wear levelling does for data that change",
            WearLevelling::Static(_) => "which static wear levelling does",
        };
        (!self.spread_is_measured())
            .then(|| format!("all blocks wear evenly, {device}; {:.1} erases a block are too few to measure it", self.mean))
    }

    pub(super) fn from_erases(erases: &[u32], bad_blocks: u32) -> Self {
        let count = erases.len().max(1) as f64;
        let mean = erases.iter().map(|&n| f64::from(n)).sum::<f64>() / count;
        let square = |n: &u32| (f64::from(*n) - mean).powi(2);
        let mut sorted = erases.to_vec();
        sorted.sort_unstable();
        let max = sorted.last().copied().unwrap_or(0);
        let runs = sorted.chunk_by(|a, b| a == b);
        Self {
            min: sorted.first().copied().unwrap_or(0),
            mean,
            max,
            sd: (erases.iter().map(square).sum::<f64>() / count).sqrt(),
            evenness: if max == 0 { 1.0 } else { mean / f64::from(max) },
            bad_blocks,
            histogram: runs.filter_map(|run| Some((*run.first()?, run.len() as u32))).collect(),
        }
    }
}

/// Times of requests, from arrival to the end of the last operation that they caused, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestTimes {
    /// Requests.
    pub count: u64,
    /// Mean, exact.
    pub mean_us: f64,
    /// 99 % of the requests take at most this, to 0.1 %.
    pub p99_us: f64,
    /// 99.9 % of the requests take at most this, to 0.1 %.
    pub p999_us: f64,
    /// The longest request, exact.
    pub max_us: f64,
}

/// Records request times. Most requests take as long as the one before, so consecutive equal times
/// are recorded at once.
#[derive(Clone)]
pub(super) struct TimeRecorder {
    /// `None` only if the histogram refuses its precision, which is within its range.
    histogram: Option<Histogram<u64>>,
    count: u64,
    sum: u128,
    max: u64,
    same: u64,
    same_count: u64,
}

impl TimeRecorder {
    pub(super) fn new() -> Self {
        Self { histogram: Histogram::new(3).ok(), count: 0, sum: 0, max: 0, same: 0, same_count: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, nanos: u64) {
        if nanos != self.same {
            self.flush();
            self.same = nanos;
        }
        self.same_count += 1;
    }

    fn flush(&mut self) {
        if self.same_count == 0 {
            return;
        }
        self.count += self.same_count;
        self.sum += u128::from(self.same) * u128::from(self.same_count);
        self.max = self.max.max(self.same);
        if let Some(histogram) = &mut self.histogram {
            // The histogram refuses only times that exceed its counters; `max` still records them.
            let _ = histogram.record_n(self.same, self.same_count);
        }
        self.same_count = 0;
    }

    /// The times recorded so far.
    pub(super) fn times(&mut self) -> RequestTimes {
        self.flush();
        if self.count == 0 {
            return RequestTimes::default();
        }
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let quantile = |share: f64| {
            let value = self.histogram.as_ref().map_or(self.max, |histogram| histogram.value_at_quantile(share));
            micros(value.min(self.max))
        };
        RequestTimes {
            count: self.count,
            mean_us: self.sum as f64 / self.count as f64 / 1000.0,
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: micros(self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_times_have_mean_and_tail() {
        let mut recorder = TimeRecorder::new();
        for _ in 0..989 {
            recorder.record(220_000);
        }
        for _ in 0..11 {
            recorder.record(2_000_000);
        }
        let times = recorder.times();
        assert_eq!(times.count, 1000);
        assert!((times.mean_us - (989.0 * 220.0 + 11.0 * 2000.0) / 1000.0).abs() < 1e-9);
        assert!((times.p99_us / 2000.0 - 1.0).abs() < 0.001, "{}", times.p99_us);
        assert_eq!(times.max_us, 2000.0);
        assert_eq!(TimeRecorder::new().times(), RequestTimes::default());
    }

    #[test]
    fn a_lifetime_follows_the_spread_only_where_it_is_measured() {
        let few = WearReport::from_erases(&[2, 4, 4, 6], 0);
        assert_eq!(few.lifetime_evenness(), 1.0);
        let assumed = few.lifetime_assumption(WearLevelling::Dynamic);
        assert!(assumed.is_some_and(|text| text.contains("4.0 erases a block")));
        let many = WearReport::from_erases(&[200, 400, 400, 600], 0);
        assert_eq!(many.lifetime_evenness(), 400.0 / 600.0);
        assert_eq!(many.lifetime_assumption(WearLevelling::None), None);
    }

    #[test]
    fn wear_is_summed_up() {
        let wear = WearReport::from_erases(&[2, 4, 4, 6], 1);
        assert_eq!((wear.min, wear.max, wear.mean, wear.evenness), (2, 6, 4.0, 4.0 / 6.0));
        assert_eq!(wear.sd, 2.0_f64.sqrt());
        assert_eq!(wear.histogram, [(2, 1), (4, 2), (6, 1)]);
        assert_eq!(WearReport::from_erases(&[0, 0], 0).evenness, 1.0);
    }
}
