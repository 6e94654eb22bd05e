//! The layout of the tree's pages. All numbers are little-endian; a payload is a page without the pool's
//! header.
//!
//! | payload byte | |
//! | --- | --- |
//! | 0 | kind: 0 nothing, 1 meta, 2 map, 3 node, 4 overflow |

pub(crate) mod cell;
pub(crate) mod class;
pub(crate) mod edit;
pub(crate) mod map;
pub(crate) mod meta;
pub(crate) mod node;
mod numbers;
pub(crate) mod overflow;

use crate::error::DatabaseError;

/// The root's page, which is always the same.
pub(crate) const ROOT: u64 = 2;

/// The meta page.
pub(crate) const META: u64 = 0;

/// The kind of a page, by the first byte of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    Nothing = 0,
    Meta = 1,
    Map = 2,
    Node = 3,
    Overflow = 4,
}

impl PageKind {
    /// The kind of a payload; nothing if its first byte is no kind.
    pub(crate) fn from_payload(payload: &[u8]) -> Option<Self> {
        match payload.first()? {
            0 => Some(PageKind::Nothing),
            1 => Some(PageKind::Meta),
            2 => Some(PageKind::Map),
            3 => Some(PageKind::Node),
            4 => Some(PageKind::Overflow),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            PageKind::Nothing => "empty",
            PageKind::Meta => "a meta page",
            PageKind::Map => "an allocation map",
            PageKind::Node => "a node",
            PageKind::Overflow => "an overflow page",
        }
    }

    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if a page is not of this kind.
    pub(crate) fn expect(self, page: u64, payload: &[u8]) -> Result<(), DatabaseError> {
        match payload.first() {
            Some(&kind) if kind == self as u8 => Ok(()),
            _ => Err(self.not_this(page, payload)),
        }
    }

    #[cold]
    fn not_this(self, page: u64, payload: &[u8]) -> DatabaseError {
        let found = match PageKind::from_payload(payload) {
            Some(kind) => kind.name().to_owned(),
            None => "of an unknown kind".to_owned(),
        };
        DatabaseError::corrupt(page, format!("it is {found}, and should be {}", self.name()))
    }
}
