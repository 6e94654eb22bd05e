//! Compares every policy with the slow, simple model of it: the same events in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use ebbpool_model::{FutureUse, ModelEvent, foresee, model, workload};
use ebbpool_policy::{
    Access, BackgroundWriter, Capabilities, Costs, DynPolicy, Ghost, NextUse, PageProbabilities, PageProbability, PolicySpec,
    RecordedRequest, registry,
};

#[path = "differential/hand_worked.rs"]
mod hand_worked;

/// The class of a page; some pages are of no known class.
fn class_of(page: u64) -> u32 {
    (page % 5) as u32
}

const SPECS: &[&str] = &[
    "fifo",
    "fifo:cluster=4",
    "lru",
    "lru:cluster=8",
    "lru:cluster=4,keys=entry",
    "clock",
    "clock:cluster=4",
    "gclock",
    "gclock:init=0,max=1",
    "gclock:init=3,max=2",
    "gclock:init=0,max=255",
    "postgres",
    "postgres:bulkread=1,bulkwrite=0,vacuum=3",
    "postgres:bgwriter_lru_maxpages=0,checkpoint_timeout=1,checkpoint_completion_target=0",
    "postgres:bgwriter_delay=10,bgwriter_lru_maxpages=2,bgwriter_lru_multiplier=10,checkpoint_timeout=30",
    "postgres:checkpoint_writes=50,bgwriter_lru_multiplier=0,checkpoint_completion_target=1",
    "postgres:checkpoint_writes=77,checkpoint_timeout=3,rate=1000",
    "innodb",
    "innodb:lru_scan_depth=0,old_blocks_pct=5",
    "innodb:old_blocks_min=20,lru_scan_depth=7,max_dirty_pages_pct=30",
    "innodb:old_blocks_min=3,old_blocks_time=0,old_blocks_pct=95,max_dirty_pages_pct=0",
    "innodb:old_blocks_min=50,old_blocks_time=100,max_dirty_pages_pct=100,rate=500",
    "sqlite",
    "sqlite:commit=1",
    "sqlite:commit=90",
    "lru-k",
    "lru-k:k=1",
    "lru-k:k=3",
    "lru-k:k=16",
    "2q",
    "2q:kin=0,kout=0",
    "2q:kin=0,kout=1",
    "2q:kin=1,kout=1",
    "2q:kin=0.6,kout=0.2",
    "lrfu",
    "lrfu:lambda=0",
    "lrfu:lambda=0.05",
    "lrfu:lambda=1",
    "fbr",
    "fbr:new=0,old=1,cmax=2",
    "fbr:new=0,old=0.1,cmax=1000",
    "fbr:new=0.6,old=1,cmax=3",
    "fbr:new=1,old=0",
    "arc",
    "car",
    "lirs",
    "lirs:hir=0",
    "lirs:hir=0.3",
    "lirs:hir=1",
    "s3-fifo",
    "s3-fifo:small=0",
    "s3-fifo:small=0.5",
    "s3-fifo:small=1",
    "sieve",
    "w-tinylfu",
    "w-tinylfu:window=0,protected=0",
    "w-tinylfu:window=0.2,protected=1",
    "w-tinylfu:window=1",
    "belady",
    "cost-belady",
    "price-guided",
    "informed",
    "cflru",
    "cflru:window=0",
    "cflru:window=0.29",
    "cflru:window=1",
    "cflru:window=0.75,cluster=8",
    "cflru-c",
    "cflru-c:window=0",
    "cflru-c:window=1",
    "cflru-e",
    "cflru-e:window=0",
    "cflru-e:window=1",
    "dl-cflru-e",
    "fab",
    "fab:block=4",
    "fab:block=1",
    "bplru",
    "bplru:block=4",
    "bplru:block=4,padding=true",
    "bplru:block=1,padding=true",
    "lru-wsr",
    "lru-wsr:cluster=4",
    "lirs-wsr",
    "lirs-wsr:hir=0.3",
    "lirs-wsr:hir=1",
    "ccf-lru",
    "ccf-lru:cluster=4",
    "ad-lru",
    "ad-lru:min_lc=0",
    "ad-lru:min_lc=0.5,cluster=4",
    "ad-lru:min_lc=1",
    "casa",
    "casa:cluster=8",
    "ref",
    "ref:window=0.3,block=8,victims=2",
    "ref:window=1,block=3,victims=1",
    "ref:window=0,block=4",
    "cfdc",
    "cfdc:cluster=4",
    "cfdc:cluster=4,keys=entry",
    "cfdc:window=0.9,cluster=16",
    "cfdc:window=1,cluster=4",
    "cfdc:window=0",
    "cfdc:cluster=0",
    "fd-static",
    "fd-static:clean=25%",
    "fd-static:clean=3,cluster=4",
    "fd-static:clean=0%",
    "fd-static:clean=100%",
    "fd-buffer:interval=100",
    "fd-buffer:interval=37,cluster=4",
    "fd-buffer:interval=250,group=4",
    "fd-buffer:interval=1",
    "fd-buffer:interval=auto",
    "fd-buffer:interval=auto,q=0.01%",
    "fd-buffer:interval=200,pools=clock",
    "fd-buffer:interval=200,pools=2q",
    "fd-exact:interval=100",
    "fd-exact:interval=500,group=16,cluster=8",
    "acr",
    "acr:cost=logical",
    "acr:top=0,cost=physical",
    "acr:top=1",
    "acr:top=0.29",
    "dulo",
    "dulo:correlation=0,bank=0",
    "dulo:correlation=0,bank=100%",
    "dulo:correlation=3,bank=40",
    "dulo:correlation=100%",
    "for",
    "wa-landlord",
    "h-arc",
    "watt",
    "watt:sample=1,epochs=1024,first=1",
    "watt:sample=100,epochs=1,first=0",
    "hyperbolic",
    "hyperbolic:sample=3",
    "lhd",
    "lhd:sample=4,interval=1",
    "lecar",
    "cacheus",
    "lru-c",
    "lru-c:batch=0",
    "lru-c:batch=1",
    "lru-c:batch=3",
    "auto:experts=(lru,casa,w-tinylfu),lead=20,patience=1",
    "auto:experts=(lru,casa),fewest=1,sample=30%,window=2,lead=0,patience=0",
    "auto:experts=(clock,lru,ad-lru,casa,gclock,sieve),fewest=1,window=4,lead=0,patience=0",
    "auto:experts=(ccf-lru,lru-wsr,fifo,casa),fewest=3,sample=50%,window=8,lead=5,patience=3",
    "auto:experts=(fab:block=4,lru),fewest=2,sample=50%,window=1,lead=0,patience=0",
    "auto:experts=(bplru:block=4,padding=true,lru),fewest=2,window=1,lead=0,patience=0",
    "auto:experts=(w-tinylfu,cfdc:cluster=4,fd-static),window=1,lead=0,patience=0",
    "ebb",
    "ebb:ghosts=0,long_gone=0",
    "ebb:ghosts=0.3,gmin=1,long_gone=16",
    "ebb:gmin=0,trust_events=2,classes=0",
    "ebb:trust_events=1,trust_pages=1000",
    "ebb:pool=1,looks=1",
    "ebb:pool=64,looks=1024,trust_events=1000000,trust_pages=1",
    "ebb:pool=3,looks=5,long_gone=1,classes=3",
    "ebb:looks=12,begin=ebb",
    "ace:policy=cflru-e,batch=3",
    "ace:policy=(fab:block=4),batch=3",
    "ace:policy=(bplru:block=4,padding=true),batch=3",
    "ace",
    "ace:batch=1",
    "ace:batch=256",
    "ace:policy=(cflru:window=0.75),batch=3",
    "ace:policy=clock",
    "ace:policy=lru-wsr,batch=4",
    "ace:policy=ccf-lru",
    "ace:policy=ad-lru,batch=3",
    "ace:policy=casa,batch=4",
    "ace:policy=(cfdc:cluster=4,window=0.9),batch=5",
    "ace:policy=(fd-exact:interval=100),batch=4",
    "ace:policy=belady,batch=2",
    "ace:policy=cost-belady,batch=3",
    "ace:policy=price-guided,batch=3",
    "ace:policy=informed,batch=3",
    "ace:policy=wa-landlord,batch=3",
    "ace:policy=h-arc,batch=4",
    "ace:policy=dulo,batch=2",
    "ace:policy=for,batch=3",
    "ace:policy=(lru-c:batch=3),batch=5",
    "ace:policy=ebb,batch=4",
];

