//! How likely a page is to be referenced again soon, learned by class, kind and age.

use super::ages::{self, AgeBuckets, BUCKETS};
use super::classes::SHARED_SLOT;

/// The waits that ended at an age.
#[derive(Clone, Copy, Default)]
struct WaitCounts {
    /// Waits that ended with the event.
    events: f32,
    /// Waits that ended without it: the page was forgotten.
    censored: f32,
}

/// For each slot of classes and each kind of pages the waits for an event, and the density of events of a page that has
/// waited. A row is one kind of one slot.
///
/// The density at an age is the highest rate of events per reference that keeping a page from now
/// on can yield: events expected up to the best moment to evict it, divided by the references until
/// the event or the eviction, whichever is first (the Gittins index of the wait).
///
/// A row with few observations is taken to be usual. What is usual for it follows from the kind in all slots, times the
/// ratio of the slot's events to those usual for pages of the same kinds (indirect standardization). Where the pages of a
/// kind come from the kind before it, as counts of references grow by one, a row that hardly had a page is taken to be
/// like the row of the kind before: pages that are referenced together reach a new kind together.
pub(super) struct Densities<const KINDS: usize> {
    rows: Vec<[WaitCounts; BUCKETS]>,
    density: Vec<RowDensities>,
    ages: AgeBuckets,
    origin: KindOrigin,
    /// The events expected per page of the row learned last.
    learned_last: [f64; BUCKETS],
    all: PooledWaits,
    // On the heap, like the rows: a thread with a small stack may build a policy.
    by_kind: Vec<PooledWaits>,
    /// In place of pages at risk there are the events that are usual for their kinds, and the usual is a ratio to these.
    by_slot: Vec<PooledWaits>,
}

/// The densities of a row in single precision, of which the upper half of the bits is stored: 8 significant ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RowDensities([u16; BUCKETS]);

impl RowDensities {
    const HALF: u32 = u16::BITS;

    #[inline]
    pub(super) fn at(&self, bucket: usize) -> f32 {
        f32::from_bits(u32::from(self.0[bucket]) << Self::HALF)
    }

    /// Stores a density, rounded to the nearest one that can be.
    fn set(&mut self, bucket: usize, density: f64) {
        let bits = (density as f32).to_bits();
        self.0[bucket] = ((bits + (1 << (Self::HALF - 1))) >> Self::HALF) as u16;
    }
}

/// The observations of several rows in this round so far, and the usual number of events per page in each bucket, if they
/// could repeat, as of the round before.
#[derive(Clone)]
struct PooledWaits {
    events: [f64; BUCKETS],
    at_risk: [f64; BUCKETS],
    usual: [f64; BUCKETS],
}

/// Where the pages of a kind come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KindOrigin {
    /// From the kind before it.
    KindBefore,
    /// From several kinds.
    AnyKind,
}

/// The weight of the usual against the observations of a row.
#[derive(Clone, Copy)]
pub(super) struct PriorWeight {
    /// The number of events that a row must have before its overall rate outweighs the usual one.
    pub(super) events: f64,
    /// The number of pages at an age that a row must have before its rate at that age outweighs
    /// the usual one.
    pub(super) pages: f64,
}

/// The weight of the initial guess about all rows, in pages.
const GUESSED: f64 = 2.0;
/// As many events in each bucket as are usual for a page's kind.
const ONCE: [f64; BUCKETS] = [1.0; BUCKETS];

impl<const KINDS: usize> Densities<KINDS> {
    /// Without observations, for the first `slots` slots of classes: every row is as guessed.
    pub(super) fn new(prior: PriorWeight, ages: AgeBuckets, origin: KindOrigin, slots: usize) -> Self {
        let guessed = PooledWaits {
            events: [0.0; BUCKETS],
            at_risk: [0.0; BUCKETS],
            usual: std::array::from_fn(|bucket| guess(ages, bucket)),
        };
        let mut densities = Densities {
            rows: vec![[WaitCounts::default(); BUCKETS]; slots * KINDS],
            density: vec![RowDensities([0; BUCKETS]); slots * KINDS],
            ages,
            origin,
            learned_last: [0.0; BUCKETS],
            by_kind: vec![guessed.clone(); KINDS],
            by_slot: vec![PooledWaits { usual: ONCE, ..guessed.clone() }; slots],
            all: guessed,
        };
        // Without observations all rows are the same.
        densities.learn(0, prior, 1.0);
        let guessed = densities.density[0];
        densities.density.fill(guessed);
        densities.end_round(1, prior);
        densities
    }

