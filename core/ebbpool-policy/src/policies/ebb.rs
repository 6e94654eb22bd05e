//! ebb: keeps the pages that save most by staying resident.
//!
//! *What it does.* The value of a page in the pool is the number of reads, plus R times the number
//! of writes, that it saves per reference while it stays. ebb measures that value. It counts how
//! often each page was referenced and written, and measures, for pages of one class (such as those
//! of a relation) and of about the same counts, how long they then waited for the next reference or
//! write. From these waits follows the highest value of a page of a given class, count and age, if it
//! may be evicted at the best moment. The page of least value is evicted. The write cost R is a factor
//! in that comparison and nowhere else, so it may change with every operation.
//!
//! What was learned is wrong for a while where a workload changes at once. So ebb compares what it costs with what
//! LRU costs, over a sample of the pages, and at first and while LRU costs less it evicts the page referenced longest ago.
//!
//! *Where it comes from.* The value of waiting is the index of Gittins (1979) with the hazard of
//! Kaplan and Meier (1958): pages evicted or forgotten before their next reference count as observed up to
//! then. Age and count together are LRU and LFU in one, as in LRFU and W-TinyLFU, but weighted by
//! measurements instead of by a formula. Sampled caches (Redis, Hyperbolic) show that comparing a
//! few candidates and a few other frames does nearly as well as comparing all; separate ghosts for
//! dirty pages are from H-ARC. That a sample of the pages in a pool of few frames shows what a policy would cost is from
//! miniature simulations (Waldspurger et al., 2017) and the set dueling of processors' caches (Qureshi et al., 2007).
//!
//! *When to prefer something else.* See `when` of the entry below. If neighbouring pages are
//! referenced together, a policy by blocks uses information that ebb ignores; where a miss costs
//! little more than the computing, a policy of one list computes less.
//!
//! *What it costs.* A hit touches one record of 20 bytes and a few kilobytes of tables. A miss
//! compares 8 candidates and those of 32 frames that are due for review, looks up a ghost or a count, and sometimes
//! learns a row of the tables, which take 0.2 megabytes. A reference costs a hash of the page number, by which it is in
//! the sample or not; in a pool of at most 128 frames every page is. Nothing is allocated after `new`.

mod ages;
mod candidates;
mod classes;
mod counts;
mod densities;
mod duel;
mod forgotten_counts;
mod ghosts;
mod hand;
mod history;
mod learned;
mod least;
mod oldest;
mod reviews;

use ebbpool_cost::Decimal;
use prefetch_index::prefetch_index;

use self::candidates::{Candidates, MOST as MOST_CANDIDATES};
use self::classes::MOST_CLASSES;
use self::densities::PriorWeight;
use self::duel::{Duel, Leader};
use self::forgotten_counts::ForgottenCounts;
use self::ghosts::Ghosts;
use self::hand::Hand;
use self::history::{CANDIDATE, DIRTY, History, PageRecord, RESIDENT};
use self::learned::WaitStatistics;
use self::least::LeastFrames;
use self::oldest::OldestFrames;
use self::reviews::{GROUP, Reviews};
use crate::parameters::{one_of, parameters, share_of, whole};
use crate::policy::{Access, Capabilities, Costs, Frame, Gauges, Ghost, MOST_GHOSTS, Page, PageClass, Policy, UNKNOWN_CLASS};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, text_beside};

/// The policy ebb, which the module describes.
///
/// Nothing is random: the policy compares groups of frames in an order that spreads them, which finds the least valuable
/// as well as a random sample does.
pub struct Ebb {
    config: EbbConfig,
    /// By frame, and without a page up to the end of the last group of frames.
    residents: Vec<PageRecord>,
    reviews: Reviews,
    ghosts: Ghosts,
    forgotten_counts: ForgottenCounts,
    learned: WaitStatistics,
    candidates: Candidates,
    /// The frames to compare next.
    hand: Hand,
    duel: Duel,
    oldest: OldestFrames,
    /// The class of the page about to be missed.
    class: PageClass,
    /// The page missed last, and whether it had a ghost.
    incoming: Option<(PageRecord, bool)>,
    /// References so far.
    now: u64,
    /// When ages were last shortened.
    shortened_at: u64,
    /// Hits that were left out since the last miss, as far as they have moved the clock.
    omitted: u64,
    /// R, the write cost in units of the read cost; finite.
    asymmetry: f32,
}

