//! Which policy serves the pool: ebb, or LRU where that costs less.

use std::cmp::Reverse;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::history::{DIRTY, History, PageRecord};
use super::learned::PageValues;
use crate::parameters::words;
use crate::policy::{Access, Page};

/// The pages of the sample that a pool has on average, or all its frames if these are fewer.
const SAMPLED: u32 = 128;
/// The most frames of a miniature. Of 128 pages on average a pool hardly has more.
const MOST_FRAMES: u32 = 192;
/// The events in which bills fade to 1/e.
const MEMORY: f64 = 512.0;
/// LRU leads when ebb costs more by this share of LRU's bill, and by this number of standard deviations of the difference. With
/// 1 % and 1.5, LRU led by chance where a loop nearly fills the pool, and cost 14 times as much as others.
const MARGIN: f64 = 0.02;
const DEVIATIONS: f64 = 2.0;
/// ebb leads when it costs less by this number of standard deviations of the difference.
const DEVIATIONS_BACK: f64 = 0.5;
/// Chains of records by their pages' hashes.
const CHAINS: usize = 256;
/// The end of a chain.
const NONE: u8 = u8::MAX;
const _: () = assert!(MOST_FRAMES <= NONE as u32);

/// The policy that chooses victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// The page of least value is evicted.
    Ebb,
    /// The page referenced longest ago is evicted.
    Lru,
}

impl Leader {
    pub(super) fn name(self) -> &'static str {
        match self {
            Leader::Ebb => "ebb",
            Leader::Lru => "lru",
        }
    }
}

words!(Leader { "ebb" => Leader::Ebb, "lru" => Leader::Lru });

/// Two miniatures of the pool, one served by ebb and one by LRU, over the pages whose hash falls into a sample.
///
/// A miniature has as many frames as the pool has pages of the sample. With a fixed number, a set of pages that just fits into
/// the pool would not fit in a miniature if chance has sampled more of it, and there LRU would miss each of its pages.
///
/// A bill has a miniature's misses, and R times the pages that became dirty: these are written some time, and are known
/// earlier than the writes.
pub(super) struct Duel {
    /// The highest hash of the sample.
    highest: u64,
    ebb: MiniaturePool,
    lru: MiniaturePool,
    ebb_bill: f64,
    lru_bill: f64,
    /// The pages of the sample in the pool.
    resident: usize,
    /// The squares of the differences, added up and faded as the bills are.
    squares: f64,
    leader: Leader,
}

impl Duel {
    /// A duel over a pool of `frames` frames, with the leader until the bills differ.
    pub(super) fn new(frames: u32, leader: Leader) -> Self {
        let sampled = frames.clamp(1, SAMPLED);
        let most_frames = frames.clamp(1, MOST_FRAMES);
        Duel {
            highest: match sampled < frames {
                true => u64::MAX / u64::from(frames) * u64::from(sampled),
                false => u64::MAX,
            },
            ebb: MiniaturePool::new(most_frames),
            lru: MiniaturePool::new(most_frames),
            ebb_bill: 0.0,
            lru_bill: 0.0,
            resident: 0,
            squares: 0.0,
            leader,
        }
    }

    #[cfg(test)]
    pub(super) fn samples(&self, page: Page) -> bool {
        hash(page) <= self.highest
    }

