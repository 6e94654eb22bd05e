//! The flash model as a device that a simulator drives.

use std::fmt;

use crate::device::{Device, DeviceFailed, DeviceReport};
use crate::energy::Energy;
use crate::flash::{ConfigError, DeviceError, Flash, FlashConfig, FlashReport, NandCause, NandObserver, ServiceTime};
use ebbpool_cost::measured::MeasuredCosts;
use ebbpool_cost::{OperationCosts, Unit};

/// How the pages of a trace lie on the pages of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A page of the trace spans this many consecutive pages of the device.
    Spans(u64),
    /// This many pages of the trace share one page of the device; a write programs all of it.
    Shares(u64),
}

impl Layout {
    fn new(page_bytes: Option<u64>, device_bytes: u64) -> Result<Self, ConfigError> {
        match page_bytes {
            None => Ok(Layout::Spans(1)),
            Some(bytes) if bytes >= device_bytes && bytes.is_multiple_of(device_bytes) => {
                Ok(Layout::Spans(bytes / device_bytes))
            }
            Some(bytes) if bytes > 0 && device_bytes.is_multiple_of(bytes) => Ok(Layout::Shares(device_bytes / bytes)),
            Some(bytes) => Err(ConfigError::Impossible(format!(
                "pages of {bytes} bytes do not fit on flash pages of {device_bytes} bytes; give page_size={bytes} or a divisor of it"
            ))),
        }
    }

    fn pages(self, page: u64) -> std::ops::Range<u64> {
        match self {
            Layout::Spans(count) => {
                let first = page.saturating_mul(count);
                first..first.saturating_add(count)
            }
            Layout::Shares(count) => page / count..page / count + 1,
        }
    }

    /// Those of the device's first `pages` pages that hold nothing but pages of the trace from `first` to `last`.
    fn whole_pages(self, first: u64, last: u64, pages: u64) -> std::ops::Range<u64> {
        let (start, end) = match self {
            Layout::Spans(count) => (first.saturating_mul(count), last.saturating_add(1).saturating_mul(count)),
            Layout::Shares(count) => (first.div_ceil(count), last.saturating_add(1) / count),
        };
        start.min(pages)..end.min(pages)
    }

    /// The pages of the trace that lie on a page of the device, wholly or in part.
    fn pages_on(self, device_page: u64) -> std::ops::Range<u64> {
        match self {
            Layout::Spans(count) => device_page / count..device_page / count + 1,
            Layout::Shares(count) => device_page * count..(device_page + 1) * count,
        }
    }

    /// The number of pages of the trace in `device_pages` pages of the device.
    fn pages_in(self, device_pages: u64) -> u64 {
        match self {
            Layout::Spans(count) => device_pages / count,
            Layout::Shares(count) => device_pages * count,
        }
    }

    fn per_request(self) -> u64 {
        match self {
            Layout::Spans(count) => count,
            Layout::Shares(_) => 1,
        }
    }
}

/// Records which logical pages are programmed, once recording is switched on.
#[derive(Clone, Default)]
struct MoveRecorder {
    recording: bool,
    programmed: Vec<u32>,
}

impl MoveRecorder {
    #[inline]
    fn record(&mut self, owner: u32) {
        if self.recording {
            self.programmed.push(owner);
        }
    }
}

impl NandObserver for MoveRecorder {
    #[inline]
    fn read(&mut self, _page: u32, _cause: NandCause) {}

    #[inline]
    fn programmed(&mut self, _page: u32, owner: u32, _cause: NandCause) {
        self.record(owner);
    }

    #[inline]
    fn copied(&mut self, _from: u32, _to: u32, owner: u32, _cause: NandCause) {
        self.record(owner);
    }

    #[inline]
    fn erased(&mut self, _block: u32) {}

    #[inline]
    fn retired(&mut self, _block: u32) {}
}

/// A simulated flash device that stores the pages of a trace.
///
/// The costs that it reports are averages over its last 32,768 reads and writes, cleaning included,
/// so the asymmetry that a policy sees grows as the device fragments (FD-Buffer TC, section 3.3).
/// Until it has served enough operations it reports the costs that the chip states.
#[derive(Clone)]
pub struct FlashDevice {
    flash: Flash<MoveRecorder>,
    layout: Layout,
    stated: OperationCosts,
    measured: MeasuredCosts,
    reads: u64,
    writes: u64,
    read_nanos: u64,
    write_nanos: u64,
}

