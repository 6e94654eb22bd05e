//! The public interface of a pool.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, mem, process};

use ebbpool_cost::OperationCosts;
use ebbpool_policy::{PageClass, UNKNOWN_CLASS};

use crate::background::{self, Signal, WriterSettings};
use crate::callback::Callback;
use crate::checkpoint::{Checkpoint, CheckpointOutcome};
use crate::classed::ClassedPool;
use crate::contained::ContainedStorage;
use crate::core::{Patience, PoolShared, Waiting};
use crate::double_write::DoubleWriteArea;
use crate::error::{CloseError, OptionsError, PoolError};
use crate::frames::{Frames, LatchRefusal, WaitCondition};
use crate::guard::{ReadGuard, WriteGuard};
use crate::log::Lsn;
use crate::optimistic::Optimistic;
use crate::options::PoolOptions;
use crate::read_ahead::ReadAhead;
use crate::recorder::FixCallback;
use crate::replacement::Replacement;
use crate::rings::HitRings;
use crate::scan::PoolScan;
use crate::spaces::{self, PageSpace, PageSpaces};
use crate::stats::{Counter, Stats};
use crate::storage::Storage;
use crate::storage::several::{PartOfSeveral, SeveralStorages};
use crate::sync::mpsc::Receiver;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, hash_key, is_this_thread};
use crate::table::PageTable;
use crate::throttle::Throttle;
use crate::torn_pads::TornPads;
use crate::transfer::PageIo;

/// The number of batches of write-backs whose images the double-write area stores before the storage has to be synced
/// to reuse their room.
const DOUBLE_WRITE_BATCHES: u64 = 8;

/// A pool of frames over a storage, used by many threads.
///
/// A caller fixes pages for reading or writing; a fixed page stays in memory until its guard is dropped. Dirty pages
/// are written back when the policy evicts them, after their log (steal). Nothing is written when a transaction
/// commits (no-force).
///
/// Dropping a pool writes nothing: changes of dirty pages are lost unless a log has them. [`Pool::close`] writes
/// them.
pub struct Pool {
    pub(crate) core: Arc<PoolShared>,
    threads: Vec<JoinHandle<()>>,
    /// The number of frames may change.
    resizable: bool,
    several: Option<Arc<SeveralStorages>>,
}

