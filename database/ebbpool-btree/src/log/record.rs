//! Log records.
//!
//! A record is framed (see `frame.rs`): checksum of all after it (u64, xxh3 seeded with the identity of the
//! database), the position of the record in bytes since the log's creation (u64), the body's length (u32),
//! the body (postcard). Numbers are little-endian. An LSN is where a record ends; a [`Position`] is where
//! one begins.

use ebbpool::Lsn;
use serde::{Deserialize, Serialize};

use crate::change::Change;

/// Where a record begins.
pub(crate) type Position = u64;

/// A transaction's number, never 0.
pub(crate) type TxnId = u64;

/// How a change is undone. Undo is logical, since the record may be on another page by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Undo<'a> {
    /// The key was not there.
    Remove {
        #[serde(with = "serde_bytes")]
        key: &'a [u8],
    },
    /// The key was there, with this leaf cell.
    Restore {
        #[serde(with = "serde_bytes")]
        cell: &'a [u8],
    },
    /// These pages were free.
    Free { first: u64, count: u32 },
    /// The tree was empty.
    Empty,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Record<'a> {
    /// A change by a transaction. `changes` names the pages.
    Update {
        txn: TxnId,
        /// The transaction's record before this one.
        previous: Option<Position>,
        #[serde(borrow)]
        undo: Undo<'a>,
        changes: Vec<(u64, Change<'a>)>,
    },
    /// A change of the tree's structure, for any transaction or none. It is never undone.
    Structure { changes: Vec<(u64, Change<'a>)> },
    /// A change by a rollback. It is never undone. The rollback continues with `undo_next`.
    Compensation { txn: TxnId, undo_next: Option<Position>, changes: Vec<(u64, Change<'a>)> },
    /// The transaction has committed.
    Commit {
        txn: TxnId,
        /// How far the log was durable when this was appended: a hole before that is damage.
        durable: Lsn,
        /// Pages that the commit leaves unused: they are freed after it, in this order.
        frees: Vec<u64>,
    },
    /// The first `done` of the pages that a committed transaction frees are free.
    Freed { txn: TxnId, done: u32, changes: Vec<(u64, Change<'a>)> },
    /// The end of a transaction: it was rolled back, or its pages are freed. A commit that frees no pages
    /// needs no such record.
    End { txn: TxnId },
    /// All changes before `redo_from` are in the pages, and the log is durable up to there.
    Checkpoint { redo_from: Lsn },
}

impl Record<'_> {
    /// How far the log was durable when the record was appended, if it says so: a hole before that is
    /// damage.
    pub(crate) fn durable(&self) -> Option<Lsn> {
        match *self {
            Record::Commit { durable, .. } => Some(durable),
            Record::Checkpoint { redo_from } => Some(redo_from),
            _ => None,
        }
    }

    /// The pages that the record changes, with the changes.
    pub(crate) fn changes(&self) -> &[(u64, Change<'_>)] {
        match self {
            Record::Update { changes, .. }
            | Record::Structure { changes }
            | Record::Compensation { changes, .. }
            | Record::Freed { changes, .. } => changes,
            Record::Commit { .. } | Record::End { .. } | Record::Checkpoint { .. } => &[],
        }
    }
}
