//! ebb: keeps the pages whose keeping saves most.
//!
//! *What it does.* For a page in the pool there is a right price: how many reads, and R times how
//! many writes, it saves per reference that it stays. ebb measures that price. It counts how often
//! each page was referenced and written, letting old counts fade, and watches, for pages of about
//! the same count, how long they then waited for the next reference or write. From these waits
//! follows what a page of a given count and age is still worth, at best: somebody who keeps it may
//! give up whenever it pays. Whoever is worth least leaves. The write cost R is a factor in that
//! comparison and nowhere else, so it may change with every operation.
//!
//! *Where it comes from.* The worth of waiting is the index of Gittins (1979) with the hazard of
//! Kaplan and Meier (1958): pages forgotten before their next reference count as seen up to then.
//! Age and count together are LRU and LFU in one, as in LRFU and W-TinyLFU, but weighted by what was
//! measured instead of by a formula. That a few kept candidates and a few others looked at do nearly
//! as well as all frames is from sampled caches (Redis, Hyperbolic); ghosts for dirty pages of their
//! own are from H-ARC.
//!
//! *When to prefer something else.* See `when` of the entry below. If pages are referenced in
//! neighbourhoods, a policy by blocks knows what ebb does not look at; where a miss costs little
//! more than the computing, a policy of one list does less of that.
//!
//! *What it costs.* A hit touches one record of 32 bytes and a few kilobytes of tables. A miss looks
//! at 8 candidates and 32 frames, recalls a ghost or a count, and now and then learns one class.
//! Nothing is allocated after `build`.

mod ages;
mod candidates;
mod counts;
mod densities;
mod ghosts;
mod history;
mod learned;
mod long_gone;

use std::ops::Range;

use prefetch_index::prefetch_index;

use self::candidates::{Candidates, MOST as MOST_CANDIDATES, Worth};
use self::densities::Trust;
use self::ghosts::Ghosts;
use self::history::{CANDIDATE, DIRTY, History, Known, RESIDENT};
use self::learned::{Learned, Manner};
use self::long_gone::LongGone;
use crate::policy::{Access, Costs, Frame, Ghost, MOST_GHOSTS, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Kind, Memory, Param, PolicySpec, Value};

/// The policy of this module.
///
/// Nothing is drawn by lot: frames are looked at in turn, which finds the least as well as drawing
/// them does.
pub struct Ebb {
    /// By frame.
    residents: Vec<Known>,
    ghosts: Ghosts,
    long_gone: LongGone,
    learned: Learned,
    candidates: Candidates,
    /// Frames looked at for each victim, besides the candidates.
    looks: u32,
    /// The frame to look at next.
    hand: Frame,
    /// The page missed last, and whether it had a ghost.
    incoming: Option<(Known, bool)>,
    /// References so far.
    now: u64,
    /// R, the write cost in units of the read cost; finite.
    asymmetry: f32,
}

/// R, but finite: times no writes it must be 0.
fn asymmetry(costs: Costs) -> f32 {
    (costs.asymmetry() as f32).min(f32::MAX)
}

const fn whole(min: u64, max: u64) -> Kind {
    Kind::Whole { min, max, or: None }
}

