//! Nodes: slotted pages.
//!
//! | payload bytes | |
//! | --- | --- |
//! | 0 | kind |
//! | 1 | level, 0 for leaves |
//! | 2..4 | cells |
//! | 4..6 | where the heap of cells begins, which ends with the payload |
//! | 6..8 | bytes in the heap that belong to no cell any more |
//! | 8..16 | the leaf to the right, 0 for none |
//! | 16.. | a u16 for each cell, in order of the keys: where it begins |

use std::cmp::Ordering;
use std::ops::Range;

use super::PageKind;
use super::cell::{INNER_KEY, LEAF_KEY, Value, cell_size, most_inline_cell, most_key_bytes, read_inner_cell, read_leaf_cell};
use super::numbers::{u16_at, u64_at};
use crate::error::DatabaseError;

pub(crate) const NODE_HEADER: usize = 16;

/// The length of a cell's slot in bytes.
pub(crate) const SLOT: usize = 2;

/// Bytes of a key that are compared as a number first, which is faster than comparing bytes.
const HEAD: usize = 8;

/// The offsets of the header's fields.
pub(super) const LEVEL: usize = 1;
pub(super) const COUNT: usize = 2;
pub(super) const HEAP: usize = 4;
pub(super) const GARBAGE: usize = 6;
pub(super) const NEXT: usize = 8;

/// A node to be read. No content of its page makes it panic.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    page: u64,
    payload: &'a [u8],
    level: u8,
    count: u16,
    heap: u16,
    garbage: u16,
}

impl<'a> Node<'a> {
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if the page is not a node, or its header is impossible.
    #[inline]
    pub(crate) fn open(page: u64, payload: &'a [u8]) -> Result<Self, DatabaseError> {
        PageKind::Node.expect(page, payload)?;
        match Self::header(page, payload) {
            Some(node) => Ok(node),
            None => Err(DatabaseError::corrupt(page, "the header of the node is impossible")),
        }
    }

    #[inline]
    fn header(page: u64, payload: &'a [u8]) -> Option<Self> {
        let node = Node {
            page,
            payload,
            level: *payload.get(LEVEL)?,
            count: u16_at(payload, COUNT)?,
            heap: u16_at(payload, HEAP)?,
            garbage: u16_at(payload, GARBAGE)?,
        };
        let heap = usize::from(node.heap);
        let whole =
            payload.len() >= NODE_HEADER && node.slots_end() <= heap && heap + usize::from(node.garbage) <= payload.len();
        whole.then_some(node)
    }

    /// The page of the node.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The leaf to the right.
    pub(crate) fn next(&self) -> Option<u64> {
        u64_at(self.payload, NEXT).filter(|&next| next != 0)
    }

