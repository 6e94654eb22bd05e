//! What follows the end of a transaction: its changes are taken back, or what it no longer needs is freed.
//! The same code does it while the database runs and in recovery.

use std::io;

use ebbpool::Lsn;

use crate::change::Change;
use crate::error::Error;
use crate::log::{Position, Record, TxnId, Undo, Wal};
use crate::page::ROOT;
use crate::page::cell::read_leaf_cell;
use crate::tree::{Author, Tree};

/// Logs what takes a change back.
struct Compensating {
    txn: TxnId,
    undo_next: Option<Position>,
}

impl Author for Compensating {
    fn log(
        &mut self,
        wal: &Wal,
        _undo: Undo<'_>,
        changes: Vec<(u64, Change<'_>)>,
    ) -> Result<Lsn, Error> {
        let record = Record::Compensation {
            txn: self.txn,
            undo_next: self.undo_next,
            changes,
        };
        Ok(wal.append(&record)?.lsn)
    }
}

/// Takes back what a transaction did, latest first, from the record at `from` on, until that at `until`
/// would come. Answers how many changes there were.
///
/// # Errors
///
/// What the log and the tree fail with. Part of it may have happened then, and the log says which.
pub(crate) fn roll_back(
    tree: &Tree,
    txn: TxnId,
    from: Option<Position>,
    until: Option<Position>,
) -> Result<u64, Error> {
    let mut buffer = Vec::new();
    let mut next = from;
    let mut count = 0;
    while let Some(position) = next.filter(|_| next != until) {
        tree.pool.throttle();
        next = match tree.wal.read(position, &mut buffer)? {
            Record::Update {
                txn: by,
                previous,
                undo,
                ..
            } if by == txn => {
                let mut author = Compensating {
                    txn,
                    undo_next: previous,
                };
                take_back(tree, &undo, &mut author)?;
                count += 1;
                previous
            }
            Record::Compensation {
                txn: by, undo_next, ..
            } if by == txn => undo_next,
            _ => return Err(not_its_record(txn, position)),
        };
        // Records point backwards, or else this would never end.
        if next.is_some_and(|next| next >= position) {
            return Err(not_its_record(txn, position));
        }
    }
    Ok(count)
}

fn not_its_record(txn: TxnId, position: Position) -> Error {
    let why = format!("the record at byte {position} is not what transaction {txn} did before");
    Error::Log {
        what: "read",
        source: io::Error::new(io::ErrorKind::InvalidData, why),
    }
}

fn take_back(tree: &Tree, undo: &Undo<'_>, author: &mut Compensating) -> Result<(), Error> {
    match *undo {
        Undo::Remove { key } => match tree.remove(key, author)? {
            Some(_) => Ok(()),
            None => Err(Error::corrupt(
                ROOT,
                "a key that is to be taken back is nowhere in the tree under this page",
            )),
        },
        Undo::Restore { cell } => {
            let (key, value, _) = read_leaf_cell(cell).ok_or_else(|| {
                Error::corrupt(ROOT, "the log has no record in place of one to be restored")
            })?;
            tree.put(key, value, author).map(drop)
        }
        Undo::Free { first, count } => {
            let pages: Vec<u64> = (first..first.saturating_add(u64::from(count))).collect();
            tree.allocation.free(&tree.pool, &tree.wal, &pages, author)
        }
        Undo::Empty => tree.make_empty(author),
    }
}

/// Logs that pages of a committed transaction are free.
struct Freeing {
    txn: TxnId,
    done: u32,
}

impl Author for Freeing {
    fn log(
        &mut self,
        wal: &Wal,
        _undo: Undo<'_>,
        changes: Vec<(u64, Change<'_>)>,
    ) -> Result<Lsn, Error> {
        let record = Record::Freed {
            txn: self.txn,
            done: self.done,
            changes,
        };
        Ok(wal.append(&record)?.lsn)
    }
}

/// Frees the pages that a committed transaction does not need any more, all but the first `done` of
/// them, and logs that nothing more comes of it.
///
/// # Errors
///
/// What the log and the pool fail with. Recovery does the rest then.
pub(crate) fn free(tree: &Tree, txn: TxnId, pages: &[u64], done: usize) -> Result<(), Error> {
    let allocation = &tree.allocation;
    let mut done = done;
    let rest = pages.get(done..).unwrap_or_default();
    // One record for each: what it says is done is done whole.
    for run in rest.chunk_by(|&a, &b| allocation.maps.of(a) == allocation.maps.of(b)) {
        done += run.len();
        let mut author = Freeing {
            txn,
            done: u32::try_from(done).unwrap_or(u32::MAX),
        };
        allocation.free(&tree.pool, &tree.wal, run, &mut author)?;
    }
    tree.wal.append(&Record::End { txn }).map(drop)
}
