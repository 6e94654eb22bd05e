//! Errors of experiments.

use std::io;

use ebbpool_device::changing::ChangesError;
use ebbpool_device::flash::ConfigError;
use ebbpool_device::{DeviceFailed, ProfileError};
use ebbpool_lab::replay::ReplayError;
use ebbpool_lab::{ErrorKind, LabError, RequestError};
use ebbpool_policy::SpecError;
use ebbpool_sim::SimError;
use ebbpool_trace::TraceError;

use crate::format::FormatError;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The file is not a valid experiment.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The file cannot be read.
    #[error("{file}: cannot read: {error}")]
    Read {
        /// The file.
        file: String,
        /// Why not.
        error: io::Error,
    },
    /// No experiment has that name.
    #[error("'{id}' is not an experiment{hint}; give your own file by its path, such as ./my.toml")]
    Unknown {
        /// The name.
        id: String,
        /// A similar name, or nothing.
        hint: String,
    },
    /// The request replaces devices by a file, and the experiment has no device.
    #[error("'{id}' has no device that a file could replace")]
    NoDevice {
        /// The experiment.
        id: String,
    },
    /// The request has a seed for draws, and the experiment draws nothing.
    #[error("'{id}' draws nothing, so it takes no seed")]
    NoDraw {
        /// The experiment.
        id: String,
    },
    /// A text in an experiment is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The lab has no answer.
    #[error(transparent)]
    Lab(LabError),
    /// A file of the report cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
}

impl ExperimentError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ExperimentError::Unknown { .. }
            | ExperimentError::NoDevice { .. }
            | ExperimentError::NoDraw { .. }
            | ExperimentError::Invalid(_) => ErrorKind::Request,
            ExperimentError::Lab(error) => error.kind(),
            _ => ErrorKind::Failure,
        }
    }
}

macro_rules! from_lab_errors {
    ($($error:ty),+) => {
        $(
            impl From<$error> for ExperimentError {
                fn from(error: $error) -> Self {
                    ExperimentError::Lab(error.into())
                }
            }
        )+
    };
}

from_lab_errors!(LabError, RequestError, SimError, TraceError, ProfileError, ChangesError, ConfigError, DeviceFailed);

from_lab_errors!(ReplayError);

impl From<SpecError> for ExperimentError {
    fn from(error: SpecError) -> Self {
        RequestError::from(error).into()
    }
}
