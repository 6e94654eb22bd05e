//! The workload of the CFDC paper.

use super::skew::Popularity;
use super::{Operation, Skew, WorkloadError};
use crate::generators::random::Random;
use crate::generators::self_similar;

/// Point queries, point updates, range queries and range updates in random order (Ou, Härder and
/// Jin, CFDC: A Flash-Aware Replacement Policy for Database Buffer Management, DaMoN 2009, section 4.2). The
/// defaults are the paper's baseline.
///
/// Keys of point operations are self-similar; ranges begin anywhere and end with the last record at
/// the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cfdc {
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
    /// How unequally records are asked for; 0.8/0.2.
    pub skew: Skew,
    /// Whether popular records lie anywhere. Otherwise record 0 is the most popular one and its
    /// neighbours are next, as with Gray's generator, whose name the paper gives; it does not say more.
    pub scattered: bool,
    /// Another seed, another workload of the same kind; 1.
    pub seed: u64,
}

impl Default for Cfdc {
    fn default() -> Self {
        Cfdc {
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

impl Cfdc {
    /// The same number of operations, of which this share (0 to 1) are updates: section 4.4 of the
    /// paper. With 0.2 there are 160,000 point queries, 40,000 point updates, 320 range queries and 80
    /// range updates.
    pub fn with_update_intensity(self, share: f64) -> Self {
        let split = |reads: u64, writes: u64| {
            let all = reads.saturating_add(writes);
            let updates = ((all as f64 * share).round() as u64).min(all);
            (all - updates, updates)
        };
        let (queries, updates) = split(self.queries, self.updates);
        let (scans, update_scans) = split(self.scans, self.update_scans);
        Cfdc {
            queries,
            updates,
            scans,
            update_scans,
            ..self
        }
    }

    /// The same with so many scans, half of them (rounded up) range queries: section 4.5 of the paper.
    pub fn with_scans(self, scans: u64) -> Self {
        Cfdc {
            scans: scans.div_ceil(2),
            update_scans: scans / 2,
            ..self
        }
    }

    /// The operations in their order, every order as likely.
    ///
    /// # Errors
    ///
    /// If there are no records or too many, more than 2^64 operations, or too little memory.
    pub fn operations(&self) -> Result<CfdcOperations, WorkloadError> {
        let left = [self.queries, self.updates, self.scans, self.update_scans];
        let all = left
            .iter()
            .try_fold(0, |sum: u64, &more| sum.checked_add(more));
        let skew = (self.skew.operations, self.skew.records);
        let mut random = Random::new(self.seed);
        let popularity = Popularity::new(self.records, self.scattered, &mut random, |ranking| {
            self_similar::table(ranking, skew)
        })?;
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

/// The operations of a [`Cfdc`] workload.
#[derive(Debug, Clone)]
pub struct CfdcOperations {
    records: u64,
    scan_records: u64,
    /// Operations to come, and of each kind.
    all: u64,
    left: [u64; 4],
    random: Random,
    popularity: Popularity,
}

impl Iterator for CfdcOperations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        self.all = self.all.checked_sub(1)?;
        // Kinds in proportion to what is left of them: all orders are as likely.
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
                0 => Operation::Read { record },
                _ => Operation::Update { record },
            });
        }
        let first = self.random.below(self.records);
        let records = self.scan_records.min(self.records - first);
        Some(match kind {
            2 => Operation::Scan { first, records },
            _ => Operation::UpdateScan { first, records },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let all = usize::try_from(self.all);
        (all.unwrap_or(usize::MAX), all.ok())
    }
}
