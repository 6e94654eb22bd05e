//! A tree on a simulated disk, and loggers for its changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ebbpool::storage::FaultyDisk;
use ebbpool::{Log, Lsn, PoolOptions};

use super::walk::{Walk, walk};
use crate::admission::Admission;
use crate::allocation::Allocation;
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::log::{LogIdentity, Position, Record, Undo, Wal};
use crate::page::cell::{Value, most_inline_cell, most_key_bytes, read_leaf_cell};
use crate::page::{META, ROOT};
use crate::tree::{ChangeLogger, OldValue, Tree};

/// How a change is undone, in memory.
#[derive(Clone, Debug)]
enum UndoStep {
    Remove(Vec<u8>),
    Restore(Vec<u8>),
    Free(u64, u32),
    Empty,
}

/// Logs the changes of a transaction, which can be rolled undo_step.
#[derive(Default)]
pub(super) struct TransactionLogger {
    previous: Option<Position>,
    undo_steps: Vec<UndoStep>,
}

/// Logs the changes of a rollback.
struct RollbackLogger;

impl ChangeLogger for TransactionLogger {
    fn log(&mut self, wal: &Wal, undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError> {
        let undo_step = match undo {
            Undo::Remove { key } => UndoStep::Remove(key.to_vec()),
            Undo::Restore { cell } => UndoStep::Restore(cell.to_vec()),
            Undo::Free { first, count } => UndoStep::Free(first, count),
            Undo::Empty => UndoStep::Empty,
        };
        let appended = wal.append(&Record::Update { txn: 1, previous: self.previous, undo, changes })?;
        self.previous = Some(appended.position);
        self.undo_steps.push(undo_step);
        Ok(appended.lsn)
    }
}

impl ChangeLogger for RollbackLogger {
    fn log(&mut self, wal: &Wal, _undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError> {
        let (txn, undo_next) = (1, None);
        let record = Record::Compensation { txn, undo_next, changes };
        Ok(wal.append(&record)?.lsn)
    }
}

impl TransactionLogger {
    /// Undoes the changes, the latest first.
    pub(super) fn roll_back(self, tree: &Tree) -> Result<(), DatabaseError> {
        let logger = &mut RollbackLogger;
        for undo_step in self.undo_steps.into_iter().rev() {
            match undo_step {
                UndoStep::Remove(key) => assert!(tree.remove(&key, logger)?.is_some()),
                UndoStep::Restore(cell) => {
                    let (key, value, _) = read_leaf_cell(&cell).unwrap();
                    tree.put(key, value, logger)?;
                }
                UndoStep::Free(first, count) => {
                    let pages: Vec<u64> = (first..first + u64::from(count)).collect();
                    tree.allocation.free(&tree.pool, &tree.wal, &pages, logger)?;
                }
                UndoStep::Empty => tree.make_empty(logger)?,
            }
        }
        Ok(())
    }
}

/// A tree, and the records that it should have.
pub(super) struct Fixture {
    pub(super) disk: FaultyDisk,
    pub(super) tree: Tree,
    pub(super) model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Fixture {
    pub(super) fn new(page_size: usize, frames: u32) -> Self {
        Self::with(page_size, frames, |options| options)
    }

    pub(super) fn with(page_size: usize, frames: u32, adjust: impl FnOnce(PoolOptions) -> PoolOptions) -> Self {
        let disk = FaultyDisk::new(42);
        let files = ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _);
        let identity = LogIdentity { page_size: page_size as u32, number: 7 };
        let wal = Arc::new(Wal::create(files, identity, 64 << 20).unwrap());
        let log: Arc<dyn Log> = wal.clone();
        let options = PoolOptions::new(frames).background(false).patience(Duration::from_secs(10));
        let pool = adjust(options.log(log)).open(disk.pages("data", page_size)).unwrap();
        let allocation = Allocation::new(pool.payload_size());
        let tree = Tree { pool, wal, allocation, admission: Admission::new(frames) };
        format(&tree, page_size as u32);
        Fixture { disk, tree, model: BTreeMap::new() }
    }

