//! Log records.
//!
//! Framed (see `frame.rs`): checksum of all after it (u64, xxh3 seeded with the identity of the
//! database), where the record begins in all that was ever logged (u64), the body's length (u32), the body
//! (postcard). Numbers are little-endian. An LSN is where a record ends; a [`Position`] is where one begins.

use ebbpool::Lsn;
use serde::{Deserialize, Serialize};

use crate::change::Change;

/// Where a record begins.
pub(crate) type Position = u64;

/// A transaction's number, never 0.
pub(crate) type TxnId = u64;

/// What takes a change back. Logical: what was changed may be on another page by then.
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
    /// What a transaction did. `changes` name the page.
    Update {
        txn: TxnId,
        /// The transaction's record before this one.
        previous: Option<Position>,
        #[serde(borrow)]
        undo: Undo<'a>,
        changes: Vec<(u64, Change<'a>)>,
    },
    /// What happened to the tree's structure, for whomever: never undone.
    Structure { changes: Vec<(u64, Change<'a>)> },
    /// What a rollback did: never undone. It goes on with `undo_next`.
    Compensation {
        txn: TxnId,
        undo_next: Option<Position>,
        changes: Vec<(u64, Change<'a>)>,
    },
    /// All of a transaction counts.
    Commit {
        txn: TxnId,
        /// How far the log was durable when this was appended: a hole before that is damage.
        durable: Lsn,
        /// Pages that are nobody's from now on: they are freed after this, in this order.
        frees: Vec<u64>,
    },
    /// The first `done` of the pages that a committed transaction frees are free.
    Freed {
        txn: TxnId,
        done: u32,
        changes: Vec<(u64, Change<'a>)>,
    },
    /// Nothing more comes of a transaction: it was rolled back, or its pages are freed. A commit that
    /// frees nothing needs none.
    End { txn: TxnId },
    /// All before `redo_from` is in the pages, and the log is durable up to there.
    Checkpoint { redo_from: Lsn },
}

impl Record<'_> {
    /// How far it says that the log was durable when it was appended: a hole before that is damage.
    pub(crate) fn durable(&self) -> Option<Lsn> {
        match *self {
            Record::Commit { durable, .. } => Some(durable),
            Record::Checkpoint { redo_from } => Some(redo_from),
            _ => None,
        }
    }

    /// The pages that it changes, and how.
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
