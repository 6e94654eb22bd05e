//! Page numbers remembered after eviction, oldest first.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::lists::FrameLists;
use crate::policy::Page;

/// A queue of at most `capacity` page numbers without frames, found by hashing.
///
/// Policies search it on a miss only, so resident pages are never hashed.
pub(crate) struct GhostList {
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pages: Vec<Page>,
    order: FrameLists<2>,
}

const REMEMBERED: usize = 0;
const FREE: usize = 1;

impl GhostList {
    /// Room for `capacity` page numbers.
    pub(crate) fn new(capacity: u32) -> Self {
        let mut order = FrameLists::new(capacity);
        (0..capacity).for_each(|slot| order.push_mru(FREE, slot));
        GhostList {
            // A table at most half full makes room where pages were removed in place of growing, whatever its hasher's seed.
            index: HashTable::with_capacity(2 * capacity as usize),
            hasher: DefaultHashBuilder::default(),
            pages: vec![0; capacity as usize],
            order,
        }
    }

    /// Forgets `page`; true if it was remembered.
    pub(crate) fn take(&mut self, page: Page) -> bool {
        let hash = self.hasher.hash_one(page);
        let pages = &self.pages;
        let Ok(entry) = self.index.find_entry(hash, |&slot| pages[slot as usize] == page) else {
            return false;
        };
        let (slot, _) = entry.remove();
        self.order.remove(REMEMBERED, slot);
        self.order.push_mru(FREE, slot);
        true
    }

    /// Remembers `page`, which is not remembered yet, as the newest, then forgets the oldest
    /// until at most `limit` are left.
    pub(crate) fn put(&mut self, page: Page, limit: u32) {
        while self.order.len(REMEMBERED) > 0 && self.order.len(REMEMBERED) >= limit {
            self.forget_oldest();
        }
        if limit == 0 {
            return;
        }
        let Some(slot) = self.order.lru(FREE) else {
            return;
        };
        self.order.remove(FREE, slot);
        self.order.push_mru(REMEMBERED, slot);
        self.pages[slot as usize] = page;
        let (pages, hasher) = (&self.pages, &self.hasher);
        self.index.insert_unique(hasher.hash_one(page), slot, |&slot| hasher.hash_one(pages[slot as usize]));
    }

    fn forget_oldest(&mut self) {
        if let Some(slot) = self.order.lru(REMEMBERED) {
            let page = self.pages[slot as usize];
            self.take(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut ghosts = GhostList::new(3);
        for page in [7, u64::MAX, 9] {
            ghosts.put(page, 3);
        }
        ghosts.put(10, 2);
        assert!(!ghosts.take(7) && !ghosts.take(u64::MAX));
        assert!(ghosts.take(9) && ghosts.take(10) && !ghosts.take(10));
        ghosts.put(1, 0);
        assert!(!ghosts.take(1));
    }

    #[test]
    fn the_index_does_not_grow() {
        for capacity in [1, 7, 56, 64, 100] {
            for _ in 0..100 {
                let mut ghosts = GhostList::new(capacity);
                let size = ghosts.index.allocation_size();
                (0..2_000).for_each(|page| ghosts.put(page, capacity));
                assert_eq!(ghosts.index.allocation_size(), size, "{capacity} pages");
            }
        }
    }
}
