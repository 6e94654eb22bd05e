//! How a database is opened.

use std::path::Path;
use std::time::Duration;

use ebbpool::PoolOptions;
use ebbpool::storage::Storage;

use crate::database::Database;
use crate::error::Error;
use crate::log::LogFile;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[must_use]
pub struct Options {}

/// What a database is kept in, where that is no path.
pub struct Parts {
    /// Pages.
    pub pages: Box<dyn Storage>,
    /// Images of pages that are about to be overwritten, from which torn ones are restored.
    pub double_write: Option<Box<dyn Storage>>,
    /// The log's files.
    pub log: [Box<dyn LogFile>; 2],
}

impl Options {
    /// So many frames for pages, 16 at least; as many as 8 for each thread.
    pub fn new(frames: u32) -> Self {
        todo!()
    }

    /// Bytes of a page, 4096 unless told: a power of two from 512 to 32768. Of a database that exists it is what it is, and this does not matter unless said.
    pub fn page_size(self, bytes: usize) -> Self {
        todo!()
    }

    /// The replacement policy, as `ebbpool policies` lists them.
    ///
    /// # Errors
    ///
    /// If there is no such policy, or it needs to know the future.
    pub fn policy(self, spec: &str) -> Result<Self, Error> {
        todo!()
    }

    /// What a commit waits for; [`Durability::Synced`] unless told.
    pub fn durability(self, durability: Durability) -> Self {
        todo!()
    }

    /// A checkpoint is taken whenever the log has become so many bytes longer; 64 MiB unless told.
    pub fn checkpoint_every(self, bytes: u64) -> Self {
        todo!()
    }

    /// Whether images of pages are kept beside, from which torn ones are restored; true unless told.
    /// Without it (for devices that write pages whole or not at all) a torn page is reported.
    pub fn double_write(self, kept: bool) -> Self {
        todo!()
    }

    /// How long a transaction waits for another that has a key; 1 second unless told.
    pub fn lock_patience(self, patience: Duration) -> Self {
        todo!()
    }

    /// Whether threads write back, read ahead, and take checkpoints; true unless told. Without them everything
    /// happens within calls.
    pub fn background(self, background: bool) -> Self {
        todo!()
    }

    /// Whether a database is made where there is none; true unless told.
    pub fn create(self, create: bool) -> Self {
        todo!()
    }

    /// Changes what the pool is opened with. Format, log and double-write area are the database's.
    pub fn pool(self, adjust: impl FnOnce(PoolOptions) -> PoolOptions + 'static) -> Self {
        todo!()
    }

    /// Opens a database in files: `path` has the pages, `path.log0` and `path.log1` the log, `path.torn`
    /// images of pages. Recovers first, if need be.
    ///
    /// # Errors
    ///
    /// [`Error::NotADatabase`], [`Error::Newer`], [`Error::Locked`], [`Error::File`],
    /// [`Error::LogDamaged`], [`Error::Corrupt`], and what the pool fails with. Files that are not ours
    /// are left as they are.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database, Error> {
        todo!()
    }

    /// Opens a database in whatever it is kept in.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(self, parts: Parts) -> Result<Database, Error> {
        todo!()
    }
}
