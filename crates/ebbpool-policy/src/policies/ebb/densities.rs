//! How likely a page is to be referenced again soon, learned by class and age.

use super::ages::{self, BUCKETS};

/// What was seen of a class's pages at an age.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Waits that ended with the event.
    events: f64,
    /// Waits that ended without: the page was forgotten.
    censored: f64,
}

/// For each class of pages the waits for an event, and what comes of keeping a page that has waited.
///
/// The density at an age is the most that keeping a page from now on can bring per reference:
/// events expected up to the best moment to give up, divided by the references until event or
/// giving up, whichever is first (the Gittins index of the wait).
pub(super) struct Densities<const CLASSES: usize> {
    cells: Box<[[Cell; BUCKETS]; CLASSES]>,
    density: Box<[[f32; BUCKETS]; CLASSES]>,
    /// Usual events per page in a bucket, if they could repeat.
    expected: [f64; BUCKETS],
    /// All classes learned in this round so far.
    pooled: [Pooled; BUCKETS],
}

/// All classes together.
#[derive(Clone, Copy, Default)]
struct Pooled {
    events: f64,
    at_risk: f64,
}

/// How much is to be seen of a class before it is believed to differ from the usual.
#[derive(Clone, Copy)]
pub(super) struct Trust {
    /// Events, before the class is believed to have more or less of them at all ages.
    pub(super) events: f64,
    /// Pages at an age, before it is believed to have more or less of them at that age.
    pub(super) pages: f64,
}

/// The guess about all classes weighs as much as so many pages.
const GUESSED: f64 = 2.0;

impl<const CLASSES: usize> Densities<CLASSES> {
    /// Nothing was seen yet: every class is as guessed.
    pub(super) fn new(trust: Trust) -> Self {
        let mut expected = [0.0; BUCKETS];
        for (bucket, expected) in expected.iter_mut().enumerate() {
            *expected = guess(bucket);
        }
        let mut densities = Densities {
            cells: Box::new([[Cell::default(); BUCKETS]; CLASSES]),
            density: Box::new([[0.0; BUCKETS]; CLASSES]),
            expected,
            pooled: [Pooled::default(); BUCKETS],
        };
        (0..CLASSES).for_each(|class| densities.learn(class, trust, 1.0));
        densities.end_round();
        densities
    }

    /// A page of the class waited `age` references for the event.
    #[inline]
    pub(super) fn happened(&mut self, class: u8, age: u64) {
        self.cells[usize::from(class)][ages::bucket(age)].events += 1.0;
    }

    /// A page of the class was forgotten after `age` references.
    #[inline]
    pub(super) fn forgotten(&mut self, class: u8, age: u64) {
        self.cells[usize::from(class)][ages::bucket(age)].censored += 1.0;
    }

    /// Events per reference that keeping a page brings, by class and bucket of ages.
    #[inline]
    pub(super) fn all(&self) -> &[[f32; BUCKETS]; CLASSES] {
        &self.density
    }

    /// Computes the densities of a class anew, after which what was seen of it counts `decay` times.
    pub(super) fn learn(&mut self, class: usize, trust: Trust, decay: f64) {
        let at_risk = self.at_risk(class);
        let factor = self.factor(class, &at_risk, trust);
        let cells = &self.cells[class];
        let mut later = [Stretch::default(); BUCKETS];
        let mut stretches = 0;
        for bucket in (0..BUCKETS).rev() {
            let usual = factor * self.expected[bucket];
            let expected =
                (cells[bucket].events + trust.pages * usual) / (at_risk[bucket] + trust.pages);
            let mut stretch = Stretch::of(expected, ages::width(bucket) as f64);
            // It pays to go on for as long as what follows is denser.
            while stretches > 0 && later[stretches - 1].density() > stretch.density() {
                stretches -= 1;
                stretch = stretch.then(later[stretches]);
            }
            later[stretches] = stretch;
            stretches += 1;
            self.density[class][bucket] = stretch.density() as f32;
        }
        self.pool(class, &at_risk);
        for cell in &mut self.cells[class] {
            cell.events *= decay;
            cell.censored *= decay;
        }
    }

