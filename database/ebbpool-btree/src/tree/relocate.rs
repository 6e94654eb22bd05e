//! Moving pages to free ones before them. One log record moves a page: it has the changes of the page that refers to it, of
//! the leaf before a leaf, of the new page, and of the allocation maps. Nothing else changes the tree meanwhile.

use ebbpool::WriteGuard;

use super::Tree;
use super::descend::{Latched, node_of};
use super::merge::unmark;
use super::restructure::{mark, slot16};
use crate::allocation::AllocatedPage;
use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::log::PromisedRoom;
use crate::page::cell::{Value, write_inner_cell, write_leaf_cell};
use crate::page::class::{INNER, OVERFLOW, of_level};
use crate::page::node::Node;
use crate::page::overflow::OverflowPart;
use crate::page::{PageKind, ROOT};

/// A function that is called before each page is moved, and promises room in the log.
type PromiseRoom<'t, 'r> = &'r mut dyn FnMut() -> Result<PromisedRoom<'t>, DatabaseError>;

/// Moves pages of a tree.
struct Relocation<'t, 'r> {
    tree: &'t Tree,
    /// Pages from here on are moved; none if no page before is free.
    end: u64,
    room: PromiseRoom<'t, 'r>,
    /// Values have pages there.
    values: bool,
    /// The last leaf so far, in the order of the keys.
    last_leaf: Option<u64>,
    moved: &'r mut u64,
}

impl Tree {
    /// Moves the pages from `end` on to free ones before it, as long as there are some, and counts them.
    ///
    /// # Errors
    ///
    /// Errors of `room`, of the pool and the log, and [`DatabaseError::Corrupt`]. The pages until then are moved.
    pub(crate) fn relocate<'t>(&'t self, end: u64, room: PromiseRoom<'t, '_>, moved: &mut u64) -> Result<(), DatabaseError> {
        let above = self.allocation.used_from(&self.pool, end)?;
        if above.is_empty() {
            return Ok(());
        }
        let values = above.into_iter().try_fold(false, |found, page| {
            let kind = |page| Ok::<_, DatabaseError>(PageKind::from_payload(&self.pool.fix_read(page)?));
            Ok::<_, DatabaseError>(found || kind(page)? == Some(PageKind::Overflow))
        })?;
        Relocation { tree: self, end, room, values, last_leaf: None, moved }.below(ROOT)
    }
}

