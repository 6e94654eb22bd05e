//! A list of pages with a state for each.

use std::collections::BTreeSet;

/// A list of pages. The first is at the LRU end (or is the oldest), the last at the MRU end.
#[derive(Default)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<(u64, T)>,
}

impl<T> List<T> {
    pub(crate) fn new() -> List<T> {
        List { items: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The page's position, counted from the LRU end.
    pub(crate) fn position(&self, page: u64) -> Option<usize> {
        self.items.iter().position(|(other, _)| *other == page)
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        self.position(page).is_some()
    }

    /// The state of a page in the list.
    pub(crate) fn state(&mut self, page: u64) -> &mut T {
        let position = self.position(page).expect("the page is in the list");
        &mut self.items[position].1
    }

    /// Removes a page.
    pub(crate) fn take(&mut self, page: u64) -> T {
        let position = self.position(page).expect("the page is in the list");
        self.items.remove(position).1
    }

    /// Puts a page at the MRU end.
    pub(crate) fn push(&mut self, page: u64, state: T) {
        assert!(!self.contains(page), "page {page} is in the list already");
        self.items.push((page, state));
    }

    /// Moves a page to the MRU end.
    pub(crate) fn move_to_mru(&mut self, page: u64) {
        let state = self.take(page);
        self.push(page, state);
    }

    /// The unpinned page nearest the LRU end.
    pub(crate) fn lru(&self, pinned: &BTreeSet<u64>) -> Option<u64> {
        self.lru_such_that(pinned, |_| true)
    }

    /// The unpinned page nearest the LRU end that satisfies `condition`.
    pub(crate) fn lru_such_that(&self, pinned: &BTreeSet<u64>, condition: impl Fn(&T) -> bool) -> Option<u64> {
        self.items.iter().find(|(page, state)| !pinned.contains(page) && condition(state)).map(|(page, _)| *page)
    }

    /// The pages from the LRU end.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        self.items.iter().map(|(page, _)| *page)
    }
}
