//! The pool in front of a [`Stored`]: pages as of the last epoch, chosen by the policy `ebb`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Stored;
use crate::code::{SqliteCode, SqliteResult};
use crate::sync::gate;
use ebbpool::storage::{Read, Storage, Write};
use ebbpool::{Log, Lsn, OperationCosts, PageFormat, Pool, PoolError, PoolOptions, Unit};

/// The fewest frames: the policies' lists need a few.
const LEAST_FRAMES: u64 = 64;
/// Frames of the first pool: a program that opens a database and reads a row is spared the time that all of them take.
const FIRST_FRAMES: u64 = 256;
/// How many times the frames the next pool has.
const GROWTH: u64 = 8;

/// The pages as of the last epoch as a pool's storage. The pool's pages are numbered from 0, SQLite's from 1.
struct StoreStorage {
    stored: Arc<Stored>,
    page_size: usize,
    /// Pages that were read.
    misses: Arc<AtomicU64>,
}

impl Storage for StoreStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(u64::from(self.stored.size()))
    }

    fn grow(&self, _pages: u64) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.misses.fetch_add(reads.len() as u64, Ordering::Relaxed);
        for read in reads {
            let answer = self.stored.read(read.page as u32 + 1, read.buffer);
            read.outcome = answer.map_err(|code| io::Error::other(code.to_string()));
        }
        None
    }

    /// Writes nothing: the pool asks only after the page's epoch is in the log, and a later read takes it from there.
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        for write in writes {
            write.outcome = Ok(());
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "the database of SQLite, with the epochs in its log".into()
    }
}

/// The epochs as the pool's log: an LSN is the number of an epoch.
#[derive(Default)]
pub(crate) struct Epochs {
    durable: AtomicU64,
}

impl Log for Epochs {
    fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        // A page enters the pool after its epoch.
        match lsn <= self.durable_lsn() {
            true => Ok(()),
            false => Err(io::Error::other("a page is in the pool before its epoch is in the log")),
        }
    }

    fn end_lsn(&self) -> Lsn {
        self.durable_lsn()
    }
}

/// The pool of one database, and the epochs in it.
pub(crate) struct PageCache {
    pool: Pool,
    epochs: Arc<Epochs>,
    page_size: usize,
    /// Frames that the memory has room for.
    most: u64,
    misses: Arc<AtomicU64>,
    /// Hits and misses of the pools before.
    before: (u64, u64),
}

fn failed(error: &PoolError) -> SqliteCode {
    tracing::warn!(%error, "a page cannot be read");
    SqliteCode::IO
}

impl PageCache {
    /// A pool that grows to about `memory` bytes.
    pub(crate) fn new(stored: &Arc<Stored>, page_size: usize, memory: u64) -> SqliteResult<PageCache> {
        let most = (memory / page_size as u64).clamp(LEAST_FRAMES, 1 << 24);
        PageCache::with_frames(stored, page_size, FIRST_FRAMES.min(most), most)
    }

    fn with_frames(stored: &Arc<Stored>, page_size: usize, frames: u64, most: u64) -> SqliteResult<PageCache> {
        let epochs = Arc::new(Epochs::default());
        let misses = Arc::new(AtomicU64::new(0));
        let home = StoreStorage { stored: Arc::clone(stored), page_size, misses: Arc::clone(&misses) };
        // A dirty page is one whose home is the log: writing it back costs nothing, and reading it again a little more.
        let costs = OperationCosts { read: 1.0, write: 0.1, unit: Unit::Microseconds };
        let log: Arc<dyn Log> = Arc::clone(&epochs) as Arc<dyn Log>;
        let pool = PoolOptions::new(frames as u32)
            .format(PageFormat::Raw)
            .log(log)
            .fixed_costs(costs)
            .background(false)
            .dirty_budget(1.0, Duration::ZERO)
            .open(home)
            .map_err(|error| failed(&error))?;
        Ok(PageCache { pool, epochs, page_size, most, misses, before: (0, 0) })
    }

    /// True if a pool with more frames would read less, and the memory has room for it.
    pub(crate) fn is_short(&self) -> bool {
        let frames = u64::from(self.frames());
        frames < self.most && self.misses.load(Ordering::Relaxed) >= 2 * frames
    }

    /// A pool with more frames, which are still empty.
    pub(crate) fn grown(&self, stored: &Arc<Stored>) -> SqliteResult<PageCache> {
        let frames = (u64::from(self.frames()) * GROWTH).min(self.most);
        let pages = PageCache::with_frames(stored, self.page_size, frames, self.most)?;
        Ok(PageCache { before: self.hits_and_misses(), ..pages })
    }

    /// Calls `with` with the content of a page as of the last epoch.
    pub(crate) fn read<R>(&self, page: u32, with: impl FnOnce(&[u8]) -> R) -> SqliteResult<R> {
        let _gate = gate();
        let guard = self.pool.fix_read(u64::from(page) - 1);
        let guard = guard.map_err(|error| failed(&error))?;
        Ok(with(&guard))
    }

    /// True if a page is here.
    pub(crate) fn has(&self, page: u32) -> bool {
        let _gate = gate();
        self.pool.read_optimistically(u64::from(page) - 1).is_some()
    }

    /// True if a page that is here is another one in the files.
    pub(crate) fn differs(&self, stored: &Stored) -> SqliteResult<bool> {
        let _gate = gate();
        let (mut here, mut there) = (vec![0; self.page_size], vec![0; self.page_size]);
        for page in 1..=stored.size() {
            let seen = self.pool.read_optimistically(u64::from(page) - 1);
            if seen.is_some_and(|seen| seen.read(0, &mut here)) {
                stored.read(page, &mut there)?;
                if here != there {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Takes over a page as an epoch has changed it. The epoch is durable.
    pub(crate) fn replace(&self, page: u32, image: &[u8]) -> SqliteResult<()> {
        let _gate = gate();
        let guard = self.pool.fix_new(u64::from(page) - 1);
        let mut guard = guard.map_err(|error| failed(&error))?;
        guard.copy_from_slice(image);
        guard.set_lsn(self.epochs.durable_lsn());
        Ok(())
    }

    /// Forgets a page, which the next read takes from the store.
    pub(crate) fn forget(&self, page: u32) -> SqliteResult<()> {
        let _gate = gate();
        let page = u64::from(page) - 1;
        // A clean page needs no redo after it was discarded.
        let dropped = self.pool.flush(page).and_then(|()| self.pool.discard(page));
        dropped.map_err(|error| failed(&error))
    }

    /// Notes that all pages are in place.
    pub(crate) fn note_checkpoint(&self) -> SqliteResult<()> {
        let _gate = gate();
        let done = self.pool.checkpoint();
        done.map(drop).map_err(|error| failed(&error))
    }

    /// Notes that another epoch is durable.
    pub(crate) fn note_epoch(&self) {
        self.epochs.durable.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of frames.
    pub(crate) fn frames(&self) -> u32 {
        self.pool.frames()
    }

    /// Hits and misses of the pool so far.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        let stats = self.pool.stats();
        (self.before.0 + stats.hits, self.before.1 + stats.misses)
    }
}
