//! A simulation whose reads and writes are served by a device.

use ebbpool_cost::{OperationCosts, Unit};
use ebbpool_device::arrivals::{Arrivals, Rate};
use ebbpool_device::energy::Energy;
use ebbpool_device::flash::{ConfigError, FlashConfig, FlashReport};
use ebbpool_device::{AnyDevice, Device, DeviceFailed, DeviceReport, FlashDevice};
use ebbpool_policy::Costs;
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};

use crate::engine::{AtEnd, Counts};
use crate::observer::{Observer, Sample};

/// A device in the state in which every simulation on it begins.
///
/// A flash device is made only when a simulation needs it: preconditioning takes time, and results
/// that a store has need none.
#[derive(Clone, Debug)]
pub struct DeviceAtStart {
    costs: OperationCosts,
    plan: Plan,
}

#[derive(Clone, Debug)]
enum Plan {
    Made(AnyDevice),
    Flash { config: Box<FlashConfig>, page_bytes: Option<u64>, database_pages: Option<u64> },
}

impl From<AnyDevice> for DeviceAtStart {
    fn from(device: AnyDevice) -> Self {
        DeviceAtStart { costs: device.costs(), plan: Plan::Made(device) }
    }
}

impl DeviceAtStart {
    /// A simulated flash device, as [`FlashDevice::new`] makes it.
    ///
    /// # Errors
    ///
    /// If it is too small, or if pages of that size do not align with its own.
    pub fn flash(config: FlashConfig, page_bytes: Option<u64>, database_pages: Option<u64>) -> Result<Self, ConfigError> {
        Ok(DeviceAtStart {
            costs: FlashDevice::stated_costs(&config, page_bytes, database_pages)?,
            plan: Plan::Flash { config: Box::new(config), page_bytes, database_pages },
        })
    }

    /// The costs reported to policies at the beginning.
    pub fn costs(&self) -> OperationCosts {
        self.costs
    }

    /// The device.
    ///
    /// # Errors
    ///
    /// If a flash device cannot be made as it is configured.
    pub fn make(&self) -> Result<AnyDevice, ConfigError> {
        match &self.plan {
            Plan::Made(device) => Ok(device.clone()),
            Plan::Flash { config, page_bytes, database_pages } => {
                Ok(FlashDevice::new(config, *page_bytes, *database_pages)?.into())
            }
        }
    }

    /// The physical pages whose state each simulation stores; 0 where the device is a formula.
    pub(crate) fn physical_pages(&self) -> u64 {
        match &self.plan {
            Plan::Made(_) => 0,
            Plan::Flash { config, .. } => u64::from(config.blocks) * u64::from(config.pages_per_block),
        }
    }

    /// A key that distinguishes devices that may lead to different results: every figure, from
    /// whatever file, and the changes of an asymmetry.
    pub(crate) fn key(&self) -> String {
        format!("{self:?}")
    }
}

/// Serves each miss and write-back by a device, reports the device's costs to the policy, and
/// forwards all calls to `inner`.
#[derive(Debug)]
pub struct DeviceObserver<O> {
    device: AnyDevice,
    /// The arrival times of references, where a rate is given; else each reference waits for the
    /// one before.
    arrivals: Option<Arrivals>,
    reported: Option<OperationCosts>,
    /// The first reference at which the device's costs may change.
    next_epoch: u64,
    failed: Option<DeviceFailed>,
    /// Pages that were dirty when the counting began, and are neither written nor ended since.
    owed: HashSet<u64>,
    /// The cost of the first write of each other page that was dirty then.
    owed_cost: f64,
    /// The cost of the reads and writes up to the end of the trace, once the end writes the dirty pages.
    before_end: Option<f64>,
    /// The other observer.
    pub inner: O,
}

/// The device's results over the counted references.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceOutcome {
    /// Reads, writes and their costs.
    pub report: DeviceReport,
    /// How long the device waited for references, in µs: 0 without a rate, `None` where times are
    /// not known.
    pub idle_us: Option<f64>,
    /// The time in which the counted references arrive at the rate, in µs; `None` without a rate, or where times are not known.
    #[serde(default)]
    pub arrival_us: Option<f64>,
    /// The energy of a device that serves one request after the other; `None` where times or power
    /// are not known.
    pub energy: Option<Energy>,
    /// The internal operations of a simulated flash device.
    pub flash: Option<FlashReport>,
    /// What the other treatment of the pages that are dirty at the end would cost, in the unit of `report`; `None` if the
    /// device failed. From [`AtEnd::Free`] it is an estimate where the cost of a write depends on other writes: each page that
    /// is left dirty costs what the device last reported to the policy.
    #[serde(default)]
    pub cost_otherwise: Option<f64>,
    /// Why the device failed, and the simulation ended early.
    pub failed: Option<String>,
}

impl<O> DeviceObserver<O> {
    /// The device in its initial state; references arrive at the rate if there is one and the
    /// device's costs are times.
    pub fn new(device: AnyDevice, rate: Option<Rate>, inner: O) -> Self {
        let is_timed = device.costs().unit == Unit::Microseconds;
        DeviceObserver {
            arrivals: rate.filter(|_| is_timed).map(Arrivals::with_rate),
            device,
            reported: None,
            next_epoch: 0,
            failed: None,
            owed: HashSet::new(),
            owed_cost: 0.0,
            before_end: None,
            inner,
        }
    }