/// The simplest driver: a page table, and frames handed out in order.
struct Buffer {
    policy: Box<dyn DynPolicy + Send>,
    frames: u32,
    table: BTreeMap<u64, u32>,
    pages: BTreeMap<u32, (u64, bool)>,
    ghosts: BTreeMap<u64, Ghost>,
}

impl Buffer {
    fn new(spec: &str, frames: u32) -> Self {
        let spec: PolicySpec = spec.parse().expect("a valid policy");
        Buffer {
            policy: registry::boxed(&spec, frames),
            frames,
            table: BTreeMap::new(),
            pages: BTreeMap::new(),
            ghosts: BTreeMap::new(),
        }
    }

    fn reference(
        &mut self,
        page: u64,
        write: bool,
        next_use: Option<u64>,
        future: FutureUse,
        pinned: &BTreeSet<u64>,
    ) -> Vec<ModelEvent> {
        let access = Access::from_write(write);
        self.policy.next_use(NextUse {
            position: future.position,
            reference: next_use.unwrap_or(NextUse::NEVER),
            write: future.write.unwrap_or(NextUse::NEVER),
            references_to_write: future.references_to_write as u32,
        });
        if let Some(&frame) = self.table.get(&page) {
            self.policy.hit(frame, access);
            self.pages.entry(frame).and_modify(|(_, dirty)| *dirty |= write);
            return Vec::new();
        }
        let mut events = Vec::new();
        let ghost = self.ghosts.get(&page).copied();
        if self.policy.capabilities().contains(Capabilities::CLASSES) {
            self.policy.class(class_of(page));
        }
        self.policy.miss(page, ghost, access);
        let early = self.policy.evicts_early();
        let frames = match self.pages.len() < self.frames as usize {
            true => 0..self.frames,
            false => 0..0,
        };
        let empty = frames.into_iter().find(|frame| !self.pages.contains_key(frame));
        let pages = &self.pages;
        let may_evict = |frame: u32| !pinned.contains(&pages[&frame].0);
        let victim = match empty {
            Some(_) if !early => None,
            _ => self.policy.victim(Some((page, access)), &may_evict),
        };
        let frame = match (victim, empty) {
            (None, Some(frame)) => frame,
            (victim, _) => {
                let Some(frame) = victim else {
                    assert!(pages.keys().all(|&frame| !may_evict(frame)), "a frame may be evicted");
                    self.remember(page, |policy| policy.not_admitted());
                    return events;
                };
                assert!(may_evict(frame), "a pinned frame was chosen");
                let mut evictions = vec![frame];
                self.policy.evicted_with(frame, &mut evictions);
                evictions.retain(|&frame| may_evict(frame));
                let mut together = Vec::new();
                let all = self.frames as usize;
                self.policy.cleaned_with(frame, all, &mut together);
                if !together.is_empty() && self.pages[&frame].1 {
                    self.write(frame, &mut events);
                }
                for frame in together {
                    self.write(frame, &mut events);
                    self.policy.cleaned(frame);
                }
                let padding = self.policy.padded_block(frame);
                self.leave(&evictions, padding.map(NonZeroU64::get), &mut events);
                frame
            }
        };
        events.push(ModelEvent::Read(page));
        self.table.insert(page, frame);
        self.pages.insert(frame, (page, write));
        self.policy.admit(frame, page, access);
        events
    }

