//! A tree on a simulated disk, and authors for its changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ebbpool::storage::FaultyDisk;
use ebbpool::{Log, Lsn, PoolOptions};

use super::walk::{Walk, walk};
use crate::allocation::Allocation;
use crate::change::{Change, Content};
use crate::error::Error;
use crate::log::{Identity, Position, Record, Undo, Wal};
use crate::page::cell::{Value, most_inline_cell, most_key_bytes, read_leaf_cell};
use crate::page::{META, ROOT};
use crate::tree::{Author, Old, Tree};

/// What takes a change back, kept beside.
#[derive(Clone, Debug)]
enum Back {
    Remove(Vec<u8>),
    Restore(Vec<u8>),
    Free(u64, u32),
    Empty,
}

/// A transaction that logs, and could be rolled back.
#[derive(Default)]
pub(super) struct Changes {
    previous: Option<Position>,
    back: Vec<Back>,
}

/// A rollback.
struct Rollback;

impl Author for Changes {
    fn log(
        &mut self,
        wal: &Wal,
        undo: Undo<'_>,
        changes: Vec<(u64, Change<'_>)>,
    ) -> Result<Lsn, Error> {
        let back = match undo {
            Undo::Remove { key } => Back::Remove(key.to_vec()),
            Undo::Restore { cell } => Back::Restore(cell.to_vec()),
            Undo::Free { first, count } => Back::Free(first, count),
            Undo::Empty => Back::Empty,
        };
        let appended = wal.append(&Record::Update {
            txn: 1,
            previous: self.previous,
            undo,
            changes,
        })?;
        self.previous = Some(appended.position);
        self.back.push(back);
        Ok(appended.lsn)
    }
}

impl Author for Rollback {
    fn log(
        &mut self,
        wal: &Wal,
        _undo: Undo<'_>,
        changes: Vec<(u64, Change<'_>)>,
    ) -> Result<Lsn, Error> {
        let (txn, undo_next) = (1, None);
        let record = Record::Compensation {
            txn,
            undo_next,
            changes,
        };
        Ok(wal.append(&record)?.lsn)
    }
}

impl Changes {
    /// Takes back what was done, last things first.
    pub(super) fn roll_back(self, tree: &Tree) -> Result<(), Error> {
        let by = &mut Rollback;
        for back in self.back.into_iter().rev() {
            match back {
                Back::Remove(key) => assert!(tree.remove(&key, by)?.is_some()),
                Back::Restore(cell) => {
                    let (key, value, _) = read_leaf_cell(&cell).unwrap();
                    tree.put(key, value, by)?;
                }
                Back::Free(first, count) => {
                    let pages: Vec<u64> = (first..first + u64::from(count)).collect();
                    tree.allocation.free(&tree.pool, &tree.wal, &pages, by)?;
                }
                Back::Empty => tree.make_empty(by)?,
            }
        }
        Ok(())
    }
}

/// A tree, and what it should have.
pub(super) struct Fixture {
    pub(super) disk: FaultyDisk,
    pub(super) tree: Tree,
    pub(super) model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Fixture {
    pub(super) fn new(page_size: usize, frames: u32) -> Self {
        Self::with(page_size, frames, |options| options)
    }

    pub(super) fn with(
        page_size: usize,
        frames: u32,
        adjust: impl FnOnce(PoolOptions) -> PoolOptions,
    ) -> Self {
        let disk = FaultyDisk::new(42);
        let files = ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _);
        let identity = Identity {
            page_size: page_size as u32,
            number: 7,
        };
        let wal = Arc::new(Wal::create(files, identity, 64 << 20).unwrap());
        let log: Arc<dyn Log> = wal.clone();
        let options = PoolOptions::new(frames)
            .background(false)
            .patience(Duration::from_secs(10));
        let pool = adjust(options.log(log))
            .open(disk.pages("data", page_size))
            .unwrap();
        let allocation = Allocation::new(pool.payload_size());
        let tree = Tree {
            pool,
            wal,
            allocation,
        };
        format(&tree, page_size as u32);
        Fixture {
            disk,
            tree,
            model: BTreeMap::new(),
        }
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

    /// Puts a record, and frees what it had.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let by = &mut Changes::default();
        let old = put(&self.tree, key, value, by)?;
        let before = self.model.insert(key.to_vec(), value.to_vec());
        assert_eq!(old.is_some(), before.is_some());
        self.free(old)
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), Error> {
        let old = self.tree.remove(key, &mut Changes::default())?;
        assert_eq!(old.is_some(), self.model.remove(key).is_some());
        self.free(old)
    }

    fn free(&self, old: Option<Old>) -> Result<(), Error> {
        let Some(Old::Overflow { first }) = old else {
            return Ok(());
        };
        let pages = self.tree.overflow_pages(first)?;
        let (pool, wal) = (&self.tree.pool, &self.tree.wal);
        let by = &mut Changes::default();
        self.tree.allocation.free(pool, wal, &pages, by)
    }

    /// Compares the tree with the model, in whatever way it can be read, and answers what it is like.
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
        (
            META,
            Change::Format(Content::Meta {
                page_size,
                identity,
            }),
        ),
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

/// Puts a record, its value in pages of its own if it is long.
pub(super) fn put(
    tree: &Tree,
    key: &[u8],
    value: &[u8],
    by: &mut Changes,
) -> Result<Option<Old>, Error> {
    match tree.overflows(key, value) {
        true => {
            let stored = tree.store(value, by)?;
            tree.put(key, stored, by)
        }
        false => tree.put(key, Value::Inline(value), by),
    }
}

pub(super) fn get(tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    tree.look_up(key, |value| {
        value.map(|value| tree.read_value(value)).transpose()
    })
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
