//! FD-Buffer's Two-Stack estimator and policy advisor (FD-Buffer, sections 4.3 and 4.4;
//! FD-Buffer TC, section 4.3).

use crate::distances::DistanceStack;
use crate::policy::{Access, Frame, Ghost, Page};

const NONE: u32 = u32::MAX;

/// Which form of the average I/O cost the advisor minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostForm {
    /// Pc x Pd x (1 + Pdw x R), as printed (FD-Buffer, equation 4).
    Paper,
    /// (Pc + Pd - 1) + Pdw x R x the share of writes: the pools are disjoint, and dirty pages
    /// leave once per write that misses the dirty pool.
    Exact,
}

/// Mattson's stack for two pools that exchange pages.
///
/// Two LRU stacks, of pages read and of pages written, whose entries carry a *threshold*: an
/// entry of the clean stack is in the clean pool iff Mc >= its threshold, one of the dirty stack
/// iff Md >= its own.
///
/// Each page in a stack has a record. A page's record is known by its frame while it is resident
/// and is its ghost while it is not, so no page is ever searched for. What falls off the bottom of
/// a stack is not told so: its position lies below the stack's bottom from then on. Records of
/// pages on neither stack are found again by a hand that goes round them.
pub(crate) struct TwoStack {
    frames: u32,
    group: u32,
    stacks: [DistanceStack; 2],
    records: Vec<Record>,
    owners: Vec<Owner>,
    /// The record looked at last when one was wanted.
    hand: u32,
    /// Record of the page in each frame, NONE if another page has it by now.
    of_frame: Vec<u32>,
    /// The record of the page missed last, until that is admitted.
    pending: u32,
    counters: Counters,
}

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// What every reference looks at.
#[derive(Clone, Copy)]
struct Record {
    /// Position in each stack, meaningless if the stack does not hold it.
    at: [u32; 2],
    threshold: [u32; 2],
}

const ON_NEITHER: Record = Record {
    at: [NONE; 2],
    threshold: [1; 2],
};

/// Whose record it is: looked at on a miss, and when the record changes hands.
#[derive(Clone, Copy)]
struct Owner {
    page: Page,
    /// The frame the page was in last.
    frame: u32,
}

/// Hits of the current window by the least pool size at which they would have been hits.
struct Counters {
    clean: Vec<u32>,
    dirty: Vec<DirtyHits>,
    /// Bit b: the counters for Mc = b, or for Md = frames - b + 1, may have changed.
    touched: Vec<u64>,
    references: u64,
    writes: u64,
    dirty_total: DirtyHits,
    /// (first Mc, estimates, cost) of each stretch of Mc with the same cost; kept for its memory.
    stretches: Vec<Stretch>,
}

/// Hits in the dirty pool by reads and writes, and by writes alone.
#[derive(Clone, Copy, Default)]
struct DirtyHits {
    all: u32,
    writes: u32,
}

#[derive(Clone, Copy)]
struct Stretch {
    from: u32,
    estimates: [f64; 3],
    cost: f64,
}

impl TwoStack {
    pub(crate) fn new(frames: u32, group: u64) -> Self {
        let counters = frames as usize + 1;
        // The stacks hold two pages a frame at most; the rest keeps the hand's way short.
        let records = counters / 2 * 5 + 2;
        TwoStack {
            frames,
            group: u32::try_from(group).unwrap_or(u32::MAX),
            stacks: [DistanceStack::new(frames), DistanceStack::new(frames)],
            records: vec![ON_NEITHER; records],
            owners: vec![
                Owner {
                    page: 0,
                    frame: NONE
                };
                records
            ],
            hand: 0,
            of_frame: vec![NONE; frames as usize],
            pending: NONE,
            counters: Counters {
                clean: vec![0; counters],
                dirty: vec![DirtyHits::default(); counters],
                touched: vec![0; counters / 64 + 1],
                references: 0,
                writes: 0,
                dirty_total: DirtyHits::default(),
                stretches: Vec::new(),
            },
        }
    }

    /// References observed in the current window.
    #[inline]
    pub(crate) fn references(&self) -> u64 {
        self.counters.references
    }

