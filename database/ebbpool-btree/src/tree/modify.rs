//! Putting, removing and updating records: one change of one leaf each. If the leaf has too little room, or
//! is sparse afterwards, separate log records change the tree's structure.

use std::ops::ControlFlow;

use ebbpool::{Lsn, WriteGuard};

use super::descend::node_of;
use super::restructure::{apply, slot16};
use super::{ChangeLogger, OldValue, Tree};
use crate::change::Change;
use crate::error::DatabaseError;
use crate::log::Undo;
use crate::page::ROOT;
use crate::page::cell::{Value, leaf_cell_size, most_inline_cell, most_key_bytes, write_leaf_cell};
use crate::page::node::{Node, SLOT};

/// A function that is called with each key and value, and may return a new value.
type UpdateFn<'u> = &'u mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<(), Option<Vec<u8>>>, DatabaseError>;

impl Tree {
    /// Sets the value of a key. A long value must be [stored](Self::store) before. Returns the old value.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::KeyTooLong`], [`DatabaseError::ValueTooLong`] if the value is long and was not stored,
    /// [`DatabaseError::Corrupt`], errors of the pool and the log. The key has its old value then.
    pub(crate) fn put(
        &self,
        key: &[u8],
        value: Value<'_>,
        logger: &mut dyn ChangeLogger,
    ) -> Result<Option<OldValue>, DatabaseError> {
        let cell = self.cell(key, value)?;
        loop {
            let mut leaf = self.exclusive(0, |node| node.slot_for(key))?;
            let node = node_of(&leaf)?;
            let slot = node.search(key)?;
            if !has_room(&node, slot, cell.len())? {
                drop(leaf);
                self.make_room(key, cell.len())?;
                continue;
            }
            let slot = match slot {
                Ok(slot) => slot,
                Err(slot) => {
                    let slot = slot16(slot);
                    let change = Change::Insert { slot, cell: &cell };
                    let lsn = self.log(&leaf, Undo::Remove { key }, &change, logger)?;
                    apply(&change, &mut leaf, lsn)?;
                    return Ok(None);
                }
            };
            let (old, before) = (OldValue::from(node.value(slot)?), node.cell(slot)?);
            let shorter = cell.len() < before.len();
            let slot = slot16(slot);
            let change = Change::Replace { slot, cell: &cell };
            let lsn = self.log(&leaf, Undo::Restore { cell: before }, &change, logger)?;
            apply(&change, &mut leaf, lsn)?;
            if shorter {
                self.tidy_if_sparse(leaf, key);
            }
            return Ok(Some(old));
        }
    }

    /// Removes a key. Returns nothing, and logs nothing, if it was not there.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`], errors of the pool and the log. The record is unchanged then.
    pub(crate) fn remove(&self, key: &[u8], logger: &mut dyn ChangeLogger) -> Result<Option<OldValue>, DatabaseError> {
        let mut leaf = self.exclusive(0, |node| node.slot_for(key))?;
        let node = node_of(&leaf)?;
        let Ok(slot) = node.search(key)? else {
            return Ok(None);
        };
        let old = OldValue::from(node.value(slot)?);
        let undo = Undo::Restore { cell: node.cell(slot)? };
        let slot = slot16(slot);
        let change = Change::Remove { slot };
        let lsn = self.log(&leaf, undo, &change, logger)?;
        apply(&change, &mut leaf, lsn)?;
        self.tidy_if_sparse(leaf, key);
        Ok(Some(old))
    }

