//! Scans: ascending along the links between leaves, descending through the root for each leaf.

use std::ops::{Bound, ControlFlow};

use super::Tree;
use super::descend::node_of;
use crate::error::DatabaseError;
use crate::page::cell::Value;
use crate::page::class::LEAF;
use crate::page::node::Node;

/// A function that is called with each record.
type EachRecord<'e> = &'e mut dyn FnMut(&[u8], Value<'_>) -> Result<ControlFlow<()>, DatabaseError>;

impl Tree {
    /// Calls `each` with each record in ascending order of the keys, under the leaf's latch, until it
    /// breaks. `each` must not call the tree, except [`read_value`](Self::read_value).
    ///
    /// # Errors
    ///
    /// Errors of `each`, [`DatabaseError::Corrupt`], and errors of the pool.
    pub(crate) fn ascend(&self, from: Bound<&[u8]>, each: EachRecord<'_>) -> Result<(), DatabaseError> {
        let (Bound::Included(key) | Bound::Excluded(key)) = from else {
            return self.ascend(Bound::Included(&[]), each);
        };
        let mut leaf = self.shared_leaf(|node| node.slot_for(key))?;
        let mut begin = match node_of(&leaf)?.search(key)? {
            Ok(slot) => slot + usize::from(from == Bound::Excluded(key)),
            Err(slot) => slot,
        };
        let mut chain = LeafChain::default();
        loop {
            let node = node_of(&leaf)?;
            chain.visit(&node)?;
            for slot in begin..node.count() {
                if each(node.key(slot)?, node.value(slot)?)?.is_break() {
                    return Ok(());
                }
            }
            let Some(next) = node.next() else {
                return Ok(());
            };
            let next = self.expect_other(node.page(), next)?;
            let following = self.pool.of_class(LEAF).fix_read(next)?;
            expect_leaf(&node_of(&following)?)?;
            (leaf, begin) = (following, 0);
        }
    }

    /// Calls `each` with each record in descending order of the keys, under the leaf's latch, until it breaks. `each` must not
    /// call the tree, except [`read_value`](Self::read_value).
    ///
    /// # Errors
    ///
    /// As [`ascend`](Self::ascend).
    pub(crate) fn descend(&self, from: Bound<&[u8]>, each: EachRecord<'_>) -> Result<(), DatabaseError> {
        // The least possible key of the leaf before, if there was one, and that of the current leaf, which
        // is empty for the first leaf of the tree.
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
                return Err(DatabaseError::corrupt(node.page(), "its keys are not where they belong"));
            }
            std::mem::swap(before, &mut least);
        }
    }
}

/// The slot of the child that has the greatest key within a bound.
fn slot_up_to(node: &Node<'_>, to: Bound<&[u8]>) -> Result<usize, DatabaseError> {
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
fn end_of(node: &Node<'_>, to: Bound<&[u8]>) -> Result<usize, DatabaseError> {
    Ok(match to {
        Bound::Unbounded => node.count(),
        Bound::Included(key) => match node.search(key)? {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        },
        Bound::Excluded(key) => node.search(key)?.unwrap_or_else(|slot| slot),
    })
}

fn expect_leaf(node: &Node<'_>) -> Result<(), DatabaseError> {
    match node.is_leaf() {
        true => Ok(()),
        false => Err(DatabaseError::corrupt(node.page(), "it is no leaf, but the right neighbour of one")),
    }
}

/// Detects links that lead in a circle, by keys that do not ascend. Page numbers do not show it: during a
/// scan a page that the scan has left may be freed and used again further to the right. Only for leaves
/// without keys, one after the other, the numbers have to do: the scan remembers one page, and another one
/// after twice as many steps (Brent 1980).
#[derive(Default)]
struct LeafChain {
    /// The greatest key so far.
    last: Option<Vec<u8>>,
    remembered: u64,
    steps: u64,
    power: u64,
}

impl LeafChain {
    fn visit(&mut self, leaf: &Node<'_>) -> Result<(), DatabaseError> {
        let circle = || DatabaseError::corrupt(leaf.page(), "the links between leaves lead in a circle");
        if let Some(greatest) = leaf.count().checked_sub(1) {
            let first = leaf.key(0)?;
            if self.last.as_deref().is_some_and(|last| first <= last) {
                return Err(circle());
            }
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(leaf.key(greatest)?);
            (self.remembered, self.power, self.steps) = (0, 0, 0);
            return Ok(());
        }
        if leaf.page() == self.remembered {
            return Err(circle());
        }
        self.steps += 1;
        if self.steps > self.power {
            (self.remembered, self.power, self.steps) = (leaf.page(), (self.power * 2).max(1), 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Change, Content};
    use crate::page::cell::write_leaf_cell;

    /// Whether leaves, each a page with its keys, are taken for a circle.
    fn is_circle(leaves: &[(u64, &[&str])]) -> bool {
        let mut chain = LeafChain::default();
        leaves.iter().any(|(page, keys)| {
            let (mut payload, mut cells) = (vec![0; 480], Vec::new());
            for key in *keys {
                write_leaf_cell(key.as_bytes(), Value::Inline(b""), &mut cells);
            }
            let (level, next, cells) = (0, 1, &cells[..]);
            let format = Change::Format(Content::Node { level, next, cells });
            format.apply(*page, &mut payload).unwrap();
            chain.visit(&Node::open(*page, &payload).unwrap()).is_err()
        })
    }

    #[test]
    fn a_page_that_is_reused_further_to_the_right_is_no_circle() {
        let long: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
        let long: Vec<[&str; 1]> = long.iter().map(|key| [key.as_str()]).collect();
        let two_pages = (5..7u64).cycle().zip(long.iter().map(|keys| &keys[..]));
        assert!(!is_circle(&two_pages.collect::<Vec<_>>()));
        assert!(!is_circle(&[(5, &["a"]), (6, &[]), (5, &["b", "c"]), (6, &["d"])]));
    }

    #[test]
    fn circles_are_detected_by_keys_or_by_pages_without_keys() {
        assert!(is_circle(&[(5, &["a"]), (6, &["b"]), (5, &["a"])]));
        assert!(is_circle(&[(5, &["a", "c"]), (6, &["c"])]));
        let empty: &[&str] = &[];
        for length in 1..20u64 {
            let circle = (0..100).map(|at| (5 + at % length, empty));
            assert!(is_circle(&circle.collect::<Vec<_>>()), "{length}");
            let chain: Vec<_> = (5..5 + length).map(|page| (page, empty)).collect();
            assert!(!is_circle(&chain));
        }
    }
}