    /// The key at a slot.
    #[inline]
    pub(crate) fn key(&self, slot: usize) -> Result<&'a [u8], DatabaseError> {
        match self.key_at(slot) {
            Some(key) => Ok(key),
            None => Err(self.no_cell(slot)),
        }
    }

    #[inline]
    fn key_at(&self, slot: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes_from(slot)?;
        let length = usize::from(u16_at(bytes, 0)?);
        let begin = self.key_begin();
        bytes.get(begin..begin + length)
    }

    /// The offset of the key in a cell.
    #[inline]
    fn key_begin(&self) -> usize {
        match self.level {
            0 => LEAF_KEY,
            _ => INNER_KEY,
        }
    }

    /// The payload from where a cell begins.
    #[inline]
    fn bytes_from(&self, slot: usize) -> Option<&'a [u8]> {
        if slot >= self.count() {
            return None;
        }
        let begin = u16_at(self.payload, NODE_HEADER + slot * SLOT)?;
        self.payload.get(usize::from(begin)..)
    }

    /// A leaf's value at a slot.
    #[inline]
    pub(crate) fn value(&self, slot: usize) -> Result<Value<'a>, DatabaseError> {
        let leaf = self.is_leaf();
        let cell = self.bytes_from(slot).filter(|_| leaf);
        match cell.and_then(read_leaf_cell) {
            Some((_, value, _)) => Ok(value),
            None => Err(self.no_cell(slot)),
        }
    }

    /// An inner node's child at a slot.
    #[inline]
    pub(crate) fn child(&self, slot: usize) -> Result<u64, DatabaseError> {
        let inner = !self.is_leaf();
        let cell = self.bytes_from(slot).filter(|_| inner);
        match cell.and_then(read_inner_cell) {
            Some((_, child, _)) => Ok(child),
            None => Err(self.no_cell(slot)),
        }
    }

    /// The bytes of the cell at a slot.
    pub(crate) fn cell(&self, slot: usize) -> Result<&'a [u8], DatabaseError> {
        let range = self.cell_range(slot)?;
        self.payload.get(range).ok_or_else(|| self.no_cell(slot))
    }

    /// The range of a cell in the payload, which is always in the heap.
    pub(super) fn cell_range(&self, slot: usize) -> Result<Range<usize>, DatabaseError> {
        let range = self.bytes_from(slot).and_then(|bytes| {
            let begin = self.payload.len() - bytes.len();
            let size = cell_size(self.level, bytes)?;
            (begin >= usize::from(self.heap)).then_some(begin..begin + size)
        });
        range.ok_or_else(|| self.no_cell(slot))
    }

    /// The cells of these slots, as [`Content`](crate::change::Content) and
    /// [`Change::Append`](crate::change::Change) contain them.
    pub(crate) fn cells(&self, slots: Range<usize>) -> Result<Vec<u8>, DatabaseError> {
        let mut cells = Vec::with_capacity(self.heap_bytes());
        for slot in slots {
            cells.extend_from_slice(self.cell(slot)?);
        }
        Ok(cells)
    }

    /// The slot at which a key is (`Ok`), or would be (`Err`).
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<Result<usize, usize>, DatabaseError> {
        let head = head(key);
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.compare(middle, key, head)? {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(low))
    }

    #[inline]
    fn compare(&self, slot: usize, key: &[u8], head: u64) -> Result<Ordering, DatabaseError> {
        match self.order(slot, key, head) {
            Some(order) => Ok(order),
            None => Err(self.no_cell(slot)),
        }
    }

    /// How the key at a slot compares to another one with this [`head`].
    #[inline]
    fn order(&self, slot: usize, key: &[u8], head: u64) -> Option<Ordering> {
        let bytes = self.bytes_from(slot)?;
        let length = usize::from(u16_at(bytes, 0)?);
        let rest = bytes.get(self.key_begin()..)?;
        let own = rest.get(..length)?;
        let own_head = match rest.first_chunk() {
            Some(&eight) => {
                let others = 64 - 8 * length.min(HEAD) as u32;
                u64::from_be_bytes(eight) & u64::MAX.checked_shl(others).unwrap_or(0)
            }
            None => self::head(own),
        };
        Some(match own_head.cmp(&head) {
            Ordering::Equal => match (own.get(HEAD..), key.get(HEAD..)) {
                (Some(own), Some(key)) => own.cmp(key),
                // One of them ends within the head, or both do.
                _ => own.len().cmp(&key.len()),
            },
            order => order,
        })
    }

    /// The slot of the child that has a key.
    #[inline]
    pub(crate) fn slot_for(&self, key: &[u8]) -> Result<usize, DatabaseError> {
        match self.search(key)? {
            Ok(slot) => Ok(slot),
            Err(0) => Err(self.corrupt("it has no child for the least keys")),
            Err(after) => Ok(after - 1),
        }
    }

    /// Bytes that more cells may use, slots included, once the heap is compacted.
    pub(crate) fn free(&self) -> usize {
        self.gap() + self.garbage()
    }

    /// Bytes between the slots and the heap.
    pub(super) fn gap(&self) -> usize {
        usize::from(self.heap) - self.slots_end()
    }

    /// The length of the heap in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.payload.len() - usize::from(self.heap)
    }

    /// Bytes in the heap that belong to no cell.
    pub(super) fn garbage(&self) -> usize {
        usize::from(self.garbage)
    }

    fn slots_end(&self) -> usize {
        NODE_HEADER + self.count() * SLOT
    }

    /// Bytes that cells and slots use.
    pub(crate) fn used(&self) -> usize {
        Self::capacity(self.payload.len()) - self.free()
    }

    /// Bytes that cells and slots may use together.
    pub(crate) fn capacity(payload: usize) -> usize {
        payload.saturating_sub(NODE_HEADER)
    }

    /// Checks the whole node: that cells lie within the heap and do not overlap, that keys ascend, that the
    /// sums are right.
    pub(crate) fn verify(&self) -> Result<(), DatabaseError> {
        self.verify_heap()?;
        self.verify_keys()?;
        match self.is_leaf() {
            true => self.verify_leaf(),
            false => self.verify_inner(),
        }
    }

    fn verify_heap(&self) -> Result<(), DatabaseError> {
        let ranges = (0..self.count()).map(|slot| self.cell_range(slot));
        let mut ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        ranges.sort_unstable_by_key(|range| range.start);
        if ranges.windows(2).any(|two| two[0].end > two[1].start) {
            return Err(self.corrupt("two of its cells overlap"));
        }
        let cells: usize = ranges.iter().map(Range::len).sum();
        let heap = self.heap_bytes();
        match heap - cells == self.garbage() {
            true => Ok(()),
            false => {
                Err(self
                    .corrupt(format!("its cells take {cells} bytes of {heap}, and it says that {} are unused", self.garbage)))
            }
        }
    }

    fn verify_keys(&self) -> Result<(), DatabaseError> {
        let most = most_key_bytes(self.payload.len());
        let mut before: Option<&[u8]> = None;
        for slot in 0..self.count() {
            let key = self.key(slot)?;
            if key.len() > most {
                return Err(self.corrupt(format!("the key at slot {slot} has {} bytes, and may have {most}", key.len())));
            }
            if before.is_some_and(|before| before >= key) {
                return Err(self.corrupt(format!("the key at slot {slot} is not greater than the one before it")));
            }
            before = Some(key);
        }
        Ok(())
    }

    fn verify_leaf(&self) -> Result<(), DatabaseError> {
        let most = most_inline_cell(self.payload.len());
        for slot in 0..self.count() {
            let size = self.cell(slot)?.len();
            if size > most {
                return Err(self.corrupt(format!("the cell at slot {slot} has {size} bytes, and may have {most}")));
            }
        }
        Ok(())
    }

    fn verify_inner(&self) -> Result<(), DatabaseError> {
        if self.count == 0 {
            return Err(self.corrupt("it is an inner node without children"));
        }
        if !self.key(0)?.is_empty() {
            return Err(self.corrupt("the first key of an inner node is not empty"));
        }
        match self.next() {
            None => Ok(()),
            Some(next) => Err(self.corrupt(format!("an inner node names page {next} as the leaf to its right"))),
        }
    }

    #[cold]
    fn no_cell(&self, slot: usize) -> DatabaseError {
        let kind = match self.is_leaf() {
            true => "leaf's",
            false => "inner node's",
        };
        let count = self.count;
        self.corrupt(format!("there is no {kind} cell at slot {slot} of {count}"))
    }

    #[cold]
    fn corrupt(&self, what: impl Into<String>) -> DatabaseError {
        DatabaseError::corrupt(self.page, what)
    }
}

