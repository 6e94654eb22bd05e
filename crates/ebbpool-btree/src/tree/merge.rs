//! Merging nodes that have become sparse with a neighbour under the same parent.

use ebbpool::WriteGuard;

use super::Tree;
use super::descend::node_of;
use super::restructure::slot16;
use crate::change::{Change, Content};
use crate::error::Error;
use crate::page::ROOT;
use crate::page::cell::write_inner_cell;
use crate::page::node::Node;

/// What is to be looked at: the node of this level on the way to the key.
struct Place {
    level: u8,
    key: Vec<u8>,
}

/// The left one of two neighbours that may become one: that on the way to the key, or the one
/// before it.
#[derive(Clone, Copy)]
enum Left {
    Before,
    This,
}

/// What looking at a place has come to.
enum Seen {
    /// There is nothing to do.
    Well,
    /// The node is the root, and has one child.
    RootOfOne,
    /// The node has no neighbour under its parent, whose turn it is.
    Alone,
    Mergeable(Left),
}

/// What a merge has left behind.
struct Merged {
    /// Where the two met.
    separator: Vec<u8>,
    parent_is_sparse: bool,
}

impl Left {
    fn slot(self, this: usize) -> Option<usize> {
        match self {
            Left::Before => this.checked_sub(1),
            Left::This => Some(this),
        }
    }
}

impl Tree {
    /// Less than a quarter of it is used.
    pub(super) fn is_sparse(&self, node: &Node<'_>) -> bool {
        self.is_little(node.used())
    }

    fn is_little(&self, used: usize) -> bool {
        used * 4 < Node::capacity(self.pool.payload_size())
    }

    /// Merges the sparse leaf on the way to a key with a neighbour, and what becomes sparse by
    /// that. The record that was removed is gone in any case, so a failure is told to nobody but
    /// the program's log.
    pub(super) fn tidy(&self, key: &[u8]) {
        if let Err(error) = self.merge_from(key) {
            tracing::warn!(%error, "a sparse node of the tree is left as it is");
        }
    }

    fn merge_from(&self, key: &[u8]) -> Result<(), Error> {
        let place = |level, key: &[u8]| {
            let key = key.to_vec();
            Place { level, key }
        };
        let mut places = vec![place(0, key)];
        // It ends, since each merge takes a node away, and what is alone leads upwards.
        while let Some(Place { level, key }) = places.pop() {
            match self.look_at(level, &key)? {
                Seen::Well => {}
                Seen::RootOfOne => {
                    if self.pull_up()? {
                        places.push(place(level, &key));
                    }
                }
                Seen::Alone => places.push(place(level.saturating_add(1), &key)),
                Seen::Mergeable(left) => {
                    let Some(merged) = self.merge(level, &key, left)? else {
                        continue;
                    };
                    if merged.parent_is_sparse {
                        places.push(place(level.saturating_add(1), &key));
                    }
                    places.push(place(level, &key));
                    if let Some(below) = level.checked_sub(1) {
                        // Those to both sides of the seam are neighbours now.
                        places.push(place(below, &merged.separator));
                    }
                }
            }
        }
        Ok(())
    }

    /// What there is to do, latching nothing exclusively: a page that is latched so is written
    /// sometime.
    fn look_at(&self, level: u8, key: &[u8]) -> Result<Seen, Error> {
        let guard = self.shared_node(level.saturating_add(1), |node| node.slot_for(key))?;
        let parent = node_of(&guard)?;
        if parent.level() <= level {
            let of_one = !parent.is_leaf() && parent.count() == 1;
            return Ok(if of_one { Seen::RootOfOne } else { Seen::Well });
        }
        if parent.count() == 1 {
            return Ok(Seen::Alone);
        }
        let slot = parent.slot_for(key)?;
        let mut before = None;
        for right in slot.saturating_sub(1)..parent.count().min(slot + 2) {
            let child = self.shared_child(&parent, right)?;
            let used = node_of(&child)?.used();
            if let Some(left) = before
                && self.may_merge(&parent, right, left, used)?
            {
                let left = if right == slot {
                    Left::Before
                } else {
                    Left::This
                };
                return Ok(Seen::Mergeable(left));
            }
            before = Some(used);
        }
        Ok(Seen::Well)
    }