/// Longer ages are shortened each time that as many references have passed, and hits that are left out move the clock at most so
/// far between two misses: so no age reaches 2^32.
const LONGEST_AGE: u64 = 1 << 30;

/// R, as far as single precision reaches.
fn asymmetry(costs: Costs) -> f32 {
    (costs.finite_asymmetry() as f32).min(f32::MAX)
}

parameters! {
    /// The parameters of [`Ebb`].
    pub struct EbbConfig {
        ghosts: Decimal = {
            kind: ParameterKind::Share,
            default: "1",
            about: "pages remembered after their eviction, as a share of the frames",
        },
        gmin: Decimal = {
            kind: ParameterKind::Share,
            default: "0.5",
            about: "share of the ghosts that is for pages evicted dirty",
        },
        long_gone: u64 = {
            kind: whole(0, 16),
            default: "2",
            about: "counts stored of pages without a ghost, per frame",
        },
        classes: usize = {
            kind: whole(0, MOST_CLASSES as u64),
            default: "11",
            about: "classes of pages that are learned apart, at most",
        },
        trust_events: u32 = {
            kind: whole(1, 1_000_000),
            default: "4",
            about: "events of a row of the tables before its own rate outweighs the usual one",
        },
        trust_pages: u32 = {
            kind: whole(1, 1_000_000),
            default: "4",
            about: "pages of a row at an age before its own rate at that age outweighs the usual one",
        },
        pool: usize = {
            kind: whole(1, MOST_CANDIDATES as u64),
            default: "8",
            about: "frames that stay candidates from one victim to the next, but at most half of all",
        },
        looks: u32 = {
            kind: whole(1, 1024),
            default: "32",
            about: "frames compared for each victim besides the candidates, in groups of 8",
        },
        begin: Leader = {
            kind: one_of::<Leader>(),
            default: "lru",
            about: "the policy that chooses victims until a duel of miniatures finds the other one cheaper",
        },
    }
}

/// A time modulo 2^32, such that it does not wrap before ages are shortened: then no age reaches half of all numbers, nor
/// does it until the next time.
#[inline]
fn stamp(time: u32, shortened_at: u64) -> u32 {
    time.wrapping_sub((shortened_at as u32).wrapping_sub(1 << 31))
}

/// The time of the last reference to the page in a frame, if there is one.
#[inline]
fn referenced_at(residents: &[PageRecord], shortened_at: u64) -> impl Fn(Frame) -> Option<u32> {
    move |frame| {
        let history = &residents[frame as usize].history;
        let at = stamp(history.referenced_at(), shortened_at);
        history.has(RESIDENT).then_some(at)
    }
}

impl RegisteredPolicy for Ebb {
    type Config = EbbConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "ebb",
        aliases: &[],
        params: EbbConfig::PARAMS,
        summary: "Learns how soon pages of a given history are used and written again, and keeps those that save most by staying.",
        how: text_beside!("ebb.md"),
        when: text_beside!("ebb.when.md"),
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(24).with_ghosts(49),
        source: "this project",
    };

    // It learns from misses, of which a sample has fewer: bills from samples are too high (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(config: EbbConfig, frames: u32) -> Self {
        let most_ghosts = share_of(config.ghosts, frames).min(MOST_GHOSTS);
        let prior = PriorWeight { events: f64::from(config.trust_events), pages: f64::from(config.trust_pages) };
        let hand = Hand::new(frames, config.looks);
        Ebb {
            config: config.clone(),
            residents: vec![PageRecord::default(); (frames as usize).next_multiple_of(GROUP as usize)],
            reviews: Reviews::new(frames, !hand.visits_all()),
            ghosts: Ghosts::new(most_ghosts, share_of(config.gmin, most_ghosts)),
            forgotten_counts: ForgottenCounts::new(config.long_gone * u64::from(frames), frames),
            learned: WaitStatistics::new(prior, frames, config.classes),
            // The values of candidates that are not the least may be old: others have to be compared with them.
            candidates: Candidates::new(config.pool.min(frames as usize / 2)),
            hand,
            duel: Duel::new(frames, config.begin),
            oldest: OldestFrames::new(frames),
            class: UNKNOWN_CLASS,
            incoming: None,
            now: 0,
            shortened_at: 0,
            omitted: 0,
            asymmetry: asymmetry(Costs::default()),
        }
    }
}

