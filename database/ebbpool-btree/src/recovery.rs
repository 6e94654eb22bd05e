//! Recovery after a crash: redo of all changes, undo of the transactions that did not commit.
//!
//! Recovery reads the log three times at most. *Analysis* collects what there is to do. *Redo* brings pages
//! up to date, each by its LSN. *Undo* rolls back the transactions that neither committed nor ended, with
//! the code that rolls back while the database runs (Mohan et al. 1992).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ebbpool::{Damage, HEADER_BYTES, Log, Lsn, Stats, Unit};

use crate::change::{Change, Content};
use crate::checkpoint::CompletedCheckpoint;
use crate::error::DatabaseError;
use crate::log::{FIRST, Position, Record, TxnId, Wal};
use crate::page::class;
use crate::page::map::AllocationMaps;
use crate::page::meta::MetaPage;
use crate::page::{META, ROOT};
use crate::rollback::{self, UnfinishedTransaction};
use crate::transaction::{OF_END, OF_FREED_PAGE};
use crate::tree::Tree;

/// What analysis has found in the log.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    /// The number of records in the log.
    pub(crate) records: u64,
    /// All changes before this position are in the pages.
    redo_from: Lsn,
    /// The LSNs of the records that format the first page, ascending.
    first_page: Vec<Lsn>,
    /// By page, the LSN of the latest record that formats it.
    formatted: HashMap<u64, Lsn>,
    /// By page, the LSN of the latest record that frees it.
    freed: HashMap<u64, Lsn>,
    /// Transactions that have something left to do.
    open: BTreeMap<TxnId, UnfinishedTransaction>,
    /// By transaction, the bytes of the records of its changes.
    changed: HashMap<TxnId, u64>,
    pub(crate) highest_txn: TxnId,
    pub(crate) checkpoint: Option<CompletedCheckpoint>,
    /// Pages whose content was not logged, each with the transaction that allocated it.
    unlogged: HashMap<u64, TxnId>,
}

/// What a recovery is assumed to take for a byte of log, reads and writes of pages apart. Measured: 0.4 s of processor time for 35 MB.
pub(crate) const MICROS_PER_BYTE: f64 = 0.01;

/// A recovery of this many bytes is long enough to be measured.
const LONG: u64 = 1 << 20;

/// What the recovery did with which a database was opened. After a database was closed it is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryStats {
    /// Bytes of the log since the last checkpoint.
    pub log_bytes: u64,
    /// Pages changed, each as often as a record changed it.
    pub redone: u64,
    /// Transactions that had not committed, and were rolled back.
    pub rolled_back: u64,
    /// Their changes.
    pub undone: u64,
    /// Committed transactions whose old values were still to be freed.
    pub freeing: u64,
    /// How long opening took, without the checkpoint that follows a recovery.
    pub time: Duration,
}

