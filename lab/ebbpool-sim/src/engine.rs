//! The driver of one policy over a trace.

use std::sync::Arc;

use hashbrown::HashMap;
use prefetch_index::prefetch_index;
use serde::{Deserialize, Serialize};

use ebbpool_policy::{
    Access, BackgroundWrite, BackgroundWriter, Capabilities, Costs, Driver, Frame, Gauges, Ghost, MOST_GHOSTS, MissScratch,
    NextUse, PageClass, PageProbabilities, Policy, RecordedRequest,
};
use ebbpool_trace::OptionalColumns;

use crate::future::Future;
use crate::observer::{Observer, SAMPLE_EVERY, Sample};
use crate::time_line::TimeLine;

/// The treatment of the pages that are dirty when the trace ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtEnd {
    /// They are left unwritten and counted apart (FD-Buffer's convention).
    Free,
    /// They are written, in order of page number, and counted, because a write that a policy has put off is owed (AD-LRU's
    /// convention); those that were dirty when the counting began are subtracted.
    #[default]
    Flush,
}

impl AtEnd {
    /// The name, as in `--at-end`.
    pub fn name(self) -> &'static str {
        match self {
            AtEnd::Free => "free",
            AtEnd::Flush => "flush",
        }
    }
}

/// The counts of a run, without the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// References, hits and misses together.
    pub references: u64,
    /// References to pages that were not resident, each one page read but for the `overwrites`.
    pub misses: u64,
    /// Those of the misses that write all of their page, and read nothing.
    #[serde(default)]
    pub overwrites: u64,
    /// Dirty pages that a trim has ended, and that are never written.
    #[serde(default)]
    pub trimmed: u64,
    /// Pages read only because their block was to be written whole (BPLRU); not among the misses.
    #[serde(default)]
    pub padding_reads: u64,
    /// Page writes; with [`AtEnd::Flush`] less those of `dirty_before`.
    pub writes: u64,
    /// Dirty pages resident at the end and not written.
    pub dirty_left: u64,
    /// Pages that the end has written, of those that were resident and dirty, also those of `dirty_before`.
    #[serde(default)]
    pub end_writes: u64,
    /// Pages that were dirty when the counting began, and that no trim has ended since. Each is written after that, or still dirty at
    /// the end.
    #[serde(default)]
    pub dirty_before: u64,
    /// Writes to another cluster than the write before, the first included (PPE).
    pub cluster_switches: u64,
    /// Pages that the server's background writer cleaned and that stay resident, also those of `dirty_before`.
    #[serde(default)]
    pub background_writes: u64,
    /// Pages that checkpoints wrote, or the server's commits, also those of `dirty_before`.
    #[serde(default)]
    pub checkpoint_writes: u64,
}

impl Counts {
    /// References to resident pages.
    pub fn hits(&self) -> u64 {
        self.references - self.misses
    }

    /// Pages read for misses.
    pub fn reads(&self) -> u64 {
        self.misses - self.overwrites
    }
}

/// References of a trace with dense page numbers; see [`ebbpool_trace::Ids`].
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'a> {
    /// Page number << 1 | write.
    pub(crate) references: &'a [u32],
    /// The position of the first of them.
    pub(crate) start: usize,
    /// The future after each reference of the trace, or `None` if no policy needs it. Policies that do not ask for it do not learn it.
    pub(crate) future: Option<&'a Future>,
    /// The page of each dense number.
    pub(crate) pages: &'a [u64],
    /// The class of each dense number; empty if the trace has no classes, or no policy asks for them.
    pub(crate) classes: &'a [PageClass],
    /// The time and ring of each reference; empty if the trace has none, or no policy asks for them.
    pub(crate) requests: &'a [RecordedRequest],
    /// The positions before which there is a checkpoint, ascending, from `start` to the end of the chunk. That at the end is
    /// before a reference that belongs to another part of a sample.
    pub(crate) checkpoints: &'a [usize],
    /// True where a reference writes all of its page; references behind the end do not.
    pub(crate) whole: &'a [bool],
    /// The dense numbers of the pages that end, each before the reference at a position, in order; an end is before a checkpoint at
    /// the same position. A later reference is to a new page of the same number.
    pub(crate) ends: &'a [(usize, u32)],
    /// The trims that end them: position, first page, and last page.
    pub(crate) trims: &'a [(usize, u64, u64)],
}

