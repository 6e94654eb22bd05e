//! Nodes: slotted pages.
//!
//! | payload bytes | |
//! | --- | --- |
//! | 0 | kind |
//! | 1 | level, 0 for leaves |
//! | 2..4 | cells |
//! | 4..6 | where the heap of cells begins, which ends with the payload |
//! | 6..8 | bytes in the heap that belong to no cell any more |
//! | 8..16 | the leaf to the right, 0 for none |
//! | 16.. | a u16 for each cell, in order of the keys: where it begins |

use super::cell::Value;
use crate::error::Error;

pub(crate) const NODE_HEADER: usize = 16;

/// What a cell takes beside its bytes.
pub(crate) const SLOT: usize = 2;

/// A node to be read. Whatever its bytes are, nothing panics.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    page: u64,
    payload: &'a [u8],
}

impl<'a> Node<'a> {
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it is no node, or its header cannot be.
    pub(crate) fn open(page: u64, payload: &'a [u8]) -> Result<Self, Error> {
        todo!()
    }

    pub(crate) fn level(&self) -> u8 {
        todo!()
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    pub(crate) fn count(&self) -> usize {
        todo!()
    }

    /// The leaf to the right.
    pub(crate) fn next(&self) -> Option<u64> {
        todo!()
    }

    /// The key at a slot.
    pub(crate) fn key(&self, slot: usize) -> Result<&'a [u8], Error> {
        todo!()
    }

    /// A leaf's value at a slot.
    pub(crate) fn value(&self, slot: usize) -> Result<Value<'a>, Error> {
        todo!()
    }

    /// An inner node's child at a slot.
    pub(crate) fn child(&self, slot: usize) -> Result<u64, Error> {
        todo!()
    }

    /// The bytes of the cell at a slot.
    pub(crate) fn cell(&self, slot: usize) -> Result<&'a [u8], Error> {
        todo!()
    }

    /// The cells of these slots as [`Content`](crate::change::Content) and
    /// [`Change::Append`](crate::change::Change) have them.
    pub(crate) fn cells(&self, slots: std::ops::Range<usize>) -> Result<Vec<u8>, Error> {
        todo!()
    }

    /// Where a key is (`Ok`), or would be (`Err`), among the keys.
    pub(crate) fn search(&self, key: &[u8]) -> Result<Result<usize, usize>, Error> {
        todo!()
    }

    /// The slot of the child that has a key.
    pub(crate) fn slot_for(&self, key: &[u8]) -> Result<usize, Error> {
        todo!()
    }

    /// Bytes that more cells may take, slots included, once the heap is put in order.
    pub(crate) fn free(&self) -> usize {
        todo!()
    }

    /// Bytes that cells and slots take.
    pub(crate) fn used(&self) -> usize {
        todo!()
    }

    /// Bytes that cells and slots may take in all.
    pub(crate) fn capacity(payload: usize) -> usize {
        payload - NODE_HEADER
    }

    /// Looks at everything: that cells lie within the heap and not across each other, that keys
    /// ascend, that the sums are right.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        todo!()
    }
}
