//! A driver's table of ghosts.

use hashbrown::HashMap;

use crate::policy::Ghost;

/// The ghosts by which a policy remembers pages that are not resident, for a driver whose page table has no room for
/// them. It holds at most as many pages as the policy has ghosts, since a ghost belongs to one page at a time.
#[derive(Debug, Default)]
pub struct GhostPages {
    of_page: HashMap<u64, Ghost>,
    /// The latest page of each ghost.
    page_of: Vec<Option<u64>>,
}

impl GhostPages {
    /// The ghost by which the policy remembers the page, if it does.
    #[inline]
    pub fn get(&self, page: u64) -> Option<Ghost> {
        self.of_page.get(&page).copied()
    }

    /// The policy remembers the page by this ghost, or not at all.
    #[inline]
    pub fn set(&mut self, page: u64, ghost: Option<Ghost>) {
        if let Some(old) = self.of_page.remove(&page) {
            self.page_of[old as usize] = None;
        }
        let Some(ghost) = ghost else { return };
        let at = ghost as usize;
        if at >= self.page_of.len() {
            self.page_of.resize(at + 1, None);
        }
        if let Some(other) = self.page_of[at].replace(page) {
            self.of_page.remove(&other);
        }
        self.of_page.insert(page, ghost);
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(ghosts.of_page.len(), 2);
    }
}
