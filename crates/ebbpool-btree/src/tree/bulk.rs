//! Loading an empty tree with records in ascending order.
//!
//! Which page becomes what is part of the format of traces that are generated, which repeat this
//! without a tree. There is one *open* node for each level, built in memory. In this order:
//!
//! 1. A record comes. If its value is too long for a leaf, it is stored first: its pages are taken
//!    and written one by one, that of the last part first.
//! 2. If there is no open leaf, one is *opened*: its page is taken (`Allocation::take`), and let go
//!    again.
//! 3. If the open leaf has a cell already, and would with the record's have more bytes used (cells
//!    and slots) than `fill` times its capacity, rounded down, then
//!    1. another leaf is opened;
//!    2. the one before is written to its page (`fix_new`), with the new one as its right
//!       neighbour;
//!    3. the one before is pushed upwards: 5.
//! 4. The cell becomes the open leaf's last one.
//! 5. A node that is *pushed upwards* becomes a cell of the open node of the level above: its page,
//!    and as the separator the first key of the first leaf under it, whole. If there is no open
//!    node of that level, one is opened before. A node's first cell has the empty key instead. If
//!    the open node has two cells already, and would with this one have more bytes used than `fill`
//!    times its capacity, rounded down, then
//!    1. another node of that level is opened, and the cell is its first;
//!    2. the one before is written;
//!    3. the one before is pushed upwards.
//! 6. After the last record open nodes are closed, from the leaf up: each that has an open one
//!    above it by then is written and pushed upwards. The topmost one's page is given back (also if
//!    that is the only leaf there ever was), everything dirty is written and synced, and what the
//!    topmost one has is put into page 2. Without a record nothing happens.
//!
//! Pages that are taken come in ascending order from the first one that is free, without those of
//! allocation maps. Taking one fixes it (new, for writing), then its map (for writing); a log
//! record marks it (undo `Free`). What is written to it later is not logged; its LSN is that of the
//! record which marked it, and so greater than any that the page had in a former life. The root's new
//! content is logged (undo `Empty`).

use ebbpool::Lsn;

use super::descend::node_of;
use super::restructure::{apply, mark};
use super::{Author, Tree};
use crate::change::{Change, Content};
use crate::error::Error;
use crate::log::Undo;
use crate::page::ROOT;
use crate::page::cell::{Value, inner_cell_size, write_inner_cell};
use crate::page::node::{Node, SLOT};

/// A node that is being filled.
struct Open {
    level: u8,
    page: u64,
    /// Of the record that took the page.
    lsn: Lsn,
    /// The first key under it.
    first: Vec<u8>,
    cells: Vec<u8>,
    count: usize,
}

struct Loader<'t, 'a> {
    tree: &'t Tree,
    by: &'a mut dyn Author,
    /// Bytes that cells and slots of a node may take.
    most: usize,
    /// The open node of each level.
    open: Vec<Open>,
}

impl Tree {
    /// Loads an empty tree with ascending records, and answers how many. `fill` is from 0 to 1.
    /// Nobody else may use the tree meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::NotEmpty`], [`Error::Unsorted`], [`Error::KeyTooLong`], [`Error::ValueTooLong`],
    /// what `records` fails with, and what the pool and the log fail with. Roll back then.
    pub(crate) fn load(
        &self,
        records: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>,
        fill: f64,
        by: &mut dyn Author,
    ) -> Result<u64, Error> {
        self.expect_empty()?;
        let capacity = Node::capacity(self.pool.payload_size());
        let mut loader = Loader {
            tree: self,
            by,
            most: (fill.clamp(0.0, 1.0) * capacity as f64) as usize,
            open: Vec::new(),
        };
        let (mut number, mut last) = (0, Vec::new());
        for record in records {
            let (key, value) = record?;
            number += 1;
            if number > 1 && key <= last {
                return Err(Error::Unsorted { record: number });
            }
            loader.add(&key, &value)?;
            last = key;
        }
        loader.finish()?;
        Ok(number)
    }

    /// Makes the tree empty, as it was before it was loaded; the pages are freed by others.
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with.
    pub(crate) fn make_empty(&self, by: &mut dyn Author) -> Result<(), Error> {
        self.set_root(0, &[], by)
    }

    fn expect_empty(&self) -> Result<(), Error> {
        let root = self.pool.fix_read(ROOT)?;
        let node = node_of(&root)?;
        match node.is_leaf() && node.count() == 0 {
            true => Ok(()),
            false => Err(Error::NotEmpty),
        }
    }

    fn set_root(&self, level: u8, cells: &[u8], by: &mut dyn Author) -> Result<(), Error> {
        let mut root = self.pool.fix_write(ROOT)?;
        let next = 0;
        let format = Change::Format(Content::Node { level, next, cells });
        let lsn = by.log(&self.wal, Undo::Empty, vec![(ROOT, format.clone())])?;
        apply(&format, &mut root, lsn)
    }
}

impl Open {
    fn used_with(&self, cell: usize) -> usize {
        self.cells.len() + self.count * SLOT + cell + SLOT
    }
}

impl Loader<'_, '_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.tree.pool.throttle();
        // A key that is too long is found before anything is stored.
        self.tree.cell(key, Value::Inline(&[]))?;
        let value = match self.tree.overflows(key, value) {
            true => self.tree.store(value, self.by)?,
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

    fn push_upwards(&mut self, mut closed: Open) -> Result<(), Error> {
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

    fn finish(mut self) -> Result<(), Error> {
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
        allocation.free(pool, wal, &[top.page], self.by)?;
        pool.checkpoint()?;
        self.tree.set_root(top.level, &top.cells, self.by)
    }

    fn take_open(&mut self, level: usize) -> Open {
        let nothing = Open {
            level: 0,
            page: 0,
            lsn: 0,
            first: Vec::new(),
            cells: Vec::new(),
            count: 0,
        };
        std::mem::replace(&mut self.open[level], nothing)
    }

    fn open_node(&mut self, level: u8, first: &[u8]) -> Result<Open, Error> {
        let (page, lsn) = self.take_page()?;
        Ok(Open {
            level,
            page,
            lsn,
            first: first.to_vec(),
            cells: Vec::new(),
            count: 0,
        })
    }

    /// Answers the LSN of the record that marks it, too.
    fn take_page(&mut self) -> Result<(u64, Lsn), Error> {
        let (pool, wal) = (&self.tree.pool, &self.tree.wal);
        let mut taken = self.tree.allocation.take(pool, wal)?;
        let page = taken.page.page();
        let (map, mark) = mark(&taken);
        let undo = Undo::Free {
            first: page,
            count: 1,
        };
        match self.by.log(wal, undo, vec![(map, mark.clone())]) {
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

    fn write(&self, node: &Open, next: u64) -> Result<(), Error> {
        let mut guard = self.tree.pool.fix_new(node.page)?;
        let format = Change::Format(Content::Node {
            level: node.level,
            next,
            cells: &node.cells,
        });
        apply(&format, &mut guard, node.lsn)
    }
}
