//! The allocation of pages.
//!
//! Allocation maps record which pages are in use. When the database is opened, the pool gets the free pages
//! from them; from then on the pool chooses the next page. A map is created when the first page that it
//! covers is needed, and its log record is durable before that page is allocated. So a map that is empty in
//! storage covers no page that was ever written.

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use ebbpool::policy::PageClass;
use ebbpool::{Log, Pool, WriteGuard};

use crate::change::{Change, Content};
use crate::error::DatabaseError;
use crate::log::{Record, Undo, Wal};
use crate::page::map::AllocationMaps;
use crate::page::{PageKind, ROOT, class};
use crate::sync::Mutex;
use crate::tree::ChangeLogger;

/// Allocates and frees pages. The log record that first uses a page also marks it in its map.
pub(crate) struct Allocation {
    pub(crate) maps: AllocationMaps,
    /// The number of pages, from the first on, that have a map. A thread that takes a page holds this mutex
    /// until it is certain that the page has a map.
    mapped: Mutex<u64>,
}

impl Allocation {
    pub(crate) fn new(payload: usize) -> Self {
        let maps = AllocationMaps::new(payload);
        Allocation { maps, mapped: Mutex::new(maps.span) }
    }

    /// Passes the free pages to the pool, after redo. Returns how many pages are in use.
    ///
    /// Pages beyond the end of the storage are not missing if redo restored them: the storage grows by
    /// them. Pages for which `unlogged` returns true may be missing: transactions that are about to be
    /// rolled back allocated them, and did not log their content.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if pages in use are beyond the end of the storage, or a map is missing.
    pub(crate) fn begin(&self, pool: &Pool, unlogged: &dyn Fn(u64) -> bool) -> Result<u64, DatabaseError> {
        let pages = pool.pages();
        let mut count = 0;
        let mut beyond = Vec::new();
        let mut free_from = 0;
        let mut map = 1;
        while let Some(used) = self.read_map(pool, map)? {
            count += used.len() as u64;
            for page in used {
                match page < pages {
                    true => {
                        free_between(pool, free_from, page)?;
                        free_from = page + 1;
                    }
                    false => beyond.push(page),
                }
            }
            map += self.maps.span;
        }
        self.check_unmapped(pool, map)?;
        free_between(pool, free_from, pages)?;
        check_none_missing(pool, &beyond, unlogged)?;
        if let Some(last) = beyond.last() {
            pool.grow(last + 1)?;
        }
        let mut free_from = pages;
        for page in beyond {
            free_between(pool, free_from, page)?;
            free_from = page + 1;
        }
        *self.mapped.lock() = map - 1;
        Ok(count)
    }