/// The number of references whose memory is prefetched together.
const LOOKAHEAD: usize = 32;

/// The number of writes whose clusters are looked up together, since a page number is seldom in the
/// cache when the page is written back.
const WRITES_TOGETHER: usize = 64;

/// The parameters of a run besides policy and trace.
pub(crate) struct RunParameters {
    pub(crate) frames: u32,
    pub(crate) asymmetry: f64,
    pub(crate) warmup: u64,
    pub(crate) cluster_size: u64,
    pub(crate) at_end: AtEnd,
    /// The number of pages of the database, as far as it is known; padding reads no page beyond.
    pub(crate) pages: u64,
    /// The prices for a policy that is guided by prices.
    pub(crate) prices: Option<Arc<[f64]>>,
    /// The probabilities for a policy that knows them.
    pub(crate) probabilities: Option<Arc<PageProbabilities>>,
}

/// The page table's entry of a page: its frame, its ghost, or neither.
#[derive(Clone, Copy)]
struct PageEntry(u32);

impl PageEntry {
    const NOWHERE: PageEntry = PageEntry(u32::MAX);

    #[inline]
    fn resident(frame: Frame) -> Self {
        PageEntry(frame)
    }

    #[inline]
    fn remembered(ghost: Option<Ghost>) -> Self {
        ghost.map_or(PageEntry::NOWHERE, |ghost| PageEntry(MOST_GHOSTS | ghost))
    }

    #[inline]
    fn frame(self) -> Option<Frame> {
        (self.0 < MOST_GHOSTS).then_some(self.0)
    }

    #[inline]
    fn ghost(self) -> Option<Ghost> {
        (self.0 != u32::MAX && self.0 >= MOST_GHOSTS).then_some(self.0 & (MOST_GHOSTS - 1))
    }
}

/// The run of one policy over the trace.
pub(crate) struct Engine<P, O> {
    policy: P,
    observer: O,
    run: Run,
}

/// What every run has, whatever its policy: page table, frames and counts. Code that needs nothing else stands here, so that it
/// is compiled once and not for each policy.
struct Run {
    setup: RunParameters,
    /// By dense page number.
    table: Vec<PageEntry>,
    /// Dense page number << 1 | dirty of the page in each frame.
    occupants: Vec<u32>,
    companions: MissScratch,
    /// The pages that the policy's background processes write next; empty between references.
    background: Vec<BackgroundWrite>,
    free: Vec<Frame>,
    /// The frames of resident pages by page number, for policies that ask for erase counts.
    frame_of: HashMap<u64, Frame>,
    /// Pages that the device has moved.
    moved: Vec<u64>,
    served: u64,
    dirty: u64,
    /// By dense number, true for pages that were dirty when the counting began and were not written since; empty without a
    /// warm-up.
    owed: Vec<bool>,
    /// Hits of clean pages; counted for a listener only.
    clean_hits: u64,
    /// Dense numbers of the written pages whose cluster switches are not yet counted.
    written: Vec<u32>,
    last_cluster: Option<u64>,
    counts: Counts,
}

/// An [`Engine`] behind dynamic dispatch, one call per chunk.
pub(crate) trait RunningEngine: Send {
    fn advance(&mut self, chunk: &Chunk);
    /// Serves the references of a chunk, and adds a moment to `line` every 1,000 references of the trace.
    fn advance_sampled(&mut self, chunk: &Chunk, line: &mut TimeLine);
    /// Ends the warm-up now, whatever its configured length.
    fn start_counting(&mut self, pages: &[u64]);
    /// The columns of the trace that the policy asks for.
    fn columns(&self) -> OptionalColumns;
    fn finish(&mut self, pages: &[u64]) -> Counts;
}

