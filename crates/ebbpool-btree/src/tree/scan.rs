//! Key after key: ascending along the links between leaves, descending by way of the root for each
//! leaf.

use std::ops::{Bound, ControlFlow};

use super::Tree;
use super::descend::node_of;
use crate::error::Error;
use crate::page::cell::Value;
use crate::page::node::Node;

/// What is called with each key.
type Each<'e> = &'e mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<()>, Error>;

impl Tree {
    /// Calls `each` with key after key, ascending, under the leaf's latch, from leaf to leaf, until
    /// it breaks. It must not call the tree, but for [`read_value`](Self::read_value).
    ///
    /// # Errors
    ///
    /// What `each` fails with, [`Error::Corrupt`], and what the pool fails with.
    pub(crate) fn ascend(&self, from: Bound<&[u8]>, each: Each<'_>) -> Result<(), Error> {
        let (Bound::Included(key) | Bound::Excluded(key)) = from else {
            return self.ascend(Bound::Included(&[]), each);
        };
        let mut leaf = self.shared_leaf(|node| node.slot_for(key))?;
        let mut begin = match node_of(&leaf)?.search(key)? {
            Ok(slot) => slot + usize::from(from == Bound::Excluded(key)),
            Err(slot) => slot,
        };
        let mut chain = Chain::default();
        loop {
            let node = node_of(&leaf)?;
            for slot in begin..node.count() {
                if each(node.key(slot)?, node.value(slot)?)?.is_break() {
                    return Ok(());
                }
            }
            let Some(next) = node.next() else {
                return Ok(());
            };
            chain.step(node.page(), next)?;
            let following = self.pool.fix_read(self.expect_other(node.page(), next)?)?;
            expect_leaf(&node_of(&following)?)?;
            (leaf, begin) = (following, 0);
        }
    }

    /// As [`ascend`](Self::ascend), descending.
    ///
    /// # Errors
    ///
    /// As [`ascend`](Self::ascend).
    pub(crate) fn descend(&self, from: Bound<&[u8]>, each: Each<'_>) -> Result<(), Error> {
        // Once a leaf is done, its least possible key; and that of the one now, empty if it is the
        // first.
        let (mut done, mut least): (Option<Vec<u8>>, Vec<u8>) = (None, Vec::new());
        loop {
            let to = done.as_deref().map_or(from, Bound::Excluded);
            least.clear();
            let leaf = self.shared_leaf(|node| {
                let slot = slot_up_to(node, to)?;
                if slot > 0 {
                    least.clear();
                    least.extend(node.key(slot)?);
                }
                Ok(slot)
            })?;
            let node = node_of(&leaf)?;
            for slot in (0..end_of(&node, to)?).rev() {
                if each(node.key(slot)?, node.value(slot)?)?.is_break() {
                    return Ok(());
                }
            }
            if least.is_empty() {
                return Ok(());
            }
            let before = done.get_or_insert_default();
            if !before.is_empty() && *before <= least {
                return Err(Error::corrupt(
                    node.page(),
                    "its keys are not where they belong",
                ));
            }
            std::mem::swap(before, &mut least);
        }
    }
}

/// The slot of the child that has the greatest key within a bound.
fn slot_up_to(node: &Node<'_>, to: Bound<&[u8]>) -> Result<usize, Error> {
    match to {
        Bound::Unbounded => Ok(node.count().saturating_sub(1)),
        Bound::Included(key) => node.slot_for(key),
        Bound::Excluded(key) => {
            let (Ok(slot) | Err(slot)) = node.search(key)?;
            Ok(slot.saturating_sub(1))
        }
    }
}

/// The slot after the last one within a bound.
fn end_of(node: &Node<'_>, to: Bound<&[u8]>) -> Result<usize, Error> {
    Ok(match to {
        Bound::Unbounded => node.count(),
        Bound::Included(key) => match node.search(key)? {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        },
        Bound::Excluded(key) => node.search(key)?.unwrap_or_else(|slot| slot),
    })
}

fn expect_leaf(node: &Node<'_>) -> Result<(), Error> {
    match node.is_leaf() {
        true => Ok(()),
        false => Err(Error::corrupt(
            node.page(),
            "it is no leaf, and a leaf's right neighbour",
        )),
    }
}

/// Finds out when links lead in a circle: one page is remembered, and another one after twice as
/// many steps (Brent 1980).
#[derive(Default)]
struct Chain {
    remembered: u64,
    steps: u64,
    power: u64,
}

impl Chain {
    fn step(&mut self, from: u64, to: u64) -> Result<(), Error> {
        if to == self.remembered {
            return Err(Error::corrupt(
                from,
                "the links between leaves lead in a circle",
            ));
        }
        self.steps += 1;
        if self.steps > self.power {
            (self.remembered, self.power, self.steps) = (to, (self.power * 2).max(1), 0);
        }
        Ok(())
    }
}
