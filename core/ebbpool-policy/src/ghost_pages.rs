//! A driver's table of ghosts.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::policy::{DynPolicy, Ghost, MOST_GHOSTS, Page};

/// Set in a link that ends a chain, the other bits of which are the chain's number.
const END: u32 = 1 << 31;
const _: () = assert!(MOST_GHOSTS <= END);

/// The ghosts by which a policy remembers pages that are not resident, for a driver whose page table has no room for
/// them. It holds at most as many pages as the policy has ghosts, since a ghost belongs to one page at a time.
///
/// It takes 6 bytes for each ghost if the policy stores their pages ([`DynPolicy::ghost_page`]) and 14 otherwise, and grows
/// only for a ghost beyond those that it has room for. All calls are with the same policy.
#[derive(Debug)]
pub struct GhostPages {
    /// By ghost, the next one of its chain, or the chain's end; the ghost itself if it is in no chain.
    next: Vec<u32>,
    /// By ghost, its latest page; none if the policy stores them.
    pages: Option<Vec<Page>>,
    /// The first ghost of each chain, or its end: half as many chains as there is room for ghosts.
    first: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl GhostPages {
    /// An empty table for the ghosts of a policy, with room for those below a number: nothing is allocated for them later.
    pub fn with_capacity<P: DynPolicy + ?Sized>(policy: &P, ghosts: u32) -> Self {
        let mut table = GhostPages {
            next: Vec::new(),
            pages: policy.ghost_page(0).is_none().then(Vec::new),
            first: Vec::new(),
            hasher: DefaultHashBuilder::default(),
        };
        table.grow(ghosts as usize, policy);
        table
    }

    /// The ghost by which the policy remembers the page, if it does.
    #[inline]
    pub fn get<P: DynPolicy + ?Sized>(&self, page: Page, policy: &P) -> Option<Ghost> {
        if self.first.is_empty() {
            return None;
        }
        let mut at = self.first[self.chain(page)];
        while at & END == 0 {
            if self.page(at, policy) == Some(page) {
                return Some(at);
            }
            at = self.next[at as usize];
        }
        None
    }

    /// The policy remembers the page by this ghost, or not at all.
    #[inline]
    pub fn set<P: DynPolicy + ?Sized>(&mut self, page: Page, ghost: Option<Ghost>, policy: &P) {
        // First, since a policy that stores pages has the new one for it already.
        if let Some(ghost) = ghost.filter(|&ghost| (ghost as usize) < self.next.len()) {
            self.unlink(ghost);
        }
        if let Some(old) = self.get(page, policy) {
            self.unlink(old);
        }
        let Some(ghost) = ghost else { return };
        if ghost as usize >= self.next.len() {
            let wanted = ghost as usize + 1;
            self.grow(wanted + wanted / 4, policy);
        }
        if let Some(pages) = &mut self.pages {
            pages[ghost as usize] = page;
        }
        self.link(ghost, page);
    }

    /// The latest page of a ghost.
    #[inline]
    fn page<P: DynPolicy + ?Sized>(&self, ghost: Ghost, policy: &P) -> Option<Page> {
        match &self.pages {
            Some(pages) => Some(pages[ghost as usize]),
            None => policy.ghost_page(ghost),
        }
    }

    /// The chain of a page, by the upper half of its hash.
    #[inline]
    fn chain(&self, page: Page) -> usize {
        let hash = self.hasher.hash_one(page) >> 32;
        ((hash * self.first.len() as u64) >> 32) as usize
    }

    /// Adds a ghost, which is in no chain, to that of its page.
    #[inline]
    fn link(&mut self, ghost: Ghost, page: Page) {
        let chain = self.chain(page);
        self.next[ghost as usize] = self.first[chain];
        self.first[chain] = ghost;
    }

    /// Removes the ghost from its chain, if it is in one. The policy may have forgotten the page by which it came there, so the
    /// end of the chain says which one it is.
    #[inline]
    fn unlink(&mut self, ghost: Ghost) {
        let next = self.next[ghost as usize];
        if next == ghost {
            return;
        }
        let mut end = next;
        while end & END == 0 {
            end = self.next[end as usize];
        }
        let first = &mut self.first[(end & !END) as usize];
        self.next[ghost as usize] = ghost;
        if *first == ghost {
            *first = next;
            return;
        }
        let mut before = *first;
        while self.next[before as usize] != ghost {
            before = self.next[before as usize];
        }
        self.next[before as usize] = next;
    }

    /// Makes room for ghosts below this number, with half as many chains.
    #[cold]
    fn grow<P: DynPolicy + ?Sized>(&mut self, ghosts: usize, policy: &P) {
        let ghosts = ghosts.min(MOST_GHOSTS as usize);
        let added = self.next.len() as Ghost..ghosts as Ghost;
        self.next.reserve_exact(added.len());
        self.next.extend(added);
        if let Some(pages) = &mut self.pages {
            pages.reserve_exact(ghosts - pages.len());
            pages.resize(ghosts, 0);
        }
        self.first = (0..ghosts.div_ceil(2) as u32).map(|chain| END | chain).collect();
        for ghost in 0..ghosts as Ghost {
            if self.next[ghost as usize] == ghost {
                continue;
            }
            self.next[ghost as usize] = ghost;
            if let Some(page) = self.page(ghost, policy) {
                self.link(ghost, page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::policy::{Access, Capabilities, Frame, Policy};

    /// A policy that remembers the pages of the test, and stores them or not.
    struct Remembering(Option<Vec<Page>>);

    impl Policy for Remembering {
        const CAPABILITIES: Capabilities = Capabilities::empty();

        fn ghost_page(&self, ghost: Ghost) -> Option<Page> {
            Some(*self.0.as_ref()?.get(ghost as usize)?)
        }

        fn hit(&mut self, _frame: Frame, _access: Access) {}

        fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, _may_evict: F) -> Option<Frame> {
            None
        }

        fn admit(&mut self, _frame: Frame, _page: Page, _access: Access) {}

        fn evicted(&mut self, _frame: Frame) {}

        fn cleaned(&mut self, _frame: Frame) {}
    }

    /// A policy that stores no pages, and one that stores those of 40 ghosts.
    fn policies() -> [Remembering; 2] {
        [Remembering(None), Remembering(Some(vec![0; 40]))]
    }

    /// The policy remembers the page by a ghost, and then the table learns of it.
    fn set(table: &mut GhostPages, policy: &mut Remembering, page: Page, ghost: Option<Ghost>) {
        if let (Some(pages), Some(ghost)) = (&mut policy.0, ghost) {
            pages[ghost as usize] = page;
        }
        table.set(page, ghost, policy);
    }

    #[test]
    fn a_ghost_belongs_to_one_page() {
        for mut policy in policies() {
            let table = &mut GhostPages::with_capacity(&policy, 0);
            set(table, &mut policy, 10, Some(3));
            set(table, &mut policy, 11, Some(0));
            let found = |table: &GhostPages, policy: &Remembering| [10, 11, 12].map(|page| table.get(page, policy));
            assert_eq!(found(table, &policy), [Some(3), Some(0), None]);
            set(table, &mut policy, 12, Some(3));
            assert_eq!(found(table, &policy), [None, Some(0), Some(3)]);
            set(table, &mut policy, 12, Some(1));
            set(table, &mut policy, 10, Some(3));
            assert_eq!(found(table, &policy), [Some(3), Some(0), Some(1)]);
            set(table, &mut policy, 10, None);
            assert_eq!(found(table, &policy), [None, Some(0), Some(1)]);
        }
    }

    #[test]
    fn a_table_with_room_and_one_that_grows_find_what_was_stored() {
        for (mut policy, room) in
            policies().into_iter().flat_map(|policy| [0, 1, 40, 100].map(|room| (Remembering(policy.0.clone()), room)))
        {
            let table = &mut GhostPages::with_capacity(&policy, room);
            let mut of_page: HashMap<Page, Ghost> = HashMap::new();
            for at in 0..6000u64 {
                let mixed = ebbpool_cost::mixed(at);
                let page = if mixed & 1 == 0 { mixed >> 8 & 63 } else { u64::MAX - (mixed >> 8 & 63) };
                let ghost = (mixed >> 32 & 7 > 0).then_some((mixed >> 40) as Ghost % 40);
                set(table, &mut policy, page, ghost);
                of_page.remove(&page);
                if let Some(ghost) = ghost {
                    of_page.retain(|_, other| *other != ghost);
                    of_page.insert(page, ghost);
                }
                for page in (0..64).flat_map(|low| [low, u64::MAX - low]) {
                    assert_eq!(table.get(page, &policy), of_page.get(&page).copied());
                }
            }
        }
    }

    #[test]
    fn a_policy_that_stores_pages_leaves_6_bytes_for_each_ghost() {
        for (policy, bytes) in policies().iter().zip([14, 6]) {
            let table = GhostPages::with_capacity(policy, 40);
            let links = table.next.capacity() + table.first.capacity();
            let pages = table.pages.map_or(0, |pages| pages.capacity());
            assert_eq!(4 * links + 8 * pages, 40 * bytes);
        }
    }
}
