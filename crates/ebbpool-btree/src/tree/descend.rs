//! Ways from the root down: each node is latched before its parent is let go.

use std::ops::Deref;

use ebbpool::{ReadGuard, WriteGuard};

use super::Tree;
use crate::error::Error;
use crate::page::ROOT;
use crate::page::cell::Value;
use crate::page::node::Node;

impl Tree {
    /// Calls `with` with the value of a key, under the leaf's latch.
    pub(crate) fn look_up<R>(
        &self,
        key: &[u8],
        with: impl FnOnce(Option<Value<'_>>) -> Result<R, Error>,
    ) -> Result<R, Error> {
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
        choose: impl FnMut(&Node<'_>) -> Result<usize, Error>,
    ) -> Result<ReadGuard<'_>, Error> {
        self.shared(self.pool.fix_read(ROOT)?, 0, choose)
    }

    /// The node at a level to which `choose` leads; the root if that is not above it.
    pub(super) fn shared_node(
        &self,
        level: u8,
        choose: impl FnMut(&Node<'_>) -> Result<usize, Error>,
    ) -> Result<ReadGuard<'_>, Error> {
        self.shared(self.pool.fix_read(ROOT)?, level, choose)
    }

    /// From a node on down to a level.
    fn shared<'t>(
        &'t self,
        from: ReadGuard<'t>,
        level: u8,
        mut choose: impl FnMut(&Node<'_>) -> Result<usize, Error>,
    ) -> Result<ReadGuard<'t>, Error> {
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
            guard = self.pool.fix_read(child)?;
        }
    }

    /// The node at a level to which `choose` leads, latched exclusively, those above it not; the
    /// root if that is not above the level. `choose` is asked for each node above, once.
    pub(super) fn exclusive(
        &self,
        level: u8,
        mut choose: impl FnMut(&Node<'_>) -> Result<usize, Error>,
    ) -> Result<WriteGuard<'_>, Error> {
        let mut root = self.pool.fix_read(ROOT)?;
        if node_of(&root)?.level() <= level {
            drop(root);
            let latched = self.pool.fix_write(ROOT)?;
            if node_of(&latched)?.level() <= level {
                return Ok(latched);
            }
            // It has grown meanwhile.
            root = latched.downgrade();
        }
        let parent = self.shared(root, level.saturating_add(1), &mut choose)?;
        let node = node_of(&parent)?;
        let slot = choose(&node)?;
        self.exclusive_child(&node, slot)
    }

    /// A node's child, latched exclusively.
    pub(super) fn exclusive_child(
        &self,
        node: &Node<'_>,
        slot: usize,
    ) -> Result<WriteGuard<'_>, Error> {
        let child = self.pool.fix_write(self.child(node, slot)?)?;
        expect_level(&node_of(&child)?, Some(node.level()))?;
        Ok(child)
    }

    /// A node's child, latched.
    pub(super) fn shared_child(
        &self,
        node: &Node<'_>,
        slot: usize,
    ) -> Result<ReadGuard<'_>, Error> {
        let child = self.pool.fix_read(self.child(node, slot)?)?;
        expect_level(&node_of(&child)?, Some(node.level()))?;
        Ok(child)
    }

    /// The page of a node's child.
    fn child(&self, node: &Node<'_>, slot: usize) -> Result<u64, Error> {
        self.expect_other(node.page(), node.child(slot)?)
    }

    /// A page to which another one refers, if a node or part of a value can be there. Nobody is to
    /// latch the page that he has latched already, or make one dirty that does not exist.
    pub(super) fn expect_other(&self, page: u64, other: u64) -> Result<u64, Error> {
        let is_map = self.allocation.maps.is_map(other);
        match other > ROOT && other != page && other < self.pool.pages() && !is_map {
            true => Ok(other),
            false => Err(Error::corrupt(
                page,
                format!("it refers to page {other}, where nothing of the tree can be"),
            )),
        }
    }
}

/// The node in a page that is latched.
pub(super) fn node_of<'g>(guard: &'g (impl Latched + ?Sized)) -> Result<Node<'g>, Error> {
    Node::open(guard.number(), guard)
}

/// A page that is latched, one way or the other.
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

/// Levels fall by one with each step, so that every way down ends.
fn expect_level(node: &Node<'_>, above: Option<u8>) -> Result<(), Error> {
    match above {
        Some(above) if above.checked_sub(1) != Some(node.level()) => Err(Error::corrupt(
            node.page(),
            format!(
                "it is a node of level {} below one of level {above}",
                node.level()
            ),
        )),
        _ => Ok(()),
    }
}
