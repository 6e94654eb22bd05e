//! What is remembered of pages that left.

use prefetch_index::prefetch_index;

use super::history::{DIRTY, GHOST, Known};
use crate::lists::Lists;
use crate::policy::{Ghost, MOST_GHOSTS, Page};

/// The queue of ghosts that left clean.
const LEFT_CLEAN: usize = 0;
/// The queue of ghosts that left dirty.
const LEFT_DIRTY: usize = 1;
const FREE: usize = 2;

/// Two queues of pages that are not resident, by how they left.
pub(super) struct Ghosts {
    known: Vec<Known>,
    order: Lists<3>,
    /// Ghosts that left dirty are not forgotten for others below this number.
    dirty: u32,
}

fn queue_of(known: &Known) -> usize {
    match known.history.is(DIRTY) {
        true => LEFT_DIRTY,
        false => LEFT_CLEAN,
    }
}

impl Ghosts {
    /// At most `most` ghosts.
    pub(super) fn new(most: u32, dirty: u32) -> Self {
        let most = most.min(MOST_GHOSTS);
        let mut order = Lists::new(most);
        (0..most).for_each(|ghost| order.push_mru(FREE, ghost));
        Ghosts {
            known: vec![Known::default(); most as usize],
            order,
            dirty,
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, ghost: Ghost) {
        prefetch_index(&self.known, ghost as usize);
        self.order.prefetch(ghost);
    }

    /// Gives up what `ghost` remembers, if it still is the page's.
    #[inline]
    pub(super) fn take(&mut self, ghost: Ghost, page: Page) -> Option<Known> {
        let known = self.known[ghost as usize];
        if known.page != page || !known.history.is(GHOST) {
            return None;
        }
        self.order.remove(queue_of(&known), ghost);
        self.order.push_mru(FREE, ghost);
        self.known[ghost as usize].history.set(GHOST, false);
        Some(known)
    }

    /// Remembers a page as the newest of its queue, if there is room.
    #[inline]
    pub(super) fn put(&mut self, known: Known) -> Option<Ghost> {
        let ghost = self.order.mru(FREE)?;
        self.order.remove(FREE, ghost);
        self.order.push_mru(queue_of(&known), ghost);
        self.known[ghost as usize] = known;
        self.known[ghost as usize].history.set(GHOST, true);
        Some(ghost)
    }

    /// Makes room for a ghost if there is none; answers what was forgotten for it, and the page of
    /// its queue that is to be forgotten next. Of those that left dirty none is forgotten for one
    /// that left clean while they are few.
    #[inline]
    pub(super) fn make_room(&mut self) -> Option<(Known, Option<Page>)> {
        if self.order.len(FREE) > 0 {
            return None;
        }
        let queue = match self.order.len(LEFT_DIRTY) > self.dirty || self.order.len(LEFT_CLEAN) == 0
        {
            true => LEFT_DIRTY,
            false => LEFT_CLEAN,
        };
        let ghost = self.order.lru(queue)?;
        let next = self.order.mruward(ghost);
        if let Some(next) = next {
            self.order.prefetch(next);
            if let Some(after) = self.order.mruward(next) {
                prefetch_index(&self.known, after as usize);
            }
        }
        let known = self.take(ghost, self.known[ghost as usize].page)?;
        Some((known, next.map(|next| self.known[next as usize].page)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::*;

    fn page(page: Page, dirty: bool) -> Known {
        let mut history = History::default();
        history.set(DIRTY, dirty);
        Known { page, history }
    }

    #[test]
    fn those_that_left_dirty_have_a_share() {
        let mut ghosts = Ghosts::new(3, 1);
        let one = ghosts.put(page(1, true));
        let two = ghosts.put(page(2, false));
        assert!(ghosts.make_room().is_none());
        ghosts.put(page(3, false));
        assert!(ghosts.put(page(4, true)).is_none());

        assert_eq!(ghosts.make_room().map(|(known, _)| known.page), Some(2));
        assert!(ghosts.take(two.unwrap(), 2).is_none());
        assert_eq!(ghosts.put(page(4, true)), two);
        assert!(ghosts.take(two.unwrap(), 2).is_none());
        // Two that left dirty are more than their share.
        assert_eq!(ghosts.make_room().map(|(known, _)| known.page), Some(1));
        assert!(ghosts.take(one.unwrap(), 1).is_none());
        assert!(ghosts.take(two.unwrap(), 4).is_some());
        assert!(ghosts.take(two.unwrap(), 4).is_none());
    }
}
