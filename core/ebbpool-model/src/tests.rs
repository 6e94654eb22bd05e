//! Helpers for the models' tests, the worked examples, and properties of every model.

use std::collections::BTreeSet;

use crate::counts::next_uses;
use crate::workload::{RandomWorkload, workload};
use crate::{Model, ModelEvent, count, model};

/// Plays traces written as `R1` (read), `W1` (write), `C1` (cleaned), `+1` (pin), `-1` (unpin),
/// `E1=5` (the erase block of page 1 has been erased 5 times).
pub(crate) struct Player {
    pub(crate) model: Box<dyn Model>,
    pinned: BTreeSet<u64>,
    next_uses: Vec<Option<u64>>,
    position: usize,
    pub(crate) events: Vec<ModelEvent>,
}

fn references(text: &str) -> Vec<(u64, bool)> {
    let mut references = Vec::new();
    for item in text.split_whitespace() {
        let page = || item[1..].parse().expect("a page number");
        match &item[..1] {
            "R" => references.push((page(), false)),
            "W" => references.push((page(), true)),
            _ => {}
        }
    }
    references
}

impl Player {
    /// `future` is the whole trace that will be played, for belady; other policies do not need it.
    pub(crate) fn new(model: Box<dyn Model>, future: &str) -> Player {
        Player {
            model,
            pinned: BTreeSet::new(),
            next_uses: next_uses(&references(future), &[]),
            position: 0,
            events: Vec::new(),
        }
    }

    /// Plays the next part of the trace and returns the victims in order.
    pub(crate) fn play(&mut self, text: &str) -> Vec<u64> {
        let before = self.events.len();
        for item in text.split_whitespace() {
            let (page, erases) = item[1..].split_once('=').unwrap_or((&item[1..], "0"));
            let page: u64 = page.parse().expect("a page number");
            match &item[..1] {
                "E" => self.model.erases(page, erases.parse().expect("a number")),
                "+" => assert!(self.pinned.insert(page)),
                "-" => assert!(self.pinned.remove(&page)),
                "C" => self.model.clean(page),
                access => {
                    assert!(access == "R" || access == "W", "{item}");
                    let next = self.next_uses.get(self.position).copied().flatten();
                    self.position += 1;
                    let write = access == "W";
                    let events = self.model.reference(page, write, next, &self.pinned);
                    self.events.extend(events);
                }
            }
        }
        let evictions = self.events[before..].iter();
        evictions
            .filter_map(|event| match event {
                ModelEvent::Evict(page) => Some(*page),
                _ => None,
            })
            .collect()
    }
}

/// The victims of a trace in order.
pub(crate) fn victims(spec: &str, frames: usize, text: &str) -> Vec<u64> {
    Player::new(model(spec, frames), text).play(text)
}

/// All events of a trace.
pub(crate) fn events(spec: &str, frames: usize, text: &str) -> Vec<ModelEvent> {
    let mut player = Player::new(model(spec, frames), text);
    player.play(text);
    player.events
}

/// A to D are 1 to 4, X is 10, Y is 11. The first two are warm-up.
const EXAMPLE_1: &str = "R11 R10 W1 W2 R3 R4 R3 R4 R3 W2 R1";

#[test]
fn worked_example_1() {
    let trace = references(EXAMPLE_1);
    let belady = count("belady", 2, &trace, 1.0, 2, false, 16);
    assert_eq!((belady.reads, belady.writes), (6, 2));
    let fd_static = count("fd-static:clean=1", 2, &trace, 1.0, 2, false, 16);
    assert_eq!((fd_static.reads, fd_static.writes), (8, 1));
    // A is written when B is.
    let events = events("fd-static:clean=1", 2, EXAMPLE_1);
    let at = events.iter().position(|event| *event == ModelEvent::Write(1));
    let at = at.expect("A is written");
    assert_eq!(events[at + 1..at + 3], [ModelEvent::Evict(1), ModelEvent::Read(2)]);
}

#[test]
fn worked_example_3() {
    for seed in 0..24 {
        for (frames, pages) in [(1, 2), (2, 4), (3, 7), (7, 20), (64, 160)] {
            let trace = workload(seed, 2000, pages);
            for window in ["0", "0.25", "0.5", "90%", "1"] {
                let mut cfdc = model(&format!("cfdc:cluster=0,window={window}"), frames);
                let mut cflru = model(&format!("cflru:window={window}"), frames);
                let no_pins = BTreeSet::new();
                for (page, write) in &trace {
                    assert_eq!(
                        cfdc.reference(*page, *write, None, &no_pins),
                        cflru.reference(*page, *write, None, &no_pins),
                        "seed {seed}, {frames} frames, window {window}"
                    );
                }
                assert_eq!(cfdc.resident(), cflru.resident());
            }
        }
    }
}

