//! How likely a page is to be referenced again soon, learned by class and age.

use super::ages::{self, BUCKETS};

/// The waits of a class's pages that ended at an age.
#[derive(Clone, Copy, Default)]
struct WaitCounts {
    /// Waits that ended with the event.
    events: f64,
    /// Waits that ended without it: the page was forgotten.
    censored: f64,
}

/// For each class of pages the waits for an event, and the density of events of a page that has
/// waited.
///
/// The density at an age is the highest rate of events per reference that keeping a page from now
/// on can yield: events expected up to the best moment to evict it, divided by the references until
/// the event or the eviction, whichever is first (the Gittins index of the wait).
pub(super) struct Densities<const CLASSES: usize> {
    cells: Box<[[WaitCounts; BUCKETS]; CLASSES]>,
    density: Box<[[f32; BUCKETS]; CLASSES]>,
    /// The usual number of events per page in a bucket, if they could repeat.
    expected: [f64; BUCKETS],
    /// All classes learned in this round so far.
    pooled: [PooledWaits; BUCKETS],
}

/// All classes together.
#[derive(Clone, Copy, Default)]
struct PooledWaits {
    events: f64,
    at_risk: f64,
}

/// The weight of the usual against the observations of a class.
#[derive(Clone, Copy)]
pub(super) struct PriorWeight {
    /// The number of events that a class must have before its overall rate outweighs the usual one.
    pub(super) events: f64,
    /// The number of pages at an age that a class must have before its rate at that age outweighs
    /// the usual one.
    pub(super) pages: f64,
}

/// The weight of the initial guess about all classes, in pages.
const GUESSED: f64 = 2.0;

impl<const CLASSES: usize> Densities<CLASSES> {
    /// Without observations: every class is as guessed.
    pub(super) fn new(prior: PriorWeight) -> Self {
        let mut expected = [0.0; BUCKETS];
        for (bucket, expected) in expected.iter_mut().enumerate() {
            *expected = guess(bucket);
        }
        let mut densities = Densities {
            cells: Box::new([[WaitCounts::default(); BUCKETS]; CLASSES]),
            density: Box::new([[0.0; BUCKETS]; CLASSES]),
            expected,
            pooled: [PooledWaits::default(); BUCKETS],
        };
        (0..CLASSES).for_each(|class| densities.learn(class, prior, 1.0));
        densities.end_round();
        densities
    }

    /// A page of the class waited `age` references for the event.
    #[inline]
    pub(super) fn record_event(&mut self, class: u8, age: u64) {
        self.cells[usize::from(class)][ages::bucket(age)].events += 1.0;
    }

    /// A page of the class was forgotten after `age` references.
    #[inline]
    pub(super) fn record_censored(&mut self, class: u8, age: u64) {
        self.cells[usize::from(class)][ages::bucket(age)].censored += 1.0;
    }

    /// The densities: events per reference of keeping a page, by class and bucket of ages.
    #[inline]
    pub(super) fn all(&self) -> &[[f32; BUCKETS]; CLASSES] {
        &self.density
    }

    /// Computes the densities of a class anew, then multiplies its observations by `decay`.
    pub(super) fn learn(&mut self, class: usize, prior: PriorWeight, decay: f64) {
        let at_risk = self.at_risk(class);
        let factor = self.factor(class, &at_risk, prior);
        let cells = &self.cells[class];
        let mut later = [BucketRange::default(); BUCKETS];
        let mut ranges = 0;
        for bucket in (0..BUCKETS).rev() {
            let usual = factor * self.expected[bucket];
            let expected =
                (cells[bucket].events + prior.pages * usual) / (at_risk[bucket] + prior.pages);
            let mut range = BucketRange::of(expected, ages::width(bucket) as f64);
            // It pays to keep the page for as long as the following range is denser.
            while ranges > 0 && later[ranges - 1].density() > range.density() {
                ranges -= 1;
                range = range.then(later[ranges]);
            }
            later[ranges] = range;
            ranges += 1;
            self.density[class][bucket] = range.density() as f32;
        }
        self.pool(class, &at_risk);
        for cell in &mut self.cells[class] {
            cell.events *= decay;
            cell.censored *= decay;
        }
    }

    /// Ends a round in which each class was learned: the observations of all classes together are
    /// the usual ones of the next round.
    pub(super) fn end_round(&mut self) {
        for bucket in 0..BUCKETS {
            let pooled = std::mem::take(&mut self.pooled[bucket]);
            self.expected[bucket] =
                (pooled.events + GUESSED * guess(bucket)) / (pooled.at_risk + GUESSED);
        }
    }

    /// The number of pages of the class that were observed in each bucket; pages whose wait ended
    /// there count half.
    fn at_risk(&self, class: usize) -> [f64; BUCKETS] {
        let mut at_risk = [0.0; BUCKETS];
        let mut older = 0.0;
        for (cell, at_risk) in self.cells[class].iter().zip(&mut at_risk).rev() {
            let ended = cell.events + cell.censored;
            *at_risk = older + ended / 2.0;
            older += ended;
        }
        at_risk
    }

    /// The ratio of the class's events to the usual number at the ages at which it was observed.
    fn factor(&self, class: usize, at_risk: &[f64; BUCKETS], prior: PriorWeight) -> f64 {
        let (mut events, mut usual) = (0.0, 0.0);
        for (bucket, at_risk) in at_risk.iter().enumerate() {
            events += self.cells[class][bucket].events;
            usual += at_risk * self.expected[bucket];
        }
        (events + prior.events) / (usual + prior.events)
    }

    fn pool(&mut self, class: usize, at_risk: &[f64; BUCKETS]) {
        for (bucket, pooled) in self.pooled.iter_mut().enumerate() {
            pooled.events += self.cells[class][bucket].events;
            pooled.at_risk += at_risk[bucket];
        }
    }
}

/// Events expected in a bucket without observations: a page of twice the age waits twice as long.
fn guess(bucket: usize) -> f64 {
    0.5 * ages::width(bucket) as f64 / (ages::start(bucket) + 1) as f64
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
    fn of(expected: f64, width: f64) -> Self {
        // e^expected by its series: precise enough, and the same on every machine.
        let growth =
            1.0 + expected * (1.0 + expected * (0.5 + expected * (1.0 / 6.0 + expected / 24.0)));
        let survival = 1.0 / growth;
        let events = 1.0 - survival;
        BucketRange {
            events,
            references: if expected > 1e-9 {
                events * width / expected
            } else {
                width
            },
            survival,
        }
    }

    fn density(self) -> f64 {
        self.events / self.references
    }

    fn then(self, next: BucketRange) -> Self {
        BucketRange {
            events: self.events + self.survival * next.events,
            references: self.references + self.survival * next.references,
            survival: self.survival * next.survival,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: PriorWeight = PriorWeight {
        events: 1.0,
        pages: 1.0,
    };

    fn learned(waits: impl Iterator<Item = (u64, bool)>) -> Densities<1> {
        let mut densities = Densities::new(PRIOR);
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
            self.density[class][ages::bucket(age)]
        }
    }

    #[test]
    fn without_observations_older_is_worse() {
        let densities = Densities::<1>::new(PRIOR);
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
            densities.end_round();
        }
        assert!(densities.at(0, 8) < fresh / 2.0);
    }
}
