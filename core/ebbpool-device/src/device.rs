//! Devices that a simulator drives: they serve page reads and writes and report their costs.

use ebbpool_cost::Asymmetry;
use ebbpool_cost::{Bill, OperationCosts, Unit};
use serde::{Deserialize, Serialize};

use crate::changing::{AsymmetryPeriod, ChangingAsymmetry};
use crate::energy::{Activity, Energy, Power};
use crate::flash_device::FlashDevice;
use crate::profiles::{PagedProfile, WriteCache};

/// The error of a device that can no longer serve requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device failed: {0}")]
pub struct DeviceFailed(
    /// The cause, and after how many writes it happened.
    pub Box<str>,
);

/// What a device has done since its counters were last set to zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// The unit of costs.
    pub unit: Unit,
    /// Page reads served.
    pub reads: u64,
    /// Page writes served.
    pub writes: u64,
    /// What the reads cost, in `unit`.
    pub read_cost: f64,
    /// What the writes cost, in `unit`.
    pub write_cost: f64,
}

impl DeviceReport {
    /// The cost of all reads and writes.
    pub fn bill(&self) -> Bill {
        Bill { amount: self.read_cost + self.write_cost, unit: self.unit }
    }

    /// The energy of this work in a run of `elapsed_us` µs; `None` where costs are not times.
    fn energy(&self, power: Option<Power>, elapsed_us: f64) -> Option<Energy> {
        if self.unit != Unit::Microseconds {
            return None;
        }
        Some(power?.energy(Activity { elapsed_us, reading_us: self.read_cost, writing_us: self.write_cost }))
    }
}

/// A device as a simulator sees it.
///
/// The simulator calls `advance` at the start of a trace and at the end of each `epoch`, `read` for
/// each miss, `write` for each write-back, and passes `costs` to the policy when they differ from
/// the ones it passed last. The trait is object-safe; where a call per operation matters, be
/// generic over it or use [`AnyDevice`].
pub trait Device {
    /// Reads a page and returns what that cost, in the unit of `costs`.
    ///
    /// # Errors
    ///
    /// If the device can no longer read.
    fn read(&mut self, page: u64) -> Result<f64, DeviceFailed>;

    /// Writes a page and returns what that cost, in the unit of `costs`.
    ///
    /// # Errors
    ///
    /// If the device can no longer write.
    fn write(&mut self, page: u64) -> Result<f64, DeviceFailed>;

    /// Pages end, from the first to the last: nothing needs what they hold. Takes no time that the device counts.
    ///
    /// # Errors
    ///
    /// If the device can no longer write.
    fn trim(&mut self, _first: u64, _last: u64) -> Result<(), DeviceFailed> {
        Ok(())
    }

    /// The costs to pass to a policy: the current average cost of a page read and of a page write.
    fn costs(&self) -> OperationCosts;

    /// Advances the device to a reference of the trace, numbered from 0. The simulator calls it before
    /// the reads and writes of the first reference, and of the first one after each `epoch`.
    fn advance(&mut self, _reference: u64) {}

    /// The references for which the costs hold; `None` where costs do not depend on references.
    fn epoch(&self) -> Option<AsymmetryPeriod> {
        None
    }

    /// The number of pages of the device; they are numbered from 0.
    fn pages(&self) -> u64 {
        u64::MAX
    }

    /// How often the erase block that holds the page was erased; 0 if none does, or the device does
    /// not count erases.
    fn erases_of(&self, _page: u64) -> u32 {
        0
    }

    /// Makes the device record, from now on, which pages move to another erase block.
    fn note_moves(&mut self) {}

    /// Appends the pages that moved since the last call, some of them more than once.
    fn take_moved(&mut self, _moved: &mut Vec<u64>) {}

    /// The work done since the counters were set to zero.
    fn report(&self) -> DeviceReport;

    /// Sets the counters to zero, after the warm-up; the state of the device does not change.
    fn reset_counters(&mut self);

    /// Leaves the device without a request for `_micros` µs before the next read or write.
    fn idle(&mut self, _micros: f64) {}

    /// The energy used since the counters were set to zero, in a run that took `_elapsed_us` µs;
    /// `None` where power or times are not known.
    fn energy(&self, _elapsed_us: f64) -> Option<Energy> {
        None
    }
}