    /// Refers to a page, of the future of which nothing is known.
    fn is_missed(&mut self, page: u64, write: bool) -> bool {
        let unknown = FutureUse::default();
        let events = self.reference(page, write, None, unknown, &BTreeSet::new());
        !events.is_empty()
    }

    /// Writes what background processes write, and returns the pages and whether a checkpoint writes them.
    fn background(&mut self) -> Vec<(u64, bool)> {
        let mut writes = Vec::new();
        self.policy.background_writes(&mut writes);
        let mut written = Vec::new();
        for write in writes {
            let (page, dirty) = self.pages[&write.frame];
            assert!(dirty, "page {page} is written in the background and is clean");
            self.pages.insert(write.frame, (page, false));
            self.policy.cleaned(write.frame);
            written.push((page, write.writer == BackgroundWriter::Checkpointer));
        }
        written
    }

    fn write(&mut self, frame: u32, events: &mut Vec<ModelEvent>) {
        let (page, dirty) = self.pages[&frame];
        assert!(dirty, "page {page} is written together with the victim and is clean");
        events.push(ModelEvent::Write(page));
        self.pages.insert(frame, (page, false));
    }

    /// Evicts the frames in this order; with `block` the block is written whole if at all.
    fn leave(&mut self, evictions: &[u32], block: Option<u64>, events: &mut Vec<ModelEvent>) {
        let any_dirty = evictions.iter().any(|frame| self.pages[frame].1);
        let whole = block.filter(|_| any_dirty);
        if let Some(block) = whole {
            let first = self.pages[&evictions[0]].0 / block * block;
            let pages = || (0..block).map_while(|offset| first.checked_add(offset));
            let missing = pages().filter(|page| !self.table.contains_key(page));
            events.extend(missing.map(ModelEvent::Pad));
            events.extend(pages().map(ModelEvent::Write));
            for frame in pages().filter_map(|page| self.table.get(&page).copied()) {
                let dirty = &mut self.pages.get_mut(&frame).expect("a resident page").1;
                if !evictions.contains(&frame) && std::mem::take(dirty) {
                    self.policy.cleaned(frame);
                }
            }
        }
        for &frame in evictions {
            let (page, dirty) = self.pages.remove(&frame).expect("an evicted page is resident");
            self.table.remove(&page);
            if dirty && whole.is_none() {
                events.push(ModelEvent::Write(page));
            }
            events.push(ModelEvent::Evict(page));
            self.remember(page, |policy| policy.remember(frame));
            self.policy.evicted(frame);
        }
    }

