//! Changes of nodes. The same edit of the same bytes always gives the same result, and an edit that fails
//! changes nothing.

use std::ops::Range;

use super::PageKind;
use super::cell::cell_size;
use super::node::{COUNT, GARBAGE, HEAP, LEVEL, NEXT, NODE_HEADER, Node, SLOT};
use super::numbers::put;
use crate::error::DatabaseError;

/// The longest payload: the offsets of cells have to fit into 16 bits.
const LONGEST_PAYLOAD: usize = u16::MAX as usize;

/// A node to be changed.
pub(crate) struct NodeEdit<'a> {
    page: u64,
    payload: &'a mut [u8],
}

impl<'a> NodeEdit<'a> {
    pub(crate) fn new(page: u64, payload: &'a mut [u8]) -> Self {
        NodeEdit { page, payload }
    }

    /// Makes the page a node with these cells, whatever it was before.
    pub(crate) fn format(&mut self, level: u8, next: u64, cells: &[u8]) -> Result<(), DatabaseError> {
        let length = self.payload.len();
        if !(NODE_HEADER..=LONGEST_PAYLOAD).contains(&length) {
            return Err(self.corrupt("no node is of this length"));
        }
        let count = self.count_cells(level, cells)?;
        if cells.len() + count * SLOT > Node::capacity(length) {
            return Err(self.no_room(cells.len()));
        }
        self.payload.fill(0);
        self.payload[0] = PageKind::Node as u8;
        self.payload[LEVEL] = level;
        self.set_next(next);
        self.append_to_heap(level, 0, length, cells);
        Ok(())
    }

    /// Inserts a cell before the one at a slot, or after all.
    pub(crate) fn insert(&mut self, slot: usize, cell: &[u8]) -> Result<(), DatabaseError> {
        let node = self.open()?;
        let (level, count) = (node.level(), node.count());
        if slot > count {
            return Err(self.no_slot(slot));
        }
        self.check_cell(level, cell)?;
        let begin = self.make_room(cell.len(), SLOT, None)?;
        let slots = NODE_HEADER + slot * SLOT..NODE_HEADER + count * SLOT;
        self.payload.copy_within(slots.clone(), slots.start + SLOT);
        put(self.payload, begin, cell);
        self.set_u16(slots.start, begin);
        self.set_u16(COUNT, count + 1);
        self.set_u16(HEAP, begin);
        Ok(())
    }

    /// Replaces a cell.
    pub(crate) fn replace(&mut self, slot: usize, cell: &[u8]) -> Result<(), DatabaseError> {
        let node = self.open()?;
        let level = node.level();
        let old = node.cell_range(slot)?;
        self.check_cell(level, cell)?;
        if cell.len() <= old.len() {
            self.add_garbage(old.len() - cell.len())?;
            put(self.payload, old.start, cell);
            return Ok(());
        }
        let begin = self.make_room(cell.len(), 0, Some((slot, old)))?;
        put(self.payload, begin, cell);
        self.set_u16(NODE_HEADER + slot * SLOT, begin);
        self.set_u16(HEAP, begin);
        Ok(())
    }

    /// Removes the cell at a slot.
    pub(crate) fn remove(&mut self, slot: usize) -> Result<(), DatabaseError> {
        let node = self.open()?;
        let count = node.count();
        let size = node.cell_range(slot)?.len();
        self.add_garbage(size)?;
        let slots = NODE_HEADER + (slot + 1) * SLOT..NODE_HEADER + count * SLOT;
        let to = slots.start - SLOT;
        self.payload.copy_within(slots, to);
        self.set_u16(COUNT, count - 1);
        Ok(())
    }

    /// Keeps only the first `count` cells.
    pub(crate) fn truncate(&mut self, count: usize, next: u64) -> Result<(), DatabaseError> {
        let node = self.open()?;
        if count > node.count() {
            return Err(self.no_slot(count));
        }
        let mut size = 0;
        for slot in count..node.count() {
            size += node.cell_range(slot)?.len();
        }
        self.add_garbage(size)?;
        self.set_u16(COUNT, count);
        self.set_next(next);
        Ok(())
    }

    /// Adds cells at the end.
    pub(crate) fn append(&mut self, cells: &[u8], next: u64) -> Result<(), DatabaseError> {
        let node = self.open()?;
        let (level, count) = (node.level(), node.count());
        let more = self.count_cells(level, cells)?;
        let begin = self.make_room(cells.len(), more * SLOT, None)?;
        self.append_to_heap(level, count, begin + cells.len(), cells);
        self.set_next(next);
        Ok(())
    }

