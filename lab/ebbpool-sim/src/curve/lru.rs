//! LRU at every memory size, from one pass.

use ebbpool_trace::StackDistances;
use serde::{Deserialize, Serialize};

use crate::engine::{AtEnd, Chunk, Counts};

/// The page traffic of a policy with one number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Page reads.
    pub reads: u64,
    /// Page writes.
    pub writes: u64,
    /// Dirty pages resident at the end and not written.
    pub dirty_left: u64,
    /// Those of the writes that the end has made.
    #[serde(default)]
    pub end_writes: u64,
    /// Pages that were dirty when the counting began.
    #[serde(default)]
    pub dirty_before: u64,
    /// Pages read only because their block was to be written whole; not among the reads.
    #[serde(default)]
    pub padding_reads: u64,
    /// Those of the writes that checkpoints made, or the server's commits.
    #[serde(default)]
    pub checkpoint_writes: u64,
}

impl Traffic {
    /// All page reads that the device serves.
    pub fn all_reads(&self) -> u64 {
        self.reads + self.padding_reads
    }

    pub(crate) fn from_counts(counts: &Counts) -> Self {
        Traffic {
            reads: counts.misses,
            writes: counts.writes,
            dirty_left: counts.dirty_left,
            end_writes: counts.end_writes,
            dirty_before: counts.dirty_before,
            padding_reads: counts.padding_reads,
            checkpoint_writes: counts.checkpoint_writes,
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
    /// References counted, by their distance.
    hits: Vec<u64>,
    /// Write-backs in all buffers of fewer frames than the index, less those of the warm-up.
    write_backs: Vec<i64>,
    /// Pages that were dirty when the counting began, by their greatest depth until then.
    dirty_before: Vec<u64>,
    /// Pages written since the last checkpoint.
    written: Vec<u32>,
    /// Pages that checkpoints found written, by their greatest depth until then: they were dirty in all buffers of at least as
    /// many frames.
    checkpointed: Vec<u64>,
}

impl LruStack {
    /// A stack without pages.
    pub(crate) fn new() -> Self {
        LruStack {
            distances: StackDistances::new(),
            deepest: Vec::new(),
            references: 0,
            hits: vec![0],
            write_backs: vec![0],
            dirty_before: Vec::new(),
            written: Vec::new(),
            checkpointed: vec![0],
        }
    }

    pub(crate) fn advance(&mut self, chunk: &Chunk) {
        let pages = chunk.pages.len();
        self.deepest.resize(pages, 0);
        self.hits.resize(pages + 1, 0);
        self.write_backs.resize(pages + 1, 0);
        self.checkpointed.resize(pages + 1, 0);
        let mut checkpoints = chunk.checkpoints.iter().peekable();
        for (at, &reference) in (chunk.start..).zip(chunk.references) {
            while checkpoints.next_if(|&&it| it == at).is_some() {
                self.checkpoint();
            }
            self.serve(reference >> 1, reference & 1 == 1);
        }
        if checkpoints.next().is_some() {
            self.checkpoint();
        }
    }

    /// Each page written since the last checkpoint is written in every buffer: it was evicted from those of fewer frames than
    /// its greatest depth, and is dirty in the others.
    fn checkpoint(&mut self) {
        for page in std::mem::take(&mut self.written) {
            let deepest = &mut self.deepest[page as usize];
            let depth = self.distances.depth(page).unwrap_or(0);
            let deepest = std::mem::take(deepest).max(depth) as usize;
            self.write_backs[deepest] += 1;
            self.checkpointed[deepest] += 1;
        }
    }

    fn serve(&mut self, page: u32, write: bool) {
        self.references += 1;
        let deepest = &mut self.deepest[page as usize];
        if let Some(distance) = self.distances.reference(page) {
            self.hits[distance as usize] += 1;
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
        self.references = 0;
        self.hits.fill(0);
        self.write_backs.fill(0);
        self.checkpointed.fill(0);
        self.settle_depths();
        self.dirty_before = vec![0; self.write_backs.len()];
        for &deepest in self.deepest.iter().filter(|&&deepest| deepest > 0) {
            self.write_backs[deepest as usize] -= 1;
            self.dirty_before[deepest as usize] += 1;
        }
    }

    /// Updates the greatest depth of each page with its current one.
    fn settle_depths(&mut self) {
        for (page, depth) in self.distances.by_recency().zip(1..) {
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
        let mut reads = self.references;
        let mut writes: i64 = self.write_backs.iter().sum();
        let (mut dirty, mut dirty_before, mut checkpoint_writes) = (0, 0, 0);
        self.dirty_before.resize(stay.len(), 0);
        let of_pages = stay.iter().zip(&self.dirty_before).zip(&self.checkpointed);
        let by_depth = self.hits.iter().zip(&self.write_backs).zip(of_pages);
        for ((hits, write_backs), ((stay, before), checkpointed)) in by_depth {
            reads -= hits;
            writes -= write_backs;
            dirty += stay;
            dirty_before += before;
            checkpoint_writes += checkpointed;
            let written = u64::try_from(writes).unwrap_or(0) + checkpoint_writes;
            traffic.push(match at_end {
                AtEnd::Free => Traffic {
                    reads,
                    writes: written,
                    dirty_left: dirty,
                    end_writes: 0,
                    dirty_before,
                    padding_reads: 0,
                    checkpoint_writes,
                },
                AtEnd::Flush => Traffic {
                    reads,
                    writes: (written + dirty).saturating_sub(dirty_before),
                    dirty_left: 0,
                    end_writes: dirty,
                    dirty_before,
                    padding_reads: 0,
                    checkpoint_writes,
                },
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