    /// Whether two children that take so many bytes are to become one; `right` is the right one's
    /// slot.
    fn may_merge(
        &self,
        parent: &Node<'_>,
        right: usize,
        left_used: usize,
        right_used: usize,
    ) -> Result<bool, Error> {
        // In an inner node the first cell of the right one gets the separator as its key.
        let key = match parent.level() {
            1 => 0,
            _ => parent.key(right)?.len(),
        };
        let capacity = Node::capacity(self.pool.payload_size());
        let sparse = self.is_little(left_used) || self.is_little(right_used);
        Ok(sparse && (left_used + right_used + key) * 5 <= capacity * 4)
    }

    /// Merges two neighbours, if they still may be; the right one's page is free then.
    fn merge(&self, level: u8, key: &[u8], left: Left) -> Result<Option<Merged>, Error> {
        let above = level.saturating_add(1);
        let mut parent = self.exclusive(above, |node| node.slot_for(key))?;
        let node = node_of(&parent)?;
        let slot = match node.level() == above {
            true => left.slot(node.slot_for(key)?),
            false => None,
        };
        let Some(slot) = slot.filter(|slot| slot + 1 < node.count()) else {
            return Ok(None);
        };
        let mut left = self.exclusive_child(&node, slot)?;
        if node.child(slot)? == node.child(slot + 1)? {
            return Err(Error::corrupt(node.page(), "two of its children are one"));
        }
        let right = self.exclusive_child(&node, slot + 1)?;
        let (left_used, right_used) = (node_of(&left)?.used(), node_of(&right)?.used());
        if !self.may_merge(&node, slot + 1, left_used, right_used)? {
            return Ok(None);
        }
        let separator = node.key(slot + 1)?.to_vec();
        self.append_right(&mut parent, slot, &mut left, &right, &separator)?;
        let node = node_of(&parent)?;
        let parent_is_sparse = node.count() == 1 || self.is_sparse(&node);
        drop((parent, left));
        self.free(right);
        Ok(Some(Merged {
            separator,
            parent_is_sparse,
        }))
    }

    fn append_right<'t>(
        &'t self,
        parent: &mut WriteGuard<'t>,
        slot: usize,
        left: &mut WriteGuard<'t>,
        right: &WriteGuard<'_>,
        separator: &[u8],
    ) -> Result<(), Error> {
        let node = node_of(right)?;
        let cells = match node.is_leaf() {
            true => node.cells(0..node.count())?,
            false => {
                let mut cells = Vec::new();
                write_inner_cell(separator, node.child(0)?, &mut cells);
                cells.extend(node.cells(1..node.count())?);
                cells
            }
        };
        let remove = Change::Remove {
            slot: slot16(slot + 1),
        };
        let append = Change::Append {
            cells: &cells,
            next: node.next().unwrap_or(0),
        };
        let mut map = self.latch_map_of(right.page())?;
        let changes = vec![
            (parent.page(), remove),
            (left.page(), append),
            (map.page(), unmark(right.page())),
        ];
        self.restructure(changes, &mut [parent, left, &mut map], None)
    }

    /// If the root has one child, takes over what that has. False if it has more.
    fn pull_up(&self) -> Result<bool, Error> {
        let mut root = self.pool.fix_write(ROOT)?;
        let node = node_of(&root)?;
        if node.is_leaf() || node.count() != 1 {
            return Ok(false);
        }
        let child = self.exclusive_child(&node, 0)?;
        let below = node_of(&child)?;
        let cells = below.cells(0..below.count())?;
        let content = Content::Node {
            level: below.level(),
            next: 0,
            cells: &cells,
        };
        let mut map = self.latch_map_of(child.page())?;
        let changes = vec![
            (ROOT, Change::Format(content)),
            (map.page(), unmark(child.page())),
        ];
        self.restructure(changes, &mut [&mut root, &mut map], None)?;
        drop((root, map));
        self.free(child);
        Ok(true)
    }

    fn latch_map_of(&self, page: u64) -> Result<WriteGuard<'_>, Error> {
        Ok(self.pool.fix_write(self.allocation.maps.of(page))?)
    }

    /// Gives a page that is marked as free, and that nobody refers to any more, to the pool. If
    /// that fails it is free from the next start on.
    fn free(&self, guard: WriteGuard<'_>) {
        let page = guard.page();
        drop(guard);
        if let Err(error) = self.pool.free(page) {
            tracing::warn!(%error, page, "a free page is not used again for now");
        }
    }
}

fn unmark(page: u64) -> Change<'static> {
    let (first, count, used) = (page, 1, false);
    Change::Mark { first, count, used }
}