/// A block that is written whole, in ascending order of pages.
struct WholeBlock {
    /// The pages that must be read first.
    missing: Vec<u64>,
    pages: Vec<u64>,
}

// What an engine calls seldom is not inlined into the engine of each policy.
impl Run {
    /// Before the first reference.
    #[inline(never)]
    fn new(setup: RunParameters) -> Self {
        Run {
            table: Vec::new(),
            occupants: Vec::with_capacity(setup.frames as usize),
            companions: MissScratch::default(),
            background: Vec::new(),
            free: Vec::new(),
            frame_of: HashMap::new(),
            moved: Vec::new(),
            served: 0,
            dirty: 0,
            owed: Vec::new(),
            clean_hits: 0,
            written: Vec::new(),
            last_cluster: None,
            counts: Counts::default(),
            setup,
        }
    }

    /// The frames of the dirty pages, in order of page number.
    #[inline(never)]
    fn dirty_frames(&self, pages: &[u64]) -> Vec<Frame> {
        let occupants = self.occupants.iter().zip(0..);
        let dirty = occupants.filter(|&(&occupant, frame)| {
            let entry = self.table[(occupant >> 1) as usize];
            occupant & 1 == 1 && entry.frame() == Some(frame)
        });
        let mut frames: Vec<Frame> = dirty.map(|(_, frame)| frame).collect();
        frames.sort_unstable_by_key(|&frame| self.page_in(frame, pages));
        frames
    }

    /// The dirty pages in ascending order.
    #[inline(never)]
    fn dirty_pages(&self, pages: &[u64]) -> Vec<u64> {
        let frames = self.dirty_frames(pages).into_iter();
        frames.map(|frame| self.page_in(frame, pages)).collect()
    }

    /// The page in a frame that has one.
    fn page_in(&self, frame: Frame, pages: &[u64]) -> u64 {
        pages[(self.occupants[frame as usize] >> 1) as usize]
    }

    /// The block of `victim`, whose pages in frames are clean from here on; `None` if all of them were. `exist` is the number of
    /// pages of the database.
    #[inline(never)]
    fn clean_block(&mut self, block: u64, victim: Frame, others: &[Frame], pages: &[u64], exist: u64) -> Option<WholeBlock> {
        let all = || others.iter().chain([&victim]).copied();
        let dirty = |frame: Frame| self.occupants[frame as usize] & 1;
        let dirty: u64 = all().map(|frame| u64::from(dirty(frame))).sum();
        if dirty == 0 {
            return None;
        }
        let mut resident: Vec<u64> = all().map(|frame| self.page_in(frame, pages)).collect();
        resident.sort_unstable();
        let first = self.page_in(victim, pages) / block * block;
        let last = first.saturating_add(block - 1);
        let missing: Vec<u64> = (first..=last)
            .take_while(|&page| page < exist || exist == u64::MAX)
            .filter(|page| resident.binary_search(page).is_err())
            .collect();
        self.dirty -= dirty;
        self.counts.padding_reads += missing.len() as u64;
        for frame in all() {
            let occupant = &mut self.occupants[frame as usize];
            *occupant &= !1;
            if let Some(owed) = self.owed.get_mut((*occupant >> 1) as usize) {
                *owed = false;
            }
        }
        let mut pages = [resident.as_slice(), missing.as_slice()].concat();
        pages.sort_unstable();
        Some(WholeBlock { missing, pages })
    }

    /// Counts the cluster switches of the pages written.
    #[inline(never)]
    fn count_switches(&mut self, pages: &[u64]) {
        let mut written = std::mem::take(&mut self.written);
        for id in written.drain(..) {
            self.count_switch(pages[id as usize]);
        }
        self.written = written;
    }

