//! The record of a page, resident or not.

use super::ages;
use super::classes::{Classification, SHARED_SLOT, SLOTS};
use super::counts::EventCount;
use crate::policy::Page;

/// The record of a page that is resident or a ghost, in 20 bytes: there is one for each frame and for each ghost.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed(4))]
pub(super) struct PageRecord {
    pub(super) page: Page,
    pub(super) history: History,
}

/// When a page was referenced and written, how often, and whether it is dirty.
///
/// Times are by the owner's clock, which counts references, modulo 2^32. The owner lets no age become so long that it could be
/// taken for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct History {
    referenced_at: u32,
    /// Meaningless unless the page was written.
    written_at: u32,
    fields: u32,
}

/// A number in some of the 32 bits of a history.
#[derive(Clone, Copy)]
struct Field {
    first: u32,
    bits: u32,
}

impl Field {
    /// The field of that many bits above another one.
    const fn above(other: Field, bits: u32) -> Field {
        let first = other.first + other.bits;
        assert!(first + bits <= u32::BITS);
        Field { first, bits }
    }

    /// The highest number in the field.
    const fn most(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// A resident's marks, or what is remembered of a ghost's eviction.
const STATE: Field = Field { first: 0, bits: 6 };
const OF_DIRTY: Field = Field::above(STATE, 1);
const OF_TAIL: Field = Field::above(OF_DIRTY, 1);
/// The slot of the page's class.
const SLOT: Field = Field::above(OF_TAIL, 4);
/// The three fields that determine the kind of a wait for a write, side by side.
const OF_WRITE: Field = Field::above(SLOT, 8);
/// Writes since the history began, as far as kinds distinguish them.
const WRITES: Field = Field::above(SLOT, 5);
/// The doublings by which references outnumbered writes when the page was written last.
const FURTHER: Field = Field::above(WRITES, 2);
/// Whether the page was at the end of its class when it was written last.
const WRITTEN_AT_TAIL: Field = Field::above(FURTHER, 1);
/// References since the history began, as far as kinds distinguish them.
const REFERENCES: Field = Field::above(WRITTEN_AT_TAIL, 8);

const _: () = assert!(OF_WRITE.first + OF_WRITE.bits == REFERENCES.first);
const _: () = assert!(SLOTS as u32 - 1 <= SLOT.most());
const _: () = assert!(1 << (REFERENCE_KINDS as u32 - 4) <= REFERENCES.most());
const _: () = assert!(FURTHER_DOUBLINGS - 1 <= FURTHER.most());
const _: () = assert!(1 << (WRITE_DOUBLINGS - 1) <= WRITES.most());
const _: () = assert!(COUNTED + ages::HALF_DOUBLINGS as u32 - 1 <= STATE.most());

/// A frame holds the page. Only of records of frames.
pub(super) const RESIDENT: u32 = 1 << STATE.first;
/// The frame is a candidate. Only of records of frames.
pub(super) const CANDIDATE: u32 = 2 << STATE.first;
/// The page is dirty, or was evicted dirty.
pub(super) const DIRTY: u32 = 1 << OF_DIRTY.first;
/// The page was at the end of its class when it was missed.
const TAIL: u32 = 1 << OF_TAIL.first;

/// The state of a page that is no ghost, nor resident.
const NO_GHOST: u32 = 0;
/// The state of a ghost whose waits are not counted as observed up to its eviction.
const NOT_COUNTED: u32 = 1;
/// The state of a ghost that was evicted at an age of the first half doubling; those of the next ones follow.
const COUNTED: u32 = 2;

/// Kinds of waits for a reference, by number of references.
pub(super) const REFERENCE_KINDS: usize = 11;
/// The doublings of the number of writes that are distinguished, and those by which references outnumber them.
const WRITE_DOUBLINGS: u32 = 5;
const FURTHER_DOUBLINGS: u32 = 3;
const KINDS_BEFORE_TAIL: u32 = WRITE_DOUBLINGS * FURTHER_DOUBLINGS;
/// Kinds of waits for a write, by number of writes and references, and by whether the page is at its class's end.
pub(super) const WRITE_KINDS: usize = 2 * KINDS_BEFORE_TAIL as usize;

/// The kind of the wait for a reference, by the field of references.
static REFERENCE_KIND: [u8; 1 << REFERENCES.bits] = {
    let mut kinds = [0; 1 << REFERENCES.bits];
    let mut references = 0;
    while references < kinds.len() {
        let level = EventCount::from_number(references as u32).level();
        kinds[references] = least(level, REFERENCE_KINDS as u32 - 1) as u8;
        references += 1;
    }
    kinds
};

/// The kind of the wait for a write, by the fields that determine it.
static WRITE_KIND: [u8; 1 << OF_WRITE.bits] = {
    let mut kinds = [0; 1 << OF_WRITE.bits];
    let mut fields = 0;
    while fields < kinds.len() {
        let history = History { referenced_at: 0, written_at: 0, fields: (fields as u32) << OF_WRITE.first };
        // The field of doublings has room for one more than there are.
        let further = least(history.get(FURTHER), FURTHER_DOUBLINGS - 1);
        let writes = history.write_doublings() * FURTHER_DOUBLINGS + further;
        kinds[fields] = (history.get(WRITTEN_AT_TAIL) * KINDS_BEFORE_TAIL + writes) as u8;
        fields += 1;
    }
    kinds
};

const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

impl History {
    /// A page without a remembered reference, referenced for the first time.
    pub(super) fn new(now: u64) -> Self {
        let mut history = History { referenced_at: now as u32, ..History::default() };
        history.put(SLOT, SHARED_SLOT.into());
        history.put(REFERENCES, 1);
        history
    }

    #[inline]
    const fn get(&self, field: Field) -> u32 {
        self.fields >> field.first & field.most()
    }

    #[inline]
    fn put(&mut self, field: Field, number: u32) {
        let number = number.min(field.most());
        self.fields = self.fields & !(field.most() << field.first) | number << field.first;
    }

    /// Sets the page's class.
    #[inline]
    pub(super) fn classify(&mut self, classification: Classification) {
        self.put(SLOT, classification.slot.into());
        self.set(TAIL, classification.is_tail);
    }

    /// Sets the number of references, which turned out to be higher, of a page that was referenced only now.
    #[inline]
    pub(super) fn recount(&mut self, references: EventCount) {
        self.put(REFERENCES, references.number());
        if self.was_written() {
            self.note_write();
        }
    }

    #[inline]
    pub(super) fn has(&self, mark: u32) -> bool {
        self.fields & mark != 0
    }

    #[inline]
    pub(super) fn set(&mut self, mark: u32, is: bool) {
        self.fields = self.fields & !mark | if is { mark } else { 0 };
    }

    /// The page was written since its history began.
    #[inline]
    pub(super) fn was_written(&self) -> bool {
        self.get(WRITES) > 0
    }

    /// The page is dirty and its last write is known. A miniature may hold a dirty page longer than its history is known.
    #[inline]
    pub(super) fn waits_for_a_write(&self) -> bool {
        self.has(DIRTY) & self.was_written()
    }

    /// References so far.
    #[inline]
    pub(super) fn references(&self) -> EventCount {
        EventCount::from_number(self.get(REFERENCES))
    }

    /// References since the page was referenced.
    #[inline]
    pub(super) fn age(&self, now: u64) -> u64 {
        (now as u32).wrapping_sub(self.referenced_at).into()
    }

    /// References since the page was written; meaningless unless it was.
    #[inline]
    pub(super) fn age_of_write(&self, now: u64) -> u64 {
        (now as u32).wrapping_sub(self.written_at).into()
    }

    /// The time of the last reference, modulo 2^32.
    #[inline]
    pub(super) fn referenced_at(&self) -> u32 {
        self.referenced_at
    }

    /// Moves the clock from `now` to `then`. Of an age that is longer than `long` after that a quarter of the excess remains, so
    /// that pages stay in order.
    pub(super) fn advance(&mut self, now: u64, then: u64, long: u64) {
        let moved = |age: u64| {
            let age = age + (then - now);
            let excess = age.saturating_sub(long);
            then.wrapping_sub(age - excess + excess / 4) as u32
        };
        let (age, age_of_write) = (self.age(now), self.age_of_write(now));
        (self.referenced_at, self.written_at) = (moved(age), moved(age_of_write));
    }

    /// The row of the tables of references to which the wait since the last reference belongs.
    #[inline]
    pub(super) fn reference_row(&self) -> usize {
        let kind = REFERENCE_KIND[self.get(REFERENCES) as usize];
        self.get(SLOT) as usize * REFERENCE_KINDS + usize::from(kind)
    }

    /// The row of the tables of writes to which the wait since the last write belongs; of the first kind for pages that were
    /// not written.
    #[inline]
    pub(super) fn write_row(&self) -> usize {
        let kind = WRITE_KIND[self.get(OF_WRITE) as usize];
        self.get(SLOT) as usize * WRITE_KINDS + usize::from(kind)
    }

    #[inline]
    const fn write_doublings(&self) -> u32 {
        let writes = EventCount::from_number(self.get(WRITES));
        least(writes.doublings(), WRITE_DOUBLINGS - 1)
    }

    /// The page is evicted now, and its waits are counted as observed up to the start of the half doubling of its age.
    #[inline]
    pub(super) fn evict(&mut self, now: u64) {
        self.put(STATE, COUNTED + ages::half_doubling(self.age(now)) as u32);
    }

    /// The page is a ghost, of which only [`evict`](Self::evict) has its waits counted.
    #[inline]
    pub(super) fn begin_ghost(&mut self) {
        if self.get(STATE) < COUNTED {
            self.put(STATE, NOT_COUNTED);
        }
    }

    #[inline]
    pub(super) fn is_ghost(&self) -> bool {
        self.get(STATE) != NO_GHOST
    }

    /// The page is a ghost no longer.
    #[inline]
    pub(super) fn end_ghost(&mut self) {
        self.put(STATE, NO_GHOST);
    }

    /// The time of the eviction of a ghost whose waits are counted up to that, modulo 2^32.
    #[inline]
    pub(super) fn evicted_at(&self) -> Option<u64> {
        let half_doubling = self.get(STATE).checked_sub(COUNTED)?;
        let age = ages::start(half_doubling as usize) as u32;
        Some(self.referenced_at.wrapping_add(age).into())
    }

    #[inline]
    pub(super) fn referenced(&mut self, now: u64) {
        self.put(REFERENCES, self.get(REFERENCES) + 1);
        self.referenced_at = now as u32;
    }

    #[inline]
    pub(super) fn written(&mut self, now: u64) {
        self.put(WRITES, self.get(WRITES) + 1);
        self.written_at = now as u32;
        self.note_write();
    }

    /// Notes what kinds of waits for the next write are divided by besides the number of writes.
    #[inline]
    fn note_write(&mut self) {
        let references = self.references().doublings();
        let further = references.saturating_sub(self.write_doublings());
        self.put(FURTHER, further.min(FURTHER_DOUBLINGS - 1));
        self.put(WRITTEN_AT_TAIL, self.get(OF_TAIL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_20_bytes() {
        assert_eq!(size_of::<PageRecord>(), 20);
    }

    #[test]
    fn kinds_follow_counts() {
        let mut history = History::new(1);
        history.written(1);
        assert_eq!((history.reference_row(), history.write_row()), (0, 0));
        history.classify(Classification { slot: 2, is_tail: true, is_new_slot: false });
        for now in 2..=4 {
            history.referenced(now);
            history.written(now);
        }
        assert_eq!(history.reference_row(), 2 * REFERENCE_KINDS + 3);
        // 4 writes and 4 references, at the end.
        assert_eq!(history.write_row(), 2 * WRITE_KINDS + 15 + 2 * 3);
        for now in 5..200 {
            history.referenced(now);
            if now % 4 == 0 {
                history.written(now);
            }
        }
        assert_eq!(history.reference_row(), 2 * REFERENCE_KINDS + 10);
        assert_eq!(history.write_row(), 2 * WRITE_KINDS + 15 + 4 * 3 + 2);
    }

    #[test]
    fn the_age_at_eviction_is_remembered_by_its_half_doubling() {
        let mut history = History::new(1000);
        assert_eq!(history.evicted_at(), None);
        history.begin_ghost();
        assert!(history.is_ghost() && history.evicted_at().is_none());
        history.evict(1000);
        assert_eq!(history.evicted_at(), Some(1000));
        history.evict(1100);
        history.begin_ghost();
        assert_eq!(history.evicted_at(), Some(1000 + 94));
        history.evict(1000 + u64::from(u32::MAX));
        assert!(history.evicted_at().is_some_and(|at| at > 1 << 28));
        history.end_ghost();
        assert!(!history.is_ghost() && history.evicted_at().is_none());
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let mut history = History::new(1);
        let classification = Classification { slot: SLOTS as u8 - 1, is_tail: false, is_new_slot: false };
        history.classify(classification);
        (0..5000).for_each(|now| history.referenced(now));
        assert_eq!(history.reference_row(), SLOTS * REFERENCE_KINDS - 1);
        history.set(DIRTY | RESIDENT | CANDIDATE, true);
        history.classify(Classification { slot: 3, is_tail: true, ..classification });
        (0..5000).for_each(|now| history.written(now));
        assert_eq!(history.reference_row(), 4 * REFERENCE_KINDS - 1);
        assert!(history.has(DIRTY) && history.has(RESIDENT) && history.has(CANDIDATE));
        let last = KINDS_BEFORE_TAIL + (WRITE_DOUBLINGS - 1) * FURTHER_DOUBLINGS;
        assert!(history.write_row() >= 3 * WRITE_KINDS + last as usize);
        assert!(history.write_row() < 4 * WRITE_KINDS);
    }

    #[test]
    fn ages_outlive_the_wrapping_of_the_clock_and_are_shortened_in_order() {
        let now = (1 << 32) - 5;
        let mut history = History::new(now);
        history.written(now + 3);
        let ages = |history: &History, now| (history.age(now), history.age_of_write(now));
        assert_eq!(ages(&history, now + 9), (9, 6));
        history.advance(now + 9, now + 9, 5);
        assert_eq!(ages(&history, now + 9), (6, 5));
        history.advance(now + 9, now + 109, 66);
        assert_eq!(ages(&history, now + 109), (76, 75));
        history.advance(now + 109, 1 << 33, 1 << 40);
        let gap = (1 << 33) - now - 109;
        assert_eq!(ages(&history, 1 << 33), ((76 + gap) % (1 << 32), (75 + gap) % (1 << 32)));
    }
}
