//! Making room. Latches are exclusive from a node on that has room for one more child, down to the
//! leaf; each node on the way that has none is split, from the top down, its parent having room by
//! then.

use ebbpool::WriteGuard;

use super::Tree;
use super::descend::node_of;
use super::modify::has_room;
use super::restructure::{mark, slot16};
use crate::change::{Change, Content};
use crate::error::Error;
use crate::page::ROOT;
use crate::page::cell::{inner_cell_size, most_key_bytes, write_inner_cell};
use crate::page::node::{Node, SLOT};

/// A key that is to have room for its cell, and where the way to it was.
struct Wanted<'k> {
    key: &'k [u8],
    cell: usize,
    /// No node on the way so far has another one to its right.
    rightmost: bool,
}

/// A node in two.
struct Halves {
    /// Cells that stay in the left one.
    stay: usize,
    /// Not greater than any key in the right one, and greater than all in the left one.
    separator: Vec<u8>,
    /// The right one's cells.
    right: Vec<u8>,
}

impl Wanted<'_> {
    /// The slot on the way to the key.
    fn step(&mut self, node: &Node<'_>) -> Result<usize, Error> {
        let slot = node.slot_for(self.key)?;
        self.rightmost &= slot + 1 == node.count();
        Ok(slot)
    }
}

impl Tree {
    /// Sees to it that the leaf of a key has room for its cell of so many bytes; others may take it
    /// again.
    pub(super) fn make_room(&self, key: &[u8], cell: usize) -> Result<(), Error> {
        for top in 1..=u8::MAX {
            if self.make_room_below(top, key, cell)? {
                return Ok(());
            }
        }
        Err(Error::corrupt(ROOT, "the tree is too high"))
    }

    /// As [`make_room`](Self::make_room), latching exclusively from a level on. False if the node
    /// there may have to be split itself.
    fn make_room_below(&self, top: u8, key: &[u8], cell: usize) -> Result<bool, Error> {
        let mut wanted = Wanted {
            key,
            cell,
            rightmost: true,
        };
        let mut node = self.exclusive(top, |node| wanted.step(node))?;
        if !self.has_room_for(&node, &wanted)? {
            if node.page() != ROOT {
                return Ok(false);
            }
            self.push_down(&mut node)?;
        }
        while !node_of(&node)?.is_leaf() {
            let slot = wanted.step(&node_of(&node)?)?;
            let mut child = self.exclusive_child(&node_of(&node)?, slot)?;
            if self.has_room_for(&child, &wanted)? {
                node = child;
                continue;
            }
            self.split(&mut node, slot, &mut child, &wanted)?;
            if node_of(&child)?.is_leaf() {
                return Ok(true);
            }
            // The way to the key goes on in either half.
        }
        Ok(true)
    }

    /// Whether a leaf has room for the cell, or an inner node for the longest separator.
    fn has_room_for(&self, guard: &WriteGuard<'_>, wanted: &Wanted<'_>) -> Result<bool, Error> {
        let node = node_of(guard)?;
        match node.is_leaf() {
            true => has_room(&node, node.search(wanted.key)?, wanted.cell),
            false => Ok(node.free() >= self.longest_separator()),
        }
    }

    fn longest_separator(&self) -> usize {
        inner_cell_size(&[]) + most_key_bytes(self.pool.payload_size()) + SLOT
    }

    /// Moves what the root has to a new child, which becomes its only one.
    fn push_down<'t>(&'t self, root: &mut WriteGuard<'t>) -> Result<(), Error> {
        let node = node_of(root)?;
        let (level, cells) = (node.level(), node.cells(0..node.count())?);
        let above = level
            .checked_add(1)
            .ok_or_else(|| Error::corrupt(ROOT, "the tree is too high"))?;
        let taken = self.allocation.take(&self.pool, &self.wal)?;
        let child = taken.page.page();
        let mut only = Vec::new();
        write_inner_cell(&[], child, &mut only);
        let format = |level, cells| {
            let next = 0;
            Change::Format(Content::Node { level, next, cells })
        };
        let changes = vec![
            (ROOT, format(above, &only)),
            (child, format(level, &cells)),
            mark(&taken),
        ];
        self.restructure(changes, &mut [root], Some(taken))
    }

    /// Splits a child, whose parent has room for a separator.
    fn split<'t>(
        &'t self,
        parent: &mut WriteGuard<'t>,
        slot: usize,
        child: &mut WriteGuard<'t>,
        wanted: &Wanted<'_>,
    ) -> Result<(), Error> {
        let node = node_of(child)?;
        let (level, next) = (node.level(), node.next().unwrap_or(0));
        let halves = match node.is_leaf() {
            true => leaf_halves(&node, wanted)?,
            false => inner_halves(&node, wanted)?,
        };
        if node_of(parent)?.free() < inner_cell_size(&halves.separator) + SLOT {
            let what = "it has no room for a child's other half";
            return Err(Error::corrupt(parent.page(), what));
        }
        let taken = self.allocation.take(&self.pool, &self.wal)?;
        let right = taken.page.page();
        let mut cell = Vec::new();
        write_inner_cell(&halves.separator, right, &mut cell);
        let insert = Change::Insert {
            slot: slot16(slot + 1),
            cell: &cell,
        };
        let truncate = Change::Truncate {
            count: slot16(halves.stay),
            next: if level == 0 { right } else { 0 },
        };
        let format = Change::Format(Content::Node {
            level,
            next,
            cells: &halves.right,
        });
        let changes = vec![
            (parent.page(), insert),
            (child.page(), truncate),
            (right, format),
            mark(&taken),
        ];
        self.restructure(changes, &mut [parent, child], Some(taken))
    }
}

/// In the middle, by bytes; but what is put at the very end leaves the left one full, so that keys
/// that come in order fill leaf after leaf.
fn leaf_halves(node: &Node<'_>, wanted: &Wanted<'_>) -> Result<Halves, Error> {
    let count = node.count();
    let at_the_end = wanted.rightmost && node.search(wanted.key)? == Err(count);
    let (stay, first) = match count.checked_sub(1) {
        Some(_) if at_the_end => (count, wanted.key),
        _ => {
            let stay = middle(node)?;
            (stay, node.key(stay)?)
        }
    };
    let last = node.key(stay.saturating_sub(1))?;
    Ok(Halves {
        stay,
        separator: separator(last, first).to_vec(),
        right: node.cells(stay..count)?,
    })
}

/// As with leaves; at the very end two children go to the right.
fn inner_halves(node: &Node<'_>, wanted: &Wanted<'_>) -> Result<Halves, Error> {
    let count = node.count();
    let at_the_end = wanted.rightmost && node.slot_for(wanted.key)? + 1 == count;
    let stay = match count.checked_sub(2) {
        Some(stay) if at_the_end && stay > 0 => stay,
        _ => middle(node)?,
    };
    let mut right = Vec::new();
    write_inner_cell(&[], node.child(stay)?, &mut right);
    right.extend(node.cells(stay + 1..count)?);
    Ok(Halves {
        stay,
        separator: node.key(stay)?.to_vec(),
        right,
    })
}

/// So many cells make the left half such that the larger half is as small as can be.
fn middle(node: &Node<'_>) -> Result<usize, Error> {
    let count = node.count();
    if count < 2 {
        let what = "it has no room for another cell, and too few to be split";
        return Err(Error::corrupt(node.page(), what));
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
