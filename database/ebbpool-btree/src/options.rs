//! The options with which a database is opened.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use ebbpool::PoolOptions;
use ebbpool::storage::Storage;

use crate::database::Database;
use crate::database_files::DatabaseFiles;
use crate::error::DatabaseError;
use crate::files;
use crate::log::LogFile;
use crate::open;
use crate::recovery::MICROS_PER_BYTE;

/// With fewer frames an operation might not get all the pages that it needs at the same time.
const LEAST_FRAMES: u32 = 16;

/// The least, greatest and default size of a page, in bytes.
const LEAST_PAGE: usize = 512;
pub(crate) const LARGEST_PAGE: usize = 32 << 10;
const USUAL_PAGE: usize = 4096;

/// If fewer bytes of log lay between two checkpoints, the database would do little but take checkpoints.
const LEAST_BETWEEN_CHECKPOINTS: u64 = 4096;

const SHORTEST_RECOVERY: Duration = Duration::from_millis(10);

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing. The last commits are lost if the program ends without closing the database.
    None,
    /// The operating system has the log. It survives the end of the program, but not a power failure.
    Buffered,
    /// The log is on the device. It survives a power failure.
    #[default]
    Synced,
}

/// The options with which a database is opened. With any durability, the database holds exactly its first n
/// committed transactions after a crash.
///
/// ```no_run
/// use ebbpool_btree::{Durability, DatabaseOptions};
///
/// let options = DatabaseOptions::new(1000).durability(Durability::Buffered);
/// let database = options.open("accounts.db")?;
/// database.put(b"alice", b"100")?;
/// assert_eq!(database.get(b"alice")?.as_deref(), Some(&b"100"[..]));
/// database.close()?;
/// # Ok::<(), ebbpool_btree::DatabaseError>(())
/// ```
#[must_use]
pub struct DatabaseOptions {
    pub(crate) frames: u32,
    pub(crate) page_size: Option<usize>,
    pub(crate) policy: Option<String>,
    pub(crate) durability: Durability,
    pub(crate) checkpoint_every: u64,
    pub(crate) recovery_within: Option<Duration>,
    pub(crate) double_write: bool,
    pub(crate) patience: Duration,
    pub(crate) background: bool,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    adjustments: Vec<Box<dyn FnOnce(PoolOptions) -> PoolOptions>>,
}

/// The storages and log files of a database that is not opened by a path.
pub struct DatabaseParts {
    /// The pages.
    pub pages: Box<dyn Storage>,
    /// The double-write area: images of pages that are about to be overwritten, from which torn pages are
    /// restored. A database that was opened with an area once must be opened with it again, even with
    /// [`DatabaseOptions::double_write`] off, so that old images in it are never restored later.
    pub double_write: Option<Box<dyn Storage>>,
    /// The log's files.
    pub log: [Box<dyn LogFile>; 2],
}

impl DatabaseOptions {
    /// Opens with this number of frames for pages: 16 at least. For each 8 of them one operation uses pages at a time, and
    /// others wait, so give 8 for each thread.
    pub fn new(frames: u32) -> Self {
        DatabaseOptions {
            frames,
            page_size: None,
            policy: None,
            durability: Durability::default(),
            checkpoint_every: 64 << 20,
            recovery_within: None,
            double_write: true,
            patience: Duration::from_secs(1),
            background: true,
            create: true,
            read_only: false,
            adjustments: Vec::new(),
        }
    }

    /// The page size in bytes: a power of two from 512 to 32768, by default 4096. An existing database
    /// keeps the page size with which it was created; opening it with another one fails.
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// The replacement policy, one of those that `ebbpool policies` lists; by default the pool's.
    ///
    /// # Errors
    ///
    /// If there is no such policy, or it needs future requests.
    pub fn policy(mut self, spec: &str) -> Result<Self, DatabaseError> {
        drop(PoolOptions::new(self.frames).policy(spec).map_err(from_pool_error)?);
        self.policy = Some(spec.into());
        Ok(self)
    }

    /// What a commit waits for; by default [`Durability::Synced`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The database takes a checkpoint after each `bytes` of log: 4096 at least, by default 64 MiB. Beyond twice as many
    /// bytes changes wait for the checkpoint, and fail with its error if it fails. An open transaction keeps all log since
    /// its first change, however long that is ([`DatabaseStats::oldest_transaction`](crate::DatabaseStats)).
    pub fn checkpoint_every(mut self, bytes: u64) -> Self {
        self.checkpoint_every = bytes;
        self
    }

    /// The longest time that a recovery is to take, 10 ms at least: checkpoints begin early enough, and changes wait for them.
    /// It is estimated from the length of the log, the pages changed since the latest checkpoint, and what a page has cost this pool to
    /// read and to write ([`DatabaseStats::recovery_estimate`](crate::DatabaseStats)). On top of it come the log that an open
    /// transaction keeps, which is read, what it has to undo, and the log of one value, of which the longest has 64 MiB.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// let options = ebbpool_btree::DatabaseOptions::new(256).recovery_within(std::time::Duration::from_secs(2));
    /// let database = options.open(directory.path().join("my.db"))?;
    /// database.put(b"apple", b"1")?;
    /// assert!(database.stats().recovery_estimate.as_secs() < 2);
    /// # Ok::<(), ebbpool_btree::DatabaseError>(())
    /// ```
    pub fn recovery_within(mut self, time: Duration) -> Self {
        self.recovery_within = Some(time);
        self
    }

