//! The pricing of reads and writes: a constant asymmetry, an asymmetry that changes, or a device.

use ebbpool_cost::{Asymmetry, OperationCosts, PAPERS_BASE, Unit};
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_device::flash::FlashConfig;
use ebbpool_device::profiles::{Endurance, PagedProfile};
use ebbpool_device::{AnyDevice, ChangingDevice, DeviceProfile, FlashDevice};
use ebbpool_policy::{Capabilities, PolicyEntry, PolicySpec};
use ebbpool_sim::DeviceAtStart;
use ebbpool_trace::{Metadata, Source};
use serde::Serialize;

use crate::error::{LabError, RequestError};
use crate::lab::Lab;
use crate::money::Tariff;
use crate::numbers::rounded;

/// The information that a device can give to policies.
#[derive(Clone, Debug, Default)]
pub struct DeviceFeatures {
    /// The device's name; `None` if there is only an asymmetry.
    device: Option<String>,
    counts_erases: bool,
    /// The number of the trace's pages in an erase block.
    block_pages: Option<u64>,
    /// A pool takes the place of the simulator: it does nothing that a server does beside replacement.
    is_pool: bool,
}

impl DeviceFeatures {
    /// Those of a pool on a file.
    #[cfg(all(feature = "replay", unix))]
    pub(crate) fn of_pool() -> Self {
        DeviceFeatures { is_pool: true, ..Self::default() }
    }

    /// True if the device has all the information that the policy needs. A pool supports no policy of a server.
    pub(crate) fn supports(&self, entry: &'static PolicyEntry) -> bool {
        let asked = entry.capabilities;
        (self.counts_erases || !asked.contains(Capabilities::ERASE_COUNTS))
            && !(self.is_pool && asked.contains(Capabilities::BACKGROUND_WRITES))
    }

    /// The policy on the device, with clusters of its erase blocks where it asks for these.
    ///
    /// # Errors
    ///
    /// [`RequestError::NoEraseCounts`], [`RequestError::NoEraseBlock`] if the policy needs information which the device
    /// does not have.
    pub fn supported(&self, spec: PolicySpec) -> Result<PolicySpec, RequestError> {
        let device = || match &self.device {
            Some(name) => format!("device {name}"),
            None => "the plain asymmetry model".into(),
        };
        if spec.asks_erase_counts() && !self.counts_erases {
            return Err(RequestError::NoEraseCounts { policy: spec.to_string(), device: device() });
        }
        match self.block_pages {
            Some(pages) => Ok(spec.on_erase_blocks(pages)),
            None if spec.asks_erase_block() => Err(RequestError::NoEraseBlock { policy: spec.to_string(), device: device() }),
            None => Ok(spec),
        }
    }
}

/// A request for prices; [`Pricing`] is the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum PricingRequest {
    /// An asymmetry, constant or changing.
    Asymmetry(AsymmetrySpec),
    /// A device: its name, the path of a profile, or a simulated device (`flash:…`). R may change on a
    /// device that has a profile.
    Device {
        /// The device.
        name: String,
        /// How R changes.
        changing: Option<AsymmetrySpec>,
    },
}

impl Default for PricingRequest {
    /// R of the papers, [`PAPERS_BASE`].
    fn default() -> Self {
        PricingRequest::Asymmetry(PAPERS_BASE.into())
    }
}

impl PricingRequest {
    /// A request from an asymmetry, a device, neither, or both if the asymmetry changes.
    ///
    /// # Errors
    ///
    /// [`RequestError::AsymmetryOfDevice`], [`RequestError::AsymmetryOfSimulatedDevice`].
    pub fn new(asymmetry: Option<AsymmetrySpec>, device: Option<&str>) -> Result<Self, RequestError> {
        let Some(name) = device else {
            return Ok(asymmetry.map_or_else(Self::default, PricingRequest::Asymmetry));
        };
        match &asymmetry {
            Some(_) if is_simulated(name) => Err(RequestError::AsymmetryOfSimulatedDevice),
            Some(spec) if spec.constant().is_some() => Err(RequestError::AsymmetryOfDevice),
            _ => Ok(PricingRequest::Device { name: name.into(), changing: asymmetry }),
        }
    }
}

impl Lab<'_> {
    /// The prices of a request, for a trace with this metadata. A trace for a simulated device is read once: the device must
    /// have the page with the highest number.
    pub(crate) fn pricing(&self, request: &PricingRequest, source: &Source, metadata: &Metadata) -> Result<Pricing, LabError> {
        let pricing = Pricing::new(request, metadata)?;
        if let PricingRequest::Device { name, .. } = request
            && is_simulated(name)
        {
            let mut highest = 0;
            let mut reader = source.open()?;
            self.for_each_batch(&mut reader, source.label(), |batch| {
                highest = batch.pages.iter().copied().fold(highest, u64::max);
                Ok::<(), LabError>(())
            })?;
            FlashDevice::check_numbers(&name.parse()?, metadata.page_size, highest)?;
        }
        Ok(pricing)
    }
}

fn is_simulated(device: &str) -> bool {
    device.trim().starts_with("flash:")
}

