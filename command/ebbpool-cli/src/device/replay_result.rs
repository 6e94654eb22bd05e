//! The result of a trace on a simulated device.

use ebbpool_device::flash::FlashReport;
use schemars::JsonSchema;
use serde::Serialize;

/// The device's counts, and the figures that follow from a rate of writes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeviceReplayResult {
    #[serde(flatten)]
    pub(crate) report: FlashReport,
    /// Energy per reference, if the chip's power is known.
    pub(crate) joules_per_reference: Option<f64>,
    /// Days until the device is worn out, if the user gives a rate.
    pub(crate) lifetime_days: Option<f64>,
    /// Why the device failed before the trace ended.
    pub(crate) failed: Option<String>,
}
