//! The duel of ebb and LRU: which of them chooses the victims.

use std::collections::BTreeSet;

use super::{History, Rank};

/// Pages in the sample on average, and frames of a miniature at most.
const SAMPLED: usize = 128;
const FRAMES: usize = 192;
/// What an event leaves of the sums before it.
const KEEP: f64 = 1.0 - 1.0 / 512.0;

pub(super) struct Duel {
    /// Of `share.1` pages, `share.0` are in the sample.
    share: (u64, u64),
    /// The pages of the sample in the pool.
    resident: BTreeSet<u64>,
    ebb: Pool,
    lru: Pool,
    bill_of_ebb: f64,
    bill_of_lru: f64,
    squares: f64,
    pub(super) lru_leads: bool,
}

/// A page of a miniature, with its history of its last reference.
struct Sampled {
    page: u64,
    history: History,
    dirty: bool,
}

/// A miniature: its pages.
struct Pool {
    pages: Vec<Sampled>,
}

impl Duel {
    pub(super) fn new(m: usize, lru_leads: bool) -> Duel {
        let pool = || Pool { pages: Vec::new() };
        Duel {
            share: (m.min(SAMPLED) as u64, m as u64),
            resident: BTreeSet::new(),
            ebb: pool(),
            lru: pool(),
            bill_of_ebb: 0.0,
            bill_of_lru: 0.0,
            squares: 0.0,
            lru_leads,
        }
    }

    /// All pages are in the sample if the miniatures are as large as the pool; else those with the lowest hashes.
    fn samples(&self, page: u64) -> bool {
        let (sampled, all) = self.share;
        sampled == all || hash(page) <= u64::MAX / all * sampled
    }

    /// The pool has a page from now on, or no longer.
    pub(super) fn resident(&mut self, page: u64, is_resident: bool) {
        if !is_resident {
            self.resident.remove(&page);
        } else if self.samples(page) {
            self.resident.insert(page);
        }
    }

    /// Frames of a miniature: as many as the pool has pages of the sample.
    fn frames(&self) -> usize {
        self.resident.len().clamp(1, FRAMES)
    }

    /// The pool has evicted a page.
    pub(super) fn evict(&mut self, rank_of_ebb: impl Fn(&History, bool) -> Rank, rank_of_lru: impl Fn(&History, bool) -> Rank) {
        let frames = self.frames();
        self.ebb.shrink(frames, rank_of_ebb);
        self.lru.shrink(frames, rank_of_lru);
    }

    /// A page was referenced; ranks are those of ebb and of LRU for a history, and whether the page is dirty.
    pub(super) fn reference(
        &mut self,
        (page, write): (u64, bool),
        history: History,
        asymmetry: f64,
        rank_of_ebb: impl Fn(&History, bool) -> Rank,
        rank_of_lru: impl Fn(&History, bool) -> Rank,
    ) {
        if !self.samples(page) {
            return;
        }
        let cost = |(read, dirtied): (bool, bool)| f64::from(u8::from(read)) + if dirtied { asymmetry } else { 0.0 };
        let frames = self.frames();
        let referenced = (page, write, history);
        let ebb = cost(self.ebb.reference(referenced, frames, rank_of_ebb));
        let lru = cost(self.lru.reference(referenced, frames, rank_of_lru));
        if ebb == 0.0 && lru == 0.0 {
            return;
        }
        let difference = ebb - lru;
        self.bill_of_ebb = KEEP * self.bill_of_ebb + ebb;
        self.bill_of_lru = KEEP * self.bill_of_lru + lru;
        self.squares = KEEP * self.squares + difference * difference;
        let more = self.bill_of_ebb - self.bill_of_lru;
        if self.lru_leads {
            self.lru_leads = more >= -0.5 * self.squares.sqrt();
        } else {
            self.lru_leads = more > 0.02 * self.bill_of_lru + 2.0 * self.squares.sqrt();
        }
    }
}

impl Pool {
    /// Whether the page was read, and whether it became dirty.
    fn reference(
        &mut self,
        (page, write, history): (u64, bool, History),
        frames: usize,
        rank: impl Fn(&History, bool) -> Rank,
    ) -> (bool, bool) {
        let resident = self.pages.iter_mut().find(|it| it.page == page);
        if let Some(resident) = resident {
            let dirtied = write && !resident.dirty;
            resident.history = history;
            resident.dirty |= write;
            return (false, dirtied);
        }
        self.shrink(frames - 1, rank);
        self.pages.push(Sampled { page, history, dirty: write });
        (true, write)
    }

    /// Evicts the pages of least rank beyond that number.
    fn shrink(&mut self, most: usize, rank: impl Fn(&History, bool) -> Rank) {
        while self.pages.len() > most {
            let ranks = self.pages.iter().map(|it| rank(&it.history, it.dirty));
            let least = ranks.enumerate().min_by_key(|(_, rank)| *rank);
            self.pages.remove(least.expect("a page").0);
        }
    }
}

/// SplitMix64 of the page.
fn hash(page: u64) -> u64 {
    let mut z = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
