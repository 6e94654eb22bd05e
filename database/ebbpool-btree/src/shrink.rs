//! Shrinking of the file: the pages in use at its end move to free pages before them, and what is then free at the end is cut
//! off. A checkpoint before the cut covers all changes, so that no recovery needs a page behind it.

use std::io;

use ebbpool::PoolError;

use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::log::RoomUse;

/// What shrinking has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shrunk {
    /// Pages of the file before.
    pub before: u64,
    /// Pages of the file now.
    pub pages: u64,
    /// Pages that were moved.
    pub moved: u64,
}

impl DatabaseInner {
    /// Makes the file as short as its pages in use allow, while no other thread uses the database.
    pub(crate) fn shrink(&self) -> Result<Shrunk, DatabaseError> {
        self.check_writable()?;
        self.finish_ended()?;
        let _broken = self.panic_guard();
        let (pool, allocation) = (&self.tree.pool, &self.tree.allocation);
        let before = pool.pages();
        // A record has at most two whole pages.
        let most = 3 * pool.stats().page_size as u64;
        let mut moved = 0;
        self.patiently("the file cannot be made shorter", || {
            let end = allocation.packed_end(pool)?;
            moved += self.tree.relocate(end, &mut || {
                self.checkpoint_if_due();
                self.keep_log_short()?;
                pool.throttle();
                self.room_for(RoomUse::Delete, most)
            })?;
            Ok(())
        })?;
        self.checkpoint_and(|covers_all| match covers_all {
            true => allocation.truncate(pool),
            false => Err(PoolError::Truncate {
                pages: before,
                source: io::Error::other("a checkpoint has not covered all changes; try it again"),
            }
            .into()),
        })?;
        Ok(Shrunk { before, pages: pool.pages(), moved })
    }
}