impl fmt::Debug for FlashDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlashDevice").field("config", self.flash.config()).field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl FlashDevice {
    /// The device for a database of `database_pages` pages of `page_bytes` bytes; where the page size
    /// is not known, pages have the size of the device's pages.
    ///
    /// # Errors
    ///
    /// If the device cannot be made or is too small, or if one page size is not a multiple of the
    /// other.
    pub fn new(config: &FlashConfig, page_bytes: Option<u64>, database_pages: Option<u64>) -> Result<Self, ConfigError> {
        let stated = Self::stated_costs(config, page_bytes, database_pages)?;
        let layout = Layout::new(page_bytes, config.page_bytes.into())?;
        let mut flash = Flash::observed(config, MoveRecorder::default())?;
        if let (Layout::Shares(_), Some(bytes)) = (layout, page_bytes) {
            flash.set_host_bytes_per_write(bytes);
        }
        Ok(FlashDevice {
            flash,
            layout,
            stated,
            measured: MeasuredCosts::default(),
            reads: 0,
            writes: 0,
            read_nanos: 0,
            write_nanos: 0,
        })
    }

    /// The costs that a [`FlashDevice::new`] with the same arguments reports at first: those that the
    /// chip states, in microseconds. Makes no device, whose preconditioning may take time and memory.
    ///
    /// # Errors
    ///
    /// If the device is too small, or if one page size is not a multiple of the other.
    pub fn stated_costs(
        config: &FlashConfig,
        page_bytes: Option<u64>,
        database_pages: Option<u64>,
    ) -> Result<OperationCosts, ConfigError> {
        let layout = Layout::new(page_bytes, config.page_bytes.into())?;
        if let Some(last) = database_pages.and_then(|pages| pages.checked_sub(1)) {
            config.check_fits(layout.pages(last).end)?;
        }
        let chip = config.chip();
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
        let pages = layout.per_request() as f64;
        Ok(OperationCosts {
            read: pages * mean(&chip.read_us),
            write: pages * mean(&chip.program_us),
            unit: Unit::Microseconds,
        })
    }

    /// Refuses a trace whose pages, of `page_bytes` bytes, are numbered up to `page`: a run would end at the first page that the
    /// device does not have.
    ///
    /// # Errors
    ///
    /// If the device is too small, or if one page size is not a multiple of the other.
    pub fn check_numbers(config: &FlashConfig, page_bytes: Option<u64>, page: u64) -> Result<(), ConfigError> {
        let layout = Layout::new(page_bytes, config.page_bytes.into())?;
        config.check_numbers(page, layout.pages(page).end)
    }

    /// Pages of `page_bytes` bytes in an erase block; where the size is not known, pages of the device.
    pub fn pages_per_block(config: &FlashConfig, page_bytes: Option<u64>) -> Option<u64> {
        let layout = Layout::new(page_bytes, config.page_bytes.into()).ok()?;
        Some(layout.pages_in(config.pages_per_block.into()).max(1))
    }

    /// The counts of the flash model.
    pub fn flash_report(&mut self) -> FlashReport {
        self.flash.report()
    }

    fn request(
        &mut self,
        page: u64,
        serve: fn(&mut Flash<MoveRecorder>, u64) -> Result<ServiceTime, DeviceError>,
    ) -> Result<u64, DeviceFailed> {
        let mut nanos = 0;
        for page in self.layout.pages(page) {
            let time = serve(&mut self.flash, page).map_err(|error| DeviceFailed(error.to_string().into()))?;
            nanos += time.nanos();
        }
        Ok(nanos)
    }
}

const NANOS_PER_MICRO: f64 = 1e3;

impl Device for FlashDevice {
    fn read(&mut self, page: u64) -> Result<f64, DeviceFailed> {
        let nanos = self.request(page, Flash::read)?;
        self.reads += 1;
        self.read_nanos += nanos;
        self.measured.record_read(nanos);
        Ok(nanos as f64 / NANOS_PER_MICRO)
    }

