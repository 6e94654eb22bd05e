//! The record of a page, resident or not.

use super::counts::{FadingRate, LogCount};
use crate::policy::Page;

/// The record of a page that is resident or a ghost, in half a line of the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct PageRecord {
    pub(super) page: Page,
    pub(super) history: History,
}

/// When a page was referenced and written, how often, and whether it is dirty.
///
/// Times are by the owner's clock, which counts references.
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
/// The page is dirty, or was evicted dirty.
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

/// The effect of a reference on counts.
#[derive(Clone, Copy)]
pub(super) struct CountingRule {
    pub(super) fading: FadingRate,
    /// A reference at most this long after the one before is part of that one and does not count.
    pub(super) correlated: u64,
}

impl History {
    /// A page without a remembered reference, referenced for the first time.
    pub(super) fn new(now: u64) -> Self {
        History {
            referenced_at: now,
            references: LogCount::ONE,
            ..History::default()
        }
    }

    /// Sets the number of references, which turned out to be higher.
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

    /// The class to which the wait since the last reference belongs.
    #[inline]
    pub(super) fn reference_class(&self) -> u8 {
        self.references.level(REFERENCE_CLASSES as u8 - 1)
    }

    /// The class to which the wait since the last write belongs; for pages that were written.
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
    pub(super) fn referenced(&mut self, now: u64, counting: CountingRule) {
        let age = now - self.referenced_at;
        let counts = age > counting.correlated;
        self.references = self.references.referenced(age, counting.fading, counts);
        self.referenced_at = now;
    }

    #[inline]
    pub(super) fn written(&mut self, now: u64, counting: CountingRule) {
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