impl<'t> Relocation<'t, '_> {
    /// Moves pages below a node, which does not move itself.
    fn below(&mut self, page: u64) -> Result<(), DatabaseError> {
        let (level, count) = self.node(page, |node| Ok((node.level(), node.count())))?;
        if level == 0 {
            return self.values_of(page);
        }
        for slot in 0..count {
            let mut child = self.node(page, |node| node.child(slot))?;
            if child >= self.end {
                child = self.move_node(page, slot)?.unwrap_or(child);
            }
            match level {
                1 if !self.values => {}
                _ => self.below(child)?,
            }
            if level == 1 {
                self.last_leaf = Some(child);
            }
        }
        Ok(())
    }

    fn node<R>(&self, page: u64, look: impl FnOnce(&Node<'_>) -> Result<R, DatabaseError>) -> Result<R, DatabaseError> {
        let _admitted = self.tree.admission.enter();
        look(&node_of(&self.tree.pool.fix_read(page)?)?)
    }

    /// Moves a node's child. Returns its new page, nothing if it stays.
    fn move_node(&mut self, parent: u64, slot: usize) -> Result<Option<u64>, DatabaseError> {
        let tree = self.tree;
        let _room = (self.room)()?;
        let _admitted = tree.admission.enter();
        let parent = tree.pool.of_class(INNER).fix_write(parent)?;
        let node = node_of(&parent)?;
        let before = self.last_leaf.filter(|_| node.level() == 1);
        let before = before.map(|leaf| tree.pool.of_class(of_level(0)).fix_write(leaf)).transpose()?;
        let old = tree.shared_child(&node, slot)?;
        let child = node_of(&old)?;
        let (level, next, cells) = (child.level(), child.next().unwrap_or(0), child.cells(0..child.count())?);
        let Some(taken) = self.take(of_level(level))? else {
            return Ok(None);
        };
        let new = taken.page.page();
        let mut cell = Vec::new();
        write_inner_cell(node.key(slot)?, new, &mut cell);
        let mut changes = vec![(parent.page(), Change::Replace { slot: slot16(slot), cell: &cell })];
        changes.extend(before.as_ref().map(|leaf| (leaf.page(), Change::Append { cells: &[], next: new })));
        changes.push((new, Change::Format(Content::Node { level, next, cells: &cells })));
        self.replace(changes, std::iter::once(parent).chain(before).collect(), old, taken)?;
        Ok(Some(new))
    }

    /// Moves pages of a leaf's long values.
    fn values_of(&mut self, leaf: u64) -> Result<(), DatabaseError> {
        let values = self.node(leaf, |node| {
            let all = (0..node.count()).map(|slot| Ok((slot, node.value(slot)?)));
            let long = |value: Result<(usize, Value<'_>), DatabaseError>| match value {
                Ok((_, Value::Inline(_))) => None,
                Ok((slot, Value::Overflow { first, .. })) => Some(Ok((slot, first))),
                Err(error) => Some(Err(error)),
            };
            all.filter_map(long).collect::<Result<Vec<_>, _>>()
        })?;
        for (slot, first) in values {
            let pages = self.tree.overflow_pages(first)?;
            // The last one first, so that the page which refers to one is still where it was.
            for at in (0..pages.len()).rev().filter(|&at| pages[at] >= self.end).collect::<Vec<_>>() {
                match at.checked_sub(1) {
                    Some(before) => self.move_part(pages[before], None, pages[at])?,
                    None => self.move_part(leaf, Some(slot), pages[at])?,
                }
            }
        }
        Ok(())
    }

    /// Moves a page of a long value, to which an earlier one refers, or a slot of a leaf.
    fn move_part(&mut self, from: u64, slot: Option<usize>, page: u64) -> Result<(), DatabaseError> {
        let tree = self.tree;
        let _room = (self.room)()?;
        let _admitted = tree.admission.enter();
        let class = match slot {
            None => OVERFLOW,
            Some(_) if from == ROOT => INNER,
            Some(_) => of_level(0),
        };
        let from = tree.pool.of_class(class).fix_write(from)?;
        let old = tree.pool.of_class(OVERFLOW).fix_read(page)?;
        let part = OverflowPart::read(page, &old)?;
        let (next, bytes) = (part.next.unwrap_or(0), part.bytes.to_vec());
        let Some(taken) = self.take(OVERFLOW)? else {
            return Ok(());
        };
        let new = taken.page.page();
        let mut referring = Vec::new();
        let refer = match slot {
            None => {
                referring.extend_from_slice(OverflowPart::read(from.page(), &from)?.bytes);
                Change::Format(Content::Overflow { next: new, bytes: &referring })
            }
            Some(slot) => {
                let node = node_of(&from)?;
                let Value::Overflow { length, .. } = node.value(slot)? else {
                    return Err(DatabaseError::corrupt(from.page(), "a long value in it has changed"));
                };
                write_leaf_cell(node.key(slot)?, Value::Overflow { first: new, length }, &mut referring);
                Change::Replace { slot: slot16(slot), cell: &referring }
            }
        };
        let changes = vec![(from.page(), refer), (new, Change::Format(Content::Overflow { next, bytes: &bytes }))];
        self.replace(changes, vec![from], old, taken)
    }

    /// Allocates a page before the end; nothing if none is free there.
    fn take(&mut self, class: ebbpool::policy::PageClass) -> Result<Option<AllocatedPage<'t>>, DatabaseError> {
        let Tree { pool, wal, allocation, .. } = self.tree;
        let taken = allocation.take(pool, wal, class)?;
        if taken.page.page() < self.end {
            return Ok(Some(taken));
        }
        allocation.give_back(pool, taken);
        self.end = u64::MAX;
        Ok(None)
    }

    /// Makes changes by which a new page replaces an old one, and frees that.
    fn replace(
        &mut self,
        mut changes: Vec<(u64, Change<'_>)>,
        mut pages: Vec<WriteGuard<'t>>,
        old: impl Latched,
        taken: AllocatedPage<'t>,
    ) -> Result<(), DatabaseError> {
        let (tree, page) = (self.tree, old.number());
        let map = tree.allocation.maps.of(page);
        if map != taken.map.page() {
            match tree.latch_map_of(page) {
                Ok(map) => pages.push(map),
                Err(error) => {
                    tree.allocation.give_back(&tree.pool, taken);
                    return Err(error);
                }
            }
        }
        changes.extend([mark(&taken), (map, unmark(page))]);
        tree.restructure(changes, &mut pages.iter_mut().collect::<Vec<_>>(), Some(taken))?;
        drop(pages);
        tree.free(old);
        *self.moved += 1;
        Ok(())
    }
}
