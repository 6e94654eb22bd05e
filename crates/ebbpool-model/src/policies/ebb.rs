//! ebb, as the `how` of its entry in the registry and the comments here describe it.
//!
//! All logarithms of counts are to base 2, in 2048 parts, whole numbers. Sums and quotients are
//! doubles; densities are rounded to single precision, and values are in single precision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::buffer::Policy;
use crate::spec::Spec;

const PARTS: f64 = 2048.0;
const BUCKETS: usize = 64;
const REFERENCE_CLASSES: usize = 20;
const WRITE_CLASSES: usize = 16;

pub(crate) struct Parameters {
    ghosts: usize,
    dirty_ghosts: usize,
    counts_per_frame: u64,
    half_life: f64,
    correlated: f64,
    memory: f64,
    trust_events: f64,
    trust_pages: f64,
    pool: usize,
    looks: usize,
}

impl Parameters {
    pub(crate) fn of(spec: &mut Spec, m: usize) -> Parameters {
        let ghosts = spec.fraction("ghosts", "1").of(m);
        Parameters {
            ghosts,
            dirty_ghosts: spec.fraction("gmin", "0.5").of(ghosts),
            counts_per_frame: spec.number("long_gone", 2),
            half_life: spec.number("half_life", 100) as f64,
            correlated: spec.fraction("corr", "0.02").value(),
            memory: spec.number("memory", 100) as f64,
            trust_events: spec.number("trust_events", 4) as f64,
            trust_pages: spec.number("trust_pages", 4) as f64,
            pool: spec.number("pool", 8) as usize,
            looks: spec.number("looks", 32) as usize,
        }
    }
}

/// The history of a page, resident or ghost.
#[derive(Clone, Copy)]
struct History {
    referenced_at: u64,
    references: u32,
    /// When it was last written, and how often; `None` before the first write.
    writes: Option<(u64, u32)>,
}

struct Resident {
    page: u64,
    dirty: bool,
    history: History,
}

struct Ghost {
    page: u64,
    history: History,
}

/// The count of a page that has no ghost.
#[derive(Clone, Copy)]
struct ForgottenCount {
    tag: u64,
    /// Quarter doublings.
    count: u32,
    /// Unit of time in which it was referenced last, modulo 2^15.
    time: u64,
}

/// Waits of a class that ended in each bucket of ages: with the event, and without.
#[derive(Clone)]
struct Waits {
    events: Vec<f64>,
    censored: Vec<f64>,
}

/// The learned densities of references, or of writes.
struct Table {
    waits: Vec<Waits>,
    /// By class and bucket.
    density: Vec<Vec<f32>>,
    /// Usual events per page in a bucket.
    usual: Vec<f64>,
    /// Events and pages at risk of the classes learned in this round.
    pooled: Vec<(f64, f64)>,
}

/// The page missed and not yet admitted, and whether it had a ghost that was evicted dirty or
/// clean.
struct Incoming {
    page: u64,
    history: History,
    evicted_dirty: Option<bool>,
}

pub(crate) struct Ebb {
    m: usize,
    parameters: Parameters,
    /// A page is admitted to the first empty slot.
    slots: Vec<Option<Resident>>,
    /// Ghosts, oldest first: evicted clean, and evicted dirty.
    ghosts: [Vec<Ghost>; 2],
    sets: BTreeMap<u64, [Option<ForgottenCount>; 4]>,
    references: Table,
    writes: Table,
    incoming: Option<Incoming>,
    /// Slots, the least value first.
    candidates: Vec<usize>,
    hand: usize,
    now: u64,
    asymmetry: f64,
    turn: f64,
    misses: u64,
    round_began: (u64, u64),
    next_round: u64,
    /// Classes that have been learned in this round.
    learned: usize,
    decay: f64,
}

/// Two buckets to a doubling of age + 2. Bucket 2n starts at age 2 x 2^n - 2, bucket 2n+1 at
/// 3 x 2^n - 2.
static STARTS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let doublings = (0..=BUCKETS as u32 / 2).map(|n| 1u64 << n);
    doublings.flat_map(|d| [2 * d - 2, 3 * d - 2]).collect()
});

fn bucket(age: u64) -> usize {
    let last = STARTS[..BUCKETS].iter().rposition(|start| *start <= age);
    last.expect("the first bucket starts at 0")
}

fn width(bucket: usize) -> f64 {
    (STARTS[bucket + 1] - STARTS[bucket]) as f64
}

