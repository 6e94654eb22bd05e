//! Shrinking of the file: the pages in use at its end move to free pages before them, and what is then free at the end is cut
//! off. A checkpoint before the cut covers all changes, so that no recovery needs a page behind it. The log gives back its blocks
//! too.

use std::io;

use ebbpool::PoolError;

use crate::checkpoint::OF_CHECKPOINT;
use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::log::RoomUse;
use crate::recovery;

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
        let (pool, allocation) = (&self.tree.pool, &self.tree.allocation);
        let before = pool.pages();
        let refused = |why| DatabaseError::from(PoolError::Truncate { pages: before, source: io::Error::other(why) });
        {
            // The checkpoint thread may have taken the ended transactions from their list to undo their changes.
            let _none = self.checkpoints.hold_off();
            self.finish_ended()?;
        }
        // Its records name pages that would have moved.
        if self.live.oldest().is_some() {
            return Err(refused("a transaction has not ended, or not freed its pages yet"));
        }
        let _broken = self.panic_guard();
        // A record has at most two whole pages.
        let most = 3 * pool.stats().page_size as u64;
        let mut moved = 0;
        loop {
            let length = pool.pages();
            let all_moved = self.patiently("the file cannot be made shorter", || {
                let mut room = || {
                    self.checkpoint_if_due();
                    self.keep_log_short()?;
                    pool.throttle();
                    self.room_for(RoomUse::Delete, most)
                };
                self.tree.relocate(allocation.packed_end(pool)?, &mut room, &mut moved)
            });
            // On a full disk what is free at the end makes room.
            let full = match all_moved {
                Err(full @ DatabaseError::Full { .. }) => Some(full),
                outcome => outcome.map(|()| None)?,
            };
            self.checkpoint_and(|covering| match covering {
                Some(_) => allocation.truncate(pool),
                None => Err(refused("a checkpoint has not covered all changes; try it again")),
            })?;
            match full {
                None => break,
                Some(_) if pool.pages() < length => {}
                Some(full) => return Err(full),
            }
        }
        // Each file of the log in turn: what is needed is in the other one.
        for _ in 0..2 {
            let room = self.room_for(RoomUse::Delete, OF_CHECKPOINT)?;
            recovery::renew_first_page(&self.tree)?;
            drop(room);
            self.checkpoint_and(|covering| {
                covering.map_or(Ok(()), |checkpoint| self.tree.wal.truncate_to(self.needed_from(checkpoint.covered), 0))
            })?;
        }
        Ok(Shrunk { before, pages: pool.pages(), moved })
    }
}
