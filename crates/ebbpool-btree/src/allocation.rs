//! Which pages are in use.
//!
//! The maps have it, and say so to the pool when the database is opened; from then on the pool knows
//! which page is to be had next. A map is made when the first page that it covers is wanted, and the
//! log has it durably before that page is given out: so a map that is empty in storage covers nothing
//! that was ever written.

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use ebbpool::{Log, Pool, WriteGuard};

use crate::change::{Change, Content};
use crate::error::Error;
use crate::log::{Record, Undo, Wal};
use crate::page::map::Maps;
use crate::page::{Kind, ROOT};
use crate::sync::Mutex;
use crate::tree::Author;

/// Gives out pages, and takes them back. A page that is given out is marked in its map by the same log
/// record that first uses it.
pub(crate) struct Allocation {
    pub(crate) maps: Maps,
    /// Pages from the first on that have a map. Who takes a page holds it until it knows that the
    /// page has one.
    mapped: Mutex<u64>,
}

impl Allocation {
    pub(crate) fn new(payload: usize) -> Self {
        let maps = Maps::new(payload);
        Allocation {
            maps,
            mapped: Mutex::new(maps.span),
        }
    }

    /// After redo: tells the pool which pages are free, by the maps. Answers how many are in use.
    ///
    /// Pages beyond the end of the storage are not missing if redo brought them back: the storage
    /// grows by them. Those of which `unlogged` is true may be missing: transactions took them that
    /// are about to be rolled back, and what they put there was not logged.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages in use are beyond the end of the storage, or a map is not there.
    pub(crate) fn begin(&self, pool: &Pool, unlogged: &dyn Fn(u64) -> bool) -> Result<u64, Error> {
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

    /// The pages that a map has as in use; nothing if there is no map.
    fn read_map(&self, pool: &Pool, map: u64) -> Result<Option<Vec<u64>>, Error> {
        let payload = pool.fix_read(map)?;
        match map > 1 && Kind::of(&payload) == Some(Kind::Nothing) {
            true => Ok(None),
            false => self.maps.used(map, &payload).map(Some),
        }
    }

    /// Looks whether a map was lost that is empty: then some page that it is the first to cover, or a
    /// later map, is not. There are few such pages where none was lost, since a map is made with the first
    /// page that it covers.
    fn check_unmapped(&self, pool: &Pool, map: u64) -> Result<(), Error> {
        let later = self.maps.below(pool.pages()).skip_while(|&m| m <= map);
        let covered = map - 1..pool.pages().min(map - 1 + self.maps.span);
        for page in covered.filter(|&page| page != map).chain(later) {
            if Kind::of(&pool.fix_read(page)?) != Some(Kind::Nothing) {
                return Err(Error::corrupt(
                    map,
                    format!("the allocation map is empty, and page {page} after it is not"),
                ));
            }
        }
        Ok(())
    }

    /// A free page, and its map, both latched for writing; whoever asked logs
    /// [`Change::Mark`](crate::change::Change) for the map, and the page's content, in one record. If that
    /// fails, [`give_back`](Self::give_back).
    ///
    /// # Errors
    ///
    /// What the pool and the log fail with, and [`Error::Corrupt`] if the map has the page as in use.
    /// Nothing is taken then.
    pub(crate) fn take<'p>(&self, pool: &'p Pool, wal: &Wal) -> Result<Taken<'p>, Error> {
        let mut mapped = self.mapped.lock();
        let page = fresh(pool, wal)?;
        if page.page() < *mapped {
            drop(mapped);
            return self.with_map(pool, page);
        }
        // Pages come in order: this one is the first that has no map, and the next one is its map, unless
        // another was freed meanwhile.
        let next = match fresh(pool, wal) {
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
        let taken = Taken { page, map: next };
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

    fn with_map<'p>(&self, pool: &'p Pool, page: WriteGuard<'p>) -> Result<Taken<'p>, Error> {
        let number = page.page();
        let number_of_map = self.maps.of(number);
        let map = match pool.fix_write(number_of_map) {
            Ok(map) => map,
            Err(error) => {
                put_back(pool, page);
                return Err(error.into());
            }
        };
        match self.maps.is_used(number_of_map, &map, number) {
            Ok(false) => Ok(Taken { page, map }),
            Ok(true) => Err(Error::corrupt(
                number,
                "it was free, and its allocation map has it as in use",
            )),
            Err(error) => {
                self.give_back(pool, Taken { page, map });
                Err(error)
            }
        }
    }

    /// Makes the second of two new pages the map of both.
    fn make_map<'p>(
        &self,
        wal: &Wal,
        mut taken: Taken<'p>,
        mapped: u64,
    ) -> Result<Taken<'p>, (Error, Taken<'p>)> {
        let (page, map) = (taken.page.page(), taken.map.page());
        if page != mapped || map != self.maps.of(mapped) {
            let what = format!("it came where page {mapped} was due, which has no allocation map");
            return Err((Error::corrupt(page, what), taken));
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

    /// A page that was taken, and of which nothing was logged.
    pub(crate) fn give_back(&self, pool: &Pool, taken: Taken<'_>) {
        let Taken { page, map } = taken;
        drop(map);
        put_back(pool, page);
    }

    /// Marks pages as free, and gives them to the pool; in the order given, with one record for each run
    /// of pages that one map covers. Pages that are free already are left alone.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for pages that are never free; what the pool and the log fail with. The pages
    /// before the run that failed are free then.
    pub(crate) fn free(
        &self,
        pool: &Pool,
        wal: &Wal,
        pages: &[u64],
        by: &mut dyn Author,
    ) -> Result<(), Error> {
        for run in pages.chunk_by(|&a, &b| self.maps.of(a) == self.maps.of(b)) {
            for page in self.mark_free(pool, wal, run, by)? {
                give_to(pool, page);
            }
        }
        Ok(())
    }

    /// Answers which pages were in use.
    fn mark_free(
        &self,
        pool: &Pool,
        wal: &Wal,
        pages: &[u64],
        by: &mut dyn Author,
    ) -> Result<Vec<u64>, Error> {
        let Some(&first) = pages.first() else {
            return Ok(Vec::new());
        };
        let number = self.maps.of(first);
        let mut map = pool.fix_write(number)?;
        let mut freed = Vec::with_capacity(pages.len());
        for &page in pages {
            self.check_may_be_freed(page)?;
            if self.maps.is_used(number, &map, page)? {
                freed.push(page);
            }
        }
        freed.sort_unstable();
        freed.dedup();
        let changes: Vec<_> = freed
            .chunk_by(|&a, &b| a + 1 == b)
            .map(|run| mark(run, false))
            .collect();
        if changes.is_empty() {
            return Ok(freed);
        }
        let logged = changes.iter().map(|change| (number, change.clone()));
        // Nobody takes back that a page is free.
        let undo = Undo::Free { first, count: 0 };
        let lsn = by.log(wal, undo, logged.collect())?;
        for change in &changes {
            change.apply(number, &mut map)?;
        }
        map.set_lsn(lsn);
        Ok(freed)
    }

    fn check_may_be_freed(&self, page: u64) -> Result<(), Error> {
        match page <= ROOT || self.maps.is_map(page) {
            true => Err(Error::corrupt(
                page,
                "something in the database gives it back, and it is never free",
            )),
            false => Ok(()),
        }
    }
}

/// A free page, all zeros. The log may not have durably that it is free, and what it held before is needed
/// then: the page's LSN keeps the zeros from being written sooner.
fn fresh<'p>(pool: &'p Pool, wal: &Wal) -> Result<WriteGuard<'p>, Error> {
    let mut page = pool.allocate()?;
    page.set_lsn(wal.end_lsn());
    Ok(page)
}

