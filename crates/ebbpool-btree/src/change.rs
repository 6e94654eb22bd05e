//! What a log record does to pages. The same code changes a page when something happens and when it is
//! redone, so that a page redone is the page that was.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::page::edit::NodeEdit;
use crate::page::map::Maps;
use crate::page::meta::{FORMAT, Meta};
use crate::page::overflow::Part;

/// What one page becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content<'a> {
    /// A node of the tree: `level` 0 is a leaf. `cells` are cells as they stand in a page, one after
    /// the other, in order of their keys.
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
    /// An allocation map in which only the map itself is in use, or in the first one also the pages before
    /// and the root.
    Map,
    /// Page 0.
    Meta { page_size: u32, identity: u64 },
}

/// A change of one page. Slots are positions among a node's cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change<'a> {
    /// All anew: what was there before does not matter.
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
    /// Only the first `count` cells stay: the left half of a split.
    Truncate {
        count: u16,
        next: u64,
    },
    /// More cells at the end: the left node of a merge.
    Append {
        #[serde(with = "serde_bytes")]
        cells: &'a [u8],
        next: u64,
    },
    /// In an allocation map: `count` pages from `first` on are in use, or free.
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
    /// [`Error::Corrupt`] if the page is not one on which this can have happened; it is unchanged then.
    pub(crate) fn apply(&self, page: u64, payload: &mut [u8]) -> Result<(), Error> {
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
                let after = after.ok_or_else(|| {
                    Error::corrupt(page, format!("the log marks pages beyond {first} in it"))
                })?;
                Maps::new(payload.len()).mark(page, payload, first..after, used)
            }
        }
    }
}

impl Content<'_> {
    fn format(&self, page: u64, payload: &mut [u8]) -> Result<(), Error> {
        match *self {
            Content::Node { level, next, cells } => {
                NodeEdit::new(page, payload).format(level, next, cells)
            }
            Content::Overflow { next, bytes } => Part::write(page, payload, next, bytes),
            Content::Map => Maps::new(payload.len()).format(page, payload),
            Content::Meta {
                page_size,
                identity,
            } => {
                let format = FORMAT;
                let meta = Meta {
                    format,
                    page_size,
                    identity,
                };
                meta.write(page, payload)
            }
        }
    }
}

#[cfg(test)]
mod tests;