    fn remember(&mut self, page: u64, ghost: impl Fn(&mut dyn DynPolicy) -> Option<Ghost>) {
        if let Some(ghost) = ghost(self.policy.as_mut()) {
            self.ghosts.insert(page, ghost);
        }
    }

    fn clean(&mut self, page: u64) {
        let frame = self.table[&page];
        self.pages.insert(frame, (page, false));
        self.policy.cleaned(frame);
    }
}

fn next_uses(trace: &[(u64, bool)]) -> Vec<Option<u64>> {
    let mut next_by_page = BTreeMap::new();
    let mut next: Vec<Option<u64>> =
        trace.iter().enumerate().rev().map(|(at, (page, _))| next_by_page.insert(*page, at as u64)).collect();
    next.reverse();
    next
}

/// Prices that rise by 0, a little or a lot; multiples of 2^-20, so that sums are exact.
fn prices(random: &mut workload::RandomWorkload, references: usize, frames: u32) -> Vec<f64> {
    let mut units = 0;
    let mut prices = vec![0.0];
    for _ in 0..references {
        units += match random.below(20) {
            0..10 => 0,
            10..19 => random.below(2 * (1 << 20) / u64::from(frames)),
            _ => random.below(1 << 20),
        };
        prices.push(units as f64 / f64::from(1 << 20));
    }
    prices
}

/// Probabilities of a reference and of a write for most of the `pages` pages numbered from 0: few different ones, so that
/// values tie.
fn probabilities(random: &mut workload::RandomWorkload, pages: u64) -> BTreeMap<u64, (f64, f64)> {
    let mut probabilities = BTreeMap::new();
    for page in 0..pages {
        let reference = random.below(8);
        let write = random.below(reference + 1);
        let probability = |units: u64| units as f64 / f64::from(1 << 20);
        if !random.chance(10) {
            probabilities.insert(page, (probability(reference), probability(write)));
        }
    }
    probabilities
}

/// The table that a policy gets.
fn page_probabilities(probabilities: &BTreeMap<u64, (f64, f64)>) -> PageProbabilities {
    let end = probabilities.keys().last().map_or(0, |page| page + 1);
    let pages = (0..end).map(|page| {
        let (reference, write) = probabilities.get(&page).copied().unwrap_or_default();
        PageProbability { reference, write }
    });
    PageProbabilities::from_pages(pages.collect())
}

/// Times that go on by a few ms, and sometimes by long; and rings of a few scans, or of many.
struct Requests {
    random: workload::RandomWorkload,
    time_us: u64,
}

impl Requests {
    fn next(&mut self, at: usize) -> RecordedRequest {
        self.time_us += match self.random.below(200) {
            0 => self.random.below(40_000_000),
            1..10 => self.random.below(400_000),
            _ => self.random.below(3_000),
        };
        let scans = if (at / 300).is_multiple_of(2) { 4 } else { 70 };
        let scan = 1 + self.random.below(scans) as u32;
        let bypass = match self.random.below(3) {
            // Some requests of scans that read give up dirty pages of their rings.
            0 => match scan % 3 + 1 {
                1 if self.random.below(4) == 0 => scan * 4,
                kind => scan * 4 + kind,
            },
            _ => 0,
        };
        RecordedRequest { time_us: self.time_us, bypass }
    }
}

#[derive(Clone, Copy)]
struct Disturbance {
    pins: bool,
    cleaning: bool,
    /// Erase counts change.
    wear: bool,
}

