//! Merging sparse nodes with a neighbour under the same parent.

use ebbpool::WriteGuard;

use super::Tree;
use super::descend::{Latched, node_of};
use super::restructure::slot16;
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::page::ROOT;
use crate::page::cell::write_inner_cell;
use crate::page::class::{INNER, MAP};
use crate::page::node::Node;

/// A node to be checked: the one of this level on the way to the key.
struct MergeTask {
    level: u8,
    key: Vec<u8>,
}

/// The left one of two neighbours to be merged: the node on the way to the key, or the one before it.
#[derive(Clone, Copy)]
enum LeftNeighbour {
    Before,
    This,
}

/// What there is to do about a node.
enum MergeCheck {
    /// Nothing.
    Nothing,
    /// The node is the root and has a single child, which is to become the root.
    SingleChildRoot,
    /// The node has no neighbour under its parent, so the parent is to be checked.
    NoNeighbour,
    Mergeable(LeftNeighbour),
}

/// The result of a merge.
struct MergeResult {
    /// The separator that was between the two nodes.
    separator: Vec<u8>,
    parent_is_sparse: bool,
}

impl LeftNeighbour {
    fn slot(self, this: usize) -> Option<usize> {
        match self {
            LeftNeighbour::Before => this.checked_sub(1),
            LeftNeighbour::This => Some(this),
        }
    }
}

impl Tree {
    /// True if less than a quarter of the node is used.
    pub(super) fn is_sparse(&self, node: &Node<'_>) -> bool {
        self.is_sparse_size(node.used())
    }

    fn is_sparse_size(&self, used: usize) -> bool {
        used * 4 < Node::capacity(self.pool.payload_size())
    }

    /// Merges the sparse leaf on the way to a key with a neighbour, and then the nodes that become sparse.
    /// The removal of the record has succeeded in any case, so an error only goes to the program's log.
    pub(super) fn tidy(&self, key: &[u8]) {
        if let Err(error) = self.merge_from(key) {
            tracing::warn!(%error, "a sparse node of the tree is left as it is");
        }
    }

