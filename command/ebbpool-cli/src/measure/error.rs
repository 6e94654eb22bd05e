//! Errors of `ebbpool device measure`.

use std::io;
use std::path::PathBuf;

use ebbpool::storage::OpenError;

use crate::failure::Failure;

/// Why the command could not measure a device.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{path}: cannot {what}: {source}")]
    Io { path: PathBuf, what: &'static str, source: io::Error },
}

impl MeasureError {
    /// True if the command line is wrong, and not the device.
    fn is_usage(&self) -> bool {
        matches!(self, MeasureError::Open(OpenError::PageSize(_) | OpenError::NotAFile(_)))
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        Failure::Command { usage: error.is_usage(), error: error.into() }
    }
}
