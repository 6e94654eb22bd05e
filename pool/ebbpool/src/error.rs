//! The errors of a pool.

use std::io;
use std::time::Duration;

use ebbpool_policy::SpecError;

use crate::log::Lsn;
use crate::page::Damage;
use crate::pool::Pool;

/// Why a call of the pool failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// An option makes no sense, or the storage does not suit it.
    #[error(transparent)]
    Options(#[from] OptionsError),
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
    #[error("all {frames} frames have been pinned for {waited:?}; unfix pages, or open the pool with more frames")]
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
    /// The page's number is not below [`most_pages`](crate::PoolOptions::most_pages), or what the files of a pool of several have.
    #[error(
        "there is no page {page}: the numbers of pages are below {most} (by the option most_pages, or the number of files)"
    )]
    NoPage {
        /// The number.
        page: u64,
        /// The most pages.
        most: u64,
    },
    /// The storage takes no writes, and so no page can be fixed for writing.
    #[error("the storage is open for reading only, and no page of it can be changed")]
    ReadOnly,
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
    /// The storage was not made shorter.
    #[error("the pages from {pages} on cannot be cut off: {source}")]
    Truncate {
        /// The number of pages requested.
        pages: u64,
        /// The storage's error, or that a page is in use.
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
    /// A function that the pool calls under a lock has called the pool, which would wait for itself.
    #[error("the pool was called by its own on_fix, on_event or policy, which it calls under a lock")]
    InCallback,
    /// Another call to the storage failed.
    #[error("{what}: {source}")]
    Storage {
        /// The step that failed, as part of the message.
        what: &'static str,
        /// The storage's error.
        source: io::Error,
    },
}

/// Why options make no sense, or do not suit the storage.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// There is no such policy or parameter.
    #[error(transparent)]
    Policy(Box<SpecError>),
    /// The policy needs to know the future.
    #[error("{policy} needs to know future references, and a pool does not know them")]
    Offline {
        /// The policy.
        policy: String,
    },
    /// The policy makes checkpoints.
    #[error("{policy} makes checkpoints or commits, and a pool makes its own; leave these parameters out")]
    Checkpoints {
        /// The policy.
        policy: String,
    },
    /// The policy needs the erase counts of blocks.
    #[error("{policy} asks how often blocks were erased, and {storage} does not report that; a simulated flash device does")]
    EraseCounts {
        /// The policy.
        policy: String,
        /// A description of the storage.
        storage: String,
    },
    /// The policy writes pages that no caller has changed, and there is no double-write area.
    #[error(
        "{policy} writes pages that no caller has changed, and a crash during such a write may damage them; open the pool with a double-write area, or take the policy without padding"
    )]
    Padding {
        /// The policy.
        policy: String,
    },
    /// The caller's policy panicked when it was asked for its capabilities; the message.
    #[error("{0}")]
    PolicyPanicked(String),
    /// A number of frames that a pool cannot have.
    #[error("a pool has 1 to {most} frames, not {frames}")]
    Frames {
        /// The number of frames.
        frames: u32,
        /// The most frames.
        most: u32,
    },
    /// Fewer frames at most than at first, or more than a pool can have.
    #[error("most_frames is at least the number of frames, {frames}, and no more than a pool can have; {most} is not")]
    MostFrames {
        /// The most frames.
        most: u32,
        /// The number of frames at first.
        frames: u32,
    },
    /// The policy works with a fixed number of frames only.
    #[error("{policy} cannot change its number of frames; ebb, lru and clock are among those that can")]
    Resize {
        /// The policy.
        policy: String,
    },
    /// A number of frames to which the pool cannot be resized.
    #[error("the pool cannot have {frames} frames: {}", resizable(.most))]
    ResizeTo {
        /// The number of frames.
        frames: u32,
        /// The most frames, if the pool can be resized.
        most: Option<u32>,
    },
    /// The files of a pool of several do not suit each other.
    #[error("the files of a pool {0}")]
    Files(String),
    /// A page size that a pool cannot have.
    #[error("pages of {bytes} bytes are not possible; a power of two from {least} up is")]
    PageSize {
        /// The page size.
        bytes: usize,
        /// The least page size.
        least: usize,
    },
    /// A dirty budget that is no share.
    #[error("the dirty budget is a share of the frames, from 0 to 1, not {0}")]
    DirtyBudget(f64),
    /// A double-write area for raw pages.
    #[error("a double-write area needs PageFormat::Checked: a raw page has no checksum that would show that it is torn")]
    RawDoubleWrite,
    /// The pages of a double-write area are too small.
    #[error("the double-write area needs pages of at least {least} bytes, not {bytes}")]
    AreaPageSize {
        /// The page size.
        bytes: usize,
        /// The least page size.
        least: usize,
    },
    /// The pages of a double-write area have another size than those of the data.
    #[error("pages of the double-write area have {area} bytes, and those of the data {data}")]
    UnequalPageSizes {
        /// The page size of the area.
        area: usize,
        /// The page size of the data.
        data: usize,
    },
    /// A later version of the program wrote the double-write area.
    #[error(
        "the double-write area is of version {found}, and this program knows versions up to {supported}; open it with the program that wrote it"
    )]
    NewerArea {
        /// The version of the double-write area.
        found: u32,
        /// The latest version that this program reads.
        supported: u32,
    },
}

impl From<SpecError> for OptionsError {
    fn from(error: SpecError) -> OptionsError {
        OptionsError::Policy(Box::new(error))
    }
}

/// Why a pool could not be closed, and the pool: its dirty pages are nowhere else.
///
/// `?` drops the pool where a function returns [`PoolError`] or any error.
#[derive(Debug, thiserror::Error)]
#[error("the pool cannot be closed: {source}")]
pub struct CloseError {
    pool: Pool,
    source: Box<PoolError>,
}

impl CloseError {
    pub(crate) fn new(pool: Pool, source: PoolError) -> CloseError {
        let source = Box::new(source);
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
        (self.pool, *self.source)
    }
}

/// Drops the pool.
impl From<CloseError> for PoolError {
    fn from(error: CloseError) -> PoolError {
        *error.source
    }
}

fn resizable(most: &Option<u32>) -> String {
    match most {
        Some(most) => format!("it was opened for 1 to {most}"),
        None => "open it with the option most_frames, to change their number".into(),
    }
}

fn identity(number: u64) -> String {
    match number {
        0 => "none".into(),
        number => format!("{number:#x}"),
    }
}
