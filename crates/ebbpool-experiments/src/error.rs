//! Why an experiment has no result.

use std::io;

use ebbpool_device::changing::ChangesError;
use ebbpool_device::flash::ConfigError;
use ebbpool_device::{DeviceFailed, ProfileError};
#[cfg(unix)]
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
    /// The file is no experiment.
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
    #[error(
        "'{id}' is no experiment, and a file of your own is named by its path, such as ./my.toml"
    )]
    Unknown {
        /// The name.
        id: String,
    },
    /// A file was to take the place of devices, and there is none.
    #[error("'{id}' has no device in whose place a file could be")]
    NoDevice {
        /// The experiment.
        id: String,
    },
    /// A text in an experiment makes no sense.
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
    /// What sort of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ExperimentError::Unknown { .. }
            | ExperimentError::NoDevice { .. }
            | ExperimentError::Invalid(_) => ErrorKind::Request,
            ExperimentError::Lab(error) => error.kind(),
            _ => ErrorKind::Failure,
        }
    }
}

macro_rules! of_the_lab {
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

of_the_lab!(
    LabError,
    RequestError,
    SimError,
    TraceError,
    ProfileError,
    ChangesError,
    ConfigError,
    DeviceFailed
);

#[cfg(unix)]
of_the_lab!(ReplayError);

impl From<SpecError> for ExperimentError {
    fn from(error: SpecError) -> Self {
        RequestError::from(error).into()
    }
}