    pub(super) fn payload(&self) -> usize {
        self.tree.pool.payload_size()
    }

    pub(super) fn most_key_bytes(&self) -> usize {
        most_key_bytes(self.payload())
    }

    /// The longest value that stays in its leaf.
    pub(super) fn most_inline(&self, key: &[u8]) -> usize {
        most_inline_cell(self.payload()) - 6 - key.len()
    }

    /// Puts a record, and frees the pages of the old value.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        let logger = &mut TransactionLogger::default();
        let old = put(&self.tree, key, value, logger)?;
        let before = self.model.insert(key.to_vec(), value.to_vec());
        assert_eq!(old.is_some(), before.is_some());
        self.free(old)
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), DatabaseError> {
        let old = self.tree.remove(key, &mut TransactionLogger::default())?;
        assert_eq!(old.is_some(), self.model.remove(key).is_some());
        self.free(old)
    }

    fn free(&self, old: Option<OldValue>) -> Result<(), DatabaseError> {
        let Some(OldValue::Overflow { first }) = old else {
            return Ok(());
        };
        let pages = self.tree.overflow_pages(first)?;
        let (pool, wal) = (&self.tree.pool, &self.tree.wal);
        let logger = &mut TransactionLogger::default();
        self.tree.allocation.free(pool, wal, &pages, logger)
    }

    /// Compares the tree with the model, in each way that it can be read, and returns its structure.
    pub(super) fn verify(&self) -> Walk {
        let found = walk(&self.tree);
        let model = self.model.iter().map(|(k, v)| (k.clone(), v.clone()));
        let model: Vec<_> = model.collect();
        assert_eq!(found.records, model);
        assert_eq!(up(&self.tree, std::ops::Bound::Unbounded), model);
        let mut down = down(&self.tree, std::ops::Bound::Unbounded);
        down.reverse();
        assert_eq!(down, model);
        found
    }
}

fn format(tree: &Tree, page_size: u32) {
    let mut guards = [0, 1, 2].map(|_| tree.pool.allocate().unwrap());
    let (level, next, cells) = (0, 0, &[][..]);
    let identity = 7;
    let changes = vec![
        (META, Change::Format(Content::Meta { page_size, identity })),
        (1, Change::Format(Content::Map)),
        (ROOT, Change::Format(Content::Node { level, next, cells })),
    ];
    let record = Record::Structure { changes };
    let lsn = tree.wal.append(&record).unwrap().lsn;
    for ((page, change), guard) in record.changes().iter().zip(&mut guards) {
        assert_eq!(*page, guard.page());
        change.apply(*page, guard).unwrap();
        guard.set_lsn(lsn);
    }
}

/// Puts a record, with a long value in overflow pages.
pub(super) fn put(
    tree: &Tree,
    key: &[u8],
    value: &[u8],
    logger: &mut TransactionLogger,
) -> Result<Option<OldValue>, DatabaseError> {
    match tree.overflows(key, value) {
        true => {
            let stored = tree.store(value, logger)?;
            tree.put(key, stored, logger)
        }
        false => tree.put(key, Value::Inline(value), logger),
    }
}

pub(super) fn get(tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
    tree.look_up(key, |value| value.map(|value| tree.read_value(value)).transpose())
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn up(tree: &Tree, from: std::ops::Bound<&[u8]>) -> Records {
    let mut records = Vec::new();
    let each = &mut |key: &[u8], value: Value<'_>| {
        records.push((key.to_vec(), tree.read_value(value)?));
        Ok(std::ops::ControlFlow::Continue(()))
    };
    tree.ascend(from, each).unwrap();
    records
}

pub(super) fn down(tree: &Tree, from: std::ops::Bound<&[u8]>) -> Records {
    let mut records = Vec::new();
    let each = &mut |key: &[u8], value: Value<'_>| {
        records.push((key.to_vec(), tree.read_value(value)?));
        Ok(std::ops::ControlFlow::Continue(()))
    };
    tree.descend(from, each).unwrap();
    records
}