    /// Observes a reference to the page in `frame`, which is `pages[frame]`: asked only if the page
    /// has fallen off both stacks and lost its record.
    #[inline]
    pub(crate) fn observe_hit(&mut self, frame: Frame, pages: &[Page], access: Access) {
        let mut record = self.of_frame[frame as usize];
        if record == NONE {
            record = self.new_record(Owner {
                page: pages[frame as usize],
                frame,
            });
            self.of_frame[frame as usize] = record;
        }
        self.observe(record, access);
    }

    /// Observes a reference to `page`, which is not resident.
    #[inline]
    pub(crate) fn observe_miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        let record = match ghost {
            Some(record) if self.owners[record as usize].page == page => record,
            _ => self.new_record(Owner { page, frame: NONE }),
        };
        self.pending = record;
        self.observe(record, access);
    }

    /// The page missed last was brought into `frame`.
    #[inline]
    pub(crate) fn admitted(&mut self, frame: Frame) {
        let record = std::mem::replace(&mut self.pending, NONE);
        self.of_frame[frame as usize] = record;
        if record != NONE {
            self.owners[record as usize].frame = frame;
        }
    }

    /// The page missed last was not brought in; the stacks remember it.
    pub(crate) fn refused(&mut self) -> Option<Ghost> {
        let record = std::mem::replace(&mut self.pending, NONE);
        (record != NONE).then_some(record)
    }

    /// The record of the page in `frame`.
    #[inline]
    pub(crate) fn ghost(&self, frame: Frame) -> Option<Ghost> {
        let record = self.of_frame[frame as usize];
        (record != NONE).then_some(record)
    }

    /// The page in `frame` left the buffer.
    #[inline]
    pub(crate) fn evicted(&mut self, frame: Frame) {
        self.of_frame[frame as usize] = NONE;
    }

    /// Takes the record of a page on neither stack for another page.
    #[inline]
    fn new_record(&mut self, owner: Owner) -> u32 {
        loop {
            self.hand += 1;
            if self.hand as usize == self.records.len() {
                self.hand = 0;
            }
            let at = self.records[self.hand as usize].at;
            if !self.stacks[CLEAN].holds(at[CLEAN]) && !self.stacks[DIRTY].holds(at[DIRTY]) {
                break;
            }
        }
        let record = self.hand;
        let before = std::mem::replace(&mut self.owners[record as usize], owner);
        if before.frame != NONE && self.of_frame[before.frame as usize] == record {
            self.of_frame[before.frame as usize] = NONE;
        }
        self.records[record as usize] = ON_NEITHER;
        record
    }

    #[inline]
    fn observe(&mut self, record: u32, access: Access) {
        let Record { at, threshold } = self.records[record as usize];
        let distance = |stack: usize| {
            self.stacks[stack].holds(at[stack]).then(|| {
                let exact = self.stacks[stack].distance(at[stack]);
                if self.group == 1 {
                    exact
                } else {
                    exact - (exact - 1) % self.group
                }
            })
        };
        let clean = distance(CLEAN);
        let dirty = distance(DIRTY);
        self.counters.count(
            self.frames,
            clean.map(|distance| distance.max(threshold[CLEAN])),
            dirty.map(|distance| distance.max(threshold[DIRTY])),
            access,
        );
        if access.is_write() {
            if clean.is_some() {
                self.stacks[CLEAN].remove(at[CLEAN]);
                self.records[record as usize].at[CLEAN] = NONE;
            }
            self.put_on(DIRTY, record, dirty.is_some(), 1);
            return;
        }
        match dirty {
            None => self.put_on(CLEAN, record, clean.is_some(), 1),
            Some(distance) => {
                let mut least = self.frames - distance + 1;
                if clean.is_some() {
                    least = least.min(threshold[CLEAN]);
                }
                self.put_on(CLEAN, record, clean.is_some(), least);
                self.put_on(DIRTY, record, true, threshold[DIRTY].max(distance));
            }
        }
    }

    /// Puts the record on top of the stack, which `held` it or not, and drops the entry beyond the
    /// last.
    #[inline]
    fn put_on(&mut self, stack: usize, record: u32, held: bool, threshold: u32) {
        if self.stacks[stack].is_used_up() {
            let positions = self.records.iter_mut().map(|record| &mut record.at[stack]);
            self.stacks[stack].compact(positions);
        }
        let entry = &mut self.records[record as usize];
        let stack_of = &mut self.stacks[stack];
        if held {
            stack_of.remove(entry.at[stack]);
        } else if stack_of.len() == self.frames {
            stack_of.drop_bottom();
        }
        entry.at[stack] = stack_of.push();
        entry.threshold[stack] = threshold;
    }

    /// The clean-pool size that would have been cheapest over the window, with the estimates
    /// Pc, Pd, Pdw at that size; `None` with a single frame. Starts a new window.
    pub(crate) fn advise(
        &mut self,
        current: u32,
        asymmetry: f64,
        form: CostForm,
    ) -> Option<(u32, [f64; 3])> {
        self.counters.evaluate(self.frames, asymmetry, form);
        let advice = self.counters.cheapest(current);
        self.counters.restart(self.frames);
        advice
    }
}

