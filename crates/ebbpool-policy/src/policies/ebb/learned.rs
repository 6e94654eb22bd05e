//! What ebb has learned about its workload, and when it learns anew.

use super::ages::{self, BUCKETS};
use super::counts::FadingRate;
use super::densities::{Densities, PriorWeight};
use super::history::{CountingRule, DIRTY, History, REFERENCE_CLASSES, WRITE_CLASSES, WRITTEN};

/// The least number of misses in a round of learning, more than there are classes.
const SHORTEST_ROUND: u64 = 64;
/// The first rounds take this share of all misses so far.
const MISSES_PER_ROUND: u64 = 4;
/// The longest rounds take half a miss per frame.
const FRAMES_PER_MISS: u64 = 2;
/// A round of this many misses per frame counts as much as all rounds before when the length of a
/// turn is measured.
const STEADINESS: f64 = 1.2;
/// The references per frame in a turn before the first measurement.
const FIRST_TURN: f64 = 4.0;
/// A round never multiplies the weight of earlier ones by less than this.
const LEAST_DECAY: f64 = 0.5;

/// How ebb learns.
pub(super) struct LearningConfig {
    /// Turns in which a count halves.
    pub(super) half_life: f64,
    /// Share of a turn within which references are correlated.
    pub(super) correlated: f64,
    /// Misses per frame in which observations fade to 1/e.
    pub(super) memory: f64,
    pub(super) prior: PriorWeight,
}

/// Densities of references and writes. A *turn* is the number of references in which as many pages
/// are missed as there are frames.
pub(super) struct WaitStatistics {
    config: LearningConfig,
    frames: u64,
    references: Densities<REFERENCE_CLASSES>,
    writes: Densities<WRITE_CLASSES>,
    turn: f64,
    counting: CountingRule,
    misses: u64,
    /// References and misses when the round began.
    began: (u64, u64),
    /// Misses when the next round begins.
    next_round: u64,
    /// The class that is learned at the next miss; the classes of writes are last.
    class: usize,
    decay: f64,
}

impl WaitStatistics {
    pub(super) fn new(config: LearningConfig, frames: u32) -> Self {
        let turn = FIRST_TURN * f64::from(frames);
        WaitStatistics {
            frames: u64::from(frames),
            references: Densities::new(config.prior),
            writes: Densities::new(config.prior),
            turn,
            counting: config.counting(turn),
            misses: 0,
            began: (0, 0),
            next_round: SHORTEST_ROUND,
            class: REFERENCE_CLASSES + WRITE_CLASSES,
            decay: 1.0,
            config,
        }
    }

    pub(super) fn counting(&self) -> CountingRule {
        self.counting
    }

    /// The page is referenced now: learns from the length of the wait, and updates its history.
    #[inline]
    pub(super) fn reference(&mut self, history: &mut History, now: u64) {
        let age = now - history.referenced_at;
        self.references.record_event(history.reference_class(), age);
        history.referenced(now, self.counting);
    }

    /// The same for a write.
    #[inline]
    pub(super) fn write(&mut self, history: &mut History, now: u64) {
        if history.is(WRITTEN) {
            let age = now - history.written_at;
            self.writes.record_event(history.write_class(), age);
        }
        history.written(now, self.counting);
    }

    /// The page's history is no longer stored.
    #[inline]
    pub(super) fn forget(&mut self, history: &History, now: u64) {
        let age = now - history.referenced_at;
        self.references
            .record_censored(history.reference_class(), age);
        if history.is(WRITTEN) {
            let age = now - history.written_at;
            self.writes.record_censored(history.write_class(), age);
        }
    }

    /// The values of pages as learned so far.
    #[inline]
    pub(super) fn values(&self, now: u64, asymmetry: f32) -> PageValues<'_> {
        PageValues {
            references: self.references.all(),
            writes: self.writes.all(),
            now,
            asymmetry: [0.0, asymmetry],
        }
    }

    /// Counts a miss and learns a class, if any is left in this round.
    #[inline]
    pub(super) fn miss(&mut self, now: u64) {
        self.misses += 1;
        if self.misses == self.next_round {
            self.begin_round(now);
        }
        if self.class < REFERENCE_CLASSES + WRITE_CLASSES {
            self.learn();
        }
    }

    #[cold]
    fn begin_round(&mut self, now: u64) {
        let frames = self.frames as f64;
        let (references, misses) = (now - self.began.0, self.misses - self.began.1);
        let (references, misses) = (references as f64, misses as f64);
        let weight = misses / (misses + STEADINESS * frames);
        self.turn += weight * (references / misses * frames - self.turn);
        self.counting = self.config.counting(self.turn);
        self.began = (now, self.misses);

        let longest = (self.frames / FRAMES_PER_MISS).max(SHORTEST_ROUND);
        let round = (self.misses / MISSES_PER_ROUND).clamp(SHORTEST_ROUND, longest);
        self.next_round = self.misses + round;
        self.decay = (1.0 - round as f64 / (self.config.memory * frames)).max(LEAST_DECAY);
        self.class = 0;
    }

    #[inline(never)]
    fn learn(&mut self) {
        let class = self.class;
        self.class += 1;
        let prior = self.config.prior;
        if class < REFERENCE_CLASSES {
            self.references.learn(class, prior, self.decay);
        } else {
            self.writes
                .learn(class - REFERENCE_CLASSES, prior, self.decay);
        }
        if self.class == REFERENCE_CLASSES + WRITE_CLASSES {
            self.references.end_round();
            self.writes.end_round();
        }
    }
}

/// The values of pages at one moment.
#[derive(Clone, Copy)]
pub(super) struct PageValues<'a> {
    references: &'a [[f32; BUCKETS]; REFERENCE_CLASSES],
    writes: &'a [[f32; BUCKETS]; WRITE_CLASSES],
    now: u64,
    /// R for a clean and a dirty page.
    asymmetry: [f32; 2],
}

impl PageValues<'_> {
    /// The saving of keeping the page per reference, in page reads.
    ///
    /// Whether a page is dirty cannot be predicted, so there is no branch.
    #[inline]
    pub(super) fn of(&self, history: &History) -> f32 {
        let since_reference = ages::bucket(self.now - history.referenced_at);
        let since_write = ages::bucket(self.now - history.written_at);
        let reads = self.references[usize::from(history.reference_class())][since_reference];
        let writes = self.writes[usize::from(history.write_class())][since_write];
        let asymmetry = self.asymmetry[usize::from(history.is(DIRTY))];
        reads + asymmetry * writes
    }
}

impl LearningConfig {
    fn counting(&self, turn: f64) -> CountingRule {
        CountingRule {
            fading: FadingRate::with_half_life(self.half_life * turn),
            correlated: (self.correlated * turn) as u64,
        }
    }
}
