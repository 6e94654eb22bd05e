//! The workload of the CFDC paper.

use super::skew::Popularity;
use super::{Skew, WorkloadError, WorkloadOperation};
use crate::generators::random::Random;
use crate::generators::self_similar;

/// Point queries, point updates, range queries and range updates in random order (Ou, Härder and
/// Jin, CFDC: A Flash-Aware Replacement Policy for Database Buffer Management, DaMoN 2009, section 4.2). The
/// defaults are the paper's baseline.
///
/// Keys of point operations are self-similar; ranges begin at uniformly random records and end at the last
/// record at the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CfdcWorkload {
    /// Records of the database; 1,000,000.
    pub records: u64,
    /// Point queries; 100,000.
    pub queries: u64,
    /// Point updates; 100,000.
    pub updates: u64,
    /// Range queries; 200.
    pub scans: u64,
    /// Range updates; 200.
    pub update_scans: u64,
    /// Records of a range; 256.
    pub scan_records: u64,
    /// The skew of accesses to records; 0.8/0.2.
    pub skew: Skew,
    /// True if popular records are scattered. Otherwise record 0 is the most popular one and its
    /// neighbours follow, as with Gray's generator, which the paper names without details.
    pub scattered: bool,
    /// The seed; another seed gives another workload of the same kind; 1.
    pub seed: u64,
}

impl Default for CfdcWorkload {
    fn default() -> Self {
        CfdcWorkload {
            records: 1_000_000,
            queries: 100_000,
            updates: 100_000,
            scans: 200,
            update_scans: 200,
            scan_records: 256,
            skew: Skew::default(),
            scattered: false,
            seed: 1,
        }
    }
}

impl CfdcWorkload {
    /// Divides the operations anew, with this share of updates (0 to 1): section 4.4 of the paper. With 0.2 there are 160,000
    /// point queries, 40,000 point updates, 320 range queries and 80 range updates.
    pub fn with_update_intensity(self, share: f64) -> Self {
        let split = |reads: u64, writes: u64| {
            let all = reads.saturating_add(writes);
            let updates = ((all as f64 * share).round() as u64).min(all);
            (all - updates, updates)
        };
        let (queries, updates) = split(self.queries, self.updates);
        let (scans, update_scans) = split(self.scans, self.update_scans);
        CfdcWorkload { queries, updates, scans, update_scans, ..self }
    }

    /// Sets the number of scans, half of them (rounded up) range queries: section 4.5 of the paper.
    pub fn with_scans(self, scans: u64) -> Self {
        CfdcWorkload { scans: scans.div_ceil(2), update_scans: scans / 2, ..self }
    }

    /// The operations in random order, all orders being equally likely.
    ///
    /// # Errors
    ///
    /// If there are no records or too many, more than 2^64 operations, or too little memory.
    pub fn operations(&self) -> Result<CfdcOperations, WorkloadError> {
        let left = [self.queries, self.updates, self.scans, self.update_scans];
        let all = left.iter().try_fold(0, |sum: u64, &more| sum.checked_add(more));
        let skew = (self.skew.operations, self.skew.records);
        let mut random = Random::new(self.seed);
        let popularity =
            Popularity::new(self.records, self.scattered, &mut random, |ranking| self_similar::table(ranking, skew))?;
        Ok(CfdcOperations {
            records: self.records,
            scan_records: self.scan_records,
            all: all.ok_or(WorkloadError::Operations)?,
            left,
            random,
            popularity,
        })
    }
}

/// The operations of a [`CfdcWorkload`].
#[derive(Debug, Clone)]
pub struct CfdcOperations {
    records: u64,
    scan_records: u64,
    /// Operations left in total, and of each kind.
    all: u64,
    left: [u64; 4],
    random: Random,
    popularity: Popularity,
}

impl Iterator for CfdcOperations {
    type Item = WorkloadOperation;

    fn next(&mut self) -> Option<WorkloadOperation> {
        self.all = self.all.checked_sub(1)?;
        // Kinds are drawn in proportion to the operations left of each: all orders are equally likely.
        let mut drawn = self.random.below(self.all + 1);
        let mut kind = 0;
        while kind < 3 && drawn >= self.left[kind] {
            drawn -= self.left[kind];
            kind += 1;
        }
        self.left[kind] -= 1;
        if kind < 2 {
            let record = self.popularity.draw(&mut self.random);
            return Some(match kind {
                0 => WorkloadOperation::Read { record },
                _ => WorkloadOperation::Update { record },
            });
        }
        let first = self.random.below(self.records);
        let records = self.scan_records.min(self.records - first);
        Some(match kind {
            2 => WorkloadOperation::Scan { first, records },
            _ => WorkloadOperation::UpdateScan { first, records },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let all = usize::try_from(self.all);
        (all.unwrap_or(usize::MAX), all.ok())
    }
}