/// The least cost of serving the rest of a trace from these resident pages, by trying all.
fn optimum(buffer: &[(u64, bool)], frames: usize, rest: &[(u64, bool)], r: f64) -> f64 {
    let Some(((page, write), rest)) = rest.split_first() else {
        return 0.0;
    };
    let mut buffer = buffer.to_vec();
    if let Some((_, dirty)) = buffer.iter_mut().find(|(other, _)| other == page) {
        *dirty |= write;
        return optimum(&buffer, frames, rest, r);
    }
    if buffer.len() < frames {
        buffer.push((*page, *write));
        return 1.0 + optimum(&buffer, frames, rest, r);
    }
    let mut least = f64::INFINITY;
    for position in 0..buffer.len() {
        let mut after = buffer.clone();
        let (_, dirty) = std::mem::replace(&mut after[position], (*page, *write));
        let cost = 1.0 + if dirty { r } else { 0.0 };
        least = least.min(cost + optimum(&after, frames, rest, r));
    }
    least
}

#[test]
fn worked_example_5() {
    let trace = references(EXAMPLE_1);
    for r in [0.0, 0.5, 1.0, 2.0, 3.0, 32.0] {
        let least = optimum(&[(11, false), (10, false)], 2, &trace[2..], r);
        assert_eq!(least, f64::min(6.0 + 2.0 * r, 8.0 + r), "R = {r}");
    }
    // The break-even.
    let cost = |spec, r| count(spec, 2, &trace, r, 2, false, 16).cost(r);
    assert_eq!(cost("belady", 2.0), cost("fd-static:clean=1", 2.0));
    assert!(cost("belady", 1.9) < cost("fd-static:clean=1", 1.9));
    assert!(cost("belady", 2.1) > cost("fd-static:clean=1", 2.1));
}

/// One specification or more of every policy.
const SPECS: &[&str] = &[
    "fifo", "lru", "clock", "belady", "cflru", "cflru:window=29%", "cflru-c", "cflru-c:window=0", "cflru-e", "dl-cflru-e",
    "fab:block=4", "bplru:block=4", "bplru:block=4,padding=true", "lru-wsr", "ccf-lru", "ad-lru", "ad-lru:min_lc=0.9", "casa",
    "ref", "ref:block=4,victims=2,window=0.3", "cfdc", "cfdc:cluster=0", "cfdc:cluster=4,keys=entry",
    "cfdc:cluster=4,window=1", "cfdc:cluster=4,window=0", "fd-static", "fd-static:clean=25%", "fd-buffer",
    "fd-buffer:interval=50", "fd-buffer:interval=auto", "fd-buffer:interval=50,group=3", "fd-buffer:interval=1,pools=clock",
    "fd-exact:interval=50,pools=2q", "lru-c", "lru-c:batch=0", "lru-c:batch=1", "lru-c:batch=3", "wa-landlord", "acr",
    "acr:top=0.9,cost=physical", "dulo", "dulo:bank=50%,correlation=0", "for", "h-arc", "hyperbolic", "lhd", "lecar",
    "cacheus", "watt", "ace", "ace:policy=clock,batch=3", "ace:policy=(cfdc:cluster=4),batch=64", "fifo:cluster=4",
    "lru:cluster=4", "clock:cluster=4", "cflru:cluster=4", "lru-wsr:cluster=4", "casa:cluster=4", "ccf-lru:cluster=4",
    "ad-lru:cluster=4", "fd-static:cluster=4", "fd-buffer:cluster=4,interval=50", "fd-buffer:cluster=4,interval=50,pools=2q",
];

