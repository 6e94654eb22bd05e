//! The numbers of pages in use.
//!
//! Pages below a bound are in use, except for the free ones. The invariants:
//!
//! 1. When a caller gets the guard of a page for writing, the bound is above its number. It was raised, if necessary, while the
//!    thread had the exclusive latch: before that the fix may fail, and a number that is none must not raise the bound.
//! 2. The bound is lowered only to one that is above every page of the storage, and every page with changes in a frame, on
//!    its way to storage, or to be redone from the log. The thread that lowers the bound stores the lower one first, then
//!    changes the word of each frame (to what it is), and at last raises the bound to where the pages that it has found end. So
//!    a thread that latches a page to change it either was found, or loads the lower bound and raises it (1).
//! 3. Numbers are taken, and the bound is lowered, under one lock. The bound stays above a number that was taken until
//!    its page is fixed.

use std::collections::BTreeSet;
use std::io;

use crate::sync::{AtomicU64, Mutex, Ordering};

/// See the [module](self).
pub(crate) struct PageNumbers {
    bound: AtomicU64,
    /// No bound is above this.
    most: u64,
    spare: Mutex<SpareNumbers>,
}

#[derive(Default)]
struct SpareNumbers {
    /// Below the bound.
    free: BTreeSet<u64>,
    /// Taken for pages that are not fixed yet.
    taken: BTreeSet<u64>,
}

impl PageNumbers {
    /// The pages up to `bound` are in use, and there are none from `most` on.
    pub(crate) fn new(bound: u64, most: u64) -> Self {
        PageNumbers { bound: AtomicU64::new(bound), most, spare: Mutex::default() }
    }

    /// A page is in use, because the calling thread has latched it to change it, allocated or not.
    #[inline]
    pub(crate) fn note(&self, page: u64) {
        if page >= self.bound.load(Ordering::Relaxed) {
            self.raise(page.saturating_add(1));
        }
    }

    /// The first `bound` pages are in use.
    #[cold]
    pub(crate) fn raise(&self, bound: u64) {
        self.bound.fetch_max(bound, Ordering::AcqRel);
    }

    /// Takes the smallest free number, or else the one at the bound; `None` if there is none.
    pub(crate) fn take(&self) -> Option<u64> {
        let mut spare = self.spare.lock();
        let taken = spare.free.pop_first().or_else(|| {
            let next = |bound: u64| (bound < self.most).then(|| bound + 1);
            self.bound.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()
        });
        spare.taken.extend(taken);
        taken
    }

    /// The page of a number that was taken is fixed, or could not be: then it is free.
    pub(crate) fn settle(&self, page: u64, is_fixed: bool) {
        let mut spare = self.spare.lock();
        spare.taken.remove(&page);
        if !is_fixed {
            spare.free.insert(page);
        }
    }

    /// A page is no longer in use. A number from the bound on is that of no page.
    pub(crate) fn free(&self, page: u64) {
        let mut spare = self.spare.lock();
        if page < self.bound.load(Ordering::Relaxed) {
            spare.free.insert(page);
        }
    }

    /// If a page that was dropped is the last one, lowers the bound to where the other pages in use end. `stored` are those of
    /// the storage; `end_of_changes` looks at all frames.
    pub(crate) fn dropped(&self, page: u64, stored: impl Fn() -> u64, end_of_changes: impl FnOnce() -> u64) {
        if page < stored() {
            return;
        }
        let mut spare = self.spare.lock();
        let bound = self.bound.load(Ordering::Relaxed);
        // A number whose page could not be allocated is free.
        let used = spare.free.iter().rev().fold(bound, |end, &free| if free.saturating_add(1) == end { free } else { end });
        if page.saturating_add(1) < used {
            return;
        }
        self.lower(&mut spare, stored, end_of_changes);
    }

    /// If all pages from `end` on are free, cuts them off, and lowers the bound to there.
    pub(crate) fn truncate(
        &self,
        end: u64,
        end_of_changes: impl FnOnce() -> u64,
        cut: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut spare = self.spare.lock();
        let bound = self.bound.load(Ordering::Relaxed);
        let free = spare.free.range(end..).zip(end..).take_while(|(free, page)| *free == page).count();
        let in_use = end.saturating_add(free as u64);
        if in_use < bound {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("page {in_use} is in use")));
        }
        cut()?;
        self.lower(&mut spare, || end, end_of_changes);
        Ok(())
    }

    /// Lowers the bound to where the pages in use end.
    fn lower(&self, spare: &mut SpareNumbers, stored: impl Fn() -> u64, end_of_changes: impl FnOnce() -> u64) {
        self.bound.swap(stored(), Ordering::AcqRel);
        let taken = spare.taken.last().map_or(0, |page| page.saturating_add(1));
        // The storage may have grown meanwhile.
        let end = end_of_changes().max(taken).max(stored());
        let before = self.bound.fetch_max(end, Ordering::AcqRel);
        spare.free.split_off(&end.max(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_a_thread_has_taken_is_taken_once() {
        let numbers = PageNumbers::new(0, u64::MAX);
        (0..10).for_each(|page| numbers.note(page));
        numbers.free(5);
        assert_eq!(numbers.take(), Some(5));
        numbers.note(40);
        // Its page is not fixed yet, and no other one is in a frame.
        numbers.dropped(40, || 0, || 0);
        assert_eq!(numbers.take(), Some(6));
        numbers.settle(5, true);
        numbers.settle(6, false);
        numbers.note(40);
        numbers.dropped(40, || 0, || 4);
        assert_eq!((numbers.take(), numbers.take()), (Some(4), Some(5)), "6 was free beyond the bound");
    }
}
