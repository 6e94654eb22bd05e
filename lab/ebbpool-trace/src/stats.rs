//! Statistics of a reference string, computed in one pass.

mod classes;
mod requests;

use serde::{Deserialize, Serialize};

use crate::distances::StackDistances;
use crate::error::TraceError;
use crate::ids::Ids;
use crate::reader::Reader;
use crate::reference::{Batch, PageClasses};

pub use classes::ClassStatistics;
use classes::ClassUses;
pub use requests::RequestStatistics;
use requests::RequestUses;

/// References decoded at a time; small enough to stay in the cache.
const BATCH: usize = 1 << 14;
/// The largest supported number of distinct pages.
const MOST_PAGES: u64 = StackDistances::MOST_PAGES;
/// Sizes of the sets of hottest pages, in per cent of the distinct pages.
const HOTTEST: [u8; 3] = [1, 10, 20];
/// Points of a curve for each power of ten, and powers of ten from 0.1 % to 100 %.
const POINTS_PER_DECADE: i32 = 20;
const DECADES: i32 = 3;

/// Statistics of a whole trace. When serialised, it has the field names of
/// `ebbpool trace info --format json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceStatistics {
    /// Number of references.
    pub references: u64,
    /// References that write.
    pub writes: u64,
    /// `writes / references`, 0 for an empty trace.
    pub write_ratio: f64,
    /// Those of the writes that replace all of their page, so that a miss reads nothing; 0 if the trace was read without them.
    #[serde(default)]
    pub whole_writes: u64,
    /// Requests that end pages; 0 if the trace was read without them.
    #[serde(default)]
    pub trims: u64,
    /// Pages of these requests, each as often as it was in one.
    #[serde(default)]
    pub trimmed_pages: u64,
    /// Number of distinct pages.
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
    /// Maximal sequences of references in which each page number is the previous one plus
    /// 1; in a random trace most have length 1.
    pub runs: u64,
    /// `references / runs`, 0 for an empty trace.
    pub mean_run_length: f64,
    /// Share of references that continue a run, 0 to 1.
    pub sequential_share: f64,
    /// Share of references that are the first to their page, 0 to 1: they miss under every
    /// policy.
    pub cold_share: f64,
    /// Stack distances of the other references, `None` if there are none.
    pub stack_distance: Option<StackDistance>,
    /// Shares of the hottest 1, 10 and 20 % of the distinct pages.
    pub hottest: Vec<Hottest>,
    /// Hit ratio of LRU, cold from the start, by memory in per cent of the
    /// database's pages where the trace states them, else of the distinct pages.
    pub lru_hit_ratio: Curve,
    /// Share of references to the hottest pages, by their share of the distinct
    /// pages.
    pub popularity: Curve,
    /// The classes of the pages, those with most references first; none if the trace has none, or was read without them.
    #[serde(default)]
    pub classes: Vec<ClassStatistics>,
    /// The times and rings of the references, `None` if the trace has none, or was read without them.
    #[serde(default)]
    pub requests: Option<RequestStatistics>,
}

/// Quartiles of the LRU stack distance: the number of distinct pages, including the page
/// itself, that are referenced from one reference to a page to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackDistance {
    /// A quarter of the distances are at most this, in pages.
    pub lower_quartile: u64,
    /// Half of the distances are at most this, in pages.
    pub median: u64,
    /// Three quarters of the distances are at most this, in pages.
    pub upper_quartile: u64,
}

/// Shares of the hottest pages. The share of reads is that of the pages hottest in reads,
/// the share of writes that of the pages hottest in writes; these may be different pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hottest {
    /// How many pages, in per cent of the distinct pages.
    #[cfg_attr(feature = "schema", schemars(extend("x-role" = "key")))]
    pub percent: u8,
    /// How many pages, rounded down, at least 1.
    pub pages: u64,
    /// Their share of all references, 0 to 1.
    pub reference_share: f64,
    /// Their share of the reads, 0 to 1; `None` without reads.
    pub read_share: Option<f64>,
    /// Their share of the writes, 0 to 1; `None` without writes.
    pub write_share: Option<f64>,
}