/// A device whose costs are constant, except that an SLC cache may make the first writes cheaper.
///
/// The cache fills with writes and empties while the device is idle; a replay that leaves it no
/// idle time fills it once.
#[derive(Clone, Debug)]
pub struct PlainDevice {
    /// The cost of a write is that without a cache, or with a full one.
    costs: OperationCosts,
    cache: Option<CacheState>,
    power: Option<Power>,
    reads: u64,
    cached_writes: u64,
    other_writes: u64,
}

/// An SLC cache and its fill level.
#[derive(Clone, Copy, Debug)]
struct CacheState {
    cache: WriteCache,
    /// Writes that it can still take.
    room: u64,
    /// Idle time left over because it was too short to move one more page, in µs.
    idle_us: f64,
}

impl CacheState {
    fn empty(cache: WriteCache) -> Self {
        CacheState { cache, room: cache.pages, idle_us: 0.0 }
    }

    fn idle(&mut self, micros: f64) {
        let Some(drain_us) = self.cache.drain_us else {
            return;
        };
        let filled = self.cache.pages - self.room;
        self.idle_us += micros;
        let drained = (self.idle_us / drain_us).floor();
        if drained >= filled as f64 {
            (self.room, self.idle_us) = (self.cache.pages, 0.0);
        } else {
            self.room += drained as u64;
            self.idle_us -= drained * drain_us;
        }
    }
}

impl PlainDevice {
    pub(crate) fn from_profile(paged: &PagedProfile) -> Self {
        let cache = paged.write_cache();
        let costs = paged.operation_costs();
        let after = cache.map_or(costs.write, |cache| cache.write_us_after);
        PlainDevice {
            cache: cache.map(CacheState::empty),
            power: paged.profile().power(),
            ..Self::with_costs(OperationCosts { write: after, ..costs })
        }
    }

    fn with_costs(costs: OperationCosts) -> Self {
        PlainDevice { costs, cache: None, power: None, reads: 0, cached_writes: 0, other_writes: 0 }
    }

    /// Leaves room for only `pages` more writes of a page of the trace in the device's SLC cache; a device without a cache does
    /// not change.
    pub fn with_cache_left(mut self, pages: u64) -> Self {
        if let Some(state) = &mut self.cache {
            state.room = pages.min(state.cache.pages);
        }
        self
    }

    fn cached_write_cost(&self) -> f64 {
        self.cache.map_or(0.0, |state| state.cache.write_us)
    }
}

impl From<Asymmetry> for PlainDevice {
    /// The papers' plain model: a read costs 1, a write R, in page reads.
    fn from(asymmetry: Asymmetry) -> Self {
        Self::with_costs(asymmetry.into())
    }
}

impl Device for PlainDevice {
    #[inline]
    fn read(&mut self, _page: u64) -> Result<f64, DeviceFailed> {
        self.reads += 1;
        Ok(self.costs.read)
    }

    #[inline]
    fn write(&mut self, _page: u64) -> Result<f64, DeviceFailed> {
        if let Some(state) = &mut self.cache
            && state.room > 0
        {
            state.room -= 1;
            self.cached_writes += 1;
            return Ok(state.cache.write_us);
        }
        self.other_writes += 1;
        Ok(self.costs.write)
    }

    #[inline]
    fn costs(&self) -> OperationCosts {
        match &self.cache {
            Some(state) if state.room > 0 => OperationCosts { write: state.cache.write_us, ..self.costs },
            _ => self.costs,
        }
    }

    fn report(&self) -> DeviceReport {
        DeviceReport {
            unit: self.costs.unit,
            reads: self.reads,
            writes: self.cached_writes + self.other_writes,
            read_cost: self.reads as f64 * self.costs.read,
            write_cost: self.cached_writes as f64 * self.cached_write_cost() + self.other_writes as f64 * self.costs.write,
        }
    }

    fn reset_counters(&mut self) {
        self.reads = 0;
        self.cached_writes = 0;
        self.other_writes = 0;
    }

    fn idle(&mut self, micros: f64) {
        if let Some(state) = &mut self.cache {
            state.idle(micros);
        }
    }

    fn energy(&self, elapsed_us: f64) -> Option<Energy> {
        self.report().energy(self.power, elapsed_us)
    }
}

