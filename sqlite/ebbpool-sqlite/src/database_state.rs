//! One database: what SQLite sees of its files, and what is committed and not durable yet.
//!
//! A page has up to five versions. *In place* is that of the last checkpoint. The *pool* has it as of the last epoch
//! ([`Stored`]). `flying` has it as the epoch has it that a thread writes at the moment. `pending` has it as of the last
//! commit, where that differs. `view` has it as SQLite's main file shows it, where that differs from the pool: newer while a
//! transaction writes, older while commits are in SQLite's own WAL only. SQLite's journal and WAL exist in memory only. A
//! commit moves pages from the view, or from SQLite's WAL, to `pending`; an epoch logs `pending`, and moves it to the pool.
//!
//! The lock of the state is held for steps in memory: a thread that writes or syncs files has taken what it needs along
//! ([`Flight`]), and does not have the lock.

mod commit;
mod epoch;
mod frames;
mod phase;
mod taken_back;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::code::{SqliteCode, SqliteResult};
use crate::counters::{Counters, RequestedWrites};
use crate::delta_log::is_page_size;
use crate::disk::BaseVfs;
use crate::health::HealthNote;
use crate::locks::{FileLocks, WalIndex};
use crate::memory::{Image, Memory, VirtualFile};
use crate::mirror::SuiteCopy;
use crate::options::Options;
use crate::store::{DurableFiles, PageCache, Stored};
use crate::wal_log::WalCursor;

pub(crate) use commit::Transaction;
use epoch::Waiting;
pub(crate) use frames::PageInWal;
pub(crate) use phase::MainEvent;
use phase::{MainPhase, WalPhase};

/// The page size before SQLite says otherwise.
const USUAL_PAGE: usize = 4096;

/// The main file as SQLite sees it, and the transaction that it writes there.
#[derive(Default)]
pub(crate) struct MainFile {
    /// Pages that differ from those of the pool.
    view: HashMap<u32, Arc<Image>>,
    /// In bytes.
    length: u64,
    /// Pages that the transaction has written.
    working: BTreeSet<u32>,
    phase: MainPhase,
    /// True if the writer has committed since it has its lock.
    pub(crate) has_committed_under_lock: bool,
    /// True if SQLite has read its journal since it wrote to it.
    pub(crate) journal_was_read: bool,
    /// The super-journal of the transaction.
    pub(crate) super_journal: Option<String>,
}

/// What is committed, where no epoch has it or one is about to.
#[derive(Default)]
struct Commits {
    /// The size of the database in pages.
    size: u32,
    pending: BTreeMap<u32, Arc<Image>>,
    pending_bytes: u64,
    flying: BTreeMap<u32, Arc<Image>>,
    /// Those that no epoch has, and those that fly; `None` if there are none.
    waiting: Option<Waiting>,
    flying_since: Option<Waiting>,
    /// The number of those that no epoch has, and of those that fly.
    unsaved: u64,
    flying_commits: u64,
}

/// What is committed in SQLite's WAL.
#[derive(Default)]
struct WalCommits {
    /// Its frames that are pending or durable, and the checksum up to there.
    taken: Option<WalCursor>,
    /// What is not in it of its frames.
    frames: frames::WalFrames,
    /// What its writer is about to commit.
    phase: WalPhase,
    /// What SQLite may yet take back of `taken`.
    last: Option<taken_back::LastCommit>,
    /// True if the index of the WAL has had a commit that the WAL did not have.
    has_missed: bool,
}