impl Build for Ebb {
    const ENTRY: Entry = Entry {
        name: "ebb",
        aliases: &[],
        params: &[
            Param {
                name: "ghosts",
                kind: Kind::Share,
                default: "1",
                about: "pages remembered after they left, as a share of the frames",
            },
            Param {
                name: "gmin",
                kind: Kind::Share,
                default: "0.5",
                about: "share of the ghosts that is for pages that left dirty",
            },
            Param {
                name: "long_gone",
                kind: whole(0, 16),
                default: "2",
                about: "counts kept of pages without a ghost, per frame",
            },
            Param {
                name: "half_life",
                kind: whole(1, 1_000_000),
                default: "100",
                about: "turns in which a count halves; a turn is as many references as there are to a miss of each frame",
            },
            Param {
                name: "corr",
                kind: Kind::Share,
                default: "0.02",
                about: "share of a turn in which references to a page count once",
            },
            Param {
                name: "memory",
                kind: whole(1, 1_000_000),
                default: "100",
                about: "misses per frame in which what was learned fades to 1/e",
            },
            Param {
                name: "trust_events",
                kind: whole(1, 1_000_000),
                default: "4",
                about: "events of a class before it is believed to have more or less of them than others",
            },
            Param {
                name: "trust_pages",
                kind: whole(1, 1_000_000),
                default: "4",
                about: "pages of a class at an age before it is believed to differ at that age",
            },
            Param {
                name: "pool",
                kind: whole(1, MOST_CANDIDATES as u64),
                default: "8",
                about: "frames that stay candidates from one victim to the next",
            },
            Param {
                name: "looks",
                kind: whole(1, 1024),
                default: "32",
                about: "frames looked at for each victim besides the candidates",
            },
        ],
        summary: "Learns how soon pages of a given history are used and written again, and keeps those whose keeping saves most.",
        how: "A page, resident or a ghost, has the times of its last reference and write and faded counts of both, kept as logarithms; references close together count once. The counts make classes, two to a doubling. For each class it is learned how long pages waited for their next reference, and in tables of their own for their next write, in buckets of half an octave, where pages whose ghost was forgotten count as seen up to then; a class of which little was seen is taken to be like the others, more or less often referenced. From this follows the density at each age: the most events per reference that keeping the page can bring, whenever one gives up. A page is worth its density of references plus, if it is dirty, R times its density of writes. A victim is the least worth of 8 candidates and the next 32 frames in turn, of equals the longest unreferenced; the 8 least stay candidates. Half of the ghosts are for pages that left dirty. Counts of pages without a ghost are kept in 4 bytes each, found by hashing the page's number at a miss without a ghost and when a ghost is forgotten, never at a hit. A class is learned anew at a miss, in rounds of 64 misses at first and of half a miss per frame later. Nothing is random.",
        when: "Where you do not want to choose. It costs 0.966 times what the best other online policy of each cell costs, over 176 cells (pg-tpcb and ten generated strings, 0.75 to 6 % of the pages, R from 1 to 64), at most 1.020 times; 0.905 on pg-tatp and 0.932 on pg-tpcc, of which the beginnings were tuned on. Take another where a page's neighbours tell more than its own past (pg-tpcb at 6 % and R = 1: bplru is 2.0 % better), where writes are dear and go to the pages that are read most (h-arc is up to 1.5 % better), and where computing time counts, since a miss takes more of it than with other policies. It needs some thousand misses to learn.",
        memory: Memory::of(32).with_ghosts(48),
        source: "this project",
        online: true,
        looks_at_costs: true,
        asks_erase_counts: false,
    };

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        let whole = |name| spec.whole(name).unwrap_or(1);
        let correlated = match spec.value("corr") {
            Some(Value::Decimal(share)) => share.to_f64(),
            _ => 0.0,
        };
        let most_ghosts = spec.share_of("ghosts", frames).min(MOST_GHOSTS);
        let manner = Manner {
            half_life: whole("half_life") as f64,
            correlated,
            memory: whole("memory") as f64,
            trust: Trust {
                events: whole("trust_events") as f64,
                pages: whole("trust_pages") as f64,
            },
        };
        Ebb {
            residents: vec![Known::default(); frames as usize],
            ghosts: Ghosts::new(most_ghosts, spec.share_of("gmin", most_ghosts)),
            long_gone: LongGone::new(whole("long_gone") * u64::from(frames), frames),
            learned: Learned::new(manner, frames),
            candidates: Candidates::new(whole("pool") as usize),
            looks: (whole("looks") as u32).min(frames),
            hand: 0,
            incoming: None,
            now: 0,
            asymmetry: asymmetry(Costs::default()),
        }
    }
}

impl Ebb {
    #[inline]
    fn history(&mut self, frame: Frame) -> &mut History {
        &mut self.residents[frame as usize].history
    }

    /// What is known of a page that is missed, and whether it had a ghost.
    #[inline]
    fn recall(&mut self, page: Page, ghost: Option<Ghost>) -> (History, bool) {
        if let Some(known) = ghost.and_then(|ghost| self.ghosts.take(ghost, page)) {
            let mut history = known.history;
            self.learned.reference(&mut history, self.now);
            return (history, true);
        }
        self.long_gone.prefetch(page);
        (History::new(self.now), false)
    }

    /// Values the candidates anew, and gives up those that may not go.
    #[inline]
    fn revalue(&mut self, may_go: impl Fn(Frame) -> bool) {
        let values = self.learned.values(self.now, self.asymmetry);
        let mut at = 0;
        while at < self.candidates.len() {
            let frame = self.candidates.frame(at);
            let history = &mut self.residents[frame as usize].history;
            if history.is(RESIDENT) && may_go(frame) {
                let worth = Worth::new(values.of(history), history.referenced_at);
                self.candidates.revalue(at, worth);
                at += 1;
            } else {
                history.set(CANDIDATE, false);
                self.candidates.give_up(at);
            }
        }
    }

    /// Looks at frames for candidates. They are valued before anything else is asked, since few are
    /// worth as little.
    #[inline]
    fn look_at(&mut self, frames: Range<Frame>, may_go: impl Fn(Frame) -> bool) {
        let Range { mut start, end } = frames;
        let mut weakest = self.candidates.weakest();
        let mut instead = None;
        while let Some((frame, worth)) = self.next_worth_less(weakest.worth, start..end) {
            start = frame + 1;
            let history = &self.residents[frame as usize].history;
            if !history.may_become_candidate() || !may_go(frame) {
                continue;
            }
            if worth < weakest.next {
                self.take(weakest.at, frame, worth);
                weakest = self.candidates.weakest();
                instead = None;
            } else {
                weakest.worth = worth;
                instead = Some(frame);
            }
        }
        if let Some(frame) = instead {
            self.take(weakest.at, frame, weakest.worth);
        }
    }