    /// The pages of the sample that are resident, as the duel has counted them.
    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        self.resident
    }

    /// Where the miniatures have their records, and for how many they have memory.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> [(*const PageRecord, usize); 2] {
        [&self.ebb, &self.lru].map(|pool| (pool.records.as_ptr(), pool.records.capacity()))
    }

    #[inline]
    pub(super) fn leader(&self) -> Leader {
        self.leader
    }

    /// Moves the clock of all histories, and shortens ages, as [`History::advance`] does.
    pub(super) fn advance(&mut self, now: u64, then: u64, most: u64) {
        for pool in [&mut self.ebb, &mut self.lru] {
            let records = pool.records.iter_mut();
            records.for_each(|record| record.history.advance(now, then, most));
        }
    }

    /// The pool has admitted a page for the reference that follows.
    #[inline]
    pub(super) fn admit(&mut self, page: Page) {
        if hash(page) <= self.highest {
            self.resident += 1;
            self.resize();
        }
    }

    /// The pool has evicted a page: the miniatures evict one each, unless they have a frame less than it.
    #[inline]
    pub(super) fn evict(&mut self, page: Page, values: PageValues<'_>) {
        if hash(page) > self.highest {
            return;
        }
        self.resident = self.resident.saturating_sub(1);
        self.resize();
        self.ebb.evict_excess(|records| least_valuable(records, values));
        self.lru.evict_excess(|records| longest_unreferenced(records, values.now()));
    }

    fn resize(&mut self) {
        for pool in [&mut self.ebb, &mut self.lru] {
            pool.frames = self.resident.clamp(1, pool.most_frames);
        }
    }

    /// A page was referenced and has that history since.
    #[inline]
    pub(super) fn reference(&mut self, record: &PageRecord, access: Access, values: PageValues<'_>, asymmetry: f32) {
        let hash = hash(record.page);
        if hash <= self.highest {
            self.serve(record, hash, access, values, f64::from(asymmetry));
        }
    }

    /// A page was written, and not referenced. Only a miniature that has it learns of that.
    pub(super) fn wrote(&mut self, record: &PageRecord, asymmetry: f32) {
        let hash = hash(record.page);
        if hash > self.highest {
            return;
        }
        let [ebb, lru] = [&mut self.ebb, &mut self.lru].map(|pool| {
            let dirtied = pool.wrote(record, hash);
            if dirtied { f64::from(asymmetry) } else { 0.0 }
        });
        if ebb > 0.0 || lru > 0.0 {
            self.charge(ebb, lru);
        }
    }

    #[inline(never)]
    fn serve(&mut self, record: &PageRecord, hash: u64, access: Access, values: PageValues<'_>, asymmetry: f64) {
        let by_value = |records: &[PageRecord]| least_valuable(records, values);
        let ebb = self.ebb.serve(record, hash, access, by_value);
        let by_age = |records: &[PageRecord]| longest_unreferenced(records, values.now());
        let lru = self.lru.serve(record, hash, access, by_age);
        let (ebb, lru) = (ebb.cost(asymmetry), lru.cost(asymmetry));
        if ebb > 0.0 || lru > 0.0 {
            self.charge(ebb, lru);
        }
    }

    /// Adds the costs of an event to the bills, and compares them.
    fn charge(&mut self, ebb: f64, lru: f64) {
        const LEFT: f64 = 1.0 - 1.0 / MEMORY;
        self.ebb_bill = self.ebb_bill * LEFT + ebb;
        self.lru_bill = self.lru_bill * LEFT + lru;
        self.squares = self.squares * LEFT + (ebb - lru) * (ebb - lru);
        let excess = self.ebb_bill - self.lru_bill;
        let deviation = self.squares.sqrt();
        let most = MARGIN * self.lru_bill + DEVIATIONS * deviation;
        match self.leader {
            Leader::Ebb if excess > most => self.leader = Leader::Lru,
            Leader::Lru if excess < -DEVIATIONS_BACK * deviation => self.leader = Leader::Ebb,
            _ => {}
        }
    }
}

/// What a miniature had to do for a reference.
struct ServedReference {
    missed: bool,
    /// The page was clean, or not resident, and is dirty now.
    dirtied: bool,
}

impl ServedReference {
    fn cost(self, asymmetry: f64) -> f64 {
        let dirtied = if self.dirtied { asymmetry } else { 0.0 };
        f64::from(u8::from(self.missed)) + dirtied
    }
}

/// A pool of few frames: copies of the histories of the pages that would be resident, found by chains.
struct MiniaturePool {
    /// From 1 to the most.
    frames: usize,
    most_frames: usize,
    records: Vec<PageRecord>,
    /// The first record of each chain.
    first: [u8; CHAINS],
    /// The next record of the same chain, by record.
    next: [u8; MOST_FRAMES as usize],
}

impl MiniaturePool {
    /// A miniature of at most that many frames, with as many.
    fn new(frames: u32) -> Self {
        MiniaturePool {
            frames: frames as usize,
            most_frames: frames as usize,
            records: Vec::with_capacity(frames as usize),
            first: [NONE; CHAINS],
            next: [NONE; MOST_FRAMES as usize],
        }
    }

    fn serve(
        &mut self,
        record: &PageRecord,
        hash: u64,
        access: Access,
        victim: impl FnOnce(&[PageRecord]) -> usize,
    ) -> ServedReference {
        let found = self.find(record.page, hash);
        let was_dirty = found.is_some_and(|at| self.records[at].history.has(DIRTY));
        let at = found.unwrap_or_else(|| self.admit(record.page, hash, victim));
        self.records[at] = *record;
        let is_dirty = was_dirty || access.is_write();
        self.records[at].history.set(DIRTY, is_dirty);
        ServedReference { missed: found.is_none(), dirtied: is_dirty && !was_dirty }
    }

