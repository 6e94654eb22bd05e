//! The LSNs with which pages were written lately. When a page is read again, the pool finds a write that the storage
//! acknowledged but never did.

use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;

use crate::log::Lsn;

/// The number of pages that are remembered: 3 MB at most.
const MOST: usize = 1 << 16;

/// The LSNs of the latest writes, 0 for pages without one.
///
/// A page may be written with a smaller LSN than before, or with none, if it was freed and allocated again. So the
/// latest write counts, and not the highest LSN.
#[derive(Debug)]
pub(crate) struct RecentWrites {
    lsns: HashMap<u64, Lsn>,
    /// In the order in which they were first written.
    order: VecDeque<u64>,
}

impl RecentWrites {
    pub(crate) fn new() -> Self {
        RecentWrites { lsns: HashMap::new(), order: VecDeque::new() }
    }

    /// The storage has acknowledged a write.
    pub(crate) fn note(&mut self, page: u64, lsn: Lsn) {
        if self.lsns.insert(page, lsn).is_some() {
            return;
        }
        self.order.push_back(page);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.lsns.remove(&oldest);
        }
    }

    /// A write has failed. It may have reached the storage all the same, so the page is either as of the write before
    /// or as of this one.
    pub(crate) fn note_failed(&mut self, page: u64, lsn: Lsn) {
        if let Some(before) = self.lsns.get_mut(&page) {
            *before = lsn.min(*before);
        }
    }

    /// Storage no longer has the pages.
    pub(crate) fn forget(&mut self, pages: Range<u64>) {
        self.lsns.retain(|page, _| !pages.contains(page));
        self.order.retain(|page| !pages.contains(page));
    }

    pub(crate) fn lsn_of(&self, page: u64) -> Option<Lsn> {
        self.lsns.get(&page).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lsn_of_the_latest_pages_is_known() {
        let mut recent = RecentWrites::new();
        recent.note(7, 1);
        recent.note(7, 5);
        recent.note(8, 0);
        assert_eq!((recent.lsn_of(7), recent.lsn_of(8)), (Some(5), Some(0)));
        (0..MOST as u64).for_each(|page| recent.note(100 + page, 9));
        assert_eq!((recent.lsn_of(7), recent.lsn_of(8)), (None, None));
        assert_eq!(recent.lsn_of(100), Some(9));
    }

    #[test]
    fn a_page_that_is_allocated_again_may_have_a_smaller_lsn() {
        let mut recent = RecentWrites::new();
        recent.note(7, 100);
        recent.note(7, 3);
        assert_eq!(recent.lsn_of(7), Some(3));
        recent.note(7, 100);
        recent.note(7, 0);
        assert_eq!(recent.lsn_of(7), Some(0));
    }

    #[test]
    fn pages_that_are_cut_off_are_forgotten_and_make_room() {
        let mut recent = RecentWrites::new();
        (0..MOST as u64).for_each(|page| recent.note(page, 9));
        recent.forget(5..u64::MAX);
        assert_eq!((recent.lsn_of(4), recent.lsn_of(5)), (Some(9), None));
        (5..MOST as u64).for_each(|page| recent.note(page, 3));
        assert_eq!((recent.lsn_of(0), recent.lsn_of(5)), (Some(9), Some(3)));
    }

    #[test]
    fn after_a_failed_write_a_page_may_be_as_before_or_as_written() {
        let mut recent = RecentWrites::new();
        recent.note_failed(7, 4);
        assert_eq!(recent.lsn_of(7), None);
        recent.note(7, 5);
        recent.note_failed(7, 9);
        assert_eq!(recent.lsn_of(7), Some(5));
        recent.note_failed(7, 0);
        assert_eq!(recent.lsn_of(7), Some(0));
    }
}
