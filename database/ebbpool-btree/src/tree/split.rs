//! Making room in leaves. A thread latches exclusively from a node that has room for one more child down to
//! the leaf. It splits each node on the way that has no room, from the top down, so that the parent of a
//! split node always has room.

use ebbpool::WriteGuard;

use super::Tree;
use super::descend::node_of;
use super::modify::has_room;
use super::restructure::{mark, slot16};
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::page::ROOT;
use crate::page::cell::{inner_cell_size, most_key_bytes, write_inner_cell};
use crate::page::class::of_level;
use crate::page::node::{Node, SLOT};

/// A key whose cell needs room, and what is known of the path to it.
struct RoomRequest<'k> {
    key: &'k [u8],
    cell: usize,
    /// True if no node on the path so far has another one to its right.
    rightmost: bool,
}

/// How a node is split in two.
struct NodeSplit {
    /// The number of cells that stay in the left node.
    left_count: usize,
    /// A key that is not greater than any in the right node, and greater than all in the left one.
    separator: Vec<u8>,
    /// The cells of the right node.
    right_cells: Vec<u8>,
}

impl RoomRequest<'_> {
    /// The slot on the path to the key.
    fn step(&mut self, node: &Node<'_>) -> Result<usize, DatabaseError> {
        let slot = node.slot_for(self.key)?;
        self.rightmost &= slot + 1 == node.count();
        Ok(slot)
    }
}

impl Tree {
    /// Splits nodes until the leaf of a key has room for its cell of `cell` bytes. Another thread may use
    /// that room before the caller does.
    pub(super) fn make_room(&self, key: &[u8], cell: usize) -> Result<(), DatabaseError> {
        for top in 1..=u8::MAX {
            if self.make_room_below(top, key, cell)? {
                return Ok(());
            }
        }
        Err(DatabaseError::corrupt(ROOT, "the tree is too high"))
    }

    /// Splits nodes until the leaf of a key has room, latching exclusively from level `top` on. Returns false if the node there
    /// may have to be split itself.
    fn make_room_below(&self, top: u8, key: &[u8], cell: usize) -> Result<bool, DatabaseError> {
        let mut request = RoomRequest { key, cell, rightmost: true };
        let mut node = self.exclusive(top, |node| request.step(node))?;
        if !self.has_room_for(&node, &request)? {
            if node.page() != ROOT {
                return Ok(false);
            }
            self.push_down(&mut node)?;
        }
        while !node_of(&node)?.is_leaf() {
            let slot = request.step(&node_of(&node)?)?;
            let mut child = self.exclusive_child(&node_of(&node)?, slot)?;
            if self.has_room_for(&child, &request)? {
                node = child;
                continue;
            }
            self.split(&mut node, slot, &mut child, &request)?;
            if node_of(&child)?.is_leaf() {
                return Ok(true);
            }
            // The key may belong to either half, so the descent continues from the parent.
        }
        Ok(true)
    }

    /// Whether a leaf has room for the cell, or an inner node for the longest separator.
    fn has_room_for(&self, guard: &WriteGuard<'_>, request: &RoomRequest<'_>) -> Result<bool, DatabaseError> {
        let node = node_of(guard)?;
        match node.is_leaf() {
            true => has_room(&node, node.search(request.key)?, request.cell),
            false => Ok(node.free() >= self.longest_separator()),
        }
    }

    fn longest_separator(&self) -> usize {
        inner_cell_size(&[]) + most_key_bytes(self.pool.payload_size()) + SLOT
    }