    /// True if the page is there, was clean, and is dirty now.
    fn wrote(&mut self, record: &PageRecord, hash: u64) -> bool {
        let Some(at) = self.find(record.page, hash) else {
            return false;
        };
        let was_dirty = self.records[at].history.has(DIRTY);
        self.records[at] = *record;
        self.records[at].history.set(DIRTY, true);
        !was_dirty
    }

    fn find(&self, page: Page, hash: u64) -> Option<usize> {
        let mut at = self.first[chain(hash)];
        while at != NONE && self.records[usize::from(at)].page != page {
            at = self.next[usize::from(at)];
        }
        (at != NONE).then_some(usize::from(at))
    }

    /// Makes room for a page and adds it to its chain; returns the index of its record.
    fn admit(&mut self, page: Page, hash: u64, victim: impl FnOnce(&[PageRecord]) -> usize) -> usize {
        let at = match self.records.len() < self.frames {
            true => {
                self.records.push(PageRecord { page, history: History::default() });
                self.records.len() - 1
            }
            false => {
                let victim = victim(&self.records);
                self.unlink(victim);
                victim
            }
        };
        self.link(at, hash);
        at
    }

    /// Evicts pages beyond the frames.
    fn evict_excess(&mut self, victim: impl Fn(&[PageRecord]) -> usize) {
        while self.records.len() > self.frames {
            let victim = victim(&self.records);
            let last = self.records.len() - 1;
            self.unlink(victim);
            if victim != last {
                self.unlink(last);
                self.link(victim, hash(self.records[last].page));
            }
            self.records.swap_remove(victim);
        }
    }

    /// Adds a record to the chain of its page's hash.
    fn link(&mut self, at: usize, hash: u64) {
        let first = &mut self.first[chain(hash)];
        self.next[at] = *first;
        *first = at as u8;
    }

    /// Removes a record from its chain.
    fn unlink(&mut self, at: usize) {
        let chain = chain(hash(self.records[at].page));
        let next = self.next[at];
        let mut before = self.first[chain];
        if usize::from(before) == at {
            self.first[chain] = next;
            return;
        }
        while usize::from(self.next[usize::from(before)]) != at {
            before = self.next[usize::from(before)];
        }
        self.next[usize::from(before)] = next;
    }
}

/// The record of least value; of equals the longest unreferenced.
fn least_valuable(records: &[PageRecord], values: PageValues<'_>) -> usize {
    let records = records.iter().enumerate();
    let least = records.min_by_key(|(_, record)| values.ranked(&record.history));
    least.map_or(0, |(at, _)| at)
}

fn longest_unreferenced(records: &[PageRecord], now: u64) -> usize {
    let records = records.iter().enumerate();
    let first = records.min_by_key(|(_, record)| Reverse(record.history.age(now)));
    first.map_or(0, |(at, _)| at)
}

/// By the lowest bits, since the highest ones are alike in a sample.
fn chain(hash: u64) -> usize {
    hash as usize % CHAINS
}

/// SplitMix64 with the page as its state. It is no hash by which other parts of the program take samples: of such a
/// sample this one would have all pages or none.
#[inline]
fn hash(page: Page) -> u64 {
    SplitMix64::seed_from_u64(page).next_u64()
}

#[cfg(test)]
mod tests {
    use super::super::densities::PriorWeight;
    use super::super::learned::WaitStatistics;
    use super::*;

    const PRIOR: PriorWeight = PriorWeight { events: 4.0, pages: 4.0 };

    /// Refers a duel to pages, each with a history that begins then.
    fn refer(duel: &mut Duel, pages: impl Iterator<Item = Page>, asymmetry: f32) {
        let learned = WaitStatistics::new(PRIOR, 1000, 0);
        for (now, page) in (1..).zip(pages) {
            let history = History::new(now);
            let record = PageRecord { page, history };
            let values = learned.values(now, 0, asymmetry);
            duel.reference(&record, Access::from_write(page % 2 == 0), values, asymmetry);
        }
    }

    #[test]
    fn a_miniature_finds_its_pages_and_evicts_the_victim() {
        let mut pool = MiniaturePool::new(3);
        let mut misses = 0;
        let mut resident: Vec<Page> = Vec::new();
        for (now, page) in (1..).zip((0..2000u64).map(|at| at * at % 7 + at / 300)) {
            let history = History::new(now);
            let record = PageRecord { page, history };
            let oldest = |records: &[PageRecord]| longest_unreferenced(records, now);
            let served = pool.serve(&record, hash(page), Access::Read, oldest);
            assert_eq!(served.missed, !resident.contains(&page));
            misses += u32::from(served.missed);
            resident.retain(|&other| other != page);
            resident.push(page);
            if resident.len() > 3 {
                resident.remove(0);
            }
            for &page in &resident {
                assert!(pool.find(page, hash(page)).is_some());
            }
        }
        assert!(misses > 100);
    }

