//! How much a server writes whose checkpoints write all dirty pages at an interval.
//!
//! A checkpoint cleans pages and evicts none, so that a policy that does not look at dirty pages evicts the same pages
//! with checkpoints as without. One run of the policy is therefore enough to count both causes of writes: the observer
//! follows the trace beside the run, marks pages that a reference writes as dirty, and counts a write for each dirty
//! page that the run writes, and for each that is dirty at a checkpoint.

use ebbpool_policy::{Costs, PolicySpec};
use ebbpool_sim::{Cell, Observer, Progress, Sample, SimError, SimOptions, simulate_one};
use ebbpool_trace::{Batch, Reader, Source, TraceError};
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::lab::Lab;

/// The policies whose victims do not depend on which pages are dirty. Those of `innodb` do.
const INDIFFERENT: [&str; 15] = [
    "fifo",
    "lru",
    "clock",
    "gclock",
    "postgres",
    "lru-k",
    "2q",
    "lrfu",
    "fbr",
    "arc",
    "car",
    "lirs",
    "s3-fifo",
    "sieve",
    "w-tinylfu",
];

/// References read ahead by the observer.
const BATCH: usize = 1 << 14;

/// Counted page writes by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CheckpointCounts {
    /// Dirty pages that were evicted, or that the server's background writer cleaned.
    pub(super) evictions: u64,
    /// Pages that were dirty at a checkpoint.
    pub(super) checkpoints: u64,
}

impl CheckpointCounts {
    pub(super) fn writes(self) -> u64 {
        self.evictions + self.checkpoints
    }
}

/// True if checkpoints do not change the victims of the policy.
pub(super) fn can_simulate(policy: &PolicySpec) -> bool {
    INDIFFERENT.contains(&policy.entry().name)
}

/// The writes of a policy with checkpoints after every `interval` references, which are at least 1.
///
/// # Errors
///
/// If the trace cannot be read, or the caller stops.
pub(super) fn simulate(
    lab: &Lab,
    source: &Source,
    (policy, frames): (&PolicySpec, u64),
    interval: u64,
    warmup: u64,
) -> Result<CheckpointCounts, LabError> {
    let store = lab.store(source);
    let key = format!("checkpoints {policy} frames={frames} interval={interval} warmup={warmup}");
    let stored = store.get(&key);
    if let Some(counts) = stored.and_then(|json| serde_json::from_slice(&json).ok()) {
        return Ok(counts);
    }
    let observer = CheckpointObserver {
        reader: source.open()?,
        batch: Batch::with_capacity(BATCH),
        next: 0,
        interval: interval.max(1),
        dirty: HashSet::new(),
        counts: CheckpointCounts {
            evictions: 0,
            checkpoints: 0,
        },
        failed: None,
    };
    let cell = Cell {
        policy: policy.clone(),
        frames,
        asymmetry: 1.0,
    };
    let options = SimOptions {
        warmup,
        ..SimOptions::default()
    };
    let work = format!("{}: checkpoints", source.label());
    let observer = lab.with_progress(&work, |progress: &Progress| {
        let (_, _, observer) = simulate_one(source, &cell, &options, progress, observer)?;
        Ok::<_, SimError>(observer)
    })?;
    if let Some(failed) = observer.failed {
        return Err(failed.into());
    }
    if let Ok(value) = serde_json::to_vec(&observer.counts) {
        store.put(&key, &value);
    }
    Ok(observer.counts)
}

/// Follows the trace beside a run, and counts writes by cause.
struct CheckpointObserver {
    reader: Reader,
    batch: Batch,
    /// The next reference of the batch.
    next: usize,
    /// References between two checkpoints.
    interval: u64,
    dirty: HashSet<u64>,
    counts: CheckpointCounts,
    failed: Option<TraceError>,
}