/// A database that this process has to itself.
pub(crate) struct DatabaseState {
    pub(crate) options: Options,
    pub(crate) asked: RequestedWrites,
    counters: Counters,
    pub(crate) locks: FileLocks,
    pub(crate) index: WalIndex,
    pub(crate) memory: Memory,
    pub(crate) stored: Arc<Stored>,
    pages: Option<Arc<PageCache>>,
    page_size: usize,
    /// What SQLite sees as the main file.
    pub(crate) main: MainFile,
    pub(crate) journal: Option<VirtualFile>,
    pub(crate) wal: Option<VirtualFile>,
    /// What is committed, as far as it is in memory only.
    commits: Commits,
    /// How much of SQLite's WAL that has.
    in_wal: WalCommits,
    /// Seconds: when the logs got the first epoch that is not in place.
    log_began: Option<f64>,
    pub(crate) now: f64,
    /// Seconds: when the process took the database over.
    pub(crate) began: f64,
    /// Why the last epoch has failed.
    pub(crate) failed: Option<SqliteCode>,
    /// What other processes are to know beside this.
    pub(crate) notes: HealthNotes,
    /// Seconds: when what has failed is tried again.
    retry_at: f64,
    checkpoint_retry_at: f64,
    /// True while the last handle closes the database: nothing may be changed any more.
    pub(crate) is_closing: bool,
    /// Where the epochs go while the suite of SQLite runs.
    pub(crate) shadow: Option<SuiteCopy>,
}

/// What has happened to a database, for other processes.
#[derive(Clone, Default)]
pub(crate) struct HealthNotes {
    /// When the last epoch succeeded, in milliseconds since 1970.
    pub(crate) last_epoch: Option<u64>,
    pub(crate) last_error: Option<HealthNote>,
    pub(crate) last_refusal: Option<HealthNote>,
}

/// Where the content of a page is that SQLite's main file shows.
pub(crate) enum PageSource {
    /// In an image, which never changes.
    Image(Arc<Image>),
    /// In the pool, as long as the places of pages have not changed.
    Pool {
        pages: Arc<PageCache>,
        stored: Arc<Stored>,
        moves: u64,
    },
    Zeros,
}

impl DatabaseState {
    /// Takes a database over whose file is locked.
    pub(crate) fn new(base: BaseVfs, store: &mut DurableFiles, options: Options, now: f64) -> SqliteResult<DatabaseState> {
        let (page_size, size) = (store.page_size(), store.size());
        let is_in_place = store.is_in_place();
        let mut state = DatabaseState {
            options,
            asked: RequestedWrites::default(),
            counters: Counters::new(store.path()),
            locks: FileLocks::default(),
            index: WalIndex::default(),
            memory: Memory::new(base, store.path(), options.memory_of_writes() as usize),
            stored: Arc::clone(store.stored()),
            pages: None,
            page_size: 0,
            main: MainFile {
                length: if is_in_place { store.length_in_place()? } else { u64::from(size) * page_size as u64 },
                ..MainFile::default()
            },
            journal: None,
            wal: None,
            commits: Commits { size, ..Commits::default() },
            in_wal: WalCommits::default(),
            log_began: (!is_in_place).then_some(now),
            began: now,
            now,
            failed: None,
            notes: HealthNotes::default(),
            retry_at: 0.0,
            checkpoint_retry_at: 0.0,
            is_closing: false,
            shadow: None,
        };
        if page_size > 0 {
            state.use_page_size(page_size)?;
        }
        Ok(state)
    }

    pub(crate) fn use_page_size(&mut self, page_size: usize) -> SqliteResult<()> {
        self.page_size = page_size;
        let memory = self.options.memory - self.options.memory_of_writes();
        self.stored.note_move();
        self.pages = Some(Arc::new(PageCache::new(&self.stored, page_size, memory)?));
        Ok(())
    }

    /// Takes a pool with more frames where the one that is there has read much more than it holds.
    pub(crate) fn grow_pool(&mut self) {
        let short = self.pages.as_ref().filter(|pages| pages.is_short());
        // Without memory for it the small one does.
        if let Some(Ok(grown)) = short.map(|pages| pages.grown(&self.stored)) {
            self.stored.note_move();
            self.pages = Some(Arc::new(grown));
        }
    }

    /// The pool; `None` while the page size is unknown.
    pub(crate) fn pool(&self) -> Option<Arc<PageCache>> {
        self.pages.clone()
    }

