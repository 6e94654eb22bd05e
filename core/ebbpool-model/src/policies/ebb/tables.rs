//! The learned densities of ebb.

use std::sync::LazyLock;

use super::SLOTS;

/// Half doublings of ages that are distinguished, and the buckets of a table.
const HALVES: usize = 56;
const BUCKETS: usize = 32;

/// Weights of what is usual for a row: `trust_events` and `trust_pages`.
#[derive(Clone, Copy)]
pub(super) struct Trust {
    pub(super) events: f64,
    pub(super) pages: f64,
}

/// Waits that ended in each bucket of ages: with the event, and without. Single precision.
#[derive(Clone)]
struct Waits {
    events: Vec<f32>,
    censored: Vec<f32>,
}

/// Events, and pages at risk, in each bucket.
#[derive(Clone)]
struct Observations {
    events: Vec<f64>,
    at_risk: Vec<f64>,
}

/// Observations of several rows, and the usual events per page that followed from them in the last round.
#[derive(Clone)]
struct Pooled {
    observed: Observations,
    usual: Vec<f64>,
}

/// The learned densities of references, or of writes. Rows are numbered slot by slot.
pub(super) struct Table {
    kinds: usize,
    buckets: Buckets,
    /// Pages of a kind come from the kind before it.
    in_order: bool,
    /// What was expected of the row learned last.
    before: Vec<f64>,
    waits: Vec<Waits>,
    /// By row and bucket.
    density: Vec<Vec<f32>>,
    all: Pooled,
    of_kind: Vec<Pooled>,
    /// At risk are, for each slot, the events that are usual for the kinds of its pages; usual is a ratio to these.
    of_slot: Vec<Pooled>,
}

/// The youngest age of each half doubling of age + 2. Number 2n is from age 2 x 2^n - 2 on, number 2n+1 from 3 x 2^n - 2 on.
static HALF_DOUBLINGS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let doublings = (0..=HALVES as u32 / 2).map(|n| 1u64 << n);
    doublings.flat_map(|d| [2 * d - 2, 3 * d - 2]).collect()
});

fn half_doubling(age: u64) -> usize {
    let last = HALF_DOUBLINGS[..HALVES].iter().rposition(|start| *start <= age);
    last.expect("the first one starts at 0")
}

/// The youngest age of the half doubling of an age.
pub(super) fn rounded_down(age: u64) -> u64 {
    HALF_DOUBLINGS[half_doubling(age)]
}

/// The buckets of ages in a pool of `m` frames, by the age at which each starts, and where the last one is taken to end.
struct Buckets(Vec<u64>);

impl Buckets {
    /// The first bucket ends with the half doubling that has age m / 1024.
    fn new(m: usize) -> Buckets {
        let first = half_doubling(m as u64 / 1024).min(HALVES - BUCKETS);
        let later = &HALF_DOUBLINGS[first + 1..=first + BUCKETS];
        Buckets([&[0], later].concat())
    }

    fn of(&self, age: u64) -> usize {
        let last = self.0[..BUCKETS].iter().rposition(|start| *start <= age);
        last.expect("the first bucket starts at 0")
    }

    fn width(&self, bucket: usize) -> f64 {
        (self.0[bucket + 1] - self.0[bucket]) as f64
    }

    /// Without observations a page of age a has an event within the next reference with probability 0.5 / (a+1), computed at
    /// the beginning of its half doubling.
    fn guess(&self, bucket: usize) -> f64 {
        let ages = self.0[bucket]..self.0[bucket + 1];
        let starts = HALF_DOUBLINGS.iter().zip(&HALF_DOUBLINGS[1..]);
        let within = starts.filter(|(start, _)| ages.contains(start));
        within.map(|(start, end)| 0.5 * (end - start) as f64 / (start + 1) as f64).sum()
    }
}

/// The nearest number in single precision whose lower 16 bits are 0.
fn rounded(density: f32) -> f32 {
    let (bits, unit) = (density.to_bits(), 1 << 16);
    let below = bits / unit * unit;
    f32::from_bits(if bits - below < unit / 2 { below } else { below + unit })
}