impl CheckpointObserver {
    /// The next reference of the trace: its page, and whether it writes.
    fn reference(&mut self) -> Option<(u64, bool)> {
        if self.next == self.batch.len() {
            self.next = 0;
            if let Err(error) = self.reader.next_batch(&mut self.batch, BATCH) {
                self.failed = Some(error);
            }
        }
        let page = *self.batch.pages.get(self.next)?;
        let write = *self.batch.writes.get(self.next)?;
        self.next += 1;
        Some((page, write))
    }
}

impl Observer for CheckpointObserver {
    const LISTENS: bool = true;

    fn counting(&mut self) {
        self.counts = CheckpointCounts {
            evictions: 0,
            checkpoints: 0,
        };
    }

    /// Called before each reference is served. Its own page cannot be the victim of its miss, so that it may be marked
    /// as dirty before.
    fn costs(&mut self, reference: u64) -> Option<Costs> {
        if reference > 0 && reference.is_multiple_of(self.interval) {
            self.counts.checkpoints += self.dirty.len() as u64;
            self.dirty.clear();
        }
        if let Some((page, true)) = self.reference() {
            self.dirty.insert(page);
        }
        None
    }

    fn stopped(&self) -> bool {
        self.failed.is_some()
    }

    /// The run has no checkpoints, and also writes pages that one has cleaned here.
    fn write(&mut self, page: u64) {
        self.counts.evictions += u64::from(self.dirty.remove(&page));
    }

    /// A page that is dirty here is dirty in the run, and was written before.
    fn evict(&mut self, _page: u64) {}

    fn sample(&mut self, _sample: &Sample) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Silent;
    use crate::lab::Settings;

    fn counts(text: &str, frames: u64, interval: u64, warmup: u64) -> CheckpointCounts {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace.txt");
        std::fs::write(&path, text).expect("a file");
        let source = Source::parse(path.to_str().expect("UTF-8"), None).expect("a trace");
        let lab = Lab::new(Settings::default(), &Silent);
        let policy = "lru".parse().expect("a policy");
        simulate(&lab, &source, (&policy, frames), interval, warmup).expect("counts")
    }

    #[test]
    fn writes_are_counted_by_their_cause() {
        // With 2 frames: page 1 is dirty at the checkpoint before the third reference, becomes dirty again by the
        // fourth, and is dirty at the checkpoint before the fifth; the third and the sixth evict it clean.
        let text = "W 1\nR 2\nR 3\nW 1\nR 2\nR 3\n";
        let found = counts(text, 2, 2, 0);
        assert_eq!((found.evictions, found.checkpoints), (0, 2));
        // Without a checkpoint in time, both dirty copies of 1 are evicted.
        let found = counts(text, 2, 100, 0);
        assert_eq!((found.evictions, found.checkpoints), (2, 0));
        // Counting begins after the warm-up; the page that it leaves dirty counts when it is written.
        let found = counts(text, 2, 100, 1);
        assert_eq!((found.evictions, found.checkpoints), (2, 0));
        let found = counts(text, 2, 2, 3);
        assert_eq!((found.evictions, found.checkpoints), (0, 1));
    }

    #[test]
    fn without_checkpoints_the_writes_are_those_of_a_run() {
        let source = Source::parse("zipf:pages=300,refs=20000,write=0.4", None).expect("a trace");
        let lab = Lab::new(Settings::default(), &Silent);
        for name in INDIFFERENT {
            let policy: PolicySpec = name.parse().expect("a policy");
            assert!(can_simulate(&policy));
            let found = simulate(&lab, &source, (&policy, 30), u64::MAX, 0).expect("counts");
            let request = crate::run::RunRequest::new(
                name,
                crate::memory_size::MemorySize::frames(30),
                crate::pricing::PricingRequest::default(),
            );
            let run = lab.run(&source, &request).expect("a run").result;
            assert_eq!(
                (found.evictions, found.checkpoints),
                (run.writes, 0),
                "{name}"
            );
        }
    }
}
