//! What is remembered of a page.

use super::counts::{Fading, LogCount};
use crate::policy::Page;

/// A page that is resident or a ghost, in half a line of the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Known {
    pub(super) page: Page,
    pub(super) history: History,
}

/// When a page was referenced and written, how often, and whether it is dirty.
///
/// Ages are told by its owner's clock, which counts references.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct History {
    pub(super) referenced_at: u64,
    /// 0 unless it was ever written.
    pub(super) written_at: u64,
    references: LogCount,
    writes: LogCount,
    marks: u8,
}

/// A frame holds the page.
pub(super) const RESIDENT: u8 = 1;
/// The page is dirty, or left dirty.
pub(super) const DIRTY: u8 = 2;
/// The frame is a candidate.
pub(super) const CANDIDATE: u8 = 4;
/// The page was written since its history began.
pub(super) const WRITTEN: u8 = 8;
/// The page is remembered.
pub(super) const GHOST: u8 = 16;

/// Classes of pages by number of references, two to a doubling.
pub(super) const REFERENCE_CLASSES: usize = 20;
/// Classes of pages by number of writes.
pub(super) const WRITE_CLASSES: usize = 16;

/// What a reference does to counts.
#[derive(Clone, Copy)]
pub(super) struct Counting {
    pub(super) fading: Fading,
    /// A reference at most so long after the one before is part of it and does not count.
    pub(super) correlated: u64,
}

impl History {
    /// A page referenced for the first time, as far as is known.
    pub(super) fn new(now: u64) -> Self {
        History {
            referenced_at: now,
            references: LogCount::ONE,
            ..History::default()
        }
    }

    /// The page turns out to have been referenced so many times.
    #[inline]
    pub(super) fn recount(&mut self, references: LogCount) {
        self.references = references;
    }

    #[inline]
    pub(super) fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    #[inline]
    pub(super) fn set(&mut self, mark: u8, is: bool) {
        self.marks = self.marks & !mark | if is { mark } else { 0 };
    }

    /// References so far, faded.
    #[inline]
    pub(super) fn references(&self) -> LogCount {
        self.references
    }

    /// The class for which the wait since the last reference counts.
    #[inline]
    pub(super) fn reference_class(&self) -> u8 {
        self.references.level(REFERENCE_CLASSES as u8 - 1)
    }

    /// The class for which the wait since the last write counts; of any page that was written.
    #[inline]
    pub(super) fn write_class(&self) -> u8 {
        self.writes.level(WRITE_CLASSES as u8 - 1)
    }

    /// True if the frame holds a page and is no candidate.
    #[inline]
    pub(super) fn may_become_candidate(&self) -> bool {
        self.marks & (RESIDENT | CANDIDATE) == RESIDENT
    }

    #[inline]
    pub(super) fn referenced(&mut self, now: u64, counting: Counting) {
        let age = now - self.referenced_at;
        let counts = age > counting.correlated;
        self.references = self.references.referenced(age, counting.fading, counts);
        self.referenced_at = now;
    }

    #[inline]
    pub(super) fn written(&mut self, now: u64, counting: Counting) {
        self.writes = match self.is(WRITTEN) {
            true => {
                let age = now - self.written_at;
                let counts = age > counting.correlated;
                self.writes.referenced(age, counting.fading, counts)
            }
            false => LogCount::ONE,
        };
        self.written_at = now;
        self.set(WRITTEN, true);
    }
}
