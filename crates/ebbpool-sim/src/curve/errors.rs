//! How far off a sample is.

use super::lru::Traffic;

/// What a sample says of LRU, against what LRU does, at one memory size: shares of what it does,
/// above 0 where the sample says too much. Nothing where LRU does none of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Of the bill.
    pub cost: Option<f64>,
    /// Of the page reads.
    pub reads: Option<f64>,
    /// Of the page writes.
    pub writes: Option<f64>,
}

impl Errors {
    pub(crate) fn of(sampled: Traffic, exact: Traffic, asymmetry: f64) -> Self {
        let off = |sampled: f64, exact: f64| (exact > 0.0).then(|| sampled / exact - 1.0);
        let cost = |traffic: Traffic| traffic.reads as f64 + traffic.writes as f64 * asymmetry;
        Errors {
            cost: off(cost(sampled), cost(exact)),
            reads: off(sampled.reads as f64, exact.reads as f64),
            writes: off(sampled.writes as f64, exact.writes as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shares_of_the_truth() {
        let traffic = |reads, writes| Traffic {
            reads,
            writes,
            dirty_left: 0,
        };
        let errors = Errors::of(traffic(110, 9), traffic(100, 10), 10.0);
        assert!((errors.reads.unwrap_or(0.0) - 0.1).abs() < 1e-12);
        assert!((errors.writes.unwrap_or(0.0) + 0.1).abs() < 1e-12);
        assert_eq!(errors.cost, Some(0.0));
        assert_eq!(Errors::of(traffic(5, 1), traffic(5, 0), 1.0).writes, None);
    }
}
