//! ebb, as the `how` of its entry in the registry and the comments here describe it.
//!
//! Sums and quotients are doubles; densities are rounded to single precision, and values are in single precision.

mod classes;
mod counts;
mod duel;
mod oldest;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use self::classes::Classes;
use self::counts::{doublings, quarter};
use self::duel::Duel;
use self::oldest::Oldest;
use self::tables::{Table, Trust, rounded_down};
use crate::buffer::Policy;
use crate::sampler::EmptySlots;
use crate::spec::Spec;

/// Slots of classes, of which slot 0 is for all classes that have none.
const SLOTS: usize = 12;
/// Kinds by number of references: the least number of each.
const REFERENCE_KINDS: [u32; 11] = [0, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128];
/// Doublings of the number of writes, and by how many doublings the references are more; at the end of the class, or not.
const WRITE_KINDS: usize = 5 * 3 * 2;

pub(crate) struct Parameters {
    ghosts: usize,
    dirty_ghosts: usize,
    counts_per_frame: u64,
    classes: usize,
    trust: Trust,
    pool: usize,
    looks: usize,
    lru_begins: bool,
}

impl Parameters {
    pub(crate) fn from_spec(spec: &mut Spec, m: usize) -> Parameters {
        let ghosts = spec.fraction("ghosts", "1").of(m);
        Parameters {
            ghosts,
            dirty_ghosts: spec.fraction("gmin", "0.5").of(ghosts),
            counts_per_frame: spec.number("long_gone", 2),
            classes: spec.number("classes", 11) as usize,
            trust: Trust { events: spec.number("trust_events", 4) as f64, pages: spec.number("trust_pages", 4) as f64 },
            pool: spec.number("pool", 8) as usize,
            looks: spec.number("looks", 32) as usize,
            lru_begins: match spec.text("begin", "lru").as_str() {
                "ebb" => false,
                "lru" => true,
                other => panic!("`begin={other}` is no policy"),
            },
        }
    }
}

/// The history of a page, resident or ghost.
#[derive(Clone, Copy)]
struct History {
    referenced_at: u64,
    references: u32,
    /// When it was last written, how often, and the kind of the wait for the next write; `None` before the first write.
    writes: Option<Writes>,
    /// The slot of its class, and whether it was at the end of the class, when it was missed.
    slot: usize,
    tail: bool,
}

#[derive(Clone, Copy)]
struct Writes {
    last: u64,
    count: u32,
    kind: usize,
}

struct Resident {
    page: u64,
    dirty: bool,
    history: History,
    /// Until then a search passes over it.
    review: u64,
}

/// A value and, of equal ones, the time of the last reference.
type Rank = (u32, u64);

struct Ghost {
    page: u64,
    history: History,
    /// When it was evicted, if its waits are counted as censored then; such that the age of its last reference is the
    /// youngest of a bucket.
    counted_at: Option<u64>,
}

/// The count of a page that has no ghost.
#[derive(Clone, Copy)]
struct ForgottenCount {
    tag: u64,
    /// The greatest count of 1, 1.25, 1.5, 1.75, 2, 2.5, ... that is no greater.
    quarters: usize,
    /// Unit of time in which it was referenced last, modulo 2^15.
    time: u64,
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
    empty: EmptySlots,
    /// Ghosts, oldest first: evicted clean, and evicted dirty.
    ghosts: [Vec<Ghost>; 2],
    sets: BTreeMap<u64, [Option<ForgottenCount>; 4]>,
    classes: Classes,
    class: u32,
    references: Table,
    writes: Table,
    incoming: Option<Incoming>,
    /// Slots, each with the value found last, of the page that was in it then.
    candidates: Vec<(usize, Rank)>,
    groups: Groups,
    duel: Duel,
    oldest: Oldest,
    now: u64,
    /// When a search last made all slots due, and the searches since then.
    all_due: u64,
    searches: usize,
    asymmetry: f64,
    misses: u64,
    next_round: u64,
    /// The slots whose rows this round learns, and the number of rows that it has learned.
    learning: (usize, usize),
    rows_per_miss: usize,
    decay: f32,
}

/// The order in which searches visit groups of eight neighbouring slots.
struct Groups {
    /// All groups, of which the last one may have fewer slots, and those that are searched for a victim.
    all: usize,
    searched: usize,
    /// The n-th group to be searched, from 0, is n x step modulo all groups.
    step: usize,
    n: usize,
}

