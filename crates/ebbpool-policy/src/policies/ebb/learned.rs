//! What ebb has learned of its workload, and when it looks at that anew.

use super::ages::{self, BUCKETS};
use super::counts::Fading;
use super::densities::{Densities, Trust};
use super::history::{Counting, DIRTY, History, REFERENCE_CLASSES, WRITE_CLASSES, WRITTEN};

/// A round of learning takes at least so many misses, more than there are classes.
const SHORTEST_ROUND: u64 = 64;
/// The first rounds take this share of all misses so far.
const MISSES_PER_ROUND: u64 = 4;
/// A longer round takes half a miss per frame.
const FRAMES_PER_MISS: u64 = 2;
/// A round of this many misses per frame counts as much as all before when a turn is measured.
const STEADINESS: f64 = 1.2;
/// A turn has so many references per frame, as long as nothing is known.
const FIRST_TURN: f64 = 4.0;
/// A round never makes earlier ones count less than this.
const LEAST_DECAY: f64 = 0.5;

/// How it is learned.
pub(super) struct Manner {
    /// Turns in which a count halves.
    pub(super) half_life: f64,
    /// Share of a turn within which references are correlated.
    pub(super) correlated: f64,
    /// Misses per frame in which what was seen fades to 1/e.
    pub(super) memory: f64,
    pub(super) trust: Trust,
}

/// Densities of references and writes. A *turn* is how many references it takes to miss as many
/// pages as there are frames.
pub(super) struct Learned {
    manner: Manner,
    frames: u64,
    references: Densities<REFERENCE_CLASSES>,
    writes: Densities<WRITE_CLASSES>,
    turn: f64,
    counting: Counting,
    misses: u64,
    /// References and misses when the round began.
    began: (u64, u64),
    /// Misses when the next round begins.
    next_round: u64,
    /// The class that is learned at the next miss; those of writes come last.
    class: usize,
    decay: f64,
}

impl Learned {
    pub(super) fn new(manner: Manner, frames: u32) -> Self {
        let turn = FIRST_TURN * f64::from(frames);
        Learned {
            frames: u64::from(frames),
            references: Densities::new(manner.trust),
            writes: Densities::new(manner.trust),
            turn,
            counting: manner.counting(turn),
            misses: 0,
            began: (0, 0),
            next_round: SHORTEST_ROUND,
            class: REFERENCE_CLASSES + WRITE_CLASSES,
            decay: 1.0,
            manner,
        }
    }

    pub(super) fn counting(&self) -> Counting {
        self.counting
    }

    /// The page is referenced now: learns from how long that took, and changes its history.
    #[inline]
    pub(super) fn reference(&mut self, history: &mut History, now: u64) {
        let age = now - history.referenced_at;
        self.references.happened(history.reference_class(), age);
        history.referenced(now, self.counting);
    }

    /// The same for a write.
    #[inline]
    pub(super) fn write(&mut self, history: &mut History, now: u64) {
        if history.is(WRITTEN) {
            let age = now - history.written_at;
            self.writes.happened(history.write_class(), age);
        }
        history.written(now, self.counting);
    }

    /// The page's history is no longer kept.
    #[inline]
    pub(super) fn forget(&mut self, history: &History, now: u64) {
        let age = now - history.referenced_at;
        self.references.forgotten(history.reference_class(), age);
        if history.is(WRITTEN) {
            let age = now - history.written_at;
            self.writes.forgotten(history.write_class(), age);
        }
    }

    /// What is learned so far, to value pages with.
    #[inline]
    pub(super) fn values(&self, now: u64, asymmetry: f32) -> Values<'_> {
        Values {
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
        self.counting = self.manner.counting(self.turn);
        self.began = (now, self.misses);

        let longest = (self.frames / FRAMES_PER_MISS).max(SHORTEST_ROUND);
        let round = (self.misses / MISSES_PER_ROUND).clamp(SHORTEST_ROUND, longest);
        self.next_round = self.misses + round;
        self.decay = (1.0 - round as f64 / (self.manner.memory * frames)).max(LEAST_DECAY);
        self.class = 0;
    }

    #[inline(never)]
    fn learn(&mut self) {
        let class = self.class;
        self.class += 1;
        let trust = self.manner.trust;
        if class < REFERENCE_CLASSES {
            self.references.learn(class, trust, self.decay);
        } else {
            self.writes
                .learn(class - REFERENCE_CLASSES, trust, self.decay);
        }
        if self.class == REFERENCE_CLASSES + WRITE_CLASSES {
            self.references.end_round();
            self.writes.end_round();
        }
    }
}

/// What pages are worth at a moment.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    references: &'a [[f32; BUCKETS]; REFERENCE_CLASSES],
    writes: &'a [[f32; BUCKETS]; WRITE_CLASSES],
    now: u64,
    /// R for a clean and a dirty page.
    asymmetry: [f32; 2],
}

impl Values<'_> {
    /// What keeping the page saves per reference, in page reads.
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

impl Manner {
    fn counting(&self, turn: f64) -> Counting {
        Counting {
            fading: Fading::with_half_life(self.half_life * turn),
            correlated: (self.correlated * turn) as u64,
        }
    }
}
