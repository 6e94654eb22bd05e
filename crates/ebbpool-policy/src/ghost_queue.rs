//! Pages remembered after eviction by number, oldest first.

use std::hint::black_box;

use crate::lists::Lists;
use crate::policy::{Ghost, MOST_GHOSTS, Page};

/// A queue of page numbers that the driver finds again by their [`Ghost`], so that nothing is
/// searched for.
///
/// A driver may come with a ghost that was forgotten and given to another page since, so each is
/// kept with its page number.
pub(crate) struct GhostQueue {
    pages: Vec<Page>,
    kept: Vec<bool>,
    order: Lists<2>,
}

const KEPT: usize = 0;
const FREE: usize = 1;

impl GhostQueue {
    /// Room for `capacity` page numbers, or as many as there may be ghosts.
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.min(MOST_GHOSTS);
        let mut order = Lists::new(capacity);
        (0..capacity).for_each(|ghost| order.push_mru(FREE, ghost));
        GhostQueue {
            pages: vec![0; capacity as usize],
            kept: vec![false; capacity as usize],
            order,
        }
    }

    /// Number of pages remembered.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.order.len(KEPT)
    }

    /// True if `ghost` stands for `page`.
    #[inline]
    pub(crate) fn holds(&self, ghost: Ghost, page: Page) -> bool {
        self.kept[ghost as usize] && self.pages[ghost as usize] == page
    }

    /// Remembers `page` as the newest, if there is room.
    #[inline]
    pub(crate) fn push(&mut self, page: Page) -> Option<Ghost> {
        let ghost = self.order.lru(FREE)?;
        self.order.remove(FREE, ghost);
        self.order.push_mru(KEPT, ghost);
        self.pages[ghost as usize] = page;
        self.kept[ghost as usize] = true;
        Some(ghost)
    }

    /// Forgets a ghost that is kept.
    #[inline]
    pub(crate) fn forget(&mut self, ghost: Ghost) {
        self.order.remove(KEPT, ghost);
        self.order.push_mru(FREE, ghost);
        self.kept[ghost as usize] = false;
    }

    /// The ghost pushed first.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<Ghost> {
        self.order.lru(KEPT)
    }

    /// Reads what `holds` and `forget` will look at.
    #[inline]
    pub(crate) fn prefetch(&self, ghost: Ghost) {
        black_box((self.pages[ghost as usize], self.kept[ghost as usize]));
        self.order.prefetch(ghost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghosts_are_forgotten_in_order() {
        let mut ghosts = GhostQueue::new(2);
        let first = ghosts.push(7).expect("room");
        let second = ghosts.push(u64::MAX).expect("room");
        assert!(ghosts.holds(first, 7) && ghosts.holds(second, u64::MAX));
        assert_eq!(ghosts.oldest(), Some(first));
        assert_eq!((ghosts.push(9), ghosts.len()), (None, 2));
        ghosts.forget(first);
        assert_eq!((ghosts.push(9), ghosts.len()), (Some(first), 2));
        assert!(!ghosts.holds(first, 7) && ghosts.holds(first, 9));
        assert_eq!(ghosts.oldest(), Some(second));
        ghosts.forget(second);
        assert!(!ghosts.holds(second, u64::MAX));
        assert_eq!(ghosts.oldest(), Some(first));
    }
}
