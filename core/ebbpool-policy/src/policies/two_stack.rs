//! FD-Buffer's Two-Stack estimator and policy advisor (FD-Buffer, sections 4.3 and 4.4;
//! FD-Buffer TC, section 4.3).

use prefetch_index::prefetch_index;

use crate::distances::DistanceStack;
use crate::parameters::words;
use crate::policy::{Access, Frame, Ghost, Page};

/// Which form of the average I/O cost the advisor minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostForm {
    /// Pc x Pd x (1 + Pdw x R), as printed (FD-Buffer, equation 4).
    Paper,
    /// (Pc + Pd - 1) + Pdw x R x the share of writes: the pools are disjoint, and there is one
    /// write-back per write that misses the dirty pool.
    Exact,
}

words!(CostForm {
    "paper" => CostForm::Paper,
    "exact" => CostForm::Exact,
});

/// Mattson's stack for two pools that exchange pages.
///
/// Two LRU stacks, of pages read and of pages written, whose entries carry a *threshold*: an
/// entry of the clean stack is in the clean pool iff Mc >= its threshold, one of the dirty stack
/// iff Md >= its own.
///
/// A page's record is stored under its frame while the page is resident, and under its ghost while
/// it is not, so that finding it takes no search. An entry that drops off the bottom of a stack is
/// not marked: its position lies below the bottom from then on. A hand that moves round the ghosts
/// makes room for new ones by reusing those on neither stack.
pub(crate) struct TwoStack {
    frames: u32,
    group: u32,
    stacks: [DistanceStack; 2],
    resident: Vec<Record>,
    /// The page missed last, until it is admitted.
    pending: Option<(Page, Record)>,
    ghosts: Vec<Record>,
    ghost_pages: Vec<Page>,
    /// The ghost that the last search for room ended at.
    hand: usize,
    counters: Counters,
}

const CLEAN: usize = 0;
const DIRTY: usize = 1;

#[derive(Clone, Copy)]
struct Record {
    /// Position in each stack, meaningless if the stack does not hold it.
    at: [u32; 2],
    threshold: [u32; 2],
}

const ON_NEITHER: Record = Record { at: [u32::MAX; 2], threshold: [1; 2] };

/// Hits of the current window by the least pool size at which they would have been hits.
struct Counters {
    clean: Vec<u32>,
    dirty: Vec<DirtyHits>,
    /// Bit b: the counters for Mc = b, or for Md = frames - b + 1, may have changed.
    touched: Vec<u64>,
    references: u64,
    writes: u64,
    dirty_total: DirtyHits,
    /// The ranges of Mc with the same cost; a field so that its memory is reused.
    ranges: Vec<CostRange>,
}

/// Hits in the dirty pool by reads and writes, and by writes alone.
#[derive(Clone, Copy, Default)]
struct DirtyHits {
    all: u32,
    writes: u32,
}

#[derive(Clone, Copy)]
struct CostRange {
    from: u32,
    estimates: [f64; 3],
    cost: f64,
}

impl TwoStack {
    pub(crate) fn new(frames: u32, group: u64) -> Self {
        let counters = frames as usize + 1;
        // The stacks hold at most two pages per frame; the remaining ghosts keep the hand's way
        // short.
        let ghosts = counters / 2 * 5 + 2;
        TwoStack {
            frames,
            group: u32::try_from(group).unwrap_or(u32::MAX),
            stacks: [DistanceStack::new(frames), DistanceStack::new(frames)],
            resident: vec![ON_NEITHER; frames as usize],
            pending: None,
            ghosts: vec![ON_NEITHER; ghosts],
            ghost_pages: vec![0; ghosts],
            hand: 0,
            counters: Counters {
                clean: vec![0; counters],
                dirty: vec![DirtyHits::default(); counters],
                touched: vec![0; counters / 64 + 1],
                references: 0,
                writes: 0,
                dirty_total: DirtyHits::default(),
                ranges: Vec::new(),
            },
        }
    }

    /// A stack pair that stores the records of all pages: no page is resident, and
    /// [`Self::observe_hit`] takes the number of any page as its frame.
    pub(crate) fn of_pages(frames: u32) -> Self {
        TwoStack { resident: Vec::new(), ghosts: Vec::new(), ghost_pages: Vec::new(), ..TwoStack::new(frames, 1) }
    }

    /// Makes room for as many ranges as there may be.
    pub(crate) fn reserve(&mut self) {
        self.counters.ranges.reserve_exact(self.frames as usize + 1);
    }

