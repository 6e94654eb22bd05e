//! The cells of nodes.
//!
//! A leaf's cell is the key's length (u16), the value's length (u32, the highest bit set if it
//! overflows), the key, and the value or, if it overflows, the first overflow page's number (u64). An
//! inner node's cell is the key's length (u16), the child's page (u64), and the key; the first cell's
//! key is empty and stands for less than any key. A child has the keys from its cell's key on, up to
//! that of the next cell.

use super::node::{Node, SLOT};
use super::numbers::{u16_at, u32_at, u64_at};

/// Where the key begins in a leaf's cell.
pub(super) const LEAF_KEY: usize = 6;

/// Where the key begins in an inner node's cell.
pub(super) const INNER_KEY: usize = 10;

/// The length of an overflow page's number in bytes.
const REFERENCE: usize = 8;

const OVERFLOWS: u32 = 1 << 31;

/// A value as a leaf stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Inline(&'a [u8]),
    /// `length` bytes in a chain of overflow pages.
    Overflow {
        first: u64,
        length: u32,
    },
}

/// Bytes that a leaf's cell takes, without its slot.
pub(crate) fn leaf_cell_size(key: &[u8], value: Value<'_>) -> usize {
    LEAF_KEY
        + key.len()
        + match value {
            Value::Inline(bytes) => bytes.len(),
            Value::Overflow { .. } => REFERENCE,
        }
}

/// Bytes that an inner node's cell takes, without its slot.
pub(crate) fn inner_cell_size(key: &[u8]) -> usize {
    INNER_KEY + key.len()
}

/// Appends a leaf's cell.
pub(crate) fn write_leaf_cell(key: &[u8], value: Value<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(&(key.len() as u16).to_le_bytes());
    match value {
        Value::Inline(bytes) => {
            into.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            into.extend_from_slice(key);
            into.extend_from_slice(bytes);
        }
        Value::Overflow { first, length } => {
            into.extend_from_slice(&(length | OVERFLOWS).to_le_bytes());
            into.extend_from_slice(key);
            into.extend_from_slice(&first.to_le_bytes());
        }
    }
}

/// Appends an inner node's cell.
pub(crate) fn write_inner_cell(key: &[u8], child: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(&(key.len() as u16).to_le_bytes());
    into.extend_from_slice(&child.to_le_bytes());
    into.extend_from_slice(key);
}

/// Reads a leaf's cell: key, value, and its length; nothing if it is not one.
#[inline]
pub(crate) fn read_leaf_cell(bytes: &[u8]) -> Option<(&[u8], Value<'_>, usize)> {
    let key_length = usize::from(u16_at(bytes, 0)?);
    let length = u32_at(bytes, 2)?;
    let (key, rest) = bytes.get(LEAF_KEY..)?.split_at_checked(key_length)?;
    let (value, value_length) = match length & OVERFLOWS {
        0 => {
            let length = usize::try_from(length).ok()?;
            (Value::Inline(rest.get(..length)?), length)
        }
        _ => {
            let first = u64_at(rest, 0)?;
            let length = length & !OVERFLOWS;
            (Value::Overflow { first, length }, REFERENCE)
        }
    };
    Some((key, value, LEAF_KEY + key_length + value_length))
}

/// Reads an inner node's cell: key, child, and its length; nothing if it is not one.
#[inline]
pub(crate) fn read_inner_cell(bytes: &[u8]) -> Option<(&[u8], u64, usize)> {
    let key_length = usize::from(u16_at(bytes, 0)?);
    let child = u64_at(bytes, 2)?;
    let key = bytes.get(INNER_KEY..)?.get(..key_length)?;
    Some((key, child, INNER_KEY + key_length))
}

/// The length of the first of these cells, in a node of this level; nothing if it is not a cell.
#[inline]
pub(crate) fn cell_size(level: u8, bytes: &[u8]) -> Option<usize> {
    match level {
        0 => read_leaf_cell(bytes).map(|(_, _, size)| size),
        _ => read_inner_cell(bytes).map(|(_, _, size)| size),
    }
}

/// The length of the longest key with payloads of this size. An inner node has room for at least six such
/// keys, so that it can be split and take one more.
pub(crate) fn most_key_bytes(payload: usize) -> usize {
    Node::capacity(payload) / 8
}

/// The length of the longest leaf cell with an inline value. A leaf has room for three such cells, so that
/// each half of a split leaf has room for one more.
pub(crate) fn most_inline_cell(payload: usize) -> usize {
    let third = (Node::capacity(payload) / 3).saturating_sub(SLOT);
    third.max(LEAF_KEY + most_key_bytes(payload) + REFERENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_are_laid_out_as_described() {
        let mut cells = Vec::new();
        write_leaf_cell(b"k", Value::Inline(b"vv"), &mut cells);
        assert_eq!(cells, b"\x01\0\x02\0\0\0kvv");
        cells.clear();
        let (first, length) = (0x0102, 70_000);
        write_leaf_cell(b"k", Value::Overflow { first, length }, &mut cells);
        assert_eq!(cells, b"\x01\0\x70\x11\x01\x80k\x02\x01\0\0\0\0\0\0");
        cells.clear();
        write_inner_cell(b"k", 3, &mut cells);
        assert_eq!(cells, b"\x01\0\x03\0\0\0\0\0\0\0k");
    }

    #[test]
    fn the_longest_cells_leave_room_for_others_and_for_a_reference() {
        for size in (9..=15).map(|bits| 1usize << bits) {
            let payload = size - ebbpool::HEADER_BYTES;
            let capacity = Node::capacity(payload);
            let key = vec![0; most_key_bytes(payload)];
            assert!(key.len() * 8 > capacity - 8);
            assert!(6 * (inner_cell_size(&key) + SLOT) <= capacity, "{size}");
            let most = most_inline_cell(payload);
            assert!(3 * (most + SLOT) <= capacity, "{size}");
            let reference = Value::Overflow { first: 9, length: 9 };
            assert!(leaf_cell_size(&key, reference) <= most, "{size}");
        }
    }

    proptest! {
        #[test]
        fn cells_read_as_they_were_written(
            key: Vec<u8>,
            value: Vec<u8>,
            first: u64,
            length in 0..1u32 << 31,
            rest: Vec<u8>,
        ) {
            for value in [Value::Inline(&value), Value::Overflow { first, length }] {
                let mut cell = Vec::new();
                write_leaf_cell(&key, value, &mut cell);
                let size = cell.len();
                prop_assert_eq!(size, leaf_cell_size(&key, value));
                for end in 0..size {
                    prop_assert_eq!(read_leaf_cell(&cell[..end]), None);
                }
                cell.extend(&rest);
                prop_assert_eq!(read_leaf_cell(&cell), Some((&key[..], value, size)));
            }
            let mut cell = Vec::new();
            write_inner_cell(&key, first, &mut cell);
            let size = cell.len();
            prop_assert_eq!(size, inner_cell_size(&key));
            for end in 0..size {
                prop_assert_eq!(read_inner_cell(&cell[..end]), None);
            }
            cell.extend(&rest);
            prop_assert_eq!(read_inner_cell(&cell), Some((&key[..], first, size)));
        }
    }
}
