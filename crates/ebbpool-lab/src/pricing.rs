//! What reads and writes are charged to: a constant asymmetry, one that changes, or a device.

use ebbpool_cost::{Asymmetry, OperationCosts, PAPERS_BASE, Unit};
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_device::flash::FlashConfig;
use ebbpool_device::{AnyDevice, ChangingDevice, DeviceProfile, FlashDevice};
use ebbpool_policy::{Entry, PolicySpec};
use ebbpool_sim::DeviceAtStart;
use ebbpool_trace::Metadata;
use serde::Serialize;

use crate::error::{LabError, RequestError};
use crate::numbers::rounded;

/// What a device can tell policies that ask.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// The device's name; nothing where there is only an asymmetry.
    device: Option<String>,
    counts_erases: bool,
    /// Pages of the trace in an erase block.
    block_pages: Option<u64>,
}

impl Capabilities {
    /// True if the device knows all that the policy asks for.
    pub fn supports(&self, entry: &Entry) -> bool {
        self.counts_erases || !entry.asks_erase_counts
    }

    /// Reads a policy, and refuses what the device cannot do.
    ///
    /// # Errors
    ///
    /// [`RequestError::Policy`], [`RequestError::NoEraseCounts`], [`RequestError::NoEraseBlock`].
    pub fn policy(&self, text: &str) -> Result<PolicySpec, RequestError> {
        let spec: PolicySpec = text.parse()?;
        let device = || match &self.device {
            Some(name) => format!("device {name}"),
            None => "the plain asymmetry model".into(),
        };
        if spec.asks_erase_counts() && !self.counts_erases {
            return Err(RequestError::NoEraseCounts {
                policy: spec.to_string(),
                device: device(),
            });
        }
        match self.block_pages {
            Some(pages) => Ok(spec.on_erase_blocks(pages)),
            None if spec.asks_erase_block() => Err(RequestError::NoEraseBlock {
                policy: spec.to_string(),
                device: device(),
            }),
            None => Ok(spec),
        }
    }
}

/// Prices that a caller asks for: the request that [`Pricing`] is the answer to.
#[derive(Clone, Debug, PartialEq)]
pub enum PricingRequest {
    /// An asymmetry, constant or changing.
    Asymmetry(AsymmetrySpec),
    /// A device by name, by the path of a profile, or simulated (`flash:…`); R may change on one that has a
    /// profile.
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
    /// An asymmetry, a device, both where the asymmetry changes, or neither.
    ///
    /// # Errors
    ///
    /// [`RequestError::AsymmetryOfDevice`], [`RequestError::AsymmetryOfSimulatedDevice`].
    pub fn new(
        asymmetry: Option<AsymmetrySpec>,
        device: Option<&str>,
    ) -> Result<Self, RequestError> {
        let Some(name) = device else {
            return Ok(asymmetry.map_or_else(Self::default, PricingRequest::Asymmetry));
        };
        match &asymmetry {
            Some(_) if is_simulated(name) => Err(RequestError::AsymmetryOfSimulatedDevice),
            Some(spec) if spec.constant().is_some() => Err(RequestError::AsymmetryOfDevice),
            _ => Ok(PricingRequest::Device {
                name: name.into(),
                changing: asymmetry,
            }),
        }
    }
}

fn is_simulated(device: &str) -> bool {
    device.trim().starts_with("flash:")
}

/// What a run is charged to.
#[derive(Clone, Debug)]
pub struct Pricing {
    /// What policies may ask for.
    pub capabilities: Capabilities,
    /// The device's name, of one that has a profile or is simulated.
    pub device_name: Option<String>,
    /// How R changes, as it was spelled, where it does so by itself.
    pub changing: Option<String>,
    /// R at the beginning.
    pub asymmetry: Asymmetry,
    /// What serves the run; nothing where a read costs 1 and a write R throughout.
    pub device: Option<DeviceAtStart>,
    /// What the caller's user should know of the device.
    pub notes: Vec<String>,
}

/// The quantity and the unit in which bills are printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BillUnit {
    /// A bill, a time or a price.
    pub name: &'static str,
    /// In this.
    pub unit: &'static str,
    /// Of a reference, or of a million.
    pub per: &'static str,
    /// What one page read per reference comes to.
    pub factor: f64,
}

