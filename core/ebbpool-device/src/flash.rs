//! A flash device simulated down to the chip: pages and erase blocks, a translation layer, cleaning,
//! wear levelling. It counts what the chip does, and how long that takes.
//!
//! ```
//! use ebbpool_device::flash::{Flash, FlashConfig};
//!
//! let config: FlashConfig = "flash:slc-mt29f4g08aaa,blocks=64,precondition=steady".parse()?;
//! let mut device = Flash::new(&config)?;
//! let time = device.write(7)?;
//! assert!(time.micros() >= 220.0);
//! assert_eq!(device.report().host_writes, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/flash-model.md` describes what the model covers and what it leaves out.

mod chips;
mod cleaning;
mod clock;
pub mod closed_forms;
mod config;
mod ftl;
mod geometry;
mod nand;
mod report;
#[cfg(test)]
mod separation;
mod steady;
mod wear;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::energy::DieSeconds;

pub use chips::{Chip, chips};
pub use cleaning::CleaningKind;
pub use config::{ConfigError, FlashConfig, Precondition, describe_parameters};
pub use ftl::{LayerKind, Merges};
pub use geometry::{Geometry, MAX_PHYSICAL};
pub use nand::{CountsByCause, NandCause, NandObserver};
pub use report::{FlashReport, RequestTimes, WearReport};
pub use wear::WearLevelling;

use cleaning::Cleaner;
use clock::{Clock, DieNanos};
use ftl::{Bast, BlockMap, CachedMap, Fast, OutOfBlocks, PageMapped, Placement, ResidentMap, RotationPlan, TranslationLayer};
use nand::Nand;
use report::TimeRecorder;
use steady::Windows;

/// Seeds of the two random streams; fixed, so that a device always behaves the same.
const CLEANING_SEED: u64 = 0x00c1_ea41;
const PRECONDITION_SEED: u64 = 0x57ea_d700;
/// Windows after which preconditioning stops although write amplification still drifts.
const MOST_WINDOWS: u64 = 64;

/// How long a request took, from its arrival to the end of the last operation that it caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceTime {
    nanos: u64,
}

impl ServiceTime {
    /// In nanoseconds.
    pub fn nanos(self) -> u64 {
        self.nanos
    }

    /// In microseconds.
    pub fn micros(self) -> f64 {
        self.nanos as f64 / 1000.0
    }
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Too many blocks are worn out; what was written before can still be read.
    #[error(
        "the device is worn out after {host_writes} host writes ({host_bytes} bytes): {bad_blocks} of {blocks} blocks are bad and no erased block can be made; use a chip with more endurance, more blocks or a lower rho"
    )]
    WornOut {
        /// Host writes that succeeded since the device was new or preconditioned.
        host_writes: u64,
        /// Bytes of these writes.
        host_bytes: u64,
        /// Bad blocks.
        bad_blocks: u32,
        /// All blocks.
        blocks: u32,
    },
    /// No block is bad, but cleaning gains nothing: the mapping table on flash takes all that is freed.
    #[error(
        "no erased block can be made after {host_writes} host writes: data and mapping table leave too little room; lower rho or raise cmt"
    )]
    Full {
        /// Host writes that succeeded since the device was new or preconditioned.
        host_writes: u64,
    },
    /// The page is beyond the device's end.
    #[error("page {page} is beyond the device's {pages} pages; {remedy}")]
    NoSuchPage {
        /// The page requested.
        page: u64,
        /// Logical pages of the device.
        pages: u64,
        /// The smallest device that has the page.
        remedy: String,
    },
}

#[derive(Clone)]
enum Layer {
    PageMap(PageMapped<ResidentMap>),
    Dftl(PageMapped<CachedMap>),
    BlockMap(BlockMap),
    Bast(Bast),
    Fast(Fast),
}

macro_rules! layer {
    ($layer:expr, $each:ident => $call:expr) => {
        match $layer {
            Layer::PageMap($each) => $call,
            Layer::Dftl($each) => $call,
            Layer::BlockMap($each) => $call,
            Layer::Bast($each) => $call,
            Layer::Fast($each) => $call,
        }
    };
}

impl Layer {
    fn plan(config: &FlashConfig, logical_pages: u32) -> RotationPlan {
        RotationPlan {
            logical_pages,
            map_pages: config.map_pages(logical_pages.into()) as u32,
            placement: match config.frontiers {
                1 => Placement::Together,
                _ => Placement::CleanedApart,
            },
            reserve: config.reserve(),
            wear: config.wear,
            cleaner: Cleaner::new(config.cleaning, config.blocks, config.pages_per_block, config.choices, CLEANING_SEED),
        }
    }

