//! Overflow pages: parts of a value that is too long for a leaf.
//!
//! Payload: kind, 3 bytes of nothing, the part's length (u32), the next page (u64, 0 for none), the part.

use crate::error::Error;

pub(crate) const OVERFLOW_HEADER: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) next: Option<u64>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is no overflow page.
    pub(crate) fn read(page: u64, payload: &'a [u8]) -> Result<Self, Error> {
        todo!()
    }

    /// The most bytes of a value in one page.
    pub(crate) fn most(payload: usize) -> usize {
        payload - OVERFLOW_HEADER
    }
}