impl Analysis {
    /// Reads the log.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Log`], and [`DatabaseError::Corrupt`] if a record is impossible.
    pub(crate) fn from_log(wal: &Wal, page_size: usize) -> Result<Self, DatabaseError> {
        let maps = AllocationMaps::new(page_size.saturating_sub(HEADER_BYTES));
        let mut analysis = Analysis::default();
        wal.scan(&mut |position, lsn, record| {
            analysis.records += 1;
            analysis.note_transaction(position, record);
            if let Record::Update { txn, .. } = record {
                *analysis.changed.entry(*txn).or_default() += lsn - position;
            }
            if let &Record::Checkpoint { redo_from } = record {
                // The latest counts: the one that a backup ends with begins before others.
                analysis.redo_from = redo_from;
                analysis.checkpoint = Some(CompletedCheckpoint { covered: redo_from, position, end: lsn });
            }
            for (page, change) in record.changes() {
                match change {
                    Change::Format(_) => {
                        analysis.formatted.insert(*page, lsn);
                        analysis.first_page.extend((*page == META).then_some(lsn));
                    }
                    &Change::Mark { first, count, used } => {
                        if u64::from(count) > maps.span {
                            let what = "the log marks more pages in it than it has";
                            return Err(DatabaseError::corrupt(*page, what));
                        }
                        let pages = first..first.saturating_add(u64::from(count));
                        match (used, record) {
                            (false, _) => analysis.freed.extend(pages.map(|page| (page, lsn))),
                            (true, Record::Update { txn, changes, .. }) if changes.len() == 1 => {
                                analysis.unlogged.extend(pages.map(|page| (page, *txn)));
                            }
                            _ => {}
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(analysis)
    }

    fn note_transaction(&mut self, position: Position, record: &Record<'_>) {
        let (txn, state) = match record {
            Record::Update { txn, .. } => {
                let from = Some(position);
                (*txn, Some(UnfinishedTransaction::Loser { from }))
            }
            Record::Compensation { txn, undo_next, .. } => {
                let from = *undo_next;
                (*txn, Some(UnfinishedTransaction::Loser { from }))
            }
            Record::Commit { txn, frees, .. } => {
                let pages = frees.clone();
                let frees = (!frees.is_empty()).then_some(UnfinishedTransaction::Freeing { pages, done: 0 });
                (*txn, frees)
            }
            Record::Freed { txn, done, .. } => {
                if let Some(UnfinishedTransaction::Freeing { done: so_far, .. }) = self.open.get_mut(txn) {
                    *so_far = *done as usize;
                }
                return;
            }
            Record::End { txn } => (*txn, None),
            Record::Checkpoint { .. } | Record::Structure { .. } => return,
        };
        self.highest_txn = self.highest_txn.max(txn);
        match state {
            Some(state) => _ = self.open.insert(txn, state),
            None => _ = self.open.remove(&txn),
        }
    }

    /// True if redo formats the page, so that its content in storage does not matter.
    pub(crate) fn formats_page(&self, page: u64) -> bool {
        let formatted = self.formatted.get(&page);
        formatted.is_some_and(|&lsn| lsn > self.redo_from)
    }

    /// True if a change must not be redone, since a later record formats or frees the page.
    fn is_superseded(&self, page: u64, lsn: Lsn) -> bool {
        let of = |what: &HashMap<u64, Lsn>| what.get(&page).copied().unwrap_or(0);
        lsn < of(&self.formatted) || lsn <= of(&self.freed)
    }

    /// The most bytes that the ends of the open transactions log, as they were promised.
    fn room(&self) -> u64 {
        let of = |(txn, state): (&TxnId, &UnfinishedTransaction)| match state {
            UnfinishedTransaction::Loser { .. } => OF_END + self.changed.get(txn).copied().unwrap_or(0),
            UnfinishedTransaction::Freeing { pages, .. } => OF_END + pages.len() as u64 * OF_FREED_PAGE,
        };
        self.open.iter().map(of).sum()
    }

    /// Restores the state of the database at the end of the log, without transactions that did not commit.
    /// The allocation is ready afterwards.
    ///
    /// # Errors
    ///
    /// Errors of the pool, the log and the tree. Recovery may be repeated after an error.
    pub(crate) fn recover(self, tree: &Tree) -> Result<RecoveryStats, DatabaseError> {
        let _span = tracing::info_span!("recovery").entered();
        self.check_age(tree)?;
        tree.wal.reserve_for_recovery(self.room());
        let mut done = self.counts(&tree.wal);
        done.redone = self.redo(tree)?;
        let is_loser = |txn| matches!(self.open.get(txn), Some(UnfinishedTransaction::Loser { .. }));
        let may_be_missing = |page| self.unlogged.get(&page).is_some_and(is_loser);
        tree.allocation.begin(&tree.pool, &may_be_missing)?;
        for (txn, mut state) in self.open {
            match state.is_rollback() {
                true => done.rolled_back += 1,
                false => done.freeing += 1,
            }
            done.undone += state.finish(tree, txn)?;
        }
        if !done.is_nothing() {
            tracing::info!(
                records = self.records,
                redone = done.redone,
                losers = done.rolled_back,
                undone = done.undone,
                freeing = done.freeing,
                "recovered"
            );
        }
        Ok(done)
    }

    /// What there is to do, before anything is done.
    fn counts(&self, wal: &Wal) -> RecoveryStats {
        let end = wal.end_lsn();
        let since = match self.checkpoint {
            Some(checkpoint) if checkpoint.covers_all(end) => end,
            _ => self.redo_from.max(wal.begin()),
        };
        RecoveryStats { log_bytes: end.saturating_sub(since), ..RecoveryStats::default() }
    }

    /// Restores the state of a database that is open read-only at the end of the log: skips the steps that fail, and returns
    /// their number too.
    pub(crate) fn recover_readable(self, tree: &Tree) -> (RecoveryStats, u64) {
        let (mut done, mut skipped) = (self.counts(&tree.wal), 0);
        let mut skip = |error: DatabaseError| {
            tracing::warn!(%error, "a step of recovery is left out");
            skipped += 1;
        };
        let complete = self.redo_from >= tree.wal.begin() || tree.wal.begin() == FIRST;
        let usable = match complete {
            // The log lacks earlier changes, without which later ones cannot be applied to a page.
            false => Err(DatabaseError::LogDamaged { position: self.redo_from, durable: tree.wal.begin() }),
            true => self.check_not_older(tree),
        };
        match usable {
            Err(error) => skip(error),
            Ok(()) => {
                let redone = self.redo_each(tree, &mut |error| {
                    skip(error);
                    Ok(())
                });
                match redone {
                    Ok(redone) => done.redone = redone,
                    Err(error) => skip(error),
                }
            }
        }
        // A rollback may allocate pages, so the allocation has to know the free ones.
        if let Err(error) = tree.allocation.begin(&tree.pool, &|_| true) {
            skip(error);
            return (done, skipped);
        }
        for (txn, state) in self.open {
            let UnfinishedTransaction::Loser { mut from } = state else {
                done.freeing += 1;
                continue;
            };
            done.rolled_back += 1;
            match rollback::roll_back(tree, txn, &mut from, None) {
                Ok(undone) => done.undone += undone,
                Err(error) => skip(error),
            }
        }
        (done, skipped)
    }

    /// Checks that the first page is as late as the latest checkpoint left it: if not, the file is an older copy, and the log lacks
    /// changes of other pages too. The error of a page that cannot be read is left to others.
    fn check_not_older(&self, tree: &Tree) -> Result<(), DatabaseError> {
        let covered = self.first_page.iter().rfind(|&&lsn| lsn <= self.redo_from);
        match (tree.pool.fix_read(META), covered) {
            (Ok(page), Some(&expected)) if page.lsn() < expected => {
                Err(DatabaseError::PagesOlder { found: page.lsn(), expected })
            }
            _ => Ok(()),
        }
    }

    /// Checks that no page on which all else depends is ahead of the log, and the first one not older than its
    /// checkpoint. The first page has the LSN of the latest checkpoint, so this detects a log whose files are both older copies.
    fn check_age(&self, tree: &Tree) -> Result<(), DatabaseError> {
        self.check_not_older(tree)?;
        let maps = tree.allocation.maps.below(tree.pool.pages());
        for page in [META, ROOT].into_iter().chain(maps) {
            match tree.pool.fix_read(page).map_err(as_cut_log) {
                // Redo formats the page, so other errors of it do not matter.
                Err(error) if !self.formats_page(page) => return Err(error),
                Err(error @ DatabaseError::LogCut { .. }) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn redo(&self, tree: &Tree) -> Result<u64, DatabaseError> {
        self.redo_each(tree, &mut Err)
    }

    /// Returns the number of page changes. Calls `failed` with the error of a page that cannot be changed.
    fn redo_each(
        &self,
        tree: &Tree,
        failed: &mut dyn FnMut(DatabaseError) -> Result<(), DatabaseError>,
    ) -> Result<u64, DatabaseError> {
        let mut redone = 0;
        tree.wal.scan(&mut |_, lsn, record| {
            if lsn <= self.redo_from {
                return Ok(());
            }
            let mut changes: Vec<_> = record.changes().iter().collect();
            // The sort is stable: changes of one page by one record stay in order.
            changes.sort_by_key(|(page, _)| *page);
            for same_page in changes.chunk_by(|a, b| a.0 == b.0) {
                let page = same_page[0].0;
                if self.is_superseded(page, lsn) {
                    continue;
                }
                match redo(tree, page, lsn, same_page) {
                    Ok(done) => redone += u64::from(done),
                    Err(error) => failed(error)?,
                }
            }
            Ok(())
        })?;
        Ok(redone)
    }
}

/// Applies the changes of one record to one page, unless the page has them. Returns whether it applied
/// them.
fn redo(tree: &Tree, page: u64, lsn: Lsn, changes: &[&(u64, Change<'_>)]) -> Result<bool, DatabaseError> {
    let formatted = matches!(changes.first(), Some((_, Change::Format(_))));
    let mut guard = match formatted {
        // The page may hold anything in storage.
        true => tree.pool.fix_new(page)?,
        false => {
            if tree.pool.fix_read(page).map_err(as_cut_log)?.lsn() >= lsn {
                return Ok(false);
            }
            tree.pool.fix_write(page)?
        }
    };
    for (_, change) in changes {
        change.apply(page, &mut guard)?;
    }
    guard.set_lsn(lsn);
    Ok(true)
}

/// Converts the error of a page that is ahead of the log into an error about the log.
fn as_cut_log(error: ebbpool::PoolError) -> DatabaseError {
    match error {
        ebbpool::PoolError::Damaged { damage: Damage::Ahead { found, end }, .. } => {
            DatabaseError::LogCut { end, durable: found }
        }
        error => error.into(),
    }
}

impl RecoveryStats {
    /// What a recovery takes for a byte of log, reads of pages apart, if this one was long enough to say so.
    pub(crate) fn micros_per_byte(&self, pool: &Stats) -> f64 {
        let reads = match pool.costs.unit {
            Unit::Microseconds => pool.reads() as f64 * pool.costs.read,
            _ => 0.0,
        };
        let measured = (self.time.as_secs_f64() * 1e6 - reads) / self.log_bytes.max(1) as f64;
        if self.log_bytes < LONG { MICROS_PER_BYTE } else { measured.max(MICROS_PER_BYTE) }
    }

    /// Whether nothing was changed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.redone + self.rolled_back + self.freeing == 0
    }
}

/// Formats the first page again, so that its LSN is as late as the checkpoint that begins. It reveals an
/// older log beside these pages, even if no other page that opening reads does. The log has the whole page,
/// so that a crash cannot leave it torn.
///
/// # Errors
///
/// Errors of the pool and the log.
pub(crate) fn renew_first_page(tree: &Tree) -> Result<(), DatabaseError> {
    let mut page = tree.pool.of_class(class::META).fix_write(META)?;
    let MetaPage { page_size, identity, .. } = MetaPage::read(&page)?;
    let change = Change::Format(Content::Meta { page_size, identity });
    let changes = vec![(META, change.clone())];
    let appended = tree.wal.append(&Record::Structure { changes })?;
    change.apply(META, &mut page)?;
    page.set_lsn(appended.lsn);
    Ok(())
}

/// Writes the first record of a new database's log. Recovery creates the pages from it.
///
/// # Errors
///
/// [`DatabaseError::Log`].
pub(crate) fn begin(wal: &Wal, page_size: u32, identity: u64) -> Result<(), DatabaseError> {
    let maps = AllocationMaps::new((page_size as usize).saturating_sub(HEADER_BYTES));
    let root = Content::Node { level: 0, next: 0, cells: &[] };
    let changes = vec![
        (META, Change::Format(Content::Meta { page_size, identity })),
        (maps.of(META), Change::Format(Content::Map)),
        (ROOT, Change::Format(root)),
    ];
    let appended = wal.append(&Record::Structure { changes })?;
    wal.sync(appended.lsn)
}
