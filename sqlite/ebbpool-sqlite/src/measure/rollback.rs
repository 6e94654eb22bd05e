//! Commits in the rollback modes: the change counter in the header, and the pages that differ from those of the last look.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::{ImageMemory, PageImage, WatchedBytes, WatchedCommit, WatchedPage};
use crate::inspect::{hot_journal, lock_holder, read_start};
use crate::wal_log::be32;
use crate::wal_log::read_whole;

/// Bytes of a journal's header, and those beside each page in it.
const JOURNAL_HEADER: u64 = 512;
const JOURNAL_PAGE: u64 = 8;
/// Pages are read together up to this many bytes.
const BATCH: usize = 1 << 20;
/// For so long a look waits for a moment in which no program commits; then it is read while one does.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a fingerprint.
const PRINT: u64 = size_of::<u64>() as u64;

/// A page that is not as it was.
struct ChangedPage {
    page: u32,
    print: u64,
    /// Its content, if there was memory for it.
    image: Option<Arc<PageImage>>,
}

/// What the first look sees: the fingerprints of all pages, and the content of those for which there is memory.
#[derive(Default)]
struct FirstLook {
    prints: Vec<u64>,
    images: HashMap<u32, Arc<PageImage>>,
}

pub(super) struct RollbackWatch {
    path: PathBuf,
    page_size: usize,
    /// `None` before the first look.
    counter: Option<u32>,
    /// When the database was last written, as of the last look: a connection with `locking_mode=EXCLUSIVE` leaves the counter.
    changed: Option<(i64, i64)>,
    /// The fingerprints of all pages.
    prints: Vec<u64>,
    images: HashMap<u32, Arc<PageImage>>,
    /// Since when looks wait.
    waits: Option<Instant>,
    pub(super) written: WatchedBytes,
}

impl RollbackWatch {
    pub(super) fn new(path: PathBuf, page_size: usize) -> RollbackWatch {
        RollbackWatch {
            path,
            page_size,
            counter: None,
            changed: None,
            prints: Vec::new(),
            images: HashMap::new(),
            waits: None,
            written: WatchedBytes::default(),
        }
    }

