//! A driver's table of ghosts.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::policy::{Ghost, MOST_GHOSTS, Page};

/// The end of a chain.
const NONE: u32 = u32::MAX;
const _: () = assert!(MOST_GHOSTS < NONE);

/// The ghosts by which a policy remembers pages that are not resident, for a driver whose page table has no room for
/// them. It holds at most as many pages as the policy has ghosts, since a ghost belongs to one page at a time.
///
/// It takes 16 bytes for each ghost, and grows only for a ghost beyond those that it has room for.
#[derive(Debug, Default)]
pub struct GhostPages {
    /// By ghost.
    entries: Vec<GhostEntry>,
    /// The first ghost of each chain: as many chains as there is room for ghosts.
    chains: Vec<Ghost>,
    hasher: DefaultHashBuilder,
}

/// The latest page of a ghost, unless `next` is the ghost itself, and the next ghost of the chain.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct GhostEntry {
    page: Page,
    next: Ghost,
}

impl GhostPages {
    /// Room for ghosts below this number, so that nothing is allocated for them later.
    pub fn with_capacity(ghosts: u32) -> Self {
        let mut pages = GhostPages::default();
        pages.grow(ghosts as usize);
        pages
    }

    /// The ghost by which the policy remembers the page, if it does.
    #[inline]
    pub fn get(&self, page: Page) -> Option<Ghost> {
        if self.chains.is_empty() {
            return None;
        }
        let mut at = self.chains[self.chain(page)];
        while at != NONE {
            let GhostEntry { page: other, next } = self.entries[at as usize];
            if other == page {
                return Some(at);
            }
            at = next;
        }
        None
    }

    /// The policy remembers the page by this ghost, or not at all.
    #[inline]
    pub fn set(&mut self, page: Page, ghost: Option<Ghost>) {
        if let Some(old) = self.get(page) {
            self.unlink(old);
        }
        let Some(ghost) = ghost else { return };
        if ghost as usize >= self.entries.len() {
            let wanted = ghost as usize + 1;
            self.grow(wanted + wanted / 4);
        }
        self.unlink(ghost);
        self.entries[ghost as usize].page = page;
        self.link(ghost);
    }

    /// The chain of a page, by the upper half of its hash.
    #[inline]
    fn chain(&self, page: Page) -> usize {
        let hash = self.hasher.hash_one(page) >> 32;
        ((hash * self.chains.len() as u64) >> 32) as usize
    }

    /// Adds the ghost, which is in no chain, to that of its page.
    #[inline]
    fn link(&mut self, ghost: Ghost) {
        let chain = self.chain(self.entries[ghost as usize].page);
        self.entries[ghost as usize].next = self.chains[chain];
        self.chains[chain] = ghost;
    }

    /// Removes the ghost from its chain, if it is in one.
    #[inline]
    fn unlink(&mut self, ghost: Ghost) {
        let GhostEntry { page, next } = self.entries[ghost as usize];
        if next == ghost {
            return;
        }
        self.entries[ghost as usize].next = ghost;
        let chain = self.chain(page);
        let mut before = self.chains[chain];
        if before == ghost {
            self.chains[chain] = next;
            return;
        }
        while self.entries[before as usize].next != ghost {
            before = self.entries[before as usize].next;
        }
        self.entries[before as usize].next = next;
    }

    /// Makes room for ghosts below this number, with as many chains.
    #[cold]
    fn grow(&mut self, ghosts: usize) {
        let linked = 0..self.entries.len() as Ghost;
        let linked: Vec<Ghost> = linked
            .filter(|&ghost| self.entries[ghost as usize].next != ghost)
            .collect();
        let free = (self.entries.len()..ghosts).map(|ghost| GhostEntry {
            page: 0,
            next: ghost as Ghost,
        });
        self.entries.reserve_exact(free.len());
        self.entries.extend(free);
        self.chains = vec![NONE; ghosts];
        for ghost in linked {
            self.link(ghost);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_ghost_belongs_to_one_page() {
        let mut ghosts = GhostPages::default();
        ghosts.set(10, Some(3));
        ghosts.set(11, Some(0));
        assert_eq!((ghosts.get(10), ghosts.get(11)), (Some(3), Some(0)));
        ghosts.set(12, Some(3));
        assert_eq!((ghosts.get(10), ghosts.get(12)), (None, Some(3)));
        ghosts.set(12, Some(1));
        ghosts.set(10, Some(3));
        assert_eq!((ghosts.get(10), ghosts.get(12)), (Some(3), Some(1)));
        ghosts.set(10, None);
        assert_eq!(ghosts.get(10), None);
        assert_eq!(ghosts.get(12), Some(1));
    }

    #[test]
    fn a_table_with_room_and_one_that_grows_find_what_was_stored() {
        for room in [0, 1, 40, 100] {
            let mut ghosts = GhostPages::with_capacity(room);
            let mut of_page: HashMap<Page, Ghost> = HashMap::new();
            for at in 0..20_000u64 {
                let mixed = ebbpool_cost::mixed(at);
                let page = if mixed & 1 == 0 {
                    mixed >> 8 & 63
                } else {
                    u64::MAX - (mixed >> 8 & 63)
                };
                let ghost = (mixed >> 32 & 7 > 0).then_some((mixed >> 40) as Ghost % 40);
                ghosts.set(page, ghost);
                of_page.remove(&page);
                if let Some(ghost) = ghost {
                    of_page.retain(|_, other| *other != ghost);
                    of_page.insert(page, ghost);
                }
                for page in (0..64).flat_map(|low| [low, u64::MAX - low]) {
                    assert_eq!(ghosts.get(page), of_page.get(&page).copied());
                }
            }
        }
    }
}