    /// Every ghost is below it.
    pub(crate) fn most_ghosts(&self) -> u32 {
        self.ghosts.len() as u32
    }

    /// Makes room for the page's record.
    #[inline]
    pub(crate) fn grow_to(&mut self, page: Frame) {
        if page as usize >= self.resident.len() {
            self.resident.resize(page as usize + 1, ON_NEITHER);
        }
    }

    /// Pages in the dirty pool, by the least Md at which they are in it.
    pub(crate) fn dirty_pages(&self) -> Vec<u64> {
        let mut pages = vec![0; self.frames as usize + 1];
        let stack = &self.stacks[DIRTY];
        for record in &self.resident {
            if stack.holds(record.at[DIRTY]) {
                let distance = stack.distance(record.at[DIRTY]);
                pages[distance.max(record.threshold[DIRTY]) as usize] += 1;
            }
        }
        pages
    }

    /// The hits of the current window: in the clean pool by the least Mc, in the dirty pool by the
    /// least Md, and by writes in the dirty pool by the least Md. Starts a new window.
    pub(crate) fn take_hits(&mut self) -> [Vec<u32>; 3] {
        let dirty = self.counters.dirty.iter();
        let hits = [
            self.counters.clean.clone(),
            dirty.clone().map(|hits| hits.all).collect(),
            dirty.map(|hits| hits.writes).collect(),
        ];
        self.counters.restart(self.frames);
        hits
    }

    /// References observed in the current window.
    #[inline]
    pub(crate) fn references(&self) -> u64 {
        self.counters.references
    }

    /// Observes a reference to the page in `frame`.
    #[inline]
    pub(crate) fn observe_hit(&mut self, frame: Frame, access: Access) {
        let record = self.observe(self.resident[frame as usize], access);
        self.resident[frame as usize] = record;
    }

    /// From now on the page of `frame` counts as present in the pools of both stacks that hold it,
    /// whatever their sizes.
    pub(crate) fn drop_conditions(&mut self, frame: Frame) {
        self.resident[frame as usize].threshold = [1; 2];
    }