    #[inline]
    fn count_switch(&mut self, page: u64) {
        let cluster = page / self.setup.cluster_size;
        let switches = self.last_cluster.replace(cluster) != Some(cluster);
        self.counts.cluster_switches += u64::from(switches);
    }

    /// Counts writes of pages that need not be resident.
    #[inline(never)]
    fn count_writes(&mut self, written: &[u64], pages: &[u64]) {
        self.count_switches(pages);
        self.counts.writes += written.len() as u64;
        for &page in written {
            self.count_switch(page);
        }
    }

    /// Prepares the page table for all pages of `pages`.
    #[inline(never)]
    fn make_room(&mut self, pages: &[u64]) {
        self.table.resize(pages.len(), PageEntry::NOWHERE);
    }

    /// Forgets what was counted so far, and counts from here on.
    #[inline(never)]
    fn start_counting(&mut self) {
        self.setup.warmup = 0;
        self.owed = vec![false; self.table.len()];
        for (&occupant, frame) in self.occupants.iter().zip(0..) {
            let number = (occupant >> 1) as usize;
            self.owed[number] |= occupant & 1 == 1 && self.table[number].frame() == Some(frame);
        }
        self.written.clear();
        self.counts = Counts { dirty_before: self.dirty, ..Counts::default() };
        self.clean_hits = 0;
        self.last_cluster = None;
    }

    /// The state after that many references of the trace.
    #[inline(never)]
    fn state_after(&self, references: u64, gauges: Gauges) -> Sample {
        let resident = (self.occupants.len() - self.free.len()) as u64;
        Sample {
            references,
            reads: self.counts.reads(),
            writes: self.counts.writes,
            clean: resident - self.dirty,
            dirty: self.dirty,
            clean_hits: self.clean_hits,
            bill: None,
            asymmetry: self.setup.asymmetry,
            gauges,
        }
    }
}

impl<P: Policy, O: Observer> Engine<P, O> {
    pub(crate) fn new(mut policy: P, observer: O, setup: RunParameters) -> Self {
        if policy.capabilities().contains(Capabilities::COSTS) {
            policy.costs(Costs::asymmetric(setup.asymmetry));
        }
        if let Some(prices) = &setup.prices {
            policy.prices(Arc::clone(prices));
        }
        if let Some(probabilities) = &setup.probabilities {
            policy.probabilities(Arc::clone(probabilities));
        }
        let mut engine = Engine { policy, observer, run: Run::new(setup) };
        if engine.asks(Capabilities::ERASE_COUNTS) {
            engine.observer.note_moves();
        }
        if engine.run.setup.warmup == 0 {
            engine.observer.counting();
        }
        engine
    }

    /// True if the policy has a capability, which the compiler knows of most.
    #[inline]
    fn asks(&self, capability: Capabilities) -> bool {
        self.policy.capabilities().contains(capability)
    }

    /// True if the policy learns of the next use of each page.
    #[inline]
    fn foresees(&self) -> bool {
        self.policy
            .capabilities()
            .intersects(Capabilities::NEXT_USES.union(Capabilities::NEXT_WRITES).union(Capabilities::PRICES))
    }

