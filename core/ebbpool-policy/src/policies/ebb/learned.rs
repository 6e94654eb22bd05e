//! What ebb has learned about its workload, and when it learns anew.

use super::ages::AgeBuckets;
use super::candidates::PageValue;
use super::classes::ClassSlots;
use super::densities::{Densities, KindOrigin, PriorWeight, RowDensities};
use super::duel::Leader;
use super::history::{History, REFERENCE_KINDS, WRITE_KINDS};
use crate::policy::{Page, PageClass};

/// The misses of the first rounds of learning.
const SHORTEST_ROUND: u64 = 64;
/// The next rounds take this share of all misses so far.
const MISSES_PER_ROUND: u64 = 4;
/// The longest rounds take half a miss per frame, or some misses per row if that is more: learning a row takes as long
/// as serving several misses.
const FRAMES_PER_MISS: u64 = 2;
const MISSES_PER_ROW: u64 = 8;
/// Misses per frame in which observations fade to 1/e.
const MEMORY: f64 = 100.0;
/// A round never multiplies the weight of earlier ones by less than this.
const LEAST_DECAY: f64 = 0.5;

/// Densities of references and writes.
pub(super) struct WaitStatistics {
    prior: PriorWeight,
    frames: u64,
    ages: AgeBuckets,
    classes: ClassSlots,
    references: Densities<REFERENCE_KINDS>,
    writes: Densities<WRITE_KINDS>,
    misses: u64,
    /// Misses when the next round begins.
    next_round: u64,
    round: LearningRound,
}

/// The rows that a round learns: those of references, then those of writes.
struct LearningRound {
    /// The slots in use when the round began.
    slots: usize,
    /// The row that is learned next.
    next: usize,
    /// The rows that are learned at a miss, so that no round ends before all are learned.
    rows_per_miss: usize,
    decay: f32,
}

impl LearningRound {
    /// A round without rows.
    const NONE: LearningRound = LearningRound { slots: 0, next: 0, rows_per_miss: 0, decay: 1.0 };

    fn rows(&self) -> usize {
        self.slots * (REFERENCE_KINDS + WRITE_KINDS)
    }
}

impl WaitStatistics {
    pub(super) fn new(prior: PriorWeight, frames: u32, classes: usize) -> Self {
        let ages = AgeBuckets::new(frames);
        let classes = ClassSlots::new(frames, classes);
        // Rows that no page can be of would take most of the memory in a small pool.
        let slots = classes.most_used();
        WaitStatistics {
            prior,
            ages,
            frames: u64::from(frames),
            references: Densities::new(prior, ages, KindOrigin::KindBefore, slots),
            writes: Densities::new(prior, ages, KindOrigin::AnyKind, slots),
            classes,
            misses: 0,
            next_round: SHORTEST_ROUND,
            round: LearningRound::NONE,
        }
    }

    /// From now on there are that many frames, and at most that many classes.
    pub(super) fn resize(&mut self, frames: u32, classes: usize) {
        self.frames = frames.into();
        self.ages = AgeBuckets::new(frames);
        self.classes.resize(frames, classes);
        let slots = self.classes.most_used();
        self.references.resize(self.ages, slots);
        self.writes.resize(self.ages, slots);
    }

    /// Sets the class of a missed page.
    #[inline]
    pub(super) fn classify(&mut self, history: &mut History, class: PageClass, page: Page) {
        let classification = self.classes.classify(class, page);
        if classification.is_new_slot {
            self.references.begin_slot(classification.slot);
            self.writes.begin_slot(classification.slot);
        }
        history.classify(classification);
    }

    /// The page is referenced now: learns from the length of the wait, and updates its history.
    #[inline]
    pub(super) fn reference(&mut self, history: &mut History, now: u64) {
        let age = history.age(now);
        self.references.record_event(history.reference_row(), age);
        history.referenced(now);
    }

    /// The page is written now: learns from the wait since its last write, if there was one, and updates its history.
    #[inline]
    pub(super) fn write(&mut self, history: &mut History, now: u64) {
        if history.was_written() {
            let age = history.age_of_write(now);
            self.writes.record_event(history.write_row(), age);
        }
        history.written(now);
    }

    /// The page was evicted and is a ghost now: until its ghost ends, its waits count as observed up to the eviction.
    ///
    /// Otherwise pages that die would be counted only when their ghosts are forgotten, long after those pages of their
    /// row that live, and a row would be taken to be better than it is.
    #[inline]
    pub(super) fn begin_ghost(&mut self, history: &History) {
        if let Some(evicted_at) = history.evicted_at() {
            self.forget(history, evicted_at);
        }
    }

    /// A ghost ends: the page is referenced, or its history is no longer stored.
    #[inline]
    pub(super) fn end_ghost(&mut self, history: &mut History) {
        let Some(evicted_at) = history.evicted_at() else {
            return;
        };
        history.end_ghost();
        let age = history.age(evicted_at);
        self.references.withdraw_censored(history.reference_row(), age);
        if history.was_written() {
            let age = history.age_of_write(evicted_at);
            self.writes.withdraw_censored(history.write_row(), age);
        }
    }