/// The usual ratio of a slot to its kinds.
fn once() -> Vec<f64> {
    vec![1.0; BUCKETS]
}

impl Observations {
    fn none() -> Self {
        Observations { events: vec![0.0; BUCKETS], at_risk: vec![0.0; BUCKETS] }
    }

    /// In each bucket the events and the pages at risk, where pages whose wait ended in the bucket count half.
    fn from_waits(waits: &Waits) -> Self {
        let ended = |at: usize| f64::from(waits.events[at]) + f64::from(waits.censored[at]);
        let at_risk = (0..BUCKETS).map(|at| (at + 1..BUCKETS).rev().map(ended).sum::<f64>() + ended(at) / 2.0).collect();
        let events = waits.events.iter().map(|&events| f64::from(events));
        Observations { events: events.collect(), at_risk }
    }

    fn add(&mut self, other: &Observations) {
        for at in 0..BUCKETS {
            self.events[at] += other.events[at];
            self.at_risk[at] += other.at_risk[at];
        }
    }

    /// All events, and the number that would be usual.
    fn sums(&self, usual: &[f64]) -> (f64, f64) {
        let of_bucket = |at: usize| self.at_risk[at] * usual[at];
        (self.events.iter().sum(), (0..BUCKETS).map(of_bucket).sum())
    }

    /// Kaplan-Meier with what is usual, more or less by a factor, in place of pages.
    fn expected(&self, usual: &[f64], trust: Trust) -> Vec<f64> {
        let (events, usually) = self.sums(usual);
        let factor = (events + trust.events) / (usually + trust.events);
        let of_bucket = |at: usize| {
            let usual = factor * usual[at];
            (self.events[at] + trust.pages * usual) / (self.at_risk[at] + trust.pages)
        };
        (0..BUCKETS).map(of_bucket).collect()
    }
}

impl Table {
    pub(super) fn new(kinds: usize, m: usize, in_order: bool, trust: Trust) -> Table {
        let buckets = Buckets::new(m);
        let nothing = Waits { events: vec![0.0; BUCKETS], censored: vec![0.0; BUCKETS] };
        let guessed = Pooled { observed: Observations::none(), usual: (0..BUCKETS).map(|at| buckets.guess(at)).collect() };
        let mut table = Table {
            kinds,
            buckets,
            in_order,
            before: Vec::new(),
            waits: vec![nothing; SLOTS * kinds],
            density: vec![vec![0.0; BUCKETS]; SLOTS * kinds],
            of_kind: vec![guessed.clone(); kinds],
            of_slot: vec![Pooled { usual: once(), ..guessed.clone() }; SLOTS],
            all: guessed,
        };
        for row in 0..SLOTS * kinds {
            table.learn(row, trust, 1.0);
        }
        table.end_round(1, trust);
        table
    }

    pub(super) fn event(&mut self, row: usize, age: u64) {
        self.waits[row].events[self.buckets.of(age)] += 1.0;
    }

    pub(super) fn censored(&mut self, row: usize, age: u64) {
        self.waits[row].censored[self.buckets.of(age)] += 1.0;
    }

    /// A page counted as censored at that age is so no longer. What was counted may have faded.
    pub(super) fn withdraw(&mut self, row: usize, age: u64) {
        let censored = &mut self.waits[row].censored[self.buckets.of(age)];
        *censored = if *censored > 1.0 { *censored - 1.0 } else { 0.0 };
    }

    pub(super) fn density(&self, row: usize, age: u64) -> f32 {
        self.density[row][self.buckets.of(age)]
    }

    /// A slot begins with the densities of slot 0.
    pub(super) fn begin_slot(&mut self, slot: usize) {
        for kind in 0..self.kinds {
            self.density[slot * self.kinds + kind] = self.density[kind].clone();
        }
    }

