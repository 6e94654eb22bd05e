//! What reads and writes are charged to: a plain asymmetry, one that changes, or a device.

use ebbpool_cost::{Asymmetry, OperationCosts, PAPERS_BASE, Unit};
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_device::flash::FlashConfig;
use ebbpool_device::{AnyDevice, ChangingDevice, DeviceProfile, FlashDevice};
use ebbpool_policy::{Entry, PolicySpec};
use ebbpool_sim::DeviceAtStart;
use ebbpool_trace::Metadata;
use serde::Serialize;

use crate::{Failure, args, run};

/// What a device tells policies that ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abilities {
    /// The device's name; nothing where there is only an asymmetry.
    device: Option<String>,
    counts_erases: bool,
    /// Pages of the trace in an erase block.
    block_pages: Option<u64>,
}

impl Abilities {
    /// True if the device tells what the policy must be told.
    pub(crate) fn supports(&self, entry: &Entry) -> bool {
        self.counts_erases || !entry.asks_erase_counts
    }

    /// Reads a policy, and refuses what the device cannot do.
    pub(crate) fn policy(&self, text: &str) -> Result<PolicySpec, Failure> {
        let spec = args::parse(text)?;
        let device = match &self.device {
            Some(name) => format!("device {name}"),
            None => "the plain asymmetry model".into(),
        };
        if spec.asks_erase_counts() && !self.counts_erases {
            return Err(Failure::Usage(format!(
                "policy {spec} asks how often erase blocks were erased, which {device} does not count; name a simulated device, such as --device flash:slc-mt29f4g08aaa"
            )));
        }
        match self.block_pages {
            Some(pages) => Ok(spec.on_erase_blocks(pages)),
            None if spec.asks_erase_block() => Err(Failure::Usage(format!(
                "policy {spec}: cluster=auto is the device's erase block, and {device} has none; give a number of pages, such as cluster=64"
            ))),
            None => Ok(spec),
        }
    }
}

/// Whom a run pays.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    /// What policies may ask for.
    pub(crate) abilities: Abilities,
    /// The device's name, of one that has a profile.
    pub(crate) name: Option<String>,
    /// How R changes, as it was spelled, where it does so by itself.
    pub(crate) changing: Option<String>,
    /// R at the beginning.
    pub(crate) asymmetry: Asymmetry,
    /// What serves the run; nothing where a read costs 1 and a write R throughout.
    pub(crate) device: Option<DeviceAtStart>,
}

/// What bills are told in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Measure {
    /// A bill, a time or a price.
    pub(crate) name: &'static str,
    /// In this.
    pub(crate) unit: &'static str,
    /// Of a reference, or of a million.
    pub(crate) per: &'static str,
    /// What one page read per reference comes to.
    pub(crate) factor: f64,
}

impl Measure {
    /// Of asymmetries, which have no unit.
    pub(crate) const PAGE_READS: Self = Measure {
        name: "bill",
        unit: "page reads",
        per: "per reference",
        factor: 1.0,
    };
}

impl Charge {
    /// As `--asymmetry` and `--device` say, for a trace of that kind; without either R is
    /// [`PAPERS_BASE`].
    pub(crate) fn new(
        asymmetry: Option<&AsymmetrySpec>,
        device: Option<&str>,
        trace: &Metadata,
    ) -> Result<Self, Failure> {
        if let Some(name) = device.filter(|name| name.trim().starts_with("flash:")) {
            return Self::flash(&name.parse()?, asymmetry, trace);
        }
        let profile = device.map(DeviceProfile::find).transpose()?;
        let constant = asymmetry.map_or(Some(PAPERS_BASE), AsymmetrySpec::constant);
        let device: AnyDevice = match (&profile, asymmetry, constant) {
            (None, _, Some(asymmetry)) => {
                return Ok(Charge {
                    abilities: Abilities::default(),
                    name: None,
                    changing: None,
                    asymmetry,
                    device: None,
                });
            }
            (Some(_), Some(_), Some(_)) => {
                return Err(Failure::Usage(
                    "--device has an asymmetry of its own; leave --asymmetry out, or let it change, as in --asymmetry rm1".into(),
                ));
            }
            (Some(profile), Some(changing), None) => {
                let changing = changing.load(profile.policy_asymmetry())?;
                ChangingDevice::with_reads_of(profile, changing).into()
            }
            (Some(profile), _, _) => profile.device().into(),
            (None, changing, None) => {
                let changing = changing.map(|spec| spec.load(PAPERS_BASE)).transpose()?;
                ChangingDevice::new(changing.unwrap_or(PAPERS_BASE.into())).into()
            }
        };
        let device = DeviceAtStart::from(device);
        Ok(Charge {
            abilities: Abilities {
                device: profile.as_ref().map(|profile| profile.name.clone()),
                counts_erases: false,
                block_pages: profile.as_ref().and_then(DeviceProfile::erase_block_pages),
            },
            name: profile.map(|profile| profile.name),
            changing: asymmetry.map(AsymmetrySpec::to_string),
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
        })
    }

    /// What tells it from the others of a list.
    pub(crate) fn label(&self) -> String {
        match &self.changing {
            Some(changing) => changing.clone(),
            None => rounded(self.asymmetry.ratio()),
        }
    }

    /// A cost in the device's unit, in page reads as they cost at first.
    pub(crate) fn in_page_reads(&self, cost: f64) -> f64 {
        let at_start = self.device.as_ref().map(DeviceAtStart::costs);
        cost / at_start.map_or(1.0, |costs| costs.read)
    }

    /// What its bills are told in: the device's unit, where there is a device.
    pub(crate) fn measure(&self) -> Measure {
        let costs = self.device.as_ref().map(DeviceAtStart::costs);
        match costs.map(|costs| (costs.unit, costs.read)) {
            Some((Unit::Microseconds, read)) => Measure {
                name: "time",
                unit: "µs",
                per: "per reference",
                factor: read,
            },
            Some((Unit::Dollars, read)) => Measure {
                name: "price",
                unit: "$",
                per: "per million references",
                factor: 1e6 * read,
            },
            Some((Unit::PageReads, _)) | None => Measure::PAGE_READS,
        }
    }

    fn flash(
        config: &FlashConfig,
        asymmetry: Option<&AsymmetrySpec>,
        trace: &Metadata,
    ) -> Result<Self, Failure> {
        if asymmetry.is_some() {
            return Err(Failure::Usage(
                "the asymmetry of a simulated device is what it takes; leave --asymmetry out"
                    .into(),
            ));
        }
        run::report_notes(&config.notes());
        let device = DeviceAtStart::flash(config.clone(), trace.page_size, trace.database_pages)?;
        Ok(Charge {
            abilities: Abilities {
                device: Some(config.to_string()),
                counts_erases: true,
                block_pages: FlashDevice::pages_per_block(config, trace.page_size),
            },
            name: Some(config.to_string()),
            changing: None,
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
        })
    }
}

/// An asymmetry as it was given, or to three decimals where it follows from a device's figures.
pub(crate) fn rounded(asymmetry: f64) -> String {
    ((asymmetry * 1e3).round() / 1e3).to_string()
}

fn ratio(costs: &OperationCosts) -> Result<Asymmetry, Failure> {
    let ratio = costs.ratio().to_string();
    ratio
        .parse()
        .map_err(|error| Failure::Usage(format!("{error}")))
}
