//! What the tree's pages look like. All numbers are little-endian; a payload is a page without the pool's
//! header.
//!
//! | payload byte | |
//! | --- | --- |
//! | 0 | kind: 0 nothing, 1 meta, 2 map, 3 node, 4 overflow |

pub(crate) mod cell;
pub(crate) mod map;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod overflow;

/// The root's page: it stays there whatever becomes of the tree.
pub(crate) const ROOT: u64 = 2;

/// What the database's page 0 is.
pub(crate) const META: u64 = 0;