/// A share as a function of the number of pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// The number of pages that is 100 %.
    pub of_pages: u64,
    /// From 0.1 % to 100 %, 20 points for each power of ten; none for an empty
    /// trace.
    pub points: Vec<CurvePoint>,
}

/// A point of a [`Curve`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Number of pages, in per cent.
    #[cfg_attr(feature = "schema", schemars(extend("x-role" = "key")))]
    pub percent: f64,
    /// Number of pages, rounded down, at least 1.
    pub pages: u64,
    /// The share, 0 to 1.
    pub share: f64,
}

impl TraceStatistics {
    /// Reads `reader` to its end; see [`Collector`] for the memory it takes.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::next_batch`] and [`Collector::add`].
    pub fn from_reader(reader: &mut Reader) -> Result<TraceStatistics, TraceError> {
        let database_pages = reader.metadata().database_pages;
        let mut collector = Collector::new();
        let mut batch = Batch::with_capacity(BATCH);
        while reader.next_batch(&mut batch, BATCH)? {
            collector.add(&batch)?;
        }
        let mut statistics = collector.info(database_pages);
        statistics.name_classes(&reader.classes().unwrap_or_default());
        Ok(statistics)
    }

    /// Names the classes, as far as they have names.
    pub fn name_classes(&mut self, classes: &PageClasses) {
        for class in &mut self.classes {
            class.name = classes.name(class.class).map(str::to_owned);
        }
    }
}

/// How often a page was read and written.
#[derive(Debug, Clone, Copy, Default)]
struct PageUses {
    reads: u64,
    writes: u64,
}

/// Computes [`TraceStatistics`] for callers that read the references anyway. Takes about
/// 50 bytes per distinct page, whatever the number of references, and 4 for each page below the
/// highest, if that is below 2^26.
#[derive(Debug, Clone)]
pub struct Collector {
    references: u64,
    writes: u64,
    whole_writes: u64,
    trims: u64,
    trimmed_pages: u64,
    repeats: u64,
    continued: u64,
    last: Option<u64>,
    lowest: u64,
    highest: u64,
    ids: Ids,
    uses: Vec<PageUses>,
    /// The dense numbers of the references that are added.
    batch: Vec<u32>,
    distances: StackDistances,
    /// How many references had each stack distance.
    at_distance: Vec<u64>,
    classes: ClassUses,
    requests: RequestUses,
}

impl Default for Collector {
    fn default() -> Collector {
        Collector::new()
    }
}

impl Collector {
    /// A collector before the first reference.
    pub fn new() -> Collector {
        Collector {
            references: 0,
            writes: 0,
            whole_writes: 0,
            trims: 0,
            trimmed_pages: 0,
            repeats: 0,
            continued: 0,
            last: None,
            lowest: u64::MAX,
            highest: 0,
            ids: Ids::default(),
            uses: Vec::new(),
            batch: Vec::new(),
            distances: StackDistances::new(),
            at_distance: vec![0],
            classes: ClassUses::default(),
            requests: RequestUses::default(),
        }
    }

