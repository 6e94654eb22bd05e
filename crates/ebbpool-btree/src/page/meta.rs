//! Page 0: what says that this is a database.
//!
//! Payload: kind, 7 bytes of nothing, the magic `EbbpTree`, format (u32), page size (u32), identity
//! (u64).

use crate::error::Error;

pub(crate) const MAGIC: &[u8; 8] = b"EbbpTree";

/// The format that this program writes.
pub(crate) const FORMAT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) format: u32,
    pub(crate) page_size: u32,
    /// The same number in pages and log, drawn when the database was made.
    pub(crate) identity: u64,
}

impl Meta {
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is no meta page. Any format is read.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Error> {
        todo!()
    }
}