    #[test]
    fn a_page_costs_a_write_when_it_becomes_dirty() {
        let mut pool = MiniaturePool::new(1);
        let mut cost = |now, page, access| {
            let history = History::new(now);
            let record = PageRecord { page, history };
            let oldest = |records: &[PageRecord]| longest_unreferenced(records, now);
            let served = pool.serve(&record, hash(page), access, oldest);
            served.cost(5.0)
        };
        assert_eq!(cost(1, 7, Access::Read), 1.0);
        assert_eq!(cost(2, 7, Access::Write), 5.0);
        assert_eq!(cost(3, 7, Access::Write), 0.0);
        assert_eq!(cost(4, 8, Access::Write), 6.0);
        assert_eq!(cost(5, 7, Access::Read), 1.0);
    }

    #[test]
    fn the_leader_changes_when_the_difference_exceeds_margin_and_noise() {
        let mut duel = Duel::new(100, Leader::Ebb);
        for _ in 0..1000 {
            duel.charge(1.0, 1.0);
        }
        assert_eq!(duel.leader(), Leader::Ebb);
        let mut events = 0;
        while duel.leader() == Leader::Ebb {
            duel.charge(1.0, 0.0);
            events += 1;
        }
        // Of e events 2 % of a bill of about 440 - e and 2 times the root of e: 15.
        assert!((15..18).contains(&events), "{events}");
        while duel.leader() == Leader::Lru {
            duel.charge(0.0, 1.0);
            events -= 1;
        }
        // Half the root of 35 events beyond.
        assert!((-4..-1).contains(&events), "{events}");
    }

    #[test]
    fn a_miniature_with_fewer_frames_evicts_and_finds_what_is_left() {
        let mut pool = MiniaturePool::new(9);
        let mut resident: Vec<Page> = Vec::new();
        for now in 1..3000u64 {
            let mixed = ebbpool_cost::mixed(now);
            let oldest = |records: &[PageRecord]| longest_unreferenced(records, now);
            pool.frames = 1 + (mixed >> 32) as usize % 9;
            if now % 3 == 0 {
                pool.evict_excess(oldest);
                resident.drain(..resident.len().saturating_sub(pool.frames));
            }
            let page = mixed % 14;
            if !resident.contains(&page) && resident.len() > pool.frames {
                continue;
            }
            let history = History::new(now);
            let record = PageRecord { page, history };
            let served = pool.serve(&record, hash(page), Access::Read, oldest);
            assert_eq!(served.missed, !resident.contains(&page));
            if !served.missed {
                resident.retain(|&other| other != page);
            } else if resident.len() == pool.frames {
                resident.remove(0);
            }
            resident.push(page);
            assert_eq!(pool.records.len(), resident.len());
            for page in 0..14 {
                let found = pool.find(page, hash(page)).is_some();
                assert_eq!(found, resident.contains(&page));
            }
        }
    }

    #[test]
    fn miniatures_have_as_many_frames_as_the_pool_has_pages_of_the_sample() {
        let learned = WaitStatistics::new(PRIOR, 1000, 0);
        let mut duel = Duel::new(12_800, Leader::Ebb);
        let sampled = |duel: &Duel, pages: std::ops::Range<Page>| pages.filter(|&page| hash(page) <= duel.highest).count();
        for page in 0..40_000 {
            duel.admit(page);
            if page >= 12_800 {
                duel.evict(page - 12_800, learned.values(page, 0, 1.0));
            }
            let resident = page.saturating_sub(12_799)..page + 1;
            if page % 1000 == 999 {
                let frames = sampled(&duel, resident).max(1);
                assert_eq!((duel.ebb.frames, duel.lru.frames), (frames, frames));
            }
        }
    }

    #[test]
    fn a_duel_without_a_difference_keeps_its_leader() {
        for leader in [Leader::Ebb, Leader::Lru] {
            let mut duel = Duel::new(50, leader);
            refer(&mut duel, 0..10_000, 8.0);
            assert_eq!(duel.leader(), leader);
            assert!(duel.ebb_bill > 0.0);
        }
    }

    #[test]
    fn a_sample_has_its_share_of_the_pages() {
        for (frames, least, most) in [(100, 1.0, 1.0), (256, 0.49, 0.51), (12_800, 0.009, 0.011)] {
            let duel = Duel::new(frames, Leader::Ebb);
            let sampled = (0..200_000).filter(|&page| hash(page) <= duel.highest);
            let share = sampled.count() as f64 / 200_000.0;
            assert!((least..=most).contains(&share), "{frames}: {share}");
        }
    }
}
