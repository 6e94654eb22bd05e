//! The pages during a check: findings about them, which are in use, and which were reached.

use ebbpool::{HEADER_BYTES, Lsn, Pool, PoolScan, ReadGuard};
use fixedbitset::FixedBitSet;

use super::{CheckFinding, CheckReport};
use crate::error::DatabaseError;
use crate::page::map::AllocationMaps;
use crate::page::meta::{FORMAT, MetaPage};
use crate::page::{META, PageKind};
use crate::tree::{Tree, TreeShape};

use ebbpool::Log as _;

/// All pages of the storage, two bits for each.
pub(super) struct PageCheck<'t> {
    pool: &'t Pool,
    maps: AllocationMaps,
    count: u64,
    /// Where the log ends.
    end: Lsn,
    scan: PoolScan,
    used: FixedBitSet,
    reached: FixedBitSet,
    /// By index, maps that could not be read.
    unreadable_maps: FixedBitSet,
    /// By index, maps that were never created.
    empty_maps: FixedBitSet,
    /// True if pages in use may not have been reached because other pages could not be read.
    incomplete: bool,
    used_count: u64,
    findings: Vec<CheckFinding>,
}

impl<'t> PageCheck<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        let count = tree.pool.pages();
        let bits = usize::try_from(count).unwrap_or(usize::MAX);
        let maps = tree.allocation.maps;
        let map_bits = maps.below(count).count();
        PageCheck {
            pool: &tree.pool,
            maps,
            count,
            end: tree.wal.end_lsn(),
            scan: PoolScan::new(),
            used: FixedBitSet::with_capacity(bits),
            reached: FixedBitSet::with_capacity(bits),
            unreadable_maps: FixedBitSet::with_capacity(map_bits),
            empty_maps: FixedBitSet::with_capacity(map_bits),
            incomplete: false,
            used_count: 0,
            findings: Vec::new(),
        }
    }

    pub(super) fn add_finding(&mut self, page: u64, what: impl Into<String>) {
        let what = what.into();
        self.findings.push(CheckFinding { page, what });
    }

    /// Returns the value, or nothing and adds a finding if an error says that a page is damaged or
    /// unreadable.
    pub(super) fn note<T>(&mut self, outcome: Result<T, DatabaseError>) -> Result<Option<T>, DatabaseError> {
        match outcome {
            Ok(value) => return Ok(Some(value)),
            Err(DatabaseError::Corrupt { page, what }) => self.add_finding(page, what),
            Err(DatabaseError::Pool(ebbpool::PoolError::Damaged { page, damage })) => {
                self.add_finding(page, damage.to_string());
            }
            Err(DatabaseError::Pool(ebbpool::PoolError::Read { page, source })) => {
                self.add_finding(page, format!("it cannot be read: {source}"));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Reads a page from the storage. Returns nothing and adds a finding if it cannot be read.
    pub(super) fn read(&mut self, page: u64) -> Result<Option<ReadGuard<'t>>, DatabaseError> {
        self.pool.discard(page)?;
        let read = self.pool.fix_scan(page, &mut self.scan);
        let Some(guard) = self.note(read.map_err(DatabaseError::from))? else {
            return Ok(None);
        };
        let (lsn, end) = (guard.lsn(), self.end);
        if lsn > end {
            let what = format!("it is as of LSN {lsn}, and the log ends at {end}: the log is older");
            self.add_finding(page, what);
        }
        Ok(Some(guard))
    }

    /// Notes that a page is reached from another one. Returns false and adds a finding if it was reached
    /// before or does not exist.
    pub(super) fn reach(&mut self, page: u64, from: u64) -> bool {
        if page >= self.count {
            let count = self.count;
            let what = format!("it names page {page}, and there are {count} pages");
            self.add_finding(from, what);
            return false;
        }
        if self.reached.put(page as usize) {
            let what = format!("it is reached a second time, from page {from}");
            self.add_finding(page, what);
            return false;
        }
        let map = self.index_of_map(page);
        let has_map = !self.unreadable_maps.contains(map) && !self.empty_maps.contains(map);
        if has_map && !self.used.contains(page as usize) {
            let what = format!("it is reached from page {from}, and marked as free");
            self.add_finding(page, what);
        }
        true
    }

    fn index_of_map(&self, page: u64) -> usize {
        (page / self.maps.span) as usize
    }

    /// Notes that part of the tree could not be walked.
    pub(super) fn mark_incomplete(&mut self) {
        self.incomplete = true;
    }

    pub(super) fn check_maps(&mut self) -> Result<(), DatabaseError> {
        for (index, map) in self.maps.below(self.count).enumerate() {
            let payload = match map < self.count {
                true => self.read(map)?,
                false => None,
            };
            let Some(payload) = payload else {
                match map < self.count {
                    true => self.unreadable_maps.insert(index),
                    false => self.empty_maps.insert(index),
                }
                continue;
            };
            if map > 1 && PageKind::from_payload(&payload) == Some(PageKind::Nothing) {
                self.empty_maps.insert(index);
                continue;
            }
            let used = self.maps.used(map, &payload);
            drop(payload);
            match self.note(used)? {
                Some(used) => self.take_used(map, &used),
                None => self.unreadable_maps.insert(index),
            }
        }
        Ok(())
    }

    fn take_used(&mut self, map: u64, used: &[u64]) {
        let (within, beyond) = used.split_at(used.partition_point(|&page| page < self.count));
        for &page in within {
            self.used.insert(page as usize);
        }
        if let &[first, ..] = beyond {
            let (more, count) = (beyond.len(), self.count);
            let what = format!("it marks {more} pages as in use from page {first} on, and there are {count} pages");
            self.add_finding(map, what);
        }
        self.used_count += used.len() as u64;
        self.reach(map, map);
    }

    pub(super) fn check_meta(&mut self) -> Result<(), DatabaseError> {
        self.reach(META, META);
        let Some(payload) = self.read(META)? else {
            return Ok(());
        };
        let meta = MetaPage::read(&payload);
        drop(payload);
        let Some(meta) = self.note(meta)? else {
            return Ok(());
        };
        if meta.format != FORMAT {
            let found = meta.format;
            self.add_finding(META, format!("it says format {found}, and this is format {FORMAT}"));
        }
        let page_size = self.pool.payload_size() + HEADER_BYTES;
        if meta.page_size as usize != page_size {
            let found = meta.page_size;
            self.add_finding(META, format!("it says pages of {found} bytes, and they have {page_size}"));
        }
        Ok(())
    }

    /// Adds findings for pages in use that the walk did not reach.
    pub(super) fn check_leaks(&mut self) {
        let why = match self.incomplete {
            true => "in use, and not reached, perhaps since other pages cannot be read",
            false => "in use and not reached: leaked",
        };
        let leaked: Vec<usize> = self.used.difference(&self.reached).collect();
        for run in leaked.chunk_by(|&a, &b| a + 1 == b) {
            let first = run[0] as u64;
            let what = match run.len() - 1 {
                0 => why.to_owned(),
                more => format!("{why}, as are the {more} after it"),
            };
            self.add_finding(first, what);
        }
        let empty: Vec<usize> = self.empty_maps.ones().collect();
        for index in empty {
            self.check_empty_map(index as u64 * self.maps.span);
        }
    }

    fn check_empty_map(&mut self, first: u64) {
        let after = (first + self.maps.span).min(self.count);
        let reached = (first..after).find(|&page| self.reached.contains(page as usize));
        if let Some(page) = reached {
            let what = format!("the allocation map is empty, and page {page} is in use");
            self.add_finding(first + 1, what);
        }
    }

    pub(super) fn into_report(mut self, shape: TreeShape) -> CheckReport {
        self.findings.sort_by_key(|finding| finding.page);
        CheckReport { shape, pages: self.count, used: self.used_count, findings: self.findings }
    }
}