/// Without observations a page of age a has an event within the next reference with probability 0.5
/// / (a+1), computed at the beginning of its bucket.
fn guess(bucket: usize) -> f64 {
    0.5 * width(bucket) / (STARTS[bucket] + 1) as f64
}

/// log2(2^count + 1) - count for a count that may be below 0, if it is: as if it were its absolute
/// value. ModelCounts are rounded to eighths of 2^-8; 13 doublings away 1 makes no difference.
fn one_more(count: i64) -> i64 {
    let rounded = (count.unsigned_abs() + 4) / 8;
    match rounded < 13 * 256 {
        true => {
            let power = libm::exp2(-(rounded as f64) / 256.0);
            libm::floor(PARTS * libm::log2(1.0 + power) + 0.5) as i64
        }
        false => 0,
    }
}

/// The count after `age` references, in which it halves once every `half_life`; then 1 more if the
/// reference `counts`. The loss per reference is rounded down to 2^-44 of a part. A count is never
/// below 1, before or after.
fn referenced(count: u32, age: u64, half_life: f64, counts: bool) -> u32 {
    let one = (1u64 << 44) as f64;
    let per_reference = (PARTS / half_life * one) as u128;
    let lost = (u128::from(age) * per_reference + (1 << 43)) >> 44;
    let evicted = i64::from(count) - lost.min(1_000_000) as i64;
    let more = if counts { one_more(evicted) } else { 0 };
    (evicted.max(0) + more).min(65_535) as u32
}

fn reference_class(history: &History) -> usize {
    (history.references as usize / 1024).min(REFERENCE_CLASSES - 1)
}

fn write_class(writes: u32) -> usize {
    (writes as usize / 1024).min(WRITE_CLASSES - 1)
}

impl Table {
    fn new(classes: usize, parameters: &Parameters) -> Table {
        let nothing = Waits {
            events: vec![0.0; BUCKETS],
            censored: vec![0.0; BUCKETS],
        };
        let mut table = Table {
            waits: vec![nothing; classes],
            density: vec![vec![0.0; BUCKETS]; classes],
            usual: (0..BUCKETS).map(guess).collect(),
            pooled: vec![(0.0, 0.0); BUCKETS],
        };
        for class in 0..classes {
            table.learn(class, parameters, 1.0);
        }
        table.end_round();
        table
    }

    /// Kaplan-Meier with a guess: in each bucket the events per page at risk, where pages whose
    /// wait ended in the bucket count half.
    fn learn(&mut self, class: usize, parameters: &Parameters, decay: f64) {
        let Waits { events, censored } = &self.waits[class];
        let ended = |bucket: usize| events[bucket] + censored[bucket];
        let at_risk: Vec<f64> = (0..BUCKETS)
            .map(|at| (at + 1..BUCKETS).rev().map(ended).sum::<f64>() + ended(at) / 2.0)
            .collect();

        let all_events: f64 = events.iter().sum();
        let all_usual: f64 = (0..BUCKETS).map(|at| at_risk[at] * self.usual[at]).sum();
        let trust = parameters.trust_events;
        let factor = (all_events + trust) / (all_usual + trust);

        let trust = parameters.trust_pages;
        let expected =
            |at: usize| (events[at] + trust * (factor * self.usual[at])) / (at_risk[at] + trust);
        let expected: Vec<f64> = (0..BUCKETS).map(expected).collect();
        self.density[class] = (0..BUCKETS).map(|at| density(&expected, at)).collect();

        for at in 0..BUCKETS {
            self.pooled[at].0 += events[at];
            self.pooled[at].1 += at_risk[at];
        }
        let Waits { events, censored } = &mut self.waits[class];
        for ended in events.iter_mut().chain(censored) {
            *ended *= decay;
        }
    }

    /// The guess weighs as much as two pages.
    fn end_round(&mut self) {
        for at in 0..BUCKETS {
            let (events, at_risk) = std::mem::take(&mut self.pooled[at]);
            self.usual[at] = (events + 2.0 * guess(at)) / (at_risk + 2.0);
        }
    }
}

/// The highest rate of events per reference, over all moments of eviction, for a page that enters
/// `bucket`.
fn density(expected: &[f64], bucket: usize) -> f32 {
    let (mut survival, mut events, mut references) = (1.0, 0.0, 0.0);
    let mut most = 0.0f64;
    for (at, x) in expected.iter().enumerate().skip(bucket) {
        // Five terms of e^x.
        let probability =
            1.0 - 1.0 / (1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0);
        let waited = match *x > 1e-9 {
            true => probability * width(at) / x,
            false => width(at),
        };
        events += survival * probability;
        references += survival * waited;
        survival *= 1.0 - probability;
        most = most.max(events / references);
    }
    most as f32
}

