//! Violations: what a user of a disk must not do.

use std::sync::{Arc, Weak};

use crate::log::{Log, Lsn};

/// An operation on a [`FaultyDisk`](super::FaultyDisk) that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A page was written before its log was durable.
    #[error("page {page} of {file} was written as of LSN {lsn}, and the log is durable up to {durable}")]
    WriteAhead {
        /// The file.
        file: String,
        /// The page.
        page: u64,
        /// Its LSN.
        lsn: Lsn,
        /// What the log was durable up to.
        durable: Lsn,
    },
    /// A page was read or written while it was being written, or written while it was being read.
    #[error("page {page} of {file} was requested while it was being read or written")]
    Overlap {
        /// The file.
        file: String,
        /// The page.
        page: u64,
    },
    /// The buffer of a page changed while it was being written. The disk checks this only while it is
    /// [observed](super::FaultyDisk::observe).
    #[error("page {page} of {file} was changed while it was being written")]
    Changed {
        /// The file.
        file: String,
        /// The page.
        page: u64,
    },
}

/// The log that must be durable before its pages are written.
pub(super) struct LogWatch {
    log: Weak<dyn Log>,
    lsn_of: fn(&[u8]) -> Option<Lsn>,
}

impl LogWatch {
    pub(super) fn new(log: &Arc<dyn Log>, lsn_of: fn(&[u8]) -> Option<Lsn>) -> Self {
        LogWatch { log: Arc::downgrade(log), lsn_of }
    }

    /// The LSN of a page that is about to be written, and the durable LSN of the log, if that is smaller.
    pub(super) fn overtaken(&self, bytes: &[u8]) -> Option<(Lsn, Lsn)> {
        let lsn = (self.lsn_of)(bytes)?;
        let durable = self.log.upgrade()?.durable_lsn();
        (lsn > durable).then_some((lsn, durable))
    }
}
