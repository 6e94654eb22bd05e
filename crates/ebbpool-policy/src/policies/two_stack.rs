//! FD-Buffer's Two-Stack estimator and policy advisor (FD-Buffer, sections 4.3 and 4.4;
//! FD-Buffer TC, section 4.3).

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::distances::DistanceStack;
use crate::policy::{Access, Frame, Page};

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
pub(crate) struct TwoStack {
    frames: u32,
    group: u32,
    stacks: [DistanceStack; 2],
    records: Vec<Record>,
    free: Vec<u32>,
    /// Record of the page in each frame, NONE if the page fell off both stacks.
    of_frame: Vec<u32>,
    /// Records of pages that are not resident, by page number.
    ghosts: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The page missed last, until it is admitted.
    pending: u32,
    counters: Counters,
}

const CLEAN: usize = 0;
const DIRTY: usize = 1;

#[derive(Clone, Copy)]
struct Record {
    page: Page,
    frame: u32,
    /// Position in each stack, NONE if it is not there.
    at: [u32; 2],
    threshold: [u32; 2],
}

/// Hits of the current window by the least pool size at which they would have been hits.
struct Counters {
    clean: Vec<u32>,
    dirty: Vec<u32>,
    dirty_writes: Vec<u32>,
    /// Bit b: the counters for Mc = b, or for Md = frames - b + 1, may have changed.
    touched: Vec<u64>,
    references: u64,
    writes: u64,
    dirty_total: u64,
    dirty_writes_total: u64,
    /// (first Mc, estimates, cost) of each stretch of Mc with the same cost; kept for its memory.
    stretches: Vec<Stretch>,
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
        TwoStack {
            frames,
            group: u32::try_from(group).unwrap_or(u32::MAX),
            stacks: [DistanceStack::new(frames), DistanceStack::new(frames)],
            records: Vec::new(),
            free: Vec::new(),
            of_frame: vec![NONE; frames as usize],
            ghosts: HashTable::with_capacity(2 * frames as usize),
            hasher: DefaultHashBuilder::default(),
            pending: NONE,
            counters: Counters {
                clean: vec![0; counters],
                dirty: vec![0; counters],
                dirty_writes: vec![0; counters],
                touched: vec![0; counters / 64 + 1],
                references: 0,
                writes: 0,
                dirty_total: 0,
                dirty_writes_total: 0,
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
    /// has fallen off both stacks.
    #[inline]
    pub(crate) fn observe_hit(&mut self, frame: Frame, pages: &[Page], access: Access) {
        let known = self.of_frame[frame as usize];
        let record = if known == NONE {
            let record = self.new_record(pages[frame as usize], frame);
            self.of_frame[frame as usize] = record;
            record
        } else {
            known
        };
        self.observe(record, access);
    }

    /// Observes a reference to `page`, which is not resident.
    #[inline]
    pub(crate) fn observe_miss(&mut self, page: Page, access: Access) {
        self.settle_pending();
        let hash = self.hasher.hash_one(page);
        let records = &self.records;
        let found = self
            .ghosts
            .find_entry(hash, |&record| records[record as usize].page == page);
        let record = match found {
            Ok(entry) => entry.remove().0,
            Err(_) => self.new_record(page, NONE),
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
            self.records[record as usize].frame = frame;
        }
    }

    /// The page in `frame` left the buffer; the stacks remember it.
    #[inline]
    pub(crate) fn evicted(&mut self, frame: Frame) {
        let record = std::mem::replace(&mut self.of_frame[frame as usize], NONE);
        if record != NONE {
            self.records[record as usize].frame = NONE;
            self.remember(record);
        }
    }

    /// A miss that was never admitted (all frames pinned) becomes a ghost like any other.
    fn settle_pending(&mut self) {
        let record = std::mem::replace(&mut self.pending, NONE);
        if record != NONE {
            self.remember(record);
        }
    }

    fn remember(&mut self, record: u32) {
        let hash = self.hasher.hash_one(self.records[record as usize].page);
        let (records, hasher) = (&self.records, &self.hasher);
        self.ghosts.insert_unique(hash, record, |&record| {
            hasher.hash_one(records[record as usize].page)
        });
    }

    fn new_record(&mut self, page: Page, frame: u32) -> u32 {
        let record = Record {
            page,
            frame,
            at: [NONE; 2],
            threshold: [1; 2],
        };
        match self.free.pop() {
            Some(slot) => {
                self.records[slot as usize] = record;
                slot
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        }
    }

    #[inline]
    fn observe(&mut self, record: u32, access: Access) {
        let Record { at, threshold, .. } = self.records[record as usize];
        let distance = |stack: usize| {
            (at[stack] != NONE).then(|| {
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
                self.take_off(CLEAN, record);
            }
            self.put_on(DIRTY, record, 1);
            return;
        }
        match dirty {
            None => self.put_on(CLEAN, record, 1),
            Some(distance) => {
                let mut least = self.frames - distance + 1;
                if clean.is_some() {
                    least = least.min(threshold[CLEAN]);
                }
                self.put_on(CLEAN, record, least);
                self.put_on(DIRTY, record, threshold[DIRTY].max(distance));
            }
        }
    }

    #[inline]
    fn take_off(&mut self, stack: usize, record: u32) {
        let position = std::mem::replace(&mut self.records[record as usize].at[stack], NONE);
        self.stacks[stack].remove(position);
    }

    /// Puts the record on top of the stack, wherever it was, and drops the entry beyond the last.
    #[inline]
    fn put_on(&mut self, stack: usize, record: u32, threshold: u32) {
        if self.records[record as usize].at[stack] != NONE {
            self.take_off(stack, record);
        }
        if self.stacks[stack].is_used_up() {
            let records = &mut self.records;
            self.stacks[stack].compact(|entry, position| {
                records[entry as usize].at[stack] = position;
            });
        }
        let position = self.stacks[stack].push(record);
        let record = &mut self.records[record as usize];
        record.at[stack] = position;
        record.threshold[stack] = threshold;
        if self.stacks[stack].len() > self.frames
            && let Some(bottom) = self.stacks[stack].bottom()
        {
            self.take_off(stack, bottom);
            if self.records[bottom as usize].at == [NONE; 2] {
                self.forget(bottom);
            }
        }
    }

    fn forget(&mut self, record: u32) {
        let Record { page, frame, .. } = self.records[record as usize];
        if frame != NONE {
            self.of_frame[frame as usize] = NONE;
        } else if self.pending == record {
            self.pending = NONE;
        } else {
            let hash = self.hasher.hash_one(page);
            if let Ok(entry) = self.ghosts.find_entry(hash, |&slot| slot == record) {
                entry.remove();
            }
        }
        self.free.push(record);
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
            self.dirty[size as usize] += 1;
            self.dirty_total += 1;
            if access.is_write() {
                self.dirty_writes[size as usize] += 1;
                self.dirty_writes_total += 1;
            }
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
        let mut dirty_hits = self.dirty_total;
        let mut dirty_write_hits = self.dirty_writes_total;
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
                dirty_hits -= u64::from(self.dirty[beyond]);
                dirty_write_hits -= u64::from(self.dirty_writes[beyond]);
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
                    self.dirty[beyond] = 0;
                    self.dirty_writes[beyond] = 0;
                }
            }
        }
        self.references = 0;
        self.writes = 0;
        self.dirty_total = 0;
        self.dirty_writes_total = 0;
    }
}