/// A device whose reads always cost the same, and whose writes cost R times as much, with the R of
/// the current epoch.
#[derive(Clone, Debug)]
pub struct ChangingDevice {
    asymmetry: ChangingAsymmetry,
    epoch: AsymmetryPeriod,
    costs: OperationCosts,
    power: Option<Power>,
    reads: u64,
    writes: u64,
    /// Writes of this epoch. Their number is multiplied by their cost, rather than adding up the
    /// costs, so that the rounding error stays small.
    writes_of_epoch: u64,
    write_cost_before: f64,
}

impl ChangingDevice {
    /// In page reads: a read costs 1.
    pub fn new(asymmetry: ChangingAsymmetry) -> Self {
        Self::with_read_cost(asymmetry, Asymmetry::saturating(1.0).into(), None)
    }

    /// With the read cost, unit and power of a profile, for the pages of a trace. The profile's write
    /// cost is not used.
    pub fn with_read_cost_from(paged: &PagedProfile, asymmetry: ChangingAsymmetry) -> Self {
        let power = paged.profile().power();
        Self::with_read_cost(asymmetry, paged.operation_costs(), power)
    }

    fn with_read_cost(asymmetry: ChangingAsymmetry, costs: OperationCosts, power: Option<Power>) -> Self {
        let epoch = asymmetry.epoch_at(0);
        ChangingDevice {
            asymmetry,
            epoch,
            costs: OperationCosts { write: costs.read * epoch.ratio, ..costs },
            power,
            reads: 0,
            writes: 0,
            writes_of_epoch: 0,
            write_cost_before: 0.0,
        }
    }
}

impl Device for ChangingDevice {
    #[inline]
    fn read(&mut self, _page: u64) -> Result<f64, DeviceFailed> {
        self.reads += 1;
        Ok(self.costs.read)
    }

    #[inline]
    fn write(&mut self, _page: u64) -> Result<f64, DeviceFailed> {
        self.writes_of_epoch += 1;
        Ok(self.costs.write)
    }

    #[inline]
    fn costs(&self) -> OperationCosts {
        self.costs
    }

    #[inline]
    fn advance(&mut self, reference: u64) {
        if !self.epoch.contains(reference) {
            self.write_cost_before += self.writes_of_epoch as f64 * self.costs.write;
            self.writes += std::mem::take(&mut self.writes_of_epoch);
            self.epoch = self.asymmetry.epoch_at(reference);
            self.costs.write = self.costs.read * self.epoch.ratio;
        }
    }

    fn epoch(&self) -> Option<AsymmetryPeriod> {
        Some(self.epoch)
    }

    fn report(&self) -> DeviceReport {
        DeviceReport {
            unit: self.costs.unit,
            reads: self.reads,
            writes: self.writes + self.writes_of_epoch,
            read_cost: self.reads as f64 * self.costs.read,
            write_cost: self.write_cost_before + self.writes_of_epoch as f64 * self.costs.write,
        }
    }

    fn reset_counters(&mut self) {
        self.reads = 0;
        self.writes = 0;
        self.writes_of_epoch = 0;
        self.write_cost_before = 0.0;
    }

    fn energy(&self, elapsed_us: f64) -> Option<Energy> {
        self.report().energy(self.power, elapsed_us)
    }
}

/// Any device that can be named on the command line, without a virtual call per operation.
#[derive(Clone, Debug)]
pub enum AnyDevice {
    /// Constant costs, perhaps with an SLC cache.
    Plain(PlainDevice),
    /// Costs that change with the trace.
    Changing(ChangingDevice),
    /// A flash device simulated down to the chip.
    Flash(Box<FlashDevice>),
}

impl From<PlainDevice> for AnyDevice {
    fn from(device: PlainDevice) -> Self {
        AnyDevice::Plain(device)
    }
}

impl From<ChangingDevice> for AnyDevice {
    fn from(device: ChangingDevice) -> Self {
        AnyDevice::Changing(device)
    }
}

impl From<FlashDevice> for AnyDevice {
    fn from(device: FlashDevice) -> Self {
        AnyDevice::Flash(Box::new(device))
    }
}

/// Evaluates the expression on the device inside the enum.
macro_rules! on_device {
    ($any:expr, $device:ident => $result:expr) => {
        match $any {
            AnyDevice::Plain($device) => $result,
            AnyDevice::Changing($device) => $result,
            AnyDevice::Flash($device) => $result,
        }
    };
}

