//! Walks the tree from the root, and on the way the chain of the leaves and the chains of long values.

use super::pages::PageCheck;
use crate::error::DatabaseError;
use crate::page::cell::Value;
use crate::page::node::Node;
use crate::page::overflow::OverflowPart;
use crate::page::{META, ROOT};
use crate::tree::TreeShape;

/// A walk through the tree, from left to right.
pub(super) struct TreeWalk<'p, 't> {
    pages: &'p mut PageCheck<'t>,
    shape: TreeShape,
    /// Nodes that are still to be visited, the next one last.
    pending: Vec<PendingNode>,
    last_leaf: LastLeaf,
}

/// A node to be visited, with what its parent says of it.
struct PendingNode {
    page: u64,
    from: u64,
    /// The expected level; nothing for the root, which may have any.
    level: Option<u8>,
    /// The node's keys are this one or greater.
    low: Vec<u8>,
    /// And less than this one.
    high: Option<Vec<u8>>,
}

/// The leaf that the walk visited last.
enum LastLeaf {
    /// There is none, or it may be below a page that cannot be read.
    Unknown,
    Seen {
        page: u64,
        next: Option<u64>,
    },
}

impl<'p, 't> TreeWalk<'p, 't> {
    pub(super) fn new(pages: &'p mut PageCheck<'t>) -> Self {
        let root = PendingNode { page: ROOT, from: META, level: None, low: Vec::new(), high: None };
        TreeWalk { pages, shape: TreeShape::default(), pending: vec![root], last_leaf: LastLeaf::Unknown }
    }

    pub(super) fn run(mut self) -> Result<TreeShape, DatabaseError> {
        while let Some(pending) = self.pending.pop() {
            if !self.visit(&pending)? {
                self.last_leaf = LastLeaf::Unknown;
                self.pages.mark_incomplete();
            }
        }
        if let LastLeaf::Seen { page, next: Some(next) } = self.last_leaf {
            let what = format!("it is the last leaf, and names page {next} as the one to its right");
            self.pages.add_finding(page, what);
        }
        Ok(self.shape)
    }

    /// Returns false if the pages below the node could not be found.
    fn visit(&mut self, pending: &PendingNode) -> Result<bool, DatabaseError> {
        let page = pending.page;
        if !self.pages.reach(page, pending.from) {
            return Ok(false);
        }
        let Some(payload) = self.pages.read(page)? else {
            return Ok(false);
        };
        let Some(node) = self.pages.note(Node::open(page, &payload))? else {
            return Ok(false);
        };
        self.check_level(pending, &node);
        let verified = self.pages.note(node.verify())?.is_some();
        if verified {
            let within = keys_within(pending, &node);
            self.pages.note(within)?;
        }
        match node.is_leaf() {
            true => self.visit_leaf(page, &node),
            false => self.visit_children(pending, &node, verified),
        }
    }

    fn visit_children(&mut self, pending: &PendingNode, node: &Node<'_>, verified: bool) -> Result<bool, DatabaseError> {
        self.shape.inner_nodes += 1;
        let children = children(pending, node, verified);
        let Some(children) = self.pages.note(children)? else {
            return Ok(false);
        };
        self.pending.extend(children.into_iter().rev());
        Ok(true)
    }

    fn visit_leaf(&mut self, page: u64, node: &Node<'_>) -> Result<bool, DatabaseError> {
        self.shape.leaves += 1;
        self.shape.keys += node.count() as u64;
        self.link(page, node.next());
        for slot in 0..node.count() {
            let value = self.pages.note(node.value(slot))?;
            let long = match value {
                Some(Value::Inline(_)) => continue,
                Some(Value::Overflow { first, length }) => self.follow(page, slot, first, length)?,
                None => None,
            };
            if long.is_none() {
                self.pages.mark_incomplete();
            }
        }
        Ok(true)
    }

    fn check_level(&mut self, pending: &PendingNode, node: &Node<'_>) {
        let level = node.level();
        match pending.level {
            None => self.shape.height = level.saturating_add(1),
            Some(expected) if expected == level => {}
            Some(expected) => {
                let from = pending.from;
                let what = format!("it is of level {level}, and below page {from} that is {expected}");
                self.pages.add_finding(pending.page, what);
            }
        }
    }

    /// Compares the link of the previous leaf with the page of this one.
    fn link(&mut self, leaf: u64, next: Option<u64>) {
        if let LastLeaf::Seen { page, next } = self.last_leaf
            && next != Some(leaf)
        {
            let named = next.map_or("no page".to_owned(), |next| format!("page {next}"));
            let what = format!("it names {named} as the leaf to its right, and that is page {leaf}");
            self.pages.add_finding(page, what);
        }
        self.last_leaf = LastLeaf::Seen { page: leaf, next };
    }

    /// Follows the pages of a long value. Returns nothing if that is not possible.
    fn follow(&mut self, leaf: u64, slot: usize, first: u64, length: u32) -> Result<Option<()>, DatabaseError> {
        let (mut page, mut from, mut found) = (first, leaf, 0u64);
        loop {
            if !self.pages.reach(page, from) {
                return Ok(None);
            }
            let Some(payload) = self.pages.read(page)? else {
                return Ok(None);
            };
            let Some(part) = self.pages.note(OverflowPart::read(page, &payload))? else {
                return Ok(None);
            };
            self.shape.overflow_pages += 1;
            found += part.bytes.len() as u64;
            match part.next {
                Some(next) => (page, from) = (next, page),
                None => break,
            }
        }
        if found != u64::from(length) {
            let what = format!(
                "the value at slot {slot} has {length} bytes, and its overflow pages from page \
                 {first} on have {found}"
            );
            self.pages.add_finding(leaf, what);
        }
        Ok(Some(()))
    }
}

/// Checks that the keys, which ascend, lie between the parent's separators.
fn keys_within(pending: &PendingNode, node: &Node<'_>) -> Result<(), DatabaseError> {
    // An inner node's first key stands for the lower bound that its parent gives.
    let first = usize::from(!node.is_leaf());
    let Some(last) = node.count().checked_sub(1).filter(|&last| last >= first) else {
        return Ok(());
    };
    let (least, greatest) = (node.key(first)?, node.key(last)?);
    let too_small = match node.is_leaf() {
        true => least < &pending.low[..],
        // If the second key equals the lower bound, no key could be in the first child.
        false => least <= &pending.low[..],
    };
    let too_great = pending.high.as_deref().is_some_and(|high| greatest >= high);
    let from = pending.from;
    match (too_small, too_great) {
        (false, false) => Ok(()),
        (true, _) => Err(DatabaseError::corrupt(pending.page, format!("it has keys less than its separator in page {from}"))),
        (_, true) => Err(DatabaseError::corrupt(
            pending.page,
            format!("it has keys that belong to its right, by the separators in page {from}"),
        )),
    }
}

/// The children, from left to right. If the node's own keys are not in order, the children get the bounds
/// of the node itself.
fn children(pending: &PendingNode, node: &Node<'_>, ordered: bool) -> Result<Vec<PendingNode>, DatabaseError> {
    let count = node.count();
    let child = |slot: usize| {
        let low = match slot > 0 && ordered {
            true => node.key(slot)?.to_vec(),
            false => pending.low.clone(),
        };
        let high = match slot + 1 < count && ordered {
            true => Some(node.key(slot + 1)?.to_vec()),
            false => pending.high.clone(),
        };
        Ok(PendingNode { page: node.child(slot)?, from: pending.page, level: Some(node.level() - 1), low, high })
    };
    (0..count).map(child).collect()
}
