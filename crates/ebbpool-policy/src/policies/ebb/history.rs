//! The record of a page, resident or not.

use super::ages;
use super::classes::{Classification, SHARED_SLOT, SLOTS};
use super::counts::EventCount;
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
    references: EventCount,
    writes: EventCount,
    /// The slot of the page's class, and the kind of waits for a reference << 4.
    slot_and_reference_kind: u8,
    write_kind: u8,
    marks: u8,
    /// Of a ghost: the bucket of its age at its eviction, plus 1. 0 for a page that is not a ghost.
    evicted_in: u8,
}

/// The bits of a slot; the kind of waits for a reference has the rest of a byte.
const SLOT_BITS: u32 = 4;
const SLOT_MASK: u8 = (1 << SLOT_BITS) - 1;
const _: () = assert!(SLOTS <= 1 << SLOT_BITS && REFERENCE_KINDS <= 1 << (u8::BITS - SLOT_BITS));

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
/// The page was at the end of its class when it was missed.
const TAIL: u8 = 32;

/// Kinds of waits for a reference, by number of references.
pub(super) const REFERENCE_KINDS: usize = 14;
/// The doublings of the number of writes that are distinguished, and those by which references outnumber them.
const WRITE_DOUBLINGS: u32 = 6;
const FURTHER_DOUBLINGS: u32 = 4;
const KINDS_BEFORE_TAIL: u32 = WRITE_DOUBLINGS * FURTHER_DOUBLINGS;
/// Kinds of waits for a write, by number of writes and references, and by whether the page is at its class's end.
pub(super) const WRITE_KINDS: usize = 2 * KINDS_BEFORE_TAIL as usize;

impl History {
    /// A page without a remembered reference, referenced for the first time.
    pub(super) fn new(now: u64) -> Self {
        History {
            referenced_at: now,
            references: EventCount::ONE,
            slot_and_reference_kind: SHARED_SLOT,
            ..History::default()
        }
    }

    /// Sets the page's class.
    #[inline]
    pub(super) fn classify(&mut self, classification: Classification) {
        self.slot_and_reference_kind =
            self.slot_and_reference_kind & !SLOT_MASK | classification.slot;
        self.set(TAIL, classification.is_tail);
    }

    /// Sets the number of references, which turned out to be higher, of a page that was referenced only now.
    #[inline]
    pub(super) fn recount(&mut self, references: EventCount) {
        self.references = references;
        self.set_reference_kind();
        if self.has(WRITTEN) {
            self.set_write_kind();
        }
    }

    #[inline]
    pub(super) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// The page is dirty and its last write is known. A miniature may hold a dirty page longer than its history is known.
    #[inline]
    pub(super) fn waits_for_a_write(&self) -> bool {
        const BOTH: u8 = DIRTY | WRITTEN;
        self.marks & BOTH == BOTH
    }

    #[inline]
    pub(super) fn set(&mut self, mark: u8, is: bool) {
        self.marks = self.marks & !mark | if is { mark } else { 0 };
    }

    /// References so far.
    #[inline]
    pub(super) fn references(&self) -> EventCount {
        self.references
    }

    /// The row of the tables of references to which the wait since the last reference belongs.
    #[inline]
    pub(super) fn reference_row(&self) -> usize {
        usize::from(self.slot()) * REFERENCE_KINDS
            + usize::from(self.slot_and_reference_kind >> SLOT_BITS)
    }

    /// The row of the tables of writes to which the wait since the last write belongs; for pages that were written.
    #[inline]
    pub(super) fn write_row(&self) -> usize {
        usize::from(self.slot()) * WRITE_KINDS + usize::from(self.write_kind)
    }

    #[inline]
    fn slot(&self) -> u8 {
        self.slot_and_reference_kind & SLOT_MASK
    }

    /// The page is evicted now.
    #[inline]
    pub(super) fn evict(&mut self, now: u64) {
        self.evicted_in = ages::bucket(now - self.referenced_at) as u8 + 1;
    }