impl Ebb {
    pub(crate) fn new(m: usize, parameters: Parameters) -> Ebb {
        Ebb {
            m,
            slots: (0..m).map(|_| None).collect(),
            ghosts: [Vec::new(), Vec::new()],
            sets: BTreeMap::new(),
            references: Table::new(REFERENCE_CLASSES, &parameters),
            writes: Table::new(WRITE_CLASSES, &parameters),
            incoming: None,
            candidates: Vec::new(),
            hand: 0,
            now: 0,
            asymmetry: 1.0,
            turn: 4.0 * m as f64,
            misses: 0,
            round_began: (0, 0),
            next_round: 64,
            learned: REFERENCE_CLASSES + WRITE_CLASSES,
            decay: 1.0,
            parameters,
        }
    }

    fn half_life(&self) -> f64 {
        self.parameters.half_life * self.turn
    }

    fn is_correlated(&self, age: u64) -> bool {
        age <= (self.parameters.correlated * self.turn) as u64
    }

    fn place_of(&self, page: u64) -> usize {
        let is_its = |slot: &Option<Resident>| slot.as_ref().is_some_and(|it| it.page == page);
        self.slots.iter().position(is_its).expect("a resident page")
    }

    fn resident_at(&mut self, slot: usize) -> &mut Resident {
        self.slots[slot].as_mut().expect("a resident page")
    }

    /// A reference to a page of which there is a history.
    fn referenced(&mut self, mut history: History) -> History {
        let age = self.now - history.referenced_at;
        let waits = &mut self.references.waits[reference_class(&history)];
        waits.events[bucket(age)] += 1.0;
        let counts = !self.is_correlated(age);
        history.references = referenced(history.references, age, self.half_life(), counts);
        history.referenced_at = self.now;
        history
    }

    fn written(&mut self, mut history: History) -> History {
        let mut count = 0;
        if let Some((at, writes)) = history.writes {
            let age = self.now - at;
            self.writes.waits[write_class(writes)].events[bucket(age)] += 1.0;
            count = referenced(writes, age, self.half_life(), !self.is_correlated(age));
        }
        history.writes = Some((self.now, count));
        history
    }

    /// The history of a missed page, and whether its ghost, if it has one, was evicted dirty.
    fn recall(&mut self, page: u64) -> (History, Option<bool>) {
        for (dirty, queue) in [false, true].into_iter().zip(&mut self.ghosts) {
            if let Some(at) = queue.iter().position(|ghost| ghost.page == page) {
                let ghost = queue.remove(at);
                return (self.referenced(ghost.history), Some(dirty));
            }
        }
        let history = History {
            referenced_at: self.now,
            references: 0,
            writes: None,
        };
        (history, None)
    }

    /// The stored count of a missed page without a ghost.
    fn take_forgotten_count(&mut self, page: u64) -> u32 {
        let (set, tag) = self.set_and_tag(page);
        let now = self.now / self.m as u64;
        let counts = self.sets.entry(set).or_default().iter_mut();
        let mut found = counts.filter(|entry| entry.is_some_and(|entry| entry.tag == tag));
        let Some(found) = found.next().and_then(Option::take) else {
            return 0;
        };
        let age = (now + (1 << 15) - found.time) % (1 << 15) * self.m as u64;
        let count = found.count * 512 + 256;
        referenced(count, age, self.half_life(), true)
    }

    /// The page's set of four counts, by the upper half of the page's hash, and its tag, the upper
    /// 11 bits of the lower half.
    fn set_and_tag(&self, page: u64) -> (u64, u64) {
        let mut z = page;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let sets = (self.parameters.counts_per_frame * self.m as u64).div_ceil(4);
        (((z >> 32) * sets) >> 32, (z & 0xffff_ffff) >> 21)
    }

    /// Forgets the oldest ghost, of those evicted dirty if these are too many.
    fn forget_a_ghost(&mut self) {
        let [clean, dirty] = &self.ghosts;
        let of_dirty = dirty.len() > self.parameters.dirty_ghosts || clean.is_empty();
        let Ghost { page, history } = self.ghosts[usize::from(of_dirty)].remove(0);
        let age = self.now - history.referenced_at;
        self.references.waits[reference_class(&history)].censored[bucket(age)] += 1.0;
        if let Some((at, writes)) = history.writes {
            self.writes.waits[write_class(writes)].censored[bucket(self.now - at)] += 1.0;
        }
        self.store_count(page, &history);
    }