    /// Writes cells before the heap, which begins at offset `heap`, with slots from `count` on. The caller
    /// has checked that there is room.
    fn append_to_heap(&mut self, level: u8, count: usize, heap: usize, cells: &[u8]) {
        let begin = heap - cells.len();
        put(self.payload, begin, cells);
        let (mut at, mut slot) = (0, count);
        while let Some(size) = cells.get(at..).and_then(|rest| cell_size(level, rest)) {
            self.set_u16(NODE_HEADER + slot * SLOT, begin + at);
            at += size;
            slot += 1;
        }
        self.set_u16(COUNT, slot);
        self.set_u16(HEAP, begin);
    }

    /// Returns the offset at which `cells` bytes can be written as the beginning of the heap, with `slots`
    /// bytes left for slots. Compacts the heap if necessary. The cell of `without`, which is about to be
    /// replaced, becomes garbage.
    fn make_room(
        &mut self,
        cells: usize,
        slots: usize,
        without: Option<(usize, Range<usize>)>,
    ) -> Result<usize, DatabaseError> {
        let node = self.open()?;
        let freed = without.as_ref().map_or(0, |(_, range)| range.len());
        if cells + slots > node.free() + freed {
            return Err(self.no_room(cells));
        }
        if cells + slots <= node.gap() {
            let begin = self.payload.len() - (node.heap_bytes() + cells);
            self.add_garbage(freed)?;
            return Ok(begin);
        }
        let heap = self.compact(without.map(|(slot, _)| slot), cells + slots)?;
        Ok(heap - cells)
    }

    /// Moves the cells together at the end of the payload, except the cell at slot `without`, and returns
    /// the offset of the first.
    fn compact(&mut self, without: Option<usize>, room: usize) -> Result<usize, DatabaseError> {
        let node = self.open()?;
        let count = node.count();
        let mut cells = Vec::with_capacity(node.heap_bytes());
        let mut sizes = Vec::with_capacity(count);
        for slot in 0..count {
            let cell = match without == Some(slot) {
                true => &[],
                false => node.cell(slot)?,
            };
            cells.extend_from_slice(cell);
            sizes.push(cell.len());
        }
        // Cells that overlap may be longer in all than the heap was.
        if cells.len() + count * SLOT + room > Node::capacity(self.payload.len()) {
            return Err(self.corrupt("its cells are longer than they can be"));
        }
        let heap = self.payload.len() - cells.len();
        put(self.payload, heap, &cells);
        let mut begin = heap;
        for (slot, size) in sizes.into_iter().enumerate() {
            self.set_u16(NODE_HEADER + slot * SLOT, begin);
            begin += size;
        }
        self.set_u16(HEAP, heap);
        self.set_u16(GARBAGE, 0);
        Ok(heap)
    }

    fn add_garbage(&mut self, bytes: usize) -> Result<(), DatabaseError> {
        let node = self.open()?;
        let garbage = node.garbage() + bytes;
        if garbage > node.heap_bytes() {
            return Err(self.corrupt("its cells are longer than they can be"));
        }
        self.set_u16(GARBAGE, garbage);
        Ok(())
    }

    fn count_cells(&self, level: u8, cells: &[u8]) -> Result<usize, DatabaseError> {
        let (mut rest, mut count) = (cells, 0);
        while !rest.is_empty() {
            let size = cell_size(level, rest);
            let after = size.and_then(|size| rest.get(size..));
            rest = after.ok_or_else(|| self.no_cell())?;
            count += 1;
        }
        Ok(count)
    }

    fn check_cell(&self, level: u8, cell: &[u8]) -> Result<(), DatabaseError> {
        match cell_size(level, cell) == Some(cell.len()) {
            true => Ok(()),
            false => Err(self.no_cell()),
        }
    }

    fn open(&self) -> Result<Node<'_>, DatabaseError> {
        Node::open(self.page, self.payload)
    }

    fn set_next(&mut self, next: u64) {
        put(self.payload, NEXT, &next.to_le_bytes());
    }

    /// Writes a number, which fits into 16 bits: payloads of nodes are no longer.
    fn set_u16(&mut self, at: usize, value: usize) {
        put(self.payload, at, &(value as u16).to_le_bytes());
    }

    #[cold]
    fn no_cell(&self) -> DatabaseError {
        self.corrupt("what the log puts there is no cell of such a node")
    }

    #[cold]
    fn no_slot(&self, slot: usize) -> DatabaseError {
        self.corrupt(format!("it has no slot {slot}, which the log changes"))
    }

    #[cold]
    fn no_room(&self, bytes: usize) -> DatabaseError {
        self.corrupt(format!("it has no room for {bytes} bytes, which the log puts there"))
    }

    fn corrupt(&self, what: impl Into<String>) -> DatabaseError {
        DatabaseError::corrupt(self.page, what)
    }
}
