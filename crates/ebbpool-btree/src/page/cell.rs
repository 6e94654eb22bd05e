//! Cells: what a node has many of.
//!
//! A leaf's cell is the key's length (u16), the value's length (u32, the highest bit set if it overflows), the key, and the value
//! or, if it overflows, the first overflow page's number (u64). An inner node's cell is the key's length (u16), the child's page (u64), and the key;
//! the first cell's key is empty and stands for less than any key. A child has the keys from its
//! cell's key on, up to that of the next cell.

/// A value as a leaf has it.
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
    todo!()
}

/// Bytes that an inner node's cell takes, without its slot.
pub(crate) fn inner_cell_size(key: &[u8]) -> usize {
    todo!()
}

/// Appends a leaf's cell.
pub(crate) fn write_leaf_cell(key: &[u8], value: Value<'_>, into: &mut Vec<u8>) {
    todo!()
}

/// Appends an inner node's cell.
pub(crate) fn write_inner_cell(key: &[u8], child: u64, into: &mut Vec<u8>) {
    todo!()
}

/// A leaf's cell, and the bytes that it takes; nothing if it is not one.
pub(crate) fn read_leaf_cell(bytes: &[u8]) -> Option<(&[u8], Value<'_>, usize)> {
    todo!()
}

/// An inner node's cell: key, child, and the bytes that it takes; nothing if it is not one.
pub(crate) fn read_inner_cell(bytes: &[u8]) -> Option<(&[u8], u64, usize)> {
    todo!()
}

/// The longest key with these payloads: an inner node has room for four at least.
pub(crate) fn most_key_bytes(payload: usize) -> usize {
    todo!()
}

/// The longest leaf cell that is not made an overflowing one: a leaf has room for four.
pub(crate) fn most_inline_cell(payload: usize) -> usize {
    todo!()
}
