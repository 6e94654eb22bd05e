//! The estimated errors of a sample.

use super::lru::Traffic;
use super::shards::{PARTS, PageSample};

/// The 97.5 % point of Student's t distribution with 3 degrees of freedom: as many standard errors of the mean of four
/// parts are a confidence interval of 95 %.
const STUDENT_T: f64 = 3.182;
const _: () = assert!(PARTS == 4, "STUDENT_T is of four parts");

/// How many times LRU's deviation a policy's may be: that of a policy with other evictions than LRU's is larger, and it
/// is one draw, not a spread.
const LRU_DEVIATIONS: f64 = 2.0;

/// The traffic over one part of a sample: of the policy, and of LRU with as many frames.
pub(crate) type PartTraffic = (Traffic, Traffic);

/// The errors of an estimate, as shares of it; `None` where it is 0.
///
/// An error is the larger of two: the confidence interval of 95 % of the mean over the parts of the sample (Student's
/// t), and twice the deviation of the same sample's estimate for LRU from LRU's exact traffic. The truth lies within it
/// in at least nine of ten cases (`tests/simulator/stated_errors.rs`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// The error of the bill.
    pub cost: Option<f64>,
    /// The error of the page reads.
    pub reads: Option<f64>,
    /// The error of the page writes.
    pub writes: Option<f64>,
}

impl Errors {
    /// The errors of the traffic counted over the parts of `sample`, where LRU's exact traffic is
    /// `lru`.
    pub(crate) fn new(parts: &[PartTraffic], sample: &PageSample, lru: Traffic, asymmetry: f64) -> Self {
        let error = |figure: fn(Traffic, f64) -> f64| {
            let scale = 1.0 / sample.part_rate();
            let scaled = |traffic| scale * figure(traffic, asymmetry);
            let policy: Vec<f64> = parts.iter().map(|&(policy, _)| scaled(policy)).collect();
            let sampled: Vec<f64> = parts.iter().map(|&(_, lru)| scaled(lru)).collect();
            let exact = figure(lru, asymmetry);
            let off = (exact > 0.0).then(|| (mean(&sampled) / exact - 1.0).abs());
            let interval = STUDENT_T * standard_error(&policy)?;
            Some(interval.max(LRU_DEVIATIONS * off.unwrap_or(0.0)))
        };
        Errors {
            cost: error(|traffic, asymmetry| traffic.reads as f64 + traffic.writes as f64 * asymmetry),
            reads: error(|traffic, _| traffic.reads as f64),
            writes: error(|traffic, _| traffic.writes as f64),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of the mean, as a share of it.
fn standard_error(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean > 0.0 && count > 1.0).then(|| (squares / (count * (count - 1.0))).sqrt() / mean)
}

/// The traffic of all pages that the traffic counted over the parts of a sample stands for.
///
/// It divides by the nominal rate, and not by the sample's actual share of the references, which
/// attributes the difference to hits; that is right because the difference is due to the hottest
/// pages (SHARDS-adj).
pub(crate) fn scaled_up(parts: &[PartTraffic], sample: &PageSample) -> Traffic {
    let sum = |figure: fn(&Traffic) -> u64| {
        let sum: u64 = parts.iter().map(|(policy, _)| figure(policy)).sum();
        match sample.is_all() {
            true => sum,
            false => (sum as f64 / sample.rate).round() as u64,
        }
    };
    Traffic {
        reads: sum(|traffic| traffic.reads),
        overwrites: sum(|traffic| traffic.overwrites),
        writes: sum(|traffic| traffic.writes),
        dirty_left: sum(|traffic| traffic.dirty_left),
        end_writes: sum(|traffic| traffic.end_writes),
        dirty_before: sum(|traffic| traffic.dirty_before),
        padding_reads: sum(|traffic| traffic.padding_reads),
        checkpoint_writes: sum(|traffic| traffic.checkpoint_writes),
        trimmed: sum(|traffic| traffic.trimmed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(reads: u64, writes: u64) -> Traffic {
        Traffic { reads, writes, ..Traffic::default() }
    }

    const TENTH: PageSample = PageSample { rate: 0.1, grain: 1 };

    #[test]
    fn parts_add_up() {
        let parts = [
            (traffic(10, 1), traffic(0, 0)),
            (traffic(12, 2), traffic(0, 0)),
            (traffic(8, 0), traffic(0, 0)),
            (traffic(10, 1), traffic(0, 0)),
        ];
        assert_eq!(scaled_up(&parts, &TENTH), traffic(400, 40));
        assert_eq!(scaled_up(&parts[..1], &PageSample::ALL), traffic(10, 1));
    }

    #[test]
    fn the_larger_of_interval_and_deviation_counts() {
        let parts = [
            (traffic(9, 1), traffic(12, 0)),
            (traffic(11, 1), traffic(12, 0)),
            (traffic(9, 1), traffic(12, 0)),
            (traffic(11, 1), traffic(12, 0)),
        ];
        let errors = Errors::new(&parts, &TENTH, traffic(400, 7), 1.0);
        // LRU's estimate is 480; the policy's parts have a standard deviation of 2 / sqrt(3).
        let near = |found: Option<f64>, expected: f64| (found.unwrap_or(-1.0) - expected).abs() < 1e-12;
        assert!(near(errors.reads, 0.4), "{errors:?}");
        assert!(near(errors.writes, 2.0), "{errors:?}");
        let errors = Errors::new(&parts, &TENTH, traffic(480, 0), 1.0);
        assert!(near(errors.reads, 3.182 * (1.0f64 / 3.0).sqrt() / 10.0), "{errors:?}");
        assert!(near(errors.writes, 0.0), "{errors:?}");
        let nothing = [(traffic(3, 0), traffic(3, 0)); 4];
        assert_eq!(Errors::new(&nothing, &TENTH, traffic(120, 0), 1.0).writes, None);
    }
}
