//! Errors of a replay.

use std::io;
use std::path::PathBuf;

use ebbpool::storage::OpenError;
use ebbpool_cost::ByteSize;

/// The smallest page size of a replay.
pub(crate) const LEAST_PAGE_SIZE: usize = 512;

/// Why a trace cannot be replayed. Front ends add the argument that corrects the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] ebbpool::PoolError),
    /// The file failed.
    #[error("{path}: cannot {what}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The caller stopped during the creation of the file.
    #[error("interrupted during the creation of {0}, which is unusable so far")]
    NotMade(PathBuf),
    /// The caller stopped.
    #[error("interrupted after {done} of {all} references, {warmup} of them warm-up; every page is intact")]
    Interrupted {
        /// References replayed.
        done: u64,
        /// References of the trace.
        all: u64,
        /// References of the warm-up.
        warmup: u64,
    },
    /// The storage acknowledged a write that it does not have.
    #[error("{path}: page {page} was written {expected} times and contains {found} of the writes; the storage loses writes")]
    Lost {
        /// The file.
        path: String,
        /// The page.
        page: u64,
        /// The number of writes that it contains.
        found: u64,
        /// The number of writes.
        expected: u32,
    },
    /// An offline policy.
    #[error("{0} needs to know future references, which a pool does not; only a simulation can run it")]
    Offline(String),
    /// A policy of a server that writes by itself.
    #[error(
        "{0} writes pages in the background, at checkpoints or at commits, which a pool does not; only a simulation can run it"
    )]
    WritesInBackground(String),
    /// A policy of a server that uses times and rings, on a trace that has them.
    #[error("{policy} uses the times and rings of {trace}, which a pool does not have; only a simulation can run it")]
    AsksRequests {
        /// The policy.
        policy: String,
        /// The trace.
        trace: String,
    },
    /// A trace with trims, of whose pages a pool does not record whether they were dirty when the counting began.
    #[error(
        "{trace}: has trims, and a pool does not record which of the pages that end were dirty before the counting began; replay it without a warm-up (--warmup 0)"
    )]
    TrimsAfterWarmup {
        /// The trace.
        trace: String,
    },
    /// A page size that a pool cannot have.
    #[error("pages of {0} bytes cannot be replayed; the page size must be a power of two and at least {LEAST_PAGE_SIZE}")]
    PageSize(u64),
    /// A page number that no file can have.
    #[error("{trace}: a file cannot have a page {page}; number the pages of the trace from 0")]
    PageNumber {
        /// The trace.
        trace: String,
        /// The page.
        page: u64,
    },
    /// The pages do not fit into memory.
    #[error("the trace's pages need {}, too much for memory; number its pages from 0", ByteSize::new(*.0))]
    TooLarge(u64),
    /// Too many pages to count.
    #[error("there is not enough memory to count {0} pages; number the pages of the trace from 0")]
    TooManyPages(u64),
    /// The file does not exist, and the request does not create it.
    #[error("{}: does not exist; it would have {}", path.display(), ByteSize::new(*.bytes))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The size that it would have.
        bytes: u64,
    },
    /// The file is empty, and the request does not create it.
    #[error("{}: is empty", .0.display())]
    Empty(PathBuf),
    /// The file belongs to another replay.
    #[error("{}: {why}; name another file", path.display())]
    OtherTrace {
        /// The file.
        path: PathBuf,
        /// The difference that identifies it.
        why: String,
    },
    /// The file does not belong to a replay.
    #[error("{}: {why}; name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The difference that identifies it.
        why: String,
    },
    /// The caller's user does not want to lose the contents of the file.
    #[error("{} is unchanged", .0.display())]
    LeftAlone(PathBuf),
}

impl ReplayError {
    /// True if the request is wrong, so that a corrected one may succeed.
    pub fn is_request(&self) -> bool {
        match self {
            ReplayError::Open(error) => matches!(error, OpenError::PageSize(_) | OpenError::NotAFile(_) | OpenError::Uring(_)),
            ReplayError::Pool(error) => matches!(error, ebbpool::PoolError::Options(_)),
            ReplayError::Io { .. } | ReplayError::NotMade(_) | ReplayError::Interrupted { .. } | ReplayError::Lost { .. } => {
                false
            }
            _ => true,
        }
    }
}