    #[inline]
    fn serve(&mut self, at: usize, next: Option<NextUse>, chunk: &Chunk) {
        let reference = chunk.references[at];
        let id = reference >> 1;
        let access = Access::from_write(reference & 1 == 1);
        if let Some(next) = next {
            self.policy.next_use(next);
        }
        if O::LISTENS
            && let Some(costs) = self.observer.costs(self.run.served)
        {
            self.run.setup.asymmetry = costs.asymmetry();
            if self.asks(Capabilities::COSTS) {
                self.policy.costs(costs);
            }
        }
        let entry = self.run.table[id as usize];
        if let Some(frame) = entry.frame() {
            self.policy.hit(frame, access);
            // A branch on whether it is a write would be mispredicted often, so there is none.
            let write = reference & 1;
            let occupant = &mut self.run.occupants[frame as usize];
            if O::LISTENS {
                self.run.clean_hits += u64::from(!*occupant & 1);
            }
            self.run.dirty += u64::from(write & !*occupant);
            *occupant |= write;
        } else {
            if self.asks(Capabilities::CLASSES)
                && let Some(&class) = chunk.classes.get(id as usize)
            {
                self.policy.class(class);
            }
            let whole = chunk.whole.get(at).is_some_and(|&whole| whole);
            self.miss((reference, whole), entry.ghost(), access, chunk.pages);
        }
        if O::LISTENS {
            self.run.served += 1;
            if self.run.served.is_multiple_of(SAMPLE_EVERY) {
                self.sample();
            }
        }
    }

    #[inline]
    fn miss(&mut self, (reference, whole): (u32, bool), ghost: Option<Ghost>, access: Access, pages: &[u64]) {
        let page = pages[(reference >> 1) as usize];
        self.run.counts.misses += 1;
        self.run.counts.overwrites += u64::from(whole);
        let mut driver = MissDriver { engine: self, reference, whole, pages };
        let frame = ebbpool_policy::miss(&mut driver, page, ghost, access);
        if self.asks(Capabilities::ERASE_COUNTS)
            && let Some(frame) = frame
        {
            self.run.frame_of.insert(page, frame);
            self.policy.erase_count(frame, self.observer.erases_of(page));
        }
    }

    /// Reports the erase counts of the resident pages that the device has moved to the policy.
    fn report_moved(&mut self) {
        self.observer.take_moved(&mut self.run.moved);
        for page in self.run.moved.drain(..) {
            if let Some(&frame) = self.run.frame_of.get(&page) {
                self.policy.erase_count(frame, self.observer.erases_of(page));
            }
        }
    }

    /// Writes the whole block of `victim` in order of page number, if any evicted page is dirty,
    /// and reads its missing pages first.
    #[cold]
    fn write_whole(&mut self, block: u64, victim: Frame, evictions: &[Frame], pages: &[u64]) {
        let exist = self.run.setup.pages.min(self.observer.pages());
        let Some(whole) = self.run.clean_block(block, victim, evictions, pages, exist) else {
            return;
        };
        if O::LISTENS {
            for &page in &whole.missing {
                self.observer.read(page);
            }
        }
        self.write_pages(&whole.pages, pages);
    }

    #[inline]
    fn evict(&mut self, frame: Frame, pages: &[u64]) {
        let id = self.run.occupants[frame as usize] >> 1;
        self.run.table[id as usize] = PageEntry::remembered(self.policy.remember(frame));
        self.write_back(frame, pages);
        if O::LISTENS {
            self.observer.evict(pages[id as usize]);
        }
        self.policy.evicted(frame);
        if self.asks(Capabilities::ERASE_COUNTS) {
            self.run.frame_of.remove(&pages[id as usize]);
        }
    }

    /// Writes the page in `frame` if it is dirty.
    #[inline]
    fn write_back(&mut self, frame: Frame, pages: &[u64]) {
        let occupant = &mut self.run.occupants[frame as usize];
        if *occupant & 1 == 1 {
            *occupant &= !1;
            let id = *occupant >> 1;
            if let Some(owed) = self.run.owed.get_mut(id as usize) {
                *owed = false;
            }
            self.run.dirty -= 1;
            self.run.counts.writes += 1;
            self.run.written.push(id);
            if O::LISTENS {
                self.observer.write(pages[id as usize]);
            }
        }
    }