impl Groups {
    fn new(m: usize, looks: usize) -> Groups {
        let all = m.div_ceil(8);
        let meets_all = |step: &usize| (1..all).all(|n| !(n * step).is_multiple_of(all));
        let step = (all * 618 / 1000).max(1);
        Groups {
            all,
            searched: looks.div_ceil(8).min(all),
            step: (step..).find(meets_all).expect("a step of a prime number"),
            n: 0,
        }
    }

    fn searched_all(&self) -> bool {
        self.searched == self.all
    }

    /// The first slot of the group to be searched next.
    fn next(&self) -> usize {
        8 * (self.n * self.step % self.all)
    }
}

impl History {
    fn reference_row(&self) -> usize {
        let kind = REFERENCE_KINDS.iter().rposition(|least| *least <= self.references);
        self.slot * REFERENCE_KINDS.len() + kind.expect("the first is 0")
    }

    fn write_row(&self, writes: &Writes) -> usize {
        self.slot * WRITE_KINDS + writes.kind
    }

    fn write_kind(&self, writes: u32) -> usize {
        let of_writes = doublings(writes).min(4);
        let further = doublings(self.references).saturating_sub(of_writes);
        15 * usize::from(self.tail) + 3 * of_writes + further.min(2)
    }
}

impl Ebb {
    pub(crate) fn new(m: usize, parameters: Parameters) -> Ebb {
        Ebb {
            m,
            slots: (0..m).map(|_| None).collect(),
            empty: EmptySlots::new(m),
            ghosts: [Vec::new(), Vec::new()],
            sets: BTreeMap::new(),
            classes: Classes::new(m, parameters.classes),
            class: 0,
            references: Table::new(REFERENCE_KINDS.len(), m, true, parameters.trust),
            writes: Table::new(WRITE_KINDS, m, false, parameters.trust),
            incoming: None,
            candidates: Vec::new(),
            groups: Groups::new(m, parameters.looks),
            duel: Duel::new(m, parameters.lru_begins),
            oldest: Oldest::new(m),
            now: 0,
            all_due: 0,
            searches: 0,
            asymmetry: 1.0,
            misses: 0,
            next_round: 64,
            learning: (0, 0),
            rows_per_miss: 0,
            decay: 1.0,
            parameters,
        }
    }

    /// The page leaves its place.
    fn leave(&mut self, page: u64) -> Resident {
        let slot = self.place_of(page);
        let left = self.slots[slot].take().expect("a resident page");
        self.empty.add(slot);
        self.duel.resident(page, false);
        let mut duel = std::mem::replace(&mut self.duel, Duel::new(1, false));
        let rank_of_ebb = |history: &History, dirty| self.rank_of_ebb(history, dirty);
        duel.evict(rank_of_ebb, |history: &History, _| self.rank_of_lru(history));
        self.duel = duel;
        left
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
        self.references.event(history.reference_row(), age);
        history.references = (history.references + 1).min(255);
        history.referenced_at = self.now;
        history
    }

    fn written(&mut self, mut history: History) -> History {
        let mut count = 1;
        if let Some(writes) = history.writes {
            let row = history.write_row(&writes);
            self.writes.event(row, self.now - writes.last);
            count = (writes.count + 1).min(31);
        }
        history.writes = Some(Writes { last: self.now, count, kind: history.write_kind(count) });
        history
    }

    /// The history of a missed page, and whether its ghost, if it has one, was evicted dirty.
    fn recall(&mut self, page: u64) -> (History, Option<bool>) {
        for (dirty, queue) in [false, true].into_iter().zip(&mut self.ghosts) {
            if let Some(at) = queue.iter().position(|ghost| ghost.page == page) {
                let ghost = queue.remove(at);
                self.end_ghost(&ghost);
                return (self.referenced(ghost.history), Some(dirty));
            }
        }
        let history = History { referenced_at: self.now, references: 1, writes: None, slot: 0, tail: false };
        (history, None)
    }

    /// The stored references of a missed page without a ghost, and this one.
    fn references_of_newcomer(&mut self, page: u64) -> u32 {
        let (set, tag) = self.set_and_tag(page);
        let counts = self.sets.entry(set).or_default().iter_mut();
        let mut found = counts.filter(|entry| entry.is_some_and(|entry| entry.tag == tag));
        match found.next().and_then(Option::take) {
            Some(found) => (quarter(found.quarters).ceil() as u32 + 1).min(255),
            None => 1,
        }
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
        let ghost = self.ghosts[usize::from(of_dirty)].remove(0);
        self.end_ghost(&ghost);
        let Ghost { page, history, .. } = ghost;
        self.censored(&history, self.now);
        self.store_count(page, &history);
    }

