//! How a database is opened.

use std::fmt;
#[cfg(unix)]
use std::path::Path;
use std::time::Duration;

use ebbpool::PoolOptions;
use ebbpool::storage::Storage;

use crate::database::Database;
use crate::error::Error;
#[cfg(unix)]
use crate::files;
use crate::log::LogFile;
use crate::open;
use crate::place::Place;

/// Frames below which an operation might not get all pages that it needs at once.
const LEAST_FRAMES: u32 = 16;

/// Bytes of a page.
const LEAST_PAGE: usize = 512;
pub(crate) const LARGEST_PAGE: usize = 32 << 10;
const USUAL_PAGE: usize = 4096;

/// Checkpoints that come closer than this would be all that the database does.
const LEAST_BETWEEN_CHECKPOINTS: u64 = 4096;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing. What was committed last is lost when the program ends without closing.
    None,
    /// The operating system has the log: it survives the end of the program, not a power failure.
    Buffered,
    /// The log is on the device: it survives a power failure.
    #[default]
    Synced,
}

/// How a database is to be opened. Whatever the durability, what is found after a crash is exactly the
/// first so many committed transactions.
///
/// ```no_run
/// use ebbpool_btree::{Durability, Options};
///
/// let options = Options::new(1000).durability(Durability::Buffered);
/// let database = options.open("accounts.db")?;
/// database.put(b"alice", b"100")?;
/// assert_eq!(database.get(b"alice")?.as_deref(), Some(&b"100"[..]));
/// database.close()?;
/// # Ok::<(), ebbpool_btree::Error>(())
/// ```
#[must_use]
pub struct Options {
    pub(crate) frames: u32,
    pub(crate) page_size: Option<usize>,
    pub(crate) policy: Option<String>,
    pub(crate) durability: Durability,
    pub(crate) checkpoint_every: u64,
    pub(crate) double_write: bool,
    pub(crate) patience: Duration,
    pub(crate) background: bool,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    adjustments: Vec<Box<dyn FnOnce(PoolOptions) -> PoolOptions>>,
}

/// What a database is kept in, where that is no path.
pub struct Parts {
    /// Pages.
    pub pages: Box<dyn Storage>,
    /// Images of pages that are about to be overwritten, from which torn ones are restored. A database
    /// that was opened with it once has to be opened with it again, also with
    /// [`Options::double_write`] off: old images in it must not outlive that.
    pub double_write: Option<Box<dyn Storage>>,
    /// The log's files.
    pub log: [Box<dyn LogFile>; 2],
}

impl Options {
    /// So many frames for pages, 16 at least; as many as 8 for each thread.
    pub fn new(frames: u32) -> Self {
        Options {
            frames,
            page_size: None,
            policy: None,
            durability: Durability::default(),
            checkpoint_every: 64 << 20,
            double_write: true,
            patience: Duration::from_secs(1),
            background: true,
            create: true,
            read_only: false,
            adjustments: Vec::new(),
        }
    }

    /// Bytes of a page, 4096 unless told: a power of two from 512 to 32768. A database that exists has pages
    /// of the size with which it was made, and is refused if another one is given.
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// The replacement policy, as `ebbpool policies` lists them; the pool's usual one unless told.
    ///
    /// # Errors
    ///
    /// If there is no such policy, or it needs to know the future.
    pub fn policy(mut self, spec: &str) -> Result<Self, Error> {
        drop(
            PoolOptions::new(self.frames)
                .policy(spec)
                .map_err(of_pool)?,
        );
        self.policy = Some(spec.into());
        Ok(self)
    }

    /// What a commit waits for; [`Durability::Synced`] unless told.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// A checkpoint is taken whenever the log has become so many bytes longer, 4096 at least; 64 MiB unless
    /// told.
    pub fn checkpoint_every(mut self, bytes: u64) -> Self {
        self.checkpoint_every = bytes;
        self
    }

