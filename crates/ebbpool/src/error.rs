//! The errors of a pool.

use std::io;
use std::time::Duration;

use crate::log::Lsn;
use crate::page::Damage;
use crate::pool::Pool;

/// Why a call of the pool failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// An option makes no sense, or the storage does not suit it.
    #[error("{0}")]
    Options(String),
    /// There is no memory for the frames.
    #[error("there is no memory for {frames} frames of {page_size} bytes")]
    Memory {
        /// The number of frames requested.
        frames: u32,
        /// Bytes of a page.
        page_size: usize,
    },
    /// There is no memory for the table of the [`dense_pages`](crate::PoolOptions::dense_pages).
    #[error("there is no memory for the table of {pages} dense pages, with 4 bytes for each")]
    TableMemory {
        /// The number of dense pages requested.
        pages: usize,
    },
    /// A page could not be read. It is not resident, and the caller may try again.
    #[error("page {page} cannot be read: {source}")]
    Read {
        /// The page.
        page: u64,
        /// The storage's error.
        source: io::Error,
    },
    /// A page could not be written. It is still resident and dirty: nothing is lost as long as the
    /// program runs.
    #[error("page {page} cannot be written, and stays in memory: {source}")]
    Write {
        /// The page. It need not be the one that the caller fixed, but may be the victim.
        page: u64,
        /// The storage's error.
        source: io::Error,
    },
    /// A page is not as it was written.
    #[error("page {page} is damaged: {damage}")]
    Damaged {
        /// The page.
        page: u64,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A thread panicked while it was changing the page. The bytes may be half changed, and are never written;
    /// [`Pool::discard`](crate::Pool::discard) returns to what is in storage.
    #[error("page {page} is unusable: a thread panicked while it was changing it")]
    Abandoned {
        /// The page.
        page: u64,
    },
    /// All frames were pinned for as long as the pool's patience.
    #[error(
        "all {frames} frames have been pinned for {waited:?}; unfix pages, or open the pool with more frames"
    )]
    AllPinned {
        /// Frames of the pool.
        frames: u32,
        /// How long the caller waited.
        waited: Duration,
    },
    /// Another guard, perhaps one of the caller's own, latched the page for as long as the pool's patience.
    #[error("page {page} has been latched by another guard for {waited:?}")]
    Latched {
        /// The page.
        page: u64,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A sync of the storage failed, and since then it is unknown which of the pages written before survive a crash.
    /// The pool reads, and no longer writes: reopen it, and recover from the log.
    #[error("the pool no longer writes, since a sync failed: {cause}")]
    Poisoned {
        /// The storage's error message.
        cause: String,
    },
    /// The log could not be made durable, so the page must not be written.
    #[error("the log cannot be forced up to LSN {lsn}: {source}")]
    Log {
        /// The LSN up to which it has to be durable.
        lsn: Lsn,
        /// The log's error.
        source: io::Error,
    },
    /// The log reported that it was durable up to an LSN, and is not. The page was not written.
    #[error("page {page} is as of LSN {lsn}, and the log is durable up to {durable} only")]
    WriteAhead {
        /// The page.
        page: u64,
        /// The LSN of its latest change.
        lsn: Lsn,
        /// The LSN up to which the log is durable.
        durable: Lsn,
    },
    /// The storage could not be made longer.
    #[error("the storage cannot grow to {pages} pages: {source}")]
    Grow {
        /// The number of pages requested.
        pages: u64,
        /// The storage's error.
        source: io::Error,
    },
    /// The double-write area has the images of other data: they would overwrite this data's pages.
    #[error(
        "the double-write area ({area}) is that of data with the identity {found:#x}, and this data has {}; give it its own area, or remove this one if its data is gone",
        identity(*expected)
    )]
    ForeignArea {
        /// A description of the area.
        area: String,
        /// The identity of the data whose images it has.
        found: u64,
        /// The identity of the data that it was opened for; 0 for none.
        expected: u64,
    },
    /// Another call to the storage failed.
    #[error("{what}: {source}")]
    Storage {
        /// The step that failed, as part of the message.
        what: &'static str,
        /// The storage's error.
        source: io::Error,
    },
}

/// Why a pool could not be closed, and the pool: its dirty pages are nowhere else.
///
/// `?` drops the pool where a function returns [`PoolError`] or any error.
#[derive(Debug, thiserror::Error)]
#[error("the pool cannot be closed: {source}")]
pub struct CloseError {
    pool: Pool,
    source: PoolError,
}

impl CloseError {
    pub(crate) fn new(pool: Pool, source: PoolError) -> CloseError {
        CloseError { pool, source }
    }

    /// Why it could not be closed.
    pub fn error(&self) -> &PoolError {
        &self.source
    }

    /// The pool, open as before.
    pub fn into_pool(self) -> Pool {
        self.pool
    }

    /// The pool, open as before, and why it could not be closed.
    pub fn into_parts(self) -> (Pool, PoolError) {
        (self.pool, self.source)
    }
}

/// Drops the pool.
impl From<CloseError> for PoolError {
    fn from(error: CloseError) -> PoolError {
        error.source
    }
}

fn identity(number: u64) -> String {
    match number {
        0 => "none".into(),
        number => format!("{number:#x}"),
    }
}
