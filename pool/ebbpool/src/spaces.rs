//! The pages of each file of a pool.
//!
//! In a pool of several files the upper bits of a page's number say which file has it. Everything but this module and the storage
//! (`storage/several.rs`) sees pages with such numbers, whatever their files.

use std::io;

use crate::error::PoolError;
use crate::numbers::PageNumbers;
use crate::sync::{AtomicU64, Ordering};

/// The bits of a page's number that are its number in its file.
const BITS: u32 = 40;

/// The most pages of a file in a pool of several.
pub(crate) const MOST_PAGES: u64 = 1 << BITS;

/// The last page may have this number, but no file can be cut there: it would have to be longer.
const NO_CUT: u64 = u64::MAX;

/// The most files of a pool.
pub(crate) const MOST_FILES: usize = 1 << (u64::BITS - BITS);

/// The file of a page in a pool of several, and the page's number there.
pub(crate) fn place(page: u64) -> (usize, u64) {
    ((page >> BITS) as usize, page % MOST_PAGES)
}

/// The number of a file's first page.
pub(crate) fn first_of(file: u32) -> u64 {
    u64::from(file) << BITS
}

/// The pages of all files.
pub(crate) struct PageSpaces {
    first: PageSpace,
    others: Box<[PageSpace]>,
}

/// The pages of one file.
pub(crate) struct PageSpace {
    /// The numbers that they may have end here.
    most: u64,
    /// Where those end that the file has, and those that were written.
    stored: AtomicU64,
    written: AtomicU64,
    /// Pages from there on are being cut off; [`NO_CUT`] if none are.
    cut: AtomicU64,
    pub(crate) numbers: PageNumbers,
}

impl PageSpaces {
    /// A file with that number of pages, and others. The pages of a single file have all numbers.
    pub(crate) fn new(first: u64, others: &[u64]) -> Self {
        let most = if others.is_empty() { u64::MAX } else { MOST_PAGES };
        let others = (1..).zip(others).map(|(file, &pages)| {
            let first = first_of(file);
            PageSpace::new(first.saturating_add(pages), first.saturating_add(MOST_PAGES))
        });
        PageSpaces { first: PageSpace::new(first, most), others: others.collect() }
    }

    /// The number of files.
    pub(crate) fn files(&self) -> usize {
        self.others.len() + 1
    }

    /// The pages of the file that has the page; those of the last one if there is no such file.
    #[inline]
    pub(crate) fn of(&self, page: u64) -> &PageSpace {
        match self.others.is_empty() || page < MOST_PAGES {
            true => &self.first,
            false => &self.others[(place(page).0 - 1).min(self.others.len() - 1)],
        }
    }

    pub(crate) fn are_of_one(&self, page: u64, other: u64) -> bool {
        std::ptr::eq(self.of(page), self.of(other))
    }

    /// From this number on there is no page; `None` if every number is that of one.
    pub(crate) fn end(&self) -> Option<u64> {
        self.others.last().map(|last| last.most)
    }

    /// The number of pages of all files.
    pub(crate) fn pages(&self) -> u64 {
        let others = (1..).zip(&*self.others).map(|(file, space)| space.stored() - first_of(file));
        self.first.stored() + others.sum::<u64>()
    }
}

impl PageSpace {
    fn new(stored: u64, most: u64) -> Self {
        let (stored_at, written, cut) = (AtomicU64::new(stored), AtomicU64::new(0), AtomicU64::new(NO_CUT));
        PageSpace { most, stored: stored_at, written, cut, numbers: PageNumbers::new(stored, most) }
    }

    /// No page has this number, or a greater one.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Where the pages end that the file has.
    pub(crate) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Where the pages end that the file has, or that were written.
    pub(crate) fn stored_or_written(&self) -> u64 {
        self.stored().max(self.written.load(Ordering::Relaxed))
    }

    /// The page was written.
    pub(crate) fn note_written(&self, page: u64) {
        self.written.fetch_max(page.saturating_add(1), Ordering::Relaxed);
    }

    /// Makes the pages end at `end`, if they end before, by `grow`.
    pub(crate) fn grow(&self, end: u64, grow: impl FnOnce() -> io::Result<()>) -> Result<(), PoolError> {
        if end > self.stored() {
            let grown = match end > self.most {
                true => {
                    Err(io::Error::new(io::ErrorKind::StorageFull, format!("a file of several has at most {MOST_PAGES} pages")))
                }
                false => grow(),
            };
            grown.map_err(|source| PoolError::Grow { pages: end, source })?;
            self.stored.fetch_max(end, Ordering::Relaxed);
            self.numbers.raise(end);
        }
        Ok(())
    }

    /// The pages end at `end`: no block that is written whole has pages from there on.
    pub(crate) fn end_at(&self, end: u64) {
        self.stored.fetch_min(end, Ordering::Relaxed);
        self.written.fetch_min(end, Ordering::Relaxed);
    }

    /// The page is being cut off, so that storage may still have content that it loses. A thread that plans a fetch under the
    /// policy's lock, and asks afterwards, sees a cut that looked at the frames before it did.
    pub(crate) fn is_cut_off(&self, page: u64) -> bool {
        let cut = self.cut.load(Ordering::Relaxed);
        cut != NO_CUT && page >= cut
    }

    /// Makes the pages end at `end`, if they end later and all from there on are free, by `cut`, which calls
    /// [`end_at`](Self::end_at). `end_of_changes` looks at all frames.
    pub(crate) fn truncate(
        &self,
        end: u64,
        cut: impl FnOnce() -> io::Result<()>,
        end_of_changes: impl FnOnce() -> u64,
    ) -> Result<(), PoolError> {
        if end >= self.stored_or_written() {
            return Ok(());
        }
        let (stored, written) = (self.stored(), self.written.load(Ordering::Relaxed));
        let cut = self.numbers.truncate(end, end_of_changes, || {
            self.cut.store(end, Ordering::Relaxed);
            let cut = cut().inspect_err(|_| {
                self.stored.fetch_max(stored, Ordering::Relaxed);
                self.written.fetch_max(written, Ordering::Relaxed);
            });
            self.cut.store(NO_CUT, Ordering::Release);
            cut
        });
        cut.map_err(|source| PoolError::Truncate { pages: end, source })
    }
}