fn compare(spec: &str, frames: u32, seed: u64, references: usize, disturb: Disturbance) {
    let pages = u64::from(frames) * (2 + seed % 3) + 3;
    let trace = workload::workload(seed, references, pages);
    let next = next_uses(&trace);
    let future = foresee(&trace, seed.is_multiple_of(2));
    let mut model = model(spec, frames as usize);
    let mut buffer = Buffer::new(spec, frames);
    let mut random = workload::RandomWorkload::new(seed ^ 0xebb);
    if spec.contains("price-guided") {
        let prices = prices(&mut random, references, frames);
        model.prices(&prices);
        buffer.policy.prices(prices.into());
    }
    if spec.contains("informed") {
        let probabilities = probabilities(&mut random, pages);
        model.probabilities(&probabilities);
        let table = page_probabilities(&probabilities);
        buffer.policy.probabilities(table.into());
    }
    // Without requests in some runs, as where a trace has no times.
    let has_requests = buffer.policy.capabilities().contains(Capabilities::REQUESTS) && !seed.is_multiple_of(3);
    let mut requests = Requests { random: workload::RandomWorkload::new(seed ^ 0x9e37), time_us: 1_700_000_000_000_000 };
    let mut pinned = BTreeSet::new();
    for (at, &(page, write)) in trace.iter().enumerate() {
        let context = || format!("{spec} with {frames} frames, seed {seed}, reference {at}");
        if at % (references / 4) == 0 {
            let asymmetry = [32.0, 1.0, 128.0, 3.7][at / (references / 4) % 4];
            model.costs(asymmetry);
            buffer.policy.costs(Costs::asymmetric(asymmetry));
        }
        if disturb.pins && at % 7 == 0 {
            let resident: Vec<u64> = buffer.table.keys().copied().collect();
            let share = [0, 1, 2, 4, 1, 0][at / 7 / 20 % 6];
            pinned = resident.into_iter().filter(|_| random.below(4) < share).collect();
        }
        model.foresee(future[at]);
        model.class(class_of(page));
        if has_requests {
            let request = requests.next(at);
            model.request(request.time_us, request.bypass);
            buffer.policy.request(request);
        }
        assert_eq!(buffer.background(), model.background(), "{}", context());
        let expected = model.reference(page, write, next[at], &pinned);
        assert_eq!(buffer.reference(page, write, next[at], future[at], &pinned), expected, "{}", context());
        if disturb.cleaning && random.below(5) == 0 {
            let dirty: Vec<u64> = model.resident().into_iter().filter_map(|(page, dirty)| dirty.then_some(page)).collect();
            if !dirty.is_empty() {
                let page = dirty[random.below(dirty.len() as u64) as usize];
                model.clean(page);
                buffer.clean(page);
            }
        }
        if disturb.wear {
            let resident: Vec<u64> = buffer.table.keys().copied().collect();
            for page in resident {
                if random.below(8) == 0 {
                    let erases = random.below(6) as u32;
                    model.erases(page, erases);
                    buffer.policy.erase_count(buffer.table[&page], erases);
                }
            }
        }
        if at % 50 == 0 {
            let resident: Vec<(u64, bool)> = {
                let mut pages: Vec<_> = buffer.pages.values().copied().collect();
                pages.sort_unstable();
                pages
            };
            assert_eq!(resident, model.resident(), "{}", context());
            let gauges = buffer.policy.gauges();
            assert_eq!(gauges.target, model.target(), "{}", context());
            assert_eq!(gauges.estimates, model.estimates(), "{}", context());
        }
    }
}

/// Disturbances beside references: pins and write-backs, pins only, write-backs only, none.
const DISTURBANCES: &[(bool, bool)] = &[(true, true), (true, false), (false, true), (false, false)];

fn compare_each<'a>(
    specs: impl Iterator<Item = &'a &'a str>,
    frames: u32,
    seeds: std::ops::Range<u64>,
    references: usize,
    disturbances: &[(bool, bool)],
) {
    for spec in specs {
        let policy: PolicySpec = spec.parse().expect("a valid policy");
        let wear = policy.asks_erase_counts();
        for seed in seeds.clone() {
            for &(pins, cleaning) in disturbances {
                let disturb = Disturbance { pins, cleaning, wear };
                compare(spec, frames, seed, references, disturb);
            }
        }
    }
}

#[test]
fn one_frame() {
    compare_each(SPECS.iter(), 1, 0..4, 600, DISTURBANCES);
}