    fn merge_from(&self, key: &[u8]) -> Result<(), DatabaseError> {
        let task = |level, key: &[u8]| {
            let key = key.to_vec();
            MergeTask { level, key }
        };
        let mut tasks = vec![task(0, key)];
        // This ends, since each merge removes a node, and a node without neighbour leads to a higher level.
        while let Some(MergeTask { level, key }) = tasks.pop() {
            match self.check_node(level, &key)? {
                MergeCheck::Nothing => {}
                MergeCheck::SingleChildRoot => {
                    if self.pull_up()? {
                        tasks.push(task(level, &key));
                    }
                }
                MergeCheck::NoNeighbour => tasks.push(task(level.saturating_add(1), &key)),
                MergeCheck::Mergeable(left) => {
                    let Some(merged) = self.merge(level, &key, left)? else {
                        continue;
                    };
                    if merged.parent_is_sparse {
                        tasks.push(task(level.saturating_add(1), &key));
                    }
                    tasks.push(task(level, &key));
                    if let Some(below) = level.checked_sub(1) {
                        // The children on both sides of the separator are neighbours now.
                        tasks.push(task(below, &merged.separator));
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds out what there is to do about a node. It latches nothing exclusively, since the pool counts a
    /// page that was latched exclusively as dirty and writes it back.
    fn check_node(&self, level: u8, key: &[u8]) -> Result<MergeCheck, DatabaseError> {
        let guard = self.shared_node(level.saturating_add(1), |node| node.slot_for(key))?;
        let parent = node_of(&guard)?;
        if parent.level() <= level {
            let has_one_child = !parent.is_leaf() && parent.count() == 1;
            return Ok(if has_one_child { MergeCheck::SingleChildRoot } else { MergeCheck::Nothing });
        }
        if parent.count() == 1 {
            return Ok(MergeCheck::NoNeighbour);
        }
        let slot = parent.slot_for(key)?;
        let mut before = None;
        for right in slot.saturating_sub(1)..parent.count().min(slot + 2) {
            let child = self.shared_child(&parent, right)?;
            let used = node_of(&child)?.used();
            if let Some(left) = before
                && self.may_merge(&parent, right, left, used)?
            {
                let left = if right == slot { LeftNeighbour::Before } else { LeftNeighbour::This };
                return Ok(MergeCheck::Mergeable(left));
            }
            before = Some(used);
        }
        Ok(MergeCheck::Nothing)
    }

    /// Whether two children that use these numbers of bytes are to be merged; `right` is the right one's
    /// slot.
    fn may_merge(&self, parent: &Node<'_>, right: usize, left_used: usize, right_used: usize) -> Result<bool, DatabaseError> {
        // In an inner node the first cell of the right one gets the separator as its key.
        let key = match parent.level() {
            1 => 0,
            _ => parent.key(right)?.len(),
        };
        let capacity = Node::capacity(self.pool.payload_size());
        let sparse = self.is_sparse_size(left_used) || self.is_sparse_size(right_used);
        Ok(sparse && (left_used + right_used + key) * 5 <= capacity * 4)
    }

    /// Merges two neighbours, if the conditions for it still hold, and frees the right one's page.
    fn merge(&self, level: u8, key: &[u8], left: LeftNeighbour) -> Result<Option<MergeResult>, DatabaseError> {
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
            return Err(DatabaseError::corrupt(node.page(), "two of its children are the same page"));
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
        Ok(Some(MergeResult { separator, parent_is_sparse }))
    }

    fn append_right<'t>(
        &'t self,
        parent: &mut WriteGuard<'t>,
        slot: usize,
        left: &mut WriteGuard<'t>,
        right: &WriteGuard<'_>,
        separator: &[u8],
    ) -> Result<(), DatabaseError> {
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
        let remove = Change::Remove { slot: slot16(slot + 1) };
        let append = Change::Append { cells: &cells, next: node.next().unwrap_or(0) };
        let mut map = self.latch_map_of(right.page())?;
        let changes = vec![(parent.page(), remove), (left.page(), append), (map.page(), unmark(right.page()))];
        self.restructure(changes, &mut [parent, left, &mut map], None)
    }

    /// Moves the content of the root's only child to the root. Returns false if the root has more children.
    fn pull_up(&self) -> Result<bool, DatabaseError> {
        let mut root = self.pool.of_class(INNER).fix_write(ROOT)?;
        let node = node_of(&root)?;
        if node.is_leaf() || node.count() != 1 {
            return Ok(false);
        }
        let child = self.exclusive_child(&node, 0)?;
        let below = node_of(&child)?;
        let cells = below.cells(0..below.count())?;
        let content = Content::Node { level: below.level(), next: 0, cells: &cells };
        let mut map = self.latch_map_of(child.page())?;
        let changes = vec![(ROOT, Change::Format(content)), (map.page(), unmark(child.page()))];
        self.restructure(changes, &mut [&mut root, &mut map], None)?;
        drop((root, map));
        self.free(child);
        Ok(true)
    }

    pub(super) fn latch_map_of(&self, page: u64) -> Result<WriteGuard<'_>, DatabaseError> {
        let map = self.allocation.maps.of(page);
        Ok(self.pool.of_class(MAP).fix_write(map)?)
    }

    /// Passes a page to the pool that is marked as free and to which no page refers. If that fails, the
    /// page can be used again after the database is reopened.
    pub(super) fn free(&self, guard: impl Latched) {
        let page = guard.number();
        drop(guard);
        if let Err(error) = self.pool.free(page) {
            tracing::warn!(%error, page, "a free page is not used again for now");
        }
    }
}

pub(super) fn unmark(page: u64) -> Change<'static> {
    let (first, count, used) = (page, 1, false);
    Change::Mark { first, count, used }
}