    /// Ends a round in which each class was learned: what all were like together is what is usual
    /// in the next.
    pub(super) fn end_round(&mut self) {
        for bucket in 0..BUCKETS {
            let seen = std::mem::take(&mut self.pooled[bucket]);
            self.expected[bucket] =
                (seen.events + GUESSED * guess(bucket)) / (seen.at_risk + GUESSED);
        }
    }

    /// How many pages of the class were seen in each bucket; those whose wait ended there are
    /// counted half.
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

    /// By how much the class has more events than is usual at the ages at which it was seen.
    fn factor(&self, class: usize, at_risk: &[f64; BUCKETS], trust: Trust) -> f64 {
        let (mut events, mut usual) = (0.0, 0.0);
        for (bucket, at_risk) in at_risk.iter().enumerate() {
            events += self.cells[class][bucket].events;
            usual += at_risk * self.expected[bucket];
        }
        (events + trust.events) / (usual + trust.events)
    }

    fn pool(&mut self, class: usize, at_risk: &[f64; BUCKETS]) {
        for (bucket, pooled) in self.pooled.iter_mut().enumerate() {
            pooled.events += self.cells[class][bucket].events;
            pooled.at_risk += at_risk[bucket];
        }
    }
}

/// Events expected in a bucket before anything was seen: a page of twice the age waits twice as long.
fn guess(bucket: usize) -> f64 {
    0.5 * ages::width(bucket) as f64 / (ages::start(bucket) + 1) as f64
}

/// What keeping a page through some buckets brings.
#[derive(Clone, Copy, Default)]
struct Stretch {
    /// Events, at most 1.
    events: f64,
    /// References until event or end.
    references: f64,
    /// How likely no event comes.
    survival: f64,
}

impl Stretch {
    /// One bucket, where `expected` events would be expected if they could repeat.
    fn of(expected: f64, width: f64) -> Self {
        // e^expected by its series: close enough, and the same everywhere.
        let growth =
            1.0 + expected * (1.0 + expected * (0.5 + expected * (1.0 / 6.0 + expected / 24.0)));
        let survival = 1.0 / growth;
        let events = 1.0 - survival;
        Stretch {
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

    fn then(self, next: Stretch) -> Self {
        Stretch {
            events: self.events + self.survival * next.events,
            references: self.references + self.survival * next.references,
            survival: self.survival * next.survival,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST: Trust = Trust {
        events: 1.0,
        pages: 1.0,
    };

    fn learned(waits: impl Iterator<Item = (u64, bool)>) -> Densities<1> {
        let mut densities = Densities::new(TRUST);
        for (age, happened) in waits {
            match happened {
                true => densities.happened(0, age),
                false => densities.forgotten(0, age),
            }
        }
        densities.learn(0, TRUST, 1.0);
        densities
    }

    impl<const CLASSES: usize> Densities<CLASSES> {
        fn at(&self, class: usize, age: u64) -> f32 {
            self.density[class][ages::bucket(age)]
        }
    }

    #[test]
    fn before_anything_is_seen_older_is_worse() {
        let densities = Densities::<1>::new(TRUST);
        for age in 1..1000 {
            assert!(densities.at(0, age) >= densities.at(0, age + 1));
        }
        assert!(densities.at(0, 1) > 100.0 * densities.at(0, 1000));
    }

    #[test]
    fn pages_that_come_back_at_random_are_worth_their_rate() {
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
    fn a_wait_that_nears_its_end_gains_worth() {
        // All come back after 1000 references, or never.
        let densities = learned((0..1000).map(|at| match at % 2 {
            0 => (1000, true),
            _ => (100_000, false),
        }));
        assert!(densities.at(0, 600) > 1.5 * densities.at(0, 10));
        assert!(densities.at(0, 10) > 5.0 * densities.at(0, 2000));
        // Half of them come in at most 1000 references.
        assert!((0.0004..0.0008).contains(&densities.at(0, 10)));
    }

    #[test]
    fn what_was_seen_fades() {
        let mut densities = learned((0..100).map(|_| (10, true)));
        let fresh = densities.at(0, 8);
        for _ in 0..20 {
            densities.learn(0, TRUST, 0.5);
            densities.end_round();
        }
        assert!(densities.at(0, 8) < fresh / 2.0);
    }
}
