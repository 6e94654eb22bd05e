//! One database: what SQLite sees of its files, and what is committed and not durable yet.
//!
//! A page has up to four versions. *In place* is that of the last checkpoint. The *pool* has it as of the last epoch
//! ([`Store`]). `pending` has it as of the last commit, where that differs. `view` has it as SQLite's main file shows it,
//! where that differs from the pool: newer while a transaction writes, older while commits are in SQLite's own WAL only.
//! SQLite's journal and WAL exist in memory only. A commit moves pages from the view, or from SQLite's WAL, to `pending`;
//! an epoch logs `pending`, and moves it to the pool.

mod commit;
mod epoch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::code::{Answer, Code};
use crate::counters::Counters;
use crate::delta_log::is_page_size;
use crate::disk::{BaseFile, BaseVfs};
use crate::home::Pages;
use crate::locks::{FileLocks, WalIndex};
use crate::memory::{Image, Memory, VirtualFile};
use crate::mirror::Shadow;
use crate::options::{LogKind, Options};
use crate::store::Store;
use crate::wal_log::WalCursor;

/// A record of deltas is put together in memory: what is larger goes to `-wal` at once.
const LONGEST_RECORD: u64 = 64 << 20;

/// The page size before SQLite says otherwise.
const USUAL_PAGE: usize = 4096;

/// What SQLite has asked for so far: what it would have written without this VFS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requested {
    pub(crate) main: u64,
    pub(crate) journal: u64,
    pub(crate) wal: u64,
    pub(crate) syncs: u64,
    pub(crate) commits: u64,
}

impl Requested {
    /// Bytes to all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.main + self.journal + self.wal
    }
}

/// A database that this process has to itself.
pub(crate) struct Family {
    pub(crate) options: Options,
    pub(crate) asked: Requested,
    counters: Counters,
    pub(crate) locks: FileLocks,
    pub(crate) index: WalIndex,
    pub(crate) memory: Memory,
    pub(crate) store: Arc<Mutex<Store>>,
    pages: Option<Pages>,
    page_size: usize,
    // What SQLite sees.
    view: HashMap<u32, Arc<Image>>,
    length: u64,
    pub(crate) journal: Option<VirtualFile>,
    pub(crate) wal: Option<VirtualFile>,
    /// Pages that the transaction has written to the main file.
    working: BTreeSet<u32>,
    // What is committed.
    pending: BTreeMap<u32, Arc<Image>>,
    pending_bytes: u64,
    size: u32,
    /// Seconds: when the first commit was made that no epoch has.
    oldest: Option<f64>,
    /// Frames of SQLite's WAL that are in `pending` or durable, and the checksum up to there.
    wal_taken: Option<WalCursor>,
    /// The last commit frame that was written since, and the size that it has.
    wal_commit: Option<(u32, u32)>,
    /// Seconds: when the logs got the first epoch that is not in place.
    log_began: Option<f64>,
    pub(crate) now: f64,
    /// Seconds: when the process took the database over.
    pub(crate) began: f64,
    /// Where the epochs go while the suite of SQLite runs.
    pub(crate) shadow: Option<Shadow>,
}

impl Family {
    /// Takes a database over whose file is locked.
    pub(crate) fn new(
        base: BaseVfs,
        store: Store,
        length: u64,
        options: Options,
        now: f64,
    ) -> Answer<Family> {
        let (page_size, size) = (store.page_size(), store.size());
        let is_in_place = store.is_in_place();
        let counters = Counters::new(store.path());
        let store = Arc::new(Mutex::new(store));
        let mut family = Family {
            options,
            asked: Requested::default(),
            counters,
            locks: FileLocks::default(),
            index: WalIndex::default(),
            memory: Memory::new(base, options.memory_of_writes() as usize),
            store,
            pages: None,
            page_size: 0,
            view: HashMap::new(),
            length: if is_in_place {
                length
            } else {
                u64::from(size) * page_size as u64
            },
            journal: None,
            wal: None,
            working: BTreeSet::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            size,
            oldest: None,
            wal_taken: None,
            wal_commit: None,
            log_began: (!is_in_place).then_some(now),
            began: now,
            now,
            shadow: None,
        };
        if page_size > 0 {
            family.use_page_size(page_size)?;
        }
        if options.log == LogKind::Wal && family.store.lock().kind() == LogKind::Deltas {
            if !is_in_place {
                family.checkpoint()?;
            }
            family.store.lock().use_wal()?;
        }
        Ok(family)
    }

    fn use_page_size(&mut self, page_size: usize) -> Answer<()> {
        self.page_size = page_size;
        let memory = self.options.memory - self.options.memory_of_writes();
        self.pages = Some(Pages::new(&self.store, page_size, memory)?);
        Ok(())
    }

    fn pages(&self) -> Answer<&Pages> {
        self.pages.as_ref().ok_or(Code::IO)
    }

    /// Calls `with` with a page as of the last epoch.
    fn durable<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> Answer<R> {
        if page > self.store.lock().size() {
            return Ok(with(&vec![0; self.page_size]));
        }
        self.pages()?.read(page, with)
    }

    // The main file.