impl Device for AnyDevice {
    #[inline]
    fn read(&mut self, page: u64) -> Result<f64, DeviceFailed> {
        on_device!(self, device => device.read(page))
    }

    #[inline]
    fn write(&mut self, page: u64) -> Result<f64, DeviceFailed> {
        on_device!(self, device => device.write(page))
    }

    fn trim(&mut self, first: u64, last: u64) -> Result<(), DeviceFailed> {
        on_device!(self, device => device.trim(first, last))
    }

    #[inline]
    fn costs(&self) -> OperationCosts {
        on_device!(self, device => device.costs())
    }

    #[inline]
    fn advance(&mut self, reference: u64) {
        on_device!(self, device => device.advance(reference))
    }

    fn epoch(&self) -> Option<AsymmetryPeriod> {
        on_device!(self, device => device.epoch())
    }

    fn pages(&self) -> u64 {
        on_device!(self, device => device.pages())
    }

    #[inline]
    fn erases_of(&self, page: u64) -> u32 {
        on_device!(self, device => device.erases_of(page))
    }

    fn note_moves(&mut self) {
        on_device!(self, device => device.note_moves());
    }

    #[inline]
    fn take_moved(&mut self, moved: &mut Vec<u64>) {
        on_device!(self, device => device.take_moved(moved));
    }

    fn report(&self) -> DeviceReport {
        on_device!(self, device => device.report())
    }

    fn reset_counters(&mut self) {
        on_device!(self, device => device.reset_counters())
    }

    fn idle(&mut self, micros: f64) {
        on_device!(self, device => device.idle(micros))
    }

