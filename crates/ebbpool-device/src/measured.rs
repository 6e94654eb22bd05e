//! Costs told by what happened: averages over the last operations.
//!
//! FD-Buffer estimates R as the average latency of the last m writes over that of the last m reads,
//! m = 32,768 (TC, sections 4.2 and 5.1). Sums are integers, so that nothing drifts however long a
//! pool runs.

use std::num::NonZeroUsize;

use crate::changing::Epoch;
use crate::costs::{OperationCosts, Unit};
use crate::device::{Device, DeviceFailed, DeviceReport};
use crate::energy::Energy;

/// m of FD-Buffer and CASA.
pub const PAPERS_WINDOW: NonZeroUsize = match NonZeroUsize::new(32_768) {
    Some(window) => window,
    None => NonZeroUsize::MIN,
};

/// Operations of each sort without which averages are not told: a handful says more about
/// queueing and caches than about the device.
const ENOUGH: usize = 64;

/// The exact mean of the last m numbers, in constant time a number.
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
        MovingAverage {
            last: Vec::new(),
            window: window.get(),
            oldest: 0,
            sum: 0,
        }
    }

    /// Takes a number; the one `window` numbers before it no longer counts.
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

    /// Their mean; nothing without any.
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

    /// The mean cost of a read and of a write. Nothing until 64 of each were recorded, or as many
    /// as the window holds if that is less: until then a policy is told what was assumed before,
    /// for a measured read beside an assumed write would be an R of two devices. Nothing also
    /// while reads cost nothing at all, for there is no R then.
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

/// A device that tells what its last operations cost on average, in place of what it knows of
/// itself. Until enough is measured it tells what the device does.
#[derive(Clone, Debug)]
pub struct Measuring<D> {
    device: D,
    measured: MeasuredCosts,
    /// Recorded numbers in one unit of the device's costs.
    scale: f64,
}

impl<D: Device> Measuring<D> {
    /// Measures the last `window` reads and writes of `device`. Costs are rounded to a nanosecond,
    /// a billionth of a dollar or a millionth of a page read.
    pub fn new(device: D, window: NonZeroUsize) -> Self {
        let scale = match device.costs().unit {
            Unit::PageReads => 1e6,
            Unit::Microseconds => 1e3,
            Unit::Dollars => 1e9,
        };
        Measuring {
            device,
            measured: MeasuredCosts::new(window),
            scale,
        }
    }

    /// The device that is measured.
    pub fn device(&self) -> &D {
        &self.device
    }

    #[inline]
    fn recorded(&self, cost: f64) -> u64 {
        (cost * self.scale).round() as u64
    }
}

impl<D: Device> Device for Measuring<D> {
    #[inline]
    fn read(&mut self, page: u64) -> Result<f64, DeviceFailed> {
        let cost = self.device.read(page)?;
        self.measured.record_read(self.recorded(cost));
        Ok(cost)
    }

    #[inline]
    fn write(&mut self, page: u64) -> Result<f64, DeviceFailed> {
        let cost = self.device.write(page)?;
        self.measured.record_write(self.recorded(cost));
        Ok(cost)
    }

    fn costs(&self) -> OperationCosts {
        let known = self.device.costs();
        match self.measured.averages() {
            Some((read, write)) => OperationCosts {
                read: read / self.scale,
                write: write / self.scale,
                unit: known.unit,
            },
            None => known,
        }
    }

    fn advance(&mut self, reference: u64) {
        self.device.advance(reference);
    }

    fn epoch(&self) -> Option<Epoch> {
        self.device.epoch()
    }

    fn report(&self) -> DeviceReport {
        self.device.report()
    }

    fn reset_counters(&mut self) {
        self.device.reset_counters();
    }

    fn idle(&mut self, micros: f64) {
        self.device.idle(micros);
    }

    fn energy(&self, elapsed_us: f64) -> Option<Energy> {
        self.device.energy(elapsed_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Asymmetry;
    use crate::device::PlainDevice;
    use crate::profiles::DeviceProfile;
    use proptest::prelude::*;

    fn window(window: usize) -> NonZeroUsize {
        NonZeroUsize::new(window).expect("above 0")
    }

    #[test]
    fn the_oldest_is_forgotten() {
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
    fn nothing_drifts_beside_numbers_of_all_sizes() {
        let mut average = MovingAverage::new(window(2));
        for number in [u64::MAX, u64::MAX, 1, 3] {
            average.record(number);
        }
        assert_eq!(average.mean(), Some(2.0));
    }

    #[test]
    fn nothing_is_told_before_both_are_known() {
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

    #[test]
    fn a_full_slc_cache_is_noticed() {
        let profile = DeviceProfile::named("nvme-970evoplus-1t").expect("a profile");
        let mut device = Measuring::new(profile.device().with_cache_left(100), window(64));
        assert_eq!(device.costs(), profile.device().costs());
        for page in 0..100 {
            device.read(page).expect("no failure");
            device.write(page).expect("no failure");
        }
        // In nanoseconds, 550,000 and then 283,333 writes a second.
        assert_eq!((device.costs().read, device.costs().write), (1.667, 1.818));
        for page in 0..32 {
            device.write(page).expect("no failure");
        }
        assert_eq!(device.costs().write, 2.6735);
        for page in 0..32 {
            device.write(page).expect("no failure");
        }
        assert_eq!(device.costs().write, 3.529);
        assert_eq!(device.report().writes, 164);
    }

    #[test]
    fn prices_are_not_lost_in_rounding() {
        let profile = DeviceProfile::named("s3-express-1z").expect("a profile");
        let mut device = Measuring::new(profile.device(), window(1));
        device.read(1).expect("no failure");
        device.write(1).expect("no failure");
        let ratio = device.costs().ratio();
        assert!((ratio - 1.13 / 0.03).abs() < 1e-9, "{ratio}");
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
                let known = reads.len() >= enough && writes.len() >= enough;
                let expected = known.then(|| (mean(&reads), mean(&writes)));
                prop_assert_eq!(costs.averages(), expected.filter(|&(read, _)| read > 0.0));
            }
        }

        #[test]
        fn a_constant_device_measures_as_what_it_is(ratio in 0u32..1000, operations in 64usize..200) {
            let asymmetry = Asymmetry(f64::from(ratio) / 8.0);
            let mut device = Measuring::new(PlainDevice::from(asymmetry), PAPERS_WINDOW);
            for page in 0..operations as u64 {
                prop_assert_eq!(device.costs(), OperationCosts::from(asymmetry));
                device.read(page).expect("no failure");
                device.write(page).expect("no failure");
            }
            prop_assert_eq!(device.costs(), OperationCosts::from(asymmetry));
        }
    }
}