    /// The length of the main file that SQLite sees.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads the main file, zeros beyond the end, and returns true if all bytes were there.
    pub(crate) fn read_main(&self, at: u64, into: &mut [u8]) -> Answer<bool> {
        let there = self.length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        if self.page_size == 0 {
            self.store.lock().read_in_place(at, &mut into[..there])?;
            return Ok(there == into.len());
        }
        let mut done = 0;
        while done < there {
            let (page, within) = self.page_of(at + done as u64);
            let count = (self.page_size - within).min(there - done);
            let target = &mut into[done..done + count];
            self.read_view(page, |bytes| {
                target.copy_from_slice(&bytes[within..within + count])
            })?;
            done += count;
        }
        Ok(there == into.len())
    }

    fn page_of(&self, at: u64) -> (u32, usize) {
        let size = self.page_size as u64;
        ((at / size) as u32 + 1, (at % size) as usize)
    }

    fn read_view<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> Answer<R> {
        match self.view.get(&page) {
            Some(image) => Ok(with(&image.bytes()?)),
            None => self.durable(page, with),
        }
    }

    /// Writes to the main file: as part of a transaction, or of a checkpoint of SQLite's, which copies what is committed
    /// already.
    pub(crate) fn write_main(&mut self, at: u64, bytes: &[u8], is_checkpoint: bool) -> Answer<()> {
        self.asked.main += bytes.len() as u64;
        let count = bytes.len();
        let is_new = self.length == 0 && self.pending.is_empty() && self.store.lock().is_in_place();
        if self.page_size == 0 || (is_new && count != self.page_size && is_page_size(count)) {
            let page_size = if is_page_size(count) {
                count
            } else {
                USUAL_PAGE
            };
            self.store.lock().set_page_size(page_size)?;
            self.use_page_size(page_size)?;
            self.view.clear();
        }
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
        self.length = self.length.max(at + count as u64);
        Ok(())
    }

    fn set_view(&mut self, page: u32, bytes: &[u8], is_checkpoint: bool) -> Answer<()> {
        if is_checkpoint {
            // Most copies are the last committed version, which need not be stored twice.
            match self.pending.get(&page) {
                Some(pending) if *pending.bytes()? == *bytes => {
                    self.view.insert(page, Arc::clone(pending));
                    return Ok(());
                }
                None if self.durable(page, |old| *old == *bytes)? => {
                    self.view.remove(&page);
                    return Ok(());
                }
                _ => {}
            }
        }
        let image = self.memory.store(bytes)?;
        self.view.insert(page, Arc::new(image));
        if !is_checkpoint {
            self.working.insert(page);
        }
        Ok(())
    }

    /// Cuts the main file off. Should it grow again, SQLite never reads a page there that it has not written.
    pub(crate) fn truncate_main(&mut self, length: u64) {
        if length < self.length && self.page_size > 0 {
            let left = length.div_ceil(self.page_size as u64) as u32;
            self.view.retain(|page, _| *page <= left);
            self.working.retain(|page| *page <= left);
        }
        self.length = length;
    }

    /// The size of pages that page 1 has from now on, if that is another one: VACUUM has written the database anew, in
    /// pieces of the old size.
    fn new_page_size(&self) -> Answer<Option<usize>> {
        if !self.working.contains(&1) {
            return Ok(None);
        }
        self.read_view(1, |page| {
            let size = usize::from(page[16]) << 8 | usize::from(page[17]) << 16;
            let is_plain = page.starts_with(b"SQLite format 3\0");
            (is_plain && is_page_size(size) && size != self.page_size).then_some(size)
        })
    }

    /// Cuts the database of a transaction that has written all of it into pages of another size.
    fn change_page_size(&mut self, page_size: usize) -> Answer<()> {
        let size = self.length.div_ceil(page_size as u64) as u32;
        let mut pages = BTreeMap::new();
        let mut bytes = vec![0; page_size];
        for page in 1..=size {
            self.read_main(u64::from(page - 1) * page_size as u64, &mut bytes)?;
            pages.insert(page, Arc::new(self.memory.store(&bytes)?));
        }
        // What was committed before has pages of the old size, and goes in place first.
        self.checkpoint()?;
        self.store.lock().set_page_size(page_size)?;
        self.use_page_size(page_size)?;
        self.working = pages.keys().copied().collect();
        self.view = pages.into_iter().collect();
        Ok(())
    }

    /// The last handle goes: leaves a plain database behind.
    pub(crate) fn leave(&mut self) -> Answer<()> {
        let left = self.checkpoint().and_then(|()| self.store.lock().leave());
        if left.is_err() {
            self.store.lock().abandon();
        }
        self.publish();
        left
    }

    /// True if another file has the database's name by now, or none.
    pub(crate) fn has_moved(&mut self) -> bool {
        match &mut self.shadow {
            Some(shadow) => shadow.has_moved(),
            None => self.store.lock().has_moved(),
        }
    }

    /// Passes the figures on to the recorder of metrics, if the program has one.
    pub(super) fn publish(&mut self) {
        let written = self.store.lock().written;
        self.counters.update(&written, &self.asked);
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
        (self.size, self.page_size)
    }
}

/// The two ways of opening a database fail differently: see [`Store::take_over`].
pub(crate) fn take_over(
    base: BaseVfs,
    path: &str,
    database: BaseFile,
    options: Options,
    random: u64,
    now: f64,
) -> Result<Family, (Option<BaseFile>, Code)> {
    let mut store = Store::take_over(base, path, options.log, database, random)
        .map_err(|(database, error)| (Some(database), error))?;
    let length = store.length_in_place().map_err(|error| (None, error))?;
    Family::new(base, store, length, options, now).map_err(|error| (None, error))
}
