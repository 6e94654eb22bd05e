//! LRU at every memory size, from one pass.

use ebbpool_trace::StackDistances;
use serde::{Deserialize, Serialize};

use crate::engine::{AtEnd, Chunk, Counts};

/// The page traffic of a policy with one number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Page reads.
    pub reads: u64,
    /// Misses that write all of their page, and read nothing.
    #[serde(default)]
    pub overwrites: u64,
    /// Page writes.
    pub writes: u64,
    /// Dirty pages resident at the end and not written.
    pub dirty_left: u64,
    /// Pages that the end has written, also those of `dirty_before`.
    #[serde(default)]
    pub end_writes: u64,
    /// Pages that were dirty when the counting began.
    #[serde(default)]
    pub dirty_before: u64,
    /// Pages read only because their block was to be written whole; not among the reads.
    #[serde(default)]
    pub padding_reads: u64,
    /// Pages that checkpoints wrote, or the server's commits, also those of `dirty_before`.
    #[serde(default)]
    pub checkpoint_writes: u64,
    /// Dirty pages that a trim has ended.
    #[serde(default)]
    pub trimmed: u64,
}

impl Traffic {
    /// References to pages that are not resident.
    pub fn misses(&self) -> u64 {
        self.reads + self.overwrites
    }

    /// All page reads that the device serves.
    pub fn all_reads(&self) -> u64 {
        self.reads + self.padding_reads
    }

    pub(crate) fn from_counts(counts: &Counts) -> Self {
        Traffic {
            reads: counts.reads(),
            overwrites: counts.overwrites,
            writes: counts.writes,
            dirty_left: counts.dirty_left,
            end_writes: counts.end_writes,
            dirty_before: counts.dirty_before,
            padding_reads: counts.padding_reads,
            checkpoint_writes: counts.checkpoint_writes,
            trimmed: counts.trimmed,
        }
    }
}

/// Gathers LRU's reads and writes at every memory size (Mattson et al. 1970).
///
/// A buffer of m frames evicts a page when its depth in the LRU stack exceeds m. A page that was
/// written is evicted dirty at most once before it is written again, namely where its greatest
/// depth since then exceeds m; so one number per page determines its write-back at every m.
pub(crate) struct LruStack {
    distances: StackDistances,
    /// The greatest depth of each page since it was last written; 0 if it never was.
    deepest: Vec<u32>,
    references: u64,
    /// References counted, by their distance; and those of them that write all of their page.
    hits: Vec<u64>,
    whole_hits: Vec<u64>,
    /// References counted that write all of their page.
    whole: u64,
    /// Write-backs in all buffers of fewer frames than the index, less those of the warm-up.
    write_backs: Vec<i64>,
    /// Pages that were dirty when the counting began, by their greatest depth until then.
    dirty_before: Vec<i64>,
    /// The greatest depth since then of each page that was dirty when the counting began and that no checkpoint has written; 0
    /// for others, and empty without a warm-up.
    owed: Vec<u32>,
    /// Pages written since the last checkpoint.
    written: Vec<u32>,
    /// Pages that checkpoints found written, by their greatest depth until then: they were dirty in all buffers of at least as
    /// many frames.
    checkpointed: Vec<u64>,
    /// Pages that trims found written, by the same depth.
    trimmed: Vec<u64>,
}

impl LruStack {
    /// A stack without pages.
    pub(crate) fn new() -> Self {
        LruStack {
            distances: StackDistances::new(),
            deepest: Vec::new(),
            references: 0,
            hits: vec![0],
            whole_hits: vec![0],
            whole: 0,
            owed: Vec::new(),
            write_backs: vec![0],
            dirty_before: Vec::new(),
            written: Vec::new(),
            checkpointed: vec![0],
            trimmed: vec![0],
        }
    }

    pub(crate) fn advance(&mut self, chunk: &Chunk) {
        let pages = chunk.pages.len();
        self.deepest.resize(pages, 0);
        self.hits.resize(pages + 1, 0);
        self.whole_hits.resize(pages + 1, 0);
        self.write_backs.resize(pages + 1, 0);
        self.checkpointed.resize(pages + 1, 0);
        self.trimmed.resize(pages + 1, 0);
        let mut checkpoints = chunk.checkpoints.iter().peekable();
        let mut ends = chunk.ends.iter().peekable();
        for (at, &reference) in (chunk.start..).zip(chunk.references) {
            while let Some(&(_, page)) = ends.next_if(|(position, _)| *position == at) {
                self.end(page);
            }
            while checkpoints.next_if(|&&it| it == at).is_some() {
                self.checkpoint();
            }
            let whole = chunk.whole.get(at - chunk.start).is_some_and(|&whole| whole);
            self.serve(reference >> 1, reference & 1 == 1, whole);
        }
        ends.for_each(|&(_, page)| self.end(page));
        if checkpoints.next().is_some() {
            self.checkpoint();
        }
    }

    /// A page ends: buffers of fewer frames than its greatest depth have written it, and the others never do.
    #[cold]
    fn end(&mut self, page: u32) {
        let at = page as usize;
        let depth = self.distances.depth(page).unwrap_or(0);
        self.distances.remove(page);
        let deepest = std::mem::take(&mut self.deepest[at]);
        if deepest > 0 {
            self.write_backs[deepest.max(depth) as usize] += 1;
            self.trimmed[deepest.max(depth) as usize] += 1;
        }
        let owed = self.owed.get_mut(at).map_or(0, std::mem::take);
        if owed > 0 {
            self.dirty_before[owed.max(depth) as usize] -= 1;
        }
    }