    /// How many pages are in use.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub(crate) fn used(&self, pool: &Pool) -> Result<u64, DatabaseError> {
        let mapped = *self.mapped.lock();
        let mut count = 0;
        for map in self.maps.below(mapped) {
            count += self.read_map(pool, map)?.map_or(0, |used| used.len() as u64);
        }
        Ok(count)
    }

    /// Where the file would end if its pages in use were its first ones.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub(crate) fn packed_end(&self, pool: &Pool) -> Result<u64, DatabaseError> {
        let maps = *self.mapped.lock() / self.maps.span;
        Ok(self.maps.packed_end(self.used(pool)?.saturating_sub(maps)))
    }

    /// The pages in use from `from` on, except for maps.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub(crate) fn used_from(&self, pool: &Pool, from: u64) -> Result<Vec<u64>, DatabaseError> {
        let mut all = Vec::new();
        let mapped = *self.mapped.lock();
        for map in self.maps.below(mapped).filter(|map| map + self.maps.span > from) {
            let used = self.read_map(pool, map)?.unwrap_or_default();
            all.extend(used.into_iter().filter(|&page| page >= from && page != map));
        }
        Ok(all)
    }

    /// Cuts off the pages behind the last one in use, with the maps in which only they themselves are in use. They have no
    /// changes that the storage lacks.
    ///
    /// # Errors
    ///
    /// Errors of the pool, and as [`begin`](Self::begin). The pages are free then, and a map is created again with the first
    /// of them.
    pub(crate) fn truncate(&self, pool: &Pool) -> Result<(), DatabaseError> {
        let mut mapped = self.mapped.lock();
        loop {
            let map = *mapped - self.maps.span + 1;
            let used = self.read_map(pool, map)?.unwrap_or_default();
            match used.into_iter().rfind(|&page| page != map) {
                None if map > 1 => {
                    pool.free(map)?;
                    *mapped -= self.maps.span;
                }
                last => return Ok(pool.truncate(last.unwrap_or(ROOT).max(map) + 1)?),
            }
        }
    }

    /// The pages that a map marks as in use; nothing if there is no map.
    pub(crate) fn read_map(&self, pool: &Pool, map: u64) -> Result<Option<Vec<u64>>, DatabaseError> {
        let payload = pool.of_class(class::MAP).fix_read(map)?;
        match map > 1 && PageKind::from_payload(&payload) == Some(PageKind::Nothing) {
            true => Ok(None),
            false => self.maps.used(map, &payload).map(Some),
        }
    }

    /// Checks that an empty map was not lost: if it was, a page that it covers or a later map is not empty.
    /// If none was lost, there are few such pages to read, since a map is created with the first page that
    /// it covers.
    fn check_unmapped(&self, pool: &Pool, map: u64) -> Result<(), DatabaseError> {
        let later = self.maps.below(pool.pages()).skip_while(|&m| m <= map);
        let covered = map - 1..pool.pages().min(map - 1 + self.maps.span);
        for page in covered.filter(|&page| page != map).chain(later) {
            if PageKind::from_payload(&pool.fix_read(page)?) != Some(PageKind::Nothing) {
                return Err(DatabaseError::corrupt(
                    map,
                    format!("the allocation map is empty, and page {page} after it is not"),
                ));
            }
        }
        Ok(())
    }

    /// Returns a free page for content of `class`, and its map, both latched for writing. The caller logs
    /// [`Change::Mark`](crate::change::Change) for the map and the page's content in one record. If that
    /// fails, it calls [`give_back`](Self::give_back).
    ///
    /// # Errors
    ///
    /// Errors of the pool and the log, and [`DatabaseError::Corrupt`] if the map marks the page as in use.
    /// No page is taken then.
    pub(crate) fn take<'p>(&self, pool: &'p Pool, wal: &Wal, class: PageClass) -> Result<AllocatedPage<'p>, DatabaseError> {
        let mut mapped = self.mapped.lock();
        let page = fresh(pool, wal, class)?;
        if page.page() < *mapped {
            drop(mapped);
            return self.with_map(pool, page);
        }
        // The pool returns pages in order: this one is the first without a map, and the next one becomes
        // its map, unless another page was freed meanwhile.
        let next = match fresh(pool, wal, class::MAP) {
            Ok(next) => next,
            Err(error) => {
                put_back(pool, page);
                return Err(error);
            }
        };
        if next.page() < *mapped {
            drop(mapped);
            put_back(pool, page);
            return self.with_map(pool, next);
        }
        let taken = AllocatedPage { page, map: next };
        match self.make_map(wal, taken, *mapped) {
            Ok(taken) => {
                *mapped += self.maps.span;
                Ok(taken)
            }
            Err((error, taken)) => {
                put_back(pool, taken.map);
                put_back(pool, taken.page);
                Err(error)
            }
        }
    }

    fn with_map<'p>(&self, pool: &'p Pool, page: WriteGuard<'p>) -> Result<AllocatedPage<'p>, DatabaseError> {
        let number = page.page();
        let number_of_map = self.maps.of(number);
        let map = match pool.of_class(class::MAP).fix_write(number_of_map) {
            Ok(map) => map,
            Err(error) => {
                put_back(pool, page);
                return Err(error.into());
            }
        };
        match self.maps.is_used(number_of_map, &map, number) {
            Ok(false) => Ok(AllocatedPage { page, map }),
            Ok(true) => Err(DatabaseError::corrupt(number, "it was free, and its allocation map marks it as in use")),
            Err(error) => {
                self.give_back(pool, AllocatedPage { page, map });
                Err(error)
            }
        }
    }

    /// Formats the second of two new pages as the map of both.
    fn make_map<'p>(
        &self,
        wal: &Wal,
        mut taken: AllocatedPage<'p>,
        mapped: u64,
    ) -> Result<AllocatedPage<'p>, (DatabaseError, AllocatedPage<'p>)> {
        let (page, map) = (taken.page.page(), taken.map.page());
        if page != mapped || map != self.maps.of(mapped) {
            let what = format!("it came where page {mapped} was due, which has no allocation map");
            return Err((DatabaseError::corrupt(page, what), taken));
        }
        let change = Change::Format(Content::Map);
        let changes = vec![(map, change.clone())];
        let made = wal.append(&Record::Structure { changes });
        let made = made.and_then(|appended| {
            change.apply(map, &mut taken.map)?;
            taken.map.set_lsn(appended.lsn);
            wal.sync(appended.lsn)
        });
        match made {
            Ok(()) => Ok(taken),
            Err(error) => Err((error, taken)),
        }
    }

    /// Takes back a page for which nothing was logged.
    pub(crate) fn give_back(&self, pool: &Pool, taken: AllocatedPage<'_>) {
        let AllocatedPage { page, map } = taken;
        drop(map);
        put_back(pool, page);
    }

    /// Marks pages as free and passes them to the pool: in the given order, with one record for each run of
    /// pages that one map covers. Skips pages that are free already.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] for pages that are never free; errors of the pool and the log. The pages
    /// before the run that failed are free then.
    pub(crate) fn free(
        &self,
        pool: &Pool,
        wal: &Wal,
        pages: &[u64],
        logger: &mut dyn ChangeLogger,
    ) -> Result<(), DatabaseError> {
        for run in pages.chunk_by(|&a, &b| self.maps.of(a) == self.maps.of(b)) {
            for page in self.mark_free(pool, wal, run, logger)? {
                give_to(pool, page);
            }
        }
        Ok(())
    }

    /// Returns the pages that were in use.
    fn mark_free(
        &self,
        pool: &Pool,
        wal: &Wal,
        pages: &[u64],
        logger: &mut dyn ChangeLogger,
    ) -> Result<Vec<u64>, DatabaseError> {
        let Some(&first) = pages.first() else {
            return Ok(Vec::new());
        };
        let number = self.maps.of(first);
        let mut map = pool.of_class(class::MAP).fix_write(number)?;
        let mut freed = Vec::with_capacity(pages.len());
        for &page in pages {
            self.check_may_be_freed(page)?;
            if self.maps.is_used(number, &map, page)? {
                freed.push(page);
            }
        }
        freed.sort_unstable();
        freed.dedup();
        let changes: Vec<_> = freed.chunk_by(|&a, &b| a + 1 == b).map(|run| mark(run, false)).collect();
        if changes.is_empty() {
            return Ok(freed);
        }
        let logged = changes.iter().map(|change| (number, change.clone()));
        // The freeing of a page is never undone.
        let undo = Undo::Free { first, count: 0 };
        let lsn = logger.log(wal, undo, logged.collect())?;
        for change in &changes {
            change.apply(number, &mut map)?;
        }
        map.set_lsn(lsn);
        Ok(freed)
    }

    fn check_may_be_freed(&self, page: u64) -> Result<(), DatabaseError> {
        match page <= ROOT || self.maps.is_map(page) {
            true => Err(DatabaseError::corrupt(page, "something in the database frees it, and it is never free")),
            false => Ok(()),
        }
    }
}

