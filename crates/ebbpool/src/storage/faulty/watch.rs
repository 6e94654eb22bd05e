//! What a user of a disk must not do.

use std::sync::{Arc, Weak};

use crate::log::{Log, Lsn};

/// Something that was done to a [`FaultyDisk`](super::FaultyDisk) and must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A page was written before its log was durable.
    #[error(
        "page {page} of {file} was written as of LSN {lsn}, and the log is durable up to {durable}"
    )]
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
    #[error("page {page} of {file} was asked for while it was being read or written")]
    Overlap {
        /// The file.
        file: String,
        /// The page.
        page: u64,
    },
    /// The buffer of a page changed while it was being written. Looked for while the disk is
    /// [observed](super::FaultyDisk::observe).
    #[error("page {page} of {file} was changed while it was being written")]
    Changed {
        /// The file.
        file: String,
        /// The page.
        page: u64,
    },
}

/// The log that pages must not overtake.
pub(super) struct Watch {
    log: Weak<dyn Log>,
    lsn_of: fn(&[u8]) -> Option<Lsn>,
}

impl Watch {
    pub(super) fn new(log: &Arc<dyn Log>, lsn_of: fn(&[u8]) -> Option<Lsn>) -> Self {
        Watch {
            log: Arc::downgrade(log),
            lsn_of,
        }
    }

    /// The LSN of what is to be written, and how far the log is durable, if that is less.
    pub(super) fn overtaken(&self, bytes: &[u8]) -> Option<(Lsn, Lsn)> {
        let lsn = (self.lsn_of)(bytes)?;
        let durable = self.log.upgrade()?.durable_lsn();
        (lsn > durable).then_some((lsn, durable))
    }
}
