//! What a device did with a trace.

use ebbpool_device::flash::Report;
use serde::Serialize;

/// What the device counted, and what follows from a rate of writing.
#[derive(Serialize)]
pub(crate) struct Replayed {
    #[serde(flatten)]
    pub(crate) report: Report,
    /// Energy for each reference, where the chip's power is known.
    pub(crate) joules_per_reference: Option<f64>,
    /// Days until the device is worn out, if a rate was given.
    pub(crate) lifetime_days: Option<f64>,
    /// Why the device failed before the trace ended.
    pub(crate) failed: Option<String>,
}