    /// Observes a reference to `page`, which is not resident.
    #[inline]
    pub(crate) fn observe_miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        let record = match ghost {
            Some(ghost) if self.ghost_pages[ghost as usize] == page => {
                std::mem::replace(&mut self.ghosts[ghost as usize], ON_NEITHER)
            }
            _ => ON_NEITHER,
        };
        let record = self.observe(record, access);
        self.pending = Some((page, record));
    }

    /// The page missed last was admitted to `frame`.
    #[inline]
    pub(crate) fn admitted(&mut self, frame: Frame) {
        let pending = self.pending.take();
        self.resident[frame as usize] = pending.map_or(ON_NEITHER, |(_, record)| record);
    }

    /// The page missed last was not admitted; the stacks remember it.
    pub(crate) fn not_admitted(&mut self) -> Option<Ghost> {
        let (page, record) = self.pending.take()?;
        self.store(page, record)
    }

    /// `page` is about to be evicted from `frame`; the stacks remember it.
    #[inline]
    pub(crate) fn remember(&mut self, frame: Frame, page: Page) -> Option<Ghost> {
        self.store(page, self.resident[frame as usize])
    }

    #[inline]
    pub(crate) fn prefetch(&self, frame: Frame) {
        self.prefetch_stacks(&self.resident[frame as usize]);
    }

    /// Prefetches what [`Self::remember`] will read.
    #[inline]
    pub(crate) fn prefetch_remember(&self, frame: Frame) {
        prefetch_index(&self.resident, frame as usize);
    }

    #[inline]
    pub(crate) fn prefetch_ghost(&self, ghost: Ghost) {
        prefetch_index(&self.ghost_pages, ghost as usize);
        self.prefetch_stacks(&self.ghosts[ghost as usize]);
    }

    #[inline]
    fn prefetch_stacks(&self, record: &Record) {
        for (stack, &at) in self.stacks.iter().zip(&record.at) {
            stack.prefetch(at);
        }
    }

    #[inline]
    fn is_on_neither(&self, record: &Record) -> bool {
        !self.stacks[CLEAN].holds(record.at[CLEAN]) && !self.stacks[DIRTY].holds(record.at[DIRTY])
    }

    #[inline]
    fn store(&mut self, page: Page, record: Record) -> Option<Ghost> {
        if self.is_on_neither(&record) {
            return None;
        }
        loop {
            self.hand += 1;
            if self.hand == self.ghosts.len() {
                self.hand = 0;
            }
            if self.is_on_neither(&self.ghosts[self.hand]) {
                break;
            }
        }
        self.ghosts[self.hand] = record;
        self.ghost_pages[self.hand] = page;
        Some(self.hand as Ghost)
    }

    #[inline]
    fn observe(&mut self, mut record: Record, access: Access) -> Record {
        let Record { at, threshold } = record;
        let on_stack = [CLEAN, DIRTY].map(|stack| self.stacks[stack].holds(at[stack]));
        let distance = |stack: usize| {
            let exact = self.stacks[stack].distance(at[stack]);
            match self.group {
                1 => exact,
                group => exact - (exact - 1) % group,
            }
        };
        let [clean, dirty] = [CLEAN, DIRTY].map(|stack| on_stack[stack].then(|| distance(stack)));
        self.counters.count(
            self.frames,
            clean.map(|distance| distance.max(threshold[CLEAN])),
            dirty.map(|distance| distance.max(threshold[DIRTY])),
            access,
        );
        record.threshold = [1, 1];
        if access.is_write() {
            if on_stack[CLEAN] {
                self.stacks[CLEAN].remove(at[CLEAN]);
                record.at[CLEAN] = u32::MAX;
            }
            self.put_on_top(DIRTY, &mut record, on_stack[DIRTY]);
        } else {
            if let Some(distance) = dirty {
                let least = self.frames - distance + 1;
                record.threshold[CLEAN] = match clean {
                    Some(_) => least.min(threshold[CLEAN]),
                    None => least,
                };
                record.threshold[DIRTY] = threshold[DIRTY].max(distance);
                self.put_on_top(DIRTY, &mut record, true);
            }
            self.put_on_top(CLEAN, &mut record, on_stack[CLEAN]);
        }
        record
    }

    /// The record's position on top of the stack; drops the entry beyond the last if the stack
    /// did not hold the record.
    #[inline]
    fn put_on_top(&mut self, stack: usize, record: &mut Record, on_stack: bool) {
        if self.stacks[stack].is_used_up() {
            self.compact(stack, record);
        }
        let stack_of = &mut self.stacks[stack];
        record.at[stack] = if on_stack {
            stack_of.raise(record.at[stack])
        } else {
            if stack_of.len() == self.frames {
                stack_of.drop_bottom();
            }
            stack_of.push()
        };
    }

    /// Makes room at the top of the stack. `observed` is stored nowhere else.
    #[cold]
    fn compact(&mut self, stack: usize, observed: &mut Record) {
        let records = self.resident.iter_mut().chain(&mut self.ghosts);
        let records = records.chain([observed]);
        self.stacks[stack].compact(records.map(|record| &mut record.at[stack]));
    }

    /// The clean-pool size that would have been cheapest over the window, with the estimates
    /// Pc, Pd, Pdw at that size; `None` with a single frame. Starts a new window.
    pub(crate) fn advise(&mut self, current: u32, asymmetry: f64, form: CostForm) -> Option<(u32, [f64; 3])> {
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

    /// Costs for each Mc from 1 to frames - 1, one entry per range over which nothing changes.
    fn evaluate(&mut self, frames: u32, asymmetry: f64, form: CostForm) {
        self.ranges.clear();
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
                let pdw = if self.writes == 0 { 0.0 } else { 1.0 - dirty_write_hits as f64 / writes };
                let cost = match form {
                    CostForm::Paper => pc * pd * (1.0 + pdw * asymmetry),
                    CostForm::Exact => (pc + pd - 1.0) + pdw * asymmetry * (writes / references),
                };
                self.ranges.push(CostRange { from: size, estimates: [pc, pd, pdw], cost });
            }
        }
    }

    fn cheapest(&self, current: u32) -> Option<(u32, [f64; 3])> {
        let least = self.ranges.iter().map(|s| s.cost).reduce(f64::min)?;
        let tolerance = 1e-12 * least.abs().max(1.0);
        let is_least = |range: &&CostRange| range.cost - least <= tolerance;
        let at = self.ranges.partition_point(|s| s.from <= current);
        let store = at.checked_sub(1).map(|at| &self.ranges[at]);
        match store.filter(is_least) {
            Some(range) => Some((current, range.estimates)),
            None => {
                let first = self.ranges.iter().find(is_least)?;
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