#[test]
fn two_frames() {
    compare_each(SPECS.iter(), 2, 10..16, 800, DISTURBANCES);
}

/// The miniatures of ebb have a sample of the pages if the pool has more than 128 frames.
#[test]
fn ebb_with_more_frames_than_its_miniatures() {
    let specs = ["ebb", "ebb:begin=ebb"];
    compare_each(specs.iter(), 200, 50..53, 6000, &[(true, true)]);
}

/// More groups of frames have none that may be evicted than keep their times.
#[test]
fn ebb_with_many_frames_that_are_all_pinned_and_then_freed() {
    const FRAMES: u32 = 1300;
    let mut buffer = Buffer::new("ebb", FRAMES);
    let mut model = model("ebb", FRAMES as usize);
    let mut refer = |page: u64, is_pinned: &dyn Fn(u32) -> bool| {
        let frames = buffer.pages.iter().filter(|(frame, _)| is_pinned(**frame));
        let pinned: BTreeSet<u64> = frames.map(|(_, (page, _))| *page).collect();
        model.class(class_of(page));
        let expected = model.reference(page, false, None, &pinned);
        let events = buffer.reference(page, false, None, FutureUse::default(), &pinned);
        assert_eq!(events, expected, "page {page}");
        !events.is_empty()
    };
    let mut random = workload::RandomWorkload::new(3);
    let mut next_new = 1_000_000;
    for round in 0..6 {
        // A drift that LRU suits.
        for at in 0..4 * u64::from(FRAMES) {
            let drift = (at + u64::from(round * 4 * FRAMES)) / 10;
            refer(drift + random.below(1261), &|_| false);
        }
        for free in [FRAMES, 0, FRAMES, FRAMES - 1, 63 * round] {
            next_new += 1;
            let is_evicted = refer(next_new, &|frame| frame != free);
            assert_eq!(is_evicted, free < FRAMES);
        }
    }
}

/// Sets of pages that nearly fill the pool, each left for good after a few rounds. A sample of such a set may have more pages
/// than its share of the pool has frames.
#[test]
fn ebb_costs_no_more_than_lru_where_sets_of_pages_nearly_fill_the_pool() {
    for frames in [3, 16, 700, 2500] {
        for rounds in [2, 20] {
            let set = (frames as u64 * 19 / 20).max(2);
            let misses = |spec| {
                let mut buffer = Buffer::new(spec, frames);
                let missed = |page| buffer.is_missed(page, false);
                let page = |at: u64| at / (set * rounds) * set + at % set;
                let pages = (0..24 * set.max(200)).map(page);
                pages.map(missed).filter(|missed| *missed).count()
            };
            let (ebb, lru) = (misses("ebb"), misses("lru"));
            assert!(50 * ebb <= 51 * lru, "{frames} frames, {rounds} rounds: {ebb}, {lru}");
        }
    }
}

/// A loop that nearly fills the pool, and now and then a page that does not return: nearly all of the pages referenced longest ago
/// are hit before one of them has to leave.
#[test]
fn ebb_costs_no_more_than_lru_where_a_loop_nearly_fills_the_pool() {
    let misses = |spec| {
        let mut buffer = Buffer::new(spec, 1000);
        let mut random = workload::RandomWorkload::new(1);
        let (mut next, mut others) = (0, 1000..);
        let missed = |_| {
            let page = match random.below(200) {
                0 => others.next().expect("a page"),
                _ => {
                    next = (next + 1) % 985;
                    next
                }
            };
            buffer.is_missed(page, false)
        };
        (0..100_000).map(missed).filter(|missed| *missed).count()
    };
    let (ebb, lru) = (misses("ebb"), misses("lru"));
    assert!(50 * ebb <= 51 * lru, "{ebb}, {lru}");
}

