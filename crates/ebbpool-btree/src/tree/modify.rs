//! Putting, removing and updating records: one change of one leaf each. Where the leaf has no room
//! for it, or too much of it afterwards, the tree's structure is changed by itself.

use std::ops::ControlFlow;

use ebbpool::{Lsn, WriteGuard};

use super::descend::node_of;
use super::restructure::{apply, slot16};
use super::{Author, Old, Tree};
use crate::change::Change;
use crate::error::Error;
use crate::log::Undo;
use crate::page::ROOT;
use crate::page::cell::{Value, leaf_cell_size, most_inline_cell, most_key_bytes, write_leaf_cell};
use crate::page::node::{Node, SLOT};

/// What is called with each key and value, and may answer a new value.
type Update<'u> =
    &'u mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<(), Option<Vec<u8>>>, Error>;

impl Tree {
    /// Gives a key a value, which was [stored](Self::store) before if it is long. Answers what it
    /// had.
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`] if the value was to be stored before,
    /// [`Error::Corrupt`], what the pool and the log fail with. The key has its old value then.
    pub(crate) fn put(
        &self,
        key: &[u8],
        value: Value<'_>,
        by: &mut dyn Author,
    ) -> Result<Option<Old>, Error> {
        let cell = self.cell(key, value)?;
        loop {
            let mut leaf = self.exclusive(0, |node| node.slot_for(key))?;
            let node = node_of(&leaf)?;
            let place = node.search(key)?;
            if !has_room(&node, place, cell.len())? {
                drop(leaf);
                self.make_room(key, cell.len())?;
                continue;
            }
            let slot = match place {
                Ok(slot) => slot,
                Err(slot) => {
                    let slot = slot16(slot);
                    let change = Change::Insert { slot, cell: &cell };
                    let lsn = self.log(&leaf, Undo::Remove { key }, &change, by)?;
                    apply(&change, &mut leaf, lsn)?;
                    return Ok(None);
                }
            };
            let (old, before) = (Old::from(node.value(slot)?), node.cell(slot)?);
            let shorter = cell.len() < before.len();
            let slot = slot16(slot);
            let change = Change::Replace { slot, cell: &cell };
            let lsn = self.log(&leaf, Undo::Restore { cell: before }, &change, by)?;
            apply(&change, &mut leaf, lsn)?;
            if shorter {
                self.tidy_if_sparse(leaf, key);
            }
            return Ok(Some(old));
        }
    }

    /// Removes a key; nothing if it was not there (and nothing is logged).
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], what the pool and the log fail with. The key is there then as it was.
    pub(crate) fn remove(&self, key: &[u8], by: &mut dyn Author) -> Result<Option<Old>, Error> {
        let mut leaf = self.exclusive(0, |node| node.slot_for(key))?;
        let node = node_of(&leaf)?;
        let Ok(slot) = node.search(key)? else {
            return Ok(None);
        };
        let old = Old::from(node.value(slot)?);
        let undo = Undo::Restore {
            cell: node.cell(slot)?,
        };
        let slot = slot16(slot);
        let change = Change::Remove { slot };
        let lsn = self.log(&leaf, undo, &change, by)?;
        apply(&change, &mut leaf, lsn)?;
        self.tidy_if_sparse(leaf, key);
        Ok(Some(old))
    }

    /// Calls `update` with each key and value of one leaf, from `from` on in it, under its
    /// exclusive latch; what it answers replaces the value if it is `Some` (it has to be inline,
    /// and of the same length). Ends with the leaf, or when it breaks. Answers the smallest key
    /// that the next leaf may have, nothing if there is no next.
    ///
    /// # Errors
    ///
    /// What `update` fails with, [`Error::ValueTooLong`] if a new value has another length or the
    /// old one is not inline, and as [`put`](Self::put). Keys before that have their new values.
    pub(crate) fn update_leaf(
        &self,
        from: &[u8],
        update: Update<'_>,
        by: &mut dyn Author,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut end = None;
        let mut leaf = self.exclusive(0, |node| {
            let slot = node.slot_for(from)?;
            if slot + 1 < node.count() {
                end = Some(node.key(slot + 1)?.to_vec());
            }
            Ok(slot)
        })?;
        if end.as_deref().is_some_and(|end| end <= from) {
            return Err(Error::corrupt(
                leaf.page(),
                "it is not where its keys belong",
            ));
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
            let undo = Undo::Restore {
                cell: node.cell(slot)?,
            };
            let slot = slot16(slot);
            let change = Change::Replace { slot, cell: &cell };
            let lsn = self.log(&leaf, undo, &change, by)?;
            apply(&change, &mut leaf, lsn)?;
        }
        Ok(end)
    }

    /// A record's cell.
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`] if no leaf takes it as it is.
    pub(super) fn cell(&self, key: &[u8], value: Value<'_>) -> Result<Vec<u8>, Error> {
        let payload = self.pool.payload_size();
        let most = most_key_bytes(payload);
        if key.len() > most {
            let length = key.len();
            return Err(Error::KeyTooLong { length, most });
        }
        let size = leaf_cell_size(key, value);
        let most = most_inline_cell(payload);
        if size > most {
            let without = leaf_cell_size(key, Value::Inline(&[]));
            return Err(Error::ValueTooLong {
                length: size - without,
                most: most.saturating_sub(without),
            });
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
        by: &mut dyn Author,
    ) -> Result<Lsn, Error> {
        by.log(&self.wal, undo, vec![(leaf.page(), change.clone())])
    }

    /// Looks for another leaf to merge this one with, if it is less than a quarter full.
    fn tidy_if_sparse(&self, leaf: WriteGuard<'_>, key: &[u8]) {
        let sparse = node_of(&leaf).is_ok_and(|node| self.is_sparse(&node));
        let sparse = sparse && leaf.page() != ROOT;
        drop(leaf);
        if sparse {
            self.tidy(key);
        }
    }
}

/// Whether a leaf has room for a cell where its key is or would be.
pub(super) fn has_room(
    leaf: &Node<'_>,
    place: Result<usize, usize>,
    cell: usize,
) -> Result<bool, Error> {
    Ok(match place {
        Ok(slot) => leaf.free() + leaf.cell(slot)?.len() >= cell,
        Err(_) => leaf.free() >= cell + SLOT,
    })
}

fn expect_length(old: Value<'_>, new: &[u8]) -> Result<(), Error> {
    let most = match old {
        Value::Inline(bytes) => bytes.len(),
        Value::Overflow { .. } => 0,
    };
    let length = new.len();
    match old {
        Value::Inline(_) if length == most => Ok(()),
        _ => Err(Error::ValueTooLong { length, most }),
    }
}
