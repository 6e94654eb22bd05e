//! Measured costs: averages over the last operations.
//!
//! FD-Buffer estimates R as the average latency of the last m writes over that of the last m reads,
//! m = 32,768 (TC, sections 4.2 and 5.1). Sums are integers, so that they are exact however
//! long a pool runs.

use std::num::NonZeroUsize;

/// m of FD-Buffer and CASA.
pub const PAPERS_WINDOW: NonZeroUsize = match NonZeroUsize::new(32_768) {
    Some(window) => window,
    None => NonZeroUsize::MIN,
};

/// The operations of each kind that must be recorded before averages are reported: fewer say more
/// about queueing and caches than about the device.
const ENOUGH: usize = 64;

/// The exact mean of the last m numbers, in constant time per number.
#[derive(Clone, Debug)]
pub struct MovingAverage {
    /// Grows to `window` numbers, then the oldest is overwritten.
    last: Vec<u64>,
    window: usize,
    oldest: usize,
    sum: u128,
}

impl MovingAverage {
    /// Over the last `window` numbers.
    pub fn new(window: NonZeroUsize) -> Self {
        MovingAverage { last: Vec::new(), window: window.get(), oldest: 0, sum: 0 }
    }

    /// Records a number; the one recorded `window` numbers earlier no longer counts.
    #[inline]
    pub fn record(&mut self, number: u64) {
        self.sum += u128::from(number);
        if self.last.len() < self.window {
            self.last.push(number);
        } else if let Some(slot) = self.last.get_mut(self.oldest) {
            self.sum -= u128::from(std::mem::replace(slot, number));
            self.oldest += 1;
            if self.oldest == self.window {
                self.oldest = 0;
            }
        }
    }

    /// How many numbers count.
    pub fn count(&self) -> usize {
        self.last.len()
    }

    /// The mean of the numbers that count; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (!self.last.is_empty()).then(|| self.sum as f64 / self.last.len() as f64)
    }
}

/// What reads and writes have cost lately, in nanoseconds or any other whole unit.
#[derive(Clone, Debug)]
pub struct MeasuredCosts {
    reads: MovingAverage,
    writes: MovingAverage,
    enough: usize,
}

impl MeasuredCosts {
    /// Over the last `window` reads and the last `window` writes.
    pub fn new(window: NonZeroUsize) -> Self {
        MeasuredCosts {
            reads: MovingAverage::new(window),
            writes: MovingAverage::new(window),
            enough: ENOUGH.min(window.get()),
        }
    }

    /// A read took `cost`.
    #[inline]
    pub fn record_read(&mut self, cost: u64) {
        self.reads.record(cost);
    }

    /// A write took `cost`.
    #[inline]
    pub fn record_write(&mut self, cost: u64) {
        self.writes.record(cost);
    }

    /// The mean cost of a read and of a write. `None` until 64 of each are recorded, or a full window
    /// of each if the window is shorter: until then the policy gets the costs that were assumed before,
    /// because a measured read beside an assumed write would mix the R of two devices. `None` also
    /// while reads cost nothing at all, because R is then undefined.
    pub fn averages(&self) -> Option<(f64, f64)> {
        if self.reads.count() < self.enough || self.writes.count() < self.enough {
            return None;
        }
        let (read, write) = (self.reads.mean()?, self.writes.mean()?);
        (read > 0.0).then_some((read, write))
    }
}

impl Default for MeasuredCosts {
    fn default() -> Self {
        MeasuredCosts::new(PAPERS_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(window: usize) -> NonZeroUsize {
        NonZeroUsize::new(window).expect("above 0")
    }

    #[test]
    fn the_oldest_number_no_longer_counts() {
        let mut average = MovingAverage::new(window(3));
        assert_eq!(average.mean(), None);
        let means = [6, 2, 1, 9, 2, 1].map(|number| {
            average.record(number);
            average.mean().expect("a mean")
        });
        assert_eq!(means, [6.0, 4.0, 3.0, 4.0, 4.0, 4.0]);
        assert_eq!(average.count(), 3);
        assert_eq!(PAPERS_WINDOW.get(), 32_768);
    }

    #[test]
    fn sums_stay_exact_with_numbers_of_all_sizes() {
        let mut average = MovingAverage::new(window(2));
        for number in [u64::MAX, u64::MAX, 1, 3] {
            average.record(number);
        }
        assert_eq!(average.mean(), Some(2.0));
    }

    #[test]
    fn averages_are_reported_once_both_are_measured() {
        let mut costs = MeasuredCosts::default();
        for _ in 0..1000 {
            costs.record_read(100);
        }
        for _ in 0..63 {
            costs.record_write(700);
        }
        assert_eq!(costs.averages(), None);
        costs.record_write(700);
        assert_eq!(costs.averages(), Some((100.0, 700.0)));
        let mut small = MeasuredCosts::new(window(1));
        small.record_read(0);
        small.record_write(5);
        assert_eq!(small.averages(), None);
        small.record_read(2);
        assert_eq!(small.averages(), Some((2.0, 5.0)));
    }

    proptest! {
        #[test]
        fn averages_are_those_of_a_slow_model(
            size in 1usize..40,
            operations in proptest::collection::vec((any::<bool>(), any::<u64>()), 0..300),
        ) {
            let mut costs = MeasuredCosts::new(window(size));
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            let mean = |all: &[u64]| {
                let last = &all[all.len().saturating_sub(size)..];
                let sum: u128 = last.iter().map(|&cost| u128::from(cost)).sum();
                sum as f64 / last.len() as f64
            };
            for (write, cost) in operations {
                if write {
                    costs.record_write(cost);
                    writes.push(cost);
                } else {
                    costs.record_read(cost);
                    reads.push(cost);
                }
                let enough = size.min(64);
                let measured = reads.len() >= enough && writes.len() >= enough;
                let expected = measured.then(|| (mean(&reads), mean(&writes)));
                prop_assert_eq!(costs.averages(), expected.filter(|&(read, _)| read > 0.0));
            }
        }
    }
}