    /// Whether images of pages are kept beside, from which torn ones are restored; true unless told.
    /// Without it (for devices that write pages whole or not at all) a torn page is reported.
    pub fn double_write(mut self, kept: bool) -> Self {
        self.double_write = kept;
        self
    }

    /// How long a transaction waits for another that has a key; 1 second unless told.
    pub fn lock_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether threads write back, read ahead, and take checkpoints; true unless told. Without them everything
    /// happens within calls.
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Whether a database is made where there is none; true unless told.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether the database is only to be read; false unless told. No byte of its files is changed, which
    /// may be on a file system that takes no writes: recovery happens in memory. Others may read it at
    /// the same time. Changes and checkpoints fail with [`Error::ReadOnly`].
    ///
    /// A database that is refused otherwise, since its log lost its end or has a hole, is shown as far as
    /// it can be read; [`Database::lost`] says what is missing. Do not take it for the state after some
    /// transaction then.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Changes what the pool is opened with. Format, log and double-write area are the database's.
    pub fn pool(mut self, adjust: impl FnOnce(PoolOptions) -> PoolOptions + 'static) -> Self {
        self.adjustments.push(Box::new(adjust));
        self
    }

    /// Opens a database in files: `path` has the pages, `path.log0` and `path.log1` the log, `path.torn`
    /// images of pages. Recovers first, if need be.
    ///
    /// # Errors
    ///
    /// [`Error::Options`], [`Error::NotADatabase`], [`Error::Newer`], [`Error::Locked`], [`Error::File`],
    /// [`Error::LogDamaged`], [`Error::LogCut`], [`Error::Corrupt`], and what the pool fails with. Files
    /// that are not ours are left as they are.
    #[cfg(unix)]
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database, Error> {
        self.check()?;
        let place = match self.read_only {
            true => files::open_to_read(path.as_ref())?,
            false => files::open(path.as_ref(), &self)?,
        };
        open::open(self, place)
    }

    /// Opens a database in whatever it is kept in. That nobody else has it open is for the caller to see to.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(self, parts: Parts) -> Result<Database, Error> {
        self.check()?;
        let place = Place::of(parts)?;
        match self.read_only {
            true => open::open(self, place.read_only()?),
            false => open::open(self, place),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let refused = |why| Err(Error::Options(why));
        if self.frames < LEAST_FRAMES {
            return refused(format!(
                "a database needs {LEAST_FRAMES} frames at least, not {}; give it more",
                self.frames
            ));
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
        Ok(())
    }

    /// The page size of a database that is to be made.
    pub(crate) fn new_page_size(&self) -> usize {
        self.page_size.unwrap_or(USUAL_PAGE)
    }

    /// The pool's options but for log and double-write area.
    pub(crate) fn take_pool(&mut self) -> Result<PoolOptions, Error> {
        let mut pool = PoolOptions::new(self.frames)
            .background(self.background)
            // Not under a parent's latch: operations do it before they begin.
            .throttle_at_fix(false);
        if let Some(spec) = &self.policy {
            pool = pool.policy(spec).map_err(of_pool)?;
        }
        let adjustments = std::mem::take(&mut self.adjustments);
        Ok(adjustments
            .into_iter()
            .fold(pool, |pool, adjust| adjust(pool)))
    }
}

pub(crate) fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (LEAST_PAGE..=LARGEST_PAGE).contains(&bytes)
}

fn of_pool(error: ebbpool::Error) -> Error {
    match error {
        ebbpool::Error::Options(why) => Error::Options(why),
        error => Error::Pool(error),
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("frames", &self.frames)
            .field("page_size", &self.page_size)
            .field("policy", &self.policy)
            .field("durability", &self.durability)
            .field("checkpoint_every", &self.checkpoint_every)
            .field("double_write", &self.double_write)
            .field("lock_patience", &self.patience)
            .field("background", &self.background)
            .field("create", &self.create)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("pages", &self.pages.describe())
            .field(
                "double_write",
                &self.double_write.as_ref().map(|it| it.describe()),
            )
            .finish_non_exhaustive()
    }
}