/// With pins, cleaning and changing costs, every model has the properties of a buffer.
#[test]
fn every_model_is_a_buffer() {
    for spec in SPECS {
        for (frames, pages) in [(1, 2), (2, 4), (7, 20), (30, 80)] {
            for seed in 0..8 {
                let random = &mut RandomWorkload::new(seed);
                let mut model = model(spec, frames);
                let trace = workload(seed, 600, pages);
                let next_uses = next_uses(&trace, &[]);
                let mut before: Vec<(u64, bool)> = Vec::new();
                for ((page, write), next_use) in trace.into_iter().zip(next_uses) {
                    // Every few references pins, of some or of all pages.
                    let share = [0, 0, 20, 80, 100][random.below(5) as usize];
                    let mut pinned = BTreeSet::new();
                    for (page, _) in &before {
                        if random.chance(share) {
                            pinned.insert(*page);
                        }
                    }
                    let events = model.reference(page, write, next_use, &pinned);
                    check(spec, frames, &mut before, (page, write), &pinned, &events);
                    assert_eq!(model.resident(), before, "{spec}, {frames} frames");

                    if random.chance(10) {
                        let dirty: Vec<_> = before.iter_mut().filter(|(_, dirty)| *dirty).collect();
                        for (page, dirty) in dirty {
                            if random.chance(30) {
                                model.clean(*page);
                                *dirty = false;
                            }
                        }
                    }
                    if random.chance(1) {
                        model.costs(random.below(100) as f64);
                    }
                    if let Some(target) = model.target() {
                        assert!((0.0..=frames as f64).contains(&target));
                    }
                    for estimate in model.estimates().unwrap_or_default() {
                        assert!((0.0..=1.0).contains(&estimate));
                    }
                }
            }
        }
    }
}

/// Checks the events of a reference and applies them to `resident`.
fn check(
    spec: &str,
    frames: usize,
    resident: &mut Vec<(u64, bool)>,
    (page, write): (u64, bool),
    pinned: &BTreeSet<u64>,
    events: &[ModelEvent],
) {
    let context = format!("{spec}, {frames} frames, page {page}: {events:?}");
    if let Some((_, dirty)) = resident.iter_mut().find(|(other, _)| *other == page) {
        assert!(events.is_empty(), "{context}");
        *dirty |= write;
        return;
    }
    if resident.len() == frames {
        if resident.iter().all(|(page, _)| pinned.contains(page)) {
            assert!(events.is_empty(), "{context}");
            return;
        }
        let (last, before) = events.split_last().expect(&context);
        assert_eq!(*last, ModelEvent::Read(page), "{context}");
        let padded = spec.contains("padding=true");
        let mut evicted = 0;
        for event in before {
            let (ModelEvent::Read(page) | ModelEvent::Pad(page) | ModelEvent::Write(page) | ModelEvent::Evict(page)) = event;
            let position = resident.iter().position(|resident_page| resident_page.0 == *page);
            match event {
                ModelEvent::Read(_) => panic!("{context}"),
                ModelEvent::Pad(_) => assert!(padded && position.is_none(), "{context}"),
                ModelEvent::Write(_) => match position {
                    Some(position) => {
                        assert!(resident[position].1 || padded, "{context}");
                        assert!(!pinned.contains(page) || padded, "{context}");
                        resident[position].1 = false;
                    }
                    None => assert!(before.contains(&ModelEvent::Pad(*page)), "{context}"),
                },
                ModelEvent::Evict(_) => {
                    let (_, dirty) = resident.remove(position.expect(&context));
                    assert!(!dirty && !pinned.contains(page), "{context}");
                    evicted += 1;
                }
            }
        }
        let whole_blocks = spec.contains("fab") || spec.contains("bplru");
        assert!(evicted == 1 || whole_blocks && evicted > 1, "{context}");
    } else {
        assert_eq!(events, [ModelEvent::Read(page)], "{context}");
    }
    resident.push((page, write));
    resident.sort_unstable();
}

/// Worked example 4 on a small scale: Two-Stack's estimates for the current Mc equal the pools'
/// miss ratios, as long as all pages are only read or only written.
#[test]
fn estimates_of_one_kind_of_reference_are_exact() {
    let frames = 16;
    for seed in 0..8 {
        for writes in [false, true] {
            let trace: Vec<(u64, bool)> = workload(seed, 500, 40).into_iter().map(|(page, _)| (page, writes)).collect();
            let mut fd = model("fd-buffer:interval=500", frames);
            let no_pins = BTreeSet::new();
            for (page, write) in &trace {
                fd.reference(*page, *write, None, &no_pins);
            }
            let [pc, pd, pdw] = fd.estimates().expect("one window has ended");
            let mc = fd.target().expect("Mc") as usize;
            // An LRU buffer of the pool's size.
            let size = if writes { frames - mc } else { mc };
            let lru = count("lru", size, &trace, 1.0, 0, false, 16);
            let missed = 1.0 - lru.hits as f64 / 500.0;
            if writes {
                assert_eq!([pc, pd, pdw], [1.0, missed, missed]);
            } else {
                assert_eq!([pc, pd, pdw], [missed, 1.0, 0.0]);
            }
        }
    }
}