    fn new(config: &FlashConfig, logical_pages: u32) -> Self {
        let blocks = config.blocks;
        let pages = config.pages_per_block;
        let plan = || Self::plan(config, logical_pages);
        let logs = config.log_blocks;
        let wear = config.wear;
        match config.layer {
            LayerKind::PageMap => Layer::PageMap(PageMapped::new(blocks, plan(), ResidentMap)),
            LayerKind::Dftl => {
                let capacity = config.cached_entries.unwrap_or(logical_pages);
                let map = CachedMap::new(logical_pages, config.page_bytes, capacity);
                Layer::Dftl(PageMapped::new(blocks, plan(), map))
            }
            LayerKind::BlockMap => Layer::BlockMap(BlockMap::new(blocks, pages, logical_pages, wear)),
            LayerKind::Bast => Layer::Bast(Bast::new(blocks, pages, logical_pages, logs, wear)),
            LayerKind::Fast => Layer::Fast(Fast::new(blocks, pages, logical_pages, logs, wear)),
        }
    }

    fn merges<O: NandObserver>(&mut self) -> &mut Merges {
        layer!(self, layer => TranslationLayer::<O>::merges(layer))
    }

    #[inline]
    fn page_of<O: NandObserver>(&self, logical: u32) -> Option<u32> {
        layer!(self, layer => TranslationLayer::<O>::page_of(layer, logical))
    }
}

/// A simulated flash device. Requests arrive one after another; the same requests always have the same effect.
#[derive(Clone)]
pub struct Flash<O: NandObserver = ()> {
    config: FlashConfig,
    logical_pages: u32,
    nand: Nand<O>,
    layer: Layer,
    host_reads: u64,
    host_writes: u64,
    host_trims: u64,
    /// Bytes that the host writes with each page: fewer than the page has where the host's pages are smaller.
    host_bytes_per_write: u64,
    /// Host writes before the counters were last reset, for the report of a failure.
    writes_before: u64,
    busy_before: u64,
    worked_before: DieNanos,
    idle_nanos: u64,
    read_times: TimeRecorder,
    write_times: TimeRecorder,
    windows: Windows,
    failed: Option<DeviceError>,
}

impl Flash {
    /// A device as configured, preconditioned, with all counters at zero.
    pub fn new(config: &FlashConfig) -> Result<Self, ConfigError> {
        Self::observed(config, ())
    }
}

impl<O: NandObserver> Flash<O> {
    /// A device as configured, preconditioned, with all counters at zero; `observer` is notified during preconditioning too.
    pub fn observed(config: &FlashConfig, observer: O) -> Result<Self, ConfigError> {
        config.check()?;
        let geometry =
            config.geometry().ok_or_else(|| ConfigError::Impossible("the device has no pages that can be simulated".into()))?;
        let logical_pages = config.logical_pages() as u32;
        let clock = Clock::new(config.dies, config.channels);
        let mut flash = Self {
            config: config.clone(),
            logical_pages,
            nand: Nand::new(geometry, config.timing(), clock, observer),
            layer: Layer::new(config, logical_pages),
            host_reads: 0,
            host_writes: 0,
            host_trims: 0,
            host_bytes_per_write: config.page_bytes.into(),
            writes_before: 0,
            busy_before: 0,
            worked_before: DieNanos::default(),
            idle_nanos: 0,
            read_times: TimeRecorder::new(),
            write_times: TimeRecorder::new(),
            windows: Windows::new(geometry.pages()),
            failed: None,
        };
        flash
            .precondition()
            .map_err(|error| ConfigError::Impossible(format!("while the device was preconditioned: {error}")))?;
        Ok(flash)
    }

    fn precondition(&mut self) -> Result<(), DeviceError> {
        let pages = self.logical_pages();
        if self.config.precondition == Precondition::None {
            return Ok(());
        }
        // A chip of low endurance must not wear out while it is preconditioned.
        self.nand.suspend_wear_out();
        for page in 0..pages {
            self.write(page)?;
        }
        if self.config.precondition == Precondition::Steady {
            self.reset_counters();
            let mut random = Xoshiro256PlusPlus::seed_from_u64(PRECONDITION_SEED);
            let step = (self.nand.geometry().pages() / 8).max(1);
            for _ in 0..MOST_WINDOWS {
                for _ in 0..step {
                    let drawn = (u128::from(random.next_u64()) * u128::from(pages)) >> 64;
                    self.write(drawn as u64)?;
                }
                if self.settled().is_ok() {
                    break;
                }
            }
        }
        self.reset_counters();
        self.writes_before = 0;
        self.nand.forget_wear();
        Ok(())
    }

    /// Logical pages, numbered from 0.
    pub fn logical_pages(&self) -> u64 {
        self.logical_pages.into()
    }

