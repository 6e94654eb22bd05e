//! Loading an empty tree with records in ascending order.
//!
//! The trace generators compute the same page numbers without a tree, so the assignment of pages below is
//! part of the format of generated traces. Loading has one *open* node for each level, which it builds in
//! memory. It works in this order:
//!
//! 1. It takes the next record. If the record's value is too long for a leaf, it stores the value first: it
//!    takes and writes the value's pages one by one, that of the last part first.
//! 2. If there is no open leaf, it *opens* one: it takes a page (`Allocation::take`), and releases its
//!    latch.
//! 3. If the open leaf has a cell already, and with the record's cell would use more bytes (cells and
//!    slots) than `fill` times its capacity, rounded down, then
//!    1. it opens another leaf;
//!    2. it writes the previous one to its page (`fix_new`), with the new one as its right neighbour;
//!    3. it pushes the previous one upwards: 5.
//! 4. It adds the cell to the end of the open leaf.
//! 5. A node that is *pushed upwards* becomes a cell of the open node of the level above: its page, and as
//!    the separator the whole first key of the first leaf under it. If there is no open node of that level,
//!    it opens one first. A node's first cell has the empty key instead. If the open node has two cells
//!    already, and with this one would use more bytes than `fill` times its capacity, rounded down, then
//!    1. it opens another node of that level, with the cell as its first;
//!    2. it writes the previous one;
//!    3. it pushes the previous one upwards.
//! 6. After the last record it closes the open nodes, from the leaf up: it writes each node that has an
//!    open one above it by then, and pushes it upwards. Then it frees the page of the topmost one (also if
//!    that is the only leaf), writes and syncs all dirty pages, and writes the content of the topmost one
//!    to page 2. Without a record nothing happens.
//!
//! Pages are taken in ascending order from the first free one, without those of allocation maps. Taking a
//! page fixes it (new, for writing), then its map (for writing); a log record marks it (undo `Free`). Its
//! later content is not logged; its LSN is that of the record which marked it, and so greater than any that
//! the page had in an earlier use. The root's new content is logged (undo `Empty`).

use ebbpool::Lsn;

use super::descend::node_of;
use super::restructure::{apply, mark};
use super::{ChangeLogger, Tree};
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::log::Undo;
use crate::page::ROOT;
use crate::page::cell::{Value, inner_cell_size, write_inner_cell};
use crate::page::class::{INNER, of_level};
use crate::page::node::{Node, SLOT};

/// A node that is being filled.
struct OpenNode {
    level: u8,
    page: u64,
    /// The LSN of the record that marks the page.
    lsn: Lsn,
    /// The first key under it.
    first: Vec<u8>,
    cells: Vec<u8>,
    count: usize,
}

struct BulkLoader<'t, 'a> {
    tree: &'t Tree,
    logger: &'a mut dyn ChangeLogger,
    /// Bytes that cells and slots of a node may take.
    most: usize,
    /// The open node of each level.
    open: Vec<OpenNode>,
}

impl Tree {
    /// Loads an empty tree with ascending records, and returns their number. `fill` is from 0 to 1. No
    /// other thread may use the tree meanwhile.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::NotEmpty`], [`DatabaseError::Unsorted`], [`DatabaseError::KeyTooLong`],
    /// [`DatabaseError::ValueTooLong`], and errors of `records`, of the pool and of the log. The caller
    /// rolls back then.
    pub(crate) fn load(
        &self,
        records: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), DatabaseError>>,
        fill: f64,
        logger: &mut dyn ChangeLogger,
    ) -> Result<u64, DatabaseError> {
        self.expect_empty()?;
        let capacity = Node::capacity(self.pool.payload_size());
        let mut loader =
            BulkLoader { tree: self, logger, most: (fill.clamp(0.0, 1.0) * capacity as f64) as usize, open: Vec::new() };
        let (mut number, mut last) = (0, Vec::new());
        for record in records {
            let (key, value) = record?;
            number += 1;
            if number > 1 && key <= last {
                return Err(DatabaseError::Unsorted { record: number });
            }
            loader.add(&key, &value)?;
            last = key;
        }
        loader.finish()?;
        Ok(number)
    }

    /// Empties the tree, to undo a load. Other undo records free its pages.
    ///
    /// # Errors
    ///
    /// Errors of the pool and the log.
    pub(crate) fn make_empty(&self, logger: &mut dyn ChangeLogger) -> Result<(), DatabaseError> {
        self.set_root(0, &[], logger)
    }

    fn expect_empty(&self) -> Result<(), DatabaseError> {
        let root = self.pool.of_class(INNER).fix_read(ROOT)?;
        let node = node_of(&root)?;
        match node.is_leaf() && node.count() == 0 {
            true => Ok(()),
            false => Err(DatabaseError::NotEmpty),
        }
    }

    fn set_root(&self, level: u8, cells: &[u8], logger: &mut dyn ChangeLogger) -> Result<(), DatabaseError> {
        let mut root = self.pool.of_class(INNER).fix_write(ROOT)?;
        let next = 0;
        let format = Change::Format(Content::Node { level, next, cells });
        let lsn = logger.log(&self.wal, Undo::Empty, vec![(ROOT, format.clone())])?;
        apply(&format, &mut root, lsn)
    }
}