impl Ebb {
    #[inline]
    fn history(&mut self, frame: Frame) -> &mut History {
        &mut self.residents[frame as usize].history
    }

    /// The history of a missed page, and whether it had a ghost.
    #[inline]
    fn recall(&mut self, page: Page, ghost: Option<Ghost>) -> (History, bool) {
        if let Some(record) = ghost.and_then(|ghost| self.ghosts.take(ghost, page)) {
            let mut history = record.history;
            self.learned.end_ghost(&mut history);
            self.learned.reference(&mut history, self.now);
            return (history, true);
        }
        self.forgotten_counts.prefetch(page);
        (History::new(self.now), false)
    }

    /// The page in the frame was referenced now: the miniatures of the duel are, too.
    #[inline]
    fn referenced(&mut self, frame: Frame, access: Access) {
        let record = &self.residents[frame as usize];
        let values = self.learned.values(self.now, self.shortened_at, self.asymmetry);
        self.duel.reference(record, access, values, self.asymmetry);
    }

    /// A page is no longer a ghost, and was not referenced.
    #[inline]
    fn forget(&mut self, PageRecord { page, mut history }: PageRecord) {
        self.learned.end_ghost(&mut history);
        self.learned.forget(&history, self.now);
        let (count, age) = (history.references(), history.age(self.now));
        self.forgotten_counts.put(page, count, age, self.now);
    }

    /// Counts a reference.
    #[inline]
    fn tick(&mut self) {
        self.now += 1;
        if self.now - self.shortened_at >= LONGEST_AGE {
            self.advance(self.now);
        }
    }

    /// Moves the clock to `then`, shortens ages and makes all frames due.
    #[cold]
    #[inline(never)]
    fn advance(&mut self, then: u64) {
        let residents = self.residents.iter_mut();
        let incoming = self.incoming.iter_mut().map(|(record, _)| record);
        for record in residents.chain(self.ghosts.records_mut()).chain(incoming) {
            record.history.advance(self.now, then, LONGEST_AGE);
        }
        self.duel.advance(self.now, then, LONGEST_AGE);
        self.oldest.clear();
        self.reviews.make_all_due(then);
        (self.now, self.shortened_at) = (then, then);
    }

    /// The candidate of least value. The policy computes only values that would be the least, and removes candidates
    /// that may not be evicted when it comes to them.
    #[inline]
    fn least(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let values = self.learned.values(self.now, self.shortened_at, self.asymmetry);
        let values = values.led_by(self.duel.leader());
        loop {
            let (at, frame, known) = self.candidates.least()?;
            let history = &mut self.residents[frame as usize].history;
            if !history.has(RESIDENT) || !may_evict(frame) {
                history.set(CANDIDATE, false);
                self.candidates.remove(at);
                continue;
            }
            let value = values.ranked(history);
            if value == known {
                return Some(frame);
            }
            self.candidates.revalue(at, value);
        }
    }

    /// Whether LRU leads, and the oldest frames have to be found, since no search compares all.
    #[inline]
    fn evicts_oldest(&self) -> bool {
        self.duel.leader() == Leader::Lru && !self.hand.visits_all()
    }

    /// The frame of the page referenced longest ago.
    #[inline]
    fn oldest(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let frames = self.residents.len() as Frame;
        let referenced_at = referenced_at(&self.residents, self.shortened_at);
        let referenced_at = |frame| (frame < frames).then(|| referenced_at(frame)).flatten();
        let now = stamp(self.now as u32, self.shortened_at);
        let may_any = || (0..frames).any(|it| referenced_at(it).is_some() && may_evict(it));
        self.oldest.first(now, referenced_at, &may_evict, may_any)
    }

    /// What LRU would evict next. A background writer, which has no page to come, only asks: it may refuse what the next miss
    /// evicts, and nothing changes.
    fn coming_oldest(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut oldest = [0];
        let found = self.coming_victims(&may_evict, &mut oldest)?;
        oldest[..found].first().copied()
    }