    /// Whether the pool writes images of pages to a double-write area, from which it restores torn pages;
    /// true by default. Without an area (for devices that write each page completely or not at all) a torn
    /// page is reported as damage.
    pub fn double_write(mut self, double_write: bool) -> Self {
        self.double_write = double_write;
        self
    }

    /// How long a transaction waits for another one that has locked a key; by default 1 second.
    pub fn lock_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether background threads write back, read ahead and take checkpoints; true by default. Without
    /// them all of that happens within calls.
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Whether to create the database if there is none; true by default.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether to open the database read-only; false by default. No byte of its files changes, so they may
    /// be on a read-only file system: recovery happens in memory. Other processes may read the database at
    /// the same time. Changes and checkpoints fail with [`DatabaseError::ReadOnly`].
    ///
    /// A database that cannot be opened otherwise, because its log lost its end or has a hole, is shown as
    /// far as it can be read; [`Database::lost`] reports what is missing. Its content is then not the state
    /// after any transaction.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Changes the pool's options. The database itself sets format, log and double-write area.
    pub fn pool(mut self, adjust: impl FnOnce(PoolOptions) -> PoolOptions + 'static) -> Self {
        self.adjustments.push(Box::new(adjust));
        self
    }

    /// Opens a database in files: `path` has the pages, `path.log0` and `path.log1` the log, `path.torn`
    /// the double-write area. Recovers first if necessary.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Options`], [`DatabaseError::NotADatabase`], [`DatabaseError::Newer`],
    /// [`DatabaseError::Locked`], [`DatabaseError::File`], [`DatabaseError::LogDamaged`],
    /// [`DatabaseError::LogCut`], [`DatabaseError::PagesOlder`], [`DatabaseError::Corrupt`], and errors of the pool. Files that do
    /// not belong to a database remain unchanged.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database, DatabaseError> {
        self.check()?;
        let files = match self.read_only {
            true => files::open_to_read(path.as_ref())?,
            false => files::open(path.as_ref(), &self)?,
        };
        open::open(self, files)
    }

    /// Opens a database on storages and log files. The caller ensures that the database is not open
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(self, parts: DatabaseParts) -> Result<Database, DatabaseError> {
        self.check()?;
        let files = DatabaseFiles::from_parts(parts)?;
        match self.read_only {
            true => open::open(self, files.read_only()?),
            false => open::open(self, files),
        }
    }

    fn check(&self) -> Result<(), DatabaseError> {
        let refused = |why| Err(DatabaseError::Options(why));
        if self.frames < LEAST_FRAMES {
            return refused(format!("a database needs {LEAST_FRAMES} frames at least, not {}; give it more", self.frames));
        }
        if let Some(bytes) = self.page_size
            && !is_page_size(bytes)
        {
            return refused(format!(
                "pages of a database cannot have {bytes} bytes; give a power of two from {LEAST_PAGE} to {LARGEST_PAGE}"
            ));
        }
        if self.checkpoint_every < LEAST_BETWEEN_CHECKPOINTS {
            return refused(format!(
                "a checkpoint after each {} bytes of log is too often; give {LEAST_BETWEEN_CHECKPOINTS} or more",
                self.checkpoint_every
            ));
        }
        if let Some(time) = self.recovery_within.filter(|&time| time < SHORTEST_RECOVERY) {
            return refused(format!("no recovery can be limited to {time:?}; give {SHORTEST_RECOVERY:?} or more"));
        }
        Ok(())
    }

    /// The bytes of log between two checkpoints, so few that scans of the log, which is at most three times as long, take little of a
    /// recovery's time.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let most = self.recovery_within.map_or(u64::MAX, |time| (time.as_secs_f64() * 1e6 / MICROS_PER_BYTE / 8.0) as u64);
        self.checkpoint_every.min(most)
    }

    /// The page size of a database that is to be created.
    pub(crate) fn new_page_size(&self) -> usize {
        self.page_size.unwrap_or(USUAL_PAGE)
    }

    /// The pool's options, without log and double-write area.
    pub(crate) fn take_pool(&mut self) -> Result<PoolOptions, DatabaseError> {
        let mut pool = PoolOptions::new(self.frames)
            .background(self.background)
            // Operations throttle before they begin, not while they hold a parent's latch.
            .throttle_at_fix(false);
        if let Some(spec) = &self.policy {
            pool = pool.policy(spec).map_err(from_pool_error)?;
        }
        let adjustments = std::mem::take(&mut self.adjustments);
        Ok(adjustments.into_iter().fold(pool, |pool, adjust| adjust(pool)))
    }
}

pub(crate) fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (LEAST_PAGE..=LARGEST_PAGE).contains(&bytes)
}

fn from_pool_error(error: ebbpool::PoolError) -> DatabaseError {
    match error {
        ebbpool::PoolError::Options(why) => DatabaseError::Options(why.to_string()),
        error => DatabaseError::Pool(error),
    }
}

impl fmt::Debug for DatabaseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseOptions")
            .field("frames", &self.frames)
            .field("page_size", &self.page_size)
            .field("policy", &self.policy)
            .field("durability", &self.durability)
            .field("checkpoint_every", &self.checkpoint_every)
            .field("recovery_within", &self.recovery_within)
            .field("double_write", &self.double_write)
            .field("lock_patience", &self.patience)
            .field("background", &self.background)
            .field("create", &self.create)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DatabaseParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseParts")
            .field("pages", &self.pages.describe())
            .field("double_write", &self.double_write.as_ref().map(|area| area.describe()))
            .finish_non_exhaustive()
    }
}
