//! The work at the end of a transaction: undoing its changes, or freeing the pages that it no longer needs.
//! The database runs the same code in operation and in recovery.

use std::io;

use ebbpool::Lsn;

use crate::change::Change;
use crate::error::DatabaseError;
use crate::log::{Position, Record, TxnId, Undo, Wal};
use crate::page::ROOT;
use crate::page::cell::read_leaf_cell;
use crate::tree::{ChangeLogger, Tree};

/// What is left to do about a transaction, which a crash may have ended.
#[derive(Debug)]
pub(crate) enum UnfinishedTransaction {
    /// It did not commit. It is rolled back, from this record on.
    Loser { from: Option<Position> },
    /// It committed, and these pages are to be freed, but for the first `done`.
    Freeing { pages: Vec<u64>, done: usize },
}

impl UnfinishedTransaction {
    pub(crate) fn is_rollback(&self) -> bool {
        matches!(self, UnfinishedTransaction::Loser { .. })
    }

    /// Does it, and logs the transaction's end. Returns the number of changes undone.
    ///
    /// # Errors
    ///
    /// Errors of the log and the tree. The next call goes on after the last change that the log has.
    pub(crate) fn finish(&mut self, tree: &Tree, txn: TxnId) -> Result<u64, DatabaseError> {
        let undone = match self {
            UnfinishedTransaction::Loser { from } => roll_back(tree, txn, from, None)?,
            UnfinishedTransaction::Freeing { pages, done } => free(tree, txn, pages, done).map(|()| 0)?,
        };
        // A commit that frees nothing is the end.
        if !matches!(self, UnfinishedTransaction::Freeing { pages, .. } if pages.is_empty()) {
            tree.wal.append(&Record::End { txn })?;
        }
        Ok(undone)
    }
}

/// Logs the changes of a rollback, as compensation records.
struct CompensationLogger {
    txn: TxnId,
    undo_next: Option<Position>,
}

impl ChangeLogger for CompensationLogger {
    fn log(&mut self, wal: &Wal, _undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError> {
        let record = Record::Compensation { txn: self.txn, undo_next: self.undo_next, changes };
        Ok(wal.append(&record)?.lsn)
    }
}

/// Undoes the changes of a transaction, the latest first: from the record at `next` back to that at
/// `until`, which is not undone. Returns the number of changes undone.
///
/// # Errors
///
/// Errors of the log and the tree. Part of the rollback may be done then; the log has that part, and the rest begins at
/// `next`.
pub(crate) fn roll_back(
    tree: &Tree,
    txn: TxnId,
    next: &mut Option<Position>,
    until: Option<Position>,
) -> Result<u64, DatabaseError> {
    let mut buffer = Vec::new();
    let mut count = 0;
    while let Some(position) = next.filter(|_| *next != until) {
        tree.pool.throttle();
        let _admitted = tree.admission.enter();
        let before = match tree.wal.read(position, &mut buffer)? {
            Record::Update { txn: by, previous, undo, .. } if by == txn => {
                let mut logger = CompensationLogger { txn, undo_next: previous };
                apply_undo(tree, &undo, &mut logger)?;
                count += 1;
                previous
            }
            Record::Compensation { txn: by, undo_next, .. } if by == txn => undo_next,
            _ => return Err(not_its_record(txn, position)),
        };
        // Each record points to an earlier one; otherwise this would not end.
        if before.is_some_and(|before| before >= position) {
            return Err(not_its_record(txn, position));
        }
        *next = before;
    }
    Ok(count)
}

fn not_its_record(txn: TxnId, position: Position) -> DatabaseError {
    let why = format!("the record at byte {position} is not what transaction {txn} did before");
    DatabaseError::Log { what: "read", source: io::Error::new(io::ErrorKind::InvalidData, why) }
}

fn apply_undo(tree: &Tree, undo: &Undo<'_>, logger: &mut CompensationLogger) -> Result<(), DatabaseError> {
    match *undo {
        Undo::Remove { key } => match tree.remove(key, logger)? {
            Some(_) => Ok(()),
            None => Err(DatabaseError::corrupt(ROOT, "the tree under this page lacks a key whose insertion is to be undone")),
        },
        Undo::Restore { cell } => {
            let (key, value, _) = read_leaf_cell(cell)
                .ok_or_else(|| DatabaseError::corrupt(ROOT, "the log has no record in place of one to be restored"))?;
            tree.put(key, value, logger).map(drop)
        }
        Undo::Free { first, count } => {
            let pages: Vec<u64> = (first..first.saturating_add(u64::from(count))).collect();
            tree.allocation.free(&tree.pool, &tree.wal, &pages, logger)
        }
        Undo::Empty => tree.make_empty(logger),
    }
}

/// Logs that pages of a committed transaction are free.
struct FreeingLogger {
    txn: TxnId,
    done: u32,
}

impl ChangeLogger for FreeingLogger {
    fn log(&mut self, wal: &Wal, _undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError> {
        let record = Record::Freed { txn: self.txn, done: self.done, changes };
        Ok(wal.append(&record)?.lsn)
    }
}

/// Frees the pages that a committed transaction no longer needs, except the first `done` of them.
fn free(tree: &Tree, txn: TxnId, pages: &[u64], done: &mut usize) -> Result<(), DatabaseError> {
    let allocation = &tree.allocation;
    let rest = pages.get(*done..).unwrap_or_default();
    // One record for each run: the pages that it counts as done are all freed by then.
    for run in rest.chunk_by(|&a, &b| allocation.maps.of(a) == allocation.maps.of(b)) {
        let _admitted = tree.admission.enter();
        let with_run = *done + run.len();
        let mut logger = FreeingLogger { txn, done: u32::try_from(with_run).unwrap_or(u32::MAX) };
        allocation.free(&tree.pool, &tree.wal, run, &mut logger)?;
        *done = with_run;
    }
    Ok(())
}