    pub(super) fn learn(&mut self, row: usize, trust: Trust, decay: f32) {
        let (slot, kind) = (row / self.kinds, row % self.kinds);
        let observed = Observations::from_waits(&self.waits[row]);
        let usual = |at: usize| self.of_kind[kind].usual[at] * self.of_slot[slot].usual[at];
        let mut usual: Vec<f64> = (0..BUCKETS).map(usual).collect();
        if self.in_order && kind > 0 {
            // As many pages as `trust` has are taken to be like those of the kind before.
            let pages = observed.at_risk[0];
            for (usual, before) in usual.iter_mut().zip(&self.before) {
                *usual = (pages * *usual + trust.pages * before) / (pages + trust.pages);
            }
        }
        let expected = observed.expected(&usual, trust);
        self.before.clone_from(&expected);
        let densities = (0..BUCKETS).map(|at| rounded(density(&expected, &self.buckets, at)));
        self.density[row] = densities.collect();

        self.all.observed.add(&observed);
        let mut of_slot = observed.clone();
        for (at_risk, usual) in of_slot.at_risk.iter_mut().zip(&self.of_kind[kind].usual) {
            *at_risk *= usual;
        }
        self.of_slot[slot].observed.add(&of_slot);
        self.of_kind[kind].observed.add(&observed);
        let Waits { events, censored } = &mut self.waits[row];
        for ended in events.iter_mut().chain(censored) {
            *ended *= decay;
        }
    }

    /// The rows of the first `slots` slots were learned. The guess weighs as much as two pages.
    pub(super) fn end_round(&mut self, slots: usize, trust: Trust) {
        let Observations { events, at_risk } = std::mem::replace(&mut self.all.observed, Observations::none());
        let usual = |at: usize| (events[at] + 2.0 * self.buckets.guess(at)) / (at_risk[at] + 2.0);
        let all: Vec<f64> = (0..BUCKETS).map(usual).collect();

        let slots = &mut self.of_slot[..slots];
        let once = once();
        for slot in slots {
            slot.usual = slot.observed.expected(&once, trust);
        }
        for kind in &mut self.of_kind {
            kind.usual = kind.observed.expected(&all, trust);
        }
        for pooled in self.of_kind.iter_mut().chain(&mut self.of_slot) {
            pooled.observed = Observations::none();
        }
        self.all.usual = all;
    }
}

/// The highest rate of events per reference, over all moments of eviction, for a page that enters
/// `bucket`.
fn density(expected: &[f64], buckets: &Buckets, bucket: usize) -> f32 {
    let (mut survival, mut events, mut references) = (1.0, 0.0, 0.0);
    let mut most = 0.0f64;
    for (at, x) in expected.iter().enumerate().skip(bucket) {
        // Five terms of e^x.
        let probability = 1.0 - 1.0 / (1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0);
        let waited = match *x > 1e-9 {
            true => probability * buckets.width(at) / x,
            false => buckets.width(at),
        };
        events += survival * probability;
        references += survival * waited;
        survival *= 1.0 - probability;
        most = most.max(events / references);
    }
    most as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_half_a_doubling() {
        let few = Buckets::new(10);
        let buckets = [0, 1, 2, 3, 4, 5, 6, 9, 10, 13, 14, 22].map(|age| few.of(age));
        assert_eq!(buckets, [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7]);
        assert_eq!((few.width(1), few.width(4), few.width(6)), (1.0, 4.0, 8.0));
        // Age 3 is in the third half doubling.
        let more = Buckets::new(3200);
        assert_eq!([0, 3, 4, 5, 6, 9, 10].map(|age| more.of(age)), [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(more.guess(0), few.guess(0) + few.guess(1) + few.guess(2));
    }

    #[test]
    fn densities_are_rounded_to_eight_bits() {
        for (density, is) in [(1.0, 1.0), (1.003, 1.0), (1.004, 1.0078125), (0.0, 0.0)] {
            assert_eq!(rounded(density), is);
        }
    }

    #[test]
    fn a_density_looks_beyond_a_lull() {
        let mut expected = vec![0.0; BUCKETS];
        expected[8] = 1e6;
        // The event is certain within bucket 8, ages 30 to 45, in its first moment.
        let from_4 = 1.0 / (4.0 + 4.0 + 8.0 + 8.0);
        let buckets = Buckets::new(10);
        assert!((f64::from(density(&expected, &buckets, 4)) - from_4).abs() < 1e-4);
        assert_eq!(density(&expected, &buckets, 9), 0.0);
    }
}
