//! Changes of the tree's structure: one log record for all pages of a change, which are all latched.

use ebbpool::{Lsn, WriteGuard};

use super::Tree;
use crate::allocation::AllocatedPage;
use crate::change::Change;
use crate::error::DatabaseError;
use crate::log::Record;

impl Tree {
    /// Appends a record, then applies its changes: those of `pages`, of the allocated page and its map.
    ///
    /// # Errors
    ///
    /// If the log fails, nothing has changed, and the allocated page is free again.
    pub(super) fn restructure<'p>(
        &self,
        changes: Vec<(u64, Change<'_>)>,
        pages: &mut [&mut WriteGuard<'p>],
        taken: Option<AllocatedPage<'p>>,
    ) -> Result<(), DatabaseError> {
        let record = Record::Structure { changes };
        let lsn = match self.wal.append(&record) {
            Ok(appended) => appended.lsn,
            Err(error) => {
                if let Some(taken) = taken {
                    self.allocation.give_back(&self.pool, taken);
                }
                return Err(error);
            }
        };
        let (mut page, mut map) = taken.map(|taken| (taken.page, taken.map)).unzip();
        let pages = pages.iter_mut().map(|page| &mut **page);
        for guard in pages.chain(&mut page).chain(&mut map) {
            let page = guard.page();
            for (_, change) in record.changes().iter().filter(|(number, _)| *number == page) {
                apply(change, guard, lsn)?;
            }
        }
        Ok(())
    }
}

/// The change that marks an allocated page as in use.
pub(super) fn mark(taken: &AllocatedPage<'_>) -> (u64, Change<'static>) {
    let (first, count, used) = (taken.page.page(), 1, true);
    (taken.map.page(), Change::Mark { first, count, used })
}

/// Applies a change that was logged.
pub(super) fn apply(change: &Change<'_>, page: &mut WriteGuard<'_>, lsn: Lsn) -> Result<(), DatabaseError> {
    change.apply(page.page(), page)?;
    page.set_lsn(lsn);
    Ok(())
}

/// A slot as changes store it. A node's count is a `u16`, so no slot is greater.
pub(super) fn slot16(slot: usize) -> u16 {
    u16::try_from(slot).unwrap_or(u16::MAX)
}
