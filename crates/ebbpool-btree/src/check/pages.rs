//! Reading pages for a check: what is wrong with them, which are in use, and which were reached.

use ebbpool::{HEADER_BYTES, Lsn, Pool, ReadGuard, Scan};
use fixedbitset::FixedBitSet;

use super::{Finding, Report};
use crate::error::Error;
use crate::page::map::Maps;
use crate::page::meta::{FORMAT, Meta};
use crate::page::{Kind, META};
use crate::tree::{Shape, Tree};

use ebbpool::Log as _;

/// All pages of the storage, two bits for each.
pub(super) struct Pages<'t> {
    pool: &'t Pool,
    maps: Maps,
    count: u64,
    /// Where the log ends.
    end: Lsn,
    scan: Scan,
    used: FixedBitSet,
    reached: FixedBitSet,
    /// Maps by their index, that do not say which pages are in use.
    unreadable_maps: FixedBitSet,
    /// Maps by their index, that were never made.
    empty_maps: FixedBitSet,
    /// Pages that are in use may not have been reached because others could not be read.
    incomplete: bool,
    used_count: u64,
    findings: Vec<Finding>,
}

impl<'t> Pages<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        let count = tree.pool.pages();
        let bits = usize::try_from(count).unwrap_or(usize::MAX);
        let maps = tree.allocation.maps;
        let map_bits = maps.below(count).count();
        Pages {
            pool: &tree.pool,
            maps,
            count,
            end: tree.wal.end_lsn(),
            scan: Scan::new(),
            used: FixedBitSet::with_capacity(bits),
            reached: FixedBitSet::with_capacity(bits),
            unreadable_maps: FixedBitSet::with_capacity(map_bits),
            empty_maps: FixedBitSet::with_capacity(map_bits),
            incomplete: false,
            used_count: 0,
            findings: Vec::new(),
        }
    }

    pub(super) fn find(&mut self, page: u64, what: impl Into<String>) {
        let what = what.into();
        self.findings.push(Finding { page, what });
    }

    /// Nothing, and a finding, if it failed because of what a page holds.
    pub(super) fn note<T>(&mut self, outcome: Result<T, Error>) -> Result<Option<T>, Error> {
        match outcome {
            Ok(value) => return Ok(Some(value)),
            Err(Error::Corrupt { page, what }) => self.find(page, what),
            Err(Error::Pool(ebbpool::Error::Damaged { page, damage })) => {
                self.find(page, damage.to_string());
            }
            Err(Error::Pool(ebbpool::Error::Read { page, source })) => {
                self.find(page, format!("it cannot be read: {source}"));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// A page as the storage has it; nothing, and a finding, if it cannot be had.
    pub(super) fn read(&mut self, page: u64) -> Result<Option<ReadGuard<'t>>, Error> {
        self.pool.discard(page)?;
        let read = self.pool.fix_scan(page, &mut self.scan);
        let Some(guard) = self.note(read.map_err(Error::from))? else {
            return Ok(None);
        };
        let (lsn, end) = (guard.lsn(), self.end);
        if lsn > end {
            let what =
                format!("it is as of LSN {lsn}, and the log ends at {end}: the log is older");
            self.find(page, what);
        }
        Ok(Some(guard))
    }

    /// Notes that a page is reached from another one; false, and a finding, if it was before, or there
    /// is no such page.
    pub(super) fn reach(&mut self, page: u64, from: u64) -> bool {
        if page >= self.count {
            let count = self.count;
            let what = format!("it names page {page}, and there are {count} pages");
            self.find(from, what);
            return false;
        }
        if self.reached.put(page as usize) {
            let what = format!("it is reached a second time, from page {from}");
            self.find(page, what);
            return false;
        }
        let map = self.index_of_map(page);
        let told = !self.unreadable_maps.contains(map) && !self.empty_maps.contains(map);
        if told && !self.used.contains(page as usize) {
            let what = format!("it is reached from page {from}, and marked as free");
            self.find(page, what);
        }
        true
    }

    fn index_of_map(&self, page: u64) -> usize {
        (page / self.maps.span) as usize
    }

    /// Part of the tree could not be walked.
    pub(super) fn miss_some(&mut self) {
        self.incomplete = true;
    }

    pub(super) fn look_at_maps(&mut self) -> Result<(), Error> {
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
            if map > 1 && Kind::of(&payload) == Some(Kind::Nothing) {
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
            let what = format!(
                "it marks {more} pages as in use from page {first} on, and there are {count} pages"
            );
            self.find(map, what);
        }
        self.used_count += used.len() as u64;
        self.reach(map, map);
    }

    pub(super) fn look_at_meta(&mut self) -> Result<(), Error> {
        self.reach(META, META);
        let Some(payload) = self.read(META)? else {
            return Ok(());
        };
        let meta = Meta::read(&payload);
        drop(payload);
        let Some(meta) = self.note(meta)? else {
            return Ok(());
        };
        if meta.format != FORMAT {
            let found = meta.format;
            self.find(
                META,
                format!("it says format {found}, and this is format {FORMAT}"),
            );
        }
        let page_size = self.pool.payload_size() + HEADER_BYTES;
        if meta.page_size as usize != page_size {
            let found = meta.page_size;
            self.find(
                META,
                format!("it says pages of {found} bytes, and they have {page_size}"),
            );
        }
        Ok(())
    }

    /// After all was reached that can be.
    pub(super) fn look_for_leaks(&mut self) {
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
            self.find(first, what);
        }
        let empty: Vec<usize> = self.empty_maps.ones().collect();
        for index in empty {
            self.look_at_empty_map(index as u64 * self.maps.span);
        }
    }

    fn look_at_empty_map(&mut self, first: u64) {
        let after = (first + self.maps.span).min(self.count);
        let reached = (first..after).find(|&page| self.reached.contains(page as usize));
        if let Some(page) = reached {
            let what = format!("the allocation map is empty, and page {page} is in use");
            self.find(first + 1, what);
        }
    }

    pub(super) fn into_report(mut self, shape: Shape) -> Report {
        self.findings.sort_by_key(|finding| finding.page);
        Report {
            shape,
            pages: self.count,
            used: self.used_count,
            findings: self.findings,
        }
    }
}