/// Returns a free page, all zeros. The log record that freed it may not be durable yet, and a crash then
/// needs its former content. So the page gets an LSN that prevents write-back until that record is durable.
fn fresh<'p>(pool: &'p Pool, wal: &Wal, class: PageClass) -> Result<WriteGuard<'p>, DatabaseError> {
    let mut page = pool.of_class(class).allocate()?;
    page.set_lsn(wal.end_lsn());
    Ok(page)
}

fn free_between(pool: &Pool, from: u64, to: u64) -> Result<(), DatabaseError> {
    for page in from..to {
        pool.free(page)?;
    }
    Ok(())
}

fn check_none_missing(pool: &Pool, beyond: &[u64], unlogged: &dyn Fn(u64) -> bool) -> Result<(), DatabaseError> {
    let pages = pool.pages();
    let needed = beyond.iter().rfind(|&&page| !unlogged(page));
    let needed = needed.map_or(pages, |last| last + 1);
    for &page in beyond.iter().filter(|&&page| !unlogged(page)) {
        if PageKind::from_payload(&pool.fix_read(page)?) == Some(PageKind::Nothing) {
            return Err(DatabaseError::corrupt(
                page,
                format!(
                    "it is missing, since the file is truncated: it has {pages} pages, and needs \
                     {needed}; take a copy that is whole"
                ),
            ));
        }
    }
    Ok(())
}

/// The change that marks neighbouring pages.
fn mark(run: &[u64], used: bool) -> Change<'static> {
    Change::Mark { first: run.first().copied().unwrap_or_default(), count: run.len() as u32, used }
}

fn put_back(pool: &Pool, page: WriteGuard<'_>) {
    let number = page.page();
    drop(page);
    give_to(pool, number);
}

/// If the pool refuses a page that its map marks as free, the pool gets it when the database is next
/// opened.
fn give_to(pool: &Pool, page: u64) {
    if let Err(error) = pool.free(page) {
        tracing::warn!(page, %error, "a page stays unused until the database is reopened");
    }
}

/// A page that was allocated and is not used yet, and its map.
pub(crate) struct AllocatedPage<'p> {
    pub(crate) page: WriteGuard<'p>,
    pub(crate) map: WriteGuard<'p>,
}