    /// From now on ages are in other buckets, and there are `slots` slots, no fewer than before. What was learned for an age stays,
    /// as far as the buckets show it.
    pub(super) fn resize(&mut self, ages: AgeBuckets, slots: usize) {
        let later = self.ages.later_in(ages);
        let shifted = |bucket: usize, by: isize| bucket.saturating_add_signed(by).min(BUCKETS - 1);
        for row in &mut self.rows {
            for (at, waits) in std::mem::take(row).into_iter().enumerate() {
                let cell = &mut row[shifted(at, later)];
                cell.events += waits.events;
                cell.censored += waits.censored;
            }
        }
        for RowDensities(density) in &mut self.density {
            *density = std::array::from_fn(|at| density[shifted(at, -later)]);
        }
        let pooled = self.by_kind.iter_mut().chain(&mut self.by_slot).chain([&mut self.all]);
        let usual = pooled.map(|pooled| {
            pooled.clear();
            &mut pooled.usual
        });
        for expected in usual.chain([&mut self.learned_last]) {
            *expected = std::array::from_fn(|at| expected[shifted(at, -later)]);
        }
        self.ages = ages;
        self.rows.resize(slots * KINDS, Default::default());
        self.density.resize(slots * KINDS, self.density[0]);
        let none = [0.0; BUCKETS];
        self.by_slot.resize(slots, PooledWaits { events: none, at_risk: none, usual: ONCE });
    }

    /// A page of the row waited `age` references for the event.
    #[inline]
    pub(super) fn record_event(&mut self, row: usize, age: u64) {
        self.rows[row][self.ages.bucket(age)].events += 1.0;
    }

    /// A page of the row was forgotten after `age` references.
    #[inline]
    pub(super) fn record_censored(&mut self, row: usize, age: u64) {
        self.rows[row][self.ages.bucket(age)].censored += 1.0;
    }

    /// A page of the row that was counted as forgotten after `age` references is so no longer.
    #[inline]
    pub(super) fn withdraw_censored(&mut self, row: usize, age: u64) {
        let censored = &mut self.rows[row][self.ages.bucket(age)].censored;
        // What was counted may have faded since.
        *censored = (*censored - 1.0).max(0.0);
    }

    /// The densities: events per reference of keeping a page, by row and bucket of ages.
    #[inline]
    pub(super) fn all(&self) -> &[RowDensities] {
        &self.density
    }

    /// Gives the rows of a slot without observations the densities of the shared slot.
    pub(super) fn begin_slot(&mut self, slot: u8) {
        let shared = usize::from(SHARED_SLOT) * KINDS;
        let first = usize::from(slot) * KINDS;
        self.density.copy_within(shared..shared + KINDS, first);
    }

    /// Computes the densities of a row anew, directly after those of the row before it in its slot, then multiplies its observations by `decay`.
    pub(super) fn learn(&mut self, row: usize, prior: PriorWeight, decay: f32) {
        let (slot, kind) = (row / KINDS, row % KINDS);
        let (events, at_risk) = self.observations(row);
        let usual = match self.origin == KindOrigin::KindBefore && kind > 0 {
            true => self.usual_after_kind_before(slot, kind, at_risk[0], prior),
            false => self.usual(slot, kind),
        };
        let expected = prior.weigh(&events, &at_risk, &usual);
        self.learned_last = expected;

        let mut later = [BucketRange::default(); BUCKETS];
        let mut ranges = 0;
        for bucket in (0..BUCKETS).rev() {
            let mut range = BucketRange::new(expected[bucket], self.ages.width(bucket) as f64);
            // It pays to keep the page for as long as the following range is denser.
            while ranges > 0 && later[ranges - 1].density() > range.density() {
                ranges -= 1;
                range = range.followed_by(later[ranges]);
            }
            later[ranges] = range;
            ranges += 1;
            self.density[row].set(bucket, range.density());
        }
        let by_kind = &mut self.by_kind[kind];
        let usual_of_kind = std::array::from_fn(|at| at_risk[at] * by_kind.usual[at]);
        self.by_slot[slot].add(&events, &usual_of_kind);
        by_kind.add(&events, &at_risk);
        self.all.add(&events, &at_risk);
        for cell in &mut self.rows[row] {
            cell.events *= decay;
            cell.censored *= decay;
        }
    }

