//! What the tree's pages look like. All numbers are little-endian; a payload is a page without the pool's
//! header.
//!
//! | payload byte | |
//! | --- | --- |
//! | 0 | kind: 0 nothing, 1 meta, 2 map, 3 node, 4 overflow |

pub(crate) mod cell;
pub(crate) mod edit;
pub(crate) mod map;
pub(crate) mod meta;
pub(crate) mod node;
mod numbers;
pub(crate) mod overflow;

use crate::error::Error;

/// The root's page: it stays there whatever becomes of the tree.
pub(crate) const ROOT: u64 = 2;

/// What the database's page 0 is.
pub(crate) const META: u64 = 0;

/// What a page is, by the first byte of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Nothing = 0,
    Meta = 1,
    Map = 2,
    Node = 3,
    Overflow = 4,
}

impl Kind {
    /// Nothing if no page begins so.
    pub(crate) fn of(payload: &[u8]) -> Option<Self> {
        match payload.first()? {
            0 => Some(Kind::Nothing),
            1 => Some(Kind::Meta),
            2 => Some(Kind::Map),
            3 => Some(Kind::Node),
            4 => Some(Kind::Overflow),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Nothing => "empty",
            Kind::Meta => "a meta page",
            Kind::Map => "an allocation map",
            Kind::Node => "a node",
            Kind::Overflow => "an overflow page",
        }
    }

    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page is not of this kind.
    pub(crate) fn expect(self, page: u64, payload: &[u8]) -> Result<(), Error> {
        match payload.first() {
            Some(&kind) if kind == self as u8 => Ok(()),
            _ => Err(self.not_this(page, payload)),
        }
    }

    #[cold]
    fn not_this(self, page: u64, payload: &[u8]) -> Error {
        let found = match Kind::of(payload) {
            Some(kind) => kind.name().to_owned(),
            None => "of no kind that there is".to_owned(),
        };
        Error::corrupt(
            page,
            format!("it is {found}, and should be {}", self.name()),
        )
    }
}