    /// The waits of a page are observed up to that time.
    fn censored(&mut self, history: &History, time: u64) {
        let age = time - history.referenced_at;
        self.references.censored(history.reference_row(), age);
        if let Some(writes) = history.writes {
            let row = history.write_row(&writes);
            self.writes.censored(row, time - writes.last);
        }
    }

    /// The waits of a ghost are not censored at its eviction any more: it is referenced or forgotten.
    fn end_ghost(&mut self, ghost: &Ghost) {
        let (Some(time), history) = (ghost.counted_at, &ghost.history) else {
            return;
        };
        let age = time - history.referenced_at;
        self.references.withdraw(history.reference_row(), age);
        if let Some(writes) = history.writes {
            let row = history.write_row(&writes);
            self.writes.withdraw(row, time - writes.last);
        }
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
        let count = f64::from(history.references);
        let quarters = (0..63).rposition(|quarters| quarter(quarters) <= count);
        let quarters = quarters.expect("a count is at least 1");
        counts[slot.expect("one of four")] = Some(ForgottenCount { tag, quarters, time });
    }

    /// No page could be evicted for the page missed before, which becomes a ghost again, the
    /// newest.
    fn refused(&mut self, incoming: Incoming) {
        if let Some(dirty) = incoming.evicted_dirty {
            let Incoming { page, history, .. } = incoming;
            self.ghosts[usize::from(dirty)].push(Ghost { page, history, counted_at: None });
        }
    }

    /// Learns a row of this round.
    fn learn(&mut self) {
        self.misses += 1;
        if self.misses == self.next_round {
            self.begin_round();
        }
        let (slots, first) = self.learning;
        let of_references = slots * REFERENCE_KINDS.len();
        let rows = of_references + slots * WRITE_KINDS;
        if first == rows {
            return;
        }
        let trust = self.parameters.trust;
        let last = rows.min(first + self.rows_per_miss);
        for row in first..last {
            if row < of_references {
                self.references.learn(row, trust, self.decay);
            } else {
                self.writes.learn(row - of_references, trust, self.decay);
            }
        }
        self.learning.1 = last;
        if last == rows {
            self.references.end_round(slots, trust);
            self.writes.end_round(slots, trust);
        }
    }

    /// A round has at least 64 misses, and at most one for every two frames or eight per row.
    fn begin_round(&mut self) {
        let m = self.m as f64;
        let slots = self.classes.slots_used();
        let rows = slots * (REFERENCE_KINDS.len() + WRITE_KINDS);
        let longest = (self.m as u64 / 2).max(8 * rows as u64);
        let round = (self.misses / 4).min(longest);
        let round = round.max(64);
        self.rows_per_miss = rows.div_ceil(round as usize);
        self.next_round = self.misses + round;
        self.decay = (1.0 - round as f64 / (100.0 * m)).max(0.5) as f32;
        self.learning = (slots, 0);
    }

    fn value(&self, history: &History, dirty: bool) -> f32 {
        let age = self.now - history.referenced_at;
        let reads = self.references.density(history.reference_row(), age);
        match history.writes {
            Some(writes) if dirty => {
                let age = self.now - writes.last;
                let row = history.write_row(&writes);
                reads + self.asymmetry as f32 * self.writes.density(row, age)
            }
            _ => reads,
        }
    }

    /// Of equals the longest unreferenced is evicted first.
    fn rank_of_ebb(&self, history: &History, dirty: bool) -> Rank {
        let value = self.value(history, dirty);
        (value.to_bits(), history.referenced_at)
    }

    fn rank_of_lru(&self, history: &History) -> Rank {
        let age = self.now - history.referenced_at;
        let value = 1.0 / (1 + age) as f32;
        (value.to_bits(), history.referenced_at)
    }

    /// The resident page was referenced: the miniatures are, too.
    fn duel(&mut self, slot: usize, write: bool) {
        let resident = self.slots[slot].as_ref().expect("a resident page");
        let (page, history) = (resident.page, resident.history);
        let mut duel = std::mem::replace(&mut self.duel, Duel::new(1, false));
        let rank_of_ebb = |history: &History, dirty| self.rank_of_ebb(history, dirty);
        let rank_of_lru = |history: &History, _| self.rank_of_lru(history);
        let asymmetry = f64::from(self.asymmetry as f32);
        duel.reference((page, write), history, asymmetry, rank_of_ebb, rank_of_lru);
        self.duel = duel;
    }
}