    /// What the device was made from.
    pub fn config(&self) -> &FlashConfig {
        &self.config
    }

    /// The observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.nand.observer
    }

    #[inline]
    fn checked(&self, page: u64) -> Result<u32, DeviceError> {
        if page < u64::from(self.logical_pages) {
            return Ok(page as u32);
        }
        Err(self.no_such_page(page))
    }

    #[cold]
    fn no_such_page(&self, page: u64) -> DeviceError {
        DeviceError::NoSuchPage { page, pages: self.logical_pages(), remedy: self.config.remedy(page.saturating_add(1)) }
    }

    #[cold]
    fn fail(&mut self) -> DeviceError {
        let host_writes = self.writes_before + self.host_writes;
        let error = match self.nand.wear().bad_blocks() {
            0 => DeviceError::Full { host_writes },
            bad_blocks => DeviceError::WornOut {
                host_writes,
                host_bytes: host_writes * self.host_bytes_per_write,
                bad_blocks,
                blocks: self.config.blocks,
            },
        };
        self.failed = Some(error.clone());
        error
    }

    /// Reads a page; a page that was never written, or trimmed, costs no flash read. A worn-out
    /// device still reads.
    pub fn read(&mut self, page: u64) -> Result<ServiceTime, DeviceError> {
        let logical = self.checked(page)?;
        self.nand.clock().start_request();
        if self.failed.is_some() {
            if let Some(page) = self.layer.page_of::<O>(logical) {
                self.nand.read(page, NandCause::Host);
            }
        } else if layer!(&mut self.layer, layer => layer.read(&mut self.nand, logical)).is_err() {
            // The data have been read; only the mapping table found no room.
            self.fail();
        }
        self.host_reads += 1;
        let nanos = self.nand.clock().request_nanos();
        self.read_times.record(nanos);
        Ok(ServiceTime { nanos })
    }

    /// Writes a page.
    #[inline]
    pub fn write(&mut self, page: u64) -> Result<ServiceTime, DeviceError> {
        let logical = self.checked(page)?;
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.nand.clock().start_request();
        let written: Result<(), OutOfBlocks> = layer!(&mut self.layer, layer => layer.write(&mut self.nand, logical));
        if written.is_err() {
            return Err(self.fail());
        }
        self.host_writes += 1;
        let nanos = self.nand.clock().request_nanos();
        self.write_times.record(nanos);
        let nand = &self.nand;
        self.windows.note(self.host_writes, || nand.programs_so_far());
        Ok(ServiceTime { nanos })
    }

    /// Discards a page: its content is no longer needed.
    pub fn trim(&mut self, page: u64) -> Result<ServiceTime, DeviceError> {
        let logical = self.checked(page)?;
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.nand.clock().start_request();
        if layer!(&mut self.layer, layer => layer.trim(&mut self.nand, logical)).is_err() {
            return Err(self.fail());
        }
        self.host_trims += 1;
        Ok(ServiceTime { nanos: self.nand.clock().request_nanos() })
    }

    /// Leaves the device without a request for `nanos` nanoseconds. It only draws idle power then: it
    /// does not clean in the background.
    pub fn idle(&mut self, nanos: u64) {
        self.idle_nanos += nanos;
    }

    /// How long the dies have worked since the counters were last reset.
    pub(crate) fn die_seconds(&self) -> DieSeconds {
        self.nand.worked().seconds_since(&self.worked_before)
    }

    /// Erases of the block that holds a logical page; `None` if the page holds no data or does not
    /// exist.
    pub fn erase_count(&self, page: u64) -> Option<u32> {
        let logical = self.checked(page).ok()?;
        let physical = self.layer.page_of::<O>(logical)?;
        let block = self.nand.geometry().block(physical);
        Some(self.nand.wear().erases_of(block))
    }

    /// The physical page that holds a logical page; `None` if it holds no data.
    pub fn physical_page(&self, page: u64) -> Option<u32> {
        self.layer.page_of::<O>(self.checked(page).ok()?)
    }

    /// Sets the number of bytes that the host writes with each page, at most the page's size. The device programs the
    /// page whole all the same.
    pub fn set_host_bytes_per_write(&mut self, bytes: u64) {
        self.host_bytes_per_write = bytes.min(self.config.page_bytes.into());
    }

    /// Sets the counters to zero, as at the end of a warm-up; content and wear stay.
    pub fn reset_counters(&mut self) {
        self.writes_before += self.host_writes;
        (self.host_reads, self.host_writes, self.host_trims) = (0, 0, 0);
        self.busy_before = self.nand.clock().done();
        self.worked_before = self.nand.worked();
        self.idle_nanos = 0;
        self.read_times = TimeRecorder::new();
        self.write_times = TimeRecorder::new();
        self.windows = Windows::new(self.nand.geometry().pages());
        *self.layer.merges::<O>() = Merges::default();
        self.nand.reset_counters();
    }

    fn settled(&self) -> Result<f64, String> {
        let erases = self.nand.erases().total();
        self.windows.settled(self.host_writes, self.nand.programs_so_far(), erases)
    }

    /// Physical pages in rotation: without bad and open blocks, log blocks and the reserve.
    fn rotation_pages(&self) -> u64 {
        let outside = self.config.blocks_outside_rotation() + self.nand.wear().bad_blocks();
        let blocks = self.config.blocks.saturating_sub(outside);
        u64::from(blocks) * u64::from(self.config.pages_per_block)
    }

    fn predicted(&self, rho: f64) -> Option<f64> {
        let config = &self.config;
        let pages = config.pages_per_block;
        let data_blocks = self.logical_pages.div_ceil(pages);
        match (config.layer, config.cleaning) {
            (LayerKind::Dftl, _) if config.cached_entries.is_some() => None,
            (LayerKind::PageMap | LayerKind::Dftl, cleaning) => match cleaning {
                CleaningKind::Greedy | CleaningKind::EeGreedy => closed_forms::greedy(rho, pages),
                CleaningKind::Fifo => closed_forms::fifo(rho),
                CleaningKind::Random => closed_forms::random(rho),
                CleaningKind::DChoices | CleaningKind::CostBenefit => None,
            },
            (LayerKind::BlockMap, _) => Some(f64::from(pages)),
            (LayerKind::Bast, _) => Some(closed_forms::bast(pages, config.log_blocks, data_blocks)),
            (LayerKind::Fast, _) => Some(closed_forms::fast(pages, config.log_blocks, data_blocks)),
        }
    }

    fn occupancy(&self) -> Vec<u64> {
        let closed = layer!(&self.layer, layer => layer.closed(&self.nand));
        let mut occupancy = Vec::new();
        if let Some(closed) = closed {
            occupancy.resize(self.config.pages_per_block as usize + 1, 0);
            for valid in closed {
                occupancy[valid as usize] += 1;
            }
        }
        occupancy
    }

    /// All counts.
    pub fn report(&mut self) -> FlashReport {
        let die_seconds = self.die_seconds();
        let config = &self.config;
        let page_bytes = u64::from(config.page_bytes);
        let mapped = (0..self.logical_pages).filter(|&page| self.layer.page_of::<O>(page).is_some());
        let mapped_pages = mapped.count() as u64;
        let rho_eff = mapped_pages as f64 / self.rotation_pages().max(1) as f64;
        let wear = WearReport::from_erases(self.nand.wear().all(), self.nand.wear().bad_blocks());
        let settled = self.settled();
        let write_amplification = settled.as_ref().ok().copied();
        let host_bytes = self.host_writes * self.host_bytes_per_write;
        let page_share = self.host_bytes_per_write as f64 / page_bytes as f64;
        let programs_in_a_lifetime =
            self.nand.geometry().pages() as f64 * f64::from(self.nand.wear().endurance()) * wear.lifetime_evenness();
        let busy = self.nand.clock().done() - self.busy_before;
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let (device_seconds, idle_seconds) = (seconds(busy), seconds(self.idle_nanos));
        FlashReport {
            device: config.to_string(),
            logical_pages: self.logical_pages.into(),
            mapped_pages,
            rho: config.rho,
            rho_eff,
            host_reads: self.host_reads,
            host_writes: self.host_writes,
            host_trims: self.host_trims,
            host_bytes,
            programs: self.nand.programs().total(),
            programs_by_cause: self.nand.programs(),
            reads: self.nand.reads().total(),
            reads_by_cause: self.nand.reads(),
            erases: self.nand.erases().total(),
            erases_by_cause: self.nand.erases(),
            merges: *self.layer.merges::<O>(),
            write_amplification,
            not_steady: settled.err(),
            predicted_write_amplification: self.predicted(rho_eff),
            occupancy: self.occupancy(),
            byte_write_amplification: write_amplification.map(|amplification| amplification / page_share),
            lifetime_host_bytes: write_amplification
                .map(|amplification| programs_in_a_lifetime / amplification * self.host_bytes_per_write as f64),
            lifetime_assumes: write_amplification.and_then(|_| wear.lifetime_assumption(config.wear)),
            wear,
            device_seconds,
            idle_seconds,
            die_seconds,
            energy: config.chip().power().map(|power| power.energy(config.dies, &die_seconds, device_seconds + idle_seconds)),
            read_time: self.read_times.times(),
            write_time: self.write_times.times(),
        }
    }
}
