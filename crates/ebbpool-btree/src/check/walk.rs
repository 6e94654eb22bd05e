//! Walking the tree from the root, and the chain of the leaves and those of long values on the way.

use super::pages::Pages;
use crate::error::Error;
use crate::page::cell::Value;
use crate::page::node::Node;
use crate::page::overflow::Part;
use crate::page::{META, ROOT};
use crate::tree::Shape;

/// A walk, from left to right.
pub(super) struct Walk<'p, 't> {
    pages: &'p mut Pages<'t>,
    shape: Shape,
    /// Nodes that are still to be seen, the next one last.
    pending: Vec<Pending>,
    last_leaf: LastLeaf,
}

/// A node that its parent has named.
struct Pending {
    page: u64,
    from: u64,
    /// Nothing for the root, which may have any.
    level: Option<u8>,
    /// The node's keys are this one or greater.
    low: Vec<u8>,
    /// And less than this one.
    high: Option<Vec<u8>>,
}

/// The leaf to the left of where the walk is.
enum LastLeaf {
    /// There is none, or it is below a page that cannot be read.
    Unknown,
    Seen {
        page: u64,
        next: Option<u64>,
    },
}

impl<'p, 't> Walk<'p, 't> {
    pub(super) fn new(pages: &'p mut Pages<'t>) -> Self {
        let root = Pending {
            page: ROOT,
            from: META,
            level: None,
            low: Vec::new(),
            high: None,
        };
        Walk {
            pages,
            shape: Shape::default(),
            pending: vec![root],
            last_leaf: LastLeaf::Unknown,
        }
    }

    pub(super) fn run(mut self) -> Result<Shape, Error> {
        while let Some(pending) = self.pending.pop() {
            if !self.visit(&pending)? {
                self.last_leaf = LastLeaf::Unknown;
                self.pages.miss_some();
            }
        }
        if let LastLeaf::Seen {
            page,
            next: Some(next),
        } = self.last_leaf
        {
            let what =
                format!("it is the last leaf, and names page {next} as the one to its right");
            self.pages.find(page, what);
        }
        Ok(self.shape)
    }

    /// False if what is below the node cannot be known.
    fn visit(&mut self, pending: &Pending) -> Result<bool, Error> {
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
        self.look_at_level(pending, &node);
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

    fn visit_children(
        &mut self,
        pending: &Pending,
        node: &Node<'_>,
        verified: bool,
    ) -> Result<bool, Error> {
        self.shape.inner_nodes += 1;
        let children = children(pending, node, verified);
        let Some(children) = self.pages.note(children)? else {
            return Ok(false);
        };
        self.pending.extend(children.into_iter().rev());
        Ok(true)
    }

    fn visit_leaf(&mut self, page: u64, node: &Node<'_>) -> Result<bool, Error> {
        self.shape.leaves += 1;
        self.shape.keys += node.count() as u64;
        self.link(page, node.next());
        for slot in 0..node.count() {
            let value = self.pages.note(node.value(slot))?;
            let long = match value {
                Some(Value::Inline(_)) => continue,
                Some(Value::Overflow { first, length }) => {
                    self.follow(page, slot, first, length)?
                }
                None => None,
            };
            if long.is_none() {
                self.pages.miss_some();
            }
        }
        Ok(true)
    }

    fn look_at_level(&mut self, pending: &Pending, node: &Node<'_>) {
        let level = node.level();
        match pending.level {
            None => self.shape.height = level.saturating_add(1),
            Some(expected) if expected == level => {}
            Some(expected) => {
                let from = pending.from;
                let what =
                    format!("it is of level {level}, and below page {from} that is {expected}");
                self.pages.find(pending.page, what);
            }
        }
    }

    /// Compares the link of the leaf before with where this one is.
    fn link(&mut self, leaf: u64, next: Option<u64>) {
        if let LastLeaf::Seen { page, next } = self.last_leaf
            && next != Some(leaf)
        {
            let named = next.map_or("no page".to_owned(), |next| format!("page {next}"));
            let what =
                format!("it names {named} as the leaf to its right, and that is page {leaf}");
            self.pages.find(page, what);
        }
        self.last_leaf = LastLeaf::Seen { page: leaf, next };
    }

    /// Follows the pages of a long value; nothing if that is not possible.
    fn follow(
        &mut self,
        leaf: u64,
        slot: usize,
        first: u64,
        length: u32,
    ) -> Result<Option<()>, Error> {
        let (mut page, mut from, mut found) = (first, leaf, 0u64);
        loop {
            if !self.pages.reach(page, from) {
                return Ok(None);
            }
            let Some(payload) = self.pages.read(page)? else {
                return Ok(None);
            };
            let Some(part) = self.pages.note(Part::read(page, &payload))? else {
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
            self.pages.find(leaf, what);
        }
        Ok(Some(()))
    }
}

/// Whether the keys, which ascend, are those that the parent's separators promise.
fn keys_within(pending: &Pending, node: &Node<'_>) -> Result<(), Error> {
    // An inner node's first key stands for whatever its parent says.
    let first = usize::from(!node.is_leaf());
    let Some(last) = node.count().checked_sub(1).filter(|&last| last >= first) else {
        return Ok(());
    };
    let (least, greatest) = (node.key(first)?, node.key(last)?);
    let too_small = match node.is_leaf() {
        true => least < &pending.low[..],
        // Nothing could be in the first child.
        false => least <= &pending.low[..],
    };
    let too_great = pending.high.as_deref().is_some_and(|high| greatest >= high);
    let from = pending.from;
    match (too_small, too_great) {
        (false, false) => Ok(()),
        (true, _) => Err(Error::corrupt(
            pending.page,
            format!("it has keys less than its separator in page {from}"),
        )),
        (_, true) => Err(Error::corrupt(
            pending.page,
            format!("it has keys that belong to its right, by the separators in page {from}"),
        )),
    }
}

/// The children, from left to right. Where the node's own keys are in no order, what the parent said
/// of them has to do.
fn children(pending: &Pending, node: &Node<'_>, ordered: bool) -> Result<Vec<Pending>, Error> {
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
        Ok(Pending {
            page: node.child(slot)?,
            from: pending.page,
            level: Some(node.level() - 1),
            low,
            high,
        })
    };
    (0..count).map(child).collect()
}