impl Ebb {
    fn may_evict(&self, slot: usize, pinned: &BTreeSet<u64>) -> bool {
        let resident = self.slots[slot].as_ref();
        resident.is_some_and(|resident| !pinned.contains(&resident.page))
    }

    fn rank(&self, slot: usize) -> Rank {
        let Resident { dirty, history, .. } = self.slots[slot].as_ref().expect("a resident page");
        match self.duel.lru_leads {
            true => self.rank_of_lru(history),
            false => self.rank_of_ebb(history, *dirty),
        }
    }

    fn make_all_due(&mut self) {
        self.searches = 0;
        self.all_due = self.now;
        for resident in self.slots.iter_mut().flatten() {
            resident.review = self.now;
        }
    }

    /// The slot of the victim: the oldest one, where LRU leads and no search compares all.
    fn victim_slot(&mut self, pinned: &BTreeSet<u64>) -> usize {
        if !self.duel.lru_leads || self.groups.searched_all() {
            return self.least_of_some(pinned);
        }
        let mut oldest = std::mem::replace(&mut self.oldest, Oldest::new(0));
        let slot = oldest.first(
            self.now,
            |slot| Some(self.slots[slot].as_ref()?.history.referenced_at),
            |slot| self.may_evict(slot, pinned),
        );
        self.oldest = oldest;
        slot.unwrap_or_else(|| self.least_of_some(pinned))
    }

    /// The slot of least rank of the candidates and of those that a search compares.
    fn least_of_some(&mut self, pinned: &BTreeSet<u64>) -> usize {
        self.search(pinned);
        // Only values that would be the least are found anew. Found twice they are the same.
        loop {
            let least = (0..self.candidates.len()).min_by_key(|at| self.candidates[*at].1);
            let Some(least) = least else {
                let first = self.groups.next();
                let mut in_turn = (0..self.m).map(|n| (first + n) % self.m);
                return in_turn.find(|slot| self.may_evict(*slot, pinned)).expect("an unpinned page");
            };
            let (slot, known) = self.candidates[least];
            if !self.may_evict(slot, pinned) {
                self.candidates.remove(least);
                continue;
            }
            let found = self.rank(slot);
            if found == known {
                return slot;
            }
            self.candidates[least].1 = found;
        }
    }

    /// Compares the next groups of slots with the candidates.
    fn search(&mut self, pinned: &BTreeSet<u64>) {
        if self.now >= self.all_due + (1 << 30) {
            self.make_all_due();
        }
        if self.groups.searched_all() {
            self.candidates.clear();
        }
        let mut slots = Vec::new();
        for _ in 0..self.groups.searched {
            let first = self.groups.next();
            slots.extend(first..self.m.min(first + 8));
            self.groups.n += 1;
        }
        for slot in slots {
            let is_due = self.slots[slot].as_ref().is_some_and(|it| it.review <= self.now);
            if !is_due || !self.may_evict(slot, pinned) {
                continue;
            }
            let is_full = self.candidates.len() == self.parameters.pool.min(self.m / 2).max(1);
            let weakest = (0..self.candidates.len()).max_by_key(|at| self.candidates[*at].1);
            let weakest = weakest.filter(|_| is_full);
            let limit = weakest.map_or((f32::INFINITY.to_bits(), u64::MAX), |at| self.candidates[at].1);
            let rank = self.rank(slot);
            self.put_off(slot, f32::from_bits(rank.0), f32::from_bits(limit.0));
            let candidate = self.candidates.iter().position(|(other, _)| *other == slot);
            if let Some(at) = candidate {
                self.candidates[at].1 = rank;
            } else if rank < limit {
                if let Some(weakest) = weakest {
                    self.candidates.remove(weakest);
                }
                self.candidates.push((slot, rank));
            }
        }
    }

