//! What reads and writes are charged to: a plain asymmetry, one that changes, or a device.

use ebbpool_device::changing::{AsymmetrySpec, PAPERS_BASE};
use ebbpool_device::flash::FlashConfig;
use ebbpool_device::{
    AnyDevice, Asymmetry, ChangingDevice, Device, DeviceProfile, FlashDevice, OperationCosts,
};
use ebbpool_policy::{Entry, PolicySpec};
use ebbpool_trace::Metadata;

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
        if !self.supports(spec.entry()) {
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
pub(crate) struct Charge {
    /// What policies may ask for.
    pub(crate) abilities: Abilities,
    /// The device's name, of one that has a profile.
    pub(crate) name: Option<String>,
    /// R at the beginning.
    pub(crate) asymmetry: Asymmetry,
    /// What serves the run; nothing where a read costs 1 and a write R throughout.
    pub(crate) device: Option<AnyDevice>,
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
        Ok(Charge {
            abilities: Abilities {
                device: profile.as_ref().map(|profile| profile.name.clone()),
                counts_erases: false,
                block_pages: profile.as_ref().and_then(DeviceProfile::erase_block_pages),
            },
            name: profile.map(|profile| profile.name),
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
        })
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
        let device: AnyDevice =
            FlashDevice::new(config, trace.page_size, trace.database_pages)?.into();
        Ok(Charge {
            abilities: Abilities {
                device: Some(config.to_string()),
                counts_erases: true,
                block_pages: FlashDevice::pages_per_block(config, trace.page_size),
            },
            name: Some(config.to_string()),
            asymmetry: ratio(&device.costs())?,
            device: Some(device),
        })
    }
}

fn ratio(costs: &OperationCosts) -> Result<Asymmetry, Failure> {
    let ratio = costs.ratio().to_string();
    ratio
        .parse()
        .map_err(|error| Failure::Usage(format!("{error}")))
}