impl PoolOptions {
    /// Opens a pool over a storage.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let pool = PoolOptions::new(100).open(MemoryStorage::new(4096))?;
    /// assert_eq!((pool.frames(), pool.pages()), (100, 0));
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Options`] if the options make no sense, [`PoolError::Memory`] and [`PoolError::TableMemory`] if
    /// there is no memory for the frames or for the table, and any error of the storage.
    pub fn open(self, storage: impl Storage + 'static) -> Result<Pool, PoolError> {
        self.open_with(Box::new(ContainedStorage(storage)), None, spawn)
    }

    /// Opens a pool over several storages, numbered from 0, for [`Pool::of_file`]: their pages share the frames, and are of one
    /// size. Their order is part of the data, as their number is: give all of them, in the same one, each time. Each storage has pages from 0 to 2^40 - 1 and costs of its own, and is synced when it was written. A sync that fails
    /// ends the writing of all.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ebbpool::{PoolOptions, storage::{MemoryStorage, Storage}};
    /// let files = [(); 2].map(|()| Arc::new(MemoryStorage::new(4096)) as Arc<dyn Storage>);
    /// let pool = PoolOptions::new(100).open_files(files)?;
    /// let (table, index) = (pool.of_file(0), pool.of_file(1));
    /// table.allocate()?[0] = 1;
    /// index.allocate()?[0] = 2;
    /// assert_eq!((table.fix_read(0)?[0], index.fix_read(0)?[0]), (1, 2));
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`PoolError::Options`] if the files do not suit each other.
    pub fn open_files(self, storages: impl IntoIterator<Item = Arc<dyn Storage>>) -> Result<Pool, PoolError> {
        let contained = storages.into_iter().map(|storage| Box::new(ContainedStorage(storage)) as _);
        let several = Arc::new(SeveralStorages::new(contained).map_err(OptionsError::Files)?);
        if self.most_pages.is_some() {
            return Err(OptionsError::Files("have 2^40 pages each, and the option most_pages would be for all".into()).into());
        }
        self.open_with(Box::new(Arc::clone(&several)), Some(several), spawn)
    }

    /// Opens a pool over a storage, or several; `spawn` starts its threads.
    fn open_with(
        mut self,
        storage: Box<dyn Storage>,
        several: Option<Arc<SeveralStorages>>,
        spawn: impl Fn(&str, Work) -> io::Result<JoinHandle<()>>,
    ) -> Result<Pool, PoolError> {
        self.check(&*storage)?;
        let page_size = storage.page_size();
        let count = self.frames;
        let no_memory = || PoolError::Memory { frames: count, page_size };
        let most = self.most_frames.unwrap_or(count);
        let frames = Frames::new((count, most), self.batch.max(1), page_size);
        let frames = frames.ok_or_else(no_memory)?;
        if self.most_frames.is_none() {
            // Registered memory could not be given back.
            storage.register(frames.memory());
        }
        let limits = self.limits();
        let area = self.open_area(&*storage)?;
        let spaces = match &several {
            None => storage.pages().map(|pages| PageSpaces::new(pages, &[])),
            Some(several) => several.spaces(),
        };
        let spaces = spaces.map_err(|source| PoolError::Storage { what: "the storage cannot say how long it is", source })?;
        let throttle = Throttle::new(self.most_delay());
        let settings = WriterSettings { reserve: self.reserve, max_dirty_age: self.max_dirty_age };
        let most_ahead = self.read_ahead.min(most / 8);
        let (read_ahead, ranges) = match self.background && most_ahead > 0 {
            true => {
                let (read_ahead, ranges) = ReadAhead::new(most_ahead);
                (Some(read_ahead), Some(ranges))
            }
            false => (None, None),
        };
        let table = PageTable::new(most, self.dense_pages, hash_key());
        let table = table.ok_or_else(|| match self.dense_pages {
            0 => no_memory(),
            pages => PoolError::TableMemory { pages },
        })?;
        let transfer = PageIo::new(storage, area, self.format, self.log, self.costs, spaces);
        let callback = Arc::<Callback>::default();
        let policy = self.policy.into_policy(count, &callback);
        let mut policy = policy.ok_or_else(no_memory)?;
        policy.costs(transfer.costs().into());
        let core = Arc::new(PoolShared {
            frames,
            table,
            rings: HitRings::new(),
            replacement: Mutex::new(Replacement::new(policy, self.listener, Arc::clone(&callback), self.exact_hits)),
            resizing: Mutex::new(()),
            callback,
            torn_pads: TornPads::default(),
            eviction_ended: Condvar::new(),
            transfer,
            limits,
            throttle,
            recorder: self.sink.map(FixCallback::new),
            read_ahead,
            signal: self.background.then(Signal::default),
            opened_by: process::id(),
        });
        let mut pool = Pool { core, threads: Vec::new(), resizable: self.most_frames.is_some(), several };
        pool.start_threads(settings, ranges, spawn)?;
        Ok(pool)
    }

    /// Opens the double-write area, if there is one, and restores the pages that a crash tore.
    fn open_area(&mut self, storage: &dyn Storage) -> Result<Option<DoubleWriteArea>, PoolError> {
        let Some(area) = self.double_write.take() else {
            return Ok(None);
        };
        let length = (u64::from(self.batch) + 2) * DOUBLE_WRITE_BATCHES;
        let area = DoubleWriteArea::open(area, length, self.identity)?;
        let restored = area.restore(storage, self.format)?;
        if !restored.is_empty() {
            tracing::warn!(pages = restored.len(), "torn pages were restored");
        }
        Ok(Some(area))
    }
}

/// The work of a thread of the pool.
type Work = Box<dyn FnOnce() + Send>;

fn spawn(name: &str, work: Work) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(work)
}

impl Pool {
    /// Starts the background writer, if the pool has one, and the thread that reads ahead, if there are ranges to
    /// read. If the second cannot be started, dropping the pool ends the first.
    fn start_threads(
        &mut self,
        settings: WriterSettings,
        ranges: Option<Receiver<Range<u64>>>,
        spawn: impl Fn(&str, Work) -> io::Result<JoinHandle<()>>,
    ) -> Result<(), PoolError> {
        let start = |name, work| {
            spawn(name, work).map_err(|source| PoolError::Storage { what: "a thread of the pool cannot be started", source })
        };
        if self.core.signal.is_some() {
            let writer = Arc::clone(&self.core);
            let work = move || background::write(&writer, settings, || stats(&writer).publish());
            self.threads.push(start("ebbpool-write", Box::new(work))?);
        }
        if let Some(ranges) = ranges {
            let reader = Arc::clone(&self.core);
            let work = move || background::read(&reader, &ranges);
            self.threads.push(start("ebbpool-read", Box::new(work))?);
        }
        Ok(())
    }

    /// The number of bytes of a page that belong to the caller.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// assert_eq!(pool.payload_size(), pool.fix_read(0)?.len());
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn payload_size(&self) -> usize {
        self.core.transfer.storage().page_size() - self.payload()
    }

    fn payload(&self) -> usize {
        self.core.transfer.format().payload()
    }

    /// The number of frames of the pool.
    pub fn frames(&self) -> u32 {
        self.core.frames.count()
    }

    /// Changes the number of frames, while other threads use the pool, if the option
    /// [`most_frames`](crate::PoolOptions::most_frames) was given. Of fewer frames the policy's next victims are evicted, and the
    /// memory of the others is given back to the system. A page that is fixed is waited for.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// let pool = PoolOptions::new(100).most_frames(200).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(7)?[0] = 1;
    /// pool.resize(1)?;
    /// pool.resize(200)?;
    /// assert_eq!(pool.fix_read(7)?[0], 1);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Options`] if it cannot have that many, [`PoolError::InCallback`]. Of fewer frames: [`PoolError::Latched`] and
    /// [`PoolError::AllPinned`] if guards held pages for the pool's patience, [`PoolError::Write`], [`PoolError::Log`] and
    /// [`PoolError::Poisoned`] if a victim cannot be written. The pool has as many frames as before then, with fewer pages.
    pub fn resize(&self, frames: u32) -> Result<(), PoolError> {
        self.core.resize(frames, self.resizable)
    }

    /// A description of the storage, for people.
    pub fn describe_storage(&self) -> String {
        self.core.transfer.storage().describe()
    }

    /// Fixes a page for reading. A page that was never written reads as zeros.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(3)?[0] = 7;
    /// assert_eq!(pool.fix_read(3)?[0], 7);
    /// assert_eq!(pool.fix_read(4)?[0], 0); // never written
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Read`] and [`PoolError::Damaged`] if it cannot be read from storage, [`PoolError::Write`],
    /// [`PoolError::Log`] and [`PoolError::Poisoned`] if the victim cannot be written, [`PoolError::AllPinned`]
    /// and [`PoolError::Latched`] after waiting, [`PoolError::Abandoned`], [`PoolError::NoPage`].
    #[inline]
    pub fn fix_read(&self, page: u64) -> Result<ReadGuard<'_>, PoolError> {
        self.read_of((page, UNKNOWN_CLASS), None, None)
    }

    #[inline]
    pub(crate) fn read_of(
        &self,
        page: (u64, PageClass),
        patience: Patience<'_>,
        scan: Option<&mut PoolScan>,
    ) -> Result<ReadGuard<'_>, PoolError> {
        let latch = self.core.fix_shared(page, patience, scan)?;
        Ok(ReadGuard::new(latch, self.payload()))
    }

    /// The pool for pages of one class, which the fixes pass to a policy that asks for classes, and to
    /// [`on_classed_fix`](crate::PoolOptions::on_classed_fix). Fixing a page that is resident costs nothing more.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// const INDEX: u32 = 1;
    /// let page = pool.of_class(INDEX).allocate()?.page();
    /// assert_eq!(pool.of_class(INDEX).fix_read(page)?[0], 0);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    #[inline]
    pub fn of_class(&self, class: PageClass) -> ClassedPool<'_> {
        ClassedPool::new(self, class)
    }

    /// The pool for pages of one of several files ([`PoolOptions::open_files`]), by their numbers in it. Guards, and the calls of the
    /// pool itself, have other numbers, which distinguish the files: see [`ClassedPool::number`] and [`Pool::place`].
    pub fn of_file(&self, file: u32) -> ClassedPool<'_> {
        ClassedPool::new(self, UNKNOWN_CLASS).of_file(file)
    }

    /// The file that has the page of this number, and the page's number there: of a pool of one file, 0 and the number.
    pub fn place(&self, page: u64) -> (u32, u64) {
        match self.several {
            None => (0, page),
            Some(_) => {
                let (file, page) = spaces::place(page);
                (file as u32, page)
            }
        }
    }

    /// The number of a page of a file.
    pub(crate) fn number(&self, file: u32, page: u64) -> Result<u64, PoolError> {
        let files = self.core.transfer.spaces.files();
        match &self.several {
            None if file == 0 => Ok(page),
            Some(_) if (file as usize) < files && page < spaces::MOST_PAGES => Ok(spaces::first_of(file) + page),
            _ => Err(PoolError::NoPage { page, most: if (file as usize) < files { spaces::MOST_PAGES } else { 0 } }),
        }
    }

    /// What a read and a write of a page of a file cost lately.
    pub(crate) fn costs_of(&self, file: u32) -> Option<OperationCosts> {
        match &self.several {
            None => (file == 0).then(|| self.core.transfer.costs()),
            Some(several) => several.0.get(file as usize).map(PartOfSeveral::costs),
        }
    }

    /// The pool for fixes that wait no longer than this for other threads, whatever its own
    /// [`patience`](crate::PoolOptions::patience). A fix that may not wait at all still reads its page from storage, and writes
    /// its victim; [`try_fix_read`](Self::try_fix_read) does not.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ebbpool::{PoolError, PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let _held = pool.fix_write(3)?;
    /// let refused = pool.within(Duration::ZERO).fix_read(3);
    /// assert!(matches!(refused, Err(PoolError::Latched { .. })));
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn within(&self, patience: Duration) -> ClassedPool<'_> {
        self.of_class(UNKNOWN_CLASS).within(patience)
    }

    /// Fixes a page for reading, if that takes neither a wait nor a read from storage: it is resident, and no thread changes it,
    /// or waits for that.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// assert!(pool.try_fix_read(3)?.is_none()); // not resident
    /// let page = pool.fix_read(3)?;
    /// assert!(pool.try_fix_read(3)?.is_some());
    /// assert!(pool.try_fix_write(3)?.is_none()); // a guard has it
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Abandoned`], [`PoolError::InCallback`].
    pub fn try_fix_read(&self, page: u64) -> Result<Option<ReadGuard<'_>>, PoolError> {
        let latch = self.core.try_fix_shared(page)?;
        Ok(latch.map(|latch| ReadGuard::new(latch, self.payload())))
    }

    /// Fixes a page for writing, if that takes neither a wait nor a read from storage: it is resident, no other guard has it, and
    /// the [`dirty_budget`](crate::PoolOptions::dirty_budget) delays no fix.
    ///
    /// # Errors
    ///
    /// As [`Pool::try_fix_read`], [`PoolError::ReadOnly`], [`PoolError::Poisoned`].
    pub fn try_fix_write(&self, page: u64) -> Result<Option<WriteGuard<'_>>, PoolError> {
        let Some(latch) = self.core.try_fix_exclusive(page)? else {
            return Ok(None);
        };
        self.space(page).numbers.note(page);
        Ok(Some(WriteGuard::new(latch, self.payload())))
    }

    /// Makes a guard for reading one for writing, without another thread changing the page in between, if no other guard has the
    /// page and no thread has waited for it for long. It never waits: of two threads that have a page for reading and try this, at
    /// most one succeeds, and the other one has to drop its guard. It counts as a fix, and the
    /// [`dirty_budget`](crate::PoolOptions::dirty_budget) delays a later one instead.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let page = pool.fix_read(3)?;
    /// let other = pool.fix_read(3)?;
    /// let Err((page, _)) = pool.upgrade(page) else { panic!("two guards have the page") };
    /// drop(other);
    /// let Ok(mut page) = pool.upgrade(page) else { panic!("no other guard has the page") };
    /// page[0] = 1;
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The guard, and [`PoolError::Latched`], [`PoolError::ReadOnly`], [`PoolError::Poisoned`] or [`PoolError::InCallback`].
    ///
    /// # Panics
    ///
    /// If the guard is of another pool.
    #[allow(clippy::type_complexity)]
    pub fn upgrade<'p, F: Deref<Target = Frames>>(
        &self,
        guard: ReadGuard<'p, F>,
    ) -> Result<WriteGuard<'p, F>, (ReadGuard<'p, F>, PoolError)> {
        let page = guard.page();
        match self.core.upgrade(guard.into_latch()) {
            Ok(latch) => {
                self.space(page).numbers.note(page);
                Ok(WriteGuard::new(latch, self.payload()))
            }
            Err((latch, error)) => Err((ReadGuard::new(latch, self.payload()), error)),
        }
    }

    /// Brings the byte of a page at `offset` into the processor's cache, if the page is resident: for a caller that
    /// knows which pages it will fix next. The processor then loads the memory of several pages at the same time,
    /// where fixes wait for one after the other. This is not reported to the policy.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let next = pool.allocate()?.page();
    /// pool.prefetch(next, 0);
    /// // … work on another page …
    /// assert_eq!(pool.fix_read(next)?[0], 0);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    #[inline]
    pub fn prefetch(&self, page: u64, offset: usize) {
        let core = &*self.core;
        if let Some(frame) = core.table.find_probable(page) {
            core.frames.prefetch(frame, self.payload().wrapping_add(offset));
        }
    }

    /// Fixes a page for reading that will probably not be used again soon.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let mut scan = ebbpool::PoolScan::new();
    /// for page in 0..100 {
    ///     let page = pool.fix_scan(page, &mut scan)?;
    ///     assert_eq!(page[0], 0);
    /// }
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_read`].
    pub fn fix_scan(&self, page: u64, scan: &mut PoolScan) -> Result<ReadGuard<'_>, PoolError> {
        self.read_of((page, UNKNOWN_CLASS), None, Some(scan))
    }

    /// Fixes a page for writing. It is dirty from then on.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let mut page = pool.fix_write(0)?;
    /// page[..5].copy_from_slice(b"hello");
    /// drop(page); // other threads may fix it now
    /// assert_eq!(&pool.fix_read(0)?[..5], b"hello");
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_read`], [`PoolError::ReadOnly`], and [`PoolError::Poisoned`] as soon as a sync has failed.
    #[inline]
    pub fn fix_write(&self, page: u64) -> Result<WriteGuard<'_>, PoolError> {
        self.write_of((page, UNKNOWN_CLASS), None)
    }

    #[inline]
    pub(crate) fn write_of(&self, page: (u64, PageClass), patience: Patience<'_>) -> Result<WriteGuard<'_>, PoolError> {
        let latch = self.core.fix_exclusive(page, patience)?;
        self.space(page.0).numbers.note(page.0);
        Ok(WriteGuard::new(latch, self.payload()))
    }

    /// Fixes a page for writing whose content in storage does not matter: the page is filled with zeros instead of
    /// being read.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 7;
    /// assert_eq!(pool.fix_new(0)?[0], 0);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_write`].
    pub fn fix_new(&self, page: u64) -> Result<WriteGuard<'_>, PoolError> {
        self.new_of((page, UNKNOWN_CLASS), None)
    }

    pub(crate) fn new_of(&self, page: (u64, PageClass), patience: Patience<'_>) -> Result<WriteGuard<'_>, PoolError> {
        let latch = self.core.fix_new(page, patience)?;
        self.space(page.0).numbers.note(page.0);
        Ok(WriteGuard::new(latch, self.payload()))
    }

    /// A resident page, to be read without fixing it; `None` if it is not resident or is being changed: then fix it.
    /// This is not reported to the policy.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let page = pool.allocate()?.page();
    /// let mut first = [1; 4];
    /// if let Some(seen) = pool.read_optimistically(page) {
    ///     assert!(seen.read(0, &mut first) && seen.validate());
    ///     assert_eq!(first, [0; 4]);
    /// }
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    #[inline]
    pub fn read_optimistically(&self, page: u64) -> Option<Optimistic<'_>> {
        Optimistic::begin(&self.core, page)
    }

    /// A page as of the moment of a [`stamp`](Optimistic::stamp), to be read on; `None` if it has changed, is being changed, or was
    /// evicted since.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let page = pool.allocate()?.page();
    /// let stamp = pool.read_optimistically(page).map_or(0, |seen| seen.stamp());
    /// assert!(pool.read_as_of(page, stamp).is_some());
    /// pool.fix_write(page)?[0] = 1;
    /// assert!(pool.read_as_of(page, stamp).is_none());
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn read_as_of(&self, page: u64, stamp: u64) -> Option<Optimistic<'_>> {
        Optimistic::resume(&self.core, page, stamp)
    }

    /// Allocates a page: fixes one that is not in use for writing, filled with zeros. It is the freed page with the
    /// smallest number, or, if no page is free, the one after the last page that the storage has or that was fixed
    /// for writing. The storage grows with it.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let first = pool.allocate()?.page();
    /// let second = pool.allocate()?.page();
    /// assert_eq!((first, second), (0, 1));
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Pool::fix_write`], and [`PoolError::Grow`] if the storage is full.
    pub fn allocate(&self) -> Result<WriteGuard<'_>, PoolError> {
        self.allocate_of((0, UNKNOWN_CLASS), None)
    }

    /// Allocates a page of the file whose first page has that number.
    pub(crate) fn allocate_of(
        &self,
        (first, class): (u64, PageClass),
        patience: Patience<'_>,
    ) -> Result<WriteGuard<'_>, PoolError> {
        self.core.transfer.check_writable()?;
        let numbers = &self.space(first).numbers;
        let page = numbers.take().ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::StorageFull, "the page with the largest number is in use");
            PoolError::Grow { pages: u64::MAX, source }
        })?;
        let fixed = self.grow_to(page.saturating_add(1)).and_then(|()| self.new_of((page, class), patience));
        numbers.settle(page, fixed.is_ok());
        fixed
    }

    /// The number of pages of the storage: those that it had when the pool was opened, and those by which it has
    /// [grown](Self::grow) since.
    pub fn pages(&self) -> u64 {
        self.core.transfer.spaces.pages()
    }

    /// Makes the storage at least `pages` pages long. [`allocate`](Self::allocate) goes on after these, and the
    /// caller [frees](Self::free) those that are not in use. This is for recovery: in a crash a storage may lose its
    /// growth, while the log still has the content of the pages.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.grow(8)?;
    /// assert_eq!(pool.pages(), 8);
    /// assert_eq!(pool.allocate()?.page(), 8);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Grow`] if the storage is full.
    pub fn grow(&self, pages: u64) -> Result<(), PoolError> {
        self.grow_to(pages)
    }

    /// Makes the file of the last page before `end` end no earlier than that.
    pub(crate) fn grow_to(&self, end: u64) -> Result<(), PoolError> {
        self.space(end.saturating_sub(1)).grow(end, || match self.core.limits.most_pages {
            Some(most) if end > most => {
                Err(io::Error::new(io::ErrorKind::StorageFull, format!("the pool has the option most_pages({most})")))
            }
            _ => self.core.transfer.storage().grow(end),
        })
    }

    /// Makes the storage `pages` pages long, if it is longer, and returns when that survives a crash. The pages that are cut off
    /// have to be [free](Self::free), and stay so if the caller's program crashes: their content is lost. No thread
    /// may [grow](Self::grow) the storage meanwhile; who fixes such a page waits, or sees zeros; [`allocate`](Self::allocate) grows it again.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.grow(8)?;
    /// assert!(pool.truncate(5).is_err());
    /// for page in 5..8 {
    ///     pool.free(page)?;
    /// }
    /// pool.truncate(5)?;
    /// assert_eq!(pool.pages(), 5);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Truncate`] if a page is in use, or the storage cannot become shorter, as a device or an object store;
    /// [`PoolError::Storage`], [`PoolError::Poisoned`], [`PoolError::ReadOnly`].
    pub fn truncate(&self, pages: u64) -> Result<(), PoolError> {
        self.truncate_to(pages)
    }

    /// Makes the file of page `end` end there.
    pub(crate) fn truncate_to(&self, end: u64) -> Result<(), PoolError> {
        let core = &*self.core;
        core.check_callbacks()?;
        core.transfer.check_writable()?;
        let cut = || {
            core.end_writes_from(end).map_err(io::Error::other)?;
            // Free pages that were read since, for example ahead. Those that are fetched from now on are empty.
            let mut stale = core.resident_from(end).into_iter();
            stale.try_for_each(|page| self.drop_page(page, false).map(drop)).map_err(io::Error::other)?;
            core.transfer.truncate(end)
        };
        self.space(end).truncate(end, cut, || core.end_of_changes(end))?;
        core.transfer.sync()
    }

    pub(crate) fn space(&self, page: u64) -> &PageSpace {
        self.core.transfer.spaces.of(page)
    }

    /// Frees a page whose content does not matter any more. It is not written. Returns true if it was dirty. The pool
    /// does not store which pages are free: record that in pages of your own, and free them again after opening. Do not
    /// fix the page for writing until [`allocate`](Self::allocate) returns it again. A number that no page in use has or exceeds
    /// is forgotten.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let page = pool.allocate()?.page();
    /// pool.free(page)?;
    /// assert_eq!(pool.allocate()?.page(), page);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Latched`] if another guard has it fixed.
    pub fn free(&self, page: u64) -> Result<bool, PoolError> {
        let was_dirty = self.drop_page(page, false)?;
        self.core.frames.discarded().forget(page);
        self.core.torn_pads.forget(page);
        self.space(page).numbers.free(page);
        self.note_dropped(page);
        Ok(was_dirty)
    }

    /// Discards a page's content in memory, so that the next fix reads the page from storage: changes that were not
    /// written are lost. This recovers an abandoned page whose changes the log can redo. Redo them, and confirm that
    /// with [`WriteGuard::redone`]: until then no checkpoint covers them. A page that was never written, and has no changes in the
    /// log, is no longer in use.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 1;
    /// pool.flush(0)?;
    /// pool.fix_write(0)?[0] = 2;
    /// pool.discard(0)?;
    /// assert_eq!(pool.fix_read(0)?[0], 1);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Latched`] if another guard has it fixed.
    pub fn discard(&self, page: u64) -> Result<(), PoolError> {
        self.drop_page(page, true)?;
        self.note_dropped(page);
        Ok(())
    }

    fn note_dropped(&self, page: u64) {
        let space = self.space(page);
        space.numbers.dropped(page, || space.stored_or_written(), || self.core.end_of_changes(page));
    }

    fn drop_page(&self, page: u64, may_be_redone: bool) -> Result<bool, PoolError> {
        let core = &*self.core;
        core.check_callbacks()?;
        let mut waiting = Waiting::new(core);
        loop {
            let mut policy = core.policy();
            policy.take_all_hits(&core.rings, &core.frames);
            if policy.is_being_evicted(page) {
                waiting.for_write(&mut policy, page)?;
            }
            let Some(frame) = core.table.find_locked(page, &core.frames) else {
                return Ok(false);
            };
            match core.frames.claim_to_drop(frame) {
                Ok(claimed) => {
                    let was_dirty = core.frames.state(frame).is_changed();
                    if may_be_redone && was_dirty {
                        // Before the page is removed from the dirty pages, where checkpoints look first.
                        core.frames.discarded().note(page, core.frames.first_lsn(frame));
                    }
                    policy.drop_page(claimed, page, core.view());
                    return Ok(was_dirty);
                }
                Err(LatchRefusal::Empty) => {}
                Err(LatchRefusal::Busy | LatchRefusal::Abandoned) => {
                    drop(policy);
                    waiting.for_latch(frame, page, WaitCondition::Drop)?;
                }
            }
        }
    }

    /// Writes a page, if it is dirty, and returns when its content survives a crash.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 1;
    /// pool.flush(0)?;
    /// assert_eq!(pool.stats().writes(), 1);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PoolError::Write`], [`PoolError::Log`], [`PoolError::Poisoned`], [`PoolError::Latched`]. The page stays dirty.
    pub fn flush(&self, page: u64) -> Result<(), PoolError> {
        self.core.flush(page)
    }

    /// Writes all pages that are dirty now, in ascending order, and returns when their content survives a crash.
    /// Other threads read and write meanwhile (fuzzy checkpoint). The time depends on the number of dirty pages, not
    /// of frames.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 1;
    /// pool.fix_write(1)?[0] = 2;
    /// assert_eq!(pool.checkpoint()?.pages, 2);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Pool::flush`]; pages that could not be written stay dirty. [`PoolError::Abandoned`] if a page is
    /// abandoned and there is no log: all others are written then.
    pub fn checkpoint(&self) -> Result<Checkpoint, PoolError> {
        let _span = tracing::debug_span!("checkpoint").entered();
        match self.core.checkpoint()? {
            // Without a log the changes of the page are nowhere else.
            CheckpointOutcome::Complete { checkpoint: Checkpoint { covered: Lsn::MAX, .. }, abandoned: Some(page) } => {
                Err(PoolError::Abandoned { page })
            }
            CheckpointOutcome::Complete { checkpoint, .. } => Ok(checkpoint),
            CheckpointOutcome::Incomplete { pages } => Ok(Checkpoint { covered: 0, pages }),
        }
    }

    /// Slows the caller down while too many pages are dirty, as
    /// [`PoolOptions::dirty_budget`](crate::PoolOptions::dirty_budget) says. A caller that has switched
    /// [`throttle_at_fix`](crate::PoolOptions::throttle_at_fix) off calls this where it holds no page.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// let pool = PoolOptions::new(10).throttle_at_fix(false).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 1;
    /// pool.throttle(); // no page is held here
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    pub fn throttle(&self) {
        self.core.throttle();
    }

    /// What the pool has done so far.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_read(0)?;
    /// pool.fix_read(0)?;
    /// assert_eq!(pool.stats().hit_ratio(), 0.5);
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the pool's listener of events, or a policy of the caller's, calls it. Then the pool goes on as after any panic of these.
    pub fn stats(&self) -> Stats {
        stats(&self.core)
    }

    /// Checkpoints and ends the pool.
    ///
    /// ```
    /// # use ebbpool::{PoolOptions, storage::MemoryStorage};
    /// # let pool = PoolOptions::new(10).open(MemoryStorage::new(4096))?;
    /// pool.fix_write(0)?[0] = 1;
    /// if let Err(failed) = pool.close() {
    ///     let (pool, why) = failed.into_parts(); // its dirty pages are nowhere else
    ///     eprintln!("{why}: {} pages", pool.pages());
    /// }
    /// # Ok::<(), ebbpool::PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Pool::checkpoint`], and [`PoolError::Abandoned`] if a page is abandoned: discard it first. The error
    /// returns the pool, because its dirty pages are nowhere else.
    pub fn close(self) -> Result<(), CloseError> {
        loop {
            match self.core.checkpoint() {
                Ok(CheckpointOutcome::Complete { abandoned: Some(page), .. }) => {
                    return Err(CloseError::new(self, PoolError::Abandoned { page }));
                }
                Ok(CheckpointOutcome::Complete { .. }) => return Ok(()),
                // Without callers only reading ahead evicts pages, and that ends: the next checkpoint tries again.
                Ok(CheckpointOutcome::Incomplete { .. }) => {}
                Err(error) => return Err(CloseError::new(self, error)),
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.core.opened_by != process::id() {
            // A child of `fork` has no such threads, and other threads of the parent may have had any lock at that moment.
            self.threads.drain(..).for_each(mem::forget);
            mem::forget(Arc::clone(&self.core));
            return;
        }
        if let Some(signal) = &self.core.signal {
            signal.stop();
        }
        if self.threads.iter().any(is_this_thread) {
            // A storage, a log, a policy or a listener had the last reference to the pool, and this thread may have locks that the
            // other one waits for. Both end by themselves.
            self.threads.clear();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("frames", &self.frames())
            .field("storage", &self.describe_storage())
            .finish_non_exhaustive()
    }
}

fn stats(core: &PoolShared) -> Stats {
    assert!(!core.callback.is_here(), "{}", PoolError::InCallback);
    let counters = &core.transfer.counters;
    let (resident, gauges) = {
        let policy = core.replacement.lock();
        (policy.resident(), policy.gauges())
    };
    Stats {
        hits: core.rings.hits() + counters.hits_of_read_ahead.get(),
        misses: counters.misses.get(),
        pages_read: counters.reads.each_ref().map(Counter::get),
        pages_written: counters.writes.each_ref().map(Counter::get),
        double_write_pages: core.transfer.double_write_pages(),
        write_calls: counters.write_calls.get(),
        page_size: core.transfer.storage().page_size(),
        failed_reads: counters.failed_reads.get(),
        failed_writes: counters.failed_writes.get(),
        syncs: counters.syncs.get(),
        log_forces: counters.log_forces.get(),
        waits_for_latches: counters.waits_for_latches.get(),
        waits_for_writes: counters.waits_for_writes.get(),
        waits_for_frames: counters.waits_for_frames.get(),
        delays: counters.delays.get(),
        delayed: Duration::from_micros(counters.delayed_us.get()),
        frames: core.frames.count(),
        resident,
        dirty: core.frames.dirty().count() as u32,
        clean_target: gauges.target,
        leader: gauges.leader,
        costs: core.transfer.costs(),
        read_latency: counters.read_latency.quantiles(),
        write_latency: counters.write_latency.quantiles(),
        sync_latency: counters.sync_latency.quantiles(),
        poisoned: core.transfer.poisoned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn a_pool_whose_second_thread_cannot_be_started_ends_the_first_and_drops_its_storage() {
        let storage = Arc::new(MemoryStorage::new(512));
        let refuses_readers = |name: &str, work| match name {
            "ebbpool-read" => Err(io::ErrorKind::WouldBlock.into()),
            name => spawn(name, work),
        };
        let opened = PoolOptions::new(8).open_with(Box::new(Arc::clone(&storage)), None, refuses_readers);
        assert!(matches!(opened, Err(PoolError::Storage { .. })));
        assert_eq!(Arc::strong_count(&storage), 1, "a thread has it still");
    }
}