    /// Calls `update` with each key and value of one leaf, from `from` on, under the leaf's exclusive
    /// latch. A value that it returns replaces the old one, which has to be inline and of the same length.
    /// Ends with the leaf, or when `update` breaks. Returns the smallest key that the next leaf may have;
    /// nothing if there is no next leaf.
    ///
    /// # Errors
    ///
    /// Errors of `update`, [`DatabaseError::ValueTooLong`] if a new value has another length or the old one
    /// is not inline, and as [`put`](Self::put). The keys before the failing one have their new values.
    pub(crate) fn update_leaf(
        &self,
        from: &[u8],
        update: UpdateFn<'_>,
        logger: &mut dyn ChangeLogger,
    ) -> Result<Option<Vec<u8>>, DatabaseError> {
        let mut end = None;
        let mut leaf = self.exclusive(0, |node| {
            let slot = node.slot_for(from)?;
            if slot + 1 < node.count() {
                end = Some(node.key(slot + 1)?.to_vec());
            }
            Ok(slot)
        })?;
        if end.as_deref().is_some_and(|end| end <= from) {
            return Err(DatabaseError::corrupt(leaf.page(), "it is not where its keys belong"));
        }
        let node = node_of(&leaf)?;
        let (begin, count) = (node.search(from)?.unwrap_or_else(|slot| slot), node.count());
        let mut cell = Vec::new();
        for slot in begin..count {
            let node = node_of(&leaf)?;
            let (key, value) = (node.key(slot)?, node.value(slot)?);
            let ControlFlow::Continue(new) = update(key, value)? else {
                break;
            };
            let Some(new) = new else { continue };
            expect_length(value, &new)?;
            cell.clear();
            write_leaf_cell(key, Value::Inline(&new), &mut cell);
            let undo = Undo::Restore { cell: node.cell(slot)? };
            let slot = slot16(slot);
            let change = Change::Replace { slot, cell: &cell };
            let lsn = self.log(&leaf, undo, &change, logger)?;
            apply(&change, &mut leaf, lsn)?;
        }
        Ok(end)
    }

    /// The cell of a record.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::KeyTooLong`], [`DatabaseError::ValueTooLong`] if the cell is too long for a leaf.
    pub(super) fn cell(&self, key: &[u8], value: Value<'_>) -> Result<Vec<u8>, DatabaseError> {
        let payload = self.pool.payload_size();
        let most = most_key_bytes(payload);
        if key.len() > most {
            let length = key.len();
            return Err(DatabaseError::KeyTooLong { length, most });
        }
        let size = leaf_cell_size(key, value);
        let most = most_inline_cell(payload);
        if size > most {
            let without = leaf_cell_size(key, Value::Inline(&[]));
            return Err(DatabaseError::ValueTooLong { length: size - without, most: most.saturating_sub(without) });
        }
        let mut cell = Vec::with_capacity(size);
        write_leaf_cell(key, value, &mut cell);
        Ok(cell)
    }

    fn log(
        &self,
        leaf: &WriteGuard<'_>,
        undo: Undo<'_>,
        change: &Change<'_>,
        logger: &mut dyn ChangeLogger,
    ) -> Result<Lsn, DatabaseError> {
        logger.log(&self.wal, undo, vec![(leaf.page(), change.clone())])
    }

    /// Merges a leaf with a neighbour, if it is less than a quarter full.
    fn tidy_if_sparse(&self, leaf: WriteGuard<'_>, key: &[u8]) {
        let sparse = node_of(&leaf).is_ok_and(|node| self.is_sparse(&node));
        let sparse = sparse && leaf.page() != ROOT;
        drop(leaf);
        if sparse {
            self.tidy(key);
        }
    }
}

/// Whether a leaf has room for a cell at the slot where its key is (`Ok`) or would be (`Err`).
pub(super) fn has_room(leaf: &Node<'_>, slot: Result<usize, usize>, cell: usize) -> Result<bool, DatabaseError> {
    Ok(match slot {
        Ok(slot) => leaf.free() + leaf.cell(slot)?.len() >= cell,
        Err(_) => leaf.free() >= cell + SLOT,
    })
}

fn expect_length(old: Value<'_>, new: &[u8]) -> Result<(), DatabaseError> {
    let most = match old {
        Value::Inline(bytes) => bytes.len(),
        Value::Overflow { .. } => 0,
    };
    let length = new.len();
    match old {
        Value::Inline(_) if length == most => Ok(()),
        _ => Err(DatabaseError::ValueTooLong { length, most }),
    }
}
