//! What reads and writes are charged to: a plain asymmetry, one that changes, or a device.

use ebbpool_device::changing::{AsymmetrySpec, PAPERS_BASE};
use ebbpool_device::flash::FlashConfig;
use ebbpool_device::{
    AnyDevice, Asymmetry, ChangingDevice, Device, DeviceProfile, FlashDevice, OperationCosts,
};
use ebbpool_trace::Metadata;

use crate::{Failure, run};

/// Whom a run pays.
pub(crate) struct Charge {
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