    /// Each page written since the last checkpoint is written in every buffer: it was evicted from those of fewer frames than
    /// its greatest depth, and is dirty in the others.
    fn checkpoint(&mut self) {
        for page in std::mem::take(&mut self.written) {
            let deepest = std::mem::take(&mut self.deepest[page as usize]);
            if deepest == 0 {
                // It has ended since.
                continue;
            }
            if let Some(owed) = self.owed.get_mut(page as usize) {
                *owed = 0;
            }
            let depth = self.distances.depth(page).unwrap_or(0);
            let deepest = deepest.max(depth) as usize;
            self.write_backs[deepest] += 1;
            self.checkpointed[deepest] += 1;
        }
    }

    fn serve(&mut self, page: u32, write: bool, whole: bool) {
        self.references += 1;
        self.whole += u64::from(whole);
        let deepest = &mut self.deepest[page as usize];
        if let Some(distance) = self.distances.reference(page) {
            self.hits[distance as usize] += 1;
            if whole {
                self.whole_hits[distance as usize] += 1;
            }
            if let Some(owed) = self.owed.get_mut(page as usize).filter(|owed| **owed > 0) {
                *owed = distance.max(*owed);
            }
            if *deepest > 0 {
                *deepest = distance.max(*deepest);
            }
        }
        if write {
            match *deepest {
                0 => self.written.push(page),
                depth => self.write_backs[depth as usize] += 1,
            }
            *deepest = 1;
        }
    }

    /// The warm-up is over: evictions up to now are not counted.
    pub(crate) fn start_counting(&mut self) {
        (self.references, self.whole) = (0, 0);
        self.hits.fill(0);
        self.whole_hits.fill(0);
        self.write_backs.fill(0);
        self.checkpointed.fill(0);
        self.trimmed.fill(0);
        self.settle_depths();
        self.dirty_before = vec![0; self.write_backs.len()];
        for &deepest in self.deepest.iter().filter(|&&deepest| deepest > 0) {
            self.write_backs[deepest as usize] -= 1;
            self.dirty_before[deepest as usize] += 1;
        }
        self.owed.clone_from(&self.deepest);
    }

    /// Updates the greatest depth of each page with its current one.
    fn settle_depths(&mut self) {
        for (page, depth) in self.distances.by_recency() {
            let deepest = &mut self.deepest[page as usize];
            if *deepest > 0 {
                *deepest = depth.max(*deepest);
            }
        }
    }

    pub(crate) fn finish(mut self, at_end: AtEnd) -> LruCurve {
        self.settle_depths();
        let mut stay = vec![0u64; self.write_backs.len()];
        for &deepest in self.deepest.iter().filter(|&&deepest| deepest > 0) {
            self.write_backs[deepest as usize] += 1;
            stay[deepest as usize] += 1;
        }
        let mut traffic = Vec::with_capacity(self.hits.len());
        let (mut misses, mut overwrites) = (self.references, self.whole);
        let mut writes: i64 = self.write_backs.iter().sum();
        let (mut dirty, mut before_by_depth, mut checkpoint_writes, mut trimmed) = (0, 0, 0, 0);
        self.dirty_before.resize(stay.len(), 0);
        let of_pages = stay.iter().zip(&self.dirty_before).zip(self.checkpointed.iter().zip(&self.trimmed));
        let by_depth = self.hits.iter().zip(&self.whole_hits).zip(&self.write_backs).zip(of_pages);
        for (((hits, whole_hits), write_backs), ((stay, before), (checkpointed, ended))) in by_depth {
            misses -= hits;
            overwrites -= whole_hits;
            writes -= write_backs;
            dirty += stay;
            before_by_depth += before;
            let dirty_before = u64::try_from(before_by_depth).unwrap_or(0);
            checkpoint_writes += checkpointed;
            trimmed += ended;
            let written = u64::try_from(writes).unwrap_or(0) + checkpoint_writes;
            let (reads, padding_reads) = (misses - overwrites, 0);
            let both =
                Traffic { reads, overwrites, dirty_before, padding_reads, checkpoint_writes, trimmed, ..Traffic::default() };
            traffic.push(match at_end {
                AtEnd::Free => Traffic { writes: written, dirty_left: dirty, ..both },
                AtEnd::Flush => {
                    let writes = (written + dirty).saturating_sub(dirty_before);
                    Traffic { writes, end_writes: dirty, ..both }
                }
            });
        }
        LruCurve { references: self.references, traffic }
    }
}

/// LRU's reads and writes at every memory size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LruCurve {
    references: u64,
    /// By frames, from none to as many as there are pages.
    traffic: Vec<Traffic>,
}

impl LruCurve {
    /// References counted.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Distinct pages; more frames change nothing.
    pub fn distinct_pages(&self) -> u64 {
        self.traffic.len() as u64 - 1
    }

    /// LRU's traffic with `frames` frames, at least 1.
    pub fn traffic_at(&self, frames: u64) -> Traffic {
        let frames = frames.clamp(1, self.distinct_pages().max(1));
        let traffic = self.traffic.get(frames as usize);
        traffic.copied().unwrap_or_default()
    }

    /// The least number of frames, at least 1, at which LRU's traffic satisfies `condition`.
    pub fn smallest(&self, condition: impl Fn(Traffic) -> bool) -> Option<u64> {
        (1..=self.distinct_pages()).find(|&frames| condition(self.traffic_at(frames)))
    }
}
