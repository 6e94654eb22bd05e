//! Records in order of their keys.

use crate::error::Error;

/// Records between two bounds, from either end. It reads a leaf at first, then more and more of them
/// at a time; between them others may change what comes.
pub struct Range<'d> {
    database: std::marker::PhantomData<&'d ()>,
}

impl Range<'_> {
    /// Says that so many records will be wanted, so that they are read in one go.
    #[must_use]
    pub fn expecting(self, records: usize) -> Self {
        todo!()
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