    /// The frame of least value of the candidates and of those that a search looks at, or else any that may be evicted.
    #[inline]
    fn least_of_some(&mut self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        if self.hand.visits_all() {
            self.forget_candidates();
        }
        let hand = self.hand;
        let candidates = self.candidates.len();
        self.search(&may_evict);
        let victim = self.least(&may_evict);
        let victim = victim.or_else(|| self.first_evictable(may_evict));
        if victim.is_none() {
            self.resume(candidates, hand);
        }
        victim
    }

    /// Where a search compares all frames, no candidate is needed from the one before: it could replace a better one by its
    /// value of then.
    #[cold]
    fn forget_candidates(&mut self) {
        while self.candidates.len() > 0 {
            let frame = self.candidates.frame(0);
            self.history(frame).set(CANDIDATE, false);
            self.candidates.remove(0);
        }
    }

    /// Searches the next frames for candidates that are due for review.
    #[inline]
    fn search(&mut self, may_evict: impl Fn(Frame) -> bool) {
        let values = self.learned.values(self.now, self.shortened_at, self.asymmetry);
        let values = values.led_by(self.duel.leader());
        let mut weakest = self.candidates.weakest();
        let mut left = self.hand.per_victim();
        while left > 0 {
            let due = self.reviews.due_next(&mut self.hand, &mut left, self.now);
            for frame in due {
                let history = &mut self.residents[frame as usize].history;
                if !history.has(RESIDENT) || !may_evict(frame) {
                    continue;
                }
                let page = values.page(history);
                let (value, limit) = (page.after(0), weakest.value.alone());
                let mut wait = self.reviews.wait(value, limit, history.age(self.now));
                // Its density may fall sooner than its age doubles.
                while wait > 0 && page.after(wait) < limit {
                    wait /= 2;
                }
                self.reviews.put_off(frame, self.now + wait);
                let value = values.rank(value, history);
                if history.has(CANDIDATE) {
                    self.candidates.revalue_frame(frame, value);
                    weakest = self.candidates.weakest();
                    continue;
                }
                if value >= weakest.value {
                    continue;
                }
                history.set(CANDIDATE, true);
                if let Some(other) = self.candidates.insert(weakest.at, frame, value) {
                    self.residents[other as usize].history.set(CANDIDATE, false);
                }
                weakest = self.candidates.weakest();
            }
        }
        self.prefetch_next();
    }

    /// Prefetches what the next search reads, and what it prefetches.
    #[inline]
    fn prefetch_next(&self) {
        let mut hand = self.hand;
        let mut left = hand.per_victim();
        while left > 0 {
            let due = self.reviews.due_next(&mut hand, &mut left, self.now);
            due.for_each(|frame| prefetch_index(&self.residents, frame as usize));
        }
        for _ in 0..hand.per_victim() {
            self.reviews.prefetch(hand.advance());
        }
    }

    /// The first frame from the hand on that may be evicted.
    #[cold]
    fn first_evictable(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let (start, frames) = (self.hand.start() as usize, self.residents.len());
        let in_turn = (start..frames).chain(0..start);
        let mut frames = in_turn.filter(|&frame| self.residents[frame].history.has(RESIDENT)).map(|frame| frame as Frame);
        frames.find(|&frame| may_evict(frame))
    }

    /// Undoes a search that found no victim.
    #[cold]
    fn resume(&mut self, candidates: usize, hand: Hand) {
        self.hand = hand;
        self.candidates.resume(candidates);
        for at in 0..candidates {
            let frame = self.candidates.frame(at);
            self.history(frame).set(CANDIDATE, true);
        }
    }
}

impl Policy for Ebb {
    const CAPABILITIES: Capabilities =
        Capabilities::LEAVES_HITS_OUT.union(Capabilities::COSTS).union(Capabilities::CLASSES).union(Capabilities::RESIZES);

    fn most_ghosts(&self) -> u32 {
        self.ghosts.capacity()
    }

    fn page(&self, frame: Frame) -> Option<Page> {
        Some(self.residents[frame as usize].page)
    }

