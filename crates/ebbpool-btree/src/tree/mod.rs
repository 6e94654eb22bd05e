//! The B+-tree: descending, splitting, merging. It knows pages, latches and log records, and
//! nothing of transactions but that somebody ([`Author`]) logs what is done.
//!
//! Latches are taken from the root down, from left to right, then overflow pages, then allocation
//! maps; nobody waits for a key's lock while holding one.

mod bulk;
mod descend;
mod merge;
mod modify;
mod overflow;
mod restructure;
mod scan;
mod split;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ebbpool::{Lsn, Pool};

use crate::allocation::Allocation;
use crate::change::Change;
use crate::error::Error;
use crate::log::{Undo, Wal};
use crate::page::cell::Value;

pub(crate) use overflow::Long;

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

impl From<Value<'_>> for Old {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Inline(_) => Old::Inline,
            Value::Overflow { first, .. } => Old::Overflow { first },
        }
    }
}

/// What a tree is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

/// The tree whose root is page 2.
pub(crate) struct Tree {
    pub(crate) pool: Pool,
    pub(crate) wal: Arc<Wal>,
    pub(crate) allocation: Allocation,
}