    /// Ends a round in which each row of the first `slots` slots was learned: its observations determine what is usual in
    /// the next round.
    pub(super) fn end_round(&mut self, slots: usize, prior: PriorWeight) {
        for bucket in 0..BUCKETS {
            self.all.usual[bucket] =
                (self.all.events[bucket] + GUESSED * guess(self.ages, bucket)) / (self.all.at_risk[bucket] + GUESSED);
        }

        let all = &self.all.usual;
        for kind in &mut self.by_kind {
            kind.usual = prior.weigh(&kind.events, &kind.at_risk, all);
        }
        for slot in &mut self.by_slot[..slots] {
            slot.usual = prior.weigh(&slot.events, &slot.at_risk, &ONCE);
        }
        let pooled = self.by_kind.iter_mut().chain(&mut self.by_slot);
        pooled.chain([&mut self.all]).for_each(PooledWaits::clear);
    }

    /// The events of a row in each bucket, and the pages that were observed there; pages whose wait ended there count
    /// half.
    fn observations(&self, row: usize) -> ([f64; BUCKETS], [f64; BUCKETS]) {
        let (mut events, mut at_risk) = ([0.0; BUCKETS], [0.0; BUCKETS]);
        let mut older = 0.0;
        for (bucket, cell) in self.rows[row].iter().enumerate().rev() {
            let ended = f64::from(cell.events) + f64::from(cell.censored);
            events[bucket] = f64::from(cell.events);
            at_risk[bucket] = older + ended / 2.0;
            older += ended;
        }
        (events, at_risk)
    }

    /// The usual number of events per page of a kind in a slot, in each bucket.
    fn usual(&self, slot: usize, kind: usize) -> [f64; BUCKETS] {
        let (kind, slot) = (&self.by_kind[kind], &self.by_slot[slot]);
        std::array::from_fn(|at| kind.usual[at] * slot.usual[at])
    }

    /// The usual number of events per page of a row that had that number of pages, in each bucket: of the first pages, the
    /// events expected of the row learned last are usual.
    fn usual_after_kind_before(&self, slot: usize, kind: usize, pages: f64, prior: PriorWeight) -> [f64; BUCKETS] {
        let (usual, before) = (self.usual(slot, kind), &self.learned_last);
        std::array::from_fn(|at| (pages * usual[at] + prior.pages * before[at]) / (pages + prior.pages))
    }
}

impl PooledWaits {
    fn add(&mut self, events: &[f64; BUCKETS], at_risk: &[f64; BUCKETS]) {
        for bucket in 0..BUCKETS {
            self.events[bucket] += events[bucket];
            self.at_risk[bucket] += at_risk[bucket];
        }
    }

    fn clear(&mut self) {
        self.events = [0.0; BUCKETS];
        self.at_risk = [0.0; BUCKETS];
    }
}

impl PriorWeight {
    /// The expected events per page in each bucket: the usual ones, more or fewer at all ages by a common factor, as far
    /// as the observations at an age do not outweigh them.
    fn weigh(self, events: &[f64; BUCKETS], at_risk: &[f64; BUCKETS], usual: &[f64; BUCKETS]) -> [f64; BUCKETS] {
        let (mut all_events, mut all_usual) = (0.0, 0.0);
        for bucket in 0..BUCKETS {
            all_events += events[bucket];
            all_usual += at_risk[bucket] * usual[bucket];
        }
        let factor = (all_events + self.events) / (all_usual + self.events);
        std::array::from_fn(|bucket| {
            let usual = factor * usual[bucket];
            (events[bucket] + self.pages * usual) / (at_risk[bucket] + self.pages)
        })
    }
}

/// Events expected in a bucket without observations: a page of twice the age waits twice as long.
fn guess(ages: AgeBuckets, bucket: usize) -> f64 {
    let of_half_doubling = |at: usize| {
        let (start, end) = (ages::start(at), ages::start(at + 1));
        0.5 * (end - start) as f64 / (start + 1) as f64
    };
    ages.half_doublings(bucket).map(of_half_doubling).sum()
}

/// The yield of keeping a page through a range of buckets.
#[derive(Clone, Copy, Default)]
struct BucketRange {
    /// Events, at most 1.
    events: f64,
    /// References until the event or the end.
    references: f64,
    /// The probability of no event.
    survival: f64,
}

impl BucketRange {
    /// One bucket, where `expected` events would be expected if they could repeat.
    fn new(expected: f64, width: f64) -> Self {
        // e^expected by its series: precise enough, and the same on every machine.
        let growth = 1.0 + expected * (1.0 + expected * (0.5 + expected * (1.0 / 6.0 + expected / 24.0)));
        let survival = 1.0 / growth;
        let events = 1.0 - survival;
        BucketRange { events, references: if expected > 1e-9 { events * width / expected } else { width }, survival }
    }

