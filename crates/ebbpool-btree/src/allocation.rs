//! Which pages are in use.

use ebbpool::{Pool, WriteGuard};

use crate::error::Error;
use crate::log::Wal;
use crate::page::map::Maps;
use crate::tree::Author;

/// Gives out pages, and takes them back. A page that is given out is marked in its map by the same log record that
/// first uses it.
pub(crate) struct Allocation {
    pub(crate) maps: Maps,
}

impl Allocation {
    pub(crate) fn new(payload: usize) -> Self {
        Allocation {
            maps: Maps::new(payload),
        }
    }

    /// After recovery: tells the pool which pages are free, by the maps. Answers how many are in use.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages in use are beyond the end of the storage.
    pub(crate) fn begin(&self, pool: &Pool) -> Result<u64, Error> {
        todo!()
    }

    /// A free page, and its map, both latched for writing; whoever asked logs [`Change::Mark`](crate::change::Change) for the map,
    /// and the page's content, in one record. If that fails, [`give_back`](Self::give_back).
    pub(crate) fn take<'p>(&self, pool: &'p Pool, wal: &Wal) -> Result<Taken<'p>, Error> {
        todo!()
    }

    /// A page that was taken, and of which nothing was logged.
    pub(crate) fn give_back(&self, pool: &Pool, taken: Taken<'_>) {
        todo!()
    }

    /// Marks pages as free, in one record for each map that has some of them, and gives them to the pool. Pages that are free already are
    /// left alone.
    pub(crate) fn free(
        &self,
        pool: &Pool,
        wal: &Wal,
        pages: &[u64],
        by: &mut dyn Author,
    ) -> Result<(), Error> {
        todo!()
    }
}

/// A page that nobody has used yet.
pub(crate) struct Taken<'p> {
    pub(crate) page: WriteGuard<'p>,
    pub(crate) map: WriteGuard<'p>,
}