    fn write(&mut self, page: u64) -> Result<f64, DeviceFailed> {
        let nanos = self.request(page, Flash::write)?;
        self.writes += 1;
        self.write_nanos += nanos;
        self.measured.record_write(nanos);
        Ok(nanos as f64 / NANOS_PER_MICRO)
    }

    fn trim(&mut self, first: u64, last: u64) -> Result<(), DeviceFailed> {
        for page in self.layout.whole_pages(first, last, self.flash.logical_pages()) {
            self.flash.trim(page).map_err(|error| DeviceFailed(error.to_string().into()))?;
        }
        Ok(())
    }

    fn costs(&self) -> OperationCosts {
        match self.measured.averages() {
            Some((read, write)) => {
                OperationCosts { read: read / NANOS_PER_MICRO, write: write / NANOS_PER_MICRO, unit: Unit::Microseconds }
            }
            None => self.stated,
        }
    }

    fn pages(&self) -> u64 {
        self.layout.pages_in(self.flash.logical_pages())
    }

    fn erases_of(&self, page: u64) -> u32 {
        let first = self.layout.pages(page).start;
        self.flash.erase_count(first).unwrap_or(0)
    }

    fn note_moves(&mut self) {
        self.flash.observer().recording = true;
    }

    fn take_moved(&mut self, moved: &mut Vec<u64>) {
        let programmed = std::mem::take(&mut self.flash.observer().programmed);
        let pages = programmed.iter().map(|&page| u64::from(page));
        moved.extend(pages.flat_map(|page| self.layout.pages_on(page)));
        let recycled = &mut self.flash.observer().programmed;
        *recycled = programmed;
        recycled.clear();
    }

    fn report(&self) -> DeviceReport {
        DeviceReport {
            unit: Unit::Microseconds,
            reads: self.reads,
            writes: self.writes,
            read_cost: self.read_nanos as f64 / NANOS_PER_MICRO,
            write_cost: self.write_nanos as f64 / NANOS_PER_MICRO,
        }
    }

    fn reset_counters(&mut self) {
        self.flash.reset_counters();
        (self.reads, self.writes) = (0, 0);
        (self.read_nanos, self.write_nanos) = (0, 0);
    }

    fn idle(&mut self, micros: f64) {
        self.flash.idle((micros * NANOS_PER_MICRO).round() as u64);
    }

