//! Changes of the tree's structure: one record for all of their pages, all of them latched.

use ebbpool::{Lsn, WriteGuard};

use super::Tree;
use crate::allocation::Taken;
use crate::change::Change;
use crate::error::Error;
use crate::log::Record;

impl Tree {
    /// Appends a record, then does what it says: `changes` are those of `pages` in the same order,
    /// then those of the page taken and its map.
    ///
    /// # Errors
    ///
    /// If the log fails nothing has changed, and the page taken is given back.
    pub(super) fn restructure<'p>(
        &self,
        changes: Vec<(u64, Change<'_>)>,
        pages: &mut [&mut WriteGuard<'p>],
        taken: Option<Taken<'p>>,
    ) -> Result<(), Error> {
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
        let pages = pages.chain(&mut page).chain(&mut map);
        for (guard, (number, change)) in pages.zip(record.changes()) {
            debug_assert_eq!(*number, guard.page());
            apply(change, guard, lsn)?;
        }
        Ok(())
    }
}

/// Marks a page that was taken as one in use.
pub(super) fn mark(taken: &Taken<'_>) -> (u64, Change<'static>) {
    let (first, count, used) = (taken.page.page(), 1, true);
    (taken.map.page(), Change::Mark { first, count, used })
}

/// Does what was logged.
pub(super) fn apply(change: &Change<'_>, page: &mut WriteGuard<'_>, lsn: Lsn) -> Result<(), Error> {
    change.apply(page.page(), page)?;
    page.set_lsn(lsn);
    Ok(())
}

/// A slot as changes have it. No node has more, since its count is a `u16`.
pub(super) fn slot16(slot: usize) -> u16 {
    u16::try_from(slot).unwrap_or(u16::MAX)
}