    pub(super) fn poll(
        &mut self,
        database: &File,
        memory: &mut ImageMemory,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<Vec<WatchedCommit>> {
        let header = DatabaseHeader::read(database)?;
        let counter = header.counter();
        let written = |file: &File| file.metadata().map(|it| (it.mtime(), it.mtime_nsec()));
        let written_at = written(database)?;
        if self.counter == Some(counter) && self.changed == Some(written_at) {
            return Ok(Vec::new());
        }
        let count = header.pages(database, self.page_size)?;
        memory.check_fingerprints(count * PRINT)?;
        let Some(counter_before) = self.counter else {
            let seen = self.look_first(database, count, memory, go_on)?;
            // Commits that came meanwhile are no commits of the watch.
            self.counter = Some(DatabaseHeader::read(database)?.counter());
            self.changed = Some(written(database)?);
            FirstLook { prints: self.prints, images: self.images } = seen;
            memory.fingerprints = self.prints.len() as u64 * PRINT;
            return Ok(Vec::new());
        };
        let commits = counter.wrapping_sub(counter_before);
        if commits > u32::MAX / 2 {
            return Err(io::Error::other("its content was replaced while it was watched; measure again"));
        }
        // Where the lock stays, the journal says whether a transaction is being written.
        let is_busy = || {
            lock_holder(database).is_some_and(|holder| holder.is_exclusive)
                && (commits > 0 || hot_journal(&self.path).is_ok_and(|it| it.is_some()))
        };
        let waits = *self.waits.get_or_insert_with(Instant::now);
        if is_busy() && waits.elapsed() < PATIENCE {
            return Ok(Vec::new());
        }
        let refused = memory.refused;
        let (count, changed) = self.changes(database, count, memory, go_on)?;
        let is_other = is_busy() || DatabaseHeader::read(database)?.counter() != counter;
        if is_other && waits.elapsed() < PATIENCE {
            // A commit came in between: the next look sees both.
            memory.refused = refused;
            return Ok(Vec::new());
        }
        self.waits = None;
        self.counter = Some(counter);
        self.changed = Some(written_at);
        if commits == 0 && changed.is_empty() {
            return Ok(Vec::new());
        }
        let commits = u64::from(commits.max(1));
        let old_pages = self.prints.len() as u32;
        self.prints.truncate(count);
        let mut pages = Vec::with_capacity(changed.len());
        for ChangedPage { page, print, image } in changed {
            match self.prints.get_mut(page as usize - 1) {
                Some(old) => *old = print,
                // New pages are all changed, and in order.
                None => self.prints.push(print),
            }
            let before = match &image {
                Some(after) => self.images.insert(page, Arc::clone(after)),
                None => self.images.remove(&page),
            };
            pages.push(WatchedPage { page, before, after: image });
        }
        memory.fingerprints = self.prints.len() as u64 * PRINT;
        self.count(&pages, old_pages, commits);
        Ok(vec![WatchedCommit { pages, commits, page_size: self.page_size }])
    }

    /// What is there before the watch, of a database with this number of pages.
    fn look_first(
        &self,
        database: &File,
        count: u64,
        memory: &mut ImageMemory,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<FirstLook> {
        let mut seen = FirstLook::default();
        memory.fingerprints = count * PRINT;
        seen.prints.reserve_exact(count as usize);
        self.each_page(database, count, go_on, |page, bytes| {
            seen.prints.push(xxh3_64(bytes));
            if let Some(image) = memory.image(bytes) {
                seen.images.insert(page, image);
            }
        })?;
        Ok(seen)
    }

    /// The number of pages that were read, and those of them that are not as they were.
    fn changes(
        &self,
        database: &File,
        count: u64,
        memory: &mut ImageMemory,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<(usize, Vec<ChangedPage>)> {
        let mut changed = Vec::new();
        let read = self.each_page(database, count, go_on, |page, bytes| {
            let print = xxh3_64(bytes);
            if self.prints.get(page as usize - 1) != Some(&print) {
                changed.push(ChangedPage { page, print, image: memory.image(bytes) });
            }
        })?;
        Ok((read, changed))
    }

    /// Calls `each` with the pages and their numbers. Returns how many there were: fewer than `count` if the file has become
    /// shorter.
    fn each_page(
        &self,
        database: &File,
        count: u64,
        go_on: &dyn Fn() -> io::Result<()>,
        mut each: impl FnMut(u32, &[u8]),
    ) -> io::Result<usize> {
        let mut bytes = vec![0; BATCH];
        let length = count * self.page_size as u64;
        let mut at = 0;
        let mut pages = 0;
        while at < length {
            go_on()?;
            let batch = &mut bytes[..(length - at).min(BATCH as u64) as usize];
            if !read_whole(database, batch, at)? {
                break;
            }
            for page in batch.chunks_exact(self.page_size) {
                pages += 1;
                each(pages, page);
            }
            at += batch.len() as u64;
        }
        Ok(pages as usize)
    }

    /// Counts what SQLite has written at least: each commit writes page 1, and the journal has the pages before.
    fn count(&mut self, pages: &[WatchedPage], old_pages: u32, commits: u64) {
        let page_size = self.page_size as u64;
        let old = pages.iter().filter(|page| page.page <= old_pages).count() as u64;
        let more = commits.saturating_sub(1);
        self.written.in_place += (pages.len() as u64 + more) * page_size;
        self.written.log += commits * JOURNAL_HEADER + (old + more) * (page_size + JOURNAL_PAGE);
    }
}

/// The begin of a database.
pub(super) struct DatabaseHeader([u8; 100]);

impl DatabaseHeader {
    pub(super) fn read(database: &File) -> io::Result<DatabaseHeader> {
        let mut header = [0; 100];
        read_start(database, &mut header)?;
        Ok(DatabaseHeader(header))
    }

    /// The number that each commit changes.
    fn counter(&self) -> u32 {
        be32(&self.0, 24)
    }

    /// The number of pages, as SQLite takes it: what the header says, if a version that keeps this number wrote it last. What
    /// the file has behind them is not the database's.
    pub(super) fn pages(&self, database: &File, page_size: usize) -> io::Result<u64> {
        let pages = u64::from(be32(&self.0, 28));
        let is_valid = pages > 0 && self.counter() == be32(&self.0, 92);
        let of_file = database.metadata()?.len() / page_size as u64;
        Ok(match is_valid {
            true => pages.min(of_file),
            // No number of a page is larger.
            false => of_file.min(u64::from(u32::MAX) - 1),
        })
    }
}