    /// The device's results, and the other observer. Where the run leaves writes out of `counts` that the device has
    /// served, because their pages were dirty when the counting began, it leaves out what they cost, too: the first write of each such
    /// page.
    pub fn finish(mut self, counts: &Counts, at_end: AtEnd) -> (DeviceOutcome, O) {
        let mut report = self.device.report();
        let cost_otherwise = match (at_end, &self.failed) {
            (_, Some(_)) => None,
            (AtEnd::Flush, None) => self.before_end,
            (AtEnd::Free, None) => {
                let more = counts.dirty_left as f64 - self.owed.len() as f64;
                let more = more * self.device.costs().write - self.owed_cost;
                Some((report.bill().amount + more).max(0.0))
            }
        };
        if at_end == AtEnd::Flush && self.failed.is_none() {
            report.writes = report.writes.saturating_sub(counts.dirty_before);
            report.write_cost = (report.write_cost - self.owed_cost).max(0.0);
        }
        let bill = report.bill();
        let idle_us = match bill.unit {
            Unit::Microseconds => Some(self.arrivals.map_or(0.0, |arrivals| arrivals.idle_us())),
            Unit::PageReads | Unit::Dollars => None,
        };
        let outcome = DeviceOutcome {
            report,
            idle_us,
            arrival_us: self.arrivals.map(|arrivals| arrivals.time_of(counts.references)),
            energy: idle_us.and_then(|idle_us| self.device.energy(bill.amount + idle_us)),
            flash: match &mut self.device {
                AnyDevice::Flash(flash) => Some(flash.flash_report()),
                AnyDevice::Plain(_) | AnyDevice::Changing(_) => None,
            },
            cost_otherwise,
            failed: self.failed.map(|failed| failed.to_string()),
        };
        (outcome, self.inner)
    }

    #[inline]
    fn note(&mut self, served: Result<f64, DeviceFailed>) {
        match (served, &mut self.arrivals) {
            (Ok(micros), Some(arrivals)) => arrivals.serve(micros),
            (Ok(_), None) => {}
            (Err(failed), _) => {
                self.failed.get_or_insert(failed);
            }
        }
    }
}

impl<O: Observer> Observer for DeviceObserver<O> {
    const LISTENS: bool = true;

    fn counting(&mut self) {
        self.device.reset_counters();
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.reset_counters();
        }
        self.inner.counting();
    }

    fn dirty_before(&mut self, page: u64) {
        self.owed.insert(page);
        self.inner.dirty_before(page);
    }

    fn ending(&mut self) {
        self.before_end = Some(self.device.report().bill().amount);
        self.inner.ending();
    }

    #[inline]
    fn costs(&mut self, reference: u64) -> Option<Costs> {
        if let Some(arrivals) = &mut self.arrivals {
            let idle_us = arrivals.wait_for(reference);
            if idle_us > 0.0 {
                self.device.idle(idle_us);
            }
        }
        if reference >= self.next_epoch {
            self.device.advance(reference);
            let epoch = self.device.epoch();
            self.next_epoch = epoch.and_then(|epoch| epoch.end).unwrap_or(u64::MAX);
        }
        let now = self.device.costs();
        if self.reported == Some(now) {
            return None;
        }
        self.reported = Some(now);
        Some(now.into())
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.failed.is_some()
    }

    fn pages(&self) -> u64 {
        self.device.pages()
    }

    fn counts_erases(&self) -> bool {
        matches!(self.device, AnyDevice::Flash(_))
    }

    #[inline]
    fn erases_of(&self, page: u64) -> u32 {
        self.device.erases_of(page)
    }

    fn note_moves(&mut self) {
        self.device.note_moves();
    }

    #[inline]
    fn take_moved(&mut self, moved: &mut Vec<u64>) {
        self.device.take_moved(moved);
    }

    #[inline]
    fn read(&mut self, page: u64) {
        let served = self.device.read(page);
        self.note(served);
        self.inner.read(page);
    }

    #[inline]
    fn write(&mut self, page: u64) {
        let served = self.device.write(page);
        if !self.owed.is_empty()
            && self.owed.remove(&page)
            && let Ok(cost) = &served
        {
            self.owed_cost += cost;
        }
        self.note(served);
        self.inner.write(page);
    }

    fn trim(&mut self, first: u64, last: u64) {
        match last - first < self.owed.len() as u64 {
            true => (first..=last).for_each(|page| _ = self.owed.remove(&page)),
            false => self.owed.retain(|page| !(first..=last).contains(page)),
        }
        if let Err(failed) = self.device.trim(first, last) {
            self.failed.get_or_insert(failed);
        }
        self.inner.trim(first, last);
    }

    #[inline]
    fn evict(&mut self, page: u64) {
        self.inner.evict(page);
    }

    fn sample(&mut self, sample: &Sample) {
        self.inner.sample(&Sample { bill: Some(self.device.report().bill().amount), ..*sample });
    }
}
