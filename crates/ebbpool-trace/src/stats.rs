//! What a reference string is like, in one pass.

use hashbrown::HashMap;

use crate::error::TraceError;
use crate::reference::Batch;
use crate::source::Reader;

/// Page numbers below this have two bits each in a table (64 MiB when it is as
/// large as it gets); others are hashed.
const DENSE_PAGES: u64 = 1 << 28;
const PAGES_PER_BYTE: u64 = 4;
const READ: u8 = 1;
const WRITTEN: u8 = 2;
/// References decoded at a time; small enough to stay in the cache.
const BATCH: usize = 1 << 14;

/// Counts over a whole trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Info {
    /// Number of references.
    pub references: u64,
    /// References that write.
    pub writes: u64,
    /// `writes / references`, 0 for an empty trace.
    pub write_ratio: f64,
    /// Pages that occur at all.
    pub distinct_pages: u64,
    /// The lowest page number, `None` for an empty trace.
    pub lowest_page: Option<u64>,
    /// The highest page number, `None` for an empty trace.
    pub highest_page: Option<u64>,
    /// References to the same page as the reference before.
    pub immediate_repeats: u64,
    /// Pages that are read and never written.
    pub pages_only_read: u64,
    /// Pages that are written and never read.
    pub pages_only_written: u64,
    /// Pages that are both read and written.
    pub pages_both: u64,
}

impl Info {
    /// Reads `reader` to its end. Takes two bits per page for page numbers below
    /// 2^28, about 20 bytes for each distinct page beyond.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::next_batch`].
    pub fn of(reader: &mut Reader) -> Result<Info, TraceError> {
        let mut collector = Collector::new();
        let mut batch = Batch::with_capacity(BATCH);
        while reader.next_batch(&mut batch, BATCH)? {
            collector.add(&batch);
        }
        Ok(collector.info())
    }
}

/// Gathers an [`Info`] for callers that see the references pass by anyway.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    references: u64,
    writes: u64,
    repeats: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    last: Option<u64>,
    /// Two bits per page: read, written.
    dense: Vec<u8>,
    sparse: HashMap<u64, u8>,
}

impl Collector {
    /// Has seen nothing.
    pub fn new() -> Collector {
        Collector::default()
    }

    /// Takes the next references.
    pub fn add(&mut self, batch: &Batch) {
        let Some((&first, &last)) = batch.pages.first().zip(batch.pages.last()) else {
            return;
        };
        self.references += batch.len() as u64;
        self.writes += batch
            .writes
            .iter()
            .map(|&write| u64::from(write))
            .sum::<u64>();
        self.repeats += u64::from(self.last == Some(first))
            + batch
                .pages
                .windows(2)
                .map(|pair| u64::from(pair[0] == pair[1]))
                .sum::<u64>();
        self.last = Some(last);
        let lowest = batch.pages.iter().copied().fold(u64::MAX, u64::min);
        let highest = batch.pages.iter().copied().fold(0, u64::max);
        self.lowest = Some(self.lowest.map_or(lowest, |old| old.min(lowest)));
        self.highest = Some(self.highest.map_or(highest, |old| old.max(highest)));

        let dense_end = batch
            .pages
            .iter()
            .copied()
            .filter(|&page| page < DENSE_PAGES)
            .max()
            .map_or(0, |page| (page / PAGES_PER_BYTE) as usize + 1);
        if dense_end > self.dense.len() {
            self.dense.resize(dense_end.next_power_of_two(), 0);
        }
        for (page, write) in batch.iter() {
            let bit = if write { WRITTEN } else { READ };
            if page < DENSE_PAGES {
                let shift = 2 * (page % PAGES_PER_BYTE);
                self.dense[(page / PAGES_PER_BYTE) as usize] |= bit << shift;
            } else {
                *self.sparse.entry(page).or_default() |= bit;
            }
        }
    }

    /// Distinct pages so far; walks the tables.
    pub fn distinct_pages(&self) -> u64 {
        self.kinds().iter().sum()
    }

    /// What was gathered so far; walks the tables.
    pub fn info(&self) -> Info {
        let [pages_only_read, pages_only_written, pages_both] = self.kinds();
        Info {
            references: self.references,
            writes: self.writes,
            write_ratio: if self.references == 0 {
                0.0
            } else {
                self.writes as f64 / self.references as f64
            },
            distinct_pages: pages_only_read + pages_only_written + pages_both,
            lowest_page: self.lowest,
            highest_page: self.highest,
            immediate_repeats: self.repeats,
            pages_only_read,
            pages_only_written,
            pages_both,
        }
    }

    /// Pages only read, only written, both.
    fn kinds(&self) -> [u64; 3] {
        let mut kinds = [0; 3];
        for &byte in self.dense.iter().filter(|&&byte| byte != 0) {
            for shift in [0, 2, 4, 6] {
                let bits = usize::from(byte >> shift & 3);
                if bits != 0 {
                    kinds[bits - 1] += 1;
                }
            }
        }
        for &bits in self.sparse.values() {
            kinds[usize::from(bits) - 1] += 1;
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing() {
        let mut collector = Collector::new();
        collector.add(&Batch::new());
        assert_eq!(collector.info(), Info::default());
    }

    #[test]
    fn every_count() {
        let mut collector = Collector::new();
        let far = u64::MAX;
        let edge = DENSE_PAGES;
        collector.add(&Batch::from_iter([
            (5, false),
            (5, true),
            (5, true),
            (7, false),
            (far, true),
        ]));
        collector.add(&Batch::from_iter([
            (far, true),
            (edge, false),
            (edge - 1, true),
            (edge, true),
            (8, false),
        ]));
        let info = collector.info();
        assert_eq!(
            info,
            Info {
                references: 10,
                writes: 6,
                write_ratio: 0.6,
                distinct_pages: 6,
                lowest_page: Some(5),
                highest_page: Some(far),
                immediate_repeats: 3,
                pages_only_read: 2,
                pages_only_written: 2,
                pages_both: 2,
            }
        );
        assert_eq!(collector.distinct_pages(), 6);
    }
}
