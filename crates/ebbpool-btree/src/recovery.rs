//! What follows a crash: redo of everything, undo of transactions that did not commit.
//!
//! The log is read three times at most. *Analysis* finds out what there is to do; *redo* brings pages up to
//! date, each by its LSN; then transactions that neither committed nor ended are rolled back, as they
//! would have been while the database ran (Mohan et al. 1992).

use std::collections::{BTreeMap, HashMap};

use ebbpool::{Damage, HEADER_BYTES, Lsn};

use crate::change::{Change, Content};
use crate::checkpoint::Taken;
use crate::error::Error;
use crate::log::{FIRST, Position, Record, TxnId, Wal};
use crate::page::map::Maps;
use crate::page::meta::Meta;
use crate::page::{META, ROOT};
use crate::rollback;
use crate::tree::Tree;

/// What the log says has happened.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    /// Records that the log still has.
    pub(crate) records: u64,
    /// Everything before is in the pages.
    redo_from: Lsn,
    /// The latest record that says all of a page.
    formatted: HashMap<u64, Lsn>,
    /// The latest record that frees a page.
    freed: HashMap<u64, Lsn>,
    /// Transactions that are not done.
    open: BTreeMap<TxnId, Fate>,
    pub(crate) highest_txn: TxnId,
    pub(crate) checkpoint: Option<Taken>,
    /// Pages that a transaction took without logging what it put there.
    unlogged: HashMap<u64, TxnId>,
}

/// What is to become of a transaction.
#[derive(Debug)]
enum Fate {
    /// It is rolled back, from this record on.
    Loses { from: Option<Position> },
    /// It committed, and these pages are to be freed, but for the first `done`.
    Frees { pages: Vec<u64>, done: usize },
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Pages changed, each as often as a record changed it.
    pub(crate) redone: u64,
    /// Transactions rolled back.
    pub(crate) losers: u64,
    /// Their changes.
    pub(crate) undone: u64,
    /// Transactions whose pages were freed.
    pub(crate) freeing: u64,
}