    fn pages(&self) -> SqliteResult<&PageCache> {
        self.pages.as_deref().ok_or(SqliteCode::IO)
    }

    /// Calls `with` with a page as of the last epoch.
    fn durable<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> SqliteResult<R> {
        if page > self.stored.size() {
            return Ok(with(&vec![0; self.page_size]));
        }
        self.pages()?.read(page, with)
    }

    // The main file.

    /// The length of the main file that SQLite sees.
    pub(crate) fn length(&self) -> u64 {
        self.main.length
    }

    /// Where a part of the main file is: the page, the offset within it, and the bytes up to its end; `None` while the page size
    /// is unknown.
    pub(crate) fn part_at(&self, at: u64) -> Option<(u32, usize, usize)> {
        if self.page_size == 0 {
            return None;
        }
        let (page, within) = self.page_of(at);
        Some((page, within, self.page_size - within))
    }

    /// Where the content of a page is.
    pub(crate) fn source(&self, page: u32) -> PageSource {
        if let Some(image) = self.main.view.get(&page) {
            return PageSource::Image(Arc::clone(image));
        }
        match &self.pages {
            Some(pages) if page <= self.stored.size() => {
                PageSource::Pool { pages: Arc::clone(pages), stored: Arc::clone(&self.stored), moves: self.stored.moves() }
            }
            _ => PageSource::Zeros,
        }
    }

    /// Reads the main file, zeros beyond the end, and returns true if all bytes were there.
    pub(super) fn read_main(&self, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
        let there = self.main.length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        if self.page_size == 0 {
            self.stored.read_in_place(at, &mut into[..there])?;
            return Ok(there == into.len());
        }
        let mut done = 0;
        while done < there {
            let (page, within) = self.page_of(at + done as u64);
            let count = (self.page_size - within).min(there - done);
            let target = &mut into[done..done + count];
            self.read_view(page, |bytes| target.copy_from_slice(&bytes[within..within + count]))?;
            done += count;
        }
        Ok(there == into.len())
    }

    fn page_of(&self, at: u64) -> (u32, usize) {
        let size = self.page_size as u64;
        ((at / size) as u32 + 1, (at % size) as usize)
    }

    fn read_view<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> SqliteResult<R> {
        match self.main.view.get(&page) {
            Some(image) => Ok(with(&image.bytes()?)),
            None => self.durable(page, with),
        }
    }

    /// The page size that a write to the main file begins a new database with, if it does.
    pub(crate) fn page_size_of_write(&self, count: usize) -> Option<usize> {
        let is_new = self.main.length == 0 && self.is_all_durable() && self.stored.figures().is_in_place;
        if self.page_size == 0 {
            return Some(if is_page_size(count) { count } else { USUAL_PAGE });
        }
        (is_new && count != self.page_size && is_page_size(count)).then_some(count)
    }

    fn is_all_durable(&self) -> bool {
        self.commits.pending.is_empty() && self.commits.flying.is_empty()
    }

    /// Makes the database, which is empty, one of pages of another size.
    pub(crate) fn begin_with_page_size(&mut self, store: &mut DurableFiles, size: usize) -> SqliteResult<()> {
        store.set_page_size(size)?;
        self.use_page_size(size)?;
        self.main.view.clear();
        Ok(())
    }

    /// Writes to the main file: as part of a transaction, or of a checkpoint of SQLite's, which copies what is committed
    /// already.
    pub(crate) fn write_main(&mut self, at: u64, bytes: &[u8], is_checkpoint: bool) -> SqliteResult<()> {
        self.asked.main += bytes.len() as u64;
        let count = bytes.len();
        let mut done = 0;
        while done < count {
            let (page, within) = self.page_of(at + done as u64);
            let part = &bytes[done..count.min(done + self.page_size - within)];
            if part.len() == self.page_size {
                self.set_view(page, part, is_checkpoint)?;
            } else {
                let mut whole = self.read_view(page, <[u8]>::to_vec)?;
                whole[within..within + part.len()].copy_from_slice(part);
                self.set_view(page, &whole, is_checkpoint)?;
            }
            done += part.len();
        }
        self.main.length = self.main.length.max(at + count as u64);
        Ok(())
    }

