//! Why the lab has no answer.

use std::io;

use ebbpool_cost::NotAnAsymmetry;
use ebbpool_device::changing::{AsymmetrySpec, ChangesError};
use ebbpool_device::flash::ConfigError;
use ebbpool_device::{DeviceFailed, ProfileError};
use ebbpool_policy::SpecError;
use ebbpool_sim::SimError;
use ebbpool_trace::TraceError;

#[cfg(unix)]
use crate::replay::ReplayError;

/// What sort of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request makes no sense; another one may.
    Request,
    /// The caller stopped the work.
    Interrupted,
    /// A file, a device or the system failed.
    Failure,
}

/// Why the lab has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A simulation ended early.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no such device, or its profile makes no sense.
    #[error(transparent)]
    Device(#[from] ProfileError),
    /// A file of changes cannot be used.
    #[error(transparent)]
    Changes(#[from] ChangesError),
    /// There is no such simulated device.
    #[error(transparent)]
    Flash(#[from] ConfigError),
    /// The device failed during the run.
    #[error(transparent)]
    DeviceFailed(#[from] DeviceFailed),
    /// A replay ended early.
    #[cfg(unix)]
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A report or another output cannot be written.
    #[error("cannot write {what}: {source}")]
    Output {
        /// Which output.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl LabError {
    /// What sort of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LabError::Sim(SimError::Interrupted) => ErrorKind::Interrupted,
            #[cfg(unix)]
            LabError::Replay(ReplayError::Interrupted { .. } | ReplayError::NotMade(_)) => {
                ErrorKind::Interrupted
            }
            LabError::Request(_)
            | LabError::Flash(_)
            | LabError::Sim(SimError::Flash(_) | SimError::AllWarmup { .. }) => ErrorKind::Request,
            #[cfg(unix)]
            LabError::Replay(error) if error.is_request() => ErrorKind::Request,
            LabError::Device(error) if error.is_usage() => ErrorKind::Request,
            LabError::Trace(error) | LabError::Sim(SimError::Trace(error)) if error.is_usage() => {
                ErrorKind::Request
            }
            _ => ErrorKind::Failure,
        }
    }

    /// True if the caller stopped the work.
    pub fn is_interrupted(&self) -> bool {
        self.kind() == ErrorKind::Interrupted
    }
}

/// Why a request makes no sense. Front ends say by which argument of theirs it is mended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No policy is named.
    #[error("no policy is named")]
    NoPolicy,
    /// A policy that there is not, or with a parameter that there is not.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// A number that is no asymmetry.
    #[error(transparent)]
    Asymmetry(#[from] NotAnAsymmetry),
    /// The policy asks how often erase blocks were erased.
    #[error(
        "policy {policy} asks how often erase blocks were erased, which {device} does not count"
    )]
    NoEraseCounts {
        /// The policy.
        policy: String,
        /// The device, or what is there in its place.
        device: String,
    },
    /// The policy asks for the device's erase block.
    #[error(
        "policy {policy}: cluster=auto is the device's erase block, and {device} has none; give a number of pages, such as cluster=64"
    )]
    NoEraseBlock {
        /// The policy.
        policy: String,
        /// The device, or what is there in its place.
        device: String,
    },
    /// A bound is asked for on a device.
    #[error("a bound needs a write that costs the same throughout, which one on a device does not")]
    BoundOnDevice,
    /// A bound is asked for under an R that changes.
    #[error(
        "a bound needs an R that stays the same, and that of {0} changes; leave it out of the list"
    )]
    BoundOfChanges(AsymmetrySpec),
    /// A device and a constant asymmetry are asked for.
    #[error(
        "the device has an asymmetry of its own, and another constant one cannot take its place"
    )]
    AsymmetryOfDevice,
    /// A simulated device and an asymmetry are asked for.
    #[error("the asymmetry of a simulated device is what it takes, and none can be given")]
    AsymmetryOfSimulatedDevice,
    /// A share to sample that there is not.
    #[error("{0} is no share of the pages to sample; it is above 0 and at most 1")]
    Sample(f64),
}