impl Analysis {
    /// Reads the log.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], and [`Error::Corrupt`] if a record cannot be.
    pub(crate) fn of(wal: &Wal, page_size: usize) -> Result<Self, Error> {
        let maps = Maps::new(page_size.saturating_sub(HEADER_BYTES));
        let mut analysis = Analysis::default();
        wal.scan(&mut |position, lsn, record| {
            analysis.records += 1;
            analysis.note_fate(position, record);
            if let &Record::Checkpoint { redo_from } = record {
                analysis.redo_from = analysis.redo_from.max(redo_from);
                analysis.checkpoint = Some(Taken {
                    covered: redo_from,
                    position,
                    end: lsn,
                });
            }
            for (page, change) in record.changes() {
                match change {
                    Change::Format(_) => _ = analysis.formatted.insert(*page, lsn),
                    &Change::Mark { first, count, used } => {
                        if u64::from(count) > maps.span {
                            let what = "the log marks more pages in it than it has";
                            return Err(Error::corrupt(*page, what));
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

    fn note_fate(&mut self, position: Position, record: &Record<'_>) {
        let (txn, fate) = match record {
            Record::Update { txn, .. } => {
                let from = Some(position);
                (*txn, Some(Fate::Loses { from }))
            }
            Record::Compensation { txn, undo_next, .. } => {
                let from = *undo_next;
                (*txn, Some(Fate::Loses { from }))
            }
            Record::Commit { txn, frees, .. } => {
                let pages = frees.clone();
                let frees = (!frees.is_empty()).then_some(Fate::Frees { pages, done: 0 });
                (*txn, frees)
            }
            Record::Freed { txn, done, .. } => {
                if let Some(Fate::Frees { done: so_far, .. }) = self.open.get_mut(txn) {
                    *so_far = *done as usize;
                }
                return;
            }
            Record::End { txn } => (*txn, None),
            Record::Checkpoint { .. } | Record::Structure { .. } => return,
        };
        self.highest_txn = self.highest_txn.max(txn);
        match fate {
            Some(fate) => _ = self.open.insert(txn, fate),
            None => _ = self.open.remove(&txn),
        }
    }

    /// True if redo writes all of a page, so that what storage has of it does not matter.
    pub(crate) fn makes_anew(&self, page: u64) -> bool {
        let formatted = self.formatted.get(&page);
        formatted.is_some_and(|&lsn| lsn > self.redo_from)
    }

    /// True if a change must not be redone, since the page was made anew or freed later.
    fn is_over(&self, page: u64, lsn: Lsn) -> bool {
        let of = |what: &HashMap<u64, Lsn>| what.get(&page).copied().unwrap_or(0);
        lsn < of(&self.formatted) || lsn <= of(&self.freed)
    }

    /// Makes the database what it was when the log ended, without what did not commit. The allocation is ready
    /// then.
    ///
    /// # Errors
    ///
    /// What the pool, the log and the tree fail with. Everything can be done again.
    pub(crate) fn recover(self, tree: &Tree) -> Result<Done, Error> {
        let _span = tracing::info_span!("recovery").entered();
        self.check_age(tree)?;
        let mut done = Done {
            redone: self.redo(tree)?,
            ..Done::default()
        };
        let loses = |txn| matches!(self.open.get(txn), Some(Fate::Loses { .. }));
        let may_be_missing = |page| self.unlogged.get(&page).is_some_and(loses);
        tree.allocation.begin(&tree.pool, &may_be_missing)?;
        for (txn, fate) in self.open {
            match fate {
                Fate::Loses { from } => {
                    done.losers += 1;
                    done.undone += rollback::roll_back(tree, txn, from, None)?;
                    tree.wal.append(&Record::End { txn })?;
                }
                Fate::Frees {
                    pages,
                    done: so_far,
                } => {
                    done.freeing += 1;
                    rollback::free(tree, txn, &pages, so_far)?;
                }
            }
        }
        if !done.is_nothing() {
            tracing::info!(
                records = self.records,
                redone = done.redone,
                losers = done.losers,
                undone = done.undone,
                freeing = done.freeing,
                "recovered"
            );
        }
        Ok(done)
    }

    /// As [`recover`](Self::recover), in a database that is only read: what cannot be done is left out.
    /// Answers how many steps that were.
    pub(crate) fn recover_what_there_is(self, tree: &Tree) -> u64 {
        let mut skipped = 0;
        let mut left_out = |error: Error| {
            tracing::warn!(%error, "a step of recovery is left out");
            skipped += 1;
        };
        let complete = self.redo_from >= tree.wal.begin() || tree.wal.begin() == FIRST;
        match complete {
            // Without its earlier changes a page cannot take the later ones.
            false => left_out(Error::LogDamaged {
                position: self.redo_from,
                durable: tree.wal.begin(),
            }),
            true => {
                if let Err(error) = self.redo_each(tree, &mut |error| {
                    left_out(error);
                    Ok(())
                }) {
                    left_out(error);
                }
            }
        }
        // A rollback may need pages, and so has to know which are free.
        if let Err(error) = tree.allocation.begin(&tree.pool, &|_| true) {
            left_out(error);
            return skipped;
        }
        for (txn, fate) in self.open {
            if let Fate::Loses { from } = fate
                && let Err(error) = rollback::roll_back(tree, txn, from, None)
            {
                left_out(error);
            }
        }
        skipped
    }

    /// Looks whether pages that everything depends on are later than the log. The first page is as late
    /// as the latest checkpoint, so that a log is found out of which both files are older copies.
    fn check_age(&self, tree: &Tree) -> Result<(), Error> {
        let maps = tree.allocation.maps.below(tree.pool.pages());
        for page in [META, ROOT].into_iter().chain(maps) {
            match tree.pool.fix_read(page).map_err(of_a_cut_log) {
                // What else is wrong with a page that is made anew does not matter.
                Err(error) if !self.makes_anew(page) => return Err(error),
                Err(error @ Error::LogCut { .. }) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn redo(&self, tree: &Tree) -> Result<u64, Error> {
        self.redo_each(tree, &mut Err)
    }

    /// Answers how often a page was changed; `failed` is asked what to do about a page that cannot be.
    fn redo_each(
        &self,
        tree: &Tree,
        failed: &mut dyn FnMut(Error) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut redone = 0;
        tree.wal.scan(&mut |_, lsn, record| {
            if lsn <= self.redo_from {
                return Ok(());
            }
            let mut changes: Vec<_> = record.changes().iter().collect();
            // Stable: what one record does to one page stays in order.
            changes.sort_by_key(|(page, _)| *page);
            for of_one in changes.chunk_by(|a, b| a.0 == b.0) {
                let page = of_one[0].0;
                if self.is_over(page, lsn) {
                    continue;
                }
                match redo(tree, page, lsn, of_one) {
                    Ok(done) => redone += u64::from(done),
                    Err(error) => failed(error)?,
                }
            }
            Ok(())
        })?;
        Ok(redone)
    }
}

/// Does what one record did to one page, unless the page has it; answers whether it did.
fn redo(tree: &Tree, page: u64, lsn: Lsn, changes: &[&(u64, Change<'_>)]) -> Result<bool, Error> {
    let anew = matches!(changes.first(), Some((_, Change::Format(_))));
    let mut guard = match anew {
        // What storage has of it may be anything.
        true => tree.pool.fix_new(page)?,
        false => {
            if tree.pool.fix_read(page).map_err(of_a_cut_log)?.lsn() >= lsn {
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

/// What a page that is ahead of the log says of the log.
fn of_a_cut_log(error: ebbpool::Error) -> Error {
    match error {
        ebbpool::Error::Damaged {
            damage: Damage::Ahead { found, end },
            ..
        } => Error::LogCut {
            end,
            durable: found,
        },
        error => error.into(),
    }
}

impl Done {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Done::default()
    }
}

/// Writes the first page anew, so that its LSN is as late as the checkpoint that begins: an older log
/// beside these pages is found out by it, also where no other page that is looked at says so. The log has
/// all of the page, lest a crash tears it.
///
/// # Errors
///
/// What the pool and the log fail with.
pub(crate) fn renew_first_page(tree: &Tree) -> Result<(), Error> {
    let mut page = tree.pool.fix_write(META)?;
    let Meta {
        page_size,
        identity,
        ..
    } = Meta::read(&page)?;
    let change = Change::Format(Content::Meta {
        page_size,
        identity,
    });
    let changes = vec![(META, change.clone())];
    let appended = tree.wal.append(&Record::Structure { changes })?;
    change.apply(META, &mut page)?;
    page.set_lsn(appended.lsn);
    Ok(())
}

/// Begins the log of a database that is new: recovery makes its pages of it.
///
/// # Errors
///
/// [`Error::Log`].
pub(crate) fn begin(wal: &Wal, page_size: u32, identity: u64) -> Result<(), Error> {
    let maps = Maps::new((page_size as usize).saturating_sub(HEADER_BYTES));
    let root = Content::Node {
        level: 0,
        next: 0,
        cells: &[],
    };
    let changes = vec![
        (
            META,
            Change::Format(Content::Meta {
                page_size,
                identity,
            }),
        ),
        (maps.of(META), Change::Format(Content::Map)),
        (ROOT, Change::Format(root)),
    ];
    let appended = wal.append(&Record::Structure { changes })?;
    wal.sync(appended.lsn)
}
