//! Transactions that have ended and have work left: changes to be undone, or pages to be freed. An error that may pass,
//! such as a read that failed or a lack of frames, does not end that work: it goes on with a later call, in the checkpoint
//! thread, or when the database is closed. Until then the keys stay locked, readers see what they were before, and the log
//! keeps the records.

use ebbpool::Lsn;

use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::locks::HeldLocks;
use crate::log::{PromisedRoom, RoomUse, TxnId};
use crate::options::Durability;
use crate::rollback::UnfinishedTransaction;
use crate::tree::Tree;

/// How often in a row the work is tried.
const TRIES: u32 = 3;

/// A transaction that has ended and has work left.
pub(crate) struct EndedTransaction {
    pub(crate) txn: TxnId,
    pub(crate) left: UnfinishedTransaction,
    pub(crate) held: HeldLocks,
    /// How durable its commit has to be before its keys are unlocked, and where the commit ends.
    pub(crate) commit: Option<(Durability, Lsn)>,
    /// The room in the log for its rollback.
    pub(crate) room: u64,
}

impl EndedTransaction {
    fn finish(&mut self, inner: &DatabaseInner) -> Result<(), DatabaseError> {
        let tree = &inner.tree;
        if let Some((durability, lsn)) = self.commit {
            make_durable(tree, durability, lsn)?;
            self.commit = None;
            inner.locks.show(lsn);
            inner.locks.release(&mut self.held, false);
        }
        self.left.finish(tree, self.txn)?;
        make_durable(tree, inner.durability, self.held.after)?;
        inner.locks.show(self.held.after);
        Ok(())
    }
}

fn make_durable(tree: &Tree, durability: Durability, lsn: Lsn) -> Result<(), DatabaseError> {
    match durability {
        Durability::Buffered if lsn > 0 => tree.wal.write(),
        Durability::Synced => tree.wal.sync(lsn),
        _ => Ok(()),
    }
}

impl DatabaseInner {
    /// Repeats work that goes on where it stopped, while its error may pass. One that does not pass breaks the database.
    pub(crate) fn patiently(
        &self,
        what: &str,
        mut work: impl FnMut() -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome = work();
            match &outcome {
                Err(error) if !error.may_pass() || self.tree.wal.has_failed() => _ = self.break_with(what, error),
                Err(_) if tries < TRIES => continue,
                _ => {}
            }
            return outcome;
        }
    }

    /// Does the work that a transaction has left, and releases its locks. After an error that may pass it is done later.
    ///
    /// # Errors
    ///
    /// Why it has not committed or is not rolled back yet. A committed transaction whose pages are not freed is no error.
    pub(crate) fn end(&self, mut ended: EndedTransaction) -> Result<(), DatabaseError> {
        let what = "the end of a transaction cannot be completed";
        let Err(error) = self.patiently(what, || ended.finish(self)) else {
            // Until then readers may need its records in the log.
            self.locks.release(&mut ended.held, true);
            self.live.end(ended.txn);
            self.tree.wal.release_room(ended.room);
            return Ok(());
        };
        let undecided = ended.commit.is_some() || ended.left.is_rollback();
        if self.check_writable().is_ok() {
            tracing::warn!(%error, "{what} yet");
            self.ended.lock().push(ended);
            self.checkpoints.wake();
        }
        match undecided {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// Promises an operation room for `bytes` of log. On a full disk a checkpoint makes room if it can; one that cannot would only
    /// make the log longer.
    pub(crate) fn room_for(&self, room_use: RoomUse, bytes: u64) -> Result<PromisedRoom<'_>, DatabaseError> {
        let wal = &*self.tree.wal;
        match wal.promise_room(bytes, room_use) {
            Err(full @ DatabaseError::Full { .. }) if wal.has_other_room(self.needed_from(Lsn::MAX)) => match self.checkpoint()
            {
                Ok(()) => wal.promise_room(bytes, room_use),
                Err(_) => Err(self.check_writable().err().unwrap_or(full)),
            },
            outcome => outcome,
        }
    }

    /// Goes on with the work of ended transactions. The caller holds no latch.
    ///
    /// # Errors
    ///
    /// As [`end`](Self::end), if work is left.
    pub(crate) fn finish_ended(&self) -> Result<(), DatabaseError> {
        let ended = std::mem::take(&mut *self.ended.lock());
        if ended.is_empty() {
            return Ok(());
        }
        let _broken = self.panic_guard();
        let ended = ended.into_iter().map(|ended| self.check_writable().and_then(|()| self.end(ended)));
        ended.fold(Ok(()), Result::and)
    }
}