    /// Adds the next references.
    ///
    /// # Errors
    ///
    /// [`TraceError::TooManyPages`] at more than 2^30 distinct pages.
    pub fn add(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.requests.add(&batch.requests);
        // One pass for each structure: a processor waits for several of its entries at a time.
        let pages = &batch.pages;
        self.references += pages.len() as u64;
        self.writes += ones(&batch.writes);
        self.whole_writes += ones(&batch.whole);
        let mut compare = |before: u64, page: u64| {
            self.repeats += u64::from(page == before);
            self.continued += u64::from(page == before.wrapping_add(1) && page > 0);
        };
        if let (Some(before), Some(&first)) = (self.last, pages.first()) {
            compare(before, first);
        }
        pages.windows(2).for_each(|pair| compare(pair[0], pair[1]));
        self.last = pages.last().copied().or(self.last);
        self.lowest = pages.iter().copied().fold(self.lowest, u64::min);
        self.highest = pages.iter().copied().fold(self.highest, u64::max);
        self.batch.clear();
        self.ids.ids(pages, |_| {}, |number| self.batch.push(number));
        if self.ids.count() > MOST_PAGES {
            return Err(TraceError::TooManyPages { limit: MOST_PAGES });
        }
        self.classes.add(batch, &self.batch, self.uses.len() as u32);
        self.uses.resize(self.ids.count() as usize, PageUses::default());
        self.at_distance.resize(self.uses.len() + 1, 0);
        for (&number, &write) in self.batch.iter().zip(&batch.writes) {
            let uses = &mut self.uses[number as usize];
            uses.writes += u64::from(write);
            uses.reads += u64::from(!write);
        }
        let at_distance = &mut self.at_distance;
        let mut found = |distance: u32| at_distance[distance as usize] += 1;
        let mut served = 0;
        for trim in &batch.trims {
            self.distances.reference_all(&self.batch[served..trim.before], &mut found);
            served = trim.before;
            self.trims += 1;
            let pages = (trim.last - trim.first).saturating_add(1);
            self.trimmed_pages = self.trimmed_pages.saturating_add(pages);
            self.ids.within(trim.first, trim.last, |number| self.distances.remove(number));
        }
        self.distances.reference_all(&self.batch[served..], &mut found);
        Ok(())
    }

    /// Distinct pages so far.
    pub fn distinct_pages(&self) -> u64 {
        self.uses.len() as u64
    }

    /// The statistics so far. Memory is given in per cent of `database_pages`, or of the
    /// distinct pages if it is `None`.
    pub fn info(&self, database_pages: Option<u64>) -> TraceStatistics {
        let distinct = self.distinct_pages();
        let share = |part: u64| match self.references {
            0 => 0.0,
            all => part as f64 / all as f64,
        };
        let kind = |test: fn(&PageUses) -> bool| self.uses.iter().filter(|uses| test(uses)).count();
        let runs = self.references - self.continued;
        let hits = running_sums(self.at_distance.iter().skip(1).copied());
        let all = self.hottest_first(|uses| uses.reads + uses.writes);
        TraceStatistics {
            references: self.references,
            writes: self.writes,
            write_ratio: share(self.writes),
            whole_writes: self.whole_writes,
            trims: self.trims,
            trimmed_pages: self.trimmed_pages,
            distinct_pages: distinct,
            lowest_page: self.last.map(|_| self.lowest),
            highest_page: self.last.map(|_| self.highest),
            immediate_repeats: self.repeats,
            pages_only_read: kind(|uses| uses.writes == 0) as u64,
            pages_only_written: kind(|uses| uses.reads == 0) as u64,
            pages_both: kind(|uses| uses.reads > 0 && uses.writes > 0) as u64,
            runs,
            mean_run_length: match runs {
                0 => 0.0,
                runs => self.references as f64 / runs as f64,
            },
            sequential_share: share(self.continued),
            cold_share: share(distinct),
            stack_distance: quartiles(&hits),
            hottest: if distinct == 0 { Vec::new() } else { self.hottest(&all) },
            lru_hit_ratio: curve(database_pages.unwrap_or(distinct), |pages| at(&hits, pages), self.references),
            popularity: curve(distinct, |pages| of_hottest(&all, pages), self.references),
            classes: self.classes.statistics(self.references),
            requests: self.requests.statistics(),
        }
    }