/// While ebb leads, a loop begins that LRU would hold. ebb has to learn that its pages return, and its miniature of LRU has as few
/// frames for them as the pool has pages of the sample: it may not hold the loop either, until the pool does.
#[test]
fn ebb_costs_few_misses_a_frame_more_than_lru_where_a_loop_begins() {
    let misses = |spec, frames: u64, share: u64, seed| {
        let mut buffer = Buffer::new(spec, frames as u32);
        buffer.policy.costs(Costs::asymmetric(8.0));
        let mut random = workload::RandomWorkload::new(seed);
        for _ in 0..20 * frames {
            let page = random.below_skewed(4 * frames);
            buffer.is_missed(page, random.below(10) < 3);
        }
        let looped = frames * share / 100;
        let mut missed = 0;
        for at in 0..60 * looped {
            if at % 25 == 0 {
                let other = 6 * frames + random.below(frames);
                missed += u64::from(buffer.is_missed(other, false));
            }
            missed += u64::from(buffer.is_missed(4 * frames + at % looped, false));
        }
        missed as f64 / frames as f64
    };
    for (frames, share, most) in [(1000, 85, 4.0), (1000, 92, 7.0), (300, 85, 4.0), (300, 95, 9.0)] {
        for seed in 1..=4 {
            let (ebb, lru) = (misses("ebb", frames, share, seed), misses("lru", frames, share, seed));
            println!("{share} % of {frames} frames: {ebb:.1} and {lru:.1} misses a frame");
            assert!(ebb < lru + most, "{frames} frames, {share} %, {seed}");
        }
    }
}

/// A working set nearly as large as the pool drifts, and there are few references a frame to learn from, or writes so expensive that
/// chance decides the duel.
#[test]
fn ebb_costs_more_than_lru_where_a_large_working_set_drifts() {
    let bill = |spec, frames: u32, (step, length, writes): (u64, u64, u64), asymmetry, seed| {
        let mut buffer = Buffer::new(spec, frames);
        buffer.policy.costs(Costs::asymmetric(asymmetry));
        let mut random = workload::RandomWorkload::new(seed);
        let set = u64::from(frames) * 97 / 100;
        let (mut reads, mut written) = (0, 0);
        for at in 0..length * u64::from(frames) {
            let page = at / step + random.below(set);
            let write = random.below(100) < writes;
            for event in buffer.reference(page, write, None, FutureUse::default(), &BTreeSet::new()) {
                match event {
                    ModelEvent::Read(_) => reads += 1,
                    ModelEvent::Write(_) => written += 1,
                    _ => {}
                }
            }
        }
        written += buffer.pages.values().filter(|(_, dirty)| *dirty).count();
        f64::from(reads) + asymmetry * written as f64
    };
    let (short, costly) = ((20, 24, 0), (100, 100, 30));
    for (frames, kind, asymmetry, most) in
        [(128, short, 1.0, 1.12), (700, short, 1.0, 1.12), (2000, short, 1.0, 1.16), (300, costly, 64.0, 1.35)]
    {
        let ratio = |seed| {
            let [ebb, lru] = ["ebb", "lru"].map(|spec| bill(spec, frames, kind, asymmetry, seed));
            ebb / lru
        };
        let ratios: Vec<f64> = (1..=8).map(ratio).collect();
        println!("{frames} frames, R = {asymmetry}: {ratios:.3?}");
        assert!(ratios.iter().all(|ratio| *ratio < most), "{frames} frames");
    }
}

/// Where all frames are candidates none is compared with another.
#[test]
fn ebb_in_few_frames_follows_pages_that_change() {
    for frames in 2..20 {
        let misses = |spec| {
            let mut buffer = Buffer::new(spec, frames);
            let mut random = workload::RandomWorkload::new(7);
            let pages = (0..20_000).map(|at| at / 50 + random.below(u64::from(frames)));
            let missed = |page| buffer.is_missed(page, false);
            pages.map(missed).filter(|missed| *missed).count()
        };
        let (ebb, lru) = (misses("ebb"), misses("lru"));
        assert!(ebb < lru + lru / 2, "{frames} frames: {ebb}, {lru}");
    }
}

/// Pages that have lain long, while others were hit, are given up soon when the workload changes.
#[test]
fn ebb_after_a_long_calm() {
    for (hits, left_out) in [(0, 0), (1_000_000, 0), (0, 1 << 31), (0, 3 << 30)] {
        let misses = |spec| {
            let mut buffer = Buffer::new(spec, 1000);
            let mut random = workload::RandomWorkload::new(7);
            let read = |buffer: &mut Buffer, page| buffer.is_missed(page, false);
            for _ in 0..20_000 {
                read(&mut buffer, random.below_skewed(4000));
            }
            for _ in 0..hits {
                read(&mut buffer, random.below(10));
            }
            buffer.policy.omitted_hits(left_out);
            let after = (0..50_000).filter(|_| read(&mut buffer, 10_000 + random.below(800)));
            after.count()
        };
        let (ebb, lru) = (misses("ebb"), misses("lru"));
        assert!(ebb < 4 * lru, "{ebb} and {lru} misses after {hits} hits and {left_out} that were left out");
    }
}