    /// The page's history is no longer stored.
    #[inline]
    pub(super) fn forget(&mut self, history: &History, now: u64) {
        let age = history.age(now);
        self.references.record_censored(history.reference_row(), age);
        if history.was_written() {
            let age = history.age_of_write(now);
            self.writes.record_censored(history.write_row(), age);
        }
    }

    /// The values of pages as learned so far.
    ///
    /// Of equal values the page referenced last has the higher rank; `since` is a time at most 2^31 references before or after
    /// any last reference.
    #[inline]
    pub(super) fn values(&self, now: u64, since: u64, asymmetry: f32) -> PageValues<'_> {
        PageValues {
            ranks_from: (since as u32).wrapping_sub(1 << 31),
            references: self.references.all(),
            writes: self.writes.all(),
            ages: self.ages,
            now,
            asymmetry: [0.0, asymmetry],
            leader: Leader::Ebb,
        }
    }

    /// Counts a miss and learns the next rows, if any are left in this round.
    #[inline]
    pub(super) fn miss(&mut self) {
        self.misses += 1;
        if self.misses == self.next_round {
            self.begin_round();
        }
        if self.round.next < self.round.rows() {
            self.learn();
        }
    }

    #[cold]
    fn begin_round(&mut self) {
        let slots = self.classes.used();
        let rows = slots * (REFERENCE_KINDS + WRITE_KINDS);
        let longest = (self.frames / FRAMES_PER_MISS).max(MISSES_PER_ROW * rows as u64).max(SHORTEST_ROUND);
        let misses = (self.misses / MISSES_PER_ROUND).clamp(SHORTEST_ROUND, longest);
        self.next_round = self.misses + misses;
        let decay = (1.0 - misses as f64 / (MEMORY * self.frames as f64)).max(LEAST_DECAY);
        self.round = LearningRound { slots, next: 0, rows_per_miss: rows.div_ceil(misses as usize), decay: decay as f32 };
    }

    #[inline(never)]
    fn learn(&mut self) {
        let LearningRound { slots, next, rows_per_miss, decay } = self.round;
        let end = self.round.rows().min(next + rows_per_miss);
        for row in next..end {
            match row.checked_sub(slots * REFERENCE_KINDS) {
                None => self.references.learn(row, self.prior, decay),
                Some(row) => self.writes.learn(row, self.prior, decay),
            }
        }
        self.round.next = end;
        if end == self.round.rows() {
            self.references.end_round(slots, self.prior);
            self.writes.end_round(slots, self.prior);
        }
    }
}

/// The values of pages at one moment.
#[derive(Clone, Copy)]
pub(super) struct PageValues<'a> {
    references: &'a [RowDensities],
    writes: &'a [RowDensities],
    ages: AgeBuckets,
    now: u64,
    /// The time from which ranks count, modulo 2^32.
    ranks_from: u32,
    /// R for a clean and a dirty page.
    asymmetry: [f32; 2],
    leader: Leader,
}

impl PageValues<'_> {
    /// The values that decide where that policy leads. Under LRU a page is worth the more, the less time has passed since
    /// its last reference.
    #[inline]
    pub(super) fn led_by(self, leader: Leader) -> Self {
        PageValues { leader, ..self }
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// The value of the page, such that of equals the one referenced last has the higher one.
    #[inline]
    pub(super) fn ranked(&self, history: &History) -> PageValue {
        self.rank(self.of(history), history)
    }

    /// `value` as the value of the page, such that of equals the one referenced last has the higher one.
    #[inline]
    pub(super) fn rank(&self, value: f32, history: &History) -> PageValue {
        PageValue::new(value, history.referenced_at().wrapping_sub(self.ranks_from))
    }

    /// The saving of keeping the page per reference, in page reads.
    #[inline]
    pub(super) fn of(&self, history: &History) -> f32 {
        self.page(history).after(0)
    }

    /// The values of a page now and later.
    ///
    /// Whether a page is dirty cannot be predicted, so there is no branch.
    #[inline]
    pub(super) fn page(&self, history: &History) -> FutureValues<'_> {
        FutureValues {
            references: &self.references[history.reference_row()],
            writes: &self.writes[history.write_row()],
            age: history.age(self.now),
            age_of_write: history.age_of_write(self.now),
            asymmetry: self.asymmetry[usize::from(history.waits_for_a_write())],
            ages: self.ages,
            leader: self.leader,
        }
    }
}

/// The values of one page while it is not referenced.
pub(super) struct FutureValues<'a> {
    references: &'a RowDensities,
    writes: &'a RowDensities,
    /// The ages now.
    age: u64,
    age_of_write: u64,
    asymmetry: f32,
    ages: AgeBuckets,
    leader: Leader,
}

impl FutureValues<'_> {
    /// The value that many references later.
    #[inline]
    pub(super) fn after(&self, references: u64) -> f32 {
        if self.leader == Leader::Lru {
            return 1.0 / (1 + self.age + references) as f32;
        }
        let since_reference = self.ages.bucket(self.age + references);
        let since_write = self.ages.bucket(self.age_of_write + references);
        self.references.at(since_reference) + self.asymmetry * self.writes.at(since_write)
    }
}
