//! Errors of the lab.

mod advise;
#[cfg(all(feature = "replay", unix))]
mod replay;

use std::io;

use ebbpool_cost::AsymmetryError;
use ebbpool_device::changing::{AsymmetrySpec, ChangesError};
use ebbpool_device::flash::ConfigError;
use ebbpool_device::{DeviceFailed, ProfileError};
use ebbpool_policy::SpecError;
use ebbpool_sim::SimError;
use ebbpool_trace::TraceError;

pub use advise::AdviseError;
#[cfg(all(feature = "replay", unix))]
pub(crate) use replay::LEAST_PAGE_SIZE;
#[cfg(all(feature = "replay", unix))]
pub use replay::ReplayError;

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid; a corrected one may succeed.
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
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A simulation ended early.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no such device, or its profile is invalid.
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
    #[cfg(all(feature = "replay", unix))]
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
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LabError::Sim(SimError::Interrupted) => ErrorKind::Interrupted,
            #[cfg(all(feature = "replay", unix))]
            LabError::Replay(ReplayError::Interrupted { .. } | ReplayError::NotMade(_)) => ErrorKind::Interrupted,
            LabError::Request(_)
            | LabError::Flash(_)
            | LabError::Sim(
                SimError::Flash(_)
                | SimError::AllWarmup { .. }
                | SimError::NoPageSize { .. }
                | SimError::NoTimes { .. }
                | SimError::CleanPoolsWithCheckpoints
                | SimError::NoProbabilities { .. },
            ) => ErrorKind::Request,
            #[cfg(all(feature = "replay", unix))]
            LabError::Replay(error) if error.is_request() => ErrorKind::Request,
            LabError::Device(error) if error.is_usage() => ErrorKind::Request,
            LabError::Trace(error) | LabError::Sim(SimError::Trace(error)) if error.is_usage() => ErrorKind::Request,
            _ => ErrorKind::Failure,
        }
    }

    /// True if the caller stopped the work.
    pub fn is_interrupted(&self) -> bool {
        self.kind() == ErrorKind::Interrupted
    }
}

/// Why a request is invalid. Front ends add the argument that corrects it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No policy is named.
    #[error("no policy is named")]
    NoPolicy,
    /// No memory size is named.
    #[error("no memory size is named")]
    NoSize,
    /// No price is named.
    #[error("no asymmetry is named")]
    NoPrice,
    /// An unknown policy or parameter.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// Two policies of which one is from outside the registry have the same name.
    #[error("two policies are called '{0}'; results need a name for each")]
    TwoPolicies(String),
    /// A policy from outside the registry without a name, or with one that a table cannot show.
    #[error("{0:?} is no name of a policy; give a line of text without control characters")]
    PolicyName(String),
    /// A policy from outside the registry with the name of one that is in it.
    #[error("'{0}' is the name of a built-in policy, with which results would be mixed up; give yours another one")]
    RegisteredName(String),
    /// A number that is not an asymmetry.
    #[error(transparent)]
    Asymmetry(#[from] AsymmetryError),
    /// The policy needs the erase counts of blocks.
    #[error("policy {policy} needs the erase counts of blocks, which {device} does not have")]
    NoEraseCounts {
        /// The policy.
        policy: String,
        /// The device, or the model in its place.
        device: String,
    },
    /// The policy needs the size of the device's erase block.
    #[error(
        "policy {policy}: cluster=auto is the device's erase block, and {device} has none; give a number of pages, such as cluster=64"
    )]
    NoEraseBlock {
        /// The policy.
        policy: String,
        /// The device, or the model in its place.
        device: String,
    },
    /// A rate of references and no device.
    #[error("references arrive at a rate only where a device serves them")]
    RateWithoutDevice,
    /// The request asks for a bound on a device.
    #[error("a bound needs a constant cost of a write, which a device does not have")]
    BoundOnDevice,
    /// The request asks for a bound with an R that changes.
    #[error("a bound needs a constant R, and that of {0} changes; remove it from the list")]
    BoundOfChanges(AsymmetrySpec),
    /// The request has a device and a constant asymmetry.
    #[error("the device has its own asymmetry, which another constant one cannot replace")]
    AsymmetryOfDevice,
    /// The request has a simulated device and an asymmetry.
    #[error("the asymmetry of a simulated device follows from its model, so a request cannot give one")]
    AsymmetryOfSimulatedDevice,
    /// Checkpoints at an interval of time, and a trace without times.
    #[error(
        "{0}: the trace has no times, or a single one, so that checkpoints at an interval of time have no place in it; give the interval in references, such as 20000,"
    )]
    CheckpointsWithoutTimes(String),
    /// An invalid request for advice.
    #[error(transparent)]
    Advise(#[from] AdviseError),
    /// An invalid share to sample.
    #[error("{0} is not a share of the pages to sample; give one above 0 and up to 1")]
    Sample(f64),
}