/// A page that is not referenced any more is evicted soon, so that the others fit: else each would evict the next one.
#[test]
fn ebb_gives_up_a_page_in_whose_place_a_loop_would_fit() {
    // With two frames a page that stays in vain takes half of the pool until ebb has learned that.
    for frames in (3..24).chain([32, 48, 64]) {
        for asymmetry in [1.0, 4.0, 32.0] {
            let bill = |spec| {
                let mut buffer = Buffer::new(spec, frames);
                buffer.policy.costs(Costs::asymmetric(asymmetry));
                let mut random = workload::RandomWorkload::new(7);
                let rounds = u64::from(frames) * 60;
                let pages = (0..20 * rounds).map(|at| at / rounds * u64::from(frames) + at % u64::from(frames));
                let events = pages.flat_map(|page| {
                    let (unknown, write) = (FutureUse::default(), random.below(10) < 3);
                    buffer.reference(page, write, None, unknown, &BTreeSet::new())
                });
                let costs = events.map(|event| match event {
                    ModelEvent::Write(_) => asymmetry,
                    ModelEvent::Read(_) => 1.0,
                    _ => 0.0,
                });
                costs.sum::<f64>()
            };
            let (ebb, lru) = (bill("ebb"), bill("lru"));
            assert!(ebb < 1.5 * lru, "{frames} frames, R {asymmetry}: {ebb}, {lru}");
        }
    }
}

/// Calms in which a few pages are hit, each followed by a burst of new pages that fit: the pages of the last burst are given
/// up at once, although the calm has made them old.
#[test]
fn ebb_in_bursts_after_calms() {
    const FRAMES: u64 = 300;
    for calm in [5, 20, 100] {
        for loops in [false, true] {
            let reads = |spec| {
                let mut buffer = Buffer::new(spec, FRAMES as u32);
                let mut random = workload::RandomWorkload::new(7);
                let mut reads = 0;
                let mut read = |page| {
                    let unknown = FutureUse::default();
                    let events = buffer.reference(page, false, None, unknown, &BTreeSet::new());
                    reads += u64::from(!events.is_empty());
                };
                for burst in 1..9 {
                    (0..calm * FRAMES).for_each(|_| read(random.below(10)));
                    let pages = FRAMES * 8 / 10;
                    for at in 0..20 * FRAMES {
                        let page = if loops { at % pages } else { random.below(pages) };
                        read(burst * 1000 + page);
                    }
                }
                reads
            };
            let (ebb, lru) = (reads("ebb"), reads("lru"));
            assert!(ebb < lru + lru / 2, "calms of {calm}, loops {loops}: {ebb}, {lru}");
        }
    }
}

#[test]
fn cfdc_without_clusters_is_cflru() {
    let none = BTreeSet::new();
    for seed in 0..40 {
        for window in ["0", "0.25", "0.5", "1"] {
            let frames = [1, 2, 7, 64][seed as usize % 4];
            let mut cfdc = Buffer::new(&format!("cfdc:cluster=0,window={window}"), frames);
            let mut cflru = Buffer::new(&format!("cflru:window={window}"), frames);
            for (page, write) in workload::workload(seed, 2000, u64::from(frames) * 3) {
                let blind = FutureUse::default();
                assert_eq!(cfdc.reference(page, write, None, blind, &none), cflru.reference(page, write, None, blind, &none));
            }
        }
    }
}

#[test]
fn every_policy_is_compared_with_a_model() {
    for entry in registry::entries() {
        let is_its = |spec: &&&str| {
            let spec: PolicySpec = spec.parse().expect("a valid policy");
            spec.entry().name == entry.name
        };
        let compared = SPECS.iter().find(is_its);
        assert!(compared.is_some(), "no {} among the SPECS", entry.name);
    }
}

mod slow {
    use super::*;

    #[test]
    fn seven_frames() {
        compare_each(SPECS.iter(), 7, 20..23, 1500, DISTURBANCES);
    }
}

mod whole {
    use super::*;

    #[test]
    fn seven_frames_more_often() {
        compare_each(SPECS.iter(), 7, 23..30, 1500, DISTURBANCES);
    }

    #[test]
    fn sixty_four_frames() {
        compare_each(SPECS.iter(), 64, 40..44, 3000, DISTURBANCES);
    }

    /// At this size the models take most of the time, so that one run has all disturbances.
    #[test]
    fn a_thousand_frames() {
        compare_each(SPECS.iter(), 1000, 62..63, 8000, &DISTURBANCES[..1]);
    }
}