impl DirtyHits {
    #[inline]
    fn add(&mut self, access: Access) {
        self.all += 1;
        self.writes += u32::from(access.is_write());
    }
}

impl Counters {
    #[inline]
    fn count(&mut self, frames: u32, clean: Option<u32>, dirty: Option<u32>, access: Access) {
        self.references += 1;
        self.writes += u64::from(access.is_write());
        if let Some(size) = clean {
            self.clean[size as usize] += 1;
            self.touch(size);
        }
        if let Some(size) = dirty {
            self.dirty[size as usize].add(access);
            self.dirty_total.add(access);
            self.touch(frames - size + 1);
        }
    }

    #[inline]
    fn touch(&mut self, clean_size: u32) {
        self.touched[clean_size as usize / 64] |= 1 << (clean_size % 64);
    }

    /// Costs for each Mc from 1 to frames - 1, one entry per stretch over which nothing changes.
    fn evaluate(&mut self, frames: u32, asymmetry: f64, form: CostForm) {
        self.stretches.clear();
        self.touch(1);
        let references = self.references as f64;
        let writes = self.writes as f64;
        let mut clean_hits = 0;
        let mut dirty_hits = u64::from(self.dirty_total.all);
        let mut dirty_write_hits = u64::from(self.dirty_total.writes);
        for word in 0..self.touched.len() {
            let mut bits = self.touched[word];
            while bits != 0 {
                let size = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if size >= frames {
                    return;
                }
                clean_hits += u64::from(self.clean[size as usize]);
                let beyond = (frames - size + 1) as usize;
                let lost = self.dirty[beyond];
                dirty_hits -= u64::from(lost.all);
                dirty_write_hits -= u64::from(lost.writes);
                let pc = 1.0 - clean_hits as f64 / references;
                let pd = 1.0 - dirty_hits as f64 / references;
                let pdw = if self.writes == 0 {
                    0.0
                } else {
                    1.0 - dirty_write_hits as f64 / writes
                };
                let cost = match form {
                    CostForm::Paper => pc * pd * (1.0 + pdw * asymmetry),
                    CostForm::Exact => (pc + pd - 1.0) + pdw * asymmetry * (writes / references),
                };
                self.stretches.push(Stretch {
                    from: size,
                    estimates: [pc, pd, pdw],
                    cost,
                });
            }
        }
    }

    fn cheapest(&self, current: u32) -> Option<(u32, [f64; 3])> {
        let least = self.stretches.iter().map(|s| s.cost).reduce(f64::min)?;
        let tolerance = 1e-12 * least.abs().max(1.0);
        let is_least = |stretch: &&Stretch| stretch.cost - least <= tolerance;
        let at = self.stretches.partition_point(|s| s.from <= current);
        let keep = at.checked_sub(1).map(|at| &self.stretches[at]);
        match keep.filter(is_least) {
            Some(stretch) => Some((current, stretch.estimates)),
            None => {
                let first = self.stretches.iter().find(is_least)?;
                Some((first.from, first.estimates))
            }
        }
    }

    fn restart(&mut self, frames: u32) {
        for word in 0..self.touched.len() {
            let mut bits = std::mem::take(&mut self.touched[word]);
            while bits != 0 {
                let size = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                self.clean[size as usize] = 0;
                let beyond = (frames - size + 1) as usize;
                if beyond <= frames as usize {
                    self.dirty[beyond] = DirtyHits::default();
                }
            }
        }
        self.references = 0;
        self.writes = 0;
        self.dirty_total = DirtyHits::default();
    }
}