    /// Ends a page: if it is resident it leaves its frame unwritten, without a ghost. A ghost stays.
    #[cold]
    fn end(&mut self, id: u32, pages: &[u64]) {
        let Some(frame) = self.run.table[id as usize].frame() else {
            return;
        };
        self.run.table[id as usize] = PageEntry::NOWHERE;
        let occupant = &mut self.run.occupants[frame as usize];
        if *occupant & 1 == 1 {
            *occupant &= !1;
            self.run.dirty -= 1;
            self.run.counts.trimmed += 1;
            let owed = self.run.owed.get_mut(id as usize).is_some_and(std::mem::take);
            self.run.counts.dirty_before -= u64::from(owed);
        }
        self.policy.evicted(frame);
        if self.asks(Capabilities::ERASE_COUNTS) {
            self.run.frame_of.remove(&pages[id as usize]);
        }
        self.run.free.push(frame);
    }

    /// Writes what the policy's background processes write before the next reference.
    #[inline]
    fn write_in_background(&mut self, pages: &[u64]) {
        if self.asks(Capabilities::BACKGROUND_WRITES) {
            self.policy.background_writes(&mut self.run.background);
            if !self.run.background.is_empty() {
                self.serve_background(pages);
            }
        }
    }

    #[cold]
    fn serve_background(&mut self, pages: &[u64]) {
        let mut writes = std::mem::take(&mut self.run.background);
        for BackgroundWrite { frame, writer } in writes.drain(..) {
            let before = self.run.counts.writes;
            self.write_back(frame, pages);
            let written = self.run.counts.writes - before;
            match writer {
                BackgroundWriter::Cleaner => self.run.counts.background_writes += written,
                BackgroundWriter::Checkpointer => self.run.counts.checkpoint_writes += written,
            }
            self.policy.cleaned(frame);
        }
        self.run.background = writes;
    }

    /// Writes all dirty pages, in order of page number. A policy with checkpoints of its own has no others.
    #[cold]
    fn checkpoint(&mut self, pages: &[u64]) {
        if self.run.dirty == 0 || self.asks(Capabilities::CHECKPOINTS) || self.observer.stopped() {
            return;
        }
        for frame in self.run.dirty_frames(pages) {
            self.write_back(frame, pages);
            self.run.counts.checkpoint_writes += 1;
            self.policy.cleaned(frame);
        }
        self.run.count_switches(pages);
    }

    /// Writes pages that need not be resident.
    fn write_pages(&mut self, written: &[u64], pages: &[u64]) {
        self.run.count_writes(written, pages);
        if O::LISTENS {
            for &page in written {
                self.observer.write(page);
            }
        }
    }

    /// Prefetches what the next references will read, all at the same time instead of one after the
    /// other.
    #[inline]
    fn prefetch(&self, references: &[u32], pages: &[u64]) {
        // Hits and misses are sorted first, without a branch, since a branch on them would be
        // mispredicted often.
        let mut hits = [0; LOOKAHEAD];
        let mut misses = [0; LOOKAHEAD];
        let (mut hit, mut missed) = (0, 0);
        for reference in references {
            let id = reference >> 1;
            let entry = self.run.table[id as usize];
            hits[hit] = entry.0;
            misses[missed] = id;
            let resident = usize::from(entry.frame().is_some());
            hit += resident;
            missed += 1 - resident;
        }
        for &frame in &hits[..hit] {
            prefetch_index(&self.run.occupants, frame as usize);
            self.policy.prefetch(frame);
        }
        for &id in &misses[..missed] {
            if P::LOOKS_AT_PAGES || O::LISTENS {
                prefetch_index(pages, id as usize);
            }
            if let Some(ghost) = self.run.table[id as usize].ghost() {
                self.policy.prefetch_ghost(ghost);
            }
        }
    }

    fn sample(&mut self) {
        let gauges = self.policy.gauges();
        let sample = self.run.state_after(self.run.served, gauges);
        self.observer.sample(&sample);
    }