    fn density(self) -> f64 {
        self.events / self.references
    }

    fn followed_by(self, next: BucketRange) -> Self {
        BucketRange {
            events: self.events + self.survival * next.events,
            references: self.references + self.survival * next.references,
            survival: self.survival * next.survival,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::SLOTS;
    use super::*;

    const PRIOR: PriorWeight = PriorWeight { events: 1.0, pages: 1.0 };

    fn new<const KINDS: usize>(origin: KindOrigin) -> Densities<KINDS> {
        Densities::new(PRIOR, AgeBuckets::new(100), origin, SLOTS)
    }

    fn learned(waits: impl Iterator<Item = (u64, bool)>) -> Densities<1> {
        let mut densities = new(KindOrigin::AnyKind);
        for (age, record_event) in waits {
            match record_event {
                true => densities.record_event(0, age),
                false => densities.record_censored(0, age),
            }
        }
        densities.learn(0, PRIOR, 1.0);
        densities
    }

    impl<const CLASSES: usize> Densities<CLASSES> {
        fn at(&self, class: usize, age: u64) -> f32 {
            self.density[class].at(self.ages.bucket(age))
        }
    }

    #[test]
    fn without_observations_older_is_worse() {
        let densities = new::<1>(KindOrigin::AnyKind);
        for age in 1..1000 {
            assert!(densities.at(0, age) >= densities.at(0, age + 1));
        }
        assert!(densities.at(0, 1) > 100.0 * densities.at(0, 1000));
    }

    #[test]
    fn the_density_of_random_references_is_their_rate() {
        // Waits of mean 1000, by their quantiles.
        let waits = (0..10_000).map(|at| {
            let share = (f64::from(at) + 0.5) / 10_000.0;
            ((-1000.0 * share.ln()) as u64, true)
        });
        let densities = learned(waits);
        for age in [10, 100, 1000, 3000] {
            let density = densities.at(0, age);
            assert!((0.0009..0.0013).contains(&density), "{age}: {density}");
        }
    }

    #[test]
    fn the_density_grows_towards_the_end_of_a_wait() {
        // Each page is referenced again after 1000 references, or never.
        let densities = learned((0..1000).map(|at| match at % 2 {
            0 => (1000, true),
            _ => (100_000, false),
        }));
        assert!(densities.at(0, 600) > 1.5 * densities.at(0, 10));
        assert!(densities.at(0, 10) > 5.0 * densities.at(0, 2000));
        // Half of them are referenced within 1000 references.
        assert!((0.0004..0.0008).contains(&densities.at(0, 10)));
    }

    #[test]
    fn observations_fade() {
        let mut densities = learned((0..100).map(|_| (10, true)));
        let fresh = densities.at(0, 8);
        for _ in 0..20 {
            densities.learn(0, PRIOR, 0.5);
            densities.end_round(1, PRIOR);
        }
        assert!(densities.at(0, 8) < fresh / 2.0);
    }

    #[test]
    fn pages_of_a_new_kind_are_expected_to_be_like_those_of_the_kind_before() {
        let density = |origin| {
            let mut densities = new::<2>(origin);
            for _ in 0..1000 {
                densities.record_event(0, 1000);
            }
            densities.learn(0, PRIOR, 1.0);
            densities.learn(1, PRIOR, 1.0);
            (densities.at(0, 800), densities.at(1, 800))
        };
        let (before, new) = density(KindOrigin::KindBefore);
        assert!(new > before / 2.0, "{new}, {before}");
        let (before, new) = density(KindOrigin::AnyKind);
        assert!(new < before / 2.0, "{new}, {before}");
    }

    #[test]
    fn a_wait_that_is_withdrawn_leaves_no_trace() {
        let waits = (0..100).map(|at| (at, at % 2 == 0));
        let without = learned(waits.clone());
        let mut with = new::<1>(KindOrigin::AnyKind);
        with.record_censored(0, 500);
        for (age, is_event) in waits {
            match is_event {
                true => with.record_event(0, age),
                false => with.record_censored(0, age),
            }
        }
        with.withdraw_censored(0, 500);
        // Of what has faded no more is withdrawn than there is.
        with.withdraw_censored(0, 700);
        with.learn(0, PRIOR, 1.0);
        assert_eq!(with.all(), without.all());
    }
}
