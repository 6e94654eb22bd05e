//! Allocation maps: a bit for each page, set if it is in use.
//!
//! Map `i` covers the pages from `i * span` on, and is page `i * span + 1`. Payload: kind, 15 bytes of
//! nothing, then the bits, the lowest of a byte first.

use crate::error::Error;

/// Where maps are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maps {
    /// Pages that a map covers.
    pub(crate) span: u64,
}

impl Maps {
    pub(crate) fn new(payload: usize) -> Self {
        todo!()
    }

    /// The map in which a page's bit is.
    pub(crate) fn of(&self, page: u64) -> u64 {
        todo!()
    }

    pub(crate) fn is_map(&self, page: u64) -> bool {
        todo!()
    }

    /// Whether a page is in use, by the payload of its map.
    pub(crate) fn is_used(&self, map: u64, payload: &[u8], page: u64) -> Result<bool, Error> {
        todo!()
    }

    /// The pages that a map has as in use, ascending.
    pub(crate) fn used(&self, map: u64, payload: &[u8]) -> Result<Vec<u64>, Error> {
        todo!()
    }
}
