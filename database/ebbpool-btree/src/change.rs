//! The changes of pages in log records. The same code changes a page in operation and in redo, so that redo
//! restores the page byte for byte.

use serde::{Deserialize, Serialize};

use crate::error::DatabaseError;
use crate::page::edit::NodeEdit;
use crate::page::map::AllocationMaps;
use crate::page::meta::{FORMAT, MetaPage};
use crate::page::overflow::OverflowPart;

/// The content that a page is formatted with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content<'a> {
    /// A node of the tree; one of `level` 0 is a leaf. `cells` has the cells as they are stored in a page,
    /// one after the other, in order of their keys.
    Node {
        level: u8,
        /// The leaf to the right, 0 for none; 0 in inner nodes.
        next: u64,
        #[serde(borrow, with = "serde_bytes")]
        cells: &'a [u8],
    },
    /// Part of a long value.
    Overflow {
        /// The page with the next part, 0 for none.
        next: u64,
        #[serde(with = "serde_bytes")]
        bytes: &'a [u8],
    },
    /// An allocation map in which only the map itself is marked as in use, and in the first map also the
    /// meta page and the root.
    Map,
    /// Page 0.
    Meta { page_size: u32, identity: u64 },
}

/// A change of one page. Slots are positions among a node's cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change<'a> {
    /// Replaces all of the page, whatever it held before.
    Format(#[serde(borrow)] Content<'a>),
    Insert {
        slot: u16,
        #[serde(with = "serde_bytes")]
        cell: &'a [u8],
    },
    Replace {
        slot: u16,
        #[serde(with = "serde_bytes")]
        cell: &'a [u8],
    },
    Remove {
        slot: u16,
    },
    /// Keeps only the first `count` cells: the left half of a split.
    Truncate {
        count: u16,
        next: u64,
    },
    /// Adds cells at the end: the left node of a merge.
    Append {
        #[serde(with = "serde_bytes")]
        cells: &'a [u8],
        next: u64,
    },
    /// Marks `count` pages from `first` on as in use or free, in an allocation map.
    Mark {
        first: u64,
        count: u32,
        used: bool,
    },
}

impl Change<'_> {
    /// Changes the payload of `page`.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if the page cannot take the change; it is unchanged then.
    pub(crate) fn apply(&self, page: u64, payload: &mut [u8]) -> Result<(), DatabaseError> {
        let mut node = NodeEdit::new(page, payload);
        match *self {
            Change::Format(ref content) => content.format(page, payload),
            Change::Insert { slot, cell } => node.insert(slot.into(), cell),
            Change::Replace { slot, cell } => node.replace(slot.into(), cell),
            Change::Remove { slot } => node.remove(slot.into()),
            Change::Truncate { count, next } => node.truncate(count.into(), next),
            Change::Append { cells, next } => node.append(cells, next),
            Change::Mark { first, count, used } => {
                let after = first.checked_add(count.into());
                let after =
                    after.ok_or_else(|| DatabaseError::corrupt(page, format!("the log marks pages beyond {first} in it")))?;
                AllocationMaps::new(payload.len()).mark(page, payload, first..after, used)
            }
        }
    }
}

impl Content<'_> {
    fn format(&self, page: u64, payload: &mut [u8]) -> Result<(), DatabaseError> {
        match *self {
            Content::Node { level, next, cells } => NodeEdit::new(page, payload).format(level, next, cells),
            Content::Overflow { next, bytes } => OverflowPart::write(page, payload, next, bytes),
            Content::Map => AllocationMaps::new(payload.len()).format(page, payload),
            Content::Meta { page_size, identity } => {
                let format = FORMAT;
                let meta = MetaPage { format, page_size, identity };
                meta.write(page, payload)
            }
        }
    }
}

#[cfg(test)]
mod tests;