    fn energy(&self, elapsed_us: f64) -> Option<Energy> {
        on_device!(self, device => device.energy(elapsed_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changing::AsymmetrySpec;
    use crate::profiles::DeviceProfile;
    use proptest::prelude::*;

    fn profile(name: &str) -> &'static DeviceProfile {
        DeviceProfile::named(name).expect("a profile")
    }

    fn changing(text: &str) -> ChangingAsymmetry {
        let spec: AsymmetrySpec = text.parse().expect("a model");
        spec.load(Asymmetry::saturating(32.0)).expect("no file")
    }

    #[test]
    fn the_plain_model_costs_what_its_bill_says() {
        let asymmetry: Asymmetry = "32".parse().expect("a number");
        let mut device: Box<dyn Device> = Box::new(AnyDevice::from(PlainDevice::from(asymmetry)));
        let reads: f64 = (0..8).map(|page| device.read(page).expect("read")).sum();
        let write = device.write(7).expect("written");
        assert_eq!(reads + write, asymmetry.bill(8, 1));
        assert_eq!(device.report().bill().amount, 40.0);
        assert_eq!(device.costs().ratio(), 32.0);
        assert_eq!(device.epoch(), None);
        assert_eq!(device.energy(1e6), None);
        device.reset_counters();
        assert_eq!(device.report().bill().amount, 0.0);
    }

    #[test]
    fn an_slc_cache_fills_and_raises_the_reported_costs() {
        let ssd = profile("nvme-970evoplus-1t");
        let cache = ssd.write_cache().expect("a cache");
        let mut device = ssd.device().with_cache_left(2);
        let ratio = device.costs().ratio();
        assert!((ratio - 600.0 / 550.0).abs() < 1e-9, "{ratio}");
        let costs = [(); 3].map(|()| device.write(0).expect("written"));
        let (cached, after) = (cache.write_us, cache.write_us_after);
        assert_eq!(costs, [cached, cached, after]);
        // 3,300 MB/s before, 1,700 after.
        let ratio = device.costs().ratio();
        assert!((ratio - 600.0 / 550.0 * 3300.0 / 1700.0).abs() < 1e-4, "{ratio}");
        device.reset_counters();
        assert_eq!(device.write(0), Ok(after));
        let pages = cache.pages;
        assert_eq!(ssd.cost(0, pages).amount, pages as f64 * cached);
        let more = ssd.cost(1, pages + 10).amount - ssd.cost(0, pages).amount;
        let read = ssd.operation_costs().read;
        assert!((more - (read + 10.0 * after)).abs() < 1e-3, "{more}");
    }

    #[test]
    fn an_idle_device_empties_its_slc_cache() {
        let ssd = profile("nvme-970evoplus-1t");
        let cache = ssd.write_cache().expect("a cache");
        let drain_us = cache.drain_us.expect("known");
        let mut device = ssd.device().with_cache_left(0);
        device.idle(0.9 * drain_us);
        assert_eq!(device.write(0), Ok(cache.write_us_after));
        // Idle time that was too short to move a page counts towards the next one.
        device.idle(2.2 * drain_us);
        let costs = [(); 4].map(|()| device.write(0).expect("written"));
        let (cached, after) = (cache.write_us, cache.write_us_after);
        assert_eq!(costs, [cached, cached, cached, after]);
        device.idle(2.0 * drain_us * cache.pages as f64);
        assert_eq!(device.cache.map(|state| state.room), Some(cache.pages));
        device.write(0).expect("written");
        device.idle(0.5 * drain_us);
        let room = device.cache.map(|state| state.room);
        assert_eq!(room, Some(cache.pages - 1), "idle time does not accumulate while the cache is empty");
    }

    #[test]
    fn a_changing_device_costs_what_its_epochs_say() {
        let mut device = ChangingDevice::new(changing("rm1:base=10,epoch=2"));
        let mut total = 0.0;
        for reference in 0..6 {
            device.advance(reference);
            total += device.read(reference).expect("read");
            total += device.write(reference).expect("written");
        }
        assert_eq!(total, 6.0 + 2.0 * (10.0 + 11.0 + 12.0));
        assert_eq!(device.report().bill().amount, total);
        assert_eq!(device.report().writes, 6);
        assert_eq!(device.costs().write, 12.0);
        assert_eq!(device.epoch().and_then(|epoch| epoch.end), Some(6));
    }

    #[test]
    fn a_changing_profile_keeps_its_read_time_and_power() {
        let mut device = ChangingDevice::with_read_cost_from(&profile("ssd2").for_pages(Some(8192)), changing("rm2:epoch=1"));
        device.advance(1);
        device.read(0).expect("read");
        device.write(0).expect("written");
        assert_eq!(device.costs().read, 130.0);
        assert!((device.costs().write - 130.0 * 30.4).abs() < 1e-9);
        let energy = device.energy(1e6).expect("its power is known");
        let busy = (130.0 + 130.0 * 30.4) / 1e6;
        assert!((energy.device_j() - (1.2 + 0.8 * busy)).abs() < 1e-9);
    }

    #[test]
    fn prices_are_not_times() {
        let mut device = profile("s3-standard").device();
        device.write(0).expect("written");
        assert_eq!(device.report().bill().unit, Unit::Dollars);
        assert_eq!(device.energy(1e6), None);
    }

    proptest! {
        #[test]
        fn reports_add_up(
            operations in proptest::collection::vec((0..3u64, any::<bool>()), 0..200),
            left in 0..50u64,
            which in 0..4usize,
        ) {
            let mut device: AnyDevice = match which {
                0 => profile("nvme-970evoplus-1t").device().with_cache_left(left).into(),
                1 => PlainDevice::from(Asymmetry::saturating(7.5)).into(),
                2 => ChangingDevice::new(changing("rm1:epoch=3")).into(),
                _ => ChangingDevice::with_read_cost_from(
                    &profile("ssd1").for_pages(Some(16384)),
                    changing("rm2:epoch=5"),
                )
                .into(),
            };
            let (mut reference, mut reads, mut writes) = (0, 0, 0);
            let mut total = 0.0;
            for (forward, write) in operations {
                reference += forward;
                device.advance(reference);
                if write {
                    // The device reports what the next write costs.
                    let reported = device.costs().write;
                    let cost = device.write(reference).expect("written");
                    prop_assert_eq!(cost, reported);
                    total += cost;
                    writes += 1;
                } else {
                    total += device.read(reference).expect("read");
                    reads += 1;
                }
            }
            let report = device.report();
            prop_assert_eq!((report.reads, report.writes), (reads, writes));
            let difference = (report.bill().amount - total).abs();
            prop_assert!(difference <= 1e-9 * total.max(1.0), "{} {}", report.bill().amount, total);
        }
    }
}