    /// The page is a ghost no longer, or its waits are counted otherwise.
    #[inline]
    pub(super) fn end_ghost(&mut self) {
        self.evicted_in = 0;
    }

    /// The time of a ghost's eviction, rounded down to the start of a bucket of its age.
    #[inline]
    pub(super) fn evicted_at(&self) -> Option<u64> {
        let bucket = self.evicted_in.checked_sub(1)?;
        Some(self.referenced_at + ages::start(usize::from(bucket)))
    }

    #[inline]
    pub(super) fn referenced(&mut self, now: u64) {
        self.references = self.references.and_one();
        self.referenced_at = now;
        self.set_reference_kind();
    }

    #[inline]
    pub(super) fn written(&mut self, now: u64) {
        self.writes = match self.has(WRITTEN) {
            true => self.writes.and_one(),
            false => EventCount::ONE,
        };
        self.written_at = now;
        self.set(WRITTEN, true);
        self.set_write_kind();
    }

    #[inline]
    fn set_reference_kind(&mut self) {
        let kind = self.references.level().min(REFERENCE_KINDS as u32 - 1) as u8;
        self.slot_and_reference_kind = self.slot() | kind << SLOT_BITS;
    }

    #[inline]
    fn set_write_kind(&mut self) {
        let writes = self.writes.doublings().min(WRITE_DOUBLINGS - 1);
        let further = self.references.doublings().saturating_sub(writes);
        let further = further.min(FURTHER_DOUBLINGS - 1);
        let tail = if self.has(TAIL) { KINDS_BEFORE_TAIL } else { 0 };
        self.write_kind = (tail + writes * FURTHER_DOUBLINGS + further) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_32_bytes() {
        assert_eq!(size_of::<PageRecord>(), 32);
    }

    #[test]
    fn kinds_follow_counts() {
        let mut history = History::new(1);
        history.written(1);
        assert_eq!((history.reference_row(), history.write_row()), (0, 0));
        history.classify(Classification {
            slot: 2,
            is_tail: true,
            is_new_slot: false,
        });
        for now in 2..=4 {
            history.referenced(now);
            history.written(now);
        }
        assert_eq!(history.reference_row(), 2 * REFERENCE_KINDS + 3);
        // 4 writes and 4 references, at the end.
        assert_eq!(history.write_row(), 2 * WRITE_KINDS + 24 + 2 * 4);
        for now in 5..200 {
            history.referenced(now);
            if now % 4 == 0 {
                history.written(now);
            }
        }
        assert_eq!(history.reference_row(), 2 * REFERENCE_KINDS + 10);
        assert_eq!(history.write_row(), 2 * WRITE_KINDS + 24 + 5 * 4 + 2);
    }

    #[test]
    fn the_age_at_eviction_is_remembered_by_its_bucket() {
        let mut history = History::new(1000);
        assert_eq!(history.evicted_at(), None);
        history.evict(1000);
        assert_eq!(history.evicted_at(), Some(1000));
        history.evict(1100);
        assert_eq!(history.evicted_at(), Some(1000 + 94));
        history.evict(u64::MAX);
        assert!(history.evicted_at().is_some_and(|at| at > 1 << 28));
        history.end_ghost();
        assert_eq!(history.evicted_at(), None);
    }

    #[test]
    fn slot_and_kind_share_a_byte() {
        let mut history = History::new(1);
        let classification = Classification {
            slot: SLOTS as u8 - 1,
            is_tail: false,
            is_new_slot: false,
        };
        history.classify(classification);
        (0..5000).for_each(|now| history.referenced(now));
        assert_eq!(history.reference_row(), SLOTS * REFERENCE_KINDS - 1);
        history.classify(Classification {
            slot: 3,
            ..classification
        });
        assert_eq!(history.reference_row(), 4 * REFERENCE_KINDS - 1);
    }
}