/// The first eight bytes of a key as a number, padded with zeros: if the numbers of two keys differ, the
/// keys compare as the numbers do.
#[inline]
fn head(key: &[u8]) -> u64 {
    let mut eight = [0; HEAD];
    for (to, from) in eight.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(eight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::{Change, Content};
    use crate::page::cell::write_leaf_cell;

    /// Keys of about eight bytes that differ in their last bytes, or only in the number of trailing zeros.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop::sample::select(vec![0, 0, 0, 1, 255]);
        prop::collection::vec(bytes, 0..12)
    }

    proptest! {
        #[test]
        fn a_search_in_a_node_equals_a_search_in_a_vector(
            keys in prop::collection::btree_set(key(), 0..25),
            searched in prop::collection::vec(key(), 1..50),
        ) {
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let mut cells = Vec::new();
            for key in &keys {
                write_leaf_cell(key, Value::Inline(b""), &mut cells);
            }
            let content = Content::Node { level: 0, next: 0, cells: &cells };
            let mut payload = vec![0; 1 << 10];
            Change::Format(content).apply(3, &mut payload).unwrap();
            let node = Node::open(3, &payload).unwrap();
            for searched in keys.iter().chain(&searched) {
                prop_assert_eq!(node.search(searched).unwrap(), keys.binary_search(searched));
            }
        }
    }
}
