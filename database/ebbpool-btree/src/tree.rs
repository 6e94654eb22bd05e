//! The B+-tree: searches, scans, inserts, splits and merges. It works with pages, latches and log records.
//! It does not know transactions: a [`ChangeLogger`] logs its changes of records.
//!
//! A thread takes latches from the root down and from left to right, then those of overflow pages, then
//! those of allocation maps. It never waits for a key's lock while it holds a latch.

mod bulk;
mod descend;
mod merge;
mod modify;
mod overflow;
mod relocate;
mod restructure;
mod scan;
mod split;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ebbpool::{Lsn, Pool};

use crate::admission::Admission;
use crate::allocation::Allocation;
use crate::change::Change;
use crate::error::DatabaseError;
use crate::log::{Undo, Wal};
use crate::page::cell::Value;

pub(crate) use overflow::LongValue;

/// Logs the changes of records: for a transaction, or for a rollback.
pub(crate) trait ChangeLogger {
    /// Appends a record for these changes, and returns its LSN.
    fn log(&mut self, wal: &Wal, undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError>;
}

/// A value that was in a leaf until it was replaced or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OldValue {
    Inline,
    /// Its overflow pages are still in use.
    Overflow {
        first: u64,
    },
}

impl From<Value<'_>> for OldValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Inline(_) => OldValue::Inline,
            Value::Overflow { first, .. } => OldValue::Overflow { first },
        }
    }
}

/// The numbers of a tree's levels, nodes and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeShape {
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

/// The tree whose root is page 2.
pub(crate) struct Tree {
    pub(crate) pool: Pool,
    pub(crate) wal: Arc<Wal>,
    pub(crate) allocation: Allocation,
    /// Each operation enters before it fixes its first page.
    pub(crate) admission: Admission,
}