impl BillUnit {
    /// Of asymmetries, which have no unit.
    pub const PAGE_READS: Self = BillUnit {
        name: "bill",
        unit: "page reads",
        per: "per reference",
        factor: 1.0,
    };
}

impl Pricing {
    /// A constant asymmetry.
    pub fn constant(asymmetry: Asymmetry) -> Self {
        Pricing {
            capabilities: Capabilities::default(),
            device_name: None,
            changing: None,
            asymmetry,
            device: None,
            notes: Vec::new(),
        }
    }

    /// The prices asked for, for a trace of that kind.
    ///
    /// # Errors
    ///
    /// If there is no such device, it cannot hold the trace's pages, or a file of changes cannot be read.
    pub fn new(request: &PricingRequest, trace: &Metadata) -> Result<Self, LabError> {
        let (profile, changing) = match request {
            PricingRequest::Device { name, .. } if is_simulated(name) => {
                return Self::simulated(&name.parse()?, trace);
            }
            PricingRequest::Device { name, changing } => {
                (Some(DeviceProfile::find(name)?), changing.as_ref())
            }
            PricingRequest::Asymmetry(spec) => match spec.constant() {
                Some(asymmetry) => return Ok(Self::constant(asymmetry)),
                None => (None, Some(spec)),
            },
        };
        let device: AnyDevice = match (&profile, changing) {
            (Some(profile), Some(spec)) => {
                let changing = spec.load(profile.policy_asymmetry())?;
                ChangingDevice::with_reads_of(profile, changing).into()
            }
            (Some(profile), None) => profile.device().into(),
            (None, spec) => {
                let changing = spec.map(|spec| spec.load(PAPERS_BASE)).transpose()?;
                ChangingDevice::new(changing.unwrap_or(PAPERS_BASE.into())).into()
            }
        };
        let device = DeviceAtStart::from(device);
        Ok(Pricing {
            capabilities: Capabilities {
                device: profile.as_ref().map(|profile| profile.name.clone()),
                counts_erases: false,
                block_pages: profile.as_ref().and_then(DeviceProfile::erase_block_pages),
            },
            device_name: profile.map(|profile| profile.name),
            changing: changing.map(AsymmetrySpec::to_string),
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
            notes: Vec::new(),
        })
    }

    fn simulated(config: &FlashConfig, trace: &Metadata) -> Result<Self, LabError> {
        let device = DeviceAtStart::flash(config.clone(), trace.page_size, trace.database_pages)?;
        Ok(Pricing {
            capabilities: Capabilities {
                device: Some(config.to_string()),
                counts_erases: true,
                block_pages: FlashDevice::pages_per_block(config, trace.page_size),
            },
            device_name: Some(config.to_string()),
            changing: None,
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
            notes: config.notes(),
        })
    }

    /// What tells it from the others of a list: how R changes, or R.
    pub fn label(&self) -> String {
        match &self.changing {
            Some(changing) => changing.clone(),
            None => rounded(self.asymmetry.ratio()),
        }
    }

    /// A cost in the device's unit, in page reads as they cost at first.
    pub fn in_page_reads(&self, cost: f64) -> f64 {
        let at_start = self.device.as_ref().map(DeviceAtStart::costs);
        cost / at_start.map_or(1.0, |costs| costs.read)
    }

    /// The unit of its bills: the device's, where there is a device.
    pub fn bill_unit(&self) -> BillUnit {
        let costs = self.device.as_ref().map(DeviceAtStart::costs);
        match costs.map(|costs| (costs.unit, costs.read)) {
            Some((Unit::Microseconds, read)) => BillUnit {
                name: "time",
                unit: "µs",
                per: "per reference",
                factor: read,
            },
            Some((Unit::Dollars, read)) => BillUnit {
                name: "price",
                unit: "$",
                per: "per million references",
                factor: 1e6 * read,
            },
            Some((Unit::PageReads, _)) | None => BillUnit::PAGE_READS,
        }
    }
}

fn ratio(costs: &OperationCosts) -> Result<Asymmetry, LabError> {
    Ok(Asymmetry::new(costs.ratio()).map_err(RequestError::from)?)
}