    /// Stores the count in place of the page's own, or of one mistaken for it; else of the count
    /// referenced longest ago if the set has four.
    fn store_count(&mut self, page: u64, history: &History) {
        if self.parameters.counts_per_frame == 0 {
            return;
        }
        let (set, tag) = self.set_and_tag(page);
        let now = self.now / self.m as u64;
        let time = history.referenced_at / self.m as u64 % (1 << 15);
        let counts = self.sets.entry(set).or_default();
        let age = |entry: &ForgottenCount| (now + (1 << 15) - entry.time) % (1 << 15);
        let its = |entry: &Option<ForgottenCount>| entry.is_some_and(|entry| entry.tag == tag);
        // An empty entry is the oldest of all; of entries equally old the first is replaced.
        let oldest = |at: &usize| counts[*at].as_ref().map_or(1 << 15, age);
        let slot = counts.iter().position(its);
        let slot = slot.or_else(|| (0..4).rev().max_by_key(oldest));
        let count = (history.references / 512).min(62);
        counts[slot.expect("one of four")] = Some(ForgottenCount { tag, count, time });
    }

    /// No page could be evicted for the page missed before, which becomes a ghost again, the
    /// newest.
    fn refused(&mut self, incoming: Incoming) {
        if let Some(dirty) = incoming.evicted_dirty {
            let Incoming { page, history, .. } = incoming;
            self.ghosts[usize::from(dirty)].push(Ghost { page, history });
        }
    }

    fn learn(&mut self) {
        self.misses += 1;
        if self.misses == self.next_round {
            self.begin_round();
        }
        if self.learned == REFERENCE_CLASSES + WRITE_CLASSES {
            return;
        }
        match self.learned.checked_sub(REFERENCE_CLASSES) {
            None => self
                .references
                .learn(self.learned, &self.parameters, self.decay),
            Some(class) => self.writes.learn(class, &self.parameters, self.decay),
        }
        self.learned += 1;
        if self.learned == REFERENCE_CLASSES + WRITE_CLASSES {
            self.references.end_round();
            self.writes.end_round();
        }
    }

    fn begin_round(&mut self) {
        let m = self.m as f64;
        let references = (self.now - self.round_began.0) as f64;
        let misses = (self.misses - self.round_began.1) as f64;
        let weight = misses / (misses + 1.2 * m);
        self.turn += weight * (references / misses * m - self.turn);
        self.round_began = (self.now, self.misses);
        let round = (self.misses / 4).min(self.m as u64 / 2).max(64);
        self.next_round = self.misses + round;
        self.decay = (1.0 - round as f64 / (self.parameters.memory * m)).max(0.5);
        self.learned = 0;
    }

    fn value(&self, slot: usize) -> f32 {
        let resident = self.slots[slot].as_ref().expect("a resident page");
        let history = &resident.history;
        let of = |table: &Table, class: usize, since: u64| {
            table.density[class][bucket(self.now - since)]
        };
        let reads = of(
            &self.references,
            reference_class(history),
            history.referenced_at,
        );
        match history.writes {
            Some((at, writes)) if resident.dirty => {
                reads + self.asymmetry as f32 * of(&self.writes, write_class(writes), at)
            }
            _ => reads,
        }
    }
}

impl Policy for Ebb {
    fn hit(&mut self, page: u64, write: bool) {
        self.now += 1;
        let slot = self.place_of(page);
        let mut history = self.resident_at(slot).history;
        history = self.referenced(history);
        if write {
            history = self.written(history);
        }
        let resident = self.resident_at(slot);
        resident.history = history;
        resident.dirty |= write;
    }

