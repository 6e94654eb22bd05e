//! Transactions that have ended and have work left: changes to be undone, or pages to be freed. An error that may pass,
//! such as a read that failed or a lack of frames, does not end that work: it goes on with a later call, in the checkpoint
//! thread, or when the database is closed. Until then the keys stay locked, and the log keeps the records.

use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::locks::HeldLocks;
use crate::log::TxnId;
use crate::rollback::UnfinishedTransaction;

/// How often in a row the work is tried.
const TRIES: u32 = 3;

/// A transaction that has ended and has work left.
pub(crate) struct EndedTransaction {
    pub(crate) txn: TxnId,
    pub(crate) left: UnfinishedTransaction,
    pub(crate) held: HeldLocks,
}

impl DatabaseInner {
    /// Repeats work that goes on where it stopped, while its error may pass.
    ///
    /// # Errors
    ///
    /// The last error, or [`DatabaseError::Broken`] if it does not pass.
    pub(crate) fn patiently<R>(
        &self,
        what: &str,
        mut work: impl FnMut() -> Result<R, DatabaseError>,
    ) -> Result<R, DatabaseError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match work() {
                Err(error) if !error.may_pass() || self.tree.wal.has_failed() => return Err(self.break_with(what, &error)),
                Err(error) if tries < TRIES => tracing::debug!(%error, "{what}, and it is tried again"),
                outcome => return outcome,
            }
        }
    }

    /// Does the work that a transaction has left, and releases its locks. After an error that may pass it is done later.
    pub(crate) fn end(&self, mut ended: EndedTransaction) -> Result<(), DatabaseError> {
        let txn = ended.txn;
        let what = "the end of a transaction cannot be completed";
        if let Err(error) = self.patiently(what, || ended.left.finish(&self.tree, txn)) {
            if !matches!(error, DatabaseError::Broken(_)) {
                tracing::warn!(%error, "{what} yet");
                self.ended.lock().push(ended);
                self.checkpoints.wake();
            }
            return Err(error);
        }
        self.live.end(txn);
        self.locks.release(ended.held, true);
        Ok(())
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