    #[inline]
    fn take(&mut self, at: usize, frame: Frame, worth: Worth) {
        if let Some(other) = self.candidates.take(at, frame, worth) {
            self.history(other).set(CANDIDATE, false);
        }
        self.history(frame).set(CANDIDATE, true);
    }

    #[inline]
    fn next_worth_less(&self, bound: Worth, frames: Range<Frame>) -> Option<(Frame, Worth)> {
        let values = self.learned.values(self.now, self.asymmetry);
        let residents = &self.residents[frames.start as usize..frames.end as usize];
        for (frame, known) in frames.zip(residents) {
            let worth = values.of(&known.history);
            if worth <= bound.alone() {
                let worth = Worth::new(worth, known.history.referenced_at);
                if worth < bound {
                    return Some((frame, worth));
                }
            }
        }
        None
    }

    /// Looks at the next frames in turn, at each once.
    #[inline]
    fn look_around(&mut self, may_go: impl Fn(Frame) -> bool) {
        let frames = self.residents.len() as Frame;
        let looks = self.looks.min(frames - self.hand);
        self.look_at(self.hand..self.hand + looks, &may_go);
        self.hand += looks;
        if self.hand == frames {
            self.hand = self.looks - looks;
            self.look_at(0..self.hand, may_go);
        }
        // Two to a line.
        for frame in (self.hand..self.hand + self.looks).step_by(2) {
            prefetch_index(&self.residents, frame as usize);
        }
    }

    /// The first from the hand on that may go.
    #[cold]
    fn anybody(&self, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        let frames = self.residents.len() as Frame;
        let mut in_turn = (self.hand..frames).chain(0..self.hand);
        in_turn.find(|&frame| self.residents[frame as usize].history.is(RESIDENT) && may_go(frame))
    }

    /// Takes back a search in vain.
    #[cold]
    fn resume(&mut self, candidates: usize, hand: Frame) {
        self.hand = hand;
        self.candidates.resume(candidates);
        for at in 0..candidates {
            let frame = self.candidates.frame(at);
            self.history(frame).set(CANDIDATE, true);
        }
    }
}

impl Policy for Ebb {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.now += 1;
        let history = &mut self.residents[frame as usize].history;
        self.learned.reference(history, self.now);
        if access.is_write() {
            self.learned.write(history, self.now);
            history.set(DIRTY, true);
        }
    }

    fn wants_every_hit(&self) -> bool {
        false
    }

    #[inline]
    fn left_out(&mut self, hits: u64) {
        self.now += hits;
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        self.now += 1;
        let (mut history, had_ghost) = self.recall(page, ghost);
        if access.is_write() {
            self.learned.write(&mut history, self.now);
        }
        self.incoming = Some((Known { page, history }, had_ghost));
        self.learned.miss(self.now);
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
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let hand = self.hand;
        let candidates = self.candidates.len();
        self.revalue(&may_go);
        self.look_around(&may_go);
        let victim = self.candidates.least().or_else(|| self.anybody(may_go));
        if victim.is_none() {
            self.resume(candidates, hand);
        }
        victim
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        let incoming = self.incoming.take();
        let incoming = incoming.filter(|(known, _)| known.page == page);
        let mut history = match incoming {
            Some((known, true)) => known.history,
            Some((mut known, false)) => {
                if let Some((count, age)) = self.long_gone.take(page, self.now) {
                    let fading = self.learned.counting().fading;
                    known.history.recount(count.referenced(age, fading, true));
                }
                known.history
            }
            None => {
                let mut history = History::new(self.now);
                if access.is_write() {
                    self.learned.write(&mut history, self.now);
                }
                history
            }
        };
        let candidate = self.history(frame).is(CANDIDATE);
        history.set(RESIDENT, true);
        history.set(DIRTY, access.is_write());
        // A frame stays a candidate whatever page is in it: newcomers are looked at again soon.
        history.set(CANDIDATE, candidate);
        self.residents[frame as usize] = Known { page, history };
    }

    fn refused(&mut self) -> Option<Ghost> {
        let (known, had_ghost) = self.incoming.take()?;
        if !had_ghost {
            return None;
        }
        self.ghosts.put(known)
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        if let Some((Known { page, history }, next)) = self.ghosts.make_room() {
            self.learned.forget(&history, self.now);
            let (count, at) = (history.references(), history.referenced_at);
            self.long_gone.put(page, count, at, self.now);
            if let Some(next) = next {
                self.long_gone.prefetch(next);
            }
        }
        self.ghosts.put(self.residents[frame as usize])
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        let history = self.history(frame);
        let candidate = history.is(CANDIDATE);
        *history = History::default();
        history.set(CANDIDATE, candidate);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.history(frame).set(DIRTY, false);
    }

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = asymmetry(costs);
    }
}