    #[inline]
    fn ghost_page(&self, ghost: Ghost) -> Option<Page> {
        self.ghosts.page(ghost)
    }

    fn wrote(&mut self, frame: Frame) -> bool {
        let record = &mut self.residents[frame as usize];
        self.learned.write(&mut record.history, self.now);
        record.history.set(DIRTY, true);
        self.duel.wrote(record, self.asymmetry);
        true
    }

    /// The frames of least value among the candidates and those that as many searches would look at, as of now; or, where LRU
    /// leads, of all frames.
    fn coming_victims(&self, may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize> {
        let values = self.learned.values(self.now, self.shortened_at, self.asymmetry);
        let values = values.led_by(self.duel.leader());
        let history = |frame: Frame| &self.residents[frame as usize].history;
        let is_evictable = |frame: Frame| history(frame).has(RESIDENT) && may_evict(frame);
        let mut least = LeastFrames::new(coming, |frame| values.ranked(history(frame)));
        if self.evicts_oldest() {
            let referenced_at = referenced_at(&self.residents, self.shortened_at);
            let all = self.residents.len() as Frame;
            for (earliest, frames) in self.oldest.groups() {
                let youngest = least.most_valuable().and_then(&referenced_at);
                if youngest.is_some_and(|youngest| earliest > youngest) {
                    continue;
                }
                // A cleaner takes the frames that it is asked about for the next victims.
                for frame in frames.start..frames.end.min(all) {
                    if least.would_take(frame) && is_evictable(frame) {
                        least.offer(frame);
                    }
                }
            }
            return Some(least.into_sorted());
        }
        let candidates = (0..self.candidates.len()).map(|at| self.candidates.frame(at));
        candidates.filter(|&frame| is_evictable(frame)).for_each(|frame| least.offer(frame));
        let mut hand = self.hand;
        let mut left = hand.for_victims(least.most());
        while left > 0 {
            let due = self.reviews.due_next(&mut hand, &mut left, self.now);
            due.filter(|&frame| !history(frame).has(CANDIDATE) && is_evictable(frame)).for_each(|frame| least.offer(frame));
        }
        Some(least.into_sorted())
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.tick();
        let history = &mut self.residents[frame as usize].history;
        self.learned.reference(history, self.now);
        if access.is_write() {
            self.learned.write(history, self.now);
            history.set(DIRTY, true);
        }
        self.referenced(frame, access);
    }

    #[inline]
    fn omitted_hits(&mut self, hits: u64) {
        let hits = hits.min(LONGEST_AGE - self.omitted);
        self.omitted += hits;
        let then = self.now + hits;
        match then - self.shortened_at < LONGEST_AGE {
            true => self.now = then,
            false => self.advance(then),
        }
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        self.tick();
        self.omitted = 0;
        let (mut history, had_ghost) = self.recall(page, ghost);
        let class = std::mem::take(&mut self.class);
        self.learned.classify(&mut history, class, page);
        if access.is_write() {
            self.learned.write(&mut history, self.now);
        }
        self.incoming = Some((PageRecord { page, history }, had_ghost));
        self.learned.miss();
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.residents, frame as usize);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.ghosts.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let oldest = match (self.evicts_oldest(), incoming) {
            (true, None) => return self.coming_oldest(may_evict),
            (true, Some(_)) => self.oldest(&may_evict),
            (false, _) => None,
        };
        let victim = oldest.or_else(|| self.least_of_some(may_evict));
        if victim.is_some() {
            self.reviews.end_search(self.now);
        }
        victim
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        let incoming = self.incoming.take();
        let incoming = incoming.filter(|(record, _)| record.page == page);
        let mut history = match incoming {
            Some((record, true)) => record.history,
            Some((mut record, false)) => {
                if let Some(count) = self.forgotten_counts.take(page) {
                    record.history.recount(count.and_one());
                }
                record.history
            }
            None => {
                let mut history = History::new(self.now);
                if access.is_write() {
                    self.learned.write(&mut history, self.now);
                }
                history
            }
        };
        let candidate = self.history(frame).has(CANDIDATE);
        history.set(RESIDENT, true);
        history.set(DIRTY, access.is_write());
        // A frame stays a candidate whatever page is in it, so that newcomers are compared again
        // soon.
        history.set(CANDIDATE, candidate);
        self.residents[frame as usize] = PageRecord { page, history };
        self.reviews.admit(frame, self.now);
        self.duel.admit(page);
        self.referenced(frame, access);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        let (record, had_ghost) = self.incoming.take()?;
        if !had_ghost {
            return None;
        }
        self.ghosts.put(record)
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        if let Some((record, next)) = self.ghosts.make_room() {
            self.forget(record);
            if let Some(next) = next {
                self.forgotten_counts.prefetch(next);
            }
        }
        let mut record = self.residents[frame as usize];
        record.history.evict(self.now);
        let ghost = self.ghosts.put(record)?;
        self.learned.begin_ghost(&record.history);
        Some(ghost)
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        let record = &self.residents[frame as usize];
        if record.history.has(RESIDENT) {
            let values = self.learned.values(self.now, self.shortened_at, self.asymmetry);
            self.duel.evict(record.page, values);
        }
        let history = self.history(frame);
        let candidate = history.has(CANDIDATE);
        *history = History::default();
        history.set(CANDIDATE, candidate);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.history(frame).set(DIRTY, false);
    }

