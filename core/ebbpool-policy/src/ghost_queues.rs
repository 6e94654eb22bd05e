//! Pages remembered after their eviction, in queues, under the numbers that the driver stores.

use std::hint::black_box;

use crate::lists::FrameLists;
use crate::policy::{Ghost, MOST_GHOSTS, Page};

/// `LISTS - 1` queues of pages that are not resident, numbered from 0; the last list holds the
/// ghosts that are free.
///
/// The driver passes the ghost back, which finds the page without hashing. The page number reveals
/// a ghost that has meanwhile been forgotten and reused for another page.
pub(crate) struct GhostQueues<const LISTS: usize> {
    order: FrameLists<LISTS>,
    pages: Vec<Page>,
    list_of: Vec<u8>,
}

impl<const LISTS: usize> GhostQueues<LISTS> {
    const FREE: usize = LISTS - 1;

    /// Empty queues with room for `capacity` pages in all, but at most [`MOST_GHOSTS`].
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.min(MOST_GHOSTS);
        let mut order = FrameLists::new(capacity);
        (0..capacity).for_each(|ghost| order.push_mru(Self::FREE, ghost));
        GhostQueues { order, pages: vec![0; capacity as usize], list_of: vec![Self::FREE as u8; capacity as usize] }
    }

    /// The number of pages that there is room for: every ghost is below it.
    pub(crate) fn capacity(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Number of pages in `queue`.
    #[inline]
    pub(crate) fn len(&self, queue: usize) -> u32 {
        self.order.len(queue)
    }

    /// The queue in which `ghost` still stands for `page`.
    #[inline]
    pub(crate) fn queue_of(&self, ghost: Ghost, page: Page) -> Option<usize> {
        let list = usize::from(self.list_of[ghost as usize]);
        (list != Self::FREE && self.pages[ghost as usize] == page).then_some(list)
    }

    /// Remembers `page` as the newest of `queue`. Without room the queue forgets its oldest page
    /// for it; `None` if the queue is empty too.
    #[inline]
    pub(crate) fn put(&mut self, queue: usize, page: Page) -> Option<Ghost> {
        if !self.has_room() {
            self.forget_oldest(queue);
        }
        let ghost = self.order.lru(Self::FREE)?;
        self.pages[ghost as usize] = page;
        self.relink(ghost, queue);
        Some(ghost)
    }

    /// True if another page can be remembered without forgetting one.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.order.len(Self::FREE) > 0
    }

    /// The ghost that has been in `queue` longest.
    #[inline]
    pub(crate) fn oldest(&self, queue: usize) -> Option<Ghost> {
        self.order.lru(queue)
    }

    /// Forgets `ghost`, which is in a queue.
    #[inline]
    pub(crate) fn release(&mut self, ghost: Ghost) {
        self.relink(ghost, Self::FREE);
    }

    /// Forgets `page` if `ghost` still stands for it.
    #[inline]
    pub(crate) fn forget(&mut self, ghost: Ghost, page: Page) {
        if self.queue_of(ghost, page).is_some() {
            self.relink(ghost, Self::FREE);
        }
    }

    /// Forgets the page that has been in `queue` longest.
    #[inline]
    pub(crate) fn forget_oldest(&mut self, queue: usize) {
        if let Some(ghost) = self.order.lru(queue) {
            self.relink(ghost, Self::FREE);
        }
    }

    /// Loads what a miss of a remembered page reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, ghost: Ghost) {
        black_box((self.list_of[ghost as usize], self.pages[ghost as usize]));
        self.order.prefetch(ghost);
    }

    #[inline]
    fn relink(&mut self, ghost: Ghost, list: usize) {
        self.order.remove(usize::from(self.list_of[ghost as usize]), ghost);
        self.order.push_mru(list, ghost);
        self.list_of[ghost as usize] = list as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_until_they_are_forgotten() {
        let mut ghosts = GhostQueues::<3>::new(3);
        let of = [(0, 7), (1, u64::MAX), (0, 9)].map(|(queue, page)| {
            let ghost = ghosts.put(queue, page);
            ghost.map(|ghost| (ghost, page))
        });
        let [Some(seven), Some(max), Some(nine)] = of else {
            panic!("there is room for three");
        };
        assert_eq!((ghosts.len(0), ghosts.len(1)), (2, 1));
        assert_eq!(ghosts.queue_of(max.0, max.1), Some(1));
        assert_eq!(ghosts.queue_of(seven.0, 9), None);

        // No room: the queue forgets its oldest page and reuses the ghost for the new page.
        assert_eq!(ghosts.put(0, 10), Some(seven.0));
        assert_eq!(ghosts.queue_of(seven.0, seven.1), None);
        assert_eq!(ghosts.queue_of(seven.0, 10), Some(0));

        ghosts.forget(seven.0, seven.1);
        assert_eq!(ghosts.len(0), 2);
        ghosts.forget(max.0, max.1);
        assert_eq!(ghosts.queue_of(max.0, max.1), None);
        ghosts.forget_oldest(0);
        assert_eq!(ghosts.queue_of(nine.0, nine.1), None);
        assert_eq!((ghosts.len(0), ghosts.len(1)), (1, 0));
        ghosts.forget_oldest(1);
    }
}