    /// Moves the root's content to a new child, which becomes the root's only child.
    fn push_down<'t>(&'t self, root: &mut WriteGuard<'t>) -> Result<(), DatabaseError> {
        let node = node_of(root)?;
        let (level, cells) = (node.level(), node.cells(0..node.count())?);
        let above = level.checked_add(1).ok_or_else(|| DatabaseError::corrupt(ROOT, "the tree is too high"))?;
        let taken = self.allocation.take(&self.pool, &self.wal, of_level(level))?;
        let child = taken.page.page();
        let mut only = Vec::new();
        write_inner_cell(&[], child, &mut only);
        let format = |level, cells| {
            let next = 0;
            Change::Format(Content::Node { level, next, cells })
        };
        let changes = vec![(ROOT, format(above, &only)), (child, format(level, &cells)), mark(&taken)];
        self.restructure(changes, &mut [root], Some(taken))
    }

    /// Splits a child, whose parent has room for a separator.
    fn split<'t>(
        &'t self,
        parent: &mut WriteGuard<'t>,
        slot: usize,
        child: &mut WriteGuard<'t>,
        request: &RoomRequest<'_>,
    ) -> Result<(), DatabaseError> {
        let node = node_of(child)?;
        let (level, next) = (node.level(), node.next().unwrap_or(0));
        let parts = match node.is_leaf() {
            true => split_leaf(&node, request)?,
            false => split_inner(&node, request)?,
        };
        if node_of(parent)?.free() < inner_cell_size(&parts.separator) + SLOT {
            let what = "it has no room for a child's other half";
            return Err(DatabaseError::corrupt(parent.page(), what));
        }
        let taken = self.allocation.take(&self.pool, &self.wal, of_level(level))?;
        let right = taken.page.page();
        let mut cell = Vec::new();
        write_inner_cell(&parts.separator, right, &mut cell);
        let insert = Change::Insert { slot: slot16(slot + 1), cell: &cell };
        let truncate = Change::Truncate { count: slot16(parts.left_count), next: if level == 0 { right } else { 0 } };
        let format = Change::Format(Content::Node { level, next, cells: &parts.right_cells });
        let changes = vec![(parent.page(), insert), (child.page(), truncate), (right, format), mark(&taken)];
        self.restructure(changes, &mut [parent, child], Some(taken))
    }
}

/// Splits a leaf in the middle, by bytes. But if the key belongs at the very end of the tree, the left leaf
/// stays full, so that keys in ascending order fill leaf after leaf.
fn split_leaf(node: &Node<'_>, request: &RoomRequest<'_>) -> Result<NodeSplit, DatabaseError> {
    let count = node.count();
    let at_the_end = request.rightmost && node.search(request.key)? == Err(count);
    let (stay, first) = match count.checked_sub(1) {
        Some(_) if at_the_end => (count, request.key),
        _ => {
            let stay = middle(node)?;
            (stay, node.key(stay)?)
        }
    };
    let last = node.key(stay.saturating_sub(1))?;
    Ok(NodeSplit { left_count: stay, separator: separator(last, first).to_vec(), right_cells: node.cells(stay..count)? })
}

/// Splits an inner node like a leaf; at the very end of the tree two children move to the right node.
fn split_inner(node: &Node<'_>, request: &RoomRequest<'_>) -> Result<NodeSplit, DatabaseError> {
    let count = node.count();
    let at_the_end = request.rightmost && node.slot_for(request.key)? + 1 == count;
    let stay = match count.checked_sub(2) {
        Some(stay) if at_the_end && stay > 0 => stay,
        _ => middle(node)?,
    };
    let mut right = Vec::new();
    write_inner_cell(&[], node.child(stay)?, &mut right);
    right.extend(node.cells(stay + 1..count)?);
    Ok(NodeSplit { left_count: stay, separator: node.key(stay)?.to_vec(), right_cells: right })
}

/// The number of cells in the left half for which the larger half is as small as possible.
fn middle(node: &Node<'_>) -> Result<usize, DatabaseError> {
    let count = node.count();
    if count < 2 {
        let what = "it has no room for another cell, and too few to be split";
        return Err(DatabaseError::corrupt(node.page(), what));
    }
    let (all, mut left, mut stay) = (node.used(), 0, 0);
    while stay < count - 1 {
        let with_next = left + node.cell(stay)?.len() + SLOT;
        // The larger half is the right one without the next cell, the left one with it.
        if stay > 0 && with_next > all.saturating_sub(left) {
            break;
        }
        (left, stay) = (with_next, stay + 1);
    }
    Ok(stay)
}

/// The shortest prefix of `right` that is greater than `left`, which is less than `right`.
fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    let common = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    right.get(..=common).unwrap_or(right)
}