    fn miss(&mut self, page: u64, write: bool) {
        if let Some(incoming) = self.incoming.take() {
            self.refused(incoming);
        }
        self.now += 1;
        let (mut history, evicted_dirty) = self.recall(page);
        if write {
            history = self.written(history);
        }
        self.incoming = Some(Incoming {
            page,
            history,
            evicted_dirty,
        });
        self.learn();
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let compared = (0..self.parameters.looks.min(self.m)).map(|n| (self.hand + n) % self.m);
        let considered = self.candidates.iter().copied().chain(compared);
        let mut ranked: Vec<usize> = Vec::new();
        for slot in considered {
            let page = self.slots[slot].as_ref().map(|resident| resident.page);
            // A slot that was a candidate may be met again, which changes nothing.
            if page.is_some_and(|page| !pinned.contains(&page)) && !ranked.contains(&slot) {
                ranked.push(slot);
            }
        }
        self.hand = (self.hand + self.parameters.looks.min(self.m)) % self.m;
        // Of equals the longest unreferenced is evicted first.
        let rank = |at: &usize| {
            let resident = self.slots[*at].as_ref().expect("a resident page");
            let value = self.value(*at).to_bits();
            (value, resident.history.referenced_at as u32)
        };
        ranked.sort_by_key(rank);
        ranked.truncate(self.parameters.pool);
        self.candidates = ranked;
        let slot = self.candidates.first().copied().unwrap_or_else(|| {
            let mut in_turn = (0..self.m).map(|n| (self.hand + n) % self.m);
            let may_evict = |slot: &usize| {
                let resident = self.slots[*slot].as_ref();
                resident.is_some_and(|resident| !pinned.contains(&resident.page))
            };
            in_turn.find(may_evict).expect("an unpinned page")
        });
        self.resident_at(slot).page
    }

    fn admit(&mut self, page: u64, write: bool) {
        let mut incoming = self.incoming.take().expect("a page that was missed");
        assert_eq!(incoming.page, page);
        if incoming.evicted_dirty.is_none() {
            incoming.history.references = self.take_forgotten_count(page);
        }
        let empty = self.slots.iter().position(Option::is_none);
        self.slots[empty.expect("an empty place")] = Some(Resident {
            page,
            dirty: write,
            history: incoming.history,
        });
    }

    fn evict(&mut self, page: u64) {
        let slot = self.place_of(page);
        let evicted = self.slots[slot].take().expect("a resident page");
        if self.parameters.ghosts == 0 {
            return;
        }
        if self.ghosts[0].len() + self.ghosts[1].len() == self.parameters.ghosts {
            self.forget_a_ghost();
        }
        self.ghosts[usize::from(evicted.dirty)].push(Ghost {
            page,
            history: evicted.history,
        });
    }

    fn clean(&mut self, page: u64) {
        let slot = self.place_of(page);
        self.resident_at(slot).dirty = false;
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        let residents = self.slots.iter().flatten();
        residents.map(|it| (it.page, it.dirty)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Player;
    use crate::{model, workload};

    #[test]
    fn buckets_hold_half_a_doubling() {
        let buckets = [0, 1, 2, 3, 4, 5, 6, 9, 10, 13, 14, 22].map(bucket);
        assert_eq!(buckets, [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7]);
        assert_eq!((width(1), width(4), width(6)), (1.0, 4.0, 8.0));
    }

    #[test]
    fn counts_double_and_halve() {
        assert_eq!(referenced(0, 0, 1e9, true), 2048);
        assert_eq!(referenced(2048, 0, 1e9, true), 3246);
        assert_eq!(referenced(4096, 100, 100.0, false), 2048);
        assert_eq!(referenced(4096, 1000, 100.0, false), 0);
        // 4 halved twice, and 1 more.
        assert_eq!(referenced(4096, 200, 100.0, true), 2048);
    }

    #[test]
    fn a_density_looks_beyond_a_lull() {
        let mut expected = vec![0.0; BUCKETS];
        expected[8] = 1e6;
        // The event is certain within bucket 8, ages 30 to 45, in its first moment.
        let from_4 = 1.0 / (4.0 + 4.0 + 8.0 + 8.0);
        assert!((f64::from(density(&expected, 4)) - from_4).abs() < 1e-4);
        assert_eq!(density(&expected, 9), 0.0);
    }

    #[test]
    fn pages_used_often_stay_and_dirty_pages_stay_where_writes_cost_more() {
        let mut player = Player::new(model("ebb", 3), "");
        assert!(player.play("R1 R2 R3 R1 R1 R1 R3").is_empty());
        // All have the same guess, and 2 is the oldest.
        assert_eq!(player.play("R4"), [2]);
        let mut player = Player::new(model("ebb", 2), "");
        player.model.costs(100.0);
        assert_eq!(player.play("W1 R2 R2 R2 R3"), [2]);
        let mut player = Player::new(model("ebb", 2), "");
        player.model.costs(100.0);
        assert_eq!(player.play("W1 C1 R2 R2 R2 R3"), [1]);
    }

    #[test]
    fn one_frame_holds_the_page_used_last() {
        let none = BTreeSet::new();
        let mut ebb = model("ebb", 1);
        for (page, write) in workload::workload(3, 500, 4) {
            ebb.reference(page, write, None, &none);
            assert_eq!(ebb.resident()[0].0, page);
        }
    }
}