    /// Numbers of references, the highest first, and how many pages have each.
    fn hottest_first(&self, uses: fn(&PageUses) -> u64) -> Vec<(u64, u64)> {
        /// Numbers below this are found in an array, others are sorted.
        const DIRECT: usize = 1 << 16;
        let mut pages = vec![0; DIRECT];
        let mut counts = Vec::new();
        for count in self.uses.iter().map(uses) {
            match pages.get_mut(count as usize) {
                Some(pages) => *pages += 1,
                None => counts.push((count, 1)),
            }
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let direct = (0..DIRECT).zip(pages).rev().filter(|&(_, pages)| pages > 0);
        counts.extend(direct.map(|(count, pages)| (count as u64, pages)));
        counts
    }

    fn hottest(&self, all: &[(u64, u64)]) -> Vec<Hottest> {
        let reads = self.hottest_first(|uses| uses.reads);
        let writes = self.hottest_first(|uses| uses.writes);
        let share = |counts: &[(u64, u64)], pages: u64| {
            let total = Some(of_hottest(counts, u64::MAX)).filter(|&total| total > 0)?;
            Some(of_hottest(counts, pages) as f64 / total as f64)
        };
        let of = |percent: u8| {
            let pages = (self.distinct_pages() * u64::from(percent) / 100).max(1);
            Hottest {
                percent,
                pages,
                reference_share: share(all, pages).unwrap_or(0.0),
                read_share: share(&reads, pages),
                write_share: share(&writes, pages),
            }
        };
        HOTTEST.map(of).to_vec()
    }
}

/// The references to the hottest `pages` pages, or to all if there are fewer.
fn of_hottest(counts: &[(u64, u64)], mut pages: u64) -> u64 {
    let mut references = 0;
    for &(count, of) in counts {
        let taken = pages.min(of);
        references += count * taken;
        pages -= taken;
    }
    references
}

fn ones(flags: &[bool]) -> u64 {
    flags.iter().map(|&flag| u64::from(flag)).sum()
}

fn running_sums(values: impl Iterator<Item = u64>) -> Vec<u64> {
    values
        .scan(0, |sum, value| {
            *sum += value;
            Some(*sum)
        })
        .collect()
}

/// The sum over the first `pages` pages, or over all if there are fewer.
fn at(sums: &[u64], pages: u64) -> u64 {
    let pages = usize::try_from(pages).unwrap_or(usize::MAX);
    match pages.min(sums.len()) {
        0 => 0,
        pages => sums[pages - 1],
    }
}

/// Quartiles of distances; `sums[d - 1]` is the number of distances of at most d.
fn quartiles(sums: &[u64]) -> Option<StackDistance> {
    let all = sums.last().copied().filter(|&all| all > 0)?;
    let quartile = |quarters: u128| {
        let rank = (u128::from(all) * quarters).div_ceil(4);
        sums.partition_point(|&sum| u128::from(sum) < rank) as u64 + 1
    };
    Some(StackDistance { lower_quartile: quartile(1), median: quartile(2), upper_quartile: quartile(3) })
}

fn curve(of_pages: u64, at: impl Fn(u64) -> u64, references: u64) -> Curve {
    let point = |step: i32| {
        let percent = 10f64.powf(f64::from(step) / f64::from(POINTS_PER_DECADE) - 1.0);
        // The last bits of powers differ between machines.
        let percent = (percent * 1000.0).round() / 1000.0;
        let pages = ((of_pages as f64 * percent / 100.0) as u64).max(1);
        CurvePoint { percent, pages, share: at(pages) as f64 / references as f64 }
    };
    let points = match references {
        0 => Vec::new(),
        _ => (0..=DECADES * POINTS_PER_DECADE).map(point).collect(),
    };
    Curve { of_pages, points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(references: &[(u64, bool)]) -> TraceStatistics {
        let mut collector = Collector::new();
        for piece in references.chunks(4) {
            collector.add(&piece.iter().copied().collect()).unwrap();
        }
        collector.info(None)
    }

    #[test]
    fn nothing() {
        let mut collector = Collector::new();
        collector.add(&Batch::new()).unwrap();
        assert_eq!(collector.info(None), TraceStatistics::default());
    }

    #[test]
    fn every_count() {
        let far = u64::MAX;
        let info = info(&[
            (5, false),
            (5, true),
            (5, true),
            (7, false),
            (far, true),
            (far, true),
            (0, false),
            (6, true),
            (7, true),
            (8, false),
        ]);
        assert_eq!(info.references, 10);
        assert_eq!(info.writes, 6);
        assert_eq!(info.write_ratio, 0.6);
        assert_eq!(info.distinct_pages, 6);
        assert_eq!((info.lowest_page, info.highest_page), (Some(0), Some(far)));
        assert_eq!(info.immediate_repeats, 3);
        let pages = (info.pages_only_read, info.pages_only_written, info.pages_both);
        assert_eq!(pages, (2, 2, 2));
        // 6, 7, 8 is the only run of several references; 2^64-1 to 0 is not one.
        assert_eq!(info.runs, 8);
        assert_eq!(info.mean_run_length, 1.25);
        assert_eq!(info.sequential_share, 0.2);
        assert_eq!(info.cold_share, 0.6);
        // Distances 1, 1, 1 (repeats) and 4 (page 7 after far, 0 and 6).
        let quartiles = StackDistance { lower_quartile: 1, median: 1, upper_quartile: 1 };
        assert_eq!(info.stack_distance, Some(quartiles));
        let last = info.lru_hit_ratio.points.last().unwrap();
        assert_eq!((last.percent, last.pages, last.share), (100.0, 6, 0.4));
        let half = info.lru_hit_ratio.points.iter().find(|point| point.pages == 3);
        assert_eq!(half.unwrap().share, 0.3);
    }

    #[test]
    fn a_loop_has_one_distance() {
        let references: Vec<_> = (0..1000).map(|i| (i % 100, false)).collect();
        let info = info(&references);
        let quartiles = info.stack_distance.unwrap();
        assert_eq!((quartiles.lower_quartile, quartiles.median, quartiles.upper_quartile), (100, 100, 100));
        // LRU's worst case: no hits until the whole loop fits.
        let curve = &info.lru_hit_ratio;
        assert!(curve.points.iter().all(|point| point.pages == 100 || point.share == 0.0));
        assert_eq!(curve.points.last().unwrap().share, 0.9);
        assert_eq!(info.runs, 10);
    }

    #[test]
    fn hottest_pages_are_ranked_separately_for_reads_and_writes() {
        // Of 100 pages, 0 is read 101 times, 1 written 50 times, the rest read once.
        let mut references: Vec<_> = (0..100).filter(|&page| page != 1).map(|page| (page, false)).collect();
        references.extend([(0, false); 100]);
        references.extend([(1, true); 50]);
        let info = info(&references);
        let [one, ten, twenty] = info.hottest[..] else {
            panic!("three shares");
        };
        assert_eq!((one.percent, one.pages), (1, 1));
        assert_eq!(one.read_share, Some(101.0 / 199.0));
        assert_eq!(one.write_share, Some(1.0));
        assert_eq!(one.reference_share, 101.0 / 249.0);
        assert_eq!((ten.pages, twenty.pages), (10, 20));
        assert_eq!(ten.reference_share, 159.0 / 249.0);
        assert_eq!(twenty.read_share, Some(120.0 / 199.0));
        let popular = &info.popularity;
        assert_eq!(popular.of_pages, 100);
        assert_eq!(popular.points.len(), 61);
        assert_eq!(popular.points[20].percent, 1.0);
        assert_eq!(popular.points[20].share, one.reference_share);
        assert_eq!(popular.points[60].share, 1.0);
    }

    #[test]
    fn memory_is_in_per_cent_of_the_database_where_its_size_is_known() {
        let mut collector = Collector::new();
        collector.add(&[(1, false), (2, false), (1, false)].into_iter().collect()).unwrap();
        let curve = collector.info(Some(1000)).lru_hit_ratio;
        assert_eq!(curve.of_pages, 1000);
        let shares: Vec<f64> = curve.points.iter().filter(|point| point.pages == 2).map(|point| point.share).collect();
        assert!(!shares.is_empty() && shares.iter().all(|&share| share == 1.0 / 3.0));
        assert_eq!(curve.points[0].share, 0.0);
        let read_only = collector.info(None).hottest[0];
        assert_eq!((read_only.read_share, read_only.write_share), (Some(2.0 / 3.0), None));
    }
}