/// The prices of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pricing {
    /// The information that policies can get.
    pub capabilities: DeviceFeatures,
    /// The name of a device that has a profile or is simulated.
    pub device_name: Option<String>,
    /// How R changes, as the request spells it, if it changes independently of a device.
    pub changing: Option<String>,
    /// The initial R.
    pub asymmetry: Asymmetry,
    /// The device that serves the run; `None` if a read always costs 1 and a write R.
    pub device: Option<DeviceAtStart>,
    /// What a host may write to a device with a profile in the device's life; `None` where the profile
    /// does not say, and for a simulated device, which counts its own wear.
    pub endurance: Option<Endurance>,
    /// The bytes that a device with a profile takes for each page written: whole pages of the device.
    pub written_bytes: Option<u64>,
    /// What the device costs, if its profile says it.
    pub tariff: Option<Tariff>,
    /// Notes on the device for the caller's user.
    pub notes: Vec<String>,
}

/// The quantity and the unit in which bills are printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BillUnit {
    /// A bill, a time or a price.
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The number of references that the bill is for: one or a million.
    pub per: &'static str,
    /// The bill of one page read per reference in this unit.
    pub factor: f64,
}

impl BillUnit {
    /// The unit for asymmetries: page reads.
    pub const PAGE_READS: Self = BillUnit { name: "bill", unit: "page reads", per: "per reference", factor: 1.0 };
}

impl Pricing {
    /// The prices of a constant asymmetry.
    pub fn constant(asymmetry: Asymmetry) -> Self {
        Pricing {
            capabilities: DeviceFeatures::default(),
            device_name: None,
            changing: None,
            asymmetry,
            device: None,
            endurance: None,
            written_bytes: None,
            tariff: None,
            notes: Vec::new(),
        }
    }

    /// The prices of a request, for a trace with this metadata.
    ///
    /// # Errors
    ///
    /// If there is no such device, it cannot hold the trace's pages, or a file of changes cannot be read.
    pub fn new(request: &PricingRequest, trace: &Metadata) -> Result<Self, LabError> {
        let (profile, changing) = match request {
            PricingRequest::Device { name, .. } if is_simulated(name) => {
                return Self::simulated(&name.parse()?, trace);
            }
            PricingRequest::Device { name, changing } => (Some(DeviceProfile::find(name)?), changing.as_ref()),
            PricingRequest::Asymmetry(spec) => match spec.constant() {
                Some(asymmetry) => return Ok(Self::constant(asymmetry)),
                None => (None, Some(spec)),
            },
        };
        let paged = profile.as_ref().map(|profile| profile.for_pages(trace.page_size));
        let device: AnyDevice = match (&paged, changing) {
            (Some(paged), Some(spec)) => {
                let changing = spec.load(paged.policy_asymmetry())?;
                ChangingDevice::with_read_cost_from(paged, changing).into()
            }
            (Some(paged), None) => paged.device().into(),
            (None, spec) => {
                let changing = spec.map(|spec| spec.load(PAPERS_BASE)).transpose()?;
                ChangingDevice::new(changing.unwrap_or(PAPERS_BASE.into())).into()
            }
        };
        let device = DeviceAtStart::from(device);
        Ok(Pricing {
            capabilities: DeviceFeatures {
                device: profile.as_ref().map(|profile| profile.name.clone()),
                counts_erases: false,
                is_pool: false,
                block_pages: paged.as_ref().and_then(PagedProfile::erase_block_pages),
            },
            device_name: profile.as_ref().map(|profile| profile.name.clone()),
            changing: changing.map(AsymmetrySpec::to_string),
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
            endurance: profile.as_ref().and_then(DeviceProfile::endurance),
            written_bytes: paged.as_ref().and_then(PagedProfile::written_bytes),
            tariff: paged.as_ref().and_then(|paged| Tariff::new(paged, trace.page_size)),
            notes: paged.as_ref().and_then(PagedProfile::charging_note).into_iter().collect(),
        })
    }

    fn simulated(config: &FlashConfig, trace: &Metadata) -> Result<Self, LabError> {
        let device = DeviceAtStart::flash(config.clone(), trace.page_size, trace.database_pages)?;
        Ok(Pricing {
            capabilities: DeviceFeatures {
                device: Some(config.to_string()),
                counts_erases: true,
                is_pool: false,
                block_pages: FlashDevice::pages_per_block(config, trace.page_size),
            },
            device_name: Some(config.to_string()),
            changing: None,
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
            endurance: None,
            written_bytes: None,
            tariff: None,
            notes: config.notes(),
        })
    }

    /// A label that identifies the pricing in a list: how R changes, or R itself.
    pub fn label(&self) -> String {
        match &self.changing {
            Some(changing) => changing.clone(),
            None => rounded(self.asymmetry.ratio()),
        }
    }

    /// Converts a cost from the device's unit into page reads at their initial cost.
    pub fn in_page_reads(&self, cost: f64) -> f64 {
        let at_start = self.device.as_ref().map(DeviceAtStart::costs);
        cost / at_start.map_or(1.0, |costs| costs.read)
    }

    /// The unit of the bills: the device's unit, if there is a device.
    pub fn bill_unit(&self) -> BillUnit {
        let costs = self.device.as_ref().map(DeviceAtStart::costs);
        match costs.map(|costs| (costs.unit, costs.read)) {
            Some((Unit::Microseconds, read)) => BillUnit { name: "time", unit: "µs", per: "per reference", factor: read },
            Some((Unit::Dollars, read)) => {
                BillUnit { name: "price", unit: "$", per: "per million references", factor: 1e6 * read }
            }
            Some((Unit::PageReads, _)) | None => BillUnit::PAGE_READS,
        }
    }
}

fn ratio(costs: &OperationCosts) -> Result<Asymmetry, LabError> {
    Ok(Asymmetry::new(costs.ratio()).map_err(RequestError::from)?)
}
