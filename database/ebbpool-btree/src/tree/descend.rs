//! Descending from the root: a thread latches each node before it releases the latch of its parent.

use std::ops::Deref;

use ebbpool::{ReadGuard, WriteGuard};

use super::Tree;
use crate::error::DatabaseError;
use crate::page::ROOT;
use crate::page::cell::Value;
use crate::page::class::{INNER, of_level};
use crate::page::node::Node;

impl Tree {
    /// Calls `with` with the value of a key, under the leaf's latch.
    pub(crate) fn look_up<R>(
        &self,
        key: &[u8],
        with: impl FnOnce(Option<Value<'_>>) -> Result<R, DatabaseError>,
    ) -> Result<R, DatabaseError> {
        let leaf = self.shared_leaf(|node| node.slot_for(key))?;
        let node = node_of(&leaf)?;
        match node.search(key)? {
            Ok(slot) => with(Some(node.value(slot)?)),
            Err(_) => with(None),
        }
    }

    /// The leaf to which `choose` leads, slot by slot.
    pub(super) fn shared_leaf(
        &self,
        choose: impl FnMut(&Node<'_>) -> Result<usize, DatabaseError>,
    ) -> Result<ReadGuard<'_>, DatabaseError> {
        self.shared(self.root()?, 0, choose)
    }

    /// The node at a level to which `choose` leads; the root if the root is not above that level.
    pub(super) fn shared_node(
        &self,
        level: u8,
        choose: impl FnMut(&Node<'_>) -> Result<usize, DatabaseError>,
    ) -> Result<ReadGuard<'_>, DatabaseError> {
        self.shared(self.root()?, level, choose)
    }

    /// The root, latched for reading.
    fn root(&self) -> Result<ReadGuard<'_>, DatabaseError> {
        Ok(self.pool.of_class(INNER).fix_read(ROOT)?)
    }

    /// From a node on down to a level.
    fn shared<'t>(
        &'t self,
        from: ReadGuard<'t>,
        level: u8,
        mut choose: impl FnMut(&Node<'_>) -> Result<usize, DatabaseError>,
    ) -> Result<ReadGuard<'t>, DatabaseError> {
        let mut guard = from;
        let mut below = None;
        loop {
            let node = node_of(&guard)?;
            expect_level(&node, below)?;
            if node.level() <= level {
                return Ok(guard);
            }
            below = Some(node.level());
            let child = self.child(&node, choose(&node)?)?;
            let class = of_level(node.level() - 1);
            guard = self.pool.of_class(class).fix_read(child)?;
        }
    }

    /// The node at a level to which `choose` leads, latched exclusively; the nodes above it are latched for
    /// reading on the way. It is the root if the root is not above the level. `choose` is called once for
    /// each node above.
    pub(super) fn exclusive(
        &self,
        level: u8,
        mut choose: impl FnMut(&Node<'_>) -> Result<usize, DatabaseError>,
    ) -> Result<WriteGuard<'_>, DatabaseError> {
        let mut root = self.root()?;
        if node_of(&root)?.level() <= level {
            drop(root);
            let latched = self.pool.of_class(INNER).fix_write(ROOT)?;
            if node_of(&latched)?.level() <= level {
                return Ok(latched);
            }
            // The tree has grown meanwhile.
            root = latched.downgrade();
        }
        let parent = self.shared(root, level.saturating_add(1), &mut choose)?;
        let node = node_of(&parent)?;
        let slot = choose(&node)?;
        self.exclusive_child(&node, slot)
    }

    /// A node's child, latched exclusively.
    pub(super) fn exclusive_child(&self, node: &Node<'_>, slot: usize) -> Result<WriteGuard<'_>, DatabaseError> {
        let class = of_level(node.level().saturating_sub(1));
        let child = self.child(node, slot)?;
        let child = self.pool.of_class(class).fix_write(child)?;
        expect_level(&node_of(&child)?, Some(node.level()))?;
        Ok(child)
    }

    /// A node's child, latched for reading.
    pub(super) fn shared_child(&self, node: &Node<'_>, slot: usize) -> Result<ReadGuard<'_>, DatabaseError> {
        let class = of_level(node.level().saturating_sub(1));
        let child = self.child(node, slot)?;
        let child = self.pool.of_class(class).fix_read(child)?;
        expect_level(&node_of(&child)?, Some(node.level()))?;
        Ok(child)
    }

    /// The page of a node's child.
    fn child(&self, node: &Node<'_>, slot: usize) -> Result<u64, DatabaseError> {
        self.expect_other(node.page(), node.child(slot)?)
    }

    /// Checks that the page to which another one refers can hold a node or part of a value. Otherwise a
    /// thread could latch a page that it has latched already, or create a page that does not exist.
    pub(super) fn expect_other(&self, page: u64, other: u64) -> Result<u64, DatabaseError> {
        let is_map = self.allocation.maps.is_map(other);
        match other > ROOT && other != page && other < self.pool.pages() && !is_map {
            true => Ok(other),
            false => Err(DatabaseError::corrupt(page, format!("it refers to page {other}, where nothing of the tree can be"))),
        }
    }
}

/// The node in a latched page.
pub(super) fn node_of<'g>(guard: &'g (impl Latched + ?Sized)) -> Result<Node<'g>, DatabaseError> {
    Node::open(guard.number(), guard)
}

/// A page that is latched for reading or exclusively.
pub(super) trait Latched: Deref<Target = [u8]> {
    fn number(&self) -> u64;
}

impl Latched for ReadGuard<'_> {
    fn number(&self) -> u64 {
        self.page()
    }
}

impl Latched for WriteGuard<'_> {
    fn number(&self) -> u64 {
        self.page()
    }
}

/// Checks that the level falls by one with each step, so that every descent ends.
fn expect_level(node: &Node<'_>, above: Option<u8>) -> Result<(), DatabaseError> {
    match above {
        Some(above) if above.checked_sub(1) != Some(node.level()) => Err(DatabaseError::corrupt(
            node.page(),
            format!("it is a node of level {} below one of level {above}", node.level()),
        )),
        _ => Ok(()),
    }
}