    fn serve_range(&mut self, chunk: &Chunk, range: std::ops::Range<usize>) {
        self.run.counts.references += range.len() as u64;
        let future = match self.foresees() {
            true => chunk.future,
            false => None,
        };
        let requests = match self.asks(Capabilities::REQUESTS) {
            true => chunk.requests,
            false => &[],
        };
        for start in range.clone().step_by(LOOKAHEAD) {
            let end = (start + LOOKAHEAD).min(range.end);
            for reference in chunk.references[end..].iter().take(LOOKAHEAD) {
                prefetch_index(&self.run.table, (reference >> 1) as usize);
            }
            self.prefetch(&chunk.references[start..end], chunk.pages);
            for at in start..end {
                if O::LISTENS && self.observer.stopped() {
                    self.run.counts.references -= (range.end - at) as u64;
                    return;
                }
                let next = future.map(|it| it.at(chunk.start + at, self.run.setup.at_end));
                if let Some(&request) = requests.get(at) {
                    self.policy.request(request);
                }
                self.write_in_background(chunk.pages);
                self.serve(at, next, chunk);
            }
            if self.run.written.len() >= WRITES_TOGETHER {
                self.run.count_switches(chunk.pages);
            }
        }
    }
}

/// Serves one miss of a run.
struct MissDriver<'e, P, O> {
    engine: &'e mut Engine<P, O>,
    /// The reference that misses: dense page number << 1 | write.
    reference: u32,
    /// True if it writes all of its page.
    whole: bool,
    /// Page numbers by dense page number.
    pages: &'e [u64],
}

impl<P: Policy, O: Observer> Driver for MissDriver<'_, P, O> {
    type Policy = P;

    #[inline]
    fn policy(&mut self) -> &mut P {
        &mut self.engine.policy
    }

    #[inline]
    fn companions(&mut self) -> &mut MissScratch {
        &mut self.engine.run.companions
    }

    #[inline]
    fn empty_frame(&mut self) -> Option<Frame> {
        let occupants = &mut self.engine.run.occupants;
        if occupants.len() < self.engine.run.setup.frames as usize {
            occupants.push(self.reference);
            return Some(occupants.len() as u32 - 1);
        }
        self.engine.run.free.pop()
    }

    #[inline]
    fn claim_victim(&mut self, incoming: (u64, Access)) -> Option<Frame> {
        if self.engine.asks(Capabilities::ERASE_COUNTS) {
            self.engine.report_moved();
        }
        Policy::victim(&mut self.engine.policy, Some(incoming), |_| true)
    }

    #[inline]
    fn most_together(&self) -> usize {
        self.engine.run.setup.frames as usize
    }

    #[inline]
    fn write_together(&mut self, victim: Frame, together: &[Frame]) {
        self.engine.write_back(victim, self.pages);
        for &frame in together {
            self.engine.write_back(frame, self.pages);
            self.engine.policy.cleaned(frame);
        }
    }

    #[cold]
    fn write_block(&mut self, block: u64, victim: Frame, others: &[Frame]) {
        self.engine.write_whole(block, victim, others, self.pages);
    }

    #[inline]
    fn evict(&mut self, frame: Frame) {
        self.engine.evict(frame, self.pages);
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        self.engine.run.free.push(frame);
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: u64, access: Access) {
        let engine = &mut *self.engine;
        if O::LISTENS && !self.whole {
            engine.observer.read(page);
        }
        engine.run.occupants[frame as usize] = self.reference;
        engine.run.dirty += u64::from(self.reference & 1);
        engine.run.table[(self.reference >> 1) as usize] = PageEntry::resident(frame);
        engine.policy.admit(frame, page, access);
    }

    fn refuse(&mut self, _page: u64, _ghost: Option<Ghost>) {
        debug_assert!(false, "nothing is pinned, so there is a victim");
    }
}