fn free_between(pool: &Pool, from: u64, to: u64) -> Result<(), Error> {
    for page in from..to {
        pool.free(page)?;
    }
    Ok(())
}

fn check_none_missing(
    pool: &Pool,
    beyond: &[u64],
    unlogged: &dyn Fn(u64) -> bool,
) -> Result<(), Error> {
    let pages = pool.pages();
    let needed = beyond.iter().rfind(|&&page| !unlogged(page));
    let needed = needed.map_or(pages, |last| last + 1);
    for &page in beyond.iter().filter(|&&page| !unlogged(page)) {
        if Kind::of(&pool.fix_read(page)?) == Some(Kind::Nothing) {
            return Err(Error::corrupt(
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
    Change::Mark {
        first: run.first().copied().unwrap_or_default(),
        count: run.len() as u32,
        used,
    }
}

fn put_back(pool: &Pool, page: WriteGuard<'_>) {
    let number = page.page();
    drop(page);
    give_to(pool, number);
}

/// If the pool cannot take a page that is free by its map, it is free when the database is opened again.
fn give_to(pool: &Pool, page: u64) {
    if let Err(error) = pool.free(page) {
        tracing::warn!(page, %error, "a page stays unused until the database is reopened");
    }
}

/// A page that nobody has used yet.
pub(crate) struct Taken<'p> {
    pub(crate) page: WriteGuard<'p>,
    pub(crate) map: WriteGuard<'p>,
}