    fn set_view(&mut self, page: u32, bytes: &[u8], is_checkpoint: bool) -> SqliteResult<()> {
        if is_checkpoint {
            // Most copies are the last committed version, which need not be stored twice.
            match self.commits.pending.get(&page).or_else(|| self.commits.flying.get(&page)) {
                Some(pending) if *pending.bytes()? == *bytes => {
                    self.main.view.insert(page, Arc::clone(pending));
                    return Ok(());
                }
                None if self.durable(page, |old| *old == *bytes)? => {
                    self.main.view.remove(&page);
                    return Ok(());
                }
                _ => {}
            }
        }
        let image = self.memory.store(bytes)?;
        self.main.view.insert(page, Arc::new(image));
        if !is_checkpoint {
            self.main.working.insert(page);
        }
        Ok(())
    }

    /// Cuts the main file off. Should it grow again, SQLite never reads a page there that it has not written.
    pub(crate) fn truncate_main(&mut self, length: u64) {
        if length < self.main.length && self.page_size > 0 {
            let left = length.div_ceil(self.page_size as u64) as u32;
            self.main.view.retain(|page, _| *page <= left);
            self.main.working.retain(|page| *page <= left);
        }
        self.main.length = length;
    }

    /// The size of pages that page 1 has from now on, if that is another one: VACUUM has written the database anew, in
    /// pieces of the old size.
    pub(crate) fn new_page_size(&self) -> SqliteResult<Option<usize>> {
        if !self.main.working.contains(&1) {
            return Ok(None);
        }
        self.read_view(1, |page| {
            let size = usize::from(page[16]) << 8 | usize::from(page[17]) << 16;
            let is_plain = page.starts_with(b"SQLite format 3\0");
            (is_plain && is_page_size(size) && size != self.page_size).then_some(size)
        })
    }

    /// Cuts the database of a transaction that has written all of it into pages of another size. What was committed before, in
    /// pages of the old size, is in place.
    pub(crate) fn change_page_size(&mut self, store: &mut DurableFiles, page_size: usize) -> SqliteResult<()> {
        let size = self.main.length.div_ceil(page_size as u64) as u32;
        let mut pages = BTreeMap::new();
        let mut bytes = vec![0; page_size];
        for page in 1..=size {
            self.read_main(u64::from(page - 1) * page_size as u64, &mut bytes)?;
            pages.insert(page, Arc::new(self.memory.store(&bytes)?));
        }
        store.set_page_size(page_size)?;
        self.use_page_size(page_size)?;
        self.commits.size = store.size();
        self.main.working = pages.keys().copied().collect();
        self.main.view = pages.into_iter().collect();
        Ok(())
    }

    /// True if no handle reads or writes.
    pub(crate) fn is_idle(&self) -> bool {
        // With a WAL a handle has a lock of the file as long as it is open.
        match self.wal.is_some() {
            // One that has the WAL to itself has no index here.
            true => self.index.is_free() && !self.locks.is_reserved(),
            false => self.locks.are_free(),
        }
    }

    /// Passes the figures on to the recorder of metrics, if the program has one.
    pub(crate) fn publish(&mut self) {
        let written = self.stored.figures().written;
        let temporary = self.memory.spilled() as u64;
        self.counters.update(&written, temporary, &self.asked);
    }

    /// Frames of the pool, its hits and its misses.
    pub(crate) fn pool_figures(&self) -> (u32, u64, u64) {
        match &self.pages {
            Some(pages) => {
                let (hits, misses) = pages.hits_and_misses();
                (pages.frames(), hits, misses)
            }
            None => (0, 0, 0),
        }
    }

    /// The number of pages of the database that SQLite sees, and their size in bytes.
    pub(crate) fn extent(&self) -> (u32, usize) {
        (self.commits.size, self.page_size)
    }
}
