//! The B+-tree: descending, splitting, merging. It knows pages, latches and log records, and nothing of
//! transactions but that somebody ([`Author`]) logs what is done.
//!
//! Latches are taken from the root down, from left to right, then overflow pages, then allocation maps; nobody
//! waits for a key's lock while holding one.

mod bulk;
mod descend;
mod merge;
mod modify;
mod overflow;
mod scan;
mod split;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ebbpool::{Lsn, Pool};

use crate::allocation::Allocation;
use crate::change::Change;
use crate::error::Error;
use crate::log::{Undo, Wal};
use crate::page::cell::Value;

/// Who logs a change, and as what: a transaction, or a rollback.
pub(crate) trait Author {
    /// Appends a record for these changes, and answers its LSN.
    fn log(
        &mut self,
        wal: &Wal,
        undo: Undo<'_>,
        changes: Vec<(u64, Change<'_>)>,
    ) -> Result<Lsn, Error>;
}

/// A value that was in a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    Inline,
    /// Its overflow pages are still in use.
    Overflow {
        first: u64,
    },
}

/// What a tree is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Levels, leaves included.
    pub height: u8,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Pages of long values.
    pub overflow_pages: u64,
    /// Keys.
    pub keys: u64,
}

pub(crate) struct Tree {
    pub(crate) pool: Pool,
    pub(crate) wal: Arc<Wal>,
    pub(crate) allocation: Allocation,
}

impl Tree {
    /// Calls `with` with the value of a key, under the leaf's latch.
    pub(crate) fn look_up<R>(
        &self,
        key: &[u8],
        with: impl FnOnce(Option<Value<'_>>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        todo!()
    }

    /// Gives a key a value, which was [stored](Self::store) before if it is long. Answers what it had.
    pub(crate) fn put(
        &self,
        key: &[u8],
        value: Value<'_>,
        by: &mut dyn Author,
    ) -> Result<Option<Old>, Error> {
        todo!()
    }

    /// Removes a key; nothing if it was not there (and nothing is logged).
    pub(crate) fn remove(&self, key: &[u8], by: &mut dyn Author) -> Result<Option<Old>, Error> {
        todo!()
    }

    /// Calls `update` with each key and value of one leaf, from `from` on in it, under its exclusive latch; what it
    /// answers replaces the value if it is `Some` (it has to be inline, and of the same length). Ends with the leaf, or
    /// when it breaks. Answers the smallest key that the next leaf may have, nothing if there is no next.
    pub(crate) fn update_leaf(
        &self,
        from: &[u8],
        update: &mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<(), Option<Vec<u8>>>, Error>,
        by: &mut dyn Author,
    ) -> Result<Option<Vec<u8>>, Error> {
        todo!()
    }

    /// Calls `each` with key after key, ascending, under the leaf's latch, from leaf to leaf, until it breaks. It must not call
    /// the tree, but for [`read_overflow`](Self::read_overflow).
    pub(crate) fn ascend(
        &self,
        from: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        todo!()
    }

    /// As [`ascend`](Self::ascend), descending.
    pub(crate) fn descend(
        &self,
        from: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Whether a value is too long for a leaf.
    pub(crate) fn overflows(&self, key: &[u8], value: &[u8]) -> bool {
        todo!()
    }

    /// Writes a long value to overflow pages, each with a record of its own that frees it when it is undone.
    pub(crate) fn store(&self, value: &[u8], by: &mut dyn Author) -> Result<Value<'static>, Error> {
        todo!()
    }

    /// A value whole.
    pub(crate) fn read_value(&self, value: Value<'_>) -> Result<Vec<u8>, Error> {
        todo!()
    }

    /// The pages of a long value, in order.
    pub(crate) fn overflow_pages(&self, first: u64) -> Result<Vec<u64>, Error> {
        todo!()
    }

    /// Loads an empty tree with ascending records. See [`bulk`].
    pub(crate) fn load(
        &self,
        records: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>,
        fill: f64,
        by: &mut dyn Author,
    ) -> Result<u64, Error> {
        todo!()
    }

    /// Makes the tree empty, as it was before it was loaded; the pages are freed by others.
    pub(crate) fn make_empty(&self, by: &mut dyn Author) -> Result<(), Error> {
        todo!()
    }
}