    /// A page of three times the limit is not compared until its age has doubled, or for four references for each
    /// frame, one of twice the limit until half of that time has passed; but for half as long, and so on, if it will be worth
    /// less than the limit by then.
    fn put_off(&mut self, slot: usize, value: f32, limit: f32) {
        let (now, frames) = (self.now, self.m as u64);
        let history = self.resident_at(slot).history;
        let age = (now - history.referenced_at).min(4 * frames);
        let excess = (value / limit - 1.0) / 2.0;
        let share = if excess > 0.0 { excess.min(1.0) } else { 0.0 };
        let mut wait = ((age as f32 * share) as u64).min(1 << 30);
        if self.groups.searched_all() {
            wait = 0;
        }
        while wait > 0 {
            self.now = now + wait;
            let then = f32::from_bits(self.rank(slot).0);
            if then >= limit {
                break;
            }
            wait /= 2;
        }
        self.now = now;
        self.resident_at(slot).review = now + wait;
    }
}

impl Policy for Ebb {
    fn class(&mut self, class: u32) {
        self.class = class;
    }

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
        self.duel(slot, write);
    }

    fn miss(&mut self, page: u64, write: bool) {
        if let Some(incoming) = self.incoming.take() {
            self.refused(incoming);
        }
        self.now += 1;
        let (mut history, evicted_dirty) = self.recall(page);
        let class = std::mem::take(&mut self.class);
        let classified = self.classes.classify(class, page);
        if classified.new_slot {
            self.references.begin_slot(classified.slot);
            self.writes.begin_slot(classified.slot);
        }
        history.slot = classified.slot;
        history.tail = classified.tail;
        if write {
            history = self.written(history);
        }
        self.incoming = Some(Incoming { page, history, evicted_dirty });
        self.learn();
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let slot = self.victim_slot(pinned);
        self.searches += 1;
        if self.searches > self.m / 2 {
            self.make_all_due();
        }
        self.resident_at(slot).page
    }

    fn admit(&mut self, page: u64, write: bool) {
        let mut incoming = self.incoming.take().expect("a page that was missed");
        assert_eq!(incoming.page, page);
        if incoming.evicted_dirty.is_none() {
            let references = self.references_of_newcomer(page);
            let history = &mut incoming.history;
            history.references = references;
            if let Some(writes) = history.writes {
                let kind = history.write_kind(writes.count);
                history.writes = Some(Writes { kind, ..writes });
            }
        }
        let empty = self.empty.take();
        self.slots[empty] = Some(Resident { page, dirty: write, history: incoming.history, review: self.now });
        self.duel.resident(page, true);
        self.duel(empty, write);
    }

    fn end(&mut self, page: u64) {
        self.leave(page);
    }

    fn evict(&mut self, page: u64) {
        let evicted = self.leave(page);
        if self.parameters.ghosts == 0 {
            return;
        }
        if self.ghosts[0].len() + self.ghosts[1].len() == self.parameters.ghosts {
            self.forget_a_ghost();
        }
        let history = evicted.history;
        let counted_at = history.referenced_at + rounded_down(self.now - history.referenced_at);
        self.censored(&history, counted_at);
        self.ghosts[usize::from(evicted.dirty)].push(Ghost { page, history, counted_at: Some(counted_at) });
    }

    fn clean(&mut self, page: u64) {
        let slot = self.place_of(page);
        self.resident_at(slot).dirty = false;
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Player;
    use crate::{model, workload};

    #[test]
    fn pages_used_often_stay_and_dirty_pages_stay_where_writes_cost_more() {
        let mut player = Player::new(model("ebb:begin=ebb", 3), "");
        assert!(player.play("R1 R2 R3 R1 R1 R1 R3").is_empty());
        // All have the same guess, and 2 is the oldest.
        assert_eq!(player.play("R4"), [2]);
        let mut player = Player::new(model("ebb:begin=ebb", 2), "");
        player.model.costs(100.0);
        assert_eq!(player.play("W1 R2 R2 R2 R3"), [2]);
        let mut player = Player::new(model("ebb:begin=ebb", 2), "");
        player.model.costs(100.0);
        assert_eq!(player.play("W1 C1 R2 R2 R2 R3"), [1]);
        // LRU begins.
        let mut player = Player::new(model("ebb", 2), "");
        player.model.costs(100.0);
        assert_eq!(player.play("W1 R2 R2 R2 R3"), [1]);
    }

    #[test]
    fn one_frame_holds_the_page_used_last() {
        let mut ebb = model("ebb", 1);
        for (page, write) in workload::workload(3, 500, 4) {
            ebb.reference(page, write, None, &BTreeSet::new());
            assert_eq!(ebb.resident()[0].0, page);
        }
    }
}