    fn class(&mut self, class: PageClass) {
        self.class = class;
    }

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = asymmetry(costs);
    }

    fn gauges(&self) -> Gauges {
        Gauges { leader: Some(self.duel.leader().name()), ..Gauges::default() }
    }

    fn moved(&mut self, from: Frame, to: Frame) {
        let candidates = [from, to].map(|frame| self.history(frame).has(CANDIDATE));
        let record = std::mem::take(&mut self.residents[from as usize]);
        self.residents[to as usize] = record;
        for (frame, candidate) in [from, to].into_iter().zip(candidates) {
            self.history(frame).set(CANDIDATE, candidate);
        }
        self.reviews.admit(to, self.now);
    }

    /// What was learned stays, and so do histories, and as many of the latest ghosts as there may be. The duel begins anew, with the
    /// same leader.
    fn resize(&mut self, frames: u32) {
        self.forget_candidates();
        let config = EbbConfig { begin: self.duel.leader(), ..self.config.clone() };
        let mut sized = Ebb::new(config, frames);
        let kept = sized.residents.len().min(self.residents.len());
        sized.residents[..kept].copy_from_slice(&self.residents[..kept]);
        sized.reviews.make_all_due(self.now);
        let resident = sized.residents.iter().filter(|record| record.history.has(RESIDENT));
        resident.for_each(|record| sized.duel.admit(record.page));
        while let Some((record, _)) = self.ghosts.reduce_to(sized.ghosts.most()) {
            self.forget(record);
        }
        self.ghosts.resize(&sized.ghosts);
        self.forgotten_counts.resize(&sized.forgotten_counts, self.now);
        self.learned.resize(frames, self.config.classes);
        (self.residents, self.reviews, self.candidates) = (sized.residents, sized.reviews, sized.candidates);
        (self.hand, self.duel, self.oldest) = (sized.hand, sized.duel, sized.oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The victims of skewed references from that time on, among which many pages are of equal value.
    fn victims(since: u64, begin: Leader) -> Vec<Frame> {
        let frames = 512;
        let config = EbbConfig { begin, ..EbbConfig::default() };
        let mut ebb = Ebb::new(config, frames);
        (ebb.now, ebb.shortened_at) = (since, since);
        let mut pages: Vec<Page> = Vec::new();
        let mut ghosts = BTreeMap::new();
        let mut victims = Vec::new();
        for at in 0..40_000u64 {
            let mixed = ebbpool_cost::mixed(at);
            let page = (mixed & 63) * (mixed >> 32 & 63) + at / 4000;
            let access = Access::from_write(at % 5 == 0);
            if let Some(frame) = pages.iter().position(|&it| it == page) {
                ebb.hit(frame as Frame, access);
                continue;
            }
            ebb.miss(page, ghosts.get(&page).copied(), access);
            let frame = match pages.len() < frames as usize {
                true => {
                    pages.push(page);
                    pages.len() as Frame - 1
                }
                false => {
                    let victim = ebb.victim(Some((page, access)), |_| true);
                    let victim = victim.expect("all pages may be evicted");
                    let ghost = ebb.remember(victim).expect("there is room for ghosts");
                    ghosts.insert(pages[victim as usize], ghost);
                    ebb.evicted(victim);
                    pages[victim as usize] = page;
                    victims.push(victim);
                    victim
                }
            };
            ebb.admit(frame, page, access);
        }
        victims
    }

    #[test]
    fn victims_are_the_same_when_the_clock_of_32_bits_wraps() {
        for begin in [Leader::Ebb, Leader::Lru] {
            let from_zero = victims(0, begin);
            assert!(from_zero.len() > 1000, "{}", from_zero.len());
            // A multiple of the unit of time of stored counts.
            assert!(victims((1 << 32) - 10_240, begin) == from_zero);
        }
    }

    /// Pages are dropped, evictions undone, refused and made without being remembered, as the pool and the callers of the C
    /// interface do; the duel still knows how many pages of its sample are resident.
    #[test]
    fn the_duel_counts_the_pages_of_its_sample_whatever_the_driver_does() {
        for frames in [1, 2, 7, 40, 128, 129, 300, 2000] {
            let mut ebb = Ebb::new(EbbConfig::default(), frames);
            let mut pages: Vec<Option<Page>> = vec![None; frames as usize];
            let mut ghosts = BTreeMap::new();
            let allocated = ebb.duel.allocated();
            for at in 0..20_000u64 {
                let mixed = ebbpool_cost::mixed(at);
                let page = mixed % (3 * u64::from(frames)) * (1 + at / 10_000);
                let access = Access::from_write(mixed >> 40 & 3 == 0);
                let pinned = |frame: Frame| u64::from(frame) % 5 != mixed >> 20 & 7;
                if let Some(frame) = pages.iter().position(|&it| it == Some(page)) {
                    ebb.hit(frame as Frame, access);
                    if mixed >> 32 & 15 == 0 {
                        ebb.evicted(frame as Frame);
                        pages[frame] = None;
                    }
                } else {
                    let mut evict = |ebb: &mut Ebb, pages: &mut Vec<Option<Page>>| {
                        let frame = ebb.victim(Some((page, access)), pinned)?;
                        let evicted = pages[frame as usize].take().expect("a page");
                        if mixed >> 44 & 1 == 0 {
                            ghosts.insert(evicted, ebb.remember(frame));
                        }
                        ebb.evicted(frame);
                        Some((frame, evicted))
                    };
                    if mixed >> 36 & 7 == 0 {
                        // A background writer evicts, or an eviction is undone.
                        let evicted = evict(&mut ebb, &mut pages);
                        if let (Some((frame, evicted)), 0) = (evicted, mixed >> 48 & 1) {
                            ebb.admit(frame, evicted, Access::Write);
                            pages[frame as usize] = Some(evicted);
                        }
                        continue;
                    }
                    let ghost = ghosts.get(&page).copied().flatten();
                    ebb.miss(page, ghost, access);
                    let empty = pages.iter().position(Option::is_none);
                    let frame = match empty {
                        Some(frame) => Some(frame as Frame),
                        None => {
                            let evicted = {
                                let frame = ebb.victim(Some((page, access)), pinned);
                                frame.map(|frame| (frame, pages[frame as usize].take()))
                            };
                            if let Some((frame, evicted)) = evicted {
                                let evicted = evicted.expect("a page");
                                ghosts.insert(evicted, ebb.remember(frame));
                                ebb.evicted(frame);
                            }
                            evicted.map(|(frame, _)| frame)
                        }
                    };
                    match frame {
                        Some(frame) => {
                            ebb.admit(frame, page, access);
                            pages[frame as usize] = Some(page);
                        }
                        None => {
                            ghosts.insert(page, ebb.not_admitted());
                        }
                    }
                }
                let resident = pages.iter().flatten();
                let sampled = resident.filter(|&&page| ebb.duel.samples(page)).count();
                assert_eq!(ebb.duel.counted(), sampled, "{frames} frames, {at}");
            }
            assert_eq!(ebb.duel.allocated(), allocated);
        }
    }

    /// A page that is written under the pin that admitted it is learned as one that is admitted for writing.
    #[test]
    fn a_write_without_a_reference_counts_as_that_of_an_admission() {
        let mut ebbs = [false, true].map(|apart| {
            let mut ebb = Ebb::new(EbbConfig::default(), 8);
            for page in 0..8 {
                let access = Access::from_write(!apart && page % 2 == 0);
                ebb.miss(page, None, access);
                ebb.admit(page as Frame, page, access);
                if apart && page % 2 == 0 {
                    assert!(ebb.wrote(page as Frame));
                }
            }
            ebb.hit(3, Access::Read);
            ebb.hit(4, Access::Write);
            ebb
        });
        let [at_once, apart] = &mut ebbs;
        assert_eq!(at_once.now, apart.now);
        for (one, other) in at_once.residents.iter().zip(&apart.residents) {
            assert_eq!((one.page, one.history), (other.page, other.history));
        }
        at_once.costs(Costs::asymmetric(8.0));
        apart.costs(Costs::asymmetric(8.0));
        assert_eq!(at_once.victim(None, |_| true), apart.victim(None, |_| true));
    }

    /// The oldest frame is evicted also where a background writer asks for dirty pages in between.
    #[test]
    fn questions_hide_no_oldest_frame_while_lru_leads() {
        const FRAMES: u32 = 200;
        let mut ebb = Ebb::new(EbbConfig::default(), FRAMES);
        for page in 0..FRAMES * 4 {
            ebb.duel = Duel::new(FRAMES, Leader::Lru);
            let access = Access::from_write(page % 3 == 0);
            ebb.miss(page.into(), None, access);
            let mut frame = page;
            if page >= FRAMES {
                for _ in 0..3 {
                    let is_dirty: Vec<bool> = ebb.residents.iter().map(|it| it.history.has(DIRTY)).collect();
                    let reviews = ebb.reviews.clone();
                    assert!(ebb.victim(None, |frame| is_dirty[frame as usize]).is_some());
                    assert_eq!(ebb.reviews, reviews);
                }
                frame = ebb.victim(Some((page.into(), access)), |_| true).expect("a victim");
                let oldest = (0..FRAMES).min_by_key(|&frame| ebb.residents[frame as usize].page);
                assert_eq!(Some(frame), oldest, "{page}");
                ebb.evicted(frame);
            }
            ebb.admit(frame, page.into(), access);
        }
    }

    /// The pool's background writer takes the frames that a long search asks about for the next victims.
    #[test]
    fn a_question_while_lru_leads_is_about_few_frames() {
        const FRAMES: u32 = 2000;
        let mut ebb = Ebb::new(EbbConfig::default(), FRAMES);
        for frame in 0..FRAMES {
            ebb.miss(frame.into(), None, Access::Write);
            ebb.admit(frame, frame.into(), Access::Write);
        }
        ebb.duel = Duel::new(FRAMES, Leader::Lru);
        let asked = std::cell::Cell::new(0);
        let may_evict = |_| {
            asked.set(asked.get() + 1);
            true
        };
        assert_eq!(ebb.victim(None, may_evict), Some(0));
        assert!(asked.get() <= 64, "{}", asked.get());
    }

    #[test]
    fn ages_never_become_those_of_another_time() {
        let config = EbbConfig::default();
        let mut ebb = Ebb::new(config, 2);
        let admit = |ebb: &mut Ebb, page: Page| {
            ebb.miss(page, None, Access::Write);
            ebb.admit(page as Frame, page, Access::Write);
        };
        admit(&mut ebb, 0);
        for hits in [1 << 31, 1 << 32, (1 << 32) - 1, LONGEST_AGE - 2, 1, 1, u64::MAX] {
            ebb.omitted_hits(hits);
            let history = ebb.residents[0].history;
            let ages = [history.age(ebb.now), history.age_of_write(ebb.now)];
            let longest = 2 * LONGEST_AGE;
            assert!(ages.iter().all(|age| (LONGEST_AGE..longest).contains(age)), "{ages:?}");
        }
        admit(&mut ebb, 1);
        ebb.hit(1, Access::Read);
        assert_eq!(ebb.victim(None, |_| true), Some(0));
    }
}
