//! Locks on keys: a transaction has those that it changed until it ends.
//!
//! By the hash of the key: two keys with one hash are never both changed at once, and nothing else comes
//! of it. Waiting in a circle is found at once, by following who waits for whom.

use std::ops::Bound;
use std::time::Duration;

use crate::error::Error;
use crate::log::TxnId;

/// What is locked, for the whole database.
pub(crate) struct Locks {}

/// What one transaction has locked.
#[derive(Debug, Default)]
pub(crate) struct Held {}

impl Locks {
    pub(crate) fn new(patience: Duration) -> Self {
        todo!()
    }

    /// Locks a key for a transaction, that may have it already.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`].
    pub(crate) fn lock(&self, txn: TxnId, key: &[u8], held: &mut Held) -> Result<(), Error> {
        todo!()
    }

    /// Whether another transaction than `txn` (0: none) has the key. Cheap where nobody has any.
    pub(crate) fn is_locked(&self, txn: TxnId, key: &[u8]) -> bool {
        todo!()
    }

    /// Waits until nobody else has the key.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`].
    pub(crate) fn wait_for(&self, txn: TxnId, key: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// A transaction is about to remove a key that it has locked: scans do not see the key any more, and
    /// have to know that it may come back.
    pub(crate) fn removing(&self, txn: TxnId, key: &[u8], held: &mut Held) {
        todo!()
    }

    /// A key between the bounds that another transaction has removed and may bring back.
    pub(crate) fn removed_between(
        &self,
        txn: TxnId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Option<Vec<u8>> {
        todo!()
    }

    /// Removals taken back so far. A scan during which this has changed may have missed a key.
    pub(crate) fn brought_back(&self) -> u64 {
        todo!()
    }

    /// The transaction has ended; `rolled_back` if its removals were taken back.
    pub(crate) fn release(&self, txn: TxnId, held: Held, rolled_back: bool) {
        todo!()
    }
}
