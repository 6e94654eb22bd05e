//! A database's pages and log on a simulated disk, without transactions.

use std::sync::Arc;

use ebbpool::storage::FaultyDisk;
use ebbpool::{Log as _, Lsn, Pool, PoolOptions};

use super::Allocation;
use crate::admission::Admission;
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::log::{DamagePolicy, LogFile, LogIdentity, Record, Undo, Wal};
use crate::page::class::LEAF;
use crate::page::{META, ROOT};
use crate::tree::{ChangeLogger, Tree};

pub(crate) const PAGE_SIZE: usize = 512;

const IDENTITY: LogIdentity = LogIdentity { page_size: PAGE_SIZE as u32, number: 0xebb };

/// Logs all changes as records that are never undone.
pub(crate) struct StructureLogger;

impl ChangeLogger for StructureLogger {
    fn log(&mut self, wal: &Wal, _undo: Undo<'_>, changes: Vec<(u64, Change<'_>)>) -> Result<Lsn, DatabaseError> {
        Ok(wal.append(&Record::Structure { changes })?.lsn)
    }
}

fn log_files(disk: &FaultyDisk) -> [Box<dyn LogFile>; 2] {
    [Box::new(disk.bytes("log0")), Box::new(disk.bytes("log1"))]
}

fn open_pool(disk: &FaultyDisk, wal: &Arc<Wal>, frames: u32) -> Result<Pool, DatabaseError> {
    let options = PoolOptions::new(frames).background(false).log(wal.clone());
    let options = options.double_write(disk.pages("torn", PAGE_SIZE));
    Ok(options.open(disk.pages("data", PAGE_SIZE))?)
}

fn tree(pool: Pool, wal: Arc<Wal>) -> Tree {
    Tree { allocation: Allocation::new(pool.payload_size()), admission: Admission::new(pool.stats().frames), pool, wal }
}

/// Changes pages, and logs the changes as one record.
pub(crate) fn change(tree: &Tree, changes: &[(u64, Change<'_>)]) -> Result<(), DatabaseError> {
    let mut guards = Vec::new();
    for (page, change) in changes {
        guards.push(match change {
            Change::Format(_) => tree.pool.fix_new(*page)?,
            _ => tree.pool.fix_write(*page)?,
        });
    }
    let lsn = StructureLogger.log(&tree.wal, Undo::Empty, changes.to_vec())?;
    for ((page, change), guard) in changes.iter().zip(&mut guards) {
        change.apply(*page, guard)?;
        guard.set_lsn(lsn);
    }
    Ok(())
}

/// A database with an empty leaf as its root, durable.
pub(crate) fn create(disk: &FaultyDisk, frames: u32) -> Result<Tree, DatabaseError> {
    let wal = Arc::new(Wal::create(log_files(disk), IDENTITY, 1 << 30)?);
    let tree = tree(open_pool(disk, &wal, frames)?, wal);
    let meta = Content::Meta { page_size: IDENTITY.page_size, identity: IDENTITY.number };
    let root = Content::Node { level: 0, next: 0, cells: &[] };
    let contents = [(META, meta), (1, Content::Map), (ROOT, root)];
    change(&tree, &contents.map(|(page, c)| (page, Change::Format(c))))?;
    tree.allocation.begin(&tree.pool, &|_| false)?;
    tree.wal.sync(tree.wal.end_lsn())?;
    Ok(tree)
}

/// Opens the database again and redoes all changes in the log. Returns nothing if there is no log yet.
pub(crate) fn open(disk: &FaultyDisk, frames: u32) -> Result<Option<Tree>, DatabaseError> {
    let Some((wal, _)) = Wal::open(log_files(disk), 1 << 30, DamagePolicy::Refuse)? else {
        return Ok(None);
    };
    let wal = Arc::new(wal);
    let tree = tree(open_pool(disk, &wal, frames)?, wal);
    redo(&tree)?;
    tree.allocation.begin(&tree.pool, &|_| false)?;
    Ok(Some(tree))
}

/// Applies the log's changes one after the other, except those that a later record makes void.
fn redo(tree: &Tree) -> Result<(), DatabaseError> {
    let maps = tree.allocation.maps;
    let mut records: Vec<(Lsn, u64, Vec<u8>)> = Vec::new();
    tree.wal.scan(&mut |_, lsn, record| {
        for (page, change) in record.changes() {
            if let &Change::Mark { first, count, used: false } = change {
                let freed = first..first + u64::from(count);
                records.retain(|(_, page, _)| !freed.contains(page));
            }
            if let Change::Format(_) = change {
                records.retain(|(_, before, _)| before != page);
            }
            assert!(!matches!(change, Change::Mark { .. }) || maps.is_map(*page));
            records.push((lsn, *page, postcard::to_allocvec(change).unwrap()));
        }
        Ok(())
    })?;
    for (lsn, page, change) in records {
        let change: Change<'_> = postcard::from_bytes(&change).unwrap();
        let mut guard = match change {
            Change::Format(_) => {
                // The page in storage may be later than the record.
                if tree.pool.fix_read(page).is_ok_and(|page| page.lsn() >= lsn) {
                    continue;
                }
                tree.pool.fix_new(page)?
            }
            _ => tree.pool.fix_write(page)?,
        };
        if guard.lsn() < lsn {
            change.apply(page, &mut guard)?;
            guard.set_lsn(lsn);
        }
    }
    Ok(())
}

/// Takes a page, and writes its number to it.
pub(crate) fn take(tree: &Tree) -> Result<u64, DatabaseError> {
    let mut taken = tree.allocation.take(&tree.pool, &tree.wal, LEAF)?;
    let (page, map) = (taken.page.page(), taken.map.page());
    let bytes = page.to_le_bytes();
    let content = Change::Format(Content::Overflow { next: 0, bytes: &bytes });
    let mark = Change::Mark { first: page, count: 1, used: true };
    let changes = vec![(page, content.clone()), (map, mark.clone())];
    match StructureLogger.log(&tree.wal, Undo::Empty, changes) {
        Ok(lsn) => {
            content.apply(page, &mut taken.page)?;
            mark.apply(map, &mut taken.map)?;
            taken.page.set_lsn(lsn);
            taken.map.set_lsn(lsn);
            Ok(page)
        }
        Err(error) => {
            tree.allocation.give_back(&tree.pool, taken);
            Err(error)
        }
    }
}

/// Frees pages.
pub(crate) fn free(tree: &Tree, pages: &[u64]) -> Result<(), DatabaseError> {
    tree.allocation.free(&tree.pool, &tree.wal, pages, &mut StructureLogger)
}