impl<P: Policy, O: Observer> Engine<P, O> {
    /// Serves a chunk up to its next trim and checkpoint, to `line`'s next moments and to the end of the warm-up, in their order.
    fn serve_chunk(&mut self, chunk: &Chunk, mut line: Option<&mut TimeLine>) {
        self.run.make_room(chunk.pages);
        let length = chunk.references.len();
        let mut checkpoints = chunk.checkpoints.iter().peekable();
        let (mut ends, mut trims) = (chunk.ends.iter().peekable(), chunk.trims.iter().peekable());
        let mut at = 0;
        loop {
            while let Some(&(_, id)) = ends.next_if(|(position, _)| *position == chunk.start + at) {
                self.end(id, chunk.pages);
            }
            while let Some(&(_, first, last)) = trims.next_if(|(position, ..)| *position == chunk.start + at) {
                self.observer.trim(first, last);
            }
            while checkpoints.next_if(|&&it| it == chunk.start + at).is_some() {
                self.checkpoint(chunk.pages);
            }
            if at >= length {
                return;
            }
            let to_checkpoint = match checkpoints.peek() {
                Some(&&next) => (next - chunk.start - at) as u64,
                None => u64::MAX,
            };
            let to_trim = match (ends.peek(), trims.peek()) {
                (None, None) => u64::MAX,
                (end, trim) => {
                    let positions = end.map(|it| it.0).into_iter().chain(trim.map(|it| it.0));
                    positions.min().map_or(u64::MAX, |next| (next - chunk.start - at) as u64)
                }
            };
            let served = (chunk.start + at) as u64;
            let to_moment = match line {
                Some(_) => SAMPLE_EVERY - served % SAMPLE_EVERY,
                None => u64::MAX,
            };
            let to_counting = match self.run.setup.warmup {
                0 => u64::MAX,
                warmup => warmup,
            };
            let next = to_moment.min(to_counting).min(to_checkpoint).min(to_trim);
            let end = usize::try_from(next).map_or(length, |next| length.min(at.saturating_add(next)));
            self.serve_range(chunk, at..end);
            let count = (end - at) as u64;
            if let Some(line) = &mut line
                && count == to_moment
            {
                let gauges = self.policy.gauges();
                line.sample(&self.run.state_after(served + count, gauges));
            }
            if count == to_counting {
                self.start_counting(chunk.pages);
                if let Some(line) = &mut line {
                    line.counting();
                }
            } else if to_counting < u64::MAX {
                self.run.setup.warmup -= count;
            }
            at = end;
        }
    }
}

impl<P: Policy, O: Observer> RunningEngine for Engine<P, O> {
    fn advance(&mut self, chunk: &Chunk) {
        self.serve_chunk(chunk, None);
    }

    fn advance_sampled(&mut self, chunk: &Chunk, line: &mut TimeLine) {
        self.serve_chunk(chunk, Some(line));
    }

    fn columns(&self) -> OptionalColumns {
        OptionalColumns {
            classes: self.asks(Capabilities::CLASSES),
            requests: self.asks(Capabilities::REQUESTS),
            operations: true,
        }
    }

    fn start_counting(&mut self, pages: &[u64]) {
        self.run.start_counting();
        self.observer.counting();
        if O::LISTENS {
            for page in self.run.dirty_pages(pages) {
                self.observer.dirty_before(page);
            }
        }
    }

    fn finish(&mut self, pages: &[u64]) -> Counts {
        self.run.count_switches(pages);
        match self.run.setup.at_end {
            _ if self.observer.stopped() => self.run.counts.dirty_left = self.run.dirty,
            AtEnd::Free => self.run.counts.dirty_left = self.run.dirty,
            AtEnd::Flush => {
                self.observer.ending();
                let dirty = self.run.dirty_pages(pages);
                self.write_pages(&dirty, pages);
                self.run.counts.end_writes = dirty.len() as u64;
                self.run.counts.writes -= self.run.counts.dirty_before;
            }
        }
        self.run.counts
    }
}