impl OpenNode {
    fn used_with(&self, cell: usize) -> usize {
        self.cells.len() + self.count * SLOT + cell + SLOT
    }
}

impl BulkLoader<'_, '_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), DatabaseError> {
        self.tree.pool.throttle();
        // A key that is too long is refused before its value is stored.
        self.tree.cell(key, Value::Inline(&[]))?;
        let value = match self.tree.overflows(key, value) {
            true => self.tree.store(value, self.logger)?,
            false => Value::Inline(value),
        };
        let cell = self.tree.cell(key, value)?;
        if self.open.is_empty() {
            let leaf = self.open_node(0, key)?;
            self.open.push(leaf);
        }
        let leaf = &self.open[0];
        if leaf.count > 0 && leaf.used_with(cell.len()) > self.most {
            let next = self.open_node(0, key)?;
            let page = next.page;
            let closed = std::mem::replace(&mut self.open[0], next);
            self.write(&closed, page)?;
            self.push_upwards(closed)?;
        }
        let leaf = &mut self.open[0];
        leaf.cells.extend_from_slice(&cell);
        leaf.count += 1;
        Ok(())
    }

    fn push_upwards(&mut self, mut closed: OpenNode) -> Result<(), DatabaseError> {
        loop {
            let level = closed.level.saturating_add(1);
            let at = usize::from(level);
            if at >= self.open.len() {
                let node = self.open_node(level, &closed.first)?;
                self.open.push(node);
            }
            let node = &mut self.open[at];
            let key = match node.count {
                0 => &[],
                _ => &closed.first[..],
            };
            if node.count < 2 || node.used_with(inner_cell_size(key)) <= self.most {
                write_inner_cell(key, closed.page, &mut node.cells);
                node.count += 1;
                return Ok(());
            }
            let mut next = self.open_node(level, &closed.first)?;
            write_inner_cell(&[], closed.page, &mut next.cells);
            next.count = 1;
            closed = std::mem::replace(&mut self.open[at], next);
            self.write(&closed, 0)?;
        }
    }

    fn finish(mut self) -> Result<(), DatabaseError> {
        let mut level = 0;
        while level + 1 < self.open.len() {
            let closed = self.take_open(level);
            self.write(&closed, 0)?;
            self.push_upwards(closed)?;
            level += 1;
        }
        let Some(top) = self.open.pop() else {
            return Ok(());
        };
        let (pool, wal) = (&self.tree.pool, &self.tree.wal);
        let allocation = &self.tree.allocation;
        allocation.free(pool, wal, &[top.page], self.logger)?;
        pool.checkpoint()?;
        self.tree.set_root(top.level, &top.cells, self.logger)
    }

    fn take_open(&mut self, level: usize) -> OpenNode {
        let nothing = OpenNode { level: 0, page: 0, lsn: 0, first: Vec::new(), cells: Vec::new(), count: 0 };
        std::mem::replace(&mut self.open[level], nothing)
    }

    fn open_node(&mut self, level: u8, first: &[u8]) -> Result<OpenNode, DatabaseError> {
        let (page, lsn) = self.take_page(level)?;
        Ok(OpenNode { level, page, lsn, first: first.to_vec(), cells: Vec::new(), count: 0 })
    }

    /// Takes a page for a node. Also returns the LSN of the record that marks it.
    fn take_page(&mut self, level: u8) -> Result<(u64, Lsn), DatabaseError> {
        let (pool, wal) = (&self.tree.pool, &self.tree.wal);
        let mut taken = self.tree.allocation.take(pool, wal, of_level(level))?;
        let page = taken.page.page();
        let (map, mark) = mark(&taken);
        let undo = Undo::Free { first: page, count: 1 };
        match self.logger.log(wal, undo, vec![(map, mark.clone())]) {
            Ok(lsn) => {
                apply(&mark, &mut taken.map, lsn)?;
                Ok((page, lsn))
            }
            Err(error) => {
                self.tree.allocation.give_back(pool, taken);
                Err(error)
            }
        }
    }

    fn write(&self, node: &OpenNode, next: u64) -> Result<(), DatabaseError> {
        let pool = self.tree.pool.of_class(of_level(node.level));
        let mut guard = pool.fix_new(node.page)?;
        let format = Change::Format(Content::Node { level: node.level, next, cells: &node.cells });
        apply(&format, &mut guard, node.lsn)
    }
}
