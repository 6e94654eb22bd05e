//! What a pool may fail with.

use std::io;
use std::time::Duration;

use crate::log::Lsn;
use crate::page::Damage;

/// What a call of the pool failed with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option makes no sense, or the storage does not suit it.
    #[error("{0}")]
    Options(String),
    /// There is no memory for the frames.
    #[error("there is no memory for {frames} frames of {page_size} bytes")]
    Memory {
        /// Frames asked for.
        frames: u32,
        /// Bytes of a page.
        page_size: usize,
    },
    /// A page could not be read. It is not resident, and reading it may be tried again.
    #[error("page {page} cannot be read: {source}")]
    Read {
        /// The page.
        page: u64,
        /// What the storage says.
        source: io::Error,
    },
    /// A page could not be written. It is still resident and dirty: nothing is lost as long as the
    /// program runs.
    #[error("page {page} cannot be written, and stays in memory: {source}")]
    Write {
        /// The page, which need not be the one asked for: it had to make room.
        page: u64,
        /// What the storage says.
        source: io::Error,
    },
    /// A page is not as it was written.
    #[error("page {page} is damaged: {damage}")]
    Damaged {
        /// The page.
        page: u64,
        /// How one knows.
        damage: Damage,
    },
    /// A thread panicked while it was changing the page. Its bytes are not what anybody meant, and are
    /// never written; [`Pool::discard`](crate::Pool::discard) brings back what is in storage.
    #[error("page {page} is unusable: a thread panicked while it was changing it")]
    Abandoned {
        /// The page.
        page: u64,
    },
    /// All frames were pinned for as long as the caller was ready to wait.
    #[error(
        "all {frames} frames have been pinned for {waited:?}; unfix pages, or open the pool with more frames"
    )]
    AllPinned {
        /// Frames of the pool.
        frames: u32,
        /// How long it was tried.
        waited: Duration,
    },
    /// The page was latched by somebody else for as long as the caller was ready to wait; by the
    /// caller itself, perhaps.
    #[error("page {page} has been latched by another guard for {waited:?}")]
    Latched {
        /// The page.
        page: u64,
        /// How long it was tried.
        waited: Duration,
    },
    /// The storage could not be synced once, and since then nobody knows what of the pages written
    /// before survives a crash. The pool reads, and no longer writes: reopen it, and recover from the log.
    #[error("the pool no longer writes, since a sync failed: {cause}")]
    Poisoned {
        /// What the storage said then.
        cause: String,
    },
    /// The log could not be made durable, and so the page may not be written.
    #[error("the log cannot be forced up to LSN {lsn}: {source}")]
    Log {
        /// How far it had to be.
        lsn: Lsn,
        /// What the log says.
        source: io::Error,
    },
    /// The log said it was durable up to an LSN, and is not. The page was not written.
    #[error("page {page} is as of LSN {lsn}, and the log is durable up to {durable} only")]
    WriteAhead {
        /// The page.
        page: u64,
        /// The LSN of its latest change.
        lsn: Lsn,
        /// What the log is durable up to.
        durable: Lsn,
    },
    /// The storage could not be made longer.
    #[error("the storage cannot grow to {pages} pages: {source}")]
    Grow {
        /// Pages wanted.
        pages: u64,
        /// What the storage says.
        source: io::Error,
    },
    /// The double-write area has the images of other data: they would overwrite this data's pages.
    #[error(
        "the double-write area ({area}) is that of data with the identity {found:#x}, and this data has {}; give it its own area, or remove this one if its data is gone",
        identity(*expected)
    )]
    ForeignArea {
        /// What the area is.
        area: String,
        /// The identity of the data whose images it has.
        found: u64,
        /// The identity of the data that it was opened for; 0 for none.
        expected: u64,
    },
    /// Another call to the storage failed.
    #[error("{what}: {source}")]
    Storage {
        /// What was tried.
        what: &'static str,
        /// What the storage says.
        source: io::Error,
    },
}

fn identity(number: u64) -> String {
    match number {
        0 => "none".into(),
        number => format!("{number:#x}"),
    }
}