    fn energy(&self, elapsed_us: f64) -> Option<Energy> {
        let config = self.flash.config();
        let power = config.chip().power()?;
        let elapsed_s = elapsed_us / 1e6;
        Some(power.of_device(config.dies, &self.flash.die_seconds(), elapsed_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(keys: &str, page_bytes: Option<u64>) -> FlashDevice {
        let name = format!("flash:slc-mt29f4g08aaa,blocks=64,{keys}");
        let config: FlashConfig = name.parse().expect("a device");
        FlashDevice::new(&config, page_bytes, None).expect("it can be made")
    }

    #[test]
    fn a_large_page_takes_several_pages_of_the_device() {
        let mut device = device("bus=ignore,precondition=full", Some(8192));
        assert_eq!(device.read(0), Ok(4.0 * 25.0));
        assert_eq!(device.write(1), Ok(4.0 * 220.0));
        assert_eq!(device.flash_report().host_writes, 4);
        assert_eq!(device.costs().ratio(), 8.8);
        assert_eq!(device.report().bill().amount, 980.0);
        device.reset_counters();
        assert_eq!(device.report().bill().amount, 0.0);
    }

    #[test]
    fn trims_are_those_of_whole_pages_that_the_device_has() {
        let trims = |page_bytes, first, last| {
            let mut device = device("bus=ignore,precondition=full", page_bytes);
            device.trim(first, last).expect("it lasts");
            device.flash_report().host_trims
        };
        assert_eq!(trims(Some(8192), 3, 4), 8);
        assert_eq!(trims(Some(512), 1, 11), 2);
        assert_eq!(trims(Some(512), 1, 3), 0);
        assert_eq!(trims(None, 5, 5), 1);
        let pages = device("bus=ignore,precondition=full", None).pages();
        assert_eq!(trims(None, pages - 1, u64::MAX), 1);
        assert_eq!(trims(Some(8192), u64::MAX, u64::MAX), 0);
    }

    /// The host's bytes are those of its own pages, and a lifetime counts the same bytes.
    #[test]
    fn a_lifetime_is_in_bytes_that_the_host_writes() {
        let report = |page_bytes| {
            let keys = "page_size=8192,bus=ignore,precondition=steady";
            let mut device = device(keys, Some(page_bytes));
            let share = 8192 / page_bytes;
            // In turn, so that write amplification is steady.
            for write in 0..40_000 {
                // The same pages of the device, whatever the size of the host's pages.
                let page = write % (device.pages() / share) * share;
                device.write(page).expect("it lasts");
            }
            device.flash_report()
        };
        let [whole, half] = [report(8192), report(4096)];
        assert_eq!(whole.programs, half.programs);
        assert_eq!(whole.host_bytes, 2 * half.host_bytes);
        assert_eq!(whole.write_amplification, half.write_amplification);
        assert_eq!(whole.byte_write_amplification, whole.write_amplification);
        assert_eq!([&whole.not_steady, &half.not_steady], [&None, &None]);
        let lifetimes = [&whole, &half].map(|report| report.lifetime_host_bytes.expect("steady"));
        assert!((lifetimes[0] / lifetimes[1] - 2.0).abs() < 1e-9, "{lifetimes:?}");
        // Both devices end after the same number of programs, so after the same time at the same rate of requests.
        let days = [&whole, &half].map(|report| report.lifetime_days(report.host_bytes as f64));
        assert!((days[0].expect("days") / days[1].expect("days") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn small_pages_share_one() {
        let mut device = device("page_size=4096,bus=ignore", Some(1024));
        assert_eq!(device.write(3), Ok(220.0));
        assert_eq!(device.write(4), Ok(220.0));
        assert_eq!(device.flash_report().mapped_pages, 2);
        let report = device.flash_report();
        assert_eq!((report.host_writes, report.host_bytes), (2, 2048));
        let config: FlashConfig = "flash:slc-mt29f4g08aaa".parse().expect("a device");
        let error = FlashDevice::new(&config, Some(3000), None).expect_err("no multiple");
        assert!(error.to_string().contains("page_size=3000"), "{error}");
    }

    #[test]
    fn reported_costs_grow_as_the_device_fragments() {
        let mut device = device("rho=0.9,bus=ignore,precondition=full", None);
        let pages = device.flash.logical_pages();
        let at_first = device.costs().ratio();
        let mut page = 1;
        for _ in 0..200_000 {
            page = (page * 48_271) % 2_147_483_647;
            device.read(page % pages).expect("room");
            device.write(page % pages).expect("room");
        }
        let later = device.costs().ratio();
        assert!(later > 2.0 * at_first, "{at_first} then {later}");
    }

    #[test]
    fn energy_follows_the_operations() {
        let mut device = device("bus=include,precondition=full", None);
        device.read(0).expect("room");
        device.write(0).expect("room");
        device.idle(1e6);
        // 2 x 52.8 µs on the bus beside 25 and 220 µs in the array, at 49.5 mW; 33 µW while idle.
        let busy_s = (25.0 + 220.0 + 2.0 * 52.8) / 1e6;
        let expected = 0.0495 * busy_s + 3.3e-5;
        let energy = device.energy(1e6 + busy_s * 1e6).expect("its power is known");
        assert!((energy.device_j() / expected - 1.0).abs() < 1e-9);
        let report = device.flash_report();
        assert_eq!(report.idle_seconds, 1.0);
        let reported = report.energy.expect("its power is known").total_j;
        assert!((reported / expected - 1.0).abs() < 1e-9, "{reported}");
        device.reset_counters();
        assert_eq!(device.energy(0.0).map(|energy| energy.device_j()), Some(0.0));
        let unknown: FlashConfig = "flash:znand,blocks=64".parse().expect("a device");
        let mut unknown = FlashDevice::new(&unknown, None, None).expect("it can be made");
        assert_eq!(unknown.energy(1e6), None);
        assert_eq!(unknown.flash_report().energy, None);
    }

    #[test]
    fn a_page_beyond_the_end_is_refused() {
        let error = device("rho=0.5", None).write(1 << 40).expect_err("no such page");
        assert!(error.to_string().contains("beyond the device's"), "{error}");
    }
}
